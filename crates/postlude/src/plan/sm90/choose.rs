//! The schedules that a call tries: the caller's, or the planner's.

use crate::graph::Graph;
use crate::problem::Problem;

use super::{Placements, Sm90, Sm90Refusal, Sm90Schedule, accept, plan_all};

/// What a caller asks for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Wanted<'a> {
    /// This schedule and no other.
    pub schedule: Option<&'a Sm90Schedule>,
    /// At most this many CTAs.
    pub grid_limit: Option<u32>,
}

/// The schedules to try, best first and at least one; only the given one where one is given.
pub fn schedules(
    wanted: Wanted<'_>,
    graph: &Graph,
    problem: &Problem,
    placements: &Placements,
    chip: Sm90,
) -> Result<Vec<Sm90Schedule>, Sm90Refusal> {
    let schedules = match wanted.schedule {
        Some(schedule) => {
            accept(schedule, graph, problem, placements, chip)?;
            vec![schedule.clone()]
        }
        None => plan_all(graph, problem, placements, chip)?,
    };
    if schedules.is_empty() {
        return Err(Sm90Refusal::NoCandidate);
    }
    let limited = |schedule: Sm90Schedule| Sm90Schedule {
        grid_limit: wanted.grid_limit.or(schedule.grid_limit),
        ..schedule
    };
    Ok(schedules.into_iter().map(limited).collect())
}
