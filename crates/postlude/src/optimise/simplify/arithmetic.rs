//! Sums, products, signs.

use crate::dtype::Elem;
use crate::graph::{Binary, NodeId, Op, Unary};

use super::super::rules::{Rule, Site};

pub(super) const RULES: &[Rule] = &[
    factor_of_one,
    factor_of_minus_one,
    neutral_addend,
    integer_zero,
    power_of_one_or_zero,
    double_negation,
    negated_addend,
    negated_factors,
    negated_constant_factor,
    negated_product_with_constant,
    negated_integer_difference,
    fma_of_negated_factors,
    fma_of_one,
    fma_with_negative_zero,
    magnitude,
    twice,
    quotient_by_power_of_two,
    reciprocal,
];

fn is_minus_one(site: &Site<'_>, node: NodeId) -> bool {
    site.is(node, -1.0) || site.is_i32(node, -1)
}

/// The operands either way round, for operations that commute.
fn either_way(a: NodeId, b: NodeId) -> [(NodeId, NodeId); 2] {
    [(a, b), (b, a)]
}

/// `x * 1` and `x / 1` are `x`: exact products and quotients are not rounded.
fn factor_of_one(site: &mut Site<'_>, op: &Op) -> Option<NodeId> {
    match *op {
        Op::Binary(Binary::Multiply, a, b) if site.is_one(a) => Some(b),
        Op::Binary(Binary::Multiply | Binary::Divide, a, b) if site.is_one(b) => Some(a),
        _ => None,
    }
}

/// `x * -1` and `x / -1` are `-x`: only the sign changes, of zeros and infinities too; integers wrap alike.
fn factor_of_minus_one(site: &mut Site<'_>, op: &Op) -> Option<NodeId> {
    let x = match *op {
        Op::Binary(Binary::Multiply, a, b) if is_minus_one(site, a) => b,
        Op::Binary(Binary::Multiply | Binary::Divide, a, b) if is_minus_one(site, b) => a,
        _ => return None,
    };
    Some(site.make_unary(Unary::Negate, x))
}

/// `x - 0` and `x + -0` are `x`, for x = -0 as well (`x + 0` is not: -0 + 0 is 0); integers have one zero.
fn neutral_addend(site: &mut Site<'_>, op: &Op) -> Option<NodeId> {
    match *op {
        Op::Binary(Binary::Subtract, a, b) if site.is(b, 0.0) || site.is_i32(b, 0) => Some(a),
        Op::Binary(Binary::Add, a, b) => either_way(a, b)
            .into_iter()
            .find(|(_, zero)| site.is(*zero, -0.0) || site.is_i32(*zero, 0))
            .map(|(x, _)| x),
        _ => None,
    }
}

/// Integers: `x * 0` and `x - x` are 0, for there is neither nan nor infinity.
fn integer_zero(site: &mut Site<'_>, op: &Op) -> Option<NodeId> {
    match *op {
        Op::Binary(Binary::Multiply, a, b) => either_way(a, b)
            .into_iter()
            .find(|(_, zero)| site.is_i32(*zero, 0))
            .map(|(_, zero)| zero),
        Op::Binary(Binary::Subtract, a, b) if a == b && site.elem(a) == Elem::I32 => {
            Some(site.make_constant(crate::graph::Constant::I32(0)))
        }
        _ => None,
    }
}

/// `pow(x, 1)` is `x` and `pow(x, 0)` is 1, by definition for every x, nan too.
fn power_of_one_or_zero(site: &mut Site<'_>, op: &Op) -> Option<NodeId> {
    match *op {
        Op::Binary(Binary::Pow, x, y) if site.is(y, 1.0) => Some(x),
        Op::Binary(Binary::Pow, _, y) if site.number(y) == Some(0.0) => Some(site.make_number(1.0)),
        _ => None,
    }
}

/// `-(-x)` is `x`; the least integer wraps twice.
fn double_negation(site: &mut Site<'_>, op: &Op) -> Option<NodeId> {
    match *op {
        Op::Unary(Unary::Negate, a) => site.unary_of(a, Unary::Negate),
        _ => None,
    }
}

