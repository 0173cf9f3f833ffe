//! Conversions and packing.

use crate::inst::Inst;
use crate::modifier::{Rounding, Saturation};
use crate::operand::{Def, DefVector, Use, UseVector};
use crate::target::{Architecture, Float8};
use crate::types::{B16, B32, B64, F32, S32, S64, Scalar, Type, U16, U32, U64};

use super::{Kernel, Reg, Src};

/// A 16-bit float.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Half {
    /// Half precision.
    F16,
    /// The upper half of single precision.
    BF16,
}

impl Half {
    const fn one(self) -> Scalar {
        match self {
            Half::F16 => Scalar::F16,
            Half::BF16 => Scalar::BF16,
        }
    }

    const fn pair(self) -> Scalar {
        match self {
            Half::F16 => Scalar::F16x2,
            Half::BF16 => Scalar::BF16x2,
        }
    }
}

/// An 8-bit float, two of them in 16 bits.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Packed8 {
    /// 4 bits of exponent, 3 of fraction.
    E4M3,
    /// 5 bits of exponent, 2 of fraction.
    E5M2,
}

impl Packed8 {
    const fn pair(self) -> Scalar {
        match self {
            Packed8::E4M3 => Scalar::E4M3x2,
            Packed8::E5M2 => Scalar::E5M2x2,
        }
    }
}

