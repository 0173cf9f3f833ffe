//! `log`, `log2` and `log1p`.
//!
//! In: any f32. Out: the function, accurate or as good as a form built on a hardware log2.
//! How: x = 2^e (1 + f) with f in [-1/3, 1/3), log(1 + f) = f + f^2 q(f), all of it relative to f near 1.

use super::machine::Machine;

const LN_2: f32 = std::f32::consts::LN_2;
/// log2 e to 24 bits, and what is missing.
const LOG2_E_HIGH: f32 = std::f32::consts::LOG2_E;
const LOG2_E_LOW: f32 = 1.925963033500e-8;

/// The bits of 2/3, where mantissas are folded, and the mask of sign and exponent.
const FOLD: i32 = 0x3f2a_aaab;
const EXPONENT: i32 = 0xff80_0000_u32 as i32;

/// (log(1 + f) - f) / f^2 for |f| <= 1/3; log(1 + f) to 2^-27.7.
const LOG: [f32; 9] = [
    -0.5,
    3.333321512e-1,
    -2.499980479e-1,
    2.001043558e-1,
    -1.668022126e-1,
    1.400554329e-1,
    -1.218745336e-1,
    1.398559362e-1,
    -1.287929118e-1,
];

/// As `LOG`, to 2^-22.3.
const LOG_HARDWARE: [f32; 7] = [
    -4.999996126e-1,
    3.333673775e-1,
    -2.500625849e-1,
    1.981811374e-1,
    -1.644200832e-1,
    1.699089259e-1,
    -1.526057124e-1,
];

/// As `LOG`, times log2 e.
const LOG2: [f32; 9] = [
    -7.213475108e-1,
    4.808967113e-1,
    -3.606715202e-1,
    2.886865139e-1,
    -2.406324744e-1,
    2.020983249e-1,
    -1.759384125e-1,
    2.015951723e-1,
    -1.854483038e-1,
];

/// The natural logarithm.
#[inline(always)]
pub fn log<M: Machine>(m: &M, x: M::F) -> M::F {
    log_with(m, x, LOG)
}

/// The natural logarithm to 2^-21 of itself.
#[inline(always)]
pub fn log_hardware<M: Machine>(m: &M, x: M::F) -> M::F {
    log_with(m, x, LOG_HARDWARE)
}

/// The logarithm to base 2.
#[inline(always)]
pub fn log2<M: Machine>(m: &M, x: M::F) -> M::F {
    let (exponent, mantissa) = split(m, x);
    let f = m.sub(mantissa, m.constant(1.0));
    let tail = m.mul(m.mul(f, f), m.polynomial(f, LOG2));
    let tail = m.fma(f, m.constant(LOG2_E_LOW), tail);
    let result = m.add(exponent, m.fma(f, m.constant(LOG2_E_HIGH), tail));
    at_the_edges(m, x, result)
}

/// The logarithm to base 2, to 2^-21 of itself.
#[inline(always)]
pub fn log2_hardware<M: Machine>(m: &M, x: M::F) -> M::F {
    let (exponent, mantissa) = split(m, x);
    let logarithm = log_near_one(m, m.sub(mantissa, m.constant(1.0)), LOG_HARDWARE);
    let result = m.fma(logarithm, m.constant(LOG2_E_HIGH), exponent);
    at_the_edges(m, x, result)
}

/// log(1 + x) / x for x in 0..=1, to 2^-22.2: the polynomial of least relative error.
const LOG1P_WITHIN_ONE: [f32; 8] = [
    0.999_999_8,
    -0.499_974_04,
    0.332_754_8,
    -0.244_954_63,
    0.177_452_42,
    -0.107_681_71,
    0.044_089_62,
    -0.008_539_203,
];

/// log(1 + x) for x in 0..=1, to 2^-21 of itself.
#[inline(always)]
pub fn log1p_within_one<M: Machine>(m: &M, x: M::F) -> M::F {
    m.mul(m.polynomial(x, LOG1P_WITHIN_ONE), x)
}

/// log(1 + x), without cancellation.
#[inline(always)]
pub fn log1p<M: Machine>(m: &M, x: M::F) -> M::F {
    log1p_with(m, x, LOG)
}

