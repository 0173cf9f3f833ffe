//! `fmod`: the remainder of a division, exact.
//!
//! In: any two f32. Out: x - trunc(x / y) * y with the sign of x, which f32 always holds; nan for an infinite x or a y of 0.
//! How: long division of the mantissas, 21 digits of the quotient a step, by remainders of either sign. A step's product
//! is subtracted without a rounding error, so a quotient digit that is off by one is made good by the next.

use super::machine::Machine;

/// Digits of the quotient in a step: of 24 digits, three are left for the error of the reciprocal.
const DIGITS: i32 = 21;
/// Exponents of f32 are at most 277 apart.
const STEPS: usize = 14;
/// The bits of a mantissa, and those of 1.
const MANTISSA: i32 = 0x007f_ffff;
const ONE: i32 = 0x3f80_0000;

/// The remainder of x / y.
#[inline(always)]
pub fn fmod<M: Machine>(m: &M, x: M::F, y: M::F) -> M::F {
    let (dividend, divisor) = (m.abs(x), m.abs(y));
    let (mut rest, exponent_of_x) = split(m, dividend);
    let (unit, exponent_of_y) = split(m, divisor);
    let one = m.constant(1.0);
    let reciprocal = m.div_within_range(one, unit);
    let reduced = |rest: M::F| {
        let digits = m.round_even(m.mul(rest, reciprocal));
        m.fma(m.negate(digits), unit, rest)
    };
    rest = reduced(rest);
    let mut left = m.sub_integer(exponent_of_x, exponent_of_y);
    for _ in 0..STEPS {
        let digits = m.least_unsigned(left, m.integer(DIGITS));
        left = m.sub_integer(left, digits);
        rest = reduced(m.mul(rest, m.power_of_two(digits)));
    }
    let negative = m.less(rest, m.constant(0.0));
    let rest = m.select(negative, m.add(rest, unit), rest);
    // In two steps: 2^-149 is no normal number.
    let half = m.shift_right(exponent_of_y, 1);
    let other = m.sub_integer(exponent_of_y, half);
    let rest = m.mul(m.mul(rest, m.power_of_two(half)), m.power_of_two(other));

    let result = m.select(m.less(dividend, divisor), dividend, rest);
    let defined =
        m.both(m.less(dividend, m.constant(f32::INFINITY)), m.less(m.constant(0.0), divisor));
    // A nan of y is in neither comparison.
    let result = m.select(defined, result, m.constant(f32::NAN));
    m.flip(result, m.sign(x))
}

/// The mantissa in 1..2, and the exponent.
#[inline(always)]
fn split<M: Machine>(m: &M, magnitude: M::F) -> (M::F, M::I) {
    let small = m.less(magnitude, m.constant(f32::MIN_POSITIVE));
    let normal = m.select(small, m.mul(magnitude, m.constant(16_777_216.0)), magnitude);
    // As floats, so that one selection serves: both are constants with small bits.
    let offset =
        m.bits_of(m.select(small, m.of_bits(m.integer(127 + 24)), m.of_bits(m.integer(127))));
    let bits = m.bits_of(normal);
    let mantissa = m.or(m.and(bits, m.integer(MANTISSA)), m.integer(ONE));
    (m.of_bits(mantissa), m.sub_integer(m.shift_right(bits, 23), offset))
}

#[cfg(test)]
mod tests {
    use super::fmod;
    use crate::functions::machine::Scalar;

    #[test]
    fn remainders_are_exact() {
        let same = |x: f32, y: f32| {
            let (got, want) = (fmod(&Scalar, x, y), x % y);
            assert!(
                got.to_bits() == want.to_bits() || (got.is_nan() && want.is_nan()),
                "{x:e} % {y:e}: {got:e}, not {want:e}"
            );
        };
        let edges = [
            0.0,
            1.0,
            1.5,
            3.0,
            65504.0,
            1e-20,
            1e-40,
            1e-45,
            3e-45,
            1.2e-38,
            2.5,
            3e38,
            f32::MAX,
            f32::MIN_POSITIVE,
            f32::INFINITY,
            f32::NAN,
        ];
        for x in edges {
            for y in edges {
                for (x, y) in [(x, y), (-x, y), (x, -y), (-x, -y)] {
                    same(x, y);
                }
            }
        }
        let mut bits = 1_u32;
        for _ in 0..200_000 {
            let mut next = || {
                bits = bits.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                f32::from_bits(bits ^ (bits >> 15))
            };
            same(next(), next());
        }
    }
}
