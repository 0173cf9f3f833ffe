//! Conditions, comparisons and selection.

use crate::dtype::Elem;
use crate::graph::{Binary, Constant, NodeId, Op, Unary};

use super::super::rules::{Rule, Site};

pub(super) const RULES: &[Rule] = &[
    negation,
    connective,
    comparison_with_itself,
    comparison_of_negated,
    comparison_with_infinity,
    equality_of_conditions,
    classification,
    selection,
    selection_of_conditions,
    function_of_selected_constants,
];

fn truth(site: &mut Site<'_>, value: bool) -> NodeId {
    site.make_constant(Constant::Bool(value))
}

fn not(site: &mut Site<'_>, node: NodeId) -> NodeId {
    site.make_unary(Unary::Not, node)
}

/// `!(!c)` is `c`; `!(a == b)` is `a != b`, with nan too. `!(a < b)` is `b <= a` for integers only: with nan both are false.
fn negation(site: &mut Site<'_>, op: &Op) -> Option<NodeId> {
    let Op::Unary(Unary::Not, condition) = *op else { return None };
    match *site.op(condition) {
        Op::Unary(Unary::Not, c) => Some(c),
        Op::Binary(Binary::Equal, a, b) => Some(site.make_binary(Binary::NotEqual, a, b)),
        Op::Binary(Binary::NotEqual, a, b) => Some(site.make_binary(Binary::Equal, a, b)),
        Op::Binary(Binary::Less, a, b) if site.elem(a) == Elem::I32 => {
            Some(site.make_binary(Binary::LessEqual, b, a))
        }
        Op::Binary(Binary::LessEqual, a, b) if site.elem(a) == Elem::I32 => {
            Some(site.make_binary(Binary::Less, b, a))
        }
        _ => None,
    }
}

/// Truth values have no nan: `c & true` is `c`, `c & c` is `c`, `c & !c` is false, and so on for `|`.
fn connective(site: &mut Site<'_>, op: &Op) -> Option<NodeId> {
    let Op::Binary(binary @ (Binary::And | Binary::Or), a, b) = *op else { return None };
    let neutral = binary == Binary::And;
    if site.elem(a) != Elem::Bool {
        return (a == b).then_some(a);
    }
    for (c, other) in [(a, b), (b, a)] {
        if site.is_bool(other, neutral) || c == other {
            return Some(c);
        }
        if site.is_bool(other, !neutral) || site.unary_of(other, Unary::Not) == Some(c) {
            return Some(truth(site, !neutral));
        }
    }
    None
}

/// `x < x` is false and, for what cannot be nan, `x <= x` and `x == x` are true; a float differs from itself if it is nan.
fn comparison_with_itself(site: &mut Site<'_>, op: &Op) -> Option<NodeId> {
    match *op {
        Op::Binary(Binary::Less, a, b) if a == b => Some(truth(site, false)),
        Op::Binary(binary @ (Binary::LessEqual | Binary::Equal | Binary::NotEqual), a, b)
            if a == b =>
        {
            let differs = binary == Binary::NotEqual;
            match site.elem(a) {
                Elem::I32 | Elem::Bool => Some(truth(site, !differs)),
                Elem::F32 => {
                    let nan = site.make_unary(Unary::IsNan, a);
                    Some(if differs { nan } else { not(site, nan) })
                }
            }
        }
        _ => None,
    }
}

/// `-a < -b` is `b < a` for floats: the order is symmetric. (The least integer is its own opposite.)
fn comparison_of_negated(site: &mut Site<'_>, op: &Op) -> Option<NodeId> {
    match *op {
        Op::Binary(
            binary @ (Binary::Less | Binary::LessEqual | Binary::Equal | Binary::NotEqual),
            a,
            b,
        ) if site.elem(a) == Elem::F32 => {
            let (a, b) = (site.unary_of(a, Unary::Negate)?, site.unary_of(b, Unary::Negate)?);
            Some(site.make_binary(binary, b, a))
        }
        _ => None,
    }
}

/// Nothing is below -inf or above inf, nan neither.
fn comparison_with_infinity(site: &mut Site<'_>, op: &Op) -> Option<NodeId> {
    match *op {
        Op::Binary(Binary::Less, a, b)
            if site.is(b, f32::NEG_INFINITY) || site.is(a, f32::INFINITY) =>
        {
            Some(truth(site, false))
        }
        _ => None,
    }
}

/// `c == true` is `c`, `c == false` is `!c`.
fn equality_of_conditions(site: &mut Site<'_>, op: &Op) -> Option<NodeId> {
    let Op::Binary(binary @ (Binary::Equal | Binary::NotEqual), a, b) = *op else { return None };
    let keeps = binary == Binary::Equal;
    for (c, other) in [(a, b), (b, a)] {
        if site.is_bool(other, keeps) {
            return Some(c);
        }
        if site.is_bool(other, !keeps) {
            return Some(not(site, c));
        }
    }
    None
}

/// A sign makes no nan and no infinity; what was an integer or a condition is neither.
fn classification(site: &mut Site<'_>, op: &Op) -> Option<NodeId> {
    let Op::Unary(unary @ (Unary::IsNan | Unary::IsInf), a) = *op else { return None };
    match *site.op(a) {
        Op::Unary(Unary::Negate | Unary::Abs, x) => Some(site.make_unary(unary, x)),
        // The largest i32 is far below the largest number of f32; of f16 it is not.
        Op::Cast(crate::dtype::DType::F32, x) if site.elem(x) != Elem::F32 => {
            Some(truth(site, false))
        }
        _ => None,
    }
}

/// `where` selects and never mixes, so each of these picks the same operand as before.
fn selection(site: &mut Site<'_>, op: &Op) -> Option<NodeId> {
    let Op::Select(condition, a, b) = *op else { return None };
    if a == b {
        return Some(a);
    }
    if let Some(c) = site.unary_of(condition, Unary::Not) {
        return Some(site.make(Op::Select(c, b, a)));
    }
    // A condition already decided inside the branch it leads to.
    if let Op::Select(inner, yes, _) = *site.op(a)
        && inner == condition
    {
        return Some(site.make(Op::Select(condition, yes, b)));
    }
    if let Op::Select(inner, _, no) = *site.op(b)
        && inner == condition
    {
        return Some(site.make(Op::Select(condition, a, no)));
    }
    None
}

/// Selection between truth values is a connective: `where(c, a, false)` is `c & a`, `where(c, true, b)` is `c | b`.
fn selection_of_conditions(site: &mut Site<'_>, op: &Op) -> Option<NodeId> {
    let Op::Select(c, a, b) = *op else { return None };
    if site.is_bool(b, false) {
        Some(site.make_binary(Binary::And, c, a))
    } else if site.is_bool(a, true) {
        Some(site.make_binary(Binary::Or, c, b))
    } else if site.is_bool(a, false) && site.is_bool(b, true) {
        Some(not(site, c))
    } else {
        None
    }
}

/// `f(where(c, k1, k2))` is `where(c, f(k1), f(k2))`, which folds: the same function of the same two numbers.
fn function_of_selected_constants(site: &mut Site<'_>, op: &Op) -> Option<NodeId> {
    let (Op::Unary(_, selected) | Op::Cast(_, selected)) = *op else { return None };
    let Op::Select(condition, a, b) = *site.op(selected) else { return None };
    if !site.used_once(selected) || site.constant(a).is_none() || site.constant(b).is_none() {
        return None;
    }
    let (a, b) = (site.make(op.map(|_| a)), site.make(op.map(|_| b)));
    Some(site.make(Op::Select(condition, a, b)))
}
