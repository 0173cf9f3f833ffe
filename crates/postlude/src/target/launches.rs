//! What all launches of a kernel cost together.

use crate::graph::Graph;
use crate::lower::Lowered;
use crate::placement::Placements;
use crate::problem::Problem;

use super::{Chip, Planning};

/// Cycles from the end of a launch to the first instruction of the next one.
const BETWEEN_LAUNCHES: f64 = 4500.0;

/// Whether a kernel takes less time in several launches, on tensors that lie without gaps and as the model counts. Only cuts of
/// rows that wait for their reductions behind a product are looked at: in one launch, tiles or clusters of CTAs hold whole
/// rows, which leaves few ways to multiply.
pub(crate) fn is_cheaper_cut(
    cut: (&Graph, &Lowered),
    uncut: (&Graph, &Lowered),
    problem: &Problem,
    chip: Chip,
) -> bool {
    if cut.1.uncut().is_none() {
        return false;
    }
    let cycles = |(graph, lowered)| cycles(graph, lowered, problem, chip);
    matches!((cycles(cut), cycles(uncut)), (Some(cut), Some(uncut)) if cut < uncut)
}

/// Cycles of all launches; `None` where one of them is refused.
fn cycles(graph: &Graph, lowered: &Lowered, problem: &Problem, chip: Chip) -> Option<f64> {
    let placements = Placements::packed(graph, problem);
    let program = lowered.program().ok()?;
    let planning = Planning { program, problem, placements: &placements, chip };
    let own = planning.best().ok()?.cycles(0);
    let before = graph.earlier().into_iter().map(|earlier| {
        let problem = problem.of_computing(earlier.graph).ok()?;
        let before = cycles(earlier.graph, &Lowered::new(earlier.graph), &problem, chip)?;
        Some(before + BETWEEN_LAUNCHES)
    });
    before.sum::<Option<f64>>().map(|before| before + own)
}
