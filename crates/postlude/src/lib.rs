//! Postlude compiles the math written after a matrix product into the product's own kernel.

pub mod build;
pub mod dtype;
pub mod shape;
pub mod syntax;
