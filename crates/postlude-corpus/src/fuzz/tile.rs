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
    // Earlier graphs store the other results.
    let results = graph.results();
    let result = |name: &str| {
        let place = results.iter().position(|result| result.name == name)?;
        Some(placement(outputs.get(place)?.view()))
    };
    let inputs = graph.inputs().iter().map(|input| match input.computed {
        Some(_) => Placement::of_computed(input, problem).or_else(|| result(&input.name)),
        None => argument(&graph.passed_as(input).name).map(placement),
    });
    let own = graph.outputs().iter().filter_map(|output| result(&output.name));
    let placements = Placements { inputs: inputs.collect(), outputs: own.collect() };
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
