//! How calls are simulated, and what is asked of a run.

use postlude_sim::{Report, Timing};

use crate::error::{Error, SimulationError};

/// How a call is simulated.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SimOptions {
    /// When copies and matrix products complete.
    pub timing: Timing,
    /// The most warp instructions.
    pub budget: u64,
}

impl Default for SimOptions {
    fn default() -> Self {
        let budget = postlude_sim::Options::default().budget;
        SimOptions { timing: Timing::default(), budget }
    }
}

/// Whether nothing is wrong with a run; otherwise everything that is, as an error.
pub fn accept(report: &Report) -> Result<(), Error> {
    if !report.findings.is_empty() {
        return Err(SimulationError::list(&report.findings).into());
    }
    if report.finished { Ok(()) } else { Err(SimulationError::Unfinished.into()) }
}