impl<'k, A: Architecture> Kernel<'k, A> {
    /// Any conversion between the types of two registers.
    pub fn convert<T: Type, U: Type>(
        self,
        rounding: Rounding,
        saturation: Saturation,
        value: impl Into<Src<'k, T>>,
    ) -> Reg<'k, U> {
        self.convert_as(rounding, saturation, U::SCALAR, T::SCALAR, value.into())
    }

    fn convert_as<T: Type, U: Type>(
        self,
        rounding: Rounding,
        saturation: Saturation,
        to: Scalar,
        from: Scalar,
        value: Src<'k, T>,
    ) -> Reg<'k, U> {
        let d = self.code.fresh::<U>();
        let (d_slot, a) = (d.def(), value.use_());
        self.code.push(Inst::Convert { rounding, saturation, to, from, d: d_slot, a });
        d
    }

    fn convert_pair<U: Type>(
        self,
        saturation: Saturation,
        to: Scalar,
        low: Src<'k, F32>,
        high: Src<'k, F32>,
    ) -> Reg<'k, U> {
        let d = self.code.fresh::<U>();
        let (rounding, from) = (Rounding::Nearest, Scalar::F32);
        let (d_slot, a, b) = (d.def(), high.use_(), low.use_());
        self.code.push(Inst::ConvertPair { rounding, saturation, to, from, d: d_slot, a, b });
        d
    }

    /// Zero-extension to 64 bits.
    pub fn widen(self, value: impl Into<Src<'k, U32>>) -> Reg<'k, U64> {
        self.convert(Rounding::None, Saturation::None, value)
    }

    /// Zero-extension from 16 to 32 bits.
    pub fn widen_u16(self, value: impl Into<Src<'k, U16>>) -> Reg<'k, U32> {
        self.convert(Rounding::None, Saturation::None, value)
    }

    /// The lower 32 bits.
    pub fn truncate(self, value: impl Into<Src<'k, U64>>) -> Reg<'k, U32> {
        self.convert(Rounding::None, Saturation::None, value)
    }

    /// The lower 16 bits.
    pub fn truncate_u16(self, value: impl Into<Src<'k, U32>>) -> Reg<'k, U16> {
        self.convert(Rounding::None, Saturation::None, value)
    }

    /// The nearest float of an integer.
    pub fn float_of_s32(self, value: impl Into<Src<'k, S32>>) -> Reg<'k, F32> {
        self.convert(Rounding::Nearest, Saturation::None, value)
    }

    /// The nearest float of an integer without a sign.
    pub fn float_of_u32(self, value: impl Into<Src<'k, U32>>) -> Reg<'k, F32> {
        self.convert(Rounding::Nearest, Saturation::None, value)
    }

    /// The nearest integer, ties to even; out of range the limit, NaN 0.
    pub fn nearest_s32(self, value: impl Into<Src<'k, F32>>) -> Reg<'k, S32> {
        self.convert(Rounding::NearestWhole, Saturation::None, value)
    }

    /// The 32-bit integer that is nearest to one of 64 bits.
    pub fn nearest_s32_of_s64(self, value: impl Into<Src<'k, S64>>) -> Reg<'k, S32> {
        self.convert(Rounding::None, Saturation::Range, value)
    }

    /// The nearest 8-bit integer in 32 bits, ties to even; out of range the limit.
    pub fn nearest_s8(self, value: impl Into<Src<'k, F32>>) -> Reg<'k, S32> {
        let (rounding, saturation) = (Rounding::NearestWhole, Saturation::Range);
        self.convert_as(rounding, saturation, Scalar::S8, Scalar::F32, value.into())
    }

    /// The nearest 8-bit integer without a sign in 32 bits, ties to even; out of range the limit.
    pub fn nearest_u8(self, value: impl Into<Src<'k, F32>>) -> Reg<'k, U32> {
        let (rounding, saturation) = (Rounding::NearestWhole, Saturation::Range);
        self.convert_as(rounding, saturation, Scalar::U8, Scalar::F32, value.into())
    }

    /// A float rounded to a whole number, still a float.
    pub fn whole(self, rounding: Rounding, value: impl Into<Src<'k, F32>>) -> Reg<'k, F32> {
        self.convert(rounding, Saturation::None, value)
    }

    /// Two floats rounded to nearest, packed: `low` in the lower half.
    pub fn pack_halves(
        self,
        half: Half,
        low: impl Into<Src<'k, F32>>,
        high: impl Into<Src<'k, F32>>,
    ) -> Reg<'k, B32> {
        self.convert_pair(Saturation::None, half.pair(), low.into(), high.into())
    }

    /// A float rounded to nearest.
    pub fn half_of_f32(self, half: Half, value: impl Into<Src<'k, F32>>) -> Reg<'k, B16> {
        let (rounding, saturation) = (Rounding::Nearest, Saturation::None);
        self.convert_as(rounding, saturation, half.one(), Scalar::F32, value.into())
    }

    /// The float of a half, exactly.
    pub fn f32_of_half(self, half: Half, value: Reg<'k, B16>) -> Reg<'k, F32> {
        match half {
            Half::F16 => self.convert_as(
                Rounding::None,
                Saturation::None,
                Scalar::F32,
                Scalar::F16,
                value.into(),
            ),
            // Single precision with the lower half zero: this needs no conversion on any target.
            Half::BF16 => {
                let zero = self.imm::<B16>(0_u16);
                self.bits_to_f32(self.pack16(zero, value))
            }
        }
    }

    /// The lower and upper half of a packed pair as floats, exactly.
    pub fn unpack_halves(self, half: Half, pair: Reg<'k, B32>) -> [Reg<'k, F32>; 2] {
        match half {
            Half::F16 => self.unpack16(pair).map(|each| self.f32_of_half(half, each)),
            Half::BF16 => {
                let low = pair.cast::<U32>() << 16;
                let high = pair & 0xffff_0000;
                [self.bits_to_f32(low.cast()), self.bits_to_f32(high)]
            }
        }
    }

    /// A float rounded to 10 bits of fraction, ties away from zero, as its bits.
    pub fn tf32(self, value: impl Into<Src<'k, F32>>) -> Reg<'k, B32> {
        let (rounding, saturation) = (Rounding::NearestAway, Saturation::None);
        self.convert_as(rounding, saturation, Scalar::TF32, Scalar::F32, value.into())
    }

    /// The float with these bits.
    pub fn bits_to_f32(self, bits: Reg<'k, B32>) -> Reg<'k, F32> {
        let d = self.code.fresh::<F32>();
        self.code.push(Inst::Mov { ty: Scalar::B32, d: d.def(), a: Use(bits.operand()) });
        d
    }

    /// The bits of a float.
    pub fn f32_to_bits(self, value: Reg<'k, F32>) -> Reg<'k, B32> {
        let d = self.code.fresh::<B32>();
        self.code.push(Inst::Mov { ty: Scalar::B32, d: d.def(), a: Use(value.operand()) });
        d
    }

    /// Two of 16 bits in one of 32.
    pub fn pack16(self, low: Reg<'k, B16>, high: Reg<'k, B16>) -> Reg<'k, B32> {
        self.pack(low, high)
    }

    /// Two of 32 bits in one of 64.
    pub fn pack32(self, low: Reg<'k, B32>, high: Reg<'k, B32>) -> Reg<'k, B64> {
        self.pack(low, high)
    }

    fn pack<T: Type, U: Type>(self, low: Reg<'k, T>, high: Reg<'k, T>) -> Reg<'k, U> {
        let d = self.code.fresh::<U>();
        let a = UseVector(vec![low.register(), high.register()]);
        self.code.push(Inst::Pack { ty: U::BITS, d: d.def(), a });
        d
    }

    /// The lower and the upper 16 bits.
    pub fn unpack16(self, pair: Reg<'k, B32>) -> [Reg<'k, B16>; 2] {
        self.unpack(pair)
    }

    /// The lower and the upper 32 bits.
    pub fn unpack32(self, pair: Reg<'k, B64>) -> [Reg<'k, B32>; 2] {
        self.unpack(pair)
    }

    fn unpack<T: Type, U: Type>(self, pair: Reg<'k, T>) -> [Reg<'k, U>; 2] {
        let parts = [self.code.fresh::<U>(), self.code.fresh::<U>()];
        let d = DefVector(parts.iter().map(|each| each.register()).collect());
        self.code.push(Inst::Unpack { ty: T::BITS, d, a: Use(pair.operand()) });
        parts
    }
}

impl<'k, A: Float8> Kernel<'k, A> {
    /// Two floats rounded to nearest and limited to finite values, packed: `low` in the lower byte.
    pub fn pack_float8(
        self,
        format: Packed8,
        low: impl Into<Src<'k, F32>>,
        high: impl Into<Src<'k, F32>>,
    ) -> Reg<'k, B16> {
        self.convert_pair(Saturation::Finite, format.pair(), low.into(), high.into())
    }

    /// Two 8-bit floats as a pair of half precision, exactly.
    pub fn unpack_float8(self, format: Packed8, pair: Reg<'k, B16>) -> Reg<'k, B32> {
        let d = self.code.fresh::<B32>();
        self.code.push(Inst::Convert {
            rounding: Rounding::Nearest,
            saturation: Saturation::None,
            to: Scalar::F16x2,
            from: format.pair(),
            d: Def(d.register()),
            a: Use(pair.operand()),
        });
        d
    }
}
