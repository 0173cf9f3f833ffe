//! Casts: the value that a store of the type and a load would give, rounded once, to nearest even.

use postlude_ptx::kernel::{Half, Packed8, Reg};
use postlude_ptx::modifier::{Compare, Rounding, Saturation};
use postlude_ptx::types::{B32, F32, Pred, S32, U32};

use crate::dtype::{DType, TF32_BITS};
use crate::target::sm90::emit::chip::EpilogueChip;

use super::evaluator::Evaluator;
use super::scale::{scale_code, scale_value};
use super::value::Value;

impl<'k, C: EpilogueChip> Evaluator<'_, 'k, C> {
    pub(crate) fn cast(&self, to: DType, a: Value<'k>) -> Value<'k> {
        match a {
            Value::Float(a) => self.cast_float(to, a),
            Value::Integer(a) => self.cast_integer(to, a),
            Value::Truth(a) => self.cast_truth(to, a),
        }
    }

    fn cast_float(&self, to: DType, a: Reg<'k, F32>) -> Value<'k> {
        match to {
            DType::F32
            | DType::TF32
            | DType::F16
            | DType::BF16
            | DType::F8E4M3
            | DType::F8E5M2
            | DType::F8E8M0 => Value::Float(self.rounded(to, a)),
            // Out of range the nearest end, NaN 0 (PTX ISA, "cvt").
            DType::I32 | DType::I64 => Value::Integer(self.k.nearest_s32(a)),
            DType::I8 | DType::U8 | DType::I4 | DType::U4 => {
                self.cast_integer(to, self.k.nearest_s32(a))
            }
            DType::Bool | DType::B1 => Value::Truth(a.compare(Compare::NeOrNan, 0.0)),
        }
    }

    fn cast_integer(&self, to: DType, a: Reg<'k, S32>) -> Value<'k> {
        match to {
            DType::F32 => Value::Float(self.k.float_of_s32(a)),
            DType::TF32
            | DType::F16
            | DType::BF16
            | DType::F8E4M3
            | DType::F8E5M2
            | DType::F8E8M0 => Value::Float(self.rounded(to, self.odd_float(a))),
            DType::I32 | DType::I64 => Value::Integer(a),
            DType::I8 => Value::Integer(a.max(i32::from(i8::MIN)).min(i32::from(i8::MAX))),
            DType::U8 => Value::Integer(a.max(0).min(i32::from(u8::MAX))),
            DType::I4 => Value::Integer(a.max(-8).min(7)),
            DType::U4 => Value::Integer(a.max(0).min(15)),
            DType::Bool | DType::B1 => Value::Truth(a.ne(0)),
        }
    }

    /// 0 and 1 are exact in every type but that of scales.
    fn cast_truth(&self, to: DType, a: Reg<'k, Pred>) -> Value<'k> {
        match to {
            DType::F32 | DType::TF32 | DType::F16 | DType::BF16 | DType::F8E4M3 | DType::F8E5M2 => {
                Value::Float(self.k.imm::<F32>(1.0).select(0.0, a))
            }
            DType::F8E8M0 => {
                let zero = crate::dtype::round_to(to, 0.0) as f32;
                Value::Float(self.k.imm::<F32>(1.0).select(zero, a))
            }
            DType::I8 | DType::U8 | DType::I4 | DType::U4 | DType::I32 | DType::I64 => {
                Value::Integer(self.k.imm::<S32>(1).select(0, a))
            }
            DType::Bool | DType::B1 => Value::Truth(a),
        }
    }

    /// Rounds to a type of floats and back.
    pub(crate) fn rounded(&self, to: DType, a: Reg<'k, F32>) -> Reg<'k, F32> {
        let half = || self.k.f32_of_half(Half::F16, self.k.half_of_f32(Half::F16, a));
        // The upper half of a float, above zeros: the pair is the float.
        let upper = || self.k.bits_to_f32(self.k.pack_halves(Half::BF16, 0.0, a));
        let eighth = |format| {
            let [low, _] = self.k.unpack_halves(
                Half::F16,
                self.k.unpack_float8(format, self.k.pack_float8(format, a, 0.0)),
            );
            low
        };
        match to {
            DType::F16 => half(),
            DType::BF16 => upper(),
            DType::F8E4M3 => eighth(Packed8::E4M3),
            DType::F8E5M2 => eighth(Packed8::E5M2),
            DType::F8E8M0 => scale_value(self.k, scale_code(self.k, a)),
            DType::F32 => a,
            DType::TF32 => self.rounded_tf32(a),
            DType::I8
            | DType::U8
            | DType::I4
            | DType::U4
            | DType::I32
            | DType::I64
            | DType::Bool
            | DType::B1 => {
                panic!("compiler bug: {to} is no type of floats")
            }
        }
    }

    /// The nearest with ten bits of the fraction, ties to even.
    fn rounded_tf32(&self, a: Reg<'k, F32>) -> Reg<'k, F32> {
        let bits = self.k.f32_to_bits(a).cast::<U32>();
        let nearest = (bits + ((bits >> 13) & 1) + 0xfff) & TF32_BITS;
        self.k.bits_to_f32(nearest.cast()).select(a, a.compare(Compare::Eq, a))
    }

    /// An integer as a float, rounded to odd: rounding that again, to fewer than 23 bits, is as good as rounding once.
    fn odd_float(&self, a: Reg<'k, S32>) -> Reg<'k, F32> {
        let toward_zero: Reg<'k, F32> = self.k.convert(Rounding::Zero, Saturation::None, a);
        let back: Reg<'k, S32> = self.k.convert(Rounding::ZeroWhole, Saturation::None, toward_zero);
        let sticky = self.k.imm::<B32>(1).select(0, back.ne(a));
        self.k.bits_to_f32(self.k.f32_to_bits(toward_zero) | sticky)
    }
}
