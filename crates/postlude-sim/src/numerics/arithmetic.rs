//! Arithmetic, comparisons and bits, as the instructions of the table do them.
//!
//! In: the instruction's type and the bits of its operands, which may have more bits than the type. Out: the bits of
//! the result, above the type's width zero. Invariant: floats round once, to nearest even, keep subnormal numbers, and
//! write one NaN, that of all ones (PTX ISA, "Floating Point Instructions" and "Half Precision Floating Point
//! Instructions").

mod bits;
mod floats;
mod integers;

use postlude_ptx::modifier::Compare;
use postlude_ptx::types::Scalar;

pub use bits::{lop3, permute, population_count};
pub use floats::{FloatOp, float_binary, fused};
pub use integers::{IntegerOp, complement, integer_binary, mad_low, mad_wide};

use super::float::Format;

/// Why there is no result.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Fault {
    /// No such instruction.
    #[error("the instruction does not exist for this type")]
    Unsupported,
    /// PTX leaves the result open.
    #[error("division by zero, whose result PTX leaves open")]
    DivisionByZero,
}

/// Bits and sign of an integer type; of untyped ones without a sign.
fn integer(ty: Scalar) -> Option<(u32, bool)> {
    match ty {
        Scalar::U8 | Scalar::B8 => Some((8, false)),
        Scalar::U16 | Scalar::B16 => Some((16, false)),
        Scalar::U32 | Scalar::B32 => Some((32, false)),
        Scalar::U64 | Scalar::B64 => Some((64, false)),
        Scalar::S8 => Some((8, true)),
        Scalar::S16 => Some((16, true)),
        Scalar::S32 => Some((32, true)),
        Scalar::S64 => Some((64, true)),
        Scalar::Pred => Some((1, false)),
        Scalar::F16
        | Scalar::BF16
        | Scalar::F32
        | Scalar::TF32
        | Scalar::E4M3
        | Scalar::E5M2
        | Scalar::F16x2
        | Scalar::BF16x2
        | Scalar::E4M3x2
        | Scalar::E5M2x2 => None,
    }
}

/// The format of each lane of a float type with arithmetic, and how many there are.
fn lanes(ty: Scalar) -> Option<(Format, u32)> {
    match ty {
        Scalar::F32 => Some((Format::F32, 1)),
        Scalar::F16 => Some((Format::F16, 1)),
        Scalar::BF16 => Some((Format::BF16, 1)),
        Scalar::F16x2 => Some((Format::F16, 2)),
        Scalar::BF16x2 => Some((Format::BF16, 2)),
        Scalar::U8
        | Scalar::U16
        | Scalar::U32
        | Scalar::U64
        | Scalar::S8
        | Scalar::S16
        | Scalar::S32
        | Scalar::S64
        | Scalar::B8
        | Scalar::B16
        | Scalar::B32
        | Scalar::B64
        | Scalar::TF32
        | Scalar::E4M3
        | Scalar::E5M2
        | Scalar::E4M3x2
        | Scalar::E5M2x2
        | Scalar::Pred => None,
    }
}

/// The negative. PTX leaves open which NaN becomes of a NaN; here its sign changes.
pub fn negate(ty: Scalar, a: u64) -> Result<u64, Fault> {
    match (lanes(ty), integer(ty)) {
        (Some((format, count)), _) => Ok(signs(format, count) ^ a & ones(format.width() * count)),
        (None, Some((_, true))) => integer_binary(IntegerOp::Sub, ty, 0, a),
        (None, Some((_, false)) | None) => Err(Fault::Unsupported),
    }
}

/// The absolute value; of the least integer itself.
pub fn absolute(ty: Scalar, a: u64) -> Result<u64, Fault> {
    match (lanes(ty), integer(ty)) {
        (Some((format, count)), _) => Ok(!signs(format, count) & a & ones(format.width() * count)),
        (None, Some((width, true))) if a >> (width - 1) & 1 == 1 => negate(ty, a),
        (None, Some((width, true))) => Ok(a & ones(width)),
        (None, Some((_, false)) | None) => Err(Fault::Unsupported),
    }
}

/// The sign bits of all lanes.
fn signs(format: Format, count: u32) -> u64 {
    (0..count).map(|lane| 1 << ((lane + 1) * format.width() - 1)).sum()
}

fn ones(width: u32) -> u64 {
    u64::MAX >> (64 - width)
}

