//! Kernels for a GPU in the simulator: planned and emitted as for a GPU, run on the processor.
//!
//! ```text
//! host tensors ─ image ─> Placements ─ plan ─> Schedule ─ emit ─> PTX, launch facts ─ postlude_sim ─> outputs, Report
//! ```
//!
//! In: a kernel and a call's host tensors. Out: its outputs, and what the simulator has against the code.
//! Invariant: the text and the facts are those that an H200 would get, and every buffer has the bounds of its tensor, so
//! that an access outside of it is a finding.

mod call;
mod options;
mod run;

pub use crate::error::SimulationError;
pub(crate) use call::Laying;
pub use call::{EachLaunch, SimCall};
pub use options::{SimOptions, accept};
pub use postlude_sim::{Diagnosis, Finding, Report, Timing};
pub(crate) use run::Run;
