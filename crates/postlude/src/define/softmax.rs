//! Logarithms of softmaxes, and what is left of 1 beside a probability.
//!
//! In: a logarithm as terms, or a probability. Out: differences of logsumexps from the maximum up, in which terms of the size
//! of the logits cancel exactly, and complements in which nothing cancels. Invariant: both are equal in exact arithmetic,
//! and what needs one pass over a row needs one still.

use crate::graph::{Binary, Fold, Graph, NodeId, Op, Over, Unary};

use super::views::{Fuel, binary, call, called, called_over, constant, negate, number, unary};

/// `x - logsumexp(x)` is a log_softmax, whatever the order and the signs.
pub(super) fn difference_from_logsumexp(graph: &mut Graph, op: &Op) -> Option<NodeId> {
    let (sign, a, b) = match *op {
        Op::Binary(Binary::Add, a, b) => (1.0, a, b),
        Op::Binary(Binary::Subtract, a, b) => (-1.0, a, b),
        _ => return None,
    };
    let signed =
        |node: NodeId| unary(graph, node, Unary::Negate).map_or((1.0, node), |a| (-1.0, a));
    let ((first, a), (second, b)) = (signed(a), signed(b));
    let second = sign * second;
    if first == second {
        return None;
    }
    let (sign, over, x) = match (logsumexp_of(graph, b), logsumexp_of(graph, a)) {
        (Some((over, x)), _) if x == a => (first, over, x),
        (_, Some((over, x))) if x == b => (second, over, x),
        _ => return None,
    };
    let node = call(graph, "log_softmax", Some(over), &[x]);
    (graph.ty(node) == graph.type_of(op).ok()?)
        .then(|| if sign < 0.0 { negate(graph, node) } else { node })
}

/// `max(x) + log(sum(exp(x - max(x))))` is the logsumexp, also of rows whose maximum is infinite.
pub(super) fn logsumexp_by_hand(graph: &mut Graph, op: &Op) -> Option<NodeId> {
    let Op::Binary(Binary::Add, a, b) = *op else { return None };
    [(a, b), (b, a)].into_iter().find_map(|(peak, above)| {
        let Op::Reduce(Fold::LogSumExpAboveMax, over, x) = graph[above].op else { return None };
        (graph[peak].op == Op::Reduce(Fold::Max, over, x))
            .then(|| graph.make(Op::Reduce(Fold::LogSumExp, over, x)))
    })
}

/// `pick(log_softmax(x), t)` reads one element of a row, and what is the row's once.
pub(super) fn pick_of_log_softmax(graph: &mut Graph, op: &Op) -> Option<NodeId> {
    let Op::Pick(of, index) = *op else { return None };
    let (over, x) = called_over(graph, of, "log_softmax")?;
    picked_log_softmax(graph, over, x, index)
}

/// `expm1(log_softmax(x))` is the opposite of `1 - softmax(x)`.
pub(super) fn expm1_of_log_softmax(graph: &mut Graph, op: &Op) -> Option<NodeId> {
    let Op::Unary(Unary::Expm1, a) = *op else { return None };
    let (over, x) = called_over(graph, a, "log_softmax")?;
    let rest = call(graph, "one_minus_softmax", Some(over), &[x]);
    Some(negate(graph, rest))
}

/// `(x - max(x)) - (logsumexp(x) - max(x))`
pub(super) fn expand_log_softmax(graph: &mut Graph, over: Over, x: NodeId) -> NodeId {
    let (peak, above) = (maximum(graph, over, x), above_maximum(graph, over, x));
    let shifted = binary(graph, Binary::Subtract, x, peak);
    binary(graph, Binary::Subtract, shifted, above)
}

fn picked_log_softmax(graph: &mut Graph, over: Over, x: NodeId, index: NodeId) -> Option<NodeId> {
    let (peak, above) = (maximum(graph, over, x), above_maximum(graph, over, x));
    if graph.ty(x).axes.column.is_none() || graph.ty(peak).axes.column.is_some() {
        return None;
    }
    let picked = graph.make(Op::Pick(x, index));
    let shifted = binary(graph, Binary::Subtract, picked, peak);
    Some(binary(graph, Binary::Subtract, shifted, above))
}

