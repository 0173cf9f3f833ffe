//! Integers: whole results, then as many bits as the type has.

use postlude_ptx::types::Scalar;

use super::{Fault, integer, ones};

/// What two integers become.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum IntegerOp {
    /// `add`
    Add,
    /// `sub`
    Sub,
    /// `mul.lo`
    MulLow,
    /// `mul.hi`
    MulHigh,
    /// `mul.wide`: twice the width.
    MulWide,
    /// `div`, toward zero.
    Div,
    /// `rem`, with the sign of the dividend.
    Rem,
    /// `min`
    Min,
    /// `max`
    Max,
    /// `and`
    And,
    /// `or`
    Or,
    /// `xor`
    Xor,
    /// `shl`: by 32 bits of the second operand, beyond the width all is zero.
    ShiftLeft,
    /// `shr`: signed types fill with the sign, beyond the width too.
    ShiftRight,
}

/// The value of a type's bits.
pub(super) fn value(bits: u64, width: u32, signed: bool) -> i128 {
    let unused = 64 - width;
    if signed {
        i128::from((bits as i64) << unused >> unused)
    } else {
        i128::from(bits << unused >> unused)
    }
}

/// An operation of integers, or of bits and predicates where it is bitwise.
pub fn integer_binary(op: IntegerOp, ty: Scalar, a: u64, b: u64) -> Result<u64, Fault> {
    let (width, signed) = integer(ty).ok_or(Fault::Unsupported)?;
    let bitwise = matches!(op, IntegerOp::And | IntegerOp::Or | IntegerOp::Xor);
    if width == 1 && !bitwise || op == IntegerOp::MulWide && width > 32 {
        return Err(Fault::Unsupported);
    }
    let (x, y) = (value(a, width, signed), value(b, width, signed));
    // More than the width is the width: nothing is left.
    let count = (b as u32).min(width);
    let result = match op {
        IntegerOp::Add => x + y,
        IntegerOp::Sub => x - y,
        IntegerOp::MulLow => x.wrapping_mul(y),
        IntegerOp::MulHigh => (x.wrapping_mul(y) as u128 >> width) as i128,
        IntegerOp::MulWide => return Ok((x * y) as u64 & ones(2 * width)),
        IntegerOp::Div => x.checked_div(y).ok_or(Fault::DivisionByZero)?,
        IntegerOp::Rem => x.checked_rem(y).ok_or(Fault::DivisionByZero)?,
        IntegerOp::Min => x.min(y),
        IntegerOp::Max => x.max(y),
        IntegerOp::And => x & y,
        IntegerOp::Or => x | y,
        IntegerOp::Xor => x ^ y,
        IntegerOp::ShiftLeft => x << count,
        IntegerOp::ShiftRight => x >> count,
    };
    Ok(result as u64 & ones(width))
}

/// `mad.lo`
pub fn mad_low(ty: Scalar, a: u64, b: u64, c: u64) -> Result<u64, Fault> {
    integer_binary(IntegerOp::Add, ty, integer_binary(IntegerOp::MulLow, ty, a, b)?, c)
}

/// `mad.wide`: `c` has twice the width.
pub fn mad_wide(ty: Scalar, a: u64, b: u64, c: u64) -> Result<u64, Fault> {
    let product = integer_binary(IntegerOp::MulWide, ty, a, b)?;
    let (width, _) = integer(ty).ok_or(Fault::Unsupported)?;
    Ok(product.wrapping_add(c) & ones(2 * width))
}

