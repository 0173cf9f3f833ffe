//! A tile program at the sizes and placements of one call.

use std::sync::Arc;

use postlude_ptx::launch::Parameter;

use crate::placement::Placements;
use crate::problem::Problem;

use super::program::TileProgram;
use super::refusal::LowerRefusal;
use super::refuse::refuse_batches;

/// A tile program with the sizes and placements of a call.
#[derive(Clone, Debug)]
pub struct BoundProgram {
    program: Arc<TileProgram>,
    problem: Problem,
    placements: Placements,
    /// Where the call's own tensors lie, of which the program's are views.
    call: Placements,
    /// The call's own sizes.
    sizes: Problem,
    /// Where windows of columns begin and how wide they are, in the program's columns.
    windows: Vec<[u32; 2]>,
    /// The same with A and B swapped.
    swapped: Option<Arc<BoundProgram>>,
}

impl BoundProgram {
    /// Binds a program to a call of its kernel, or says why it does not run at these sizes.
    pub fn new(
        program: &Arc<TileProgram>,
        problem: &Problem,
        placements: &Placements,
    ) -> Result<BoundProgram, LowerRefusal> {
        let program = &reading(program, placements);
        let (graph, views) = (program.graph(), program.views());
        let own = views.problem(graph, &problem.with_swap(program.swap_ab));
        views.refuse(graph, &own)?;
        if !program.by_elements {
            refuse_batches(graph, &own)?;
        }
        let windows = views.bounds(graph, (&own, problem))?;
        let swapped = program.swapped.as_ref();
        let swapped = swapped.and_then(|it| BoundProgram::new(it, problem, placements).ok());
        Ok(BoundProgram {
            swapped: swapped.map(Arc::new),
            windows,
            sizes: problem.clone(),
            placements: views.placements(graph, &own, placements),
            program: program.clone(),
            problem: own,
            call: placements.clone(),
        })
    }

    /// The program.
    pub(crate) fn program(&self) -> &Arc<TileProgram> {
        &self.program
    }

    /// The same call with A and B swapped, where that computes the same.
    pub(crate) fn swapped(&self) -> Option<&BoundProgram> {
        self.swapped.as_deref()
    }

    /// The program's own sizes: those of its slices.
    pub(crate) fn problem(&self) -> &Problem {
        &self.problem
    }

    /// Where the program's own tensors lie.
    pub(crate) fn placements(&self) -> &Placements {
        &self.placements
    }

    /// Where the call's own tensors lie.
    #[cfg(feature = "cuda")]
    pub(crate) fn call(&self) -> &Placements {
        &self.call
    }

    /// Where windows of columns begin and how wide they are, in the program's columns.
    pub(crate) fn windows(&self) -> &[[u32; 2]] {
        &self.windows
    }

    /// The numbers that the host passes, in the order of the program's inputs.
    pub(crate) fn scalars(&self, scalars: &[Option<f64>]) -> Vec<Option<f64>> {
        self.program.views().scalars(scalars, &self.sizes)
    }

    /// Lets parameters that name the program's tensors name those of the call.
    pub(crate) fn settle(&self, parameters: &mut [Parameter]) {
        let program = &self.program;
        program.views().settle(program.graph(), parameters, &self.problem, &self.call);
    }
}

/// The program that reads the tensors of a call: integers of 64 bits are loaded as such.
fn reading(program: &Arc<TileProgram>, placements: &Placements) -> Arc<TileProgram> {
    let places = placements.int64_inputs();
    if places.is_empty() {
        return program.clone();
    }
    let mut own = TileProgram::clone(program);
    own.graph = own.graph.with_int64(|place| places.contains(&program.views().source(place)));
    Arc::new(own)
}
