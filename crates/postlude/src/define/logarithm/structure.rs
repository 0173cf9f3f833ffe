//! The logarithm of what is chosen, picked or reduced.
//!
//! In: a choice, an element of a row or a reduction. Out: the logarithms of what it is of, put together the same way.

use crate::graph::{Concat, Fold, Graph, NodeId, Op, Over, Unary};

use super::super::quotient::log_of_weighted_sum;
use super::super::views::{Fuel, constant, folds_as, number, unguarded, varies};
use super::terms::Log;
use super::{Unknown, log_of, one_plus, stable_log};

/// `log(where(c, a, b))`: what is 0 has the logarithm of minus infinity.
pub(super) fn log_of_choice(
    graph: &mut Graph,
    condition: NodeId,
    a: NodeId,
    b: NodeId,
    unknown: Unknown,
    fuel: &mut Fuel,
) -> Option<Log> {
    let mut side = |graph: &mut Graph, node: NodeId| {
        if number(graph, node) == Some(0.0) {
            let least = constant(graph, f32::NEG_INFINITY);
            return Some(Log { informative: false, ..Log::known(vec![(1.0, least)], false) });
        }
        let known = log_of(graph, node, Unknown::Refused, fuel).map(|log| log.combined(graph));
        match (known, unknown) {
            (Some(log), _) => Some(log),
            (None, Unknown::Allowed) => {
                // Choices within choices share their fuel, so that none are followed without end.
                let log = log_within(graph, node, fuel);
                Some(Log { informative: false, ..Log::signed(vec![(1.0, log)], true) })
            }
            (None, Unknown::Refused) => None,
        }
    };
    let (mut left, mut right) = (side(graph, a)?, side(graph, b)?);
    // A finite shift may be taken out of a choice whose other side is minus infinity.
    let mut outside = Vec::new();
    for (log, other) in [(&mut left, b), (&mut right, a)] {
        if number(graph, other) == Some(0.0) {
            let is_shift = |term: NodeId| unguarded(graph, term).is_some();
            outside.extend(log.terms.iter().filter(|(_, term)| is_shift(*term)));
            log.terms.retain(|(_, term)| !is_shift(*term));
        }
    }
    let (x, y) = (left.node(graph), right.node(graph));
    let same = x == y && graph.ty(x).axes.join(graph.ty(condition).axes) == Some(graph.ty(x).axes);
    let choice = if same { x } else { graph.make(Op::Select(condition, x, y)) };
    let both = left.plus(right);
    let terms = [(1.0, choice)].into_iter().chain(outside).collect();
    Some(Log { terms, constant: 0.0, ..both })
}

/// The logarithm by the rules, as far as the fuel lasts.
fn log_within(graph: &mut Graph, node: NodeId, fuel: &mut Fuel) -> NodeId {
    if let Some(log) = stable_log(graph, Unary::Log, node, fuel) {
        return log;
    }
    let (function, x) = one_plus(graph, node).map_or((Unary::Log, node), |x| (Unary::Log1p, x));
    let more = (function == Unary::Log1p).then(|| stable_log(graph, function, x, fuel));
    more.flatten().unwrap_or_else(|| graph.make(Op::Unary(function, x)))
}

/// `log(pick(p, t))` is the logarithm's own element; terms of the whole row stay.
pub(super) fn log_of_pick(
    graph: &mut Graph,
    of: NodeId,
    index: NodeId,
    unknown: Unknown,
    fuel: &mut Fuel,
) -> Option<Log> {
    let log = log_of(graph, of, unknown, fuel)?.combined(graph);
    let axes = graph.ty(of).axes;
    let whole = |graph: &Graph, term: NodeId| graph.ty(term).axes.column.is_none();
    let same = |graph: &Graph, term: NodeId| graph.ty(term).axes == axes;
    if log.terms.iter().all(|(_, term)| whole(graph, *term)) {
        return None;
    }
    let mut terms = Vec::new();
    if log.terms.iter().all(|(_, term)| whole(graph, *term) || same(graph, *term)) {
        for &(factor, term) in &log.terms {
            let picked = !whole(graph, term);
            terms.push((factor, if picked { graph.make(Op::Pick(term, index)) } else { term }));
        }
        return Some(Log { terms, ..log });
    }
    let value = log.node(graph);
    let value = same(graph, value).then(|| graph.make(Op::Pick(value, index)))?;
    Some(Log { terms: vec![(1.0, value)], constant: 0.0, ..log })
}

