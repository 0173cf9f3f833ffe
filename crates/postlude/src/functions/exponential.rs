//! `exp`, `exp2` and `expm1`.
//!
//! In: any f32. Out: the function, accurate or as good as a form built on a hardware 2^x.
//! How: x = n ln 2 + r with |r| <= ln 2 / 2, a polynomial in r, and a scaling by 2^n whose only rounding is the last.

use super::machine::Machine;

const LOG2_E: f32 = std::f32::consts::LOG2_E;
/// ln 2 to 24 bits, and what is missing.
const LN_2_HIGH: f32 = std::f32::consts::LN_2;
const LN_2_LOW: f32 = -1.904654299957e-9;

/// (e^r - 1 - r) / r^2 for |r| <= ln 2 / 2; e^r to 2^-28.2.
const EXP: [f32; 5] =
    [4.999999404e-1, 1.666652113e-1, 4.166826606e-2, 8.368677460e-3, 1.382073388e-3];

/// (e^r - 1 - r) / r^2 for |r| <= ln 2 / 2; e^r - 1 to 2^-31.
const EXPM1: [f32; 6] =
    [0.5, 1.666666567e-1, 4.166649282e-2, 8.333545178e-3, 1.393233077e-3, 1.976257190e-4];

/// (e^r - 1 - r) / r^2 for |r| <= ln 2 / 2; e^r - 1 to 2^-26.
const EXPM1_HARDWARE: [f32; 5] =
    [4.999999702e-1, 1.666654646e-1, 4.166743532e-2, 8.366261609e-3, 1.387065742e-3];

/// (2^r - 1) / r for |r| <= 1/2; 2^r to 2^-28.3.
const EXP2: [f32; 6] = [
    6.931471825e-1,
    2.402264774e-1,
    5.550359562e-2,
    9.618503042e-3,
    1.339099719e-3,
    1.532782771e-4,
];

/// (2^r - 1) / r for |r| <= 1/2; 2^r to 2^-23.3.
const EXP2_HARDWARE: [f32; 5] =
    [6.931470037e-1, 2.402224541e-1, 5.550710857e-2, 9.671392851e-3, 1.326972269e-3];

/// e^x.
#[inline(always)]
pub fn exp<M: Machine>(m: &M, x: M::F) -> M::F {
    // Beyond these the result is zero or infinite, and 2^n still scales in two steps.
    let x = m.clamp(x, -105.0, 90.0);
    let (r, n) = reduce(m, x);
    scale(m, exp_of_reduced(m, r), n)
}

/// e^x where x is within ±80, so that one step scales.
#[inline(always)]
pub(super) fn exp_within_range<M: Machine>(m: &M, x: M::F) -> M::F {
    let (r, n) = reduce(m, x);
    m.mul(exp_of_reduced(m, r), m.power_of_two(n))
}

/// 2^x.
#[inline(always)]
pub fn exp2<M: Machine>(m: &M, x: M::F) -> M::F {
    let zero = m.constant(0.0);
    exp2_of_sum(m, x, zero)
}

/// 2^(high + low), low at most a few units in the last place of high; zero where high is infinite.
#[inline(always)]
pub(super) fn exp2_of_sum<M: Machine>(m: &M, high: M::F, low: M::F) -> M::F {
    let high = m.clamp(high, -152.0, 130.0);
    let (whole, n) = m.nearest(high, 1.0);
    let r = m.add(m.sub(high, whole), low);
    let p = m.fma(m.polynomial(r, EXP2), r, m.constant(1.0));
    scale(m, p, n)
}

/// e^x - 1, without cancellation.
#[inline(always)]
pub fn expm1<M: Machine>(m: &M, x: M::F) -> M::F {
    expm1_with(m, x, EXPM1)
}

/// e^x from a 2^x good to 2^-22; results below the normal numbers are zero.
#[inline(always)]
pub fn exp_hardware<M: Machine>(m: &M, x: M::F) -> M::F {
    m.exp2_hardware(m.mul(x, m.constant(LOG2_E)))
}

/// 2^x to 2^-22; results below the normal numbers are zero.
#[inline(always)]
pub fn exp2_hardware<M: Machine>(m: &M, x: M::F) -> M::F {
    let lowest = m.constant(-126.0);
    let limited = m.clamp(x, -126.0, 128.0);
    let (whole, n) = m.nearest(limited, 1.0);
    let r = m.sub(limited, whole);
    let p = m.fma(m.polynomial(r, EXP2_HARDWARE), r, m.constant(1.0));
    let scaled = m.of_bits(m.add_integer(m.bits_of(p), m.shift_left(n, 23)));
    let result = m.select(m.less(x, lowest), m.constant(0.0), scaled);
    m.select(m.equal(x, x), result, x)
}

/// e^x - 1 to 2^-19 of itself.
#[inline(always)]
pub fn expm1_hardware<M: Machine>(m: &M, x: M::F) -> M::F {
    expm1_with(m, x, EXPM1_HARDWARE)
}

#[inline(always)]
fn expm1_with<M: Machine, const N: usize>(m: &M, x: M::F, coefficients: [f32; N]) -> M::F {
    let limited = m.clamp(x, -30.0, 89.0);
    let (r, n) = reduce(m, limited);
    let p = m.fma(m.mul(r, r), m.polynomial(r, coefficients), r);
    // Half of 2^n p + (2^n - 1): 2^n itself may be one too large.
    let power = m.power_of_two(m.sub_integer(n, m.integer(1)));
    let half = m.fma(power, p, m.sub(power, m.constant(0.5)));
    let tiny = m.less(m.abs(x), m.constant(2.98023224e-8));
    m.select(tiny, x, m.add(half, half))
}

/// x = n ln 2 + r.
#[inline(always)]
fn reduce<M: Machine>(m: &M, x: M::F) -> (M::F, M::I) {
    let (whole, n) = m.nearest(x, LOG2_E);
    let r = m.fma(whole, m.constant(-LN_2_HIGH), x);
    (m.fma(whole, m.constant(-LN_2_LOW), r), n)
}

#[inline(always)]
fn exp_of_reduced<M: Machine>(m: &M, r: M::F) -> M::F {
    let one = m.constant(1.0);
    let p = m.polynomial(r, EXP);
    m.fma(m.fma(p, r, one), r, one)
}

/// p 2^n for |n| <= 252, in two steps of which only the second rounds.
#[inline(always)]
fn scale<M: Machine>(m: &M, p: M::F, n: M::I) -> M::F {
    let half = m.shift_right(n, 1);
    let rest = m.sub_integer(n, half);
    m.mul(m.mul(p, m.power_of_two(half)), m.power_of_two(rest))
}
