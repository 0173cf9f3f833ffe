//! Integer arithmetic.

use postlude_ptx::types::Scalar;

use super::{Binary, Ternary, Unary, one, three, two};

/// Integer operations on two operands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Op {
    Add,
    Sub,
    Mul,
    Div,
    Rem,
    Min,
    Max,
}

/// Runs a macro with the Rust type of an integer type.
macro_rules! with_integer {
    ($ty:expr, $body:ident) => {
        match $ty {
            Scalar::U16 | Scalar::B16 => Some($body!(u16)),
            Scalar::S16 => Some($body!(i16)),
            Scalar::U32 | Scalar::B32 => Some($body!(u32)),
            Scalar::S32 => Some($body!(i32)),
            Scalar::U64 | Scalar::B64 => Some($body!(u64)),
            Scalar::S64 => Some($body!(i64)),
            Scalar::U8
            | Scalar::S8
            | Scalar::B8
            | Scalar::F16
            | Scalar::BF16
            | Scalar::F32
            | Scalar::TF32
            | Scalar::E4M3
            | Scalar::E5M2
            | Scalar::F16x2
            | Scalar::BF16x2
            | Scalar::E4M3x2
            | Scalar::E5M2x2
            | Scalar::Pred => None,
        }
    };
}

/// The lower half of the result; division by zero gives all ones, its remainder the dividend.
pub(super) fn binary(op: Op, ty: Scalar) -> Option<Binary> {
    macro_rules! body {
        ($int:ty) => {
            match op {
                Op::Add => two(|a, b| (a as $int).wrapping_add(b as $int) as u64),
                Op::Sub => two(|a, b| (a as $int).wrapping_sub(b as $int) as u64),
                Op::Mul => two(|a, b| (a as $int).wrapping_mul(b as $int) as u64),
                Op::Div => two(|a, b| match b as $int {
                    0 => u64::MAX,
                    b => (a as $int).wrapping_div(b) as u64,
                }),
                Op::Rem => two(|a, b| match b as $int {
                    0 => a,
                    b => (a as $int).wrapping_rem(b) as u64,
                }),
                Op::Min => two(|a, b| (a as $int).min(b as $int) as u64),
                Op::Max => two(|a, b| (a as $int).max(b as $int) as u64),
            }
        };
    }
    with_integer!(ty, body)
}

/// The upper half of a product.
pub(super) fn high(ty: Scalar) -> Option<Binary> {
    macro_rules! body {
        ($int:ty) => {
            two(|a, b| (((a as $int) as i128 * (b as $int) as i128) >> <$int>::BITS) as u64)
        };
    }
    // 64 unsigned bits by 64 do not fit a signed 128.
    if let Scalar::U64 | Scalar::B64 = ty {
        return Some(two(|a, b| ((u128::from(a) * u128::from(b)) >> 64) as u64));
    }
    with_integer!(ty, body)
}

/// A product of twice the width.
pub(super) fn wide(ty: Scalar) -> Option<Binary> {
    macro_rules! body {
        ($int:ty) => {
            two(|a, b| ((a as $int) as i128 * (b as $int) as i128) as u64)
        };
    }
    match ty {
        Scalar::U64 | Scalar::S64 | Scalar::B64 => None,
        _ => with_integer!(ty, body),
    }
}

/// `a * b + c`, lower half.
pub(super) fn mad(ty: Scalar) -> Option<Ternary> {
    macro_rules! body {
        ($int:ty) => {
            three(|a, b, c| (a as $int).wrapping_mul(b as $int).wrapping_add(c as $int) as u64)
        };
    }
    with_integer!(ty, body)
}

/// `a * b + c`, of twice the width.
pub(super) fn mad_wide(ty: Scalar) -> Option<Ternary> {
    macro_rules! body {
        ($int:ty) => {
            three(|a, b, c| (((a as $int) as i128 * (b as $int) as i128) as u64).wrapping_add(c))
        };
    }
    match ty {
        Scalar::U64 | Scalar::S64 | Scalar::B64 => None,
        _ => with_integer!(ty, body),
    }
}

