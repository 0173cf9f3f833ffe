//! Reductions of what is simpler than it looks: constants, one-hots, negated, scaled and already reduced values.
//!
//! In: reductions of values that vary along everything that is folded. Out: the same results from fewer operations on the
//! tile. Rules that regroup f32 sums run under fast math only; the others give the reference's nominal value to the bit.

mod invariant;
mod monotone;
mod one_hot;

use crate::dtype::Elem;
use crate::graph::{Binary, Constant, Fold, Graph, NodeId, Op, Over, Run, Unary};

use super::Context;
use super::rules::{Rule, Site, rewrite};

pub(super) use invariant::{fold_narrowed, is_invariant};

const RULES: &[Rule] = &[
    run_of_one,
    fold_of_negated,
    magnitude_of_magnitude,
    nested,
    one_hot::one_hot,
    monotone::scaled,
    monotone::shifted,
    monotone::applied,
    monotone::rounded,
    factor_out,
    shifted_exponentials,
];

/// The graph with reductions rewritten.
pub(super) fn rewrite_reductions(graph: &Graph, context: &Context<'_>) -> Graph {
    rewrite(graph, context, RULES)
}

/// `max(x, N, 1)` is `x`: a run of one column or row has one term. No sum is -0, and the least integer has no magnitude.
fn run_of_one(site: &mut Site<'_>, op: &Op) -> Option<NodeId> {
    let Op::Reduce(fold, over, x) = *op else { return None };
    let [row, column] = [over.row, over.column].map(|run| run.filter(|run| *run != Run::Group(1)));
    let left = Over { row, column, ..over };
    if left == over {
        return None;
    }
    if left != Over::NOTHING {
        return Some(site.make(Op::Reduce(fold, left, x)));
    }
    let elem = site.elem(x);
    Some(match (fold, elem) {
        (Fold::Sum, Elem::F32) => {
            let zero = site.make_number(0.0);
            site.make_binary(Binary::Add, x, zero)
        }
        (Fold::AbsMax, Elem::I32) => {
            let zero = site.make(Op::Constant(Constant::I32(0)));
            let magnitude = site.make_unary(Unary::Abs, x);
            site.make_binary(Binary::Maximum, magnitude, zero)
        }
        (Fold::AbsMax, _) => site.make_unary(Unary::Abs, x),
        (Fold::ArgMax | Fold::ArgMin | Fold::Top(_) | Fold::Weighted(_), _) => {
            return None;
        }
        (Fold::LogSumExpAboveMax, _) => {
            // 0, and nan where it is infinite.
            site.make_binary(Binary::Subtract, x, x)
        }
        (Fold::Sum | Fold::Prod | Fold::Max | Fold::Min | Fold::LogSumExp, _) => x,
    })
}

/// `sum(-x)` is `0 - sum(x)`: sums round symmetrically, and no sum is -0. `max(-x)` is `-min(x)`, `absmax(-x)` is
/// `absmax(x)`. (The least integer is its own opposite: sums wrap alike, extremes do not.)
fn fold_of_negated(site: &mut Site<'_>, op: &Op) -> Option<NodeId> {
    let Op::Reduce(fold, over, negated) = *op else { return None };
    let x = site.unary_of(negated, Unary::Negate)?;
    let elem = site.elem(x);
    match (fold, elem) {
        (Fold::AbsMax, _) => return Some(site.make(Op::Reduce(fold, over, x))),
        (Fold::Sum, _) | (Fold::Max | Fold::Min, Elem::F32) if site.used_once(negated) => {}
        _ => return None,
    }
    match (fold, elem) {
        (Fold::Sum, Elem::F32) => {
            let total = site.make(Op::Reduce(fold, over, x));
            let zero = site.make_number(0.0);
            Some(site.make_binary(Binary::Subtract, zero, total))
        }
        (Fold::Sum, _) => {
            let total = site.make(Op::Reduce(fold, over, x));
            Some(site.make_unary(Unary::Negate, total))
        }
        _ => {
            let mirrored = if fold == Fold::Max { Fold::Min } else { Fold::Max };
            let extreme = site.make(Op::Reduce(mirrored, over, x));
            Some(site.make_unary(Unary::Negate, extreme))
        }
    }
}

