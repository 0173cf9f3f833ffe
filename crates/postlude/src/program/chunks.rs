//! Launches of a call that are repeated for one chunk of a dim after another.

use super::choose::{Chooser, Taken};
use super::chosen::{Step, Value};
use super::form::KernelForm;
use super::view::{Base, CallTensors, Located, Part, View};
use crate::dtype::DType;
use crate::error::Error;
use crate::graph::Input;
use crate::partition::Chunks;
use crate::placement::Placement;
use crate::problem::Problem;

impl Chooser<'_> {
    /// A value between launches.
    pub(super) fn value(&mut self, name: &str, dtype: DType, shape: &[usize]) -> Located {
        let placement = Placement::between_launches(dtype, shape);
        let bytes = placement.bytes(dtype, shape) as u64;
        self.values.push(Value { name: name.to_owned(), bytes });
        let view = View::whole(Base::Stored(self.values.len() - 1));
        Located { view, placement: Some(placement) }
    }

    /// Appends repeated launches for every chunk. What they store of one chunk lies where that of the others does; sums begin
    /// at zero.
    pub(super) fn chunks(
        &mut self,
        form: &KernelForm,
        chunks: &Chunks,
        problem: &Problem,
        inputs: &mut [Located],
    ) -> Result<Vec<Taken>, Error> {
        let graph = &form.graph;
        let launches = graph.earlier();
        let repeated = &launches[chunks.launches.clone()];
        let forms = &form.earlier[chunks.launches.clone()];
        let size = problem.sizes[&chunks.dim];
        // Other launches may have parts of the dim that no chunk has, so that the kernel itself is not bound at its size.
        let shape_of = |input: &Input, count: usize| {
            let mut shape = problem.shape(input.dims.as_deref().unwrap_or_default());
            chunks.place(input).into_iter().for_each(|dim| shape[dim] = count);
            shape
        };
        let mut is_of_chunk = vec![false; inputs.len()];
        for place in repeated.iter().flat_map(|it| it.inputs.iter().flatten()) {
            let place = place.0 as usize;
            let input = &graph.inputs()[place];
            if input.result.is_some() {
                continue;
            }
            let shape = shape_of(input, size.min(chunks.size));
            inputs[place].view = self.value(&input.name, input.dtype, &shape).view;
            is_of_chunk[place] = chunks.is_partial(input);
            if !is_of_chunk[place] {
                self.steps.push(Step::Zero(self.values.len() - 1));
            }
        }
        let mut taken = Vec::new();
        let outside = std::mem::replace(&mut self.is_repeating, true);
        for (number, (first, count)) in chunks.of(size).enumerate() {
            let begin = self.steps.len();
            let part = |place: usize| {
                let (input, whole) = (&graph.inputs()[place], &inputs[place]);
                match chunks.place(input) {
                    Some(_) if is_of_chunk[place] => {
                        let shape = shape_of(input, count);
                        let placement = Placement::between_launches(input.dtype, &shape);
                        Located { placement: Some(placement), ..whole.clone() }
                    }
                    Some(dim) => whole.part(Part { dim, first, count }, input.dtype),
                    None => whole.clone(),
                }
            };
            for (earlier, form) in repeated.iter().zip(forms) {
                let own = problem.of_chunk(earlier.graph, &chunks.dim, count)?;
                let declared = earlier.graph.inputs().iter().map(|input| {
                    if input.name == chunks.start {
                        let view = View::whole(Base::Number(first as f64));
                        return Located { view, placement: None };
                    }
                    part(graph.place_of(&input.name))
                });
                let outputs = earlier.graph.outputs().iter().zip(&earlier.inputs);
                let results = outputs.map(|(output, input)| match input {
                    Some(input) => part(input.0 as usize),
                    None => panic!("compiler bug: no launch reads `{}`", output.name),
                });
                let call = CallTensors { declared: declared.collect(), results: results.collect() };
                let own = self.kernel(form, &own, &call)?;
                if number == 0 {
                    taken.push(own);
                }
            }
            for step in &mut self.steps[begin..] {
                if let Step::Launch(launch) = step {
                    launch.chunk = launch.chunk.max(Some(number));
                }
            }
        }
        self.is_repeating = outside;
        Ok(taken)
    }
}
