//! The launches of a kernel at the sizes of a call.

use crate::error::Error;
use crate::graph::{Earlier, Graph};
use crate::kernel::Compiled;
use crate::placement::{Placement, Placements};
use crate::problem::Problem;
use crate::target::Chip;

/// One launch of a kernel, with its sizes and where its tensors lie.
#[doc(hidden)]
#[derive(Clone, Debug)]
pub struct KernelLaunch {
    /// The kernel whose last launch it is.
    pub compiled: Compiled,
    /// Its sizes.
    pub problem: Problem,
    /// Where its tensors lie.
    pub placements: Placements,
}

impl Compiled {
    /// The launches of a call whose tensors lie without gaps, in their order. Launches that are repeated for chunks of a
    /// dim are there once, at the size of a whole chunk.
    #[doc(hidden)]
    pub fn launches(&self, problem: &Problem, chip: Chip) -> Result<Vec<KernelLaunch>, Error> {
        let graph = &self.optimised;
        let mut all = Vec::new();
        let earlier = graph.earlier();
        for (place, (earlier, compiled)) in earlier.iter().zip(self.earlier.iter()).enumerate() {
            let chunks = self.chunks.as_ref().filter(|chunks| chunks.launches.contains(&place));
            let own = match chunks {
                Some(chunks) => {
                    let size = chunks.size.min(problem.sizes[&chunks.dim]);
                    problem.of_chunk(earlier.graph, &chunks.dim, size)?
                }
                None => problem.of_computing(earlier.graph)?,
            };
            let mut inside = compiled.as_run(&own, chip).launches(&own, chip)?;
            if let Some(last) = inside.last_mut() {
                let (graph, problem) = (&last.compiled.optimised, &last.problem);
                last.placements.outputs = self.stored_places(earlier, graph, problem);
            }
            all.extend(inside);
        }
        let problem = self.own_sizes(problem)?;
        let placements = Placements::packed(graph, &problem);
        all.push(KernelLaunch { compiled: self.clone(), problem, placements });
        Ok(all)
    }

    /// Where what an earlier graph's last launch stores lies: outputs of the kernel without gaps, other values as launches
    /// store them for later ones.
    pub(super) fn stored_places(
        &self,
        earlier: &Earlier<'_>,
        graph: &Graph,
        problem: &Problem,
    ) -> Vec<Placement> {
        let outputs = graph.outputs().iter().zip(graph.own_results());
        let place = outputs.map(|(output, place)| {
            let shape = problem.shape(&output.dims);
            let input =
                earlier.inputs[place].map(|input| &self.optimised.inputs()[input.0 as usize]);
            if input.is_some_and(|input| input.result.is_some()) {
                Placement::packed(&shape)
            } else {
                Placement::between_launches(output.dtype, &shape)
            }
        });
        place.collect()
    }
}