/// `not`, of predicates too.
pub fn complement(ty: Scalar, a: u64) -> Result<u64, Fault> {
    let (width, _) = integer(ty).ok_or(Fault::Unsupported)?;
    Ok(!a & ones(width))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::numerics::random::Random;

    fn with(op: IntegerOp, ty: Scalar, a: u64, b: u64) -> u64 {
        integer_binary(op, ty, a, b).unwrap()
    }

    #[test]
    fn thirty_two_bits_are_as_rust_has_them() {
        let mut random = Random::new(12);
        for _ in 0..100_000 {
            let (a, b) = (random.bits() >> random.below(32), random.bits() >> random.below(32));
            let noise = u64::from(random.bits()) << 32;
            let (x, y) = (noise | u64::from(a), noise | u64::from(b));
            let u = |op| with(op, Scalar::U32, x, y) as u32;
            let s = |op| with(op, Scalar::S32, x, y) as i32;
            let (i, j) = (a as i32, b as i32);
            assert_eq!(u(IntegerOp::Add), a.wrapping_add(b));
            assert_eq!(u(IntegerOp::Sub), a.wrapping_sub(b));
            assert_eq!(u(IntegerOp::MulLow), a.wrapping_mul(b));
            assert_eq!(s(IntegerOp::MulLow), i.wrapping_mul(j));
            assert_eq!(u(IntegerOp::MulHigh), ((u64::from(a) * u64::from(b)) >> 32) as u32);
            assert_eq!(s(IntegerOp::MulHigh), ((i64::from(i) * i64::from(j)) >> 32) as i32);
            assert_eq!(with(IntegerOp::MulWide, Scalar::U32, x, y), u64::from(a) * u64::from(b));
            let wide = i64::from(i) * i64::from(j);
            assert_eq!(with(IntegerOp::MulWide, Scalar::S32, x, y), wide as u64);
            assert_eq!(mad_wide(Scalar::S32, x, y, noise), Ok((wide as u64).wrapping_add(noise)));
            assert_eq!(mad_low(Scalar::U32, x, y, x), Ok(a.wrapping_mul(b).wrapping_add(a).into()));
            if let (Some(quotient), Some(rest)) = (a.checked_div(b), a.checked_rem(b)) {
                assert_eq!((u(IntegerOp::Div), u(IntegerOp::Rem)), (quotient, rest));
                let want = (i.wrapping_div(j), i.wrapping_rem(j));
                assert_eq!((s(IntegerOp::Div), s(IntegerOp::Rem)), want);
            }
            assert_eq!((u(IntegerOp::Min), u(IntegerOp::Max)), (a.min(b), a.max(b)));
            assert_eq!((s(IntegerOp::Min), s(IntegerOp::Max)), (i.min(j), i.max(j)));
            assert_eq!(
                (u(IntegerOp::And), u(IntegerOp::Or), u(IntegerOp::Xor)),
                (a & b, a | b, a ^ b)
            );
            let count = random.below(40);
            let shifted = |op, ty| with(op, ty, x, count.into()) as u32;
            assert_eq!(
                shifted(IntegerOp::ShiftLeft, Scalar::B32),
                a.checked_shl(count).unwrap_or(0)
            );
            assert_eq!(
                shifted(IntegerOp::ShiftRight, Scalar::U32),
                a.checked_shr(count).unwrap_or(0)
            );
            assert_eq!(shifted(IntegerOp::ShiftRight, Scalar::S32) as i32, i >> count.min(31));
        }
    }

    #[test]
    fn sixty_four_bits_are_as_rust_has_them() {
        let mut random = Random::new(13);
        let mut wide = || u64::from(random.bits()) << 32 | u64::from(random.bits());
        for _ in 0..100_000 {
            let (a, b) = (wide(), wide() | 1);
            let product = u128::from(a) * u128::from(b);
            assert_eq!(with(IntegerOp::MulLow, Scalar::U64, a, b), product as u64);
            assert_eq!(with(IntegerOp::MulHigh, Scalar::U64, a, b), (product >> 64) as u64);
            let signed = i128::from(a as i64) * i128::from(b as i64);
            assert_eq!(with(IntegerOp::MulHigh, Scalar::S64, a, b), (signed >> 64) as u64);
            assert_eq!(with(IntegerOp::Div, Scalar::U64, a, b), a / b);
            assert_eq!(
                with(IntegerOp::Rem, Scalar::S64, a, b) as i64,
                (a as i64).wrapping_rem(b as i64)
            );
            assert_eq!(with(IntegerOp::Add, Scalar::U64, a, b), a.wrapping_add(b));
            assert_eq!(with(IntegerOp::ShiftLeft, Scalar::B64, a, b & 63), a << (b & 63));
            assert_eq!(with(IntegerOp::ShiftRight, Scalar::S64, a, 100) as i64, (a as i64) >> 63);
        }
    }

    #[test]
    fn what_has_no_result_says_so() {
        let none = |op, ty| integer_binary(op, ty, 1, 0);
        assert_eq!(none(IntegerOp::Div, Scalar::U32), Err(Fault::DivisionByZero));
        assert_eq!(none(IntegerOp::Rem, Scalar::S64), Err(Fault::DivisionByZero));
        assert_eq!(none(IntegerOp::MulWide, Scalar::U64), Err(Fault::Unsupported));
        assert_eq!(none(IntegerOp::Add, Scalar::Pred), Err(Fault::Unsupported));
        assert_eq!(none(IntegerOp::Add, Scalar::F32), Err(Fault::Unsupported));
        assert_eq!(none(IntegerOp::Xor, Scalar::Pred), Ok(1));
        assert_eq!(complement(Scalar::Pred, 1), Ok(0));
        assert_eq!(complement(Scalar::B16, 0xf0f0), Ok(0x0f0f));
    }
}
