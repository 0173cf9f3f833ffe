//! `pow`.
//!
//! In: any two f32. Out: x^y with the special cases of C99; a negative base takes integer exponents.
//! How: 2^(y log2 |x|), the logarithm and the product each as a sum of two f32.

use super::exponential::exp2_of_sum;
use super::logarithm::{at_the_edges, log2_hardware};
use super::machine::Machine;

/// The bits of sqrt(1/2), where mantissas are folded, and the mask of sign and exponent.
const FOLD: i32 = 0x3f35_04f3;
const EXPONENT: i32 = 0xff80_0000_u32 as i32;

/// 2 log2 e = the sum of these.
const TWO_LOG2_E: [f32; 2] = [2.885390043e0, 3.851926067e-8];
/// 1/3 = the sum of these.
const THIRD: [f32; 2] = [3.333333433e-1, -9.934107463e-9];
/// (atanh q / q - 1 - q^2 / 3) / q^4 in q^2, for q to 0.172.
const ATANH: [f32; 4] = [2.000000030e-1, 1.428558230e-1, 1.111804172e-1, 9.218565375e-2];

/// x^y.
#[inline(always)]
pub fn pow<M: Machine>(m: &M, x: M::F, y: M::F) -> M::F {
    let magnitude = m.abs(x);
    let (high, low) = log2_as_sum(m, magnitude);
    let product = m.mul(y, high);
    let error = m.fma(y, low, m.fma(y, high, m.negate(product)));
    // Past this the result is zero or infinite, and the error may be a NaN.
    let finite = m.less(m.abs(product), m.constant(256.0));
    let power = exp2_of_sum(m, product, m.select(finite, error, m.constant(0.0)));
    at_special_values(m, x, y, power)
}

/// x^y as 2^(y log2 x) in f32: the error grows with y log2 x.
#[inline(always)]
pub fn pow_hardware<M: Machine>(m: &M, x: M::F, y: M::F) -> M::F {
    let power = m.exp2_hardware(m.mul(y, log2_hardware(m, m.abs(x))));
    at_special_values(m, x, y, power)
}

/// log2 x as high + low to 2^-38 of itself, for x not negative.
#[inline(always)]
fn log2_as_sum<M: Machine>(m: &M, x: M::F) -> (M::F, M::F) {
    let denormal = m.less(x, m.constant(f32::MIN_POSITIVE));
    let bits = m.bits_of(m.select(denormal, m.mul(x, m.constant(8388608.0)), x));
    let exponent = m.and(m.sub_integer(bits, m.integer(FOLD)), m.integer(EXPONENT));
    let mantissa = m.of_bits(m.sub_integer(bits, exponent));
    let offset = m.select(denormal, m.constant(-23.0), m.constant(0.0));
    let exponent = m.add(m.of_integer(m.shift_right(exponent, 23)), offset);

    let (half, half_low) = half_log_of_mantissa(m, mantissa);
    let (scale, scale_low) = (m.constant(TWO_LOG2_E[0]), m.constant(TWO_LOG2_E[1]));
    let log = m.mul(half, scale);
    let log_low = m.fma(half, scale, m.negate(log));
    let log_low = m.fma(half, scale_low, m.fma(half_low, scale, log_low));

    let high = m.add(exponent, log);
    let low = m.add(m.add(m.sub(exponent, high), log), log_low);
    (at_the_edges(m, x, high), low)
}

/// log(mantissa) / 2 = atanh(q), q = (mantissa - 1) / (mantissa + 1), as a sum.
#[inline(always)]
fn half_log_of_mantissa<M: Machine>(m: &M, mantissa: M::F) -> (M::F, M::F) {
    let one = m.constant(1.0);
    let numerator = m.sub(mantissa, one);
    let denominator = m.add(mantissa, one);
    let denominator_low = m.sub(mantissa, m.sub(denominator, one));
    let q = m.div_within_range(numerator, denominator);
    let rest = m.fma(m.negate(q), denominator_low, m.fma(m.negate(q), denominator, numerator));
    let q_low = m.div_within_range(rest, denominator);

    let square = m.mul(q, q);
    let square_low = m.fma(q, q, m.negate(square));
    let square_low = m.fma(m.add(q, q), q_low, square_low);
    let cube = m.mul(square, q);
    let cube_low = m.fma(square, q, m.negate(cube));
    let cube_low = m.fma(square_low, q, m.fma(square, q_low, cube_low));

    let (third, third_low) = (m.constant(THIRD[0]), m.constant(THIRD[1]));
    let tail = m.mul(m.polynomial(square, ATANH), square);
    let factor = m.add(third, tail);
    let factor_low = m.add(m.add(m.sub(third, factor), tail), third_low);

    let term = m.mul(cube, factor);
    let term_low = m.fma(cube, factor, m.negate(term));
    let term_low = m.fma(cube, factor_low, m.fma(cube_low, factor, term_low));

    let high = m.add(q, term);
    let low = m.add(m.add(m.sub(q, high), term), m.add(q_low, term_low));
    (high, low)
}

/// The sign of the result, and the cases in which it is not 2^(y log2 |x|).
#[inline(always)]
fn at_special_values<M: Machine>(m: &M, x: M::F, y: M::F, power: M::F) -> M::F {
    let (zero, one, infinity) = (m.constant(0.0), m.constant(1.0), m.constant(f32::INFINITY));
    let half = m.mul(y, m.constant(0.5));
    let integral = m.equal(m.round_even(y), y);
    let odd = m.both(integral, m.not(m.equal(m.round_even(half), half)));
    let signed = m.select(odd, m.flip(power, m.sign(x)), power);

    let finite_negative = m.both(m.less(x, zero), m.less(m.constant(f32::NEG_INFINITY), x));
    let undefined = m.both(finite_negative, m.not(integral));
    let result = m.select(undefined, m.constant(f32::NAN), signed);

    let unordered = m.not(m.both(m.equal(x, x), m.equal(y, y)));
    let result = m.select(unordered, m.add(x, y), result);

    let unit = m.both(m.equal(m.abs(x), one), m.equal(m.abs(y), infinity));
    let always_one = m.either(m.equal(y, zero), m.equal(x, one));
    m.select(m.either(unit, always_one), one, result)
}
