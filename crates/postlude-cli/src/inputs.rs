//! Makes the arguments of a call.
//!
//! In: a problem and what is bound. Out: an argument for every input; what nobody bound is drawn at random.
//! Invariant: indices of picks and tables are drawn in range.

use postlude::graph::{Graph, Input};
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
    let mut arguments = Arguments::new();
    for input in graph.inputs().iter().filter(|input| input.is_passed()) {
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
                let (kind, count) = drawn(graph, problem, input, given);
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

/// How an input is drawn that no file and no number is bound to, and what its numbers choose from: ends of segments rise up
/// to the number of rows, an index is in range.
pub(crate) fn drawn(
    graph: &Graph,
    problem: &Problem,
    input: &Input,
    given: Option<&Given>,
) -> (Fill, usize) {
    let rows = graph.segment_rows(&input.name).map(|rows| problem.shape(&[rows])[0]);
    let indexed = problem.shape(&graph.index_dims(&input.name)).into_iter().min();
    let kind = match given {
        Some(Given::Fill(kind)) => *kind,
        _ if rows.is_some() => Fill::Ends,
        _ if indexed.is_some() => Fill::Labels,
        _ if input.dtype == DType::I32 => Fill::Integers,
        _ => Fill::Normal,
    };
    // Labels that number nothing are compared with columns.
    (kind, rows.or(indexed).unwrap_or(problem.columns()))
}
