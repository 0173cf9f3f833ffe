//! The definition: what a kernel computes, with everything a conforming engine may make of it.
//!
//! In: a defined graph and arguments. Out: for every output, every element as a [`Value`] after the store's rounding.
//! Slow, obvious, complete: one array for every node, no tiles, no order that matters.

mod accumulate;
mod evaluate;

use crate::dtype::{DType, Elem};
use crate::graph::{Graph, MathMode, Value};
use crate::problem::{Arguments, Problem};
use crate::tensor::{Tensor, TensorError};

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
}

/// How an engine's output compares with the reference.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Comparison {
    /// The largest |got - want| / bound: at most 1 when every element is right.
    pub worst: f64,
    /// The largest bound there was.
    pub bound: f64,
    /// Where the worst element is, in the order of a contiguous tensor.
    pub at: usize,
}

impl Evaluated {
    /// The nominal result as a tensor.
    pub fn tensor(&self) -> Result<Tensor, TensorError> {
        let values: Vec<f64> = self.values.iter().map(|value| value.nominal).collect();
        Tensor::from_values(self.dtype, self.shape.clone(), &values)
    }

    /// Compares an engine's result, element by element.
    pub fn compare(&self, got: &Tensor) -> Comparison {
        let mut comparison = Comparison { worst: 0.0, bound: 0.0, at: 0 };
        if got.shape() != self.shape || got.dtype() != self.dtype {
            comparison.worst = f64::INFINITY;
            return comparison;
        }
        for (place, (value, got)) in self.values.iter().zip(got.values()).enumerate() {
            let distance = value.distance(got);
            if distance > comparison.worst {
                comparison.worst = distance;
                comparison.at = place;
            }
            if value.bound().is_finite() {
                comparison.bound = comparison.bound.max(value.bound());
            }
        }
        comparison
    }
}

/// Evaluates a defined graph.
pub fn evaluate(
    graph: &Graph,
    problem: &Problem,
    arguments: &Arguments,
    math: MathMode,
) -> Vec<Evaluated> {
    evaluate::evaluate(graph, problem, arguments, math)
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