/// `a + -b` is `a - b` and `a - -b` is `a + b`: subtraction is defined so.
fn negated_addend(site: &mut Site<'_>, op: &Op) -> Option<NodeId> {
    match *op {
        Op::Binary(Binary::Add, a, b) => {
            if let Some(b) = site.unary_of(b, Unary::Negate) {
                return Some(site.make_binary(Binary::Subtract, a, b));
            }
            let a = site.unary_of(a, Unary::Negate)?;
            Some(site.make_binary(Binary::Subtract, b, a))
        }
        Op::Binary(Binary::Subtract, a, b) => {
            let b = site.unary_of(b, Unary::Negate)?;
            Some(site.make_binary(Binary::Add, a, b))
        }
        _ => None,
    }
}

/// `-a * -b` is `a * b`, `-a / -b` is `a / b`: signs are exact.
fn negated_factors(site: &mut Site<'_>, op: &Op) -> Option<NodeId> {
    match *op {
        Op::Binary(binary @ (Binary::Multiply | Binary::Divide), a, b) => {
            let (a, b) = (site.unary_of(a, Unary::Negate)?, site.unary_of(b, Unary::Negate)?);
            Some(site.make_binary(binary, a, b))
        }
        _ => None,
    }
}

/// The constant with the other sign.
fn opposite(site: &mut Site<'_>, node: NodeId) -> Option<NodeId> {
    let value = site.number(node)?;
    Some(site.make_number(-value))
}

/// `-a * c` is `a * -c`, `-a / c` is `a / -c`, `c / -a` is `-c / a`: signs are exact, and rounding is symmetric.
fn negated_constant_factor(site: &mut Site<'_>, op: &Op) -> Option<NodeId> {
    match *op {
        Op::Binary(Binary::Multiply, a, b) => {
            let (x, c) = either_way(a, b).into_iter().find_map(|(x, c)| {
                site.number(c).and_then(|_| site.unary_of(x, Unary::Negate)).map(|x| (x, c))
            })?;
            let c = opposite(site, c)?;
            Some(site.make_binary(Binary::Multiply, x, c))
        }
        Op::Binary(Binary::Divide, a, b) => {
            if let Some(x) = site.unary_of(a, Unary::Negate) {
                let b = opposite(site, b)?;
                return Some(site.make_binary(Binary::Divide, x, b));
            }
            let x = site.unary_of(b, Unary::Negate)?;
            let a = opposite(site, a)?;
            Some(site.make_binary(Binary::Divide, a, x))
        }
        _ => None,
    }
}

/// `-(a * c)` is `a * -c`, likewise of a quotient: rounding is symmetric.
fn negated_product_with_constant(site: &mut Site<'_>, op: &Op) -> Option<NodeId> {
    let Op::Unary(Unary::Negate, product) = *op else { return None };
    let Op::Binary(binary @ (Binary::Multiply | Binary::Divide), a, b) = *site.op(product) else {
        return None;
    };
    if !site.used_once(product) {
        return None;
    }
    if let Some(b) = opposite(site, b) {
        return Some(site.make_binary(binary, a, b));
    }
    let a = opposite(site, a)?;
    Some(site.make_binary(binary, a, b))
}

/// `-(a - b)` is `b - a` for integers, which wrap alike. (Floats differ where a = b: 0 has two signs.)
fn negated_integer_difference(site: &mut Site<'_>, op: &Op) -> Option<NodeId> {
    let Op::Unary(Unary::Negate, difference) = *op else { return None };
    let (a, b) = site.binary_of(difference, Binary::Subtract)?;
    (site.elem(a) == Elem::I32).then(|| site.make_binary(Binary::Subtract, b, a))
}

