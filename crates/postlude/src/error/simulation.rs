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
    #[error("the simulator found {} more", .0.len())]
    More(Vec<Finding>),
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

    /// The findings as errors, the first few and then the others as one.
    pub(crate) fn list(findings: &[Finding]) -> Vec<SimulationError> {
        let (listed, more) = findings.split_at(findings.len().min(LISTED));
        let listed = listed.iter().map(|finding| SimulationError::Found(Box::new(finding.clone())));
        let more = (!more.is_empty()).then(|| SimulationError::More(more.to_vec()));
        listed.chain(more).collect()
    }

    /// What was found.
    pub(crate) fn findings(&self) -> &[Finding] {
        match self {
            SimulationError::Found(finding) => std::slice::from_ref(&**finding),
            SimulationError::More(findings) => findings,
            SimulationError::Ended(_) | SimulationError::Unfinished => &[],
        }
    }
}

#[cfg(test)]
mod tests {
    use postlude_sim::Diagnosis;

    use super::*;
    use crate::error::Error;

    #[test]
    fn a_few_findings_are_listed_and_all_are_kept() {
        let finding = |cta| Finding {
            diagnosis: Diagnosis::OutOfBounds,
            line: 7,
            text: "ld.global.f32 %f1, [%rd1];".to_owned(),
            cta,
            warp: None,
            region: None,
            address: Some(16),
            message: String::new(),
        };
        for count in [1, 4, 9] {
            let all: Vec<Finding> = (0..count).map(finding).collect();
            let error = Error::from(SimulationError::list(&all));
            assert!(error.findings().eq(&all));
            assert!(error.is_bug() && error.diagnostics().len() <= 5);
            let more = format!("the simulator found {} more", count.saturating_sub(4));
            assert_eq!(error.to_string().contains(&more), count > 4, "{error}");
        }
    }
}
