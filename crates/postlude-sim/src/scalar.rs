//! Widths of scalar types, and how narrow values fill registers.

use postlude_ptx::types::Scalar;

/// Bits in memory.
pub(crate) const fn bits(ty: Scalar) -> u32 {
    match ty {
        Scalar::U8 | Scalar::S8 | Scalar::B8 | Scalar::E4M3 | Scalar::E5M2 | Scalar::Pred => 8,
        Scalar::U16
        | Scalar::S16
        | Scalar::B16
        | Scalar::F16
        | Scalar::BF16
        | Scalar::E4M3x2
        | Scalar::E5M2x2 => 16,
        Scalar::U32
        | Scalar::S32
        | Scalar::B32
        | Scalar::F32
        | Scalar::TF32
        | Scalar::F16x2
        | Scalar::BF16x2 => 32,
        Scalar::U64 | Scalar::S64 | Scalar::B64 => 64,
    }
}

/// Bytes in memory.
pub(crate) const fn bytes(ty: Scalar) -> usize {
    bits(ty) as usize / 8
}

/// Up to 8 bytes of memory as a number.
pub(crate) fn little(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |value, byte| value << 8 | u64::from(*byte))
}

/// A value from memory as a register holds it: with its sign, where the type has one.
pub(crate) const fn extend(value: u64, ty: Scalar) -> u64 {
    match ty {
        Scalar::S8 => value as i8 as i64 as u64,
        Scalar::S16 => value as i16 as i64 as u64,
        Scalar::S32 => value as i32 as i64 as u64,
        _ => value,
    }
}
