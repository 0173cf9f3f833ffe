//! Cheaper operations within the stated error of the ones they replace.
//!
//! The bits may change, the reference's bound may not be left: each rule says how much room the replaced operation had.

use crate::functions::Accuracy;
use crate::graph::{Binary, Fold, Graph, NodeId, Op, Unary};

use super::Context;
use super::hoist::weight;
use super::rules::{Rule, Site, rewrite};

const RULES: &[Rule] = &[quotient_by_constant, quotient_by_less, root_of_reciprocal, small_power];

/// The graph with quotients, powers and reciprocal roots replaced by what costs less.
pub(super) fn reduce_strength(graph: &Graph, context: &Context<'_>) -> Graph {
    rewrite(graph, context, RULES)
}

/// `x / c` is `x * (1 / c)` where a quotient may be off by 2^-22: rounding 1 / c and the product costs 2^-23.
fn quotient_by_constant(site: &mut Site<'_>, op: &Op) -> Option<NodeId> {
    let Op::Binary(Binary::Divide, x, c) = *op else { return None };
    let inverse = 1.0 / site.number(c)?;
    if site.accuracy == Accuracy::Accurate || !inverse.is_normal() {
        return None;
    }
    let inverse = site.make_number(inverse);
    Some(site.make_binary(Binary::Multiply, x, inverse))
}

/// `x / y` is `x * rcp(y)` where y varies less than x and, again, the quotient may be off by 2^-22. The reciprocal of
/// what lies near the ends of the range is not a normal number, so under default math y must be known not to.
fn quotient_by_less(site: &mut Site<'_>, op: &Op) -> Option<NodeId> {
    let Op::Binary(Binary::Divide, x, y) = *op else { return None };
    let allowed = site.fast() || (site.accuracy != Accuracy::Accurate && is_moderate(site, y));
    if !allowed || weight(site.axes(y)) >= weight(site.axes(x)) {
        return None;
    }
    let inverse = site.make_unary(Unary::Rcp, y);
    Some(site.make_binary(Binary::Multiply, x, inverse))
}

/// Whether a value is known to lie between 2^-100 and 2^100, if it is a number: counts, and denominators of softmax.
fn is_moderate(site: &Site<'_>, node: NodeId) -> bool {
    match *site.op(node) {
        Op::Constant(constant) => {
            (2f64.powi(-30)..2f64.powi(30)).contains(&constant.as_f64().abs())
        }
        // A count of 0 has an infinite reciprocal, which makes nan and infinity of the sums that a quotient by 0 would.
        Op::Extent(_) => true,
        Op::Binary(Binary::Multiply, a, b) => {
            let is_count = |node| matches!(site.op(node), Op::Extent(_) | Op::Constant(_));
            is_count(a) && is_count(b) && is_moderate(site, a) && is_moderate(site, b)
        }
        // The largest term is exp(0); the others are below it and fewer than 2^40.
        Op::Reduce(Fold::Sum, over, terms) => match *site.op(terms) {
            Op::Unary(Unary::Exp, shifted) => match *site.op(shifted) {
                Op::Binary(Binary::Subtract, x, peak) => {
                    *site.op(peak) == Op::Reduce(Fold::Max, over, x)
                }
                _ => false,
            },
            _ => false,
        },
        _ => false,
    }
}

/// `rcp(sqrt(x))` is `rsqrt(x)` where each of the three may be off by 2^-22. (In the accurate form it is those two
/// operations, each correctly rounded, and nothing is saved.)
fn root_of_reciprocal(site: &mut Site<'_>, op: &Op) -> Option<NodeId> {
    let Op::Unary(Unary::Rcp, root) = *op else { return None };
    if site.accuracy == Accuracy::Accurate {
        return None;
    }
    let x = site.unary_of(root, Unary::Sqrt).filter(|_| site.used_once(root))?;
    Some(site.make_unary(Unary::Rsqrt, x))
}

/// `pow(x, 2)` is `x * x`, `pow(x, 3)` is `x * x * x`, `pow(x, -1)` is `rcp(x)`: at most two roundings, where pow may be
/// off by 2 units in the last place; signs, infinities and nan agree.
fn small_power(site: &mut Site<'_>, op: &Op) -> Option<NodeId> {
    let Op::Binary(Binary::Pow, x, y) = *op else { return None };
    if site.is(y, -1.0) {
        return Some(site.make_unary(Unary::Rcp, x));
    }
    let cube = site.is(y, 3.0);
    if !cube && !site.is(y, 2.0) {
        return None;
    }
    let square = site.make_binary(Binary::Multiply, x, x);
    Some(if cube { site.make_binary(Binary::Multiply, square, x) } else { square })
}
