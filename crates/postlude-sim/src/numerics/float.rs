//! Floats of any width as exact numbers, and exact numbers rounded to floats.
//!
//! In and out: bits. Invariant: decoding is exact, and encoding rounds once. Every NaN is written as the one of all
//! ones without a sign, which is what the hardware writes (PTX ISA, "Floating Point Instructions": payloads are not
//! kept; `cuda_fp16.h` and `cuda_fp8.h` say the same of conversions).

pub(crate) use postlude_ptx::modifier::Rounding;

/// How a float is written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Format {
    pub(crate) exponent_bits: u32,
    pub(crate) fraction_bits: u32,
    /// Whether the largest exponent means infinities and NaN; else only its largest fraction is NaN.
    pub(crate) infinities: bool,
}

/// What bits mean.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum Number {
    Nan,
    Infinite {
        negative: bool,
    },
    /// `significand * 2^exponent`; zero has a sign.
    Finite {
        negative: bool,
        significand: u64,
        exponent: i32,
    },
}

/// What becomes of numbers too large.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Overflow {
    /// As rounding has it: infinity, or the largest number.
    Round,
    /// Always the largest number, also for infinities.
    Largest,
}

impl Format {
    pub(crate) const F64: Format = Format::ieee(11, 52);
    pub(crate) const F32: Format = Format::ieee(8, 23);
    pub(crate) const F16: Format = Format::ieee(5, 10);
    pub(crate) const BF16: Format = Format::ieee(8, 7);
    /// The upper 19 bits of single precision.
    pub(crate) const TF32: Format = Format::ieee(8, 10);
    pub(crate) const E5M2: Format = Format::ieee(5, 2);
    pub(crate) const E4M3: Format =
        Format { exponent_bits: 4, fraction_bits: 3, infinities: false };

    const fn ieee(exponent_bits: u32, fraction_bits: u32) -> Format {
        Format { exponent_bits, fraction_bits, infinities: true }
    }

    /// All bits.
    pub(crate) const fn width(self) -> u32 {
        1 + self.exponent_bits + self.fraction_bits
    }

    const fn bias(self) -> i32 {
        (1 << (self.exponent_bits - 1)) - 1
    }

    const fn sign(self) -> u64 {
        1 << (self.width() - 1)
    }

    pub(crate) const fn nan(self) -> u64 {
        self.sign() - 1
    }

    /// Bits of infinity, or of NaN where there is none: the first that is no number.
    const fn limit(self) -> u64 {
        if self.infinities {
            ((1 << self.exponent_bits) - 1) << self.fraction_bits
        } else {
            self.nan()
        }
    }

    /// The exponent of the least normal number.
    pub(crate) const fn least(self) -> i32 {
        1 - self.bias()
    }

    pub(crate) fn decode(self, bits: u64) -> Number {
        let negative = bits & self.sign() != 0;
        let magnitude = bits & (self.sign() - 1);
        if magnitude >= self.limit() {
            return if self.infinities && magnitude == self.limit() {
                Number::Infinite { negative }
            } else {
                Number::Nan
            };
        }
        let field = (magnitude >> self.fraction_bits) as i32;
        let fraction = magnitude & ((1 << self.fraction_bits) - 1);
        let significand = if field == 0 { fraction } else { fraction | 1 << self.fraction_bits };
        let exponent = field.max(1) - self.bias() - self.fraction_bits as i32;
        Number::Finite { negative, significand, exponent }
    }

    pub(crate) fn encode(self, number: Number, rounding: Rounding, overflow: Overflow) -> u64 {
        let signed = |negative, bits| if negative { self.sign() | bits } else { bits };
        match number {
            Number::Nan => self.nan(),
            Number::Infinite { negative } => match overflow {
                Overflow::Round => signed(negative, self.limit()),
                Overflow::Largest => signed(negative, self.limit() - 1),
            },
            Number::Finite { negative, significand: 0, .. } => signed(negative, 0),
            Number::Finite { negative, significand, exponent } => {
                let top = 63 - significand.leading_zeros() as i32 + exponent;
                let top = top.max(self.least());
                let unit = top - self.fraction_bits as i32;
                let whole = in_units(significand, unit - exponent, negative, rounding);
                // The leading bit adds one to the exponent field, and so does a carry out of the fraction.
                let bits = (((top - self.least()) as u64) << self.fraction_bits) + whole;
                if bits < self.limit() {
                    return signed(negative, bits);
                }
                let largest = overflow == Overflow::Largest || !away_at_the_end(negative, rounding);
                signed(negative, if largest { self.limit() - 1 } else { self.limit() })
            }
        }
    }
}

/// Whether a number beyond the largest becomes infinite.
fn away_at_the_end(negative: bool, rounding: Rounding) -> bool {
    match rounding {
        Rounding::None | Rounding::Nearest | Rounding::NearestAway | Rounding::NearestWhole => true,
        Rounding::Zero | Rounding::ZeroWhole => false,
        Rounding::Down | Rounding::DownWhole => negative,
        Rounding::Up | Rounding::UpWhole => !negative,
    }
}

