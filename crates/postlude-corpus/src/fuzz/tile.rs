//! Another tile than the planner's: problems that are small enough for the simulator all get the same few.

use postlude::placement::{Placement, Placements};
use postlude::target::{Chip, Schedule};
use postlude::{Argument, Arguments, Compiled, Problem, Tensor, TensorView};

/// The schedule of one of the tiles that fit; none where the planner has something against the kernel, and says so.
pub(super) fn schedule(
    number: usize,
    compiled: &Compiled,
    problem: &Problem,
    arguments: &Arguments,
    outputs: &[Tensor],
) -> Option<Schedule> {
    let graph = compiled.optimised();
    let argument = |name| arguments.get(name).and_then(Argument::tensor);
    let inputs = graph.inputs().iter();
    let inputs = inputs.map(|input| match (&input.computed, &input.dims) {
        (Some(_), Some(dims)) => {
            let lies = Placement::of_computed(input, problem);
            Some(lies.unwrap_or_else(|| Placement::packed(&problem.shape(dims))))
        }
        (Some(_) | None, _) => argument(&graph.passed_as(input).name).map(placement),
    });
    // Earlier graphs store the other results.
    let results = graph.results();
    let own = |name: &str| results.iter().position(|result| result.name == name);
    let own = graph.outputs().iter().filter_map(|output| own(&output.name));
    let outputs = own.filter_map(|place| outputs.get(place)).map(|tensor| placement(tensor.view()));
    let placements = Placements { inputs: inputs.collect(), outputs: outputs.collect() };
    let planning = compiled.planning(problem, &placements, Chip::STANDARD).ok()?;
    planning.best().ok()?;
    let fitting = planning.every().ok()?;
    fitting.get(number % fitting.len().max(1)).cloned()
}

fn placement(tensor: TensorView<'_>) -> Placement {
    // One without elements is in nobody's way.
    let offset = if tensor.is_empty() { 0 } else { tensor.offset() };
    Placement::at(tensor.strides().to_vec(), (offset * tensor.dtype().bits() / 8) as u64)
}
