//! How accurate each function has to be: the strictest of the places its result reaches.

use crate::dtype::DType;
use crate::functions::Accuracy;

use super::op::{Constant, Op};
use super::ops::{Binary, Fold, Unary};
use super::{Graph, NodeId};

/// What the user asked of functions.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum MathMode {
    /// By where a value goes: accurate for 32-bit tiles and vectors, hardware forms for reductions and narrow outputs.
    #[default]
    Default,
    /// At most 2 ulp everywhere.
    Accurate,
    /// Hardware approximations everywhere, and relaxed algebra.
    Fast,
}

impl MathMode {
    /// The name on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            MathMode::Default => "default",
            MathMode::Accurate => "accurate",
            MathMode::Fast => "fast",
        }
    }
}

/// The accuracy of every node's function.
pub fn accuracies(graph: &Graph, math: MathMode) -> Vec<Accuracy> {
    needed(graph, math, |_| true)
}

/// What every engine has of it: one that computes the parts of a split apart computes each as accurately as its own outputs
/// need, so that a part asks nothing of the whole.
pub(crate) fn least_accuracies(graph: &Graph, math: MathMode) -> Vec<Accuracy> {
    needed(graph, math, |op| !matches!(op, Op::Part(..)))
}

/// Whether an operation compares two values.
fn compares(op: Binary) -> bool {
    matches!(op, Binary::Less | Binary::LessEqual | Binary::Equal | Binary::NotEqual)
}

/// Conditions that are the same whatever the data are.
fn known_truths(graph: &Graph) -> Vec<Option<bool>> {
    let mut known: Vec<Option<bool>> = Vec::with_capacity(graph.len());
    for (_, node) in graph.nodes() {
        let of = |node: NodeId| known[node.index()];
        known.push(match node.op {
            Op::Constant(Constant::Bool(truth)) => Some(truth),
            Op::Binary(Binary::Less, a, b) if a == b => Some(false),
            Op::Unary(Unary::Not, a) => of(a).map(|truth| !truth),
            Op::Binary(Binary::And, a, b) => match (of(a), of(b)) {
                (Some(false), _) | (_, Some(false)) => Some(false),
                (a, b) => a.zip(b).map(|(a, b)| a && b),
            },
            Op::Binary(Binary::Or, a, b) => match (of(a), of(b)) {
                (Some(true), _) | (_, Some(true)) => Some(true),
                (a, b) => a.zip(b).map(|(a, b)| a || b),
            },
            _ => None,
        });
    }
    known
}

/// The accuracy that outputs ask of every node, through operations that pass it on.
fn needed(graph: &Graph, math: MathMode, passes_on: impl Fn(&Op) -> bool) -> Vec<Accuracy> {
    match math {
        MathMode::Accurate => return vec![Accuracy::Accurate; graph.len()],
        MathMode::Fast => return vec![Accuracy::Fast; graph.len()],
        MathMode::Default => {}
    }
    let mut accuracies = vec![Accuracy::Hardware; graph.len()];
    for output in graph.outputs() {
        if matches!(output.dtype, DType::F32 | DType::I32) {
            let values = output.values();
            values.for_each(|value| accuracies[value.index()] = Accuracy::Accurate);
        }
    }
    let known = known_truths(graph);
    for (id, node) in graph.nodes().rev() {
        // What is folded into a reduction needs no more than the hardware gives, nor do the exponentials that one adds up.
        match node.op {
            Op::Reduce(Fold::LogSumExp | Fold::LogSumExpAboveMax, ..) | Op::ReduceWeighted(..) => {
                accuracies[id.index()] = Accuracy::Hardware;
            }
            Op::Reduce(..) => {}
            // Engines drop a comparison of a value with itself, and what a condition that is always the same leaves out.
            Op::Binary(op, a, b) if a == b && compares(op) => {}
            Op::Select(condition, a, b) if a == b || known[condition.index()].is_some() => {
                let chosen = if known[condition.index()] == Some(false) { b } else { a };
                accuracies[chosen.index()] = accuracies[chosen.index()].min(accuracies[id.index()]);
            }
            _ if accuracies[id.index()] == Accuracy::Accurate && passes_on(&node.op) => {
                let operands = node.op.operands();
                operands.for_each(|operand| accuracies[operand.index()] = Accuracy::Accurate);
            }
            _ => {}
        }
    }
    accuracies
}
