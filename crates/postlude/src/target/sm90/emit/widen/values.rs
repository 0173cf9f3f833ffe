//! What the elements of a lane share: scales and zero points, loaded a stage before they are used.

use postlude_ptx::kernel::{GlobalPointer, Half, Kernel, Packed8, Reg, Var};
use postlude_ptx::modifier::LoadCache;
use postlude_ptx::target::Sm90a;
use postlude_ptx::types::{B16, B32, Pred, S32, Scalar, U32, U64};

use crate::dtype::{DType, Elem};
use crate::target::sm90::emit::batch::Batch;
use crate::target::sm90::emit::memory::Location;
use crate::target::sm90::emit::shared_values::{SharedGiven, SharedValue, SharedValues};
use crate::target::sm90::emit::values::{Value, run_of_row, scale_value, tf32_value};

/// Bits of a line of L2.
const LINE_BITS: u32 = 1024;

/// Where an input's values of a row begin.
#[derive(Clone, Copy)]
pub(crate) struct RowBase<'k>(Option<Location<'k>>);

/// The bits of an input that was loaded, and where they begin in their byte.
pub(crate) struct Pending<'k> {
    bits: Option<Var<'k, B32>>,
    shift: Option<Var<'k, U32>>,
    /// Where they were loaded from: an address, or bits behind the start.
    at: Option<Var<'k, U64>>,
}

/// Where the values of a row begin, each in its batch.
pub(crate) fn rows<'k>(
    values: &SharedValues<'k>,
    k: Kernel<'k, Sm90a>,
    batch: impl Fn(usize) -> Batch<'k>,
    row: Reg<'k, U32>,
) -> Vec<RowBase<'k>> {
    let base = |(place, shared): (usize, &Option<SharedValue<'k>>)| {
        let given = shared.as_ref().map(|it| &it.given);
        let Some(SharedGiven::Memory { memory, rows, .. }) = given else { return RowBase(None) };
        let row = run_of_row(row, *rows);
        RowBase(Some(memory.element(k, (batch(place), row, k.imm(0)))))
    };
    values.0.iter().enumerate().map(base).collect()
}

/// Loads the values of a row at an element of the contraction.
pub(crate) fn load<'k>(
    values: &SharedValues<'k>,
    k: Kernel<'k, Sm90a>,
    bases: &[RowBase<'k>],
    depth: Reg<'k, U32>,
) -> Vec<Pending<'k>> {
    let load = |(shared, base): (&Option<SharedValue<'k>>, &RowBase<'k>)| {
        let at = shared.as_ref().and_then(|shared| shared.location(k, *base, depth));
        let loaded = shared.as_ref().zip(at).map(|(shared, at)| shared.fetch(k, at));
        Pending {
            bits: loaded.map(|(bits, _)| k.var(bits)),
            shift: loaded.and_then(|(_, shift)| shift).map(|shift| k.var(shift)),
            at: at.map(|at| match at {
                Location::Bytes(pointer) => k.var(pointer.register()),
                Location::Bit { index, .. } => k.var(index),
            }),
        }
    };
    values.0.iter().zip(bases).map(load).collect()
}

