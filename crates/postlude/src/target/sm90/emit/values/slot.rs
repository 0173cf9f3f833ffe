//! Elements of tile operands as slots hold them: pairs of bytes, and words of 32 bits.

use postlude_ptx::kernel::{Half, Kernel, Packed8, Reg};
use postlude_ptx::modifier::Compare;
use postlude_ptx::types::{B16, B32, F32, U32};

use crate::dtype::{DType, TF32_BITS};
use crate::target::sm90::emit::chip::EpilogueChip;

use super::scale::scale_value;
use super::value::Value;

/// Selectors of `prmt` that extend the first and the second byte by their sign.
const SIGNED: [u32; 2] = [0x8880, 0x9991];

/// Two neighbours of 8 bits, the first in the lowest byte and nothing above the second.
pub(crate) fn byte_values<'k, C: EpilogueChip>(
    k: Kernel<'k, C>,
    dtype: DType,
    pair: Reg<'k, U32>,
) -> [Value<'k>; 2] {
    let bytes = || [pair & 0xff, pair >> 8];
    let eighths = |format| {
        let bits = k.truncate_u16(pair).cast::<B16>();
        k.unpack_halves(Half::F16, k.unpack_float8(format, bits)).map(Value::Float)
    };
    match dtype {
        DType::F8E4M3 => eighths(Packed8::E4M3),
        DType::F8E5M2 => eighths(Packed8::E5M2),
        DType::F8E8M0 => bytes().map(|code| Value::Float(scale_value(k, code))),
        DType::I8 => {
            let both = pair.cast::<B32>();
            SIGNED.map(|selector| Value::Integer(both.permute(both, selector).cast()))
        }
        DType::U8 => bytes().map(|byte| Value::Integer(byte.cast())),
        DType::Bool => bytes().map(|byte| Value::Truth(byte.ne(0))),
        DType::F32
        | DType::TF32
        | DType::F16
        | DType::BF16
        | DType::I32
        | DType::I64
        | DType::I4
        | DType::U4
        | DType::B1 => {
            panic!("compiler bug: bytes of {dtype}")
        }
    }
}

/// An element of 32 bits.
pub(crate) fn word_value<'k, C: EpilogueChip>(
    k: Kernel<'k, C>,
    dtype: DType,
    word: Reg<'k, F32>,
) -> Value<'k> {
    match dtype {
        DType::F32 => Value::Float(word),
        DType::TF32 => Value::Float(tf32_value(k, word)),
        DType::I32 => Value::Integer(k.f32_to_bits(word).cast()),
        DType::F16
        | DType::BF16
        | DType::F8E4M3
        | DType::F8E5M2
        | DType::F8E8M0
        | DType::I8
        | DType::U8
        | DType::I64
        | DType::Bool
        | DType::I4
        | DType::U4
        | DType::B1 => panic!("compiler bug: words of {dtype}"),
    }
}

/// What is read of a float as tf32: its low bits are nothing, but those of a nan.
pub(crate) fn tf32_value<'k, C: EpilogueChip>(
    k: Kernel<'k, C>,
    value: Reg<'k, F32>,
) -> Reg<'k, F32> {
    let read = k.f32_to_bits(value).cast::<U32>() & TF32_BITS;
    let number = value.compare(Compare::Eq, value);
    k.bits_to_f32(read.cast()).select(value, number)
}
