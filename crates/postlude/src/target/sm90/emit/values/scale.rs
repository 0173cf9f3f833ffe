//! Scales (`f8e8m0`): powers of two as eight bits of exponent, which no instruction of this chip converts.
//!
//! In: a float or a code. Out: the code of the nearest power of two, or the code's value, as `dtype/scale` defines them.

use postlude_ptx::kernel::{Kernel, Reg};
use postlude_ptx::modifier::Compare;
use postlude_ptx::types::{B32, F32, S32, U32};

use crate::target::sm90::emit::chip::EpilogueChip;

/// The code nearest to a float.
pub(crate) fn scale_code<'k, C: EpilogueChip>(
    k: Kernel<'k, C>,
    value: Reg<'k, F32>,
) -> Reg<'k, U32> {
    let bits = k.f32_to_bits(value).cast::<S32>();
    let code = ((bits + 0x0040_0000) >> 23).min(0xfe);
    // Negative numbers have negative bits, too.
    let code = k.imm::<S32>(0).select(code, bits.lt(0x0060_0000));
    let nan = value.compare(Compare::NeOrNan, value);
    k.imm::<S32>(0xff).select(code, nan).cast()
}

/// The value of a code.
pub(crate) fn scale_value<'k, C: EpilogueChip>(
    k: Kernel<'k, C>,
    code: Reg<'k, U32>,
) -> Reg<'k, F32> {
    let power = (code << 23).max(0x0040_0000);
    let bits = k.imm::<U32>(0x7fff_ffff).select(power, code.eq(0xff));
    k.bits_to_f32(bits.cast::<B32>())
}
