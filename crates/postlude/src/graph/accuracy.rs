//! How accurate each function has to be: the strictest of the places its result reaches.

use crate::dtype::DType;
use crate::functions::Accuracy;

use super::Graph;
use super::op::Op;
use super::ops::Fold;

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
    for (id, node) in graph.nodes().rev() {
        // What is folded into a reduction needs no more than the hardware gives, nor do the exponentials that one adds up.
        match node.op {
            Op::Reduce(Fold::LogSumExp | Fold::LogSumExpAboveMax, ..) | Op::ReduceWeighted(..) => {
                accuracies[id.index()] = Accuracy::Hardware;
            }
            Op::Reduce(..) => {}
            // A choice between one value and itself says nothing about its condition, and is dropped by engines.
            Op::Select(_, a, b) if a == b => {
                accuracies[a.index()] = accuracies[a.index()].min(accuracies[id.index()]);
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
