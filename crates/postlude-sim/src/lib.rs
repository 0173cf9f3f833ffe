//! Runs a PTX program on the CPU and says what is wrong with it.
//!
//! In: the text that the driver would get, and the facts of its launch. Out: what it wrote, findings, and meters.
//!
//! - [`run`] is the way in; [`timing`] says when copies and matrix products complete.
//! - [`report`] is what a run tells; [`observe`] is how others watch it.
//! - `program` reads text into steps; `machine` holds CTAs, warps and memory; `schedule` says who runs next; `execute` runs
//!   one step; `operation` is what goes on meanwhile.

#![forbid(unsafe_code)]

mod alu;
mod atomic;
mod barrier;
mod error;
mod execute;
mod machine;
mod matrix;
mod memory;
pub mod numerics;
pub mod observe;
mod operation;
mod parameters;
mod program;
pub mod report;
mod run;
mod scalar;
mod schedule;
pub mod timing;
mod warp;

pub use error::SimError;
pub use report::{Diagnosis, Finding, Meters, Report};
pub use run::{Options, run, run_observed};
pub use timing::Timing;
