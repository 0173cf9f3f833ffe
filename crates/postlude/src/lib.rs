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
//! # Run a kernel
//!
//! Arguments are borrowed, sizes follow from their shapes, and outputs come back by name.
//!
//! ```
//! use postlude::{Kernel, TensorView};
//!
//! let kernel = Kernel::parse(
//!     "kernel linear(A: f32[M, K], W: f32[N, K], bias: f32[N]) -> (D: f32[M, N], peak: f32[]) {
//!     Z = A @ W.T + bias
//!     D = relu(Z)
//!     peak = max(abs(Z))
//! }",
//! )?;
//! let (a, w, bias) = ([1.0f32, 2.0], [1.0f32, 0.0, 0.0, 1.0, -1.0, -1.0], [0.5f32, 0.5, -0.5]);
//! let outputs = kernel.run([
//!     ("A", TensorView::new(&a, [1, 2])?),
//!     ("W", TensorView::new(&w, [3, 2])?),
//!     ("bias", TensorView::new(&bias, [3])?),
//! ])?;
//! assert_eq!(outputs["D"].values(), [1.5, 2.5, 0.0]);
//! assert_eq!(outputs["peak"].values(), [3.5]);
//! # Ok::<(), postlude::Error>(())
//! ```
//!
//! # Plan once, run many times
//!
//! [`Compiled::prepare`] plans a problem on the CPU; its calls take no memory of their own and may come from any thread.
//! [`Compiled::prepare_on`] does the same on a GPU, for tensors that lie there.
//!
//! ```
//! use postlude::{Kernel, Options, Sizes, TensorView, TensorViewMut};
//!
//! let kernel = Kernel::parse("kernel f(A: f32[M, K], W: f32[N, K]) -> D: f32[M, N] { D = relu(A @ W.T) }")?;
//! let compiled = kernel.compile(&Options::default());
//! let sizes = Sizes::from([("M", 1), ("N", 2), ("K", 2)].map(|(dim, size)| (dim.to_owned(), size)));
//! let prepared = compiled.prepare(&compiled.problem(&sizes)?)?;
//! let (w, mut d) = ([3.0f32, 4.0, -5.0, -6.0], [0.0f32; 2]);
//! for a in [[1.0f32, 2.0], [2.0, 1.0]] {
//!     let inputs = [TensorView::new(&a, [1, 2])?.into(), TensorView::new(&w, [2, 2])?.into()];
//!     prepared.run(&inputs, &mut [TensorViewMut::new(&mut d, [1, 2])?])?;
//! }
//! assert_eq!(d, [10.0, 0.0]);
//! # Ok::<(), postlude::Error>(())
//! ```
//!
//! # Build a kernel, and check what it computes
//!
//! [`build`] has Rust's operators; a check compares outputs with the reference and its derived bounds.
//!
//! ```
//! use postlude::build::KernelBuilder;
//! use postlude::{Arguments, DType, Kernel, Options, Sizes, Tensor};
//!
//! let k = KernelBuilder::new("linear");
//! let (a, w) = (k.input("A", DType::BF16, ["M", "K"]), k.input("W", DType::BF16, ["N", "K"]));
//! k.output("D", DType::F32, ["M", "N"], a.matmul(w.t()).softmax("N"));
//! let compiled = Kernel::from_ast(k.finish())?.compile(&Options::default());
//!
//! let ones = |shape| Tensor::from_values(DType::BF16, shape, &[1.0; 6]);
//! let arguments = Arguments::from([
//!     ("A".to_owned(), ones([2, 3])?.into()),
//!     ("W".to_owned(), ones([2, 3])?.into()),
//! ]);
//! let problem = compiled.bind(&arguments, &Sizes::new())?;
//! let mut outputs = compiled.outputs(&problem)?;
//! compiled.run_into(&problem, &arguments, &mut outputs)?;
//! assert_eq!(outputs[0].values(), [0.5; 4]);
//! assert!(compiled.check(&problem, &arguments, &outputs)?.iter().all(|output| output.worst <= 1.0));
//! # Ok::<(), postlude::Error>(())
//! ```
//!
//! # Arrays of `ndarray`
//!
//! With the feature `ndarray` (`postlude = { version = "0.1", features = ["ndarray"] }`) arrays of any order of their axes
//! are arguments and outputs, without a copy. An array with gaps between its elements is an error: copy it first.
//!
#![cfg_attr(feature = "ndarray", doc = "```")]
#![cfg_attr(not(feature = "ndarray"), doc = "```ignore")]
//! use ndarray::{Array2, array};
//! use postlude::{Arguments, Kernel, Options, Sizes, TensorView, TensorViewMut};
//!
//! let kernel = Kernel::parse("kernel f(A: f32[M, K], W: f32[N, K]) -> D: f32[M, N] { D = relu(A @ W.T) }")?;
//! let (a, w) = (array![[1.0f32, 2.0]], array![[3.0f32, -5.0], [4.0, -6.0]]);
//! // `w` lies as [K, N]; its transpose is the weight.
//! let arguments = Arguments::from([
//!     ("A".to_owned(), TensorView::try_from(&a)?.into()),
//!     ("W".to_owned(), TensorView::try_from(w.t())?.into()),
//! ]);
//! let compiled = kernel.compile(&Options::default());
//! let problem = compiled.bind(&arguments, &Sizes::new())?;
//! let mut d = Array2::<f32>::zeros((1, 2));
//! compiled.call(&problem, &arguments, [TensorViewMut::try_from(&mut d)?])?.run()?;
//! assert_eq!(d, array![[11.0, 0.0]]);
//! # Ok::<(), postlude::Error>(())
//! ```
//!
//! The language, its functions and every error are in `docs/language.md` of the repository, what a kernel means to the
//! bit in `docs/numerics.md`. Modules that this page does not show are the stages of the compiler; they change freely.

