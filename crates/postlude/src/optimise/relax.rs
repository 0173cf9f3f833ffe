//! Algebra of real numbers, under fast math only.
//!
//! Each rule holds for real numbers where both sides are defined; what it does to nan, infinities, the sign of zero,
//! overflow and the last bits is what the user gave away.

use crate::dtype::Elem;
use crate::graph::{Binary, Graph, NodeId, Op, Unary};

use super::Context;
use super::rules::{Rule, Site, rewrite};

const RULES: &[Rule] = &[
    zero_in_sum,
    zero_in_product,
    same_operands,
    zero_or_one_in_fma,
    negated_difference,
    common_factor,
    product_of_exponentials,
    corrected_exponential,
    product_of_roots,
    reciprocal_of_function,
    inverse_function,
    infinite_bound,
];

/// The graph after every relaxed rule, its sums as tensor cores make them.
pub(super) fn relax(graph: &Graph, context: &Context<'_>) -> Graph {
    rewrite(graph, context, RULES).with_native_sums()
}

fn is_zero(site: &Site<'_>, node: NodeId) -> bool {
    site.number(node) == Some(0.0)
}

/// `x + 0` is `x`, `0 - x` is `-x`.
fn zero_in_sum(site: &mut Site<'_>, op: &Op) -> Option<NodeId> {
    match *op {
        Op::Binary(Binary::Add | Binary::Subtract, a, b) if is_zero(site, b) => Some(a),
        Op::Binary(Binary::Add, a, b) if is_zero(site, a) => Some(b),
        Op::Binary(Binary::Subtract, a, b) if is_zero(site, a) => {
            Some(site.make_unary(Unary::Negate, b))
        }
        _ => None,
    }
}

/// `x * 0` and `0 / x` are 0.
fn zero_in_product(site: &mut Site<'_>, op: &Op) -> Option<NodeId> {
    match *op {
        Op::Binary(Binary::Multiply | Binary::Divide, a, _) if is_zero(site, a) => Some(a),
        Op::Binary(Binary::Multiply, _, b) if is_zero(site, b) => Some(b),
        _ => None,
    }
}

/// `x - x` is 0, `x / x` is 1, `x * rcp(x)` is 1.
fn same_operands(site: &mut Site<'_>, op: &Op) -> Option<NodeId> {
    let value = match *op {
        Op::Binary(Binary::Subtract, a, b) if a == b && site.elem(a) == Elem::F32 => 0.0,
        Op::Binary(Binary::Divide, a, b) if a == b => 1.0,
        Op::Binary(Binary::Multiply, a, b)
            if site.unary_of(a, Unary::Rcp) == Some(b)
                || site.unary_of(b, Unary::Rcp) == Some(a) =>
        {
            1.0
        }
        _ => return None,
    };
    Some(site.make_number(value))
}

/// `fma(a, b, 0)` is `a * b`, `fma(a, 0, c)` is `c`.
fn zero_or_one_in_fma(site: &mut Site<'_>, op: &Op) -> Option<NodeId> {
    match *op {
        Op::Fma(a, b, c) if is_zero(site, c) => Some(site.make_binary(Binary::Multiply, a, b)),
        Op::Fma(a, b, c) if is_zero(site, a) || is_zero(site, b) => Some(c),
        _ => None,
    }
}

/// `-(a - b)` is `b - a`.
fn negated_difference(site: &mut Site<'_>, op: &Op) -> Option<NodeId> {
    let Op::Unary(Unary::Negate, difference) = *op else { return None };
    let (a, b) =
        site.binary_of(difference, Binary::Subtract).filter(|_| site.used_once(difference))?;
    Some(site.make_binary(Binary::Subtract, b, a))
}

/// `a * b + a * c` is `a * (b + c)`, as it stands or contracted: one operation less.
fn common_factor(site: &mut Site<'_>, op: &Op) -> Option<NodeId> {
    let (first, product, sum) = match *op {
        Op::Fma(a, b, product) => ((a, b), product, Binary::Add),
        Op::Binary(sum @ (Binary::Add | Binary::Subtract), left, product) => {
            let first = site.binary_of(left, Binary::Multiply).filter(|_| site.used_once(left))?;
            (first, product, sum)
        }
        _ => return None,
    };
    let second = site.binary_of(product, Binary::Multiply).filter(|_| site.used_once(product))?;
    if site.elem(product) != Elem::F32 {
        return None;
    }
    let (factor, b, c) = [
        (first.0, first.1, second.0, second.1),
        (first.0, first.1, second.1, second.0),
        (first.1, first.0, second.0, second.1),
        (first.1, first.0, second.1, second.0),
    ]
    .into_iter()
    .find_map(|(a, b, other, c)| (a == other).then_some((a, b, c)))?;
    let rest = site.make_binary(sum, b, c);
    Some(site.make_binary(Binary::Multiply, factor, rest))
}

