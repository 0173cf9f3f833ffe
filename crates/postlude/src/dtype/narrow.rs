//! Small float formats, by their bits.
//!
//! In: an f64, or a code of the format. Out: the nearest code (ties to even, one rounding), or the code's exact value.
//! Invariant: `encode(decode(code)) == code` for every code that is not a NaN or an infinity.

/// What a value too large for the format becomes.
#[derive(Clone, Copy)]
enum Overflow {
    /// The infinity of the format.
    Infinity,
    /// The largest finite value, for infinities as well.
    Saturate,
}

/// A float format of at most 16 bits: sign, exponent, mantissa, from the top.
#[derive(Clone, Copy)]
pub(super) struct Format {
    exponent_bits: u32,
    mantissa_bits: u32,
    /// The code of the largest finite value.
    largest: u16,
    /// The code of the infinity; none in a finite-only format.
    infinity: Option<u16>,
    overflow: Overflow,
}

/// IEEE half precision.
pub(super) const F16: Format = Format {
    exponent_bits: 5,
    mantissa_bits: 10,
    largest: 0x7bff,
    infinity: Some(0x7c00),
    overflow: Overflow::Infinity,
};

/// The upper half of single precision.
pub(super) const BF16: Format = Format {
    exponent_bits: 8,
    mantissa_bits: 7,
    largest: 0x7f7f,
    infinity: Some(0x7f80),
    overflow: Overflow::Infinity,
};

/// Four bits of exponent, finite only: the top exponent holds values up to 448, its last code is the NaN.
pub(super) const F8E4M3: Format = Format {
    exponent_bits: 4,
    mantissa_bits: 3,
    largest: 0x7e,
    infinity: None,
    overflow: Overflow::Saturate,
};

/// Five bits of exponent, with infinities that a load knows and a store never makes.
pub(super) const F8E5M2: Format = Format {
    exponent_bits: 5,
    mantissa_bits: 2,
    largest: 0x7b,
    infinity: Some(0x7c),
    overflow: Overflow::Saturate,
};

/// The bits of 2^exponent, for exponents of normal numbers.
const fn power_of_two(exponent: i32) -> f64 {
    f64::from_bits(((exponent + 1023) as u64) << 52)
}

impl Format {
    const fn bias(self) -> i32 {
        (1 << (self.exponent_bits - 1)) - 1
    }

    /// All bits but the sign; also the code that every NaN is stored as.
    const fn magnitude_mask(self) -> u16 {
        (1 << (self.exponent_bits + self.mantissa_bits)) - 1
    }

    /// The code nearest to a value, ties to even.
    pub(super) const fn encode(self, value: f64) -> u16 {
        if value.is_nan() {
            return self.magnitude_mask();
        }
        let sign = if value.is_sign_negative() { self.magnitude_mask() + 1 } else { 0 };
        let code = self.encode_magnitude(value.abs());
        let code = if code <= self.largest as u64 {
            code as u16
        } else {
            match (self.overflow, self.infinity) {
                (Overflow::Infinity, Some(infinity)) => infinity,
                (Overflow::Infinity, None) | (Overflow::Saturate, _) => self.largest,
            }
        };
        sign | code
    }

    /// The code of a value that is not negative, as if the exponent had no upper limit.
    const fn encode_magnitude(self, value: f64) -> u64 {
        let smallest_normal = 1 - self.bias();
        if value < power_of_two(smallest_normal) {
            // The spacing of f64 just above `magic` is the spacing of the format's subnormals.
            let magic = power_of_two(smallest_normal - self.mantissa_bits as i32 + 52);
            return (value + magic).to_bits() - magic.to_bits();
        }
        let dropped = 52 - self.mantissa_bits;
        let bits = value.to_bits() - (((1023 - self.bias()) as u64) << 52);
        let odd = (bits >> dropped) & 1;
        (bits + (1 << (dropped - 1)) - 1 + odd) >> dropped
    }

    /// The value of a code.
    pub(super) const fn decode(self, code: u16) -> f64 {
        let magnitude = code & self.magnitude_mask();
        let negative = code > self.magnitude_mask();
        let value = if magnitude <= self.largest {
            self.decode_finite(magnitude)
        } else {
            match self.infinity {
                Some(infinity) if magnitude == infinity => f64::INFINITY,
                Some(_) | None => f64::NAN,
            }
        };
        if negative { -value } else { value }
    }

    const fn decode_finite(self, magnitude: u16) -> f64 {
        let mantissa = (magnitude & ((1 << self.mantissa_bits) - 1)) as i32;
        let exponent = (magnitude >> self.mantissa_bits) as i32;
        let unit = -self.bias() - self.mantissa_bits as i32;
        if exponent == 0 {
            mantissa as f64 * power_of_two(unit + 1)
        } else {
            (mantissa + (1 << self.mantissa_bits)) as f64 * power_of_two(unit + exponent)
        }
    }

    /// The value of every code of an 8-bit format.
    pub(super) const fn table(self) -> [f32; 256] {
        let mut values = [0.0; 256];
        let mut code = 0;
        while code < 256 {
            values[code] = self.decode(code as u16) as f32;
            code += 1;
        }
        values
    }
}

