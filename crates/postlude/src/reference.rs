//! The definition: what a kernel computes, with everything a conforming engine may make of it.
//!
//! In: a defined graph and arguments. Out: for every output, every element as a [`Value`] after the store's rounding.
//! Slow, obvious, complete: one array for every node, no tiles, no order that matters. Of large problems a check may look
//! at some rows and columns only, and says which.

mod accumulate;
mod alternatives;
mod array;
mod compare;
mod demand;
mod evaluate;
mod extremes;
mod operand;
mod progress;
mod reduce;
mod sample;
mod store;
mod threads;

use std::collections::BTreeMap;

use crate::dtype::{DType, Elem};
use crate::graph::{Graph, MathMode, Source, Value};
use crate::problem::{Argument, Arguments, BindError, Problem};
use crate::tensor::TensorView;

use evaluate::Call;
use operand::Memo;
use progress::Progress;
use sample::Part;

pub use compare::{Comparison, Coverage, Difference};
pub use progress::Tell;
pub use sample::Extent;
pub use threads::claim_threads;

/// An output with everything it may be.
#[derive(Clone, Debug)]
pub struct Evaluated {
    /// Its name.
    pub name: String,
    /// Its element type.
    pub dtype: DType,
    /// Its sizes.
    pub shape: Vec<usize>,
    /// Every element, in the order of a contiguous tensor.
    pub values: Vec<Value>,
    /// Of elements that may be one of several, by their position in `values`: disjoint enclosures, in rising order.
    alternatives: BTreeMap<usize, Vec<Value>>,
    /// Where the values are in a contiguous tensor, if they are not all of it.
    places: Option<Vec<usize>>,
    coverage: Coverage,
}

impl Evaluated {
    /// What an element of [`Evaluated::values`] may be, where an uncertain choice leaves several: disjoint enclosures in
    /// rising order. Empty where it has one.
    pub fn alternatives(&self, at: usize) -> &[Value] {
        self.alternatives.get(&at).map_or(&[], Vec::as_slice)
    }
}

/// Evaluates a defined graph.
pub fn evaluate(
    graph: &Graph,
    problem: &Problem,
    arguments: &Arguments,
    math: MathMode,
) -> Result<Vec<Evaluated>, BindError> {
    let inputs = problem.inputs(graph, arguments)?;
    Ok(evaluate_inputs(graph, problem, &inputs, math, &progress::ignore))
}

/// Evaluates a defined graph on validated arguments in the order of its signature; `tell` hears how far it is.
pub(crate) fn evaluate_inputs(
    graph: &Graph,
    problem: &Problem,
    inputs: &[Argument<'_>],
    math: MathMode,
    tell: Tell<'_>,
) -> Vec<Evaluated> {
    let memo = Memo::default();
    let call = Call { graph, kernel: graph, memo: &memo, problem, inputs, math };
    let mut all: Vec<(usize, Evaluated)> = Vec::new();
    each_part(call, (Extent::All, tell), |place, evaluated| all.push((place, evaluated)));
    all.sort_by_key(|(place, _)| *place);
    all.into_iter().map(|(_, evaluated)| evaluated).collect()
}

/// Evaluates what is looked at, of all graphs that store results; each with its place among them.
fn each_part(
    call: Call<'_>,
    (extent, tell): (Extent, Tell<'_>),
    mut found: impl FnMut(usize, Evaluated),
) {
    claim_threads();
    let sources = sources(call.kernel, call.problem);
    let parts: Vec<Vec<Part>> =
        sources.iter().map(|(source, problem)| parts_of(source, problem, extent)).collect();
    let costs = parts.iter().flatten().map(|part| part.cost);
    let progress = Progress::new(costs.fold(0, u64::saturating_add), tell);
    for ((Source { graph, results }, problem), parts) in sources.iter().zip(&parts) {
        let call = Call { graph, problem, ..call };
        for part in parts {
            let wanted = call.written(&part.wanted);
            let evaluated = evaluate::evaluate(call, &wanted, &progress);
            for (wanted, evaluated) in wanted.iter().zip(evaluated) {
                let result = results.iter().find(|(output, _)| *output == wanted.output);
                if let Some((_, place)) = result {
                    found(*place, evaluated);
                }
            }
        }
    }
}

/// The graphs that store results, each with its sizes.
fn sources<'a>(kernel: &'a Graph, problem: &Problem) -> Vec<(Source<'a>, Problem)> {
    let sized = |source: Source<'a>| {
        let own = if std::ptr::eq(source.graph, kernel) {
            problem.clone()
        } else {
            operand::sizes_of(problem, source.graph)
        };
        (source, own)
    };
    kernel.sources().into_iter().map(sized).collect()
}

fn parts_of(source: &Source<'_>, problem: &Problem, extent: Extent) -> Vec<Part> {
    let outputs: Vec<usize> = source.results.iter().map(|(output, _)| *output).collect();
    sample::parts(source.graph, problem, &outputs, extent)
}

/// Compares outputs of a defined graph with what they may be; arguments and outputs are validated and in the order of the
/// signature. Of an output that would take too long nothing is compared, which its coverage says.
pub(crate) fn check(
    graph: &Graph,
    problem: &Problem,
    (inputs, outputs): (&[Argument<'_>], &[TensorView<'_>]),
    math: MathMode,
    (extent, tell): (Extent, Tell<'_>),
) -> Vec<Comparison> {
    let memo = Memo::default();
    let call = Call { graph, kernel: graph, memo: &memo, problem, inputs, math };
    let mut comparisons: Vec<Comparison> =
        outputs.iter().map(|output| Comparison::none(output.len())).collect();
    each_part(call, (extent, tell), |place, evaluated| {
        comparisons[place] = evaluated.compare(outputs[place]);
    });
    comparisons
}

/// How many values a check holds at most.
pub fn held_elements(graph: &Graph, problem: &Problem, extent: Extent) -> u64 {
    let all = sources(graph, problem).into_iter();
    let parts = all.flat_map(|(source, problem)| parts_of(&source, &problem, extent));
    parts.map(|part| part.elements).max().unwrap_or(0)
}

/// A value converted to an element type as a cast or store does.
pub(crate) fn convert(to: DType, from: Elem, x: Value) -> Value {
    let rounded = |value: f64| crate::dtype::round_to(to, value);
    match (to.elem(), from) {
        // Nan is true, as everything that is not zero.
        (Elem::Bool, Elem::F32 | Elem::I32) => {
            let may_be_zero = x.contains(0.0);
            let may_be_other = x.nan || x.low != 0.0 || x.high != 0.0;
            Value::truth(x.nominal != 0.0, may_be_zero, may_be_other)
        }
        (Elem::I32, _) if x.is_only_nan() => Value::exact(0.0),
        (Elem::I32, _) => {
            let image = Value {
                nan: false,
                nominal: rounded(x.nominal),
                low: rounded(x.low),
                high: rounded(x.high),
            };
            if x.nan { image.or(Value::exact(0.0)) } else { image }
        }
        (Elem::F32 | Elem::Bool, _) => x.map_monotone(rounded),
    }
}
