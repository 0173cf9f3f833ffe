//! Takes operations on the tile apart, so that the parts that vary less leave it.
//!
//! A reduction of a combination becomes a combination of reductions where one of them is no longer over the tile; a
//! picked combination becomes a combination of picked values. Exact for extremes, selections and picks; sums are split
//! under fast math only.

use crate::dtype::Elem;
use crate::graph::{Axes, Binary, Fold, Graph, NodeId, Op, Over, Unary};

use super::Context;
use super::hoist::weight;
use super::rewrite_reductions::{fold_narrowed, is_invariant};
use super::rules::{Rule, Site, rewrite};

const RULES: &[Rule] = &[extreme_of_extreme, sum_of_sum, fold_of_selection, picked];

/// The graph with operators split.
pub(super) fn split_operators(graph: &Graph, context: &Context<'_>) -> Graph {
    rewrite(graph, context, RULES)
}

/// The reduction of an operand of the value that is folded.
fn fold_part(
    site: &mut Site<'_>,
    fold: Fold,
    over: Over,
    axes: Axes,
    part: NodeId,
) -> Option<NodeId> {
    if site.axes(part) == axes {
        return Some(site.make(Op::Reduce(fold, over, part)));
    }
    fold_narrowed(site, fold, over, axes, part)
}

/// Whether folding one of the two by itself reads fewer elements than folding both together.
fn worth_it(site: &Site<'_>, axes: Axes, a: NodeId, b: NodeId) -> bool {
    let lighter = |node| weight(site.axes(node)) < weight(axes);
    lighter(a) || lighter(b)
}

/// `max(maximum(a, b))` is `maximum(max(a), max(b))`: one lattice, so exact, nan and empty ones too.
fn extreme_of_extreme(site: &mut Site<'_>, op: &Op) -> Option<NodeId> {
    let Op::Reduce(fold, over, terms) = *op else { return None };
    let wanted = match fold {
        Fold::Max => Binary::Maximum,
        Fold::Min => Binary::Minimum,
        Fold::Sum
        | Fold::Prod
        | Fold::AbsMax
        | Fold::LogSumExp
        | Fold::LogSumExpAboveMax
        | Fold::ArgMax
        | Fold::ArgMin
        | Fold::Top(_)
        | Fold::Weighted(_) => return None,
    };
    let (a, b) = site.binary_of(terms, wanted).filter(|_| site.used_once(terms))?;
    let axes = site.axes(terms);
    if !worth_it(site, axes, a, b) {
        return None;
    }
    let a = fold_part(site, fold, over, axes, a)?;
    let b = fold_part(site, fold, over, axes, b)?;
    Some(site.make_binary(wanted, a, b))
}

/// Fast: `sum(a + b)` is `sum(a) + sum(b)`, and of a fused product `sum(x * y) + sum(c)`.
fn sum_of_sum(site: &mut Site<'_>, op: &Op) -> Option<NodeId> {
    let Op::Reduce(Fold::Sum, over, terms) = *op else { return None };
    if !site.fast() || site.elem(terms) != Elem::F32 || !site.used_once(terms) {
        return None;
    }
    let axes = site.axes(terms);
    let (binary, a, b) = match *site.op(terms) {
        Op::Binary(binary @ (Binary::Add | Binary::Subtract), a, b)
            if worth_it(site, axes, a, b) =>
        {
            (binary, a, b)
        }
        Op::Fma(x, y, c) if weight(site.axes(c)) < weight(axes) => {
            (Binary::Add, site.make_binary(Binary::Multiply, x, y), c)
        }
        _ => return None,
    };
    let a = fold_part(site, Fold::Sum, over, axes, a)?;
    let b = fold_part(site, Fold::Sum, over, axes, b)?;
    Some(site.make_binary(binary, a, b))
}

/// `sum(where(c, a, b))` is `where(c, sum(a), sum(b))` where c does not vary along what is folded: every element of one
/// result comes from the same branch. Worth it where a branch is no tile, 0 for one.
fn fold_of_selection(site: &mut Site<'_>, op: &Op) -> Option<NodeId> {
    let Op::Reduce(fold, over, terms) = *op else { return None };
    let Op::Select(condition, a, b) = *site.op(terms) else { return None };
    let axes = site.axes(terms);
    if !site.used_once(terms)
        || !is_invariant(over, axes, site.axes(condition))
        || !worth_it(site, axes, a, b)
    {
        return None;
    }
    let a = fold_part(site, fold, over, axes, a)?;
    let b = fold_part(site, fold, over, axes, b)?;
    Some(site.make(Op::Select(condition, a, b)))
}

/// Functions that give nan for nan, as a pick out of range has to.
const fn keeps_nan(unary: Unary) -> bool {
    match unary {
        Unary::Negate
        | Unary::Abs
        | Unary::Sign
        | Unary::Floor
        | Unary::Ceil
        | Unary::Round
        | Unary::Sqrt
        | Unary::Rsqrt
        | Unary::Rcp
        | Unary::Exp
        | Unary::Exp2
        | Unary::Log
        | Unary::Log2
        | Unary::Log1p
        | Unary::Expm1
        | Unary::Sin
        | Unary::Cos
        | Unary::Tanh
        | Unary::Erf => true,
        Unary::Not | Unary::Invert | Unary::IsNan | Unary::IsInf | Unary::Bits | Unary::Float => {
            false
        }
    }
}

/// `pick(f(z, r), t)` is `f(pick(z, t), r)` where only z has columns: one element a row instead of all of them, and nan
/// out of range as before.
fn picked(site: &mut Site<'_>, op: &Op) -> Option<NodeId> {
    let Op::Pick(of, index) = *op else { return None };
    let inner = site.op(of).clone();
    let keeps = match inner {
        Op::Unary(unary, _) => keeps_nan(unary),
        Op::Binary(
            Binary::Add
            | Binary::Subtract
            | Binary::Multiply
            | Binary::Divide
            | Binary::Maximum
            | Binary::Minimum,
            _,
            _,
        )
        | Op::Fma(..) => true,
        // Floats keep nan when they are rounded.
        Op::Cast(to, a) => to.is_float() && site.elem(a) == Elem::F32,
        _ => false,
    };
    let with_columns: Vec<NodeId> =
        inner.operands().filter(|operand| site.axes(*operand).column.is_some()).collect();
    let same = with_columns.iter().all(|operand| *operand == with_columns[0]);
    if !keeps
        || !same
        || !site.used_once(of)
        || site.axes(with_columns[0]).column != site.axes(of).column
    {
        return None;
    }
    let value = site.make(Op::Pick(with_columns[0], index));
    let split = inner.map(|operand| if operand == with_columns[0] { value } else { operand });
    Some(site.make(split))
}
