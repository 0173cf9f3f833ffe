//! What the simulator has against a run.

use postlude_sim::{Finding, SimError};

/// Errors listed at most.
const LISTED: usize = 4;

/// Something that the simulator says about a kernel; each is a bug of whoever wrote its code.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
pub enum SimulationError {
    /// The run ended early.
    #[error("the simulator gave up: {0}")]
    Ended(#[from] SimError),
    /// Something is wrong with the program.
    #[error("the simulator found: {0}")]
    Found(Box<Finding>),
    /// Some threads never came to their end.
    #[error("the simulator's threads did not come to their end")]
    Unfinished,
    /// There are more findings than are listed.
    #[error("the simulator found {count} more")]
    More {
        /// How many.
        count: usize,
    },
}

impl SimulationError {
    /// Whether something is wrong with the code. A run that was longer than it was allowed to be says nothing about it.
    pub(crate) fn is_bug(&self) -> bool {
        !matches!(self, SimulationError::Ended(SimError::Budget { .. }))
    }

    /// What to do about it, where that is known.
    pub(crate) fn fix(&self) -> Option<String> {
        (!self.is_bug()).then(|| "make the problem smaller".to_owned())
    }

    /// The findings as errors, the first few and how many more there are.
    pub(crate) fn list(findings: &[Finding]) -> Vec<SimulationError> {
        let more = findings.len().saturating_sub(LISTED);
        let listed = findings.iter().take(LISTED);
        let mut errors: Vec<SimulationError> =
            listed.map(|finding| SimulationError::Found(Box::new(finding.clone()))).collect();
        if more > 0 {
            errors.push(SimulationError::More { count: more });
        }
        errors
    }
}
