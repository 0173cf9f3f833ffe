//! Makes the arguments of a call.
//!
//! In: a problem and what is bound. Out: an argument for every input; what nobody bound is drawn at random.
//! Invariant: the index of a `pick` is drawn in range.

use std::collections::BTreeMap;

use postlude::dtype::Elem;
use postlude::graph::{Graph, Input, NodeId, Op};
use postlude::{Argument, Arguments, DType, Problem, Tensor, TensorError};
use postlude_corpus::{Fill, fill, seed_for};

use crate::bindings::{Given, Loaded};
use crate::failure::{Failure, Mistake};

/// An argument for every input of the kernel.
pub(crate) fn make(
    loaded: &Loaded,
    problem: &Problem,
    seed: u64,
) -> Result<Arguments<'static>, Failure> {
    let graph = loaded.kernel.defined();
    let labels = label_counts(graph, problem);
    let mut arguments = Arguments::new();
    let inputs = graph.inputs().iter().enumerate();
    for (place, input) in inputs.filter(|(_, input)| input.is_passed()) {
        let argument = match (loaded.given.get(&input.name), &input.dims) {
            (Some(Given::File(stored)), Some(dims)) => {
                Argument::Tensor(stored.load_as(&problem.shape(dims))?)
            }
            (Some(Given::File(stored)), None) => Argument::Tensor(stored.load()?),
            (Some(Given::Number(value)), Some(dims)) => {
                let shape = problem.shape(dims);
                let tensor = Tensor::from_values(input.dtype, shape, &[*value]);
                Argument::Tensor(tensor.map_err(|error| loaded.failure(error))?)
            }
            (Some(Given::Number(value)), None) => Argument::Scalar(*value),
            (Some(Given::Fill(_)) | None, None) => return Err(unset(&input.name).into()),
            (given @ (Some(Given::Fill(_)) | None), Some(dims)) => {
                let rows = graph.segment_rows(&input.name).map(|rows| problem.shape(&[rows])[0]);
                let gathered = graph.index_rows(&input.name).map(|dim| problem.shape(&[dim])[0]);
                let kind = match given {
                    Some(Given::Fill(kind)) => *kind,
                    _ if rows.is_some() => Fill::Ends,
                    _ if gathered.is_some() => Fill::Labels,
                    _ => default_fill(input, labels.contains_key(&place)),
                };
                // Labels that no `pick` reads are compared with columns.
                let known = rows.or(gathered).or(labels.get(&place).copied());
                let count = known.unwrap_or(problem.columns());
                let tensor = draw(kind, input, &problem.shape(dims), count, seed);
                Argument::Tensor(tensor.map_err(|error| loaded.failure(error))?)
            }
        };
        arguments.insert(input.name.clone(), argument);
    }
    Ok(arguments)
}

/// Refuses host scalars that have no value.
pub(crate) fn require_scalars(loaded: &Loaded) -> Result<(), Mistake> {
    for input in loaded.kernel.defined().inputs() {
        if input.dims.is_none() && !loaded.given.contains_key(&input.name) {
            return Err(unset(&input.name));
        }
    }
    Ok(())
}

fn unset(name: &str) -> Mistake {
    Mistake::new(format!("`{name}` is a scalar passed by the host, and has no value"))
        .fix(format!("set it: `--set {name}=1.0`"))
}

fn draw(
    kind: Fill,
    input: &Input,
    shape: &[usize],
    labels: usize,
    seed: u64,
) -> Result<Tensor, TensorError> {
    fill(kind, input.dtype, shape, labels, seed_for(seed, &input.name))
}

/// How an input is drawn that nobody bound.
pub(crate) fn default_fill(input: &Input, is_label: bool) -> Fill {
    if is_label {
        Fill::Labels
    } else if input.dtype == DType::I32 {
        Fill::Integers
    } else {
        Fill::Normal
    }
}

/// How many columns the `pick` has that reads an integer input, by the input's place.
pub(crate) fn label_counts(graph: &Graph, problem: &Problem) -> BTreeMap<usize, usize> {
    let mut counts = BTreeMap::new();
    for (_, node) in graph.nodes() {
        let Op::Pick(of, index) = node.op else { continue };
        let [.., columns] = problem.extents(graph.ty(of).axes);
        for place in integer_inputs(graph, index) {
            let count = counts.entry(place).or_insert(columns);
            *count = columns.min(*count);
        }
    }
    counts
}

/// The integer inputs that a value is made of.
fn integer_inputs(graph: &Graph, value: NodeId) -> Vec<usize> {
    let mut needed = vec![false; graph.len()];
    needed[value.index()] = true;
    let mut inputs = Vec::new();
    for (id, node) in graph.nodes().rev() {
        if !needed[id.index()] {
            continue;
        }
        node.op.operands().for_each(|operand| needed[operand.index()] = true);
        if let Op::Input(input) = node.op
            && graph.inputs()[input.0 as usize].dtype.elem() == Elem::I32
        {
            inputs.push(input.0 as usize);
        }
    }
    inputs
}