/// log(1 + x) to 2^-20 of itself.
#[inline(always)]
pub fn log1p_hardware<M: Machine>(m: &M, x: M::F) -> M::F {
    log1p_with(m, x, LOG_HARDWARE)
}

#[inline(always)]
fn log_with<M: Machine, const N: usize>(m: &M, x: M::F, coefficients: [f32; N]) -> M::F {
    let (exponent, mantissa) = split(m, x);
    let logarithm = log_near_one(m, m.sub(mantissa, m.constant(1.0)), coefficients);
    at_the_edges(m, x, m.fma(exponent, m.constant(LN_2), logarithm))
}

#[inline(always)]
fn log1p_with<M: Machine, const N: usize>(m: &M, x: M::F, coefficients: [f32; N]) -> M::F {
    let one = m.constant(1.0);
    let sum = m.add(one, x);
    let exponent = exponent_bits(m, m.bits_of(sum));
    // f = 2^-e (1 + x) - 1, from the unrounded x; 2^-e itself may be a denormal, four times it is not.
    let inverse = m.of_bits(m.sub_integer(m.integer(0x4080_0000), exponent));
    let scaled = m.of_bits(m.sub_integer(m.bits_of(x), exponent));
    let f = m.add(scaled, m.fma(m.constant(0.25), inverse, m.constant(-1.0)));
    let exponent = m.of_integer(m.shift_right(exponent, 23));
    let logarithm = m.fma(exponent, m.constant(LN_2), log_near_one(m, f, coefficients));
    let result = at_the_edges(m, sum, logarithm);
    m.select(m.equal(x, m.constant(0.0)), x, result)
}

/// log(1 + f).
#[inline(always)]
fn log_near_one<M: Machine, const N: usize>(m: &M, f: M::F, coefficients: [f32; N]) -> M::F {
    m.fma(m.polynomial(f, coefficients), m.mul(f, f), f)
}

/// x = 2^exponent * mantissa with a mantissa in [2/3, 4/3), for positive x; denormals included.
#[inline(always)]
fn split<M: Machine>(m: &M, x: M::F) -> (M::F, M::F) {
    let denormal = m.less(x, m.constant(f32::MIN_POSITIVE));
    let bits = m.bits_of(m.select(denormal, m.mul(x, m.constant(8388608.0)), x));
    let exponent = exponent_bits(m, bits);
    let mantissa = m.of_bits(m.sub_integer(bits, exponent));
    let offset = m.select(denormal, m.constant(-23.0), m.constant(0.0));
    (m.add(m.of_integer(m.shift_right(exponent, 23)), offset), mantissa)
}

/// The exponent, in place, that leaves a mantissa in [2/3, 4/3).
#[inline(always)]
fn exponent_bits<M: Machine>(m: &M, bits: M::I) -> M::I {
    m.and(m.sub_integer(bits, m.integer(FOLD)), m.integer(EXPONENT))
}

/// `result` for positive finite x; -inf at zero, NaN below, inf and NaN themselves.
#[inline(always)]
pub(super) fn at_the_edges<M: Machine>(m: &M, x: M::F, result: M::F) -> M::F {
    let (zero, infinity) = (m.constant(0.0), m.constant(f32::INFINITY));
    let ordinary = m.both(m.less(zero, x), m.less(x, infinity));
    let edge = m.select(m.less(x, zero), m.constant(f32::NAN), x);
    let edge = m.select(m.equal(x, zero), m.constant(f32::NEG_INFINITY), edge);
    m.select(ordinary, result, edge)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::functions::machine::Scalar;

    #[test]
    fn log1p_within_one_is_as_good_as_it_says() {
        let near_zero = (1..140).map(|power| 2_f32.powi(-power));
        let evenly = (0..=1_000_000).map(|step| step as f32 / 1e6);
        for x in near_zero.chain(evenly).filter(|x| *x >= f32::MIN_POSITIVE) {
            let (got, want) = (log1p_within_one(&Scalar, x), f64::from(x).ln_1p());
            let error = (f64::from(got) - want).abs() / want;
            assert!(error < 2_f64.powi(-21), "log1p({x}): {got}, off by {error}");
        }
        assert_eq!(log1p_within_one(&Scalar, 0.0), 0.0);
        assert!(log1p_within_one(&Scalar, f32::NAN).is_nan());
    }
}
