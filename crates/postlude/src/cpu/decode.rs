//! Stored elements as f32, in bulk.
//!
//! In: the bytes of one element of a type a product may read. Out: its value.
//! Invariant: exact, for every bit pattern; a NaN stays a NaN.
//!
//! Written without branches so that a loop over them is vectorised, which the general conversions are not.

use crate::dtype;

/// How one element type is read.
pub(super) trait Decode {
    /// The bytes of one element.
    type Bytes: Copy + for<'a> TryFrom<&'a [u8]>;
    /// Bytes in one element.
    const SIZE: usize;
    /// Whether the bytes are those of an f32 on this machine.
    const IS_F32: bool = false;
    /// The value.
    fn decode(bytes: Self::Bytes) -> f32;
}

/// IEEE single precision.
pub(super) struct F32;
/// A single without the last bits of its fraction.
pub(super) struct TF32;
/// IEEE half precision.
pub(super) struct F16;
/// The upper half of a single.
pub(super) struct BF16;
/// Eight bits, four of exponent.
pub(super) struct F8E4M3;
/// Eight bits, five of exponent.
pub(super) struct F8E5M2;
/// Signed byte.
pub(super) struct I8;
/// Unsigned byte.
pub(super) struct U8;

impl Decode for F32 {
    type Bytes = [u8; 4];
    const SIZE: usize = 4;
    const IS_F32: bool = cfg!(target_endian = "little");

    #[inline(always)]
    fn decode(bytes: [u8; 4]) -> f32 {
        f32::from_le_bytes(bytes)
    }
}

impl Decode for TF32 {
    type Bytes = [u8; 4];
    const SIZE: usize = 4;

    #[inline(always)]
    fn decode(bytes: [u8; 4]) -> f32 {
        dtype::truncate_tf32(f32::from_le_bytes(bytes))
    }
}

impl Decode for F16 {
    type Bytes = [u8; 2];
    const SIZE: usize = 2;

    #[inline(always)]
    fn decode(bytes: [u8; 2]) -> f32 {
        half_to_single(u16::from_le_bytes(bytes))
    }
}

impl Decode for BF16 {
    type Bytes = [u8; 2];
    const SIZE: usize = 2;

    #[inline(always)]
    fn decode(bytes: [u8; 2]) -> f32 {
        f32::from_bits(u32::from(u16::from_le_bytes(bytes)) << 16)
    }
}

impl Decode for F8E4M3 {
    type Bytes = [u8; 1];
    const SIZE: usize = 1;

    #[inline(always)]
    fn decode(bytes: [u8; 1]) -> f32 {
        E4M3_VALUES[bytes[0] as usize]
    }
}

impl Decode for F8E5M2 {
    type Bytes = [u8; 1];
    const SIZE: usize = 1;

    #[inline(always)]
    fn decode(bytes: [u8; 1]) -> f32 {
        // The upper byte of a half.
        half_to_single(u16::from(bytes[0]) << 8)
    }
}

impl Decode for I8 {
    type Bytes = [u8; 1];
    const SIZE: usize = 1;

    #[inline(always)]
    fn decode(bytes: [u8; 1]) -> f32 {
        f32::from(bytes[0] as i8)
    }
}

impl Decode for U8 {
    type Bytes = [u8; 1];
    const SIZE: usize = 1;

    #[inline(always)]
    fn decode(bytes: [u8; 1]) -> f32 {
        f32::from(bytes[0])
    }
}

/// Shifts the fields into place and corrects the exponent's bias by an exact product, which also normalises
/// subnormals; then puts infinities and NaNs back to the largest exponent.
#[inline(always)]
fn half_to_single(half: u16) -> f32 {
    const BIAS: f32 = f32::from_bits((127 + 127 - 15) << 23);
    let bits = u32::from(half);
    let magnitude = f32::from_bits((bits & 0x7fff) << 13) * BIAS;
    let special = if bits & 0x7c00 == 0x7c00 { 0x7f80_0000 } else { 0 };
    f32::from_bits(magnitude.to_bits() | special | (bits & 0x8000) << 16)
}

