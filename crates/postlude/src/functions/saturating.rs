//! `tanh` and `erf`: odd functions that end at ±1.
//!
//! In: any f32. Out: the function, accurate or as good as a form built on a hardware 2^x and reciprocal.
//! How: an odd polynomial near zero, where the result is relative to x; one minus an exponential beyond.

use super::exponential::{exp_hardware, exp_within_range};
use super::machine::Machine;

/// Below this tanh is its polynomial.
const TANH_SMALL: f32 = 0.55;
/// (tanh x - x) / x^3 in x^2; tanh to 2^-29.7.
const TANH: [f32; 5] =
    [-3.333331645e-1, 1.333254576e-1, -5.384784937e-2, 2.105247229e-2, -6.245998200e-3];
/// As `TANH`, to 2^-24.7.
const TANH_HARDWARE: [f32; 4] = [-3.333294392e-1, 1.332066208e-1, -5.266781524e-2, 1.643005200e-2];

/// Below this erf is its polynomial.
const ERF_SMALL: f32 = 0.927734375;
/// (erf x - x) / x in x^2; erf to 2^-30.
const ERF: [f32; 7] = [
    1.283791661e-1,
    -3.761262894e-1,
    1.128362566e-1,
    -2.685572952e-2,
    5.192393437e-3,
    -8.049545577e-4,
    7.995294436e-5,
];
/// As `ERF`, to 2^-25.8.
const ERF_HARDWARE: [f32; 6] = [
    1.283791512e-1,
    -3.761249185e-1,
    1.128176674e-1,
    -2.676431648e-2,
    4.989366047e-3,
    -5.969914491e-4,
];
/// (log(erfc t) + t) / t for t in 0.927..4; erf to 2^-30.4.
const LOG_ERFC: [f32; 7] = [
    -1.286529005e-1,
    -6.351334453e-1,
    -1.062663645e-1,
    2.378739789e-2,
    -3.654405707e-3,
    3.257337667e-4,
    -1.152317145e-5,
];
/// As `LOG_ERFC`, to 2^-23.4.
const LOG_ERFC_HARDWARE: [f32; 5] =
    [-1.272094101e-1, -6.405062079e-1, -9.840588272e-2, 1.810803451e-2, -1.592522138e-3];

/// log2(erfc t) / t for t in 0..10: erfc to 2^-21, and beyond 2^-12 to a thousandth of itself.
const LOG2_ERFC: [f64; 7] = [
    -1.627_937_555_313_110_4,
    -0.918_013_751_506_805_4,
    -0.150_253_638_625_144_96,
    0.031_726_945_191_621_78,
    -0.004_205_170_553_177_595,
    0.000_274_589_227_046_817_54,
    -0.000_004_500_725_481_193_513,
];
/// The result is 0 or 2 from here on.
const ERFC_ENDS: f64 = 10.0;

/// 1 + erf(scale x) to 2^-20, where the sum needs no more of erf than that: no polynomial near zero, and below zero no
/// difference of almost equal numbers.
#[inline(always)]
pub fn one_plus_erf_hardware<M: Machine>(m: &M, x: M::F, scale: f64) -> M::F {
    let steep = scale.abs();
    let magnitude = m.at_most(m.abs(x), (ERFC_ENDS / steep) as f32);
    let mut power = steep;
    let coefficients = LOG2_ERFC.map(|coefficient| {
        let scaled = coefficient * power;
        power *= steep;
        scaled as f32
    });
    let rest = m.exp2_hardware(m.mul(m.polynomial(magnitude, coefficients), magnitude));
    let above = m.sub(m.constant(2.0), rest);
    let zero = m.constant(0.0);
    let below = if scale < 0.0 { m.less(zero, x) } else { m.less(x, zero) };
    m.select(below, rest, above)
}

/// The hyperbolic tangent.
#[inline(always)]
pub fn tanh<M: Machine>(m: &M, x: M::F) -> M::F {
    tanh_with(m, x, TANH, |x| exp_within_range(m, x), |a, b| m.div_within_range(a, b))
}

/// The hyperbolic tangent to 2^-20 of itself.
#[inline(always)]
pub fn tanh_hardware<M: Machine>(m: &M, x: M::F) -> M::F {
    let divide = |a, b| m.div_within_range_hardware(a, b);
    tanh_with(m, x, TANH_HARDWARE, |x| exp_hardware(m, x), divide)
}

/// The error function.
#[inline(always)]
pub fn erf<M: Machine>(m: &M, x: M::F) -> M::F {
    erf_with(m, x, ERF, LOG_ERFC, |x| exp_within_range(m, x))
}

/// The error function to 2^-20 of itself.
#[inline(always)]
pub fn erf_hardware<M: Machine>(m: &M, x: M::F) -> M::F {
    erf_with(m, x, ERF_HARDWARE, LOG_ERFC_HARDWARE, |x| exp_hardware(m, x))
}

#[inline(always)]
fn tanh_with<M: Machine, const N: usize>(
    m: &M,
    x: M::F,
    near_zero: [f32; N],
    exp: impl Fn(M::F) -> M::F,
    divide: impl Fn(M::F, M::F) -> M::F,
) -> M::F {
    let one = m.constant(1.0);
    // The result is 1 from 9.02 on.
    let magnitude = m.at_most(m.abs(x), 10.0);
    let square = m.mul(magnitude, magnitude);
    let small = m.fma(m.mul(m.polynomial(square, near_zero), square), magnitude, magnitude);
    let power = exp(m.add(magnitude, magnitude));
    let large = m.sub(one, divide(m.constant(2.0), m.add(power, one)));
    let result = m.select(m.less(magnitude, m.constant(TANH_SMALL)), small, large);
    m.flip(result, m.sign(x))
}

#[inline(always)]
fn erf_with<M: Machine, const N: usize, const K: usize>(
    m: &M,
    x: M::F,
    near_zero: [f32; N],
    log_erfc: [f32; K],
    exp: impl Fn(M::F) -> M::F,
) -> M::F {
    // The result is 1 from 3.92 on.
    let magnitude = m.at_most(m.abs(x), 4.0);
    let square = m.mul(magnitude, magnitude);
    let small = m.fma(m.polynomial(square, near_zero), magnitude, magnitude);
    let negated = m.negate(magnitude);
    let exponent = m.fma(m.polynomial(magnitude, log_erfc), magnitude, negated);
    let large = m.sub(m.constant(1.0), exp(exponent));
    let result = m.select(m.less(magnitude, m.constant(ERF_SMALL)), small, large);
    m.flip(result, m.sign(x))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::functions::machine::Scalar;

    #[test]
    fn one_plus_erf_is_as_good_as_it_says() {
        for step in -120_000..=120_000 {
            let x = step as f32 / 1e4;
            for scale in [1.0, std::f64::consts::FRAC_1_SQRT_2, -0.5] {
                let got = f64::from(one_plus_erf_hardware(&Scalar, x, scale));
                let t = f64::from(x) * scale;
                let want = 1.0 + f64::from(erf(&Scalar, t as f32));
                assert!((got - want).abs() < 2_f64.powi(-20), "1 + erf({t}): {got}, not {want}");
            }
        }
        let ends =
            [f32::INFINITY, f32::NEG_INFINITY].map(|x| one_plus_erf_hardware(&Scalar, x, 1.0));
        assert_eq!(ends, [2.0, 0.0]);
        assert!(one_plus_erf_hardware(&Scalar, f32::NAN, 1.0).is_nan());
    }
}