/// `setp` (PTX ISA, "Comparison Operators"): with a NaN only the unordered comparisons hold.
pub fn compare(compare: Compare, ty: Scalar, a: u64, b: u64) -> Result<bool, Fault> {
    let ordering = match (lanes(ty), integer(ty)) {
        (Some((format, 1)), _) => floats::value(format, a).partial_cmp(&floats::value(format, b)),
        (None, Some((width, signed))) if width > 1 => {
            let unordered = match compare {
                Compare::Eq | Compare::Ne | Compare::Lt => false,
                Compare::Le | Compare::Gt | Compare::Ge => false,
                Compare::EqOrNan | Compare::NeOrNan | Compare::LtOrNan => true,
                Compare::LeOrNan | Compare::GtOrNan | Compare::GeOrNan => true,
                Compare::BothNumbers | Compare::AnyNan => true,
            };
            if unordered {
                return Err(Fault::Unsupported);
            }
            let value = |bits| integers::value(bits, width, signed);
            Some(value(a).cmp(&value(b)))
        }
        (Some(_) | None, Some(_) | None) => return Err(Fault::Unsupported),
    };
    Ok(match compare {
        Compare::Eq => ordering.is_some_and(std::cmp::Ordering::is_eq),
        Compare::Ne => ordering.is_some_and(std::cmp::Ordering::is_ne),
        Compare::Lt => ordering.is_some_and(std::cmp::Ordering::is_lt),
        Compare::Le => ordering.is_some_and(std::cmp::Ordering::is_le),
        Compare::Gt => ordering.is_some_and(std::cmp::Ordering::is_gt),
        Compare::Ge => ordering.is_some_and(std::cmp::Ordering::is_ge),
        Compare::EqOrNan => ordering.is_none_or(std::cmp::Ordering::is_eq),
        Compare::NeOrNan => ordering.is_none_or(std::cmp::Ordering::is_ne),
        Compare::LtOrNan => ordering.is_none_or(std::cmp::Ordering::is_lt),
        Compare::LeOrNan => ordering.is_none_or(std::cmp::Ordering::is_le),
        Compare::GtOrNan => ordering.is_none_or(std::cmp::Ordering::is_gt),
        Compare::GeOrNan => ordering.is_none_or(std::cmp::Ordering::is_ge),
        Compare::BothNumbers => ordering.is_some(),
        Compare::AnyNan => ordering.is_none(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nan_is_unordered() {
        let (nan, one, zero) =
            (u64::from(f32::NAN.to_bits()), u64::from(1f32.to_bits()), 0x8000_0000);
        for each in Compare::ALL {
            let with = |a, b| compare(*each, Scalar::F32, a, b).unwrap();
            let unordered = each.spelling().ends_with('u') || *each == Compare::AnyNan;
            assert_eq!(with(nan, one), unordered, "{each}");
            assert_eq!(with(one, nan), unordered, "{each}");
            let base = each.spelling().trim_end_matches('u');
            assert_eq!(with(zero, one), ["ne", "lt", "le", "num"].contains(&base), "{each}");
            assert_eq!(with(zero, 0), ["eq", "le", "ge", "num"].contains(&base), "{each}");
        }
        assert_eq!(compare(Compare::Lt, Scalar::F16, 0x3c00, 0x3c01), Ok(true));
        assert_eq!(compare(Compare::Lt, Scalar::BF16, 0xff80, 0x7fff), Ok(false));
        assert_eq!(compare(Compare::Lt, Scalar::F16x2, 0, 0), Err(Fault::Unsupported));
    }

    #[test]
    fn integers_compare_by_their_sign() {
        let lt = |ty, a, b| compare(Compare::Lt, ty, a, b).unwrap();
        assert!(lt(Scalar::S32, 0xffff_ffff, 0) && !lt(Scalar::U32, 0xffff_ffff, 0));
        assert!(lt(Scalar::S64, u64::MAX, 0) && lt(Scalar::U16, 0x1_0001, 2));
        assert_eq!(compare(Compare::LtOrNan, Scalar::U32, 0, 0), Err(Fault::Unsupported));
        assert_eq!(compare(Compare::Eq, Scalar::Pred, 0, 0), Err(Fault::Unsupported));
    }

    #[test]
    fn signs_change_and_go() {
        assert_eq!(negate(Scalar::F32, 0x8000_0000), Ok(0));
        assert_eq!(negate(Scalar::F16x2, 0x3c00_8000), Ok(0xbc00_0000));
        assert_eq!(negate(Scalar::S32, 1), Ok(0xffff_ffff));
        assert_eq!(negate(Scalar::U32, 1), Err(Fault::Unsupported));
        assert_eq!(absolute(Scalar::BF16x2, 0xbf80_ffff), Ok(0x3f80_7fff));
        assert_eq!(absolute(Scalar::S32, 0x8000_0000), Ok(0x8000_0000));
        assert_eq!(absolute(Scalar::S32, 0xffff_fffd), Ok(3));
        assert_eq!(absolute(Scalar::S64, 5), Ok(5));
    }
}
