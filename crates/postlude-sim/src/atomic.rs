//! What atomics and reducing copies make of two values.

use postlude_ptx::modifier::Reduction;
use postlude_ptx::types::Scalar;

use crate::stand_in::convert::{bf16_of, f16_of, of_bf16, of_f16};

/// The value after a reduction; nothing where the type has no such reduction.
pub(crate) fn combine(reduction: Reduction, ty: Scalar, held: u64, a: u64) -> Option<u64> {
    match reduction {
        Reduction::Exchange => return Some(a),
        Reduction::And => return Some(held & a),
        Reduction::Or => return Some(held | a),
        Reduction::Xor => return Some(held ^ a),
        Reduction::Increment => {
            let (held, a) = (held as u32, a as u32);
            let value = if held >= a { 0 } else { held + 1 };
            return (ty == Scalar::U32).then_some(value.into());
        }
        Reduction::Decrement => {
            let (held, a) = (held as u32, a as u32);
            let value = if held == 0 || held > a { a } else { held - 1 };
            return (ty == Scalar::U32).then_some(value.into());
        }
        Reduction::Add | Reduction::Min | Reduction::Max => {}
    }
    macro_rules! integer {
        ($int:ty) => {{
            let (held, a) = (held as $int, a as $int);
            Some(match reduction {
                Reduction::Min => held.min(a) as u64,
                Reduction::Max => held.max(a) as u64,
                _ => held.wrapping_add(a) as u64,
            })
        }};
    }
    match ty {
        Scalar::U32 | Scalar::B32 => integer!(u32),
        Scalar::S32 => integer!(i32),
        Scalar::U64 | Scalar::B64 => integer!(u64),
        Scalar::S64 => integer!(i64),
        Scalar::F32 => {
            let (held, a) = (f32::from_bits(held as u32), f32::from_bits(a as u32));
            Some(float(reduction, held, a).to_bits().into())
        }
        Scalar::F16 => Some(f16_of(float(reduction, of_f16(held as u16), of_f16(a as u16))).into()),
        Scalar::BF16 => {
            Some(bf16_of(float(reduction, of_bf16(held as u16), of_bf16(a as u16))).into())
        }
        Scalar::F16x2 | Scalar::BF16x2 => {
            let one = if ty == Scalar::F16x2 { Scalar::F16 } else { Scalar::BF16 };
            let low = combine(reduction, one, held & 0xffff, a & 0xffff)?;
            let high = combine(reduction, one, held >> 16 & 0xffff, a >> 16 & 0xffff)?;
            Some(low | high << 16)
        }
        Scalar::U8
        | Scalar::U16
        | Scalar::S8
        | Scalar::S16
        | Scalar::B8
        | Scalar::B16
        | Scalar::TF32
        | Scalar::E4M3
        | Scalar::E5M2
        | Scalar::E4M3x2
        | Scalar::E5M2x2
        | Scalar::Pred => None,
    }
}

fn float(reduction: Reduction, held: f32, a: f32) -> f32 {
    match reduction {
        Reduction::Min => held.min(a),
        Reduction::Max => held.max(a),
        Reduction::Add
        | Reduction::And
        | Reduction::Or
        | Reduction::Xor
        | Reduction::Exchange
        | Reduction::Increment
        | Reduction::Decrement => held + a,
    }
}
