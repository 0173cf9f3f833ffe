//! Replaces forms that overflow or cancel by ones that do not (docs/numerics.md, "Stability").
//!
//! Each node is made through here, its operands already stable, so a rule sees one level at a time and later rules see
//! what earlier ones made. A rule changes the value only where the naive form lost it. The rules stand on the algebra of
//! exponentials: logarithms of them (`logarithm`), their products and quotients (`quotient`), their differences
//! (`difference`), softmaxes (`softmax`).

use crate::graph::{Binary, Graph, NodeId, Op, Unary};

use super::difference::{difference_that_cancels, half_of_one_plus_tanh};
use super::logarithm::{log_of_exponentials, one_plus};
use super::quotient::{power_of_exponential, product_of_exponentials, quotient_of_exponentials};
use super::renormalise::quotient_of_one_softmax;
use super::softmax::{
    difference_from_logsumexp, expm1_of_log_softmax, logsumexp_by_hand, pick_of_log_softmax,
};
use super::vanish::{product_with_log, product_with_log_softmax, product_with_masked_log};
use super::views::{square, unary};

/// One rule: the node to use instead, if it applies.
type Rule = fn(&mut Graph, &Op) -> Option<NodeId>;

/// The rules, in the order tried.
const RULES: &[Rule] = &[
    double_negation,
    root_of_square,
    logsumexp_by_hand,
    difference_from_logsumexp,
    difference_that_cancels,
    expm1_of_log_softmax,
    pick_of_log_softmax,
    half_of_one_plus_tanh,
    power_of_exponential,
    product_of_exponentials,
    quotient_of_exponentials,
    quotient_of_one_softmax,
    log_of_exponentials,
    log_of_sum_with_one,
    product_with_log,
    product_with_log_softmax,
    product_with_masked_log,
];

/// Makes the node, or the stable one that stands for it.
pub(super) fn stabilise(graph: &mut Graph, op: Op) -> NodeId {
    for rule in RULES {
        if let Some(node) = rule(graph, &op) {
            return node;
        }
    }
    graph.make(op)
}

/// `-(-x)` is `x`.
fn double_negation(graph: &mut Graph, op: &Op) -> Option<NodeId> {
    match op {
        Op::Unary(Unary::Negate, a) => unary(graph, *a, Unary::Negate),
        _ => None,
    }
}

/// `sqrt(square(x))` is `abs(x)`.
fn root_of_square(graph: &mut Graph, op: &Op) -> Option<NodeId> {
    let Op::Unary(Unary::Sqrt, a) = op else { return None };
    let x = match graph[*a].op {
        Op::Binary(Binary::Multiply, a, b) if a == b => a,
        _ => square(graph, *a).filter(|(sign, _)| *sign > 0.0)?.1,
    };
    Some(graph.make(Op::Unary(Unary::Abs, x)))
}

/// `log(1 + x)` is `log1p(x)`.
fn log_of_sum_with_one(graph: &mut Graph, op: &Op) -> Option<NodeId> {
    let Op::Unary(Unary::Log, a) = op else { return None };
    let x = one_plus(graph, *a)?;
    Some(stabilise(graph, Op::Unary(Unary::Log1p, x)))
}
