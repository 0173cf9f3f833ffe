//! Postlude compiles the math written after a matrix product into the product's own kernel.
//!
//! A kernel is one matrix product and the math after it. It is written as text or built with Rust's operators, typed,
//! given a stable meaning, and run in one fused pass. The [`mod@reference`] evaluator is the definition: it says for every
//! element of every output what a conforming engine may make of it.
//!
//! ```text
//! text ─┬─> Ast ─ check ─> define ─> Graph ─┬─ reference (the meaning, with error bounds)
//! Rust ─┘                                   └─ optimise ─> Graph ─ plan ─> Schedule ─ cpu ─> result
//! ```
//!
//! ```
//! use postlude::build::KernelBuilder;
//! use postlude::{Argument, Arguments, DType, Kernel, Options, Sizes, Tensor};
//!
//! // As text.
//! let kernel = Kernel::parse(
//!     "kernel linear(A: f32[M, K], W: f32[N, K], bias: f32[N]) -> (D: f32[M, N], peak: f32[]) {
//!     Z = A @ W.T + bias
//!     D = relu(Z)
//!     peak = max(abs(Z))
//! }",
//! )?;
//!
//! // The same kernel, built with Rust's operators.
//! let k = KernelBuilder::new("linear");
//! let a = k.input("A", DType::F32, ["M", "K"]);
//! let w = k.input("W", DType::F32, ["N", "K"]);
//! let bias = k.input("bias", DType::F32, ["N"]);
//! let z = k.name("Z", a.matmul(w.t()) + bias);
//! k.output("D", DType::F32, ["M", "N"], z.relu());
//! k.output("peak", DType::F32, [], z.abs().max_all());
//! assert_eq!(Kernel::from_ast(k.finish())?, kernel);
//!
//! // Bound to data, run, and compared with the reference.
//! let tensor = |shape: &[usize], values: &[f64]| Tensor::from_values(DType::F32, shape.to_vec(), values);
//! let arguments = Arguments::from([
//!     ("A".to_owned(), Argument::Tensor(tensor(&[1, 2], &[1.0, 2.0])?)),
//!     ("W".to_owned(), Argument::Tensor(tensor(&[3, 2], &[1.0, 0.0, 0.0, 1.0, -1.0, -1.0])?)),
//!     ("bias".to_owned(), Argument::Tensor(tensor(&[3], &[0.5, 0.5, -0.5])?)),
//! ]);
//! let compiled = kernel.compile(&Options::default());
//! let problem = compiled.bind(&arguments, &Sizes::new())?;
//! let mut outputs = compiled.outputs(&problem)?;
//! compiled.run_into(&problem, &arguments, &mut outputs)?;
//! assert_eq!(outputs[0].values(), [1.5, 2.5, 0.0]);
//! assert_eq!(outputs[1].values(), [3.5]);
//! assert!(compiled.check(&problem, &arguments, &outputs).iter().all(|output| output.worst <= 1.0));
//! # Ok::<(), postlude::Error>(())
//! ```
//!
//! The language, its functions and every error are in `docs/language.md` of the repository, what a kernel means to the
//! bit in `docs/numerics.md`.

pub mod build;
pub mod catalogue;
pub mod check;
pub mod cpu;
#[cfg(feature = "cuda")]
pub mod cuda;
pub mod define;
pub mod dtype;
pub mod emit;
mod error;
pub mod functions;
pub mod graph;
#[cfg(any(feature = "cuda", feature = "sim"))]
pub(crate) mod image;
mod kernel;
pub mod optimise;
pub mod plan;
pub mod problem;
pub mod reference;
#[cfg(feature = "cuda")]
pub mod runtime;
pub mod shape;
#[cfg(feature = "sim")]
pub mod sim;
pub mod syntax;
pub mod tensor;

pub use check::{Bindings, Bound};
pub use dtype::DType;
pub use error::{Diagnostic, Error};
pub use graph::MathMode;
pub use kernel::{Backend, Call, Compiled, Kernel, Options, Outputs, Prepared};
pub use problem::{Argument, Arguments, Problem, Sizes};
pub use tensor::{Element, Tensor, TensorError, TensorView, TensorViewMut};

/// The examples of the README are tested with the crate's own.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
pub struct Readme;