pub(super) fn negate(ty: Scalar) -> Option<Unary> {
    macro_rules! body {
        ($int:ty) => {
            one(|a| (0 as $int).wrapping_sub(a as $int) as u64)
        };
    }
    with_integer!(ty, body)
}

pub(super) fn absolute(ty: Scalar) -> Option<Unary> {
    match ty {
        Scalar::S16 => Some(one(|a| (a as i16).unsigned_abs().into())),
        Scalar::S32 => Some(one(|a| (a as i32).unsigned_abs().into())),
        Scalar::S64 => Some(one(|a| (a as i64).unsigned_abs())),
        _ => None,
    }
}

/// Shifts by more than the width give zeros.
pub(super) fn left(ty: Scalar) -> Option<Binary> {
    macro_rules! body {
        ($int:ty) => {
            two(|a, b| (a as $int).checked_shl(b as u32).unwrap_or(0) as u64)
        };
    }
    with_integer!(ty, body)
}

/// Shifts by more than the width give the sign.
pub(super) fn right(ty: Scalar) -> Option<Binary> {
    macro_rules! body {
        ($int:ty) => {
            two(|a, b| {
                let a = a as $int;
                let most = <$int>::BITS - 1;
                let gone = if b as u32 > most { (a >> most) >> 1 } else { a >> (b as u32) };
                gone as u64
            })
        };
    }
    with_integer!(ty, body)
}

pub(super) fn population(ty: Scalar) -> Option<Unary> {
    match ty {
        Scalar::B32 => Some(one(|a| (a as u32).count_ones().into())),
        Scalar::B64 => Some(one(|a| a.count_ones().into())),
        _ => None,
    }
}

/// Bytes of `b:a`, chosen by four nibbles of `c`; a nibble's upper bit spreads the byte's sign.
pub(super) fn permute(a: u64, b: u64, c: u64) -> u64 {
    let both = (a & 0xffff_ffff) | b << 32;
    (0..4).fold(0, |result, place| {
        let nibble = c >> (4 * place) & 0xf;
        let byte = both >> (8 * (nibble & 7)) & 0xff;
        let byte = if nibble & 8 == 0 { byte } else { (byte >> 7) * 0xff };
        result | byte << (8 * place)
    })
}

/// The function of three bits whose table is given.
pub(super) fn lop3(table: u8) -> Ternary {
    three(move |a, b, c| {
        (0..8).filter(|row| table >> row & 1 == 1).fold(0, |result, row| {
            let pick = |value: u64, bit: u8| if row & bit != 0 { value } else { !value };
            result | (pick(a, 4) & pick(b, 2) & pick(c, 1))
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(f: &Binary, a: u64, b: u64) -> u64 {
        f(&[a; 32], &[b; 32])[0]
    }

    #[test]
    fn integers_wrap_at_their_own_width() {
        let add = binary(Op::Add, Scalar::U32).unwrap();
        assert_eq!(call(&add, 0xffff_ffff, 2), 1);
        let high = high(Scalar::U32).unwrap();
        assert_eq!(call(&high, 0xffff_ffff, 0xffff_ffff), 0xffff_fffe);
        let wide = wide(Scalar::S32).unwrap();
        assert_eq!(call(&wide, 0xffff_ffff, 5), -5_i64 as u64);
        let right = right(Scalar::S32).unwrap();
        assert_eq!(call(&right, 0x8000_0000, 40) as u32, u32::MAX);
        let left = left(Scalar::U32).unwrap();
        assert_eq!(call(&left, 1, 32), 0);
    }

    #[test]
    fn bytes_and_bits_are_chosen_by_their_tables() {
        assert_eq!(permute(0x3322_1100, 0x7766_5544, 0x7531), 0x7755_3311);
        assert_eq!(permute(0x80, 0, 0x1118), 0xff);
        let xor3 = lop3(0x96);
        assert_eq!(xor3(&[0b1100; 32], &[0b1010; 32], &[0b1111; 32])[0] & 0xf, 0b1001);
    }
}
