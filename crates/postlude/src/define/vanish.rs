//! Products with a logarithm, 0 where the other factor is: what has probability zero adds nothing.
//!
//! In: a product. Out: the product, chosen to be 0 where one factor is 0 and the other the logarithm of 0. Invariant: nan
//! stays nan.

use crate::dtype::Elem;
use crate::graph::{Binary, Fold, Graph, NodeId, Op, Unary};

use super::views::{Fuel, called, constant, number, unary};

/// `y * log(p)` is 0 where y is 0, also where p has vanished; a nan in p stays.
pub(super) fn product_with_log(graph: &mut Graph, op: &Op) -> Option<NodeId> {
    let Op::Binary(Binary::Multiply, a, b) = op else { return None };
    let log_argument = |node| {
        let positive = unary(graph, node, Unary::Negate).unwrap_or(node);
        unary(graph, positive, Unary::Log)
            .or_else(|| unary(graph, positive, Unary::Log2))
            .or_else(|| unary(graph, positive, Unary::Log1p))
    };
    let (factor, p) = match (log_argument(*a), log_argument(*b)) {
        (None, Some(p)) => (*a, p),
        (Some(p), None) => (*b, p),
        _ => return None,
    };
    if graph.ty(factor).elem != Elem::F32 || number(graph, factor).is_some() {
        return None;
    }
    let bad = graph.make(Op::Unary(Unary::IsNan, p));
    let good = graph.make(Op::Unary(Unary::Not, bad));
    Some(zero_where(graph, op, factor, good))
}

/// `y * log(softmax(x))` is 0 where y is 0 and x has been masked by minus infinity.
pub(super) fn product_with_log_softmax(graph: &mut Graph, op: &Op) -> Option<NodeId> {
    let Op::Binary(Binary::Multiply, a, b) = op else { return None };
    let masked = |node| {
        let positive = unary(graph, node, Unary::Negate).unwrap_or(node);
        called(graph, positive, "log_softmax")
    };
    let (factor, x) = match (masked(*a), masked(*b)) {
        (None, Some(x)) => (*a, x),
        (Some(x), None) => (*b, x),
        _ => return None,
    };
    if number(graph, factor).is_some() {
        return None;
    }
    let least = constant(graph, f32::NEG_INFINITY);
    let masked = graph.make(Op::Binary(Binary::Equal, x, least));
    Some(zero_where(graph, op, factor, masked))
}

/// `y * l` is 0 where y is 0 and `l`, a logarithm that rules made, is infinite.
pub(super) fn product_with_masked_log(graph: &mut Graph, op: &Op) -> Option<NodeId> {
    let Op::Binary(Binary::Multiply, a, b) = op else { return None };
    if graph.ty(*a).elem != Elem::F32 {
        return None;
    }
    let masked = |node| may_be_log_of_zero(graph, node, &mut Fuel::new());
    let (factor, log) = match (masked(*a), masked(*b)) {
        (false, true) => (*a, *b),
        (true, false) => (*b, *a),
        _ => return None,
    };
    if number(graph, factor).is_some() {
        return None;
    }
    let infinite = graph.make(Op::Unary(Unary::IsInf, log));
    Some(zero_where(graph, op, factor, infinite))
}

/// A choice of minus infinity, or a term less a logsumexp.
fn may_be_log_of_zero(graph: &Graph, node: NodeId, fuel: &mut Fuel) -> bool {
    if fuel.burn().is_none() {
        return false;
    }
    match graph[node].op {
        Op::Unary(Unary::Negate, a) => may_be_log_of_zero(graph, a, fuel),
        Op::Call(ref call, _) => matches!(
            call.function,
            "log_softmax" | "log_one_minus_softmax" | "log_sum_of_other_exps" | "log_one_minus_exp"
        ),
        Op::Pick(of, _) | Op::Part(_, of) => may_be_log_of_zero(graph, of, fuel),
        Op::Select(_, a, b) => {
            number(graph, a) == Some(f32::NEG_INFINITY)
                || number(graph, b) == Some(f32::NEG_INFINITY)
                || may_be_log_of_zero(graph, a, fuel)
                || may_be_log_of_zero(graph, b, fuel)
        }
        Op::Binary(Binary::Subtract, a, total) => {
            matches!(graph[total].op, Op::Reduce(Fold::LogSumExp | Fold::LogSumExpAboveMax, ..))
                || may_be_log_of_zero(graph, a, fuel)
        }
        Op::Binary(Binary::Add, a, b) => {
            may_be_log_of_zero(graph, a, fuel) || may_be_log_of_zero(graph, b, fuel)
        }
        Op::Binary(Binary::Multiply, a, b) => {
            (number(graph, a).is_some() && may_be_log_of_zero(graph, b, fuel))
                || (number(graph, b).is_some() && may_be_log_of_zero(graph, a, fuel))
        }
        _ => false,
    }
}

/// The product, 0 where the factor is 0 and the condition holds.
fn zero_where(graph: &mut Graph, op: &Op, factor: NodeId, condition: NodeId) -> NodeId {
    let zero = constant(graph, 0.0);
    let vanishes = graph.make(Op::Binary(Binary::Equal, factor, zero));
    let quiet = graph.make(Op::Binary(Binary::And, vanishes, condition));
    let product = graph.make(op.clone());
    graph.make(Op::Select(quiet, zero, product))
}
