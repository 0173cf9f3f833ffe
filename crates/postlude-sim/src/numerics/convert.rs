//! Conversions, as `cvt` does them.
//!
//! In: the words of the instruction and the source's bits. Out: the destination's bits; signed integers are extended
//! to 64 bits, so that a wider register takes as many as it has. None: PTX has no such conversion.
//!
//! Source: PTX ISA, "Data Movement and Conversion Instructions: cvt". Floats to integers stop at the limits, with or
//! without `.sat`; NaN becomes 0, or the largest power of two for 64-bit integers. `.sat` of floats limits to [0, 1]
//! and makes NaN +0. `.satfinite` limits to the largest number, infinities too, and keeps NaN. Flushing forms are not
//! in the table of instructions, and not here.

use postlude_ptx::modifier::Saturation;
use postlude_ptx::types::Scalar;

use super::float::{Format, Number, Overflow, Rounding, in_units};

/// What a conversion sees in a type.
enum Kind {
    Integer { bits: u32, signed: bool },
    Float(Format),
    Pair(Format),
    Other,
}

fn kind(scalar: Scalar) -> Kind {
    let integer = |bits, signed| Kind::Integer { bits, signed };
    match scalar {
        Scalar::U8 => integer(8, false),
        Scalar::U16 => integer(16, false),
        Scalar::U32 => integer(32, false),
        Scalar::U64 => integer(64, false),
        Scalar::S8 => integer(8, true),
        Scalar::S16 => integer(16, true),
        Scalar::S32 => integer(32, true),
        Scalar::S64 => integer(64, true),
        Scalar::F16 => Kind::Float(Format::F16),
        Scalar::BF16 => Kind::Float(Format::BF16),
        Scalar::F32 => Kind::Float(Format::F32),
        Scalar::TF32 => Kind::Float(Format::TF32),
        Scalar::F16x2 => Kind::Pair(Format::F16),
        Scalar::BF16x2 => Kind::Pair(Format::BF16),
        Scalar::E4M3x2 => Kind::Pair(Format::E4M3),
        Scalar::E5M2x2 => Kind::Pair(Format::E5M2),
        Scalar::E4M3 | Scalar::E5M2 | Scalar::Pred => Kind::Other,
        Scalar::B8 | Scalar::B16 | Scalar::B32 | Scalar::B64 => Kind::Other,
    }
}

/// How a rounding modifier acts.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Use {
    /// Not said.
    Exact,
    /// To the destination's precision.
    Precision,
    /// To the destination's precision, ties away from zero: TF32 only.
    Away,
    /// To whole numbers.
    Whole,
}

fn usage(rounding: Rounding) -> Use {
    match rounding {
        Rounding::None => Use::Exact,
        Rounding::Nearest | Rounding::Zero | Rounding::Down | Rounding::Up => Use::Precision,
        Rounding::NearestAway => Use::Away,
        Rounding::NearestWhole | Rounding::ZeroWhole | Rounding::DownWhole | Rounding::UpWhole => {
            Use::Whole
        }
    }
}

/// `cvt` with one source.
pub fn convert(
    rounding: Rounding,
    saturation: Saturation,
    to: Scalar,
    from: Scalar,
    bits: u64,
) -> Option<u64> {
    match (kind(to), kind(from)) {
        (Kind::Integer { bits: width, signed }, Kind::Integer { bits: source, signed: minus }) => {
            let plain = usage(rounding) == Use::Exact && saturation != Saturation::Finite;
            let value = extended(bits, source, minus);
            plain.then(|| integer(value, width, signed, saturation == Saturation::Range))
        }
        (Kind::Integer { bits: width, signed }, Kind::Float(format)) => {
            let allowed = usage(rounding) == Use::Whole
                && saturation != Saturation::Finite
                && format != Format::TF32;
            allowed.then(|| whole(format.decode(bits), width, signed, rounding))
        }
        (Kind::Float(format), Kind::Integer { bits: source, signed }) => {
            let allowed = usage(rounding) == Use::Precision && format != Format::TF32;
            let value = extended(bits, source, signed);
            let (negative, exponent) = (value < 0, 0);
            let number =
                Number::Finite { negative, significand: value.unsigned_abs() as u64, exponent };
            // The zero of integers has no sign.
            allowed.then(|| float(number, format, rounding, saturation))
        }
        (Kind::Float(to), Kind::Float(from)) => between(rounding, saturation, to, from, bits),
        (Kind::Pair(to), Kind::Pair(from)) => {
            let narrow = to.width() == 8 && from == Format::F16;
            let widen = to == Format::F16 && from.width() == 8;
            let wanted = if narrow { Saturation::Finite } else { Saturation::None };
            let allowed = rounding == Rounding::Nearest && saturation == wanted;
            let one = |bits| float(from.decode(bits), to, rounding, saturation);
            ((narrow || widen) && allowed)
                .then(|| one(bits) | one(bits >> from.width()) << to.width())
        }
        (Kind::Integer { .. } | Kind::Float(_) | Kind::Pair(_) | Kind::Other, _) => None,
    }
}

