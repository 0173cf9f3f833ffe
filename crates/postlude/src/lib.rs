//! Postlude compiles the math written after a matrix product into the product's own kernel.

#[allow(dead_code, reason = "called by the CPU backend's driver")]
pub(crate) mod cpu;
pub mod dtype;
pub mod shape;
pub mod syntax;