fn logsumexp_of(graph: &Graph, node: NodeId) -> Option<(Over, NodeId)> {
    match graph[node].op {
        Op::Reduce(Fold::LogSumExp, over, x) => Some((over, x)),
        _ => None,
    }
}

fn maximum(graph: &mut Graph, over: Over, x: NodeId) -> NodeId {
    graph.make(Op::Reduce(Fold::Max, over, x))
}

/// `logsumexp(x) - max(x)`
pub(super) fn above_maximum(graph: &mut Graph, over: Over, x: NodeId) -> NodeId {
    graph.make(Op::Reduce(Fold::LogSumExpAboveMax, over, x))
}

/// The same, 0 where the maximum is infinite: then that is the logsumexp.
fn above_any_maximum(graph: &mut Graph, over: Over, x: NodeId) -> NodeId {
    let (peak, above) = (maximum(graph, over, x), above_maximum(graph, over, x));
    let infinite = graph.make(Op::Unary(Unary::IsInf, peak));
    let zero = constant(graph, 0.0);
    graph.make(Op::Select(infinite, zero, above))
}

/// Terms of a logarithm in which a logsumexp meets what it is close to, as one accurate term each.
pub(super) fn paired(graph: &mut Graph, mut terms: Vec<(f64, NodeId)>) -> Vec<(f64, NodeId)> {
    while let Some((first, second, together)) =
        pair(graph, &terms, less_logsumexp).or_else(|| pair(graph, &terms, less_any_logsumexp))
    {
        terms[first].1 = together;
        terms.remove(second);
    }
    terms
}

/// What a term is less a logsumexp.
type Difference = fn(&mut Graph, NodeId, NodeId) -> Option<NodeId>;

/// A term, the logsumexp that is taken off it, and the difference.
fn pair(
    graph: &mut Graph,
    terms: &[(f64, NodeId)],
    less: Difference,
) -> Option<(usize, usize, NodeId)> {
    for (second, &(taken, total)) in terms.iter().enumerate() {
        for (first, &(factor, term)) in terms.iter().enumerate() {
            if factor == -taken
                && let Some(node) = less(graph, term, total)
            {
                return Some((first, second, node));
            }
        }
    }
    None
}

/// `term - logsumexp(x)` of a term that is made of it.
fn less_logsumexp(graph: &mut Graph, term: NodeId, total: NodeId) -> Option<NodeId> {
    if let Some((over, x)) = called_over(graph, total, "log_sum_of_other_exps")
        && term == x
    {
        let (own, rest) = (
            call(graph, "log_softmax", Some(over), &[x]),
            call(graph, "log_one_minus_softmax", Some(over), &[x]),
        );
        return Some(binary(graph, Binary::Subtract, own, rest));
    }
    if let (Op::Pick(of, index), Op::Pick(others, other)) = (&graph[term].op, &graph[total].op)
        && index == other
    {
        let (of, others, index) = (*of, *others, *index);
        let odds = less_logsumexp(graph, of, others)?;
        return Some(graph.make(Op::Pick(odds, index)));
    }
    let (over, x) = logsumexp_of(graph, total)?;
    if term == x {
        return Some(call(graph, "log_softmax", Some(over), &[x]));
    }
    let others = |graph: &Graph, node: NodeId| {
        called_over(graph, node, "log_sum_of_other_exps") == Some((over, x))
    };
    if others(graph, term) {
        return Some(call(graph, "log_one_minus_softmax", Some(over), &[x]));
    }
    match graph[term].op {
        Op::Pick(of, index) if of == x => picked_log_softmax(graph, over, x, index),
        Op::Pick(of, index) if others(graph, of) => {
            let log = call(graph, "log_one_minus_softmax", Some(over), &[x]);
            Some(graph.make(Op::Pick(log, index)))
        }
        _ => None,
    }
}