/// `fma(-a, -b, c)` is `fma(a, b, c)`, `fma(-a, k, c)` is `fma(a, -k, c)`: the product's sign is exact.
fn fma_of_negated_factors(site: &mut Site<'_>, op: &Op) -> Option<NodeId> {
    let Op::Fma(a, b, c) = *op else { return None };
    if let (Some(a), Some(b)) = (site.unary_of(a, Unary::Negate), site.unary_of(b, Unary::Negate)) {
        return Some(site.make(Op::Fma(a, b, c)));
    }
    let (x, k) = either_way(a, b).into_iter().find_map(|(x, k)| {
        site.number(k).and_then(|_| site.unary_of(x, Unary::Negate)).map(|x| (x, k))
    })?;
    let k = opposite(site, k)?;
    Some(site.make(Op::Fma(x, k, c)))
}

/// `fma(a, 1, c)` is `a + c`, `fma(a, -1, c)` is `c - a`: the product is exact, so both round alike.
fn fma_of_one(site: &mut Site<'_>, op: &Op) -> Option<NodeId> {
    let Op::Fma(a, b, c) = *op else { return None };
    for (x, k) in either_way(a, b) {
        if site.is(k, 1.0) {
            return Some(site.make_binary(Binary::Add, x, c));
        }
        if site.is(k, -1.0) {
            return Some(site.make_binary(Binary::Subtract, c, x));
        }
    }
    None
}

/// `fma(a, b, -0)` is `a * b`: -0 is neutral to every product, of either zero and of what rounds to one.
fn fma_with_negative_zero(site: &mut Site<'_>, op: &Op) -> Option<NodeId> {
    match *op {
        Op::Fma(a, b, c) if site.is(c, -0.0) => Some(site.make_binary(Binary::Multiply, a, b)),
        _ => None,
    }
}

/// `abs(abs(x))`, `abs(-x)` are `abs(x)`; `abs(exp(x))` and `abs(x * x)` are what has no sign to lose; `sign(-x)` is left.
fn magnitude(site: &mut Site<'_>, op: &Op) -> Option<NodeId> {
    let Op::Unary(Unary::Abs, a) = *op else { return None };
    match *site.op(a) {
        Op::Unary(Unary::Abs | Unary::Exp | Unary::Exp2, _) => Some(a),
        Op::Unary(Unary::Negate, x) => Some(site.make_unary(Unary::Abs, x)),
        // Integer squares wrap to negative ones.
        Op::Binary(Binary::Multiply, x, y) if x == y && site.elem(x) == Elem::F32 => Some(a),
        _ => None,
    }
}

/// `x + x` is `x * 2`: rounds alike, wraps alike. The product meets other constant factors.
fn twice(site: &mut Site<'_>, op: &Op) -> Option<NodeId> {
    match *op {
        Op::Binary(Binary::Add, a, b) if a == b => {
            let two = match site.elem(a) {
                Elem::F32 => site.make_number(2.0),
                Elem::I32 | Elem::Bool => site.make_constant(crate::graph::Constant::I32(2)),
            };
            Some(site.make_binary(Binary::Multiply, a, two))
        }
        _ => None,
    }
}

/// `x / 2^k` is `x * 2^-k` when both powers are normal numbers: both round the same real number, subnormal results too.
fn quotient_by_power_of_two(site: &mut Site<'_>, op: &Op) -> Option<NodeId> {
    let Op::Binary(Binary::Divide, x, c) = *op else { return None };
    let inverse = 1.0 / site.number(c).filter(|value| is_power_of_two(*value))?;
    if !inverse.is_normal() {
        return None;
    }
    let inverse = site.make_number(inverse);
    Some(site.make_binary(Binary::Multiply, x, inverse))
}

/// Whether a normal number's magnitude is a power of two.
fn is_power_of_two(value: f32) -> bool {
    value.is_normal() && value.to_bits().trailing_zeros() >= 23
}

/// `1 / x` is `rcp(x)`: the same function with the same stated error.
fn reciprocal(site: &mut Site<'_>, op: &Op) -> Option<NodeId> {
    match *op {
        Op::Binary(Binary::Divide, one, x) if site.is(one, 1.0) => {
            Some(site.make_unary(Unary::Rcp, x))
        }
        _ => None,
    }
}
