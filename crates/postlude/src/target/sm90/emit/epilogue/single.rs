//! Stores of single values: vectors, scalars, and values of groups of columns.

use postlude_ptx::kernel::{Half, Kernel, Packed8, Reg};
use postlude_ptx::types::{Pred, Scalar, U16, U32};

use super::super::chip::EpilogueChip;
use crate::dtype::DType;
use crate::graph::Output;
use crate::target::sm90::emit::batch::Coordinate;
use crate::target::sm90::emit::memory::{Location, Memory};
use crate::target::sm90::emit::values::{Value, scale_code};

/// Whether a column or row is the first of its run.
pub(super) fn begins_run(column: Reg<'_, U32>, run: u32) -> Reg<'_, Pred> {
    (column / run * run).eq(column)
}

/// Stores an output's value at a place of the product, where it is inside: that of a run of columns at the first.
pub(super) fn store_at<'k, C: EpilogueChip>(
    k: Kernel<'k, C>,
    (output, memory, run): (&Output, &Memory<'k>, u32),
    (batch, row, column): Coordinate<'k>,
    value: Value<'k>,
    inside: Option<Reg<'k, Pred>>,
) {
    if run == 1 {
        let inside = memory.inside(|| column, inside);
        return store(k, output.dtype, memory.element(k, (batch, row, column)), value, inside);
    }
    let first = begins_run(column, run);
    let inside = inside.map_or(first, |inside| inside & first);
    let inside = memory.inside(|| column / run, Some(inside));
    let to = memory.element(k, (batch, row, column / run));
    store(k, output.dtype, to, value, inside);
}

/// Stores one value where it is inside.
pub(crate) fn store<'k, C: EpilogueChip>(
    k: Kernel<'k, C>,
    dtype: DType,
    to: Location<'k>,
    value: Value<'k>,
    inside: Option<Reg<'k, Pred>>,
) {
    let to = to.pointer();
    let byte = |byte: Reg<'k, U32>| k.store_global_narrow(Scalar::U8, to, byte);
    let eighth = |format| {
        let pair = k.pack_float8(format, value.float(), 0.0);
        byte(k.widen_u16(pair.cast::<U16>()));
    };
    let store = || match dtype {
        DType::F32 | DType::TF32 => k.store_global(to, [value.float()]),
        DType::F16 => k.store_global(to, [k.half_of_f32(Half::F16, value.float())]),
        DType::BF16 => k.store_global(to, [k.half_of_f32(Half::BF16, value.float())]),
        DType::F8E4M3 => eighth(Packed8::E4M3),
        DType::F8E5M2 => eighth(Packed8::E5M2),
        DType::F8E8M0 => byte(scale_code(k, value.float())),
        DType::I32 => k.store_global(to, [value.integer()]),
        DType::I8 | DType::U8 => byte(value.integer().cast()),
        DType::Bool => byte(k.imm(1).select(0, value.truth())),
        DType::B1 | DType::I4 | DType::U4 | DType::I64 => {
            panic!("compiler bug: {dtype} is no element that can be stored")
        }
    };
    match inside {
        Some(inside) => k.if_(inside, store),
        None => store(),
    }
}