#[cfg(test)]
mod tests {
    use super::{BF16, F8E4M3, F8E5M2, F16, Format};

    const EIGHT_BITS: [Format; 2] = [F8E4M3, F8E5M2];

    /// All codes of finite magnitudes, in ascending order of value.
    fn finite(format: Format) -> impl Iterator<Item = u16> {
        0..=format.largest
    }

    fn sign_bit(format: Format) -> u16 {
        format.magnitude_mask() + 1
    }

    #[test]
    fn known_codes_of_each_format() {
        assert_eq!(F8E4M3.decode(0x7e), 448.0);
        assert_eq!(F8E4M3.decode(0x38), 1.0);
        assert_eq!(F8E4M3.decode(0x01), 1.0 / 512.0);
        assert_eq!(F8E5M2.decode(0x7b), 57344.0);
        assert_eq!(F8E5M2.decode(0x7c), f64::INFINITY);
        assert_eq!(F8E5M2.decode(0xfc), f64::NEG_INFINITY);
        assert_eq!(F8E5M2.decode(0x01), 1.0 / 65536.0);
        assert_eq!(F16.decode(0x7bff), 65504.0);
        assert_eq!(F16.decode(0x0001), 2f64.powi(-24));
        assert_eq!(BF16.decode(0x0001), 2f64.powi(-133));
        assert_eq!(BF16.decode(0x3f80), 1.0);
        for code in [0x7f, 0xff] {
            assert!(F8E4M3.decode(code).is_nan() && F8E5M2.decode(code).is_nan());
        }
        assert!(F8E5M2.decode(0x7d).is_nan() && F8E5M2.decode(0xfe).is_nan());
    }

    #[test]
    fn every_finite_code_survives_a_round_trip() {
        for format in [F8E4M3, F8E5M2, F16, BF16] {
            for code in finite(format) {
                assert_eq!(format.encode(format.decode(code)), code);
                let negative = code | sign_bit(format);
                assert_eq!(format.encode(format.decode(negative)), negative);
            }
        }
    }

    #[test]
    fn every_sixteen_bit_code_decodes_as_the_half_crate_does() {
        for code in 0..=u16::MAX {
            let (ours, theirs) = (F16.decode(code), half::f16::from_bits(code).to_f64());
            assert!(ours.to_bits() == theirs.to_bits() || (ours.is_nan() && theirs.is_nan()));
            let (ours, theirs) = (BF16.decode(code), half::bf16::from_bits(code).to_f64());
            assert!(ours.to_bits() == theirs.to_bits() || (ours.is_nan() && theirs.is_nan()));
        }
    }

    #[test]
    fn ties_between_neighbours_go_to_the_even_code_and_a_hair_decides() {
        for format in [F8E4M3, F8E5M2, F16, BF16] {
            for low in finite(format).take_while(|&code| code < format.largest) {
                let high = low + 1;
                let tie = f64::midpoint(format.decode(low), format.decode(high));
                let even = if low & 1 == 0 { low } else { high };
                assert_eq!(format.encode(tie), even);
                assert_eq!(format.encode(-tie), even | sign_bit(format));
                assert_eq!(format.encode(tie.next_down()), low);
                assert_eq!(format.encode(tie.next_up()), high);
            }
        }
    }

    #[test]
    fn eight_bit_stores_saturate_and_keep_nan() {
        for format in EIGHT_BITS {
            let largest = format.decode(format.largest);
            for large in [largest, largest * 1.01, largest * 2.0, 1e300, f64::INFINITY] {
                assert_eq!(format.encode(large), format.largest);
                assert_eq!(format.encode(-large), format.largest | 0x80);
            }
            assert_eq!(format.encode(f64::NAN), 0x7f);
            assert_eq!(format.encode(-f64::NAN), 0x7f);
            assert_eq!(format.encode(-0.0), 0x80);
            assert_eq!(format.encode(-1e-300), 0x80);
        }
    }

    #[test]
    fn sixteen_bit_stores_overflow_to_infinity_at_half_a_step_above_the_largest() {
        for (format, infinity) in [(F16, 0x7c00), (BF16, 0x7f80)] {
            let largest = format.decode(format.largest);
            let step = largest - format.decode(format.largest - 1);
            let edge = largest + step / 2.0;
            assert_eq!(format.encode(edge.next_down()), format.largest);
            assert_eq!(format.encode(edge), infinity);
            assert_eq!(format.encode(-edge), infinity | 0x8000);
            assert_eq!(format.encode(f64::INFINITY), infinity);
            assert!(format.decode(format.encode(f64::NAN)).is_nan());
        }
    }

    #[test]
    fn a_value_just_above_a_tie_is_not_rounded_twice() {
        // Through f32 this would first become the tie itself.
        let above = 1.0 + 2f64.powi(-11) + 2f64.powi(-40);
        assert_eq!(F16.encode(above), 0x3c01);
        let above = 1.0 + 2f64.powi(-8) + 2f64.powi(-40);
        assert_eq!(BF16.encode(above), 0x3f81);
    }
}
