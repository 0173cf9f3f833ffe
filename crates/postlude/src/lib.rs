//! Postlude compiles the math written after a matrix product into the product's own kernel.

pub mod catalogue;
pub mod check;
pub mod define;
pub mod dtype;
pub mod functions;
pub mod graph;
pub mod optimise;
pub mod shape;
pub mod syntax;
