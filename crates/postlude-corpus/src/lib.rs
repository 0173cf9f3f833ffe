//! The cases that every engine runs, the kernels they use and the data they draw.

#![forbid(unsafe_code)]

pub mod fill;

pub use fill::{Fill, fill, seed_for};
