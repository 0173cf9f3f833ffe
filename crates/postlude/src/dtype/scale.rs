//! Scales: powers of two as eight bits of exponent (`f8e8m0`, the scale of OCP MX blocks).
//!
//! In: a number, or a code. Out: the code of the nearest power of two, or the code's value. Halfway between two powers
//! (1.5 times the lower one) is rounded up, as in PyTorch. What lies below 2^-127, zero and negative numbers too, becomes
//! 2^-127; what lies above 2^127, infinity too, becomes 2^127; nan stays nan.

/// The code of nan.
const NAN: u8 = 0xff;
/// The code of the largest power.
const LARGEST: u8 = 0xfe;
const BIAS: i32 = 127;

/// The code nearest to a value.
pub(super) fn encode(value: f64) -> u8 {
    if value.is_nan() {
        return NAN;
    }
    // Below the midpoint of the two smallest powers.
    if value < 1.5 * f64::exp2(f64::from(-BIAS)) {
        return 0;
    }
    // The upper half of a mantissa carries into the exponent.
    let exponent = (value.to_bits() + (1 << 51)) >> 52;
    let code = exponent as i64 - 1023 + i64::from(BIAS);
    code.clamp(0, i64::from(LARGEST)) as u8
}

/// The same for an f32.
pub(super) fn encode_f32(value: f32) -> u8 {
    let bits = value.to_bits() as i32;
    if value.is_nan() {
        NAN
    } else if bits < 0x0060_0000 {
        0
    } else {
        ((bits + 0x0040_0000) >> 23).min(i32::from(LARGEST)) as u8
    }
}

/// The value of a code.
pub(super) const fn decode(code: u8) -> f32 {
    match code {
        0 => f32::from_bits(0x0040_0000),
        NAN => f32::NAN,
        code => f32::from_bits((code as u32) << 23),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_survives_a_round_trip() {
        for code in 0..=LARGEST {
            let value = decode(code);
            assert_eq!(f64::from(value), f64::exp2(f64::from(i32::from(code) - BIAS)));
            assert_eq!((encode(f64::from(value)), encode_f32(value)), (code, code));
        }
        assert!(decode(NAN).is_nan());
        assert_eq!((encode(f64::NAN), encode_f32(-f32::NAN)), (NAN, NAN));
    }

    #[test]
    fn midpoints_round_up_and_a_hair_decides() {
        for code in 0..LARGEST {
            let tie = 1.5 * f64::from(decode(code));
            assert_eq!((encode(tie), encode_f32(tie as f32)), (code + 1, code + 1));
            assert_eq!(encode(tie.next_down()), code);
            assert_eq!(encode_f32((tie as f32).next_down()), code);
        }
    }

    #[test]
    fn what_lies_outside_becomes_the_nearest_end() {
        for small in [0.0, -0.0, -1.0, f64::NEG_INFINITY, 5e-324, 1e-45] {
            assert_eq!((encode(small), encode_f32(small as f32)), (0, 0), "{small}");
        }
        for large in [1e300, f64::INFINITY, 3.4e38] {
            assert_eq!((encode(large), encode_f32(large as f32)), (LARGEST, LARGEST), "{large}");
        }
    }
}
