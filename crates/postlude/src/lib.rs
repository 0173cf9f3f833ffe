//! Postlude compiles the math written after a matrix product into the product's own kernel.

pub mod build;
pub mod catalogue;
pub mod check;
pub mod cpu;
pub mod define;
pub mod dtype;
mod error;
pub mod functions;
pub mod graph;
mod kernel;
pub mod optimise;
pub mod plan;
pub mod problem;
pub mod reference;
pub mod shape;
pub mod syntax;
pub mod tensor;

pub use check::{Bindings, Bound};
pub use dtype::DType;
pub use error::{Diagnostic, Error};
pub use graph::MathMode;
pub use kernel::{Backend, Compiled, Kernel, Options};
pub use problem::{Argument, Arguments, Problem, Sizes};
pub use tensor::{Tensor, TensorError};
