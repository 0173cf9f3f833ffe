//! Arithmetic as the hardware does it, to the bit where it is known.
//!
//! In: bits of registers and memory. Out: bits. Nothing here knows of threads, time or programs.
//!
//! - [`tensor`] is the sum of one matrix instruction.
//! - [`swizzle`], [`descriptor`] and [`tensor_map`] are where its operands lie.
//! - [`convert`] is every conversion; [`arithmetic`] is what registers do among each other.
//! - [`approx`] is the functions whose bits are not known, within what is stated of them.

pub mod approx;
pub mod arithmetic;
pub mod convert;
pub mod descriptor;
mod float;
pub mod swizzle;
pub mod tensor;
pub mod tensor_map;

#[cfg(test)]
mod random;