/// `term - logsumexp(x)` of any other term, as one-hot and masked sums are beside the whole one: maxima meet first.
fn less_any_logsumexp(graph: &mut Graph, term: NodeId, total: NodeId) -> Option<NodeId> {
    let (over, x) = logsumexp_of(graph, total)?;
    // A count, or a function that is not of the size of logits.
    if matches!(graph[term].op, Op::Unary(Unary::Log, _) | Op::Call(..)) {
        return None;
    }
    let (lower, second) = (maximum(graph, over, x), above_any_maximum(graph, over, x));
    if let Some((own, y)) = logsumexp_of(graph, term) {
        let (upper, first) = (maximum(graph, own, y), above_any_maximum(graph, own, y));
        let peaks = binary(graph, Binary::Subtract, upper, lower);
        let rest = binary(graph, Binary::Subtract, first, second);
        return Some(binary(graph, Binary::Add, peaks, rest));
    }
    let shifted = binary(graph, Binary::Subtract, term, lower);
    Some(binary(graph, Binary::Subtract, shifted, second))
}

/// `1 - p` of a probability: a sigmoid, a softmax, a choice or an element of such.
pub(super) fn complement(graph: &mut Graph, p: NodeId, fuel: &mut Fuel) -> Option<NodeId> {
    fuel.burn()?;
    if let Some(x) = called(graph, p, "sigmoid") {
        let opposite = negate(graph, x);
        return Some(call(graph, "sigmoid", None, &[opposite]));
    }
    if let Some((over, x)) = called_over(graph, p, "one_minus_softmax") {
        return Some(call(graph, "softmax", Some(over), &[x]));
    }
    let of_logits = called_over(graph, p, "softmax").or_else(|| {
        let log = unary(graph, p, Unary::Exp)?;
        called_over(graph, log, "log_softmax")
    });
    if let Some((over, x)) = of_logits {
        return Some(call(graph, "one_minus_softmax", Some(over), &[x]));
    }
    match graph[p].op {
        Op::Pick(of, index) => {
            let rest = complement(graph, of, fuel)?;
            Some(graph.make(Op::Pick(rest, index)))
        }
        Op::Part(part, of) => {
            let rest = complement(graph, of, fuel)?;
            Some(graph.make(Op::Part(part, rest)))
        }
        Op::Merge(merge, a, b) => {
            let (a, b) = both_complements(graph, a, b, fuel)?;
            graph.add(Op::Merge(merge, a, b)).ok()
        }
        Op::Concat(concat, ref parts) => {
            let parts = parts.clone();
            let rest: Option<Vec<NodeId>> =
                parts.iter().map(|part| complement(graph, *part, fuel)).collect();
            graph.add(Op::Concat(concat, rest?)).ok()
        }
        Op::Select(condition, a, b) => {
            let (a, b) = both_complements(graph, a, b, fuel)?;
            Some(graph.make(Op::Select(condition, a, b)))
        }
        Op::Binary(op @ (Binary::Maximum | Binary::Minimum), a, b) => {
            let (a, b) = both_complements(graph, a, b, fuel)?;
            let mirrored = if op == Binary::Maximum { Binary::Minimum } else { Binary::Maximum };
            Some(binary(graph, mirrored, a, b))
        }
        Op::Reduce(fold @ (Fold::Max | Fold::Min), over, of) => {
            let rest = complement(graph, of, fuel)?;
            let mirrored = if fold == Fold::Max { Fold::Min } else { Fold::Max };
            Some(graph.make(Op::Reduce(mirrored, over, rest)))
        }
        _ => None,
    }
}

/// The complements of two, one of which may be a constant.
fn both_complements(
    graph: &mut Graph,
    a: NodeId,
    b: NodeId,
    fuel: &mut Fuel,
) -> Option<(NodeId, NodeId)> {
    let of_number = |graph: &mut Graph, node: NodeId| {
        number(graph, node).map(|value| constant(graph, (1.0 - f64::from(value)) as f32))
    };
    match (of_number(graph, a), of_number(graph, b)) {
        (Some(_), Some(_)) => None,
        (Some(a), None) => Some((a, complement(graph, b, fuel)?)),
        (None, Some(b)) => Some((complement(graph, a, fuel)?, b)),
        (None, None) => Some((complement(graph, a, fuel)?, complement(graph, b, fuel)?)),
    }
}
