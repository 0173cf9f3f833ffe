//! How host tensors lie in the memory that a kernel reads and writes, on a GPU or in the simulator: as they do on the host,
//! with the same strides and the same distance from an aligned start, so that every path of a kernel is met.

pub(crate) mod guard;
pub(crate) mod list;

use crate::graph::Graph;
use crate::placement::{Placement, Placements};
use crate::problem::{Argument, Arguments, BindError, Problem};
use crate::tensor::{TensorView, TensorViewMut, advance};

/// Bytes from the start of a tensor's memory to its first element; one without elements is in nobody's way.
pub(crate) fn start(tensor: TensorView<'_>) -> usize {
    if tensor.is_empty() { 0 } else { tensor.offset() * tensor.dtype().bits() / 8 }
}

/// Where a tensor lies.
pub(crate) fn placement(tensor: TensorView<'_>) -> Placement {
    let lies = Placement::at(tensor.strides().to_vec(), start(tensor) as u64);
    lies.of_dtype(tensor.dtype())
}

/// Where the tensors of a call on host memory would lie, outputs without gaps.
pub(crate) fn placements(graph: &Graph, problem: &Problem, arguments: &Arguments) -> Placements {
    let argument = |name| arguments.get(name).and_then(Argument::tensor);
    let passed = |input| &graph.passed_as(input).name;
    let inputs = graph.inputs().iter().map(|input| match (&input.computed, &input.dims) {
        (Some(_), Some(dims)) => {
            let lies = Placement::of_computed(input, problem);
            Some(lies.unwrap_or_else(|| Placement::packed(&problem.shape(dims))))
        }
        (Some(_) | None, _) => argument(passed(input)).map(placement),
    });
    let outputs = graph.outputs().iter();
    let packed = outputs.map(|output| Placement::packed(&problem.shape(&output.dims)));
    Placements { inputs: inputs.collect(), outputs: packed.collect() }
}

/// Whether outputs lie as those did that a call was laid out for, in as many bytes.
pub(crate) fn check_same(
    names: &[String],
    places: &[Placement],
    memory: impl Iterator<Item = usize>,
    outputs: &[TensorViewMut<'_>],
) -> Result<(), BindError> {
    let (wanted, given) = (places.len(), outputs.len());
    if wanted != given {
        return Err(BindError::OutputCount { wanted, given });
    }
    for (((name, place), bytes), output) in names.iter().zip(places).zip(memory).zip(outputs) {
        let output = output.view();
        if placement(output) != *place || output.bytes().len() != bytes {
            return Err(BindError::Moved { name: name.clone() });
        }
    }
    Ok(())
}

/// Copies every element of a tensor to another place; `element` is its size in bytes, strides and starts are in elements.
pub(crate) fn copy_elements(
    shape: &[usize],
    element: usize,
    (source, source_strides, source_start): (&[u8], &[isize], usize),
    (target, target_strides, target_start): (&mut [u8], &[isize], usize),
) {
    let Some((columns, outer)) = shape.split_last() else {
        let (from, to) = (source_start * element, target_start * element);
        target[to..to + element].copy_from_slice(&source[from..from + element]);
        return;
    };
    let place = |start: usize, strides: &[isize], index: &[usize]| {
        let steps = index.iter().zip(strides).map(|(at, stride)| *at as isize * stride);
        start as isize + steps.sum::<isize>()
    };
    let across = (source_strides[outer.len()], target_strides[outer.len()]);
    let mut index = vec![0; outer.len()];
    for _ in 0..outer.iter().product::<usize>() {
        let from = place(source_start, source_strides, &index);
        let to = place(target_start, target_strides, &index);
        if across == (1, 1) {
            let (from, to) = (from as usize * element, to as usize * element);
            let bytes = columns * element;
            target[to..to + bytes].copy_from_slice(&source[from..from + bytes]);
        } else {
            for column in 0..*columns as isize {
                let from = (from + column * across.0) as usize * element;
                let to = (to + column * across.1) as usize * element;
                target[to..to + element].copy_from_slice(&source[from..from + element]);
            }
        }
        advance(&mut index, outer);
    }
}