/// `significand / 2^right`, rounded to a whole number.
pub(crate) fn in_units(significand: u64, right: i32, negative: bool, rounding: Rounding) -> u64 {
    if right <= 0 {
        return significand << -right;
    }
    // Beyond 65 places all is less than a quarter.
    let right = right.min(66);
    let wide = u128::from(significand);
    let (whole, rest, half) = (wide >> right, wide & ((1 << right) - 1), 1 << (right - 1));
    let up = match rounding {
        Rounding::None | Rounding::Nearest | Rounding::NearestWhole => {
            rest > half || rest == half && whole & 1 == 1
        }
        Rounding::NearestAway => rest >= half,
        Rounding::Zero | Rounding::ZeroWhole => false,
        Rounding::Down | Rounding::DownWhole => negative && rest > 0,
        Rounding::Up | Rounding::UpWhole => !negative && rest > 0,
    };
    whole as u64 + u64::from(up)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(format: Format, bits: u64) -> f64 {
        match format.decode(bits) {
            Number::Nan => f64::NAN,
            Number::Infinite { negative } => {
                if negative {
                    -f64::INFINITY
                } else {
                    f64::INFINITY
                }
            }
            Number::Finite { negative, significand, exponent } => {
                let magnitude = significand as f64 * 2f64.powi(exponent);
                if negative { -magnitude } else { magnitude }
            }
        }
    }

    #[test]
    fn every_half_decodes_as_the_other_crate_has_it() {
        for bits in 0..=u16::MAX {
            let f16 = half::f16::from_bits(bits).to_f64();
            let bf16 = half::bf16::from_bits(bits).to_f64();
            for (format, want) in [(Format::F16, f16), (Format::BF16, bf16)] {
                let got = value(format, bits.into());
                assert!(got.to_bits() == want.to_bits() || got.is_nan() && want.is_nan());
            }
        }
    }

    #[test]
    fn every_narrow_number_comes_back() {
        let formats = [Format::F16, Format::BF16, Format::E4M3, Format::E5M2, Format::TF32];
        for format in formats {
            for bits in 0..1_u64 << format.width() {
                let number = format.decode(bits);
                let want = if number == Number::Nan { format.nan() } else { bits };
                assert_eq!(format.encode(number, Rounding::Nearest, Overflow::Round), want);
                assert_eq!(format.encode(number, Rounding::Down, Overflow::Round), want);
            }
        }
    }

    /// Rounding by search among all numbers of a format: the neighbours of a value and their middle, in f64.
    #[test]
    fn roundings_pick_the_right_neighbour() {
        for format in [Format::E4M3, Format::E5M2, Format::F16, Format::BF16] {
            for low in 0..format.limit() - 1 {
                let (down, up) = (value(format, low), value(format, low + 1));
                let middle = f64::midpoint(down, up);
                for (x, nearest, away) in [
                    (f64::from_bits(middle.to_bits() - 1), low, low),
                    (middle, low + low % 2, low + 1),
                    (f64::from_bits(middle.to_bits() + 1), low + 1, low + 1),
                    (f64::from_bits(down.to_bits() + 1), low, low),
                ] {
                    let encode = |x: f64, rounding| {
                        let number = Format::F64.decode(x.to_bits());
                        format.encode(number, rounding, Overflow::Round)
                    };
                    let sign = format.sign();
                    assert_eq!(encode(x, Rounding::Nearest), nearest);
                    assert_eq!(encode(-x, Rounding::Nearest), sign | nearest);
                    assert_eq!(encode(x, Rounding::NearestAway), away);
                    assert_eq!(encode(-x, Rounding::NearestAway), sign | away);
                    assert_eq!(encode(x, Rounding::Zero), low);
                    assert_eq!(encode(-x, Rounding::Zero), sign | low);
                    assert_eq!(encode(x, Rounding::Up), low + 1);
                    assert_eq!(encode(-x, Rounding::Up), sign | low);
                    assert_eq!(encode(x, Rounding::Down), low);
                    assert_eq!(encode(-x, Rounding::Down), sign | (low + 1));
                }
            }
        }
    }

    #[test]
    fn beyond_the_largest_number_rounding_decides() {
        let huge = Format::F64.decode(1e30_f64.to_bits());
        let minus = Format::F64.decode((-1e30_f64).to_bits());
        let f16 = |number, rounding, overflow| Format::F16.encode(number, rounding, overflow);
        assert_eq!(f16(huge, Rounding::Nearest, Overflow::Round), 0x7c00);
        assert_eq!(f16(huge, Rounding::Zero, Overflow::Round), 0x7bff);
        assert_eq!(f16(huge, Rounding::Down, Overflow::Round), 0x7bff);
        assert_eq!(f16(minus, Rounding::Down, Overflow::Round), 0xfc00);
        assert_eq!(f16(minus, Rounding::Up, Overflow::Round), 0xfbff);
        assert_eq!(f16(minus, Rounding::Nearest, Overflow::Largest), 0xfbff);
        let just = Format::F64.decode(65519.99_f64.to_bits());
        let tie = Format::F64.decode(65520_f64.to_bits());
        assert_eq!(f16(just, Rounding::Nearest, Overflow::Round), 0x7bff);
        assert_eq!(f16(tie, Rounding::Nearest, Overflow::Round), 0x7c00);
    }
}
