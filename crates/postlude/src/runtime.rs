//! The run time: from PTX and launch facts to results on an NVIDIA GPU, with nothing but its driver.
//!
//! ```text
//! PTX ─ load ─> Function ─ prepare ─> PreparedLaunch ─ launch ─> work on a Stream
//!        │ memory, disk, driver         │ validated, encoded        (asynchronous, a few microseconds)
//! ```
//!
//! In: a program's text and [`postlude_ptx::launch::Launch`], tensors on a GPU. Out: kernels queued on the caller's
//! stream. Everything may be used from any thread. The GPU's primary context is shared with other libraries of the
//! process and never destroyed; whatever context was current before a call is current after it.
//!
//! Invariant: nothing unchecked reaches the driver. Sizes, alignments, boxes, grids, parameters and overlaps are refused
//! here with an error that says what to do, and a machine without a driver gets [`RuntimeError::NoDriver`].

pub mod cache;
mod compile;
mod device;
mod driver;
mod error;
mod function;
mod launch;
mod overlap;
mod parameters;
mod signature;
mod tensor;
pub mod tensor_map;
mod validate;
pub mod version;
mod workspace;

pub use compile::{CompileLog, Usage};
pub use device::Device;
pub use driver::{DeviceBuffer, Event, Stream};
pub(crate) use driver::{Order, relaxed_capture, zero};
pub use error::{ListFact, RuntimeError};
pub use function::{Function, Origin};
pub use launch::PreparedLaunch;
pub(crate) use overlap::overlap;
pub use tensor::DeviceTensor;
pub use validate::{DeviceArgument, check_memory, validate};