/// The logarithm of a sum of exponentials is a logsumexp, that of a product a sum.
pub(super) fn log_of_reduction(
    graph: &mut Graph,
    fold: Fold,
    over: Over,
    terms: NodeId,
    fuel: &mut Fuel,
) -> Option<Log> {
    let folded = graph.ty(terms).axes;
    match fold {
        Fold::Sum => {
            let Some(log) = log_of(graph, terms, Unknown::Refused, fuel) else {
                return log_of_weighted_sum(graph, over, terms)
                    .map(|(peak, log)| Log::signed(vec![(1.0, peak), (1.0, log)], true));
            };
            let log = log.of_positive()?.combined(graph);
            let (varying, rest): (Vec<_>, Vec<_>) =
                log.terms.iter().partition(|(_, term)| varies(graph, *term, over, folded));
            let unbounded = log.unbounded;
            let informative = log.informative;
            let x = Log { terms: varying, constant: 0.0, ..log }.node(graph);
            if !folds_as(graph, x, over, folded) {
                return None;
            }
            let total = graph.make(Op::Reduce(Fold::LogSumExp, over, x));
            let terms = [(1.0, total)].into_iter().chain(rest).collect();
            Some(Log { constant: log.constant, informative, ..Log::known(terms, unbounded) })
        }
        Fold::Prod => {
            let log = log_of(graph, terms, Unknown::Refused, fuel)?.of_positive()?.combined(graph);
            let x = log.node(graph);
            let total = folds_as(graph, x, over, folded)
                .then(|| graph.make(Op::Reduce(Fold::Sum, over, x)))?;
            Some(Log { terms: vec![(1.0, total)], constant: 0.0, ..log })
        }
        // Logarithms grow with their arguments.
        Fold::Max | Fold::Min | Fold::AbsMax => {
            let log = log_of(graph, terms, Unknown::Refused, fuel)?.of_positive()?.combined(graph);
            let (varying, rest): (Vec<_>, Vec<_>) =
                log.terms.iter().partition(|(_, term)| varies(graph, *term, over, folded));
            let x = Log { terms: varying, constant: 0.0, ..log.clone() }.node(graph);
            if !folds_as(graph, x, over, folded) {
                return None;
            }
            let fold = if fold == Fold::AbsMax { Fold::Max } else { fold };
            let extreme = graph.make(Op::Reduce(fold, over, x));
            let terms = [(1.0, extreme)].into_iter().chain(rest).collect();
            Some(Log { terms, ..log })
        }
        Fold::LogSumExp
        | Fold::LogSumExpAboveMax
        | Fold::ArgMax
        | Fold::ArgMin
        | Fold::Top(_)
        | Fold::Weighted(_) => None,
    }
}

/// Of parts that are put together, each by itself.
pub(super) fn log_of_concat(
    graph: &mut Graph,
    concat: Concat,
    parts: Vec<NodeId>,
    fuel: &mut Fuel,
) -> Option<Log> {
    let mut logs = Vec::new();
    for part in parts {
        logs.push(log_of(graph, part, Unknown::Refused, fuel)?);
    }
    let nodes = logs.iter().map(|log| log.node(graph)).collect();
    let value = graph.add(Op::Concat(concat, nodes)).ok()?;
    let all = logs.into_iter().reduce(Log::plus)?;
    Some(Log { terms: vec![(1.0, value)], constant: 0.0, ..all })
}
