//! How a problem is run on the CPU, or why it is not: plain data.

use crate::lower::Width;

/// Why a problem is not run.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Refusal {
    /// More memory than an address space has, or than is free.
    #[error("this problem needs {need} bytes for {what}; {have} are available")]
    Memory {
        /// What the memory is for.
        what: &'static str,
        /// Bytes needed.
        need: usize,
        /// Bytes there are.
        have: usize,
    },
    /// More threads than the system gives.
    #[error("the system does not give {threads} threads")]
    Threads {
        /// How many were asked for.
        threads: usize,
    },
}

impl Refusal {
    /// What to do about it, where that is known.
    pub fn fix(&self) -> Option<String> {
        match self {
            Refusal::Memory { .. } => Some("make the problem smaller".to_owned()),
            Refusal::Threads { .. } => Some(
                "ask for fewer threads (`--threads 1`), or raise the limit of the process (`ulimit -u`)".to_owned(),
            ),
        }
    }
}

/// Whether accumulators outlive their region.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Accumulators {
    /// Each region's are used while they are hot and then forgotten.
    Streamed,
    /// All are kept: a finished reduction meets the tile again.
    Retained,
}

/// How a problem is run on the CPU.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Schedule {
    /// Rows of a region.
    pub rows: usize,
    /// Columns of a region, of the product's own.
    pub columns: usize,
    /// Why the columns are as many as they are.
    pub width: Width,
    /// How often the epilogue passes over the tile: once more for each reduction that meets it again.
    pub sweeps: usize,
    /// Whether accumulators are kept between sweeps.
    pub accumulators: Accumulators,
    /// How many threads share the regions.
    pub threads: usize,
}
