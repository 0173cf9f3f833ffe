//! The launches of a kernel at the sizes of a call.
//!
//! In: a kernel, sizes, and where the tensors of a call lie. Out: its launches in their order, each with its own sizes and
//! places. Invariant: these are the launches that the simulator runs, and their schedules.

use postlude_ptx::entry::Entry;

use crate::error::Error;
use crate::graph::{Earlier, Graph};
use crate::image;
use crate::kernel::{Compiled, LaunchForm};
use crate::placement::{Placement, Placements};
use crate::problem::{Arguments, Problem};
use crate::target::{Chip, Planned};

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

impl KernelLaunch {
    /// As the planner runs it.
    pub fn planned(&self, chip: Chip) -> Result<Planned, Error> {
        Ok(self.compiled.planning(&self.problem, &self.placements, chip)?.best()?)
    }

    /// The code that runs it.
    pub fn emitted(&self, planned: &Planned) -> Entry {
        planned.emit_overlapping(self.compiled.options.math, self.compiled.overlaps())
    }
}

/// What runs a call.
#[doc(hidden)]
#[derive(Clone, Debug)]
pub struct Taken {
    /// The kernel, or another form of it.
    pub compiled: Compiled,
    /// The sizes of its last launch.
    pub problem: Problem,
    /// How it differs from the kernel.
    pub form: LaunchForm,
    /// All launches in their order. A launch that is repeated for chunks of a dim is there once, at the size of a whole chunk.
    pub launches: Vec<KernelLaunch>,
}

/// Where the tensors of a call lie: inputs that are declared, and all results.
#[derive(Clone)]
pub(super) struct CallPlacements {
    declared: Vec<Option<Placement>>,
    results: Vec<Placement>,
}

impl CallPlacements {
    /// Without gaps.
    pub(super) fn packed(graph: &Graph, problem: &Problem) -> CallPlacements {
        let mut declared = Placements::packed(graph, problem).inputs;
        declared.truncate(graph.declared_inputs().len());
        let results = graph.results().into_iter();
        let results = results.map(|result| Placement::packed(&problem.shape(result.dims)));
        CallPlacements { declared, results: results.collect() }
    }

    /// For one of the forms of the kernel, with sizes of its own.
    pub(super) fn of_form(&self, graph: &Graph, problem: &Problem) -> Placements {
        let mut inputs = Placements::packed(graph, problem).inputs;
        inputs.splice(..self.declared.len(), self.declared.iter().cloned());
        let own = graph.own_results().into_iter();
        Placements { inputs, outputs: own.map(|place| self.results[place].clone()).collect() }
    }
}

impl Compiled {
    /// What runs a call whose tensors lie without gaps.
    #[doc(hidden)]
    pub fn taken(&self, problem: &Problem, chip: Chip) -> Result<Taken, Error> {
        self.taken_where(&CallPlacements::packed(&self.optimised, problem), problem, chip)
    }

    /// The same with arguments where they are, and outputs without gaps.
    #[doc(hidden)]
    pub fn taken_with(
        &self,
        problem: &Problem,
        arguments: &Arguments<'_>,
        chip: Chip,
    ) -> Result<Taken, Error> {
        let placements = image::placements(&self.optimised, problem, arguments);
        self.taken_at(problem, placements, chip)
    }

    fn taken_at(&self, problem: &Problem, of: Placements, chip: Chip) -> Result<Taken, Error> {
        let declared = of.inputs.into_iter().take(self.optimised.declared_inputs().len());
        let places = CallPlacements {
            declared: declared.collect(),
            ..CallPlacements::packed(&self.optimised, problem)
        };
        self.taken_where(&places, problem, chip)
    }

    /// The launches of a call whose tensors lie without gaps.
    #[doc(hidden)]
    pub fn launches(&self, problem: &Problem, chip: Chip) -> Result<Vec<KernelLaunch>, Error> {
        self.launches_with_int64(problem, &[], chip)
    }