/// The value of every byte as f8e4m3: bias 7, no infinities, one NaN of each sign.
static E4M3_VALUES: [f32; 256] = {
    let mut values = [0.0; 256];
    let mut byte = 0;
    while byte < 256 {
        let (exponent, mantissa) = ((byte as u32 >> 3) & 15, byte as u32 & 7);
        let magnitude = if exponent == 15 && mantissa == 7 {
            f32::NAN
        } else if exponent == 0 {
            mantissa as f32 / 512.0
        } else {
            f32::from_bits((exponent + 127 - 7) << 23 | mantissa << 20)
        };
        values[byte] = if byte < 128 { magnitude } else { -magnitude };
        byte += 1;
    }
    values
};

/// Calls `$function::<D>` with the decoder of `$dtype`, which a product may read.
macro_rules! with_decoder {
    ($dtype:expr, $function:ident, ($($argument:expr),*)) => {
        match $dtype {
            DType::F32 => $function::<decode::F32>($($argument),*),
            DType::TF32 => $function::<decode::TF32>($($argument),*),
            DType::F16 => $function::<decode::F16>($($argument),*),
            DType::BF16 => $function::<decode::BF16>($($argument),*),
            DType::F8E4M3 => $function::<decode::F8E4M3>($($argument),*),
            DType::F8E5M2 => $function::<decode::F8E5M2>($($argument),*),
            DType::I8 => $function::<decode::I8>($($argument),*),
            DType::U8 => $function::<decode::U8>($($argument),*),
            DType::F8E8M0 | DType::I32 | DType::I64 | DType::Bool | DType::B1 | DType::I4 | DType::U4 => panic!("compiler bug: {} is no operand of a product", $dtype),
        }
    };
}
pub(super) use with_decoder;

/// The value of one element.
#[inline(always)]
pub(super) fn decode_one<D: Decode>(bytes: &[u8]) -> f32 {
    let Ok(bytes) = D::Bytes::try_from(bytes) else {
        panic!("compiler bug: an element of the wrong size")
    };
    D::decode(bytes)
}

/// Decodes one element of `dtype`.
#[cfg(test)]
pub(super) fn decode_as(dtype: crate::dtype::DType, bytes: &[u8]) -> f32 {
    use super::decode;
    use crate::dtype::DType;
    with_decoder!(dtype, decode_one, (bytes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dtype::DType;

    fn same(left: f32, right: f32) -> bool {
        left.to_bits() == right.to_bits() || left.is_nan() && right.is_nan()
    }

    #[test]
    fn every_half_is_decoded_exactly() {
        for bits in 0..=u16::MAX {
            let bytes = bits.to_le_bytes();
            assert!(
                same(decode_as(DType::F16, &bytes), half::f16::from_bits(bits).to_f32()),
                "f16 {bits:#x}"
            );
            assert!(
                same(decode_as(DType::BF16, &bytes), half::bf16::from_bits(bits).to_f32()),
                "bf16 {bits:#x}"
            );
        }
    }

    #[test]
    fn every_byte_float_is_decoded_exactly() {
        for byte in 0..=u8::MAX {
            let sign = if byte < 128 { 1.0 } else { -1.0 };
            let (exponent, mantissa) = (i32::from(byte >> 3 & 15), f64::from(byte & 7));
            let e4m3 = match (exponent, byte & 7) {
                (15, 7) => f64::NAN,
                (0, _) => mantissa / 8.0 * 2f64.powi(-6),
                (_, _) => (1.0 + mantissa / 8.0) * 2f64.powi(exponent - 7),
            };
            assert!(
                same(decode_as(DType::F8E4M3, &[byte]), (sign * e4m3) as f32),
                "f8e4m3 {byte:#x}"
            );
            let (exponent, mantissa) = (i32::from(byte >> 2 & 31), f64::from(byte & 3));
            let e5m2 = match (exponent, byte & 3) {
                (31, 0) => f64::INFINITY,
                (31, _) => f64::NAN,
                (0, _) => mantissa / 4.0 * 2f64.powi(-14),
                (_, _) => (1.0 + mantissa / 4.0) * 2f64.powi(exponent - 15),
            };
            assert!(
                same(decode_as(DType::F8E5M2, &[byte]), (sign * e5m2) as f32),
                "f8e5m2 {byte:#x}"
            );
        }
    }
}
