//! A kernel with the launches and the schedules that it has at some sizes, for calls of other sizes.
//!
//! In: a kernel and the sizes of a call. Out: the same kernel, all of whose launches have a schedule.
//! Invariant: a call of any sizes runs these launches with these schedules, or is refused.

use crate::error::Error;
use crate::graph::Graph;
use crate::kernel::launches::CallPlacements;
use crate::kernel::{Compiled, Hooks, Options};
use crate::problem::Problem;
use crate::target::Chip;

impl Compiled {
    /// The same kernel as the simulator runs a call of these sizes, whose tensors lie without gaps: every launch, those
    /// before the last one too, keeps the schedule that it has here. Chunks of a dim keep their size.
    #[doc(hidden)]
    pub fn pinned(&self, problem: &Problem) -> Result<Compiled, Error> {
        self.pinned_where(&CallPlacements::packed(&self.optimised, problem), problem)
    }

    fn pinned_where(&self, places: &CallPlacements, problem: &Problem) -> Result<Compiled, Error> {
        let form = |graph: &Graph| places.of_form(graph, problem);
        self.first_taken(problem, &form, &mut |taken, own, _| taken.pinned_uncut(places, own))
    }

    fn pinned_uncut(&self, places: &CallPlacements, problem: &Problem) -> Result<Compiled, Error> {
        let placements = places.of_form(&self.optimised, problem);
        let planned = self.planning(problem, &placements, Chip::STANDARD)?.best()?;
        let earlier = self.launches_before(&placements, problem)?.into_iter();
        let earlier = earlier.map(|(compiled, own, places)| compiled.pinned_where(&places, &own));
        let earlier = earlier.collect::<Result<_, Error>>()?;
        let hooks = Hooks { schedule: Some(planned.schedule()), ..self.options.hooks.clone() };
        let options = Options { hooks, ..self.options.clone() };
        Ok(Compiled { options, ..self.with_earlier(earlier) })
    }
}
