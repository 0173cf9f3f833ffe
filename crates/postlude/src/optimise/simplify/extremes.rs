//! `maximum` and `minimum`: a lattice in which nan swallows everything, so lattice laws hold for every input as long as
//! both sides read the same operands.

use crate::graph::{Binary, Constant, NodeId, Op};

use super::super::fold_constants::fold_binary;
use super::super::rules::{Rule, Site};

pub(super) const RULES: &[Rule] = &[idempotent, neutral, nested, canonical_clamp];

/// `maximum(x, x)` is `x`.
fn idempotent(_: &mut Site<'_>, op: &Op) -> Option<NodeId> {
    match *op {
        Op::Binary(Binary::Maximum | Binary::Minimum, a, b) if a == b => Some(a),
        _ => None,
    }
}

/// `maximum(x, -inf)` and `minimum(x, inf)` are `x`, nan included. (`maximum(x, inf)` is not inf: x may be nan.)
fn neutral(site: &mut Site<'_>, op: &Op) -> Option<NodeId> {
    let Op::Binary(binary @ (Binary::Maximum | Binary::Minimum), a, b) = *op else { return None };
    let (number, integer) = match binary {
        Binary::Maximum => (f32::NEG_INFINITY, i32::MIN),
        _ => (f32::INFINITY, i32::MAX),
    };
    let least = |node| site.is(node, number) || site.is_i32(node, integer);
    if least(a) {
        Some(b)
    } else if least(b) {
        Some(a)
    } else {
        None
    }
}

/// The operands as a value and a constant that is not nan.
fn with_constant(site: &Site<'_>, a: NodeId, b: NodeId) -> Option<(NodeId, Constant)> {
    let constant = |node| site.constant(node).filter(|constant| !constant.as_f64().is_nan());
    match (constant(a), constant(b)) {
        (None, Some(c)) => Some((a, c)),
        (Some(c), None) => Some((b, c)),
        (None, None) | (Some(_), Some(_)) => None,
    }
}

/// `maximum(maximum(x, a), b)` is `maximum(x, maximum(a, b))` and `maximum(maximum(x, y), x)` is `maximum(x, y)`.
fn nested(site: &mut Site<'_>, op: &Op) -> Option<NodeId> {
    let Op::Binary(binary @ (Binary::Maximum | Binary::Minimum), a, b) = *op else { return None };
    for (inner, other) in [(a, b), (b, a)] {
        if let Some((x, y)) = site.binary_of(inner, binary)
            && (other == x || other == y)
        {
            return Some(inner);
        }
    }
    let (inner, outer_constant) = with_constant(site, a, b)?;
    let (x, y) = site.binary_of(inner, binary)?;
    let (x, inner_constant) = with_constant(site, x, y)?;
    let constant = site.make_constant(fold_binary(binary, inner_constant, outer_constant));
    Some(site.make_binary(binary, x, constant))
}

/// `maximum(minimum(x, high), low)` is `minimum(maximum(x, low), maximum(high, low))`: a total order is a distributive
/// lattice. With the smaller bound always inside, a clamp of a clamp becomes one clamp.
fn canonical_clamp(site: &mut Site<'_>, op: &Op) -> Option<NodeId> {
    let Op::Binary(Binary::Maximum, a, b) = *op else { return None };
    let (inner, low) = with_constant(site, a, b)?;
    let (x, y) = site.binary_of(inner, Binary::Minimum)?;
    let (x, high) = with_constant(site, x, y)?;
    if !site.used_once(inner) {
        return None;
    }
    let bound = fold_binary(Binary::Maximum, high, low);
    let (low, bound) = (site.make_constant(low), site.make_constant(bound));
    let raised = nested(site, &Op::Binary(Binary::Maximum, x, low))
        .unwrap_or_else(|| site.make_binary(Binary::Maximum, x, low));
    Some(site.make_binary(Binary::Minimum, raised, bound))
}
