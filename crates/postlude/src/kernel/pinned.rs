//! A kernel with the launches and the schedules that it has at some sizes, for calls of other sizes.
//!
//! In: a kernel and the sizes of a call. Out: the same kernel, all of whose launches have a schedule.
//! Invariant: a call of any sizes runs these launches with these schedules, or is refused.

use crate::error::Error;
use crate::graph::Graph;
use crate::kernel::{Compiled, Hooks, Options};
use crate::placement::{Placement, Placements};
use crate::problem::Problem;
use crate::target::Chip;

/// Where the outputs of a graph's own launch lie.
type Outputs<'o> = dyn Fn(&Graph, &Problem) -> Vec<Placement> + 'o;

impl Compiled {
    /// The same kernel as the simulator runs a call of these sizes, whose tensors lie without gaps: every launch, those
    /// before the last one too, keeps the schedule that it has here. Chunks of a dim keep their size.
    #[doc(hidden)]
    pub fn pinned(&self, problem: &Problem) -> Result<Compiled, Error> {
        self.pinned_into(problem, &|graph, problem| Placements::packed(graph, problem).outputs)
    }

    fn pinned_into(&self, problem: &Problem, outputs: &Outputs<'_>) -> Result<Compiled, Error> {
        let packed = |graph: &Graph| Placements::packed(graph, problem);
        self.first_taken(problem, &packed, &mut |taken, problem| {
            taken.pinned_uncut(problem, outputs)
        })
    }

    fn pinned_uncut(&self, problem: &Problem, outputs: &Outputs<'_>) -> Result<Compiled, Error> {
        let graph = &self.optimised;
        let outputs = outputs(graph, problem);
        let placements = Placements { outputs, ..Placements::packed(graph, problem) };
        let planned = self.planning(problem, &placements, Chip::STANDARD)?.best()?;
        let earlier = graph.earlier().into_iter().zip(self.earlier.iter()).enumerate();
        let earlier = earlier.map(|(place, (earlier, compiled))| {
            let chunks = self.chunks.as_ref().filter(|chunks| chunks.launches.contains(&place));
            let own = match chunks {
                Some(chunks) => problem.of_chunk(earlier.graph, &chunks.dim, chunks.size)?,
                None => problem.of_computing(earlier.graph)?,
            };
            compiled
                .pinned_into(&own, &|graph, problem| self.stored_places(&earlier, graph, problem))
        });
        let earlier = earlier.collect::<Result<_, Error>>()?;
        let hooks = Hooks { schedule: Some(planned.schedule()), ..self.options.hooks.clone() };
        let options = Options { hooks, ..self.options.clone() };
        Ok(Compiled { options, ..self.with_earlier(earlier) })
    }
}