/// Loads the values of a row that lie this many elements of the contraction on, whole runs of them all, or the same again.
pub(crate) fn advance<'k>(
    values: &SharedValues<'k>,
    k: Kernel<'k, Sm90a>,
    bases: &[RowBase<'k>],
    pending: &[Pending<'k>],
    (elements, exist): (u32, Reg<'k, Pred>),
) {
    for ((shared, base), pending) in values.0.iter().zip(bases).zip(pending) {
        let (Some(shared), Some(at)) = (shared, pending.at) else { continue };
        let Some(stride) = shared.stride(elements) else { continue };
        at.set(at.get() + stride.select(0, exist));
        pending.set(shared.fetch(k, base.at(at.get())));
    }
}

/// Loads the values of a row that lie this many elements of the contraction behind the elements that others were loaded from.
pub(crate) fn load_behind<'k>(
    values: &SharedValues<'k>,
    k: Kernel<'k, Sm90a>,
    bases: &[RowBase<'k>],
    (pending, others): (&[Pending<'k>], &[Pending<'k>]),
    elements: u32,
) {
    let both = pending.iter().zip(others);
    for ((shared, base), (pending, other)) in values.0.iter().zip(bases).zip(both) {
        let (Some(shared), Some(at)) = (shared, other.at) else { continue };
        let Some(stride) = shared.stride(elements) else { continue };
        pending.set(shared.fetch(k, base.at(at.get() + stride)));
    }
}

/// Brings the values of a row of these elements of the contraction into L2.
pub(crate) fn prefetch<'k>(
    values: &SharedValues<'k>,
    k: Kernel<'k, Sm90a>,
    bases: &[RowBase<'k>],
    [begin, end]: [Reg<'k, U32>; 2],
) {
    for (shared, base) in values.0.iter().zip(bases) {
        let Some(shared) = shared else { continue };
        let SharedGiven::Memory { run: Some(run), .. } = shared.given else { continue };
        let line = LINE_BITS / shared.dtype.bits() as u32 * run;
        k.for_(begin, end, line, |depth| {
            let pointer = match shared.location(k, *base, depth) {
                Some(Location::Bytes(pointer)) => pointer,
                Some(at @ Location::Bit { .. }) => at.byte(k).0,
                None => return,
            };
            k.prefetch(pointer);
        });
    }
}

impl<'k> Pending<'k> {
    fn set(&self, (bits, shift): (Reg<'k, B32>, Option<Reg<'k, U32>>)) {
        if let Some(var) = self.bits {
            var.set(bits);
        }
        if let (Some(shift), Some(var)) = (shift, self.shift) {
            var.set(shift);
        }
    }
}

/// The same into what holds the values of another stage.
pub(crate) fn reload<'k>(
    values: &SharedValues<'k>,
    k: Kernel<'k, Sm90a>,
    bases: &[RowBase<'k>],
    pending: &[Pending<'k>],
    depth: Reg<'k, U32>,
) {
    for ((shared, base), pending) in values.0.iter().zip(bases).zip(pending) {
        let Some(shared) = shared else { continue };
        if let Some(at) = shared.location(k, *base, depth) {
            pending.set(shared.fetch(k, at));
        }
    }
}

/// What was loaded, as values.
pub(crate) fn take<'k>(
    values: &SharedValues<'k>,
    k: Kernel<'k, Sm90a>,
    pending: &[Pending<'k>],
) -> Vec<Option<Value<'k>>> {
    let value = |(shared, pending): (&Option<SharedValue<'k>>, &Pending<'k>)| {
        let shared = shared.as_ref()?;
        let bits = match (&shared.given, pending.bits) {
            (SharedGiven::Host(parameter), _) => k.f32_to_bits(parameter.load()),
            (SharedGiven::Memory { .. }, Some(bits)) => bits.copy(),
            (SharedGiven::Memory { .. }, None) => return None,
        };
        let is_host = matches!(shared.given, SharedGiven::Host(_));
        let shift = pending.shift.map(Var::copy);
        Some(if is_host { host(k, shared.dtype, bits) } else { shared.value(k, bits, shift) })
    };
    values.0.iter().zip(pending).map(value).collect()
}

/// A number that the host passed.
fn host<'k>(k: Kernel<'k, Sm90a>, dtype: DType, bits: Reg<'k, B32>) -> Value<'k> {
    match dtype.elem() {
        Elem::F32 => Value::Float(k.bits_to_f32(bits)),
        Elem::I32 | Elem::Bool => Value::Integer(bits.cast()),
    }
}

impl<'k> RowBase<'k> {
    /// A place of its row: an address, or bits behind the start.
    fn at(self, at: Reg<'k, U64>) -> Location<'k> {
        match self.0 {
            Some(Location::Bit { start, .. }) => Location::Bit { start, index: at },
            Some(Location::Bytes(_)) | None => Location::Bytes(GlobalPointer::from_register(at)),
        }
    }
}

impl<'k> SharedValue<'k> {
    /// How far as many elements of the contraction are apart; `None` where it does not vary along them.
    fn stride(&self, elements: u32) -> Option<Reg<'k, U64>> {
        let SharedGiven::Memory { memory, run: Some(run), .. } = &self.given else { return None };
        Some(memory.column_stride() * u64::from(elements / run))
    }

    /// Where it lies at an element of the contraction.
    fn location(
        &self,
        k: Kernel<'k, Sm90a>,
        RowBase(base): RowBase<'k>,
        depth: Reg<'k, U32>,
    ) -> Option<Location<'k>> {
        let (SharedGiven::Memory { memory, run, .. }, Some(base)) = (&self.given, base) else {
            return None;
        };
        let along = run.map(|run| k.widen(run_of_row(depth, run)) * memory.column_stride());
        Some(match (base, along) {
            (Location::Bytes(pointer), Some(along)) => Location::Bytes(pointer + along),
            (Location::Bit { start, index }, Some(along)) => {
                Location::Bit { start, index: index + along }
            }
            (base, None) => base,
        })
    }

    /// Its bits there, and where they begin in their byte.
    fn fetch(
        &self,
        k: Kernel<'k, Sm90a>,
        at: Location<'k>,
    ) -> (Reg<'k, B32>, Option<Reg<'k, U32>>) {
        if self.dtype.is_packed() {
            let (pointer, bit) = at.byte(k);
            let byte = k.load_global_narrow(Scalar::U8, pointer, LoadCache::ReadOnly);
            return (byte.cast(), Some(bit));
        }
        let pointer = at.pointer();
        let bits = match self.dtype.bits() {
            32 => {
                let [word] = k.load_global::<B32, 1>(pointer, LoadCache::ReadOnly);
                word
            }
            16 => k.load_global_narrow(Scalar::U16, pointer, LoadCache::ReadOnly).cast(),
            _ => k.load_global_narrow(Scalar::U8, pointer, LoadCache::ReadOnly).cast(),
        };
        (bits, None)
    }

    /// The value of its bits.
    fn value(
        &self,
        k: Kernel<'k, Sm90a>,
        bits: Reg<'k, B32>,
        shift: Option<Reg<'k, U32>>,
    ) -> Value<'k> {
        let number = bits.cast::<U32>();
        let sixteen = || k.truncate_u16(number).cast::<B16>();
        let half = |half| Value::Float(k.f32_of_half(half, sixteen()));
        let eighth = |format| {
            let [low, _] = k.unpack_halves(Half::F16, k.unpack_float8(format, sixteen()));
            Value::Float(low)
        };
        // A shift to the left and back spreads the sign.
        let signed = |number: Reg<'k, U32>, above: u32| {
            Value::Integer((number << above).cast::<S32>() >> above)
        };
        let within = || shift.map_or(number, |shift| number >> shift);
        match self.dtype {
            DType::F32 => Value::Float(k.bits_to_f32(bits)),
            DType::TF32 => Value::Float(tf32_value(k, k.bits_to_f32(bits))),
            DType::F16 => half(Half::F16),
            DType::BF16 => half(Half::BF16),
            DType::F8E4M3 => eighth(Packed8::E4M3),
            DType::F8E5M2 => eighth(Packed8::E5M2),
            DType::F8E8M0 => Value::Float(scale_value(k, number)),
            DType::I32 | DType::U8 => Value::Integer(bits.cast()),
            DType::I8 => signed(number, 24),
            DType::U4 => Value::Integer((within() & 15).cast()),
            DType::I4 => signed(within(), 28),
            DType::I64 | DType::Bool | DType::B1 => {
                panic!("compiler bug: {} is not shared", self.dtype)
            }
        }
    }
}
