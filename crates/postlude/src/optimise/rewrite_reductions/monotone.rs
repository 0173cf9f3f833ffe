//! Extremes of monotone functions are the function of the extreme: rounding is monotone, so it is the same bits.

use crate::dtype::{DType, Elem};
use crate::graph::{Binary, Fold, NodeId, Op, Over, Unary};

use super::super::rules::Site;
use super::invariant::{is_invariant, unless_empty};

/// An extreme of f32 elements that nothing else uses: the fold, what it folds, and the elements.
fn extreme(site: &Site<'_>, op: &Op) -> Option<(Fold, Over, NodeId)> {
    match *op {
        Op::Reduce(fold @ (Fold::Max | Fold::Min | Fold::AbsMax), over, terms)
            if site.elem(terms) == Elem::F32 && site.used_once(terms) =>
        {
            Some((fold, over, terms))
        }
        _ => None,
    }
}

/// The fold of a decreasing function's argument that gives the fold of the function.
const fn mirrored(fold: Fold) -> Fold {
    match fold {
        Fold::Max => Fold::Min,
        Fold::Min => Fold::Max,
        Fold::AbsMax
        | Fold::Sum
        | Fold::Prod
        | Fold::LogSumExp
        | Fold::LogSumExpAboveMax
        | Fold::ArgMax
        | Fold::ArgMin
        | Fold::Top(_)
        | Fold::Weighted(_) => fold,
    }
}

/// `max(x * c)` is `c * max(x)` for c above 0, `c * min(x)` below; `absmax(x * c)` is `abs(c) * absmax(x)`. An empty
/// extreme is infinite, or 0, and stays so.
pub(super) fn scaled(site: &mut Site<'_>, op: &Op) -> Option<NodeId> {
    let (fold, over, terms) = extreme(site, op)?;
    let Op::Binary(binary @ (Binary::Multiply | Binary::Divide), a, b) = *site.op(terms) else {
        return None;
    };
    let (x, c) = match (site.number(a), site.number(b)) {
        (None, Some(c)) => (a, c),
        (Some(c), None) if binary == Binary::Multiply => (b, c),
        _ => return None,
    };
    if !c.is_finite() || c == 0.0 {
        return None;
    }
    let inner = if c < 0.0 { mirrored(fold) } else { fold };
    let peak = site.make(Op::Reduce(inner, over, x));
    let c = site.make_number(if fold == Fold::AbsMax { c.abs() } else { c });
    Some(site.make_binary(binary, peak, c))
}

/// `max(x + c)` is `max(x) + c`, `max(c - x)` is `c - min(x)`, for a finite constant; under fast math for any value that
/// does not vary along what is folded (an infinite one makes nan of some elements only).
pub(super) fn shifted(site: &mut Site<'_>, op: &Op) -> Option<NodeId> {
    let (fold @ (Fold::Max | Fold::Min), over, terms) = extreme(site, op)? else { return None };
    let axes = site.axes(terms);
    let fixed = |node| match site.number(node) {
        Some(value) => value.is_finite(),
        None => site.fast() && is_invariant(over, axes, site.axes(node)),
    };
    match *site.op(terms) {
        Op::Binary(binary @ (Binary::Add | Binary::Subtract), x, c) if fixed(c) => {
            let peak = site.make(Op::Reduce(fold, over, x));
            Some(site.make_binary(binary, peak, c))
        }
        Op::Binary(binary @ (Binary::Add | Binary::Subtract), c, x) if fixed(c) => {
            let inner = if binary == Binary::Add { fold } else { mirrored(fold) };
            let peak = site.make(Op::Reduce(inner, over, x));
            Some(site.make_binary(binary, c, peak))
        }
        Op::Fma(a, b, c) if site.number(c).is_some_and(f32::is_finite) => {
            let (x, k) = match (site.number(a), site.number(b)) {
                (None, Some(k)) => (a, k),
                (Some(k), None) => (b, k),
                _ => return None,
            };
            if !k.is_finite() || k == 0.0 {
                return None;
            }
            let inner = if k < 0.0 { mirrored(fold) } else { fold };
            let peak = site.make(Op::Reduce(inner, over, x));
            let k = site.make_number(k);
            Some(site.make(Op::Fma(peak, k, c)))
        }
        _ => None,
    }
}

/// Functions that rise everywhere and have a value everywhere.
const fn rises(unary: Unary) -> bool {
    matches!(
        unary,
        Unary::Exp
            | Unary::Exp2
            | Unary::Expm1
            | Unary::Tanh
            | Unary::Erf
            | Unary::Sign
            | Unary::Floor
            | Unary::Ceil
            | Unary::Round
    )
}

/// `max(exp(x))` is `exp(max(x))`: whatever an implementation allowed to be off makes of the largest argument is within
/// the bound of the largest result.
pub(super) fn applied(site: &mut Site<'_>, op: &Op) -> Option<NodeId> {
    let (fold @ (Fold::Max | Fold::Min), over, terms) = extreme(site, op)? else { return None };
    let Op::Unary(unary, x) = *site.op(terms) else { return None };
    if !rises(unary) {
        return None;
    }
    let peak = site.make(Op::Reduce(fold, over, x));
    let value = site.make_unary(unary, peak);
    let folded = over.extent(site.axes(terms));
    Some(unless_empty(site, fold, value, folded))
}

/// `max(bf16(x))` is `bf16(max(x))`. Eight-bit floats have no infinity for an empty extreme.
pub(super) fn rounded(site: &mut Site<'_>, op: &Op) -> Option<NodeId> {
    let (fold, over, terms) = extreme(site, op)?;
    let Op::Cast(to, x) = *site.op(terms) else { return None };
    // Scales have no sign.
    if site.elem(x) != Elem::F32 || to == DType::F8E8M0 {
        return None;
    }
    let peak = site.make(Op::Reduce(fold, over, x));
    let value = site.make(Op::Cast(to, peak));
    let folded = over.extent(site.axes(terms));
    let keeps_infinity = matches!(to, DType::F32 | DType::F16 | DType::BF16);
    Some(if keeps_infinity || fold == Fold::AbsMax {
        value
    } else {
        unless_empty(site, fold, value, folded)
    })
}
