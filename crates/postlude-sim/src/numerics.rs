//! Arithmetic as the hardware does it, to the bit where it is known.
//!
//! In: bits of registers and memory. Out: bits. Nothing here knows of threads, time or programs.
//!
//! - [`tensor`] is the product of one matrix instruction.

pub mod tensor;

#[cfg(test)]
mod random;
