//! The yardstick: how fast Postlude's kernels are on a GPU, beside cuBLASLt and the hardware's own limits.
//!
//! In: rows of [`suite`] and a GPU. Out: a [`report::Report`], row after row. Rules that every number keeps:
//!
//! - Competitors are timed in one interleaved run ([`rounds`]); what counts is the ratio of a round, not a time.
//! - The host is hidden: a round is queued behind a kernel that waits ([`sleep`]).
//! - Inputs are random ([`random`]), in several sets of buffers that together exceed twice the L2 ([`data`]).
//! - Results are checked on poisoned outputs before anything is timed ([`check`]).
//! - Limits are measured in the same run: products alone ([`ceiling`]) and copies alone ([`copy`]).

#![deny(unsafe_code)]

mod bench;
pub mod ceiling;
pub mod check;
pub mod copy;
pub mod cublaslt;
pub mod data;
pub mod effort;
pub mod energy;
mod error;
pub mod first_use;
pub mod layout;
pub mod machine;
pub mod measure;
pub mod peers;
mod program;
pub mod random;
pub mod regime;
pub mod report;
pub mod rounds;
pub mod search;
pub mod shuffle;
pub mod sleep;
pub mod statistics;
pub mod suite;

pub use error::YardstickError;
