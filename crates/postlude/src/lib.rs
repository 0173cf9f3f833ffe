//! Postlude compiles the math written after a matrix product into the product's own kernel.

pub mod catalogue;
pub mod check;
pub mod define;
pub mod dtype;
pub mod functions;
pub mod graph;
pub mod problem;
pub mod reference;
pub mod shape;
pub mod syntax;
pub mod tensor;

pub use dtype::DType;
pub use tensor::{Tensor, TensorError};
