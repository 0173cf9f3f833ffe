//! Forms that a node and its operands' own nodes make shorter together, where the hardware's accuracy is enough.
//!
//! In: a node of the graph. Out: the form and what it is computed of; nodes in between are computed only if others use
//! them.

use postlude_ptx::kernel::{Kernel, Reg};
use postlude_ptx::modifier::Approx;
use postlude_ptx::target::Architecture;
use postlude_ptx::types::F32;

use crate::functions::Accuracy;
use crate::functions::logarithm::log1p_within_one;
use crate::functions::saturating::one_plus_erf_hardware;
use crate::graph::{Binary, Graph, NodeId, Op, Unary};

use super::machine::Registers;
use super::ranges;

/// A shorter form.
#[derive(Clone, Copy)]
pub(super) enum Form {
    /// 1 / x of what is never subnormal, and needs no care for it.
    Reciprocal,
    /// log(1 + x) of what lies between 0 and 1.
    Log1pWithinOne,
    /// e^(scale x), as 2^(scale log2(e) x).
    Exp { scale: f64 },
    /// 1 + erf(scale x), as one function, which knows that the sum needs no more of erf than the 1 does.
    OnePlusErf { scale: f64 },
}

/// A shorter form of a node, and the node that it is computed of.
#[derive(Clone, Copy)]
pub(super) struct Short {
    form: Form,
    pub(super) of: NodeId,
}

impl Short {
    /// Of a node, if it has one.
    pub(super) fn of(graph: &Graph, accuracies: &[Accuracy], id: NodeId) -> Option<Short> {
        let enough = |id: NodeId| accuracies[id.index()] != Accuracy::Accurate;
        match graph[id].op {
            Op::Unary(op, operand) if enough(id) => Short::of_unary(graph, op, operand),
            Op::Binary(Binary::Add, a, b) => {
                let erf = match (ranges::constant(graph, a), ranges::constant(graph, b)) {
                    (Some(1.0), None) => b,
                    (None, Some(1.0)) => a,
                    _ => return None,
                };
                let Op::Unary(Unary::Erf, x) = graph[erf].op else { return None };
                let (of, scale) = scaled(graph, x).unwrap_or((x, 1.0));
                enough(erf).then_some(Short { form: Form::OnePlusErf { scale }, of })
            }
            _ => None,
        }
    }

    fn of_unary(graph: &Graph, op: Unary, operand: NodeId) -> Option<Short> {
        match op {
            Unary::Rcp if ranges::is_normal(graph, operand) => {
                Some(Short { form: Form::Reciprocal, of: operand })
            }
            Unary::Log1p if ranges::is_within_one(graph, operand) => {
                Some(Short { form: Form::Log1pWithinOne, of: operand })
            }
            Unary::Exp => {
                let (of, scale) = scaled(graph, operand)?;
                Some(Short { form: Form::Exp { scale }, of })
            }
            _ => None,
        }
    }

    /// Its value.
    pub(super) fn value<'k, C: Architecture>(
        self,
        k: Kernel<'k, C>,
        of: Reg<'k, F32>,
    ) -> Reg<'k, F32> {
        match self.form {
            Form::Reciprocal => of.approx(Approx::RcpFlush),
            Form::Log1pWithinOne => log1p_within_one(&Registers(k), of),
            Form::Exp { scale } => {
                (of * (scale * std::f64::consts::LOG2_E) as f32).approx(Approx::Ex2Flush)
            }
            Form::OnePlusErf { scale } => one_plus_erf_hardware(&Registers(k), of, scale),
        }
    }
}

/// The other factor and the constant of a product with a moderate one.
fn scaled(graph: &Graph, node: NodeId) -> Option<(NodeId, f64)> {
    ranges::scaled(graph, node).filter(|(_, scale)| ranges::is_moderate(*scale))
}

/// The nodes that outputs need, each in its shorter form where it has one.
pub(super) fn used(graph: &Graph, accuracies: &[Accuracy]) -> Vec<bool> {
    let mut used = vec![false; graph.len()];
    let mut open: Vec<NodeId> = graph.outputs().iter().map(|output| output.value).collect();
    while let Some(id) = open.pop() {
        if std::mem::replace(&mut used[id.index()], true) {
            continue;
        }
        match Short::of(graph, accuracies, id) {
            Some(short) => open.push(short.of),
            None => open.extend(graph[id].op.operands()),
        }
    }
    used
}