/// `cvt` with two sources: `upper` goes to the upper half.
pub fn convert_pair(
    rounding: Rounding,
    saturation: Saturation,
    to: Scalar,
    from: Scalar,
    upper: u32,
    lower: u32,
) -> Option<u32> {
    let Kind::Pair(format) = kind(to) else { return None };
    let allowed = from == Scalar::F32
        && match (format.width() == 8, rounding, saturation) {
            (true, Rounding::Nearest, Saturation::Finite) => true,
            (false, Rounding::Nearest | Rounding::Zero, saturation) => {
                saturation != Saturation::Range
            }
            (_, _, _) => false,
        };
    let one = |bits: u32| float(Format::F32.decode(bits.into()), format, rounding, saturation);
    allowed.then(|| (one(upper) << format.width() | one(lower)) as u32)
}

/// The value of an integer in a register that may be wider.
fn extended(bits: u64, width: u32, signed: bool) -> i128 {
    let unused = 64 - width;
    if signed {
        i128::from((bits as i64) << unused >> unused)
    } else {
        i128::from(bits << unused >> unused)
    }
}

fn limits(width: u32, signed: bool) -> (i128, i128) {
    if signed { (-(1 << (width - 1)), (1 << (width - 1)) - 1) } else { (0, (1 << width) - 1) }
}

fn integer(value: i128, width: u32, signed: bool, saturate: bool) -> u64 {
    let (least, largest) = limits(width, signed);
    let value = if saturate { value.clamp(least, largest) } else { value };
    extended(value as u64, width, signed) as u64
}

fn whole(number: Number, width: u32, signed: bool, rounding: Rounding) -> u64 {
    let (least, largest) = limits(width, signed);
    let value = match number {
        Number::Nan if width == 64 => return 1 << 63,
        Number::Nan => 0,
        Number::Infinite { negative: true } => least,
        Number::Infinite { negative: false } => largest,
        Number::Finite { negative, significand, exponent } => {
            let magnitude = if exponent > 0 {
                // At most 24 bits and 104 places.
                i128::from(significand).checked_shl(exponent as u32).filter(|_| exponent < 100)
            } else {
                Some(in_units(significand, -exponent, negative, rounding).into())
            };
            let magnitude = magnitude.unwrap_or(i128::MAX);
            if negative { -magnitude } else { magnitude }
        }
    };
    integer(value, width, signed, true)
}

/// Rounds to the format, with what saturation says.
fn float(number: Number, to: Format, rounding: Rounding, saturation: Saturation) -> u64 {
    match saturation {
        Saturation::None => to.encode(number, rounding, Overflow::Round),
        Saturation::Finite => to.encode(number, rounding, Overflow::Largest),
        Saturation::Range => {
            let zero = Number::Finite { negative: false, significand: 0, exponent: 0 };
            let one = Number::Finite { negative: false, significand: 1, exponent: 0 };
            let limited = match number {
                Number::Nan
                | Number::Infinite { negative: true }
                | Number::Finite { negative: true, .. } => zero,
                Number::Infinite { negative: false } => one,
                Number::Finite { significand, exponent, .. } => {
                    let bits = 64 - significand.leading_zeros() as i32;
                    if significand != 0 && bits + exponent > 0 { one } else { number }
                }
            };
            to.encode(limited, rounding, Overflow::Round)
        }
    }
}

fn between(
    rounding: Rounding,
    saturation: Saturation,
    to: Format,
    from: Format,
    bits: u64,
) -> Option<u64> {
    let number = from.decode(bits);
    let exact = to == from || from != Format::TF32 && to == Format::F32;
    match (usage(rounding), to == Format::TF32) {
        (Use::Away | Use::Precision, true) => {
            let rounds = !matches!(rounding, Rounding::Down | Rounding::Up);
            let allowed = from == Format::F32 && rounds && saturation != Saturation::Range;
            // The lower 13 bits are zero; NaN has ones there too.
            let place = |bits| if bits == to.nan() { Format::F32.nan() } else { bits << 13 };
            allowed.then(|| place(float(number, to, rounding, saturation)))
        }
        (Use::Exact, false) if exact && from != Format::TF32 => {
            Some(float(number, to, Rounding::Nearest, saturation))
        }
        (Use::Precision, false) if !exact && from != Format::TF32 => {
            let finite = saturation == Saturation::Finite;
            let rounds = !matches!(rounding, Rounding::Down | Rounding::Up);
            (rounds || !finite).then(|| float(number, to, rounding, saturation))
        }
        (Use::Whole, false) if to == from && saturation != Saturation::Finite => {
            Some(float(to_whole(number, rounding), to, Rounding::Nearest, saturation))
        }
        (Use::Exact | Use::Precision | Use::Away | Use::Whole, _) => None,
    }
}

/// A whole number near a number, with its sign.
fn to_whole(number: Number, rounding: Rounding) -> Number {
    match number {
        Number::Finite { negative, significand, exponent } if exponent < 0 => {
            let significand = in_units(significand, -exponent, negative, rounding);
            Number::Finite { negative, significand, exponent: 0 }
        }
        Number::Nan | Number::Infinite { .. } | Number::Finite { .. } => number,
    }
}

#[cfg(test)]
mod tests;
