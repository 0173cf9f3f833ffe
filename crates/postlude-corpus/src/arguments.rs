//! What a case gives its kernel.
//!
//! In: a case and its compiled kernel. Out: the problem and every argument, drawn, literal or default, laid out as asked.

use postlude::graph::Graph;
use postlude::{Argument, Arguments, Compiled, DType, Problem, Tensor, TensorError};

use crate::case::{Case, Expectation, Layout};
use crate::fill::{Fill, fill};
use crate::layout::{can_lie, lay_out};

/// Why a case cannot be given to its kernel.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)] // The messages say what each is.
pub enum CaseError {
    #[error("the kernel has no input `{0}`")]
    NoInput(String),
    #[error("the kernel has no output `{0}`")]
    NoOutput(String),
    #[error("`{0}` is a tensor; it takes `fill` or `data`, not `set`")]
    SetTensor(String),
    #[error("`{0}` is a scalar passed by the host; it takes `set`")]
    FilledScalar(String),
    #[error("`{name}` has {need} elements, but {have} values are given")]
    Count { name: String, need: usize, have: usize },
    #[error("`{name}`: {error}")]
    Tensor { name: String, error: TensorError },
    #[error(transparent)]
    Library(#[from] postlude::Error),
}

/// The sizes and arguments of a case.
///
/// Inputs that the case leaves packed lie as `layout` says.
pub fn bind(
    case: &Case,
    compiled: &Compiled,
    layout: Option<Layout>,
) -> Result<(Problem, Arguments<'static>), CaseError> {
    check_names(case, compiled)?;
    let graph = compiled.defined();
    let sized = Problem::new(graph, &case.sizes).map_err(postlude::Error::from)?;
    let mut arguments = Arguments::new();
    for input in graph.passed_inputs() {
        let argument = match &input.dims {
            None => Argument::Scalar(case.set.get(&input.name).copied().unwrap_or(1.0)),
            Some(dims) => {
                let packed =
                    tensor(case, (graph, &sized), &input.name, input.dtype, sized.shape(dims))?;
                // Packed elements have few layouts; only a case that asks for another is refused.
                let layout = layout.filter(|layout| can_lie(input.dtype, dims.len(), *layout));
                let layout = case.layouts.get(&input.name).copied().or(layout);
                Argument::Tensor(match layout {
                    Some(layout) => lay_out(&packed, layout)
                        .map_err(|error| CaseError::Tensor { name: input.name.clone(), error })?,
                    None => packed,
                })
            }
        };
        arguments.insert(input.name.clone(), argument);
    }
    let problem = compiled.bind(&arguments, &case.sizes)?;
    Ok((problem, arguments))
}

fn tensor(
    case: &Case,
    (graph, problem): (&Graph, &Problem),
    name: &str,
    dtype: DType,
    shape: Vec<usize>,
) -> Result<Tensor, CaseError> {
    let packed = if let Some(values) = case.data.get(name) {
        let need = shape.iter().product();
        if need != values.len() {
            return Err(CaseError::Count { name: name.to_owned(), need, have: values.len() });
        }
        Tensor::from_values(dtype, shape, values)
    } else {
        let rows = graph.segment_rows(name).map(|rows| problem.shape(&[rows])[0]);
        let kind = case.fills.get(name).copied();
        let indexed = problem.shape(&graph.index_dims(name)).into_iter().min();
        let kind = kind.unwrap_or(match (rows, indexed) {
            (Some(_), _) => Fill::Ends,
            (None, Some(_)) => Fill::Labels,
            (None, None) => Fill::default(),
        });
        let labels = rows.or(indexed).unwrap_or(problem.product_columns());
        fill(kind, dtype, &shape, labels, case.seed_of(name))
    };
    packed.map_err(|error| CaseError::Tensor { name: name.to_owned(), error })
}

/// Every name that the case mentions has to be the kernel's, or what is meant to be tested is not.
fn check_names(case: &Case, compiled: &Compiled) -> Result<(), CaseError> {
    let graph = compiled.defined();
    let find = |name: &String| {
        let found = graph.passed_inputs().find(|input| input.name == *name);
        found.ok_or_else(|| CaseError::NoInput(name.clone()))
    };
    for name in case.fills.keys().chain(case.data.keys()).chain(case.layouts.keys()) {
        if find(name)?.dims.is_none() {
            return Err(CaseError::FilledScalar(name.clone()));
        }
    }
    for name in case.set.keys() {
        if find(name)?.dims.is_some() {
            return Err(CaseError::SetTensor(name.clone()));
        }
    }
    for expected in &case.expectations {
        if let Expectation::Values { output, .. } = expected
            && !graph.results().iter().any(|one| one.name == output)
        {
            return Err(CaseError::NoOutput(output.clone()));
        }
    }
    Ok(())
}