/// `absmax(abs(x))` is `absmax(x)`.
fn magnitude_of_magnitude(site: &mut Site<'_>, op: &Op) -> Option<NodeId> {
    let Op::Reduce(Fold::AbsMax, over, magnitude) = *op else { return None };
    let x = site.unary_of(magnitude, Unary::Abs)?;
    Some(site.make(Op::Reduce(Fold::AbsMax, over, x)))
}

/// `max(max(x, N), M)` is `max(x, M, N)`, empty ones too. Sums of integers wrap alike in every order; sums of floats may
/// be off by more in one long chain than in two short ones, so those merge under fast math only.
fn nested(site: &mut Site<'_>, op: &Op) -> Option<NodeId> {
    let Op::Reduce(outer, outer_over, inner) = *op else { return None };
    let Op::Reduce(fold, inner_over, x) = *site.op(inner) else { return None };
    let regroups = match fold {
        Fold::Max | Fold::Min | Fold::AbsMax => true,
        Fold::Sum | Fold::Prod => site.elem(x) == Elem::I32 || site.fast(),
        Fold::LogSumExp => site.fast(),
        Fold::LogSumExpAboveMax
        | Fold::ArgMax
        | Fold::ArgMin
        | Fold::Top(_)
        | Fold::Weighted(_) => false,
    };
    if fold != outer || !regroups || !site.used_once(inner) {
        return None;
    }
    let over = Over {
        batch: inner_over.batch || outer_over.batch,
        row: Run::nested(inner_over.row, outer_over.row)?,
        column: Run::nested(inner_over.column, outer_over.column)?,
    };
    Some(site.make(Op::Reduce(fold, over, x)))
}

/// Fast: `sum(x * s)` is `s * sum(x)` and `sum(x / s)` is `sum(x) / s` where s does not vary along what is folded.
fn factor_out(site: &mut Site<'_>, op: &Op) -> Option<NodeId> {
    let Op::Reduce(Fold::Sum, over, terms) = *op else { return None };
    if !site.fast() || site.elem(terms) != Elem::F32 || !site.used_once(terms) {
        return None;
    }
    let axes = site.axes(terms);
    let (binary, x, s) = match *site.op(terms) {
        Op::Binary(Binary::Multiply, a, b) if is_invariant(over, axes, site.axes(b)) => {
            (Binary::Multiply, a, b)
        }
        Op::Binary(Binary::Multiply, a, b) if is_invariant(over, axes, site.axes(a)) => {
            (Binary::Multiply, b, a)
        }
        Op::Binary(Binary::Divide, a, b) if is_invariant(over, axes, site.axes(b)) => {
            (Binary::Divide, a, b)
        }
        _ => return None,
    };
    let total = site.make(Op::Reduce(Fold::Sum, over, x));
    Some(site.make_binary(binary, total, s))
}

/// Fast: `logsumexp(x + r)` is `logsumexp(x) + r` where r does not vary along what is folded.
fn shifted_exponentials(site: &mut Site<'_>, op: &Op) -> Option<NodeId> {
    let Op::Reduce(Fold::LogSumExp, over, sum) = *op else { return None };
    if !site.fast() || !site.used_once(sum) {
        return None;
    }
    let axes = site.axes(sum);
    let (binary, x, r) = match *site.op(sum) {
        Op::Binary(binary @ (Binary::Add | Binary::Subtract), a, b)
            if is_invariant(over, axes, site.axes(b)) =>
        {
            (binary, a, b)
        }
        Op::Binary(Binary::Add, a, b) if is_invariant(over, axes, site.axes(a)) => {
            (Binary::Add, b, a)
        }
        _ => return None,
    };
    let total = site.make(Op::Reduce(Fold::LogSumExp, over, x));
    Some(site.make_binary(binary, total, r))
}