// Other ways to run what one launch refuses are ways of the two backends that have launches.
#![cfg_attr(not(any(feature = "cuda", feature = "sim")), allow(dead_code, unused_imports))]

pub mod build;
#[doc(hidden)]
pub mod catalogue;
#[doc(hidden)]
pub mod check;
#[doc(hidden)]
pub mod cpu;
#[cfg(feature = "cuda")]
pub mod cuda;
#[doc(hidden)]
pub mod define;
#[doc(hidden)]
pub mod differentiate;
#[doc(hidden)]
pub mod dtype;
mod error;
#[doc(hidden)]
pub mod functions;
#[doc(hidden)]
pub mod graph;
pub(crate) mod image;
mod kernel;
#[doc(hidden)]
pub mod lower;
#[doc(hidden)]
pub mod optimise;
mod partition;
#[doc(hidden)]
pub mod placement;
#[doc(hidden)]
pub mod plan;
#[doc(hidden)]
pub mod problem;
mod process;
mod program;
#[doc(hidden)]
pub mod reference;
#[cfg(feature = "cuda")]
#[doc(hidden)]
pub mod runtime;
#[doc(hidden)]
pub mod shape;
#[cfg(feature = "sim")]
#[doc(hidden)]
pub mod sim;
#[doc(hidden)]
pub mod syntax;
#[doc(hidden)]
pub mod target;
#[doc(hidden)]
pub mod tensor;
pub mod tuning;

pub use check::{Bindings, Bound};
pub use differentiate::{Derived, Save};
pub use dtype::DType;
pub use error::{Diagnostic, Error};
pub use graph::MathMode;
#[doc(hidden)]
pub use kernel::Hooks;
pub use kernel::{Backend, Call, Compiled, Kernel, Options, Outputs, Prepared};
pub use problem::{Argument, Arguments, Problem, Sizes};
#[doc(hidden)]
pub use program::{Chosen, KernelLaunch, LaunchForm, LaunchStores, Partition, Workspace};
pub use reference::{Comparison, Coverage, Difference, Extent};
pub use tensor::{Element, Tensor, TensorError, TensorView, TensorViewMut};

/// The examples of the README are tested with the crate's own.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
pub struct Readme;
