//! Stochastic rounding to narrow floats.
//!
//! In: a value and 32 random bits. Out: one of its two neighbours in the type. With `t` the distance from the neighbour
//! towards zero in units of their distance and `u` the bits as a fraction of 2^32, the other neighbour is taken where
//! `t + u >= 1`: with probability `t`. Invariant: for the same bits the result is monotone in the value, and a value of
//! the type is itself.

use super::{DType, round_to};

/// The exponent of the smallest normal number, and the bits of the fraction.
pub(crate) const fn precision(to: DType) -> Option<(i32, i32)> {
    match to {
        DType::F16 => Some((-14, 10)),
        DType::BF16 => Some((-126, 7)),
        DType::F8E4M3 => Some((-6, 3)),
        DType::F8E5M2 => Some((-14, 2)),
        DType::F32
        | DType::TF32
        | DType::F8E8M0
        | DType::I8
        | DType::U8
        | DType::I32
        | DType::I64
        | DType::Bool
        | DType::B1
        | DType::I4
        | DType::U4 => None,
    }
}

/// The value rounded to a narrow float by random bits; beyond the type's range as a cast is.
pub fn round_randomly(to: DType, value: f64, bits: u32) -> f64 {
    let Some((least, fraction)) = precision(to) else { return round_to(to, value) };
    if !value.is_finite() || value == 0.0 {
        return round_to(to, value);
    }
    // No f64 that comes from f32 is below its normal numbers, so the exponent stands in the bits.
    let exponent = (value.abs().to_bits() >> 52) as i32 - 1023;
    let step = f64::exp2(f64::from(exponent.max(least) - fraction));
    let steps = value.abs() / step;
    let below = steps.floor();
    let part = ((steps - below) * 4294967296.0) as u32;
    let above = part.checked_add(bits).is_none();
    round_to(to, ((below + f64::from(u8::from(above))) * step).copysign(value))
}

#[cfg(test)]
mod tests {
    use super::*;

    const NARROW: [DType; 4] = [DType::F16, DType::BF16, DType::F8E4M3, DType::F8E5M2];

    #[test]
    fn values_of_the_type_stay() {
        for to in NARROW {
            for value in [0.0, -0.0, 1.0, -1.5, 0.015625, 448.0, f64::exp2(-9.0), f64::INFINITY] {
                for bits in [0, 1, u32::MAX] {
                    let rounded = round_randomly(to, value, bits);
                    assert_eq!(rounded.to_bits(), round_to(to, value).to_bits(), "{to} {value}");
                }
            }
            assert!(round_randomly(to, f64::NAN, 7).is_nan());
        }
    }

    #[test]
    fn the_share_of_bits_that_round_up_is_the_distance() {
        // A quarter of the way from 1 to the next bf16; and between two f16 below the normal numbers.
        let quarter = [
            (DType::BF16, 1.0 + f64::exp2(-9.0), 1.0, 1.0 + f64::exp2(-7.0)),
            (DType::F16, 5.25 * f64::exp2(-24.0), 5.0 * f64::exp2(-24.0), 6.0 * f64::exp2(-24.0)),
            (DType::F8E4M3, -(1.0 + f64::exp2(-5.0)), -1.0, -1.125),
            (DType::F8E5M2, 0.25 * f64::exp2(-16.0), 0.0, f64::exp2(-16.0)),
        ];
        for (to, value, below, above) in quarter {
            assert_eq!(round_randomly(to, value, 0xbfff_ffff), below, "{to}");
            assert_eq!(round_randomly(to, value, 0xc000_0000), above, "{to}");
        }
    }

    #[test]
    fn rounding_is_monotone_in_the_value() {
        for to in NARROW {
            for bits in [0, 0x1234_5678, 0x8000_0000, u32::MAX] {
                let mut before = f64::NEG_INFINITY;
                for step in -4000..4000 {
                    let value = f64::from(step) * 0.00037;
                    let rounded = round_randomly(to, value, bits);
                    assert!(rounded >= before, "{to} {value}");
                    before = rounded;
                }
            }
        }
    }
}
