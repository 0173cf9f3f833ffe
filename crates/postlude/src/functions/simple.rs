//! Functions that are one or two correctly rounded operations: `sqrt`, `rsqrt`, `rcp`, `floor`, `ceil`, `round`.
//!
//! In: any f32. Out: the operation's result; these have no cheaper form on the CPU.

use super::machine::Machine;

/// The square root.
#[inline(always)]
pub fn sqrt<M: Machine>(m: &M, x: M::F) -> M::F {
    m.sqrt(x)
}

/// 1 / sqrt(x).
#[inline(always)]
pub fn rsqrt<M: Machine>(m: &M, x: M::F) -> M::F {
    let root = m.sqrt(x);
    let (zero, infinity) = (m.constant(0.0), m.constant(f32::INFINITY));
    // Infinity for zero and the other way round, with the sign.
    let opposite = m.of_bits(m.xor(m.bits_of(root), m.bits_of(infinity)));
    let at_the_end = m.either(m.equal(root, zero), m.equal(root, infinity));
    m.select(at_the_end, opposite, m.div_within_range(m.constant(1.0), root))
}

/// 1 / x.
#[inline(always)]
pub fn rcp<M: Machine>(m: &M, x: M::F) -> M::F {
    m.div(m.constant(1.0), x)
}

/// The largest integer not above x.
#[inline(always)]
pub fn floor<M: Machine>(m: &M, x: M::F) -> M::F {
    m.floor(x)
}

/// The smallest integer not below x.
#[inline(always)]
pub fn ceil<M: Machine>(m: &M, x: M::F) -> M::F {
    m.ceil(x)
}

/// The nearest integer, ties to even.
#[inline(always)]
pub fn round<M: Machine>(m: &M, x: M::F) -> M::F {
    m.round_even(x)
}