    /// The same, where the inputs in these places are of int64.
    #[doc(hidden)]
    pub fn launches_with_int64(
        &self,
        problem: &Problem,
        int64: &[usize],
        chip: Chip,
    ) -> Result<Vec<KernelLaunch>, Error> {
        let packed = Placements::packed(&self.optimised, problem).with_int64(int64);
        Ok(self.taken_at(problem, packed, chip)?.launches)
    }

    /// The last launch of a call whose tensors lie without gaps.
    #[doc(hidden)]
    pub fn last_launch(&self, problem: &Problem, chip: Chip) -> Result<Planned, Error> {
        let launches = self.launches(problem, chip)?;
        launches.last().unwrap_or_else(|| panic!("compiler bug: no launch")).planned(chip)
    }

    fn taken_where(
        &self,
        places: &CallPlacements,
        problem: &Problem,
        chip: Chip,
    ) -> Result<Taken, Error> {
        let of_form = |graph: &Graph| places.of_form(graph, problem);
        self.first_taken(problem, &of_form, &mut |taken, own, form| {
            let launches = taken.launches_uncut(places, own, chip)?;
            Ok(Taken { compiled: taken.clone(), problem: own.clone(), form, launches })
        })
    }

    /// The launches of this form.
    fn launches_uncut(
        &self,
        places: &CallPlacements,
        problem: &Problem,
        chip: Chip,
    ) -> Result<Vec<KernelLaunch>, Error> {
        let graph = &self.optimised;
        let placements = places.of_form(graph, problem);
        let last = KernelLaunch { compiled: self.clone(), problem: problem.clone(), placements };
        // A launch that is refused is not worth what is computed before it.
        last.planned(chip)?;
        let mut all = Vec::new();
        for (compiled, own, places) in self.launches_before(&last.placements, problem)? {
            all.extend(compiled.taken_where(&places, &own, chip)?.launches);
        }
        all.push(last);
        Ok(all)
    }

    /// What is launched before its last launch, whose tensors lie so: kernels with sizes and places of their own.
    pub(super) fn launches_before(
        &self,
        placements: &Placements,
        problem: &Problem,
    ) -> Result<Vec<(&Compiled, Problem, CallPlacements)>, Error> {
        let graph = &self.optimised;
        let all = graph.earlier().into_iter().zip(self.earlier.iter()).enumerate();
        let launch = |(place, (earlier, compiled)): (usize, (Earlier<'_>, _))| {
            let chunks = self.chunks.as_ref().filter(|chunks| chunks.launches.contains(&place));
            let own = match chunks {
                Some(chunks) => {
                    let size = chunks.size.min(problem.sizes[&chunks.dim]);
                    problem.of_chunk(earlier.graph, &chunks.dim, size)?
                }
                None => problem.of_computing(earlier.graph)?,
            };
            let place_of = |name: &String| {
                // The first element of a chunk is a number.
                let place = graph.inputs().iter().position(|input| input.name == *name)?;
                let input = &graph.inputs()[place];
                let of_chunk =
                    chunks.filter(|it| it.is_partial(input)).and(input.computed.as_ref());
                match of_chunk {
                    Some(_) => Placement::of_computed(input, &own),
                    None => placements.inputs[place].clone(),
                }
            };
            let read = earlier.graph.inputs().iter().map(|input| &input.name);
            let declared = read.map(place_of).collect();
            let places = CallPlacements { declared, results: self.stored_places(&earlier, &own) };
            Ok((compiled, own, places))
        };
        all.map(launch).collect()
    }

    /// Where what an earlier graph stores lies: outputs of the kernel without gaps, other values as launches store them for
    /// later ones.
    fn stored_places(&self, earlier: &Earlier<'_>, problem: &Problem) -> Vec<Placement> {
        let outputs = earlier.graph.outputs().iter().zip(&earlier.inputs);
        let place = outputs.map(|(output, input)| {
            let shape = problem.shape(&output.dims);
            let input = input.map(|input| &self.optimised.inputs()[input.0 as usize]);
            if input.is_some_and(|input| input.result.is_some()) {
                Placement::packed(&shape)
            } else {
                Placement::between_launches(output.dtype, &shape)
            }
        });
        place.collect()
    }
}
