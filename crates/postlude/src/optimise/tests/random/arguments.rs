//! Random sizes and data.

use crate::dtype::{DType, Elem};
use crate::graph::{Graph, Node, Op};
use crate::problem::{Argument, Arguments, Problem, Sizes};
use crate::tensor::Tensor;

use super::Random;

/// What the numbers are like.
#[derive(Clone, Copy)]
enum Data {
    /// Small whole numbers, on which arithmetic is exact.
    Whole,
    /// Numbers between -4 and 4.
    Fractions,
    /// As fractions, with nan, infinities, zeros of both signs and the ends of the range among them.
    Special,
}

/// Sizes and arguments for a graph.
pub(super) fn arguments(random: &mut Random, graph: &Graph) -> (Problem, Arguments<'static>) {
    let mut sizes = Sizes::new();
    let mut put = |name: &str, size| sizes.insert(name.to_owned(), size);
    // There is no index among no elements.
    let indexed = |node: &Node| matches!(node.op, Op::Reduce(fold, ..) if fold.uses_index());
    let least = usize::from(graph.nodes().any(|(_, node)| indexed(node)));
    put("M", random.of(&[3, 1, 2, 0, 4]).max(least));
    put("N", if random.one_in(16) { 0 } else { 16 }.max(16 * least));
    put("K", random.of(&[4, 1, 0, 7]));
    if !graph.space().batch.is_empty() {
        put("L", random.of(&[2, 1, 3]));
    }
    let problem = match Problem::new(graph, &sizes) {
        Ok(problem) => problem,
        Err(error) => panic!("compiler bug: random sizes: {error}"),
    };
    let data = random.of(&[Data::Whole, Data::Fractions, Data::Fractions, Data::Special]);
    let mut arguments = Arguments::new();
    for input in graph.inputs() {
        let argument = match &input.dims {
            None => Argument::Scalar(value(random, input.dtype, data)),
            Some(dims) => {
                let shape = problem.shape(dims);
                let count = shape.iter().product();
                let values: Vec<f64> =
                    (0..count).map(|_| value(random, input.dtype, data)).collect();
                match Tensor::from_values(input.dtype, shape, &values) {
                    Ok(tensor) => Argument::Tensor(tensor),
                    Err(error) => panic!("compiler bug: random data: {error}"),
                }
            }
        };
        arguments.insert(input.name.clone(), argument);
    }
    (problem, arguments)
}

const SPECIAL: [f64; 9] =
    [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 0.0, -0.0, 1.0, -1.0, 1e30, 1e-40];

fn value(random: &mut Random, dtype: DType, data: Data) -> f64 {
    let whole = random.below(9) as f64 - 4.0;
    match (dtype.elem(), data) {
        (Elem::Bool, _) => f64::from(u8::from(random.one_in(2))),
        // Indices: most of them columns.
        (Elem::I32, _) => random.below(20) as f64 - 2.0,
        (Elem::F32, Data::Whole) => whole,
        (Elem::F32, Data::Special) if random.one_in(6) => random.of(&SPECIAL),
        (Elem::F32, Data::Fractions | Data::Special) => {
            (random.below(1 << 20) as f64 / f64::from(1 << 20) - 0.5) * 8.0
        }
    }
}
