//! Whether results are right: samples against the definition, and everything against cuBLASLt.
//!
//! In: outputs that were poisoned, then written by the kernels that will be timed. Out: a [`Verdict`].
//!
//! The definition is evaluated on parts of the problem that are problems of their own (`definition`), with the contract's
//! bounds. Two results of the same inputs may differ by both kernels' errors (`compare`).

mod compare;
mod definition;
mod sums;

use serde::Serialize;

pub use compare::{Differences, Extent, Tolerance, compare, compare_with};
pub use definition::{Reach, against_definition};
pub(crate) use sums::sums;

/// Bytes that are brought to the host at a time.
pub(crate) const CHUNK_BYTES: usize = 32 << 20;

/// How results were checked and what came out.
#[derive(Clone, PartialEq, Debug, Default, Serialize)]
pub struct Verdict {
    /// Whether every check passed.
    pub right: bool,
    /// Elements that were compared with the definition.
    pub sampled: usize,
    /// The worst error of the sample, in units of its bound.
    pub worst_of_bound: f64,
    /// Results that are one number, beside what their terms come to.
    pub totals: Vec<Totalled>,
    /// Elements that were compared with cuBLASLt's.
    pub compared: usize,
    /// Those that differ at all.
    pub different: usize,
    /// Those that differ by more than the tolerance, or are not numbers.
    pub wrong: usize,
    /// The largest difference.
    pub largest_difference: f64,
    /// Algorithms of cuBLASLt that disagree with ours, and so do not take part unless all do.
    pub less_accurate: usize,
}

/// A result that is one number, beside the host's fold of its terms.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Totalled {
    /// The output.
    pub output: String,
    /// What the kernel found.
    pub found: f64,
    /// What the terms come to.
    pub wanted: f64,
    /// Their distance, in units of what is allowed.
    pub of_bound: f64,
}

impl Verdict {
    /// Takes another sample's findings in.
    pub fn add_sample(&mut self, other: &Verdict) {
        self.sampled += other.sampled;
        self.worst_of_bound = self.worst_of_bound.max(other.worst_of_bound);
        self.right &= other.right;
    }

    /// Takes a comparison's findings in.
    pub fn add(&mut self, differences: &Differences) {
        self.compared += differences.compared;
        self.different += differences.different;
        self.wrong += differences.wrong;
        self.largest_difference = self.largest_difference.max(differences.largest);
        self.right &= differences.wrong == 0;
    }

    /// Takes a number in; what is not one is wrong.
    pub fn add_total(&mut self, total: Totalled) {
        self.right &= total.of_bound <= 1.0;
        self.totals.push(total);
    }
}