/// `exp(a + b)` times one plus the rounding error of `a + b`, which `define` makes of a product, is the exponential.
fn corrected_exponential(site: &mut Site<'_>, op: &Op) -> Option<NodeId> {
    let Op::Select(small, corrected, power) = *op else { return None };
    let x = site.unary_of(power, Unary::Exp)?;
    let (size, limit) = site.binary_of(small, Binary::Less)?;
    let Op::Fma(first, error, last) = *site.op(corrected) else { return None };
    let (left, right) = site.binary_of(error, Binary::Add)?;
    let is_error = site.binary_of(left, Binary::Subtract).is_some()
        && site.binary_of(right, Binary::Subtract).is_some();
    let guarded = site.unary_of(size, Unary::Abs) == Some(x) && site.is(limit, 88.5);
    (guarded && is_error && first == power && last == power).then_some(power)
}

/// `exp(a) * exp(b)` is `exp(a + b)`, `exp(a) / exp(b)` is `exp(a - b)`; likewise of exp2.
fn product_of_exponentials(site: &mut Site<'_>, op: &Op) -> Option<NodeId> {
    let Op::Binary(binary @ (Binary::Multiply | Binary::Divide), left, right) = *op else {
        return None;
    };
    let (Op::Unary(f @ (Unary::Exp | Unary::Exp2), a), Op::Unary(g, b)) =
        (site.op(left), site.op(right))
    else {
        return None;
    };
    let (f, g, a, b) = (*f, *g, *a, *b);
    if f != g || !site.used_once(left) || !site.used_once(right) {
        return None;
    }
    let sum = if binary == Binary::Multiply { Binary::Add } else { Binary::Subtract };
    let exponent = site.make_binary(sum, a, b);
    Some(site.make_unary(f, exponent))
}

/// `sqrt(x) * sqrt(x)` is `x`, `rsqrt(x) * rsqrt(x)` is `rcp(x)`.
fn product_of_roots(site: &mut Site<'_>, op: &Op) -> Option<NodeId> {
    match *op {
        Op::Binary(Binary::Multiply, a, b) if a == b => match *site.op(a) {
            Op::Unary(Unary::Sqrt, x) => Some(x),
            Op::Unary(Unary::Rsqrt, x) => Some(site.make_unary(Unary::Rcp, x)),
            _ => None,
        },
        _ => None,
    }
}

/// `rcp(rcp(x))` is `x`, `rcp(exp(x))` is `exp(-x)`, `rcp(rsqrt(x))` is `sqrt(x)`, `rcp(a / b)` is `b / a`.
fn reciprocal_of_function(site: &mut Site<'_>, op: &Op) -> Option<NodeId> {
    let Op::Unary(Unary::Rcp, a) = *op else { return None };
    if !site.used_once(a) {
        return None;
    }
    match *site.op(a) {
        Op::Unary(Unary::Rcp, x) => Some(x),
        Op::Unary(Unary::Rsqrt, x) => Some(site.make_unary(Unary::Sqrt, x)),
        Op::Unary(f @ (Unary::Exp | Unary::Exp2), x) => {
            let opposite = site.make_unary(Unary::Negate, x);
            Some(site.make_unary(f, opposite))
        }
        Op::Binary(Binary::Divide, x, y) => Some(site.make_binary(Binary::Divide, y, x)),
        _ => None,
    }
}

/// A function of its inverse: `exp(log(x))` is `x`.
fn inverse_function(site: &mut Site<'_>, op: &Op) -> Option<NodeId> {
    let Op::Unary(outer, a) = *op else { return None };
    let inner = match outer {
        Unary::Exp => Unary::Log,
        Unary::Exp2 => Unary::Log2,
        Unary::Expm1 => Unary::Log1p,
        _ => return None,
    };
    site.unary_of(a, inner)
}

/// `maximum(x, inf)` is inf, `minimum(x, -inf)` is -inf.
fn infinite_bound(site: &mut Site<'_>, op: &Op) -> Option<NodeId> {
    let (bound, a, b) = match *op {
        Op::Binary(Binary::Maximum, a, b) => (f32::INFINITY, a, b),
        Op::Binary(Binary::Minimum, a, b) => (f32::NEG_INFINITY, a, b),
        _ => return None,
    };
    [a, b].into_iter().find(|node| site.is(*node, bound))
}
