//! Inputs of every type, loaded element by element.

use postlude_ptx::kernel::{GlobalPointer, Half, NumberParameter, Packed8, Reg, Src};
use postlude_ptx::modifier::LoadCache;
use postlude_ptx::types::{B16, F32, Pred, S32, S64, Scalar, Type, U32};

use crate::dtype::{DType, Elem};
use crate::graph::{Axes, Constant, InputId, Kind, NodeId, Op};
use crate::lower::table_dims;
use crate::shape::Dim;
use crate::target::sm90::emit::chip::EpilogueChip;
use crate::target::sm90::emit::memory::Location;
use crate::target::sm90::emit::parameters::Source;

use super::evaluator::Evaluator;
use super::scale::scale_value;
use super::slot::tf32_value;
use super::value::{Place, Value};

/// The run of rows that a row is in.
pub(crate) fn run_of_row(row: Reg<'_, U32>, run: u32) -> Reg<'_, U32> {
    if run == 1 { row } else { row / run }
}

/// Where an element is, and whether it is there.
#[derive(Clone, Copy)]
struct Element<'k> {
    pointer: GlobalPointer<'k>,
    inside: Option<Reg<'k, Pred>>,
    cache: LoadCache,
}

impl<'k, C: EpilogueChip> Evaluator<'_, 'k, C> {
    pub(crate) fn input(&self, input: InputId, place: &Place<'k>) -> Value<'k> {
        let found = self.parameters.sources.iter().find(|(id, _)| *id == input);
        match found.map(|(_, source)| source) {
            Some(Source::Host(parameter)) => self.host(input, *parameter),
            Some(Source::Memory(memory)) => {
                let (batch, row, column) = place.at;
                let row = run_of_row(row, self.plan.program.input_row_run(input));
                let location = memory.element(self.k, (batch, row, column));
                // No output overlaps a vector or a scalar; one may lie where a tile does.
                let tile = self.plan.graph.input_axes(input).map(Axes::kind) == Some(Kind::Tile);
                let cache = if tile { LoadCache::Default } else { LoadCache::ReadOnly };
                self.load(memory.dtype, location, memory.inside(|| place.at.2, place.inside), cache)
            }
            Some(Source::Map(_)) | None => {
                panic!("compiler bug: input {} is not read directly", input.0)
            }
        }
    }

    /// The size of a dim.
    pub(crate) fn size(&self, dim: &Dim) -> Reg<'k, U32> {
        if let Dim::Size(size) = dim {
            return self.k.imm(*size);
        }
        let found = self.parameters.sizes.iter().find(|(known, _)| known == dim);
        found.map_or_else(
            || panic!("compiler bug: the size of `{dim}` is not passed"),
            |(_, size)| *size,
        )
    }

    /// The element of a table at an index; nan, of integers 0, out of range.
    pub(super) fn take(&self, table: InputId, index: NodeId, at: Reg<'k, S32>) -> Value<'k> {
        let found = self.parameters.sources.iter().find(|(id, _)| *id == table);
        let (Some((_, Source::Memory(memory))), [dim]) =
            (found, table_dims(self.plan.graph, table))
        else {
            panic!("compiler bug: input {} is no table", table.0)
        };
        // A tensor of one dim has one stride; the others are 0.
        let place = at.cast::<U32>();
        let location = memory.element(self.k, (self.parameters.batch_dims.at(place), place, place));
        let inside = (!self.is_within(index, dim)).then(|| place.lt(self.size(dim)));
        match (self.load(memory.dtype, location, inside, LoadCache::ReadOnly), inside) {
            (Value::Float(value), Some(inside)) => Value::Float(value.select(f32::NAN, inside)),
            (value, _) => value,
        }
    }

    /// The element of a table with two dims at two indices; nan, of integers 0, where one is out of range.
    pub(super) fn entry(&self, table: InputId, indices: [(NodeId, Reg<'k, S32>); 2]) -> Value<'k> {
        let found = self.parameters.sources.iter().find(|(id, _)| *id == table);
        let (Some((_, Source::Memory(memory))), [rows, columns]) =
            (found, table_dims(self.plan.graph, table))
        else {
            panic!("compiler bug: input {} is no table", table.0)
        };
        let [row, column] = indices.map(|(_, at)| at.cast::<U32>());
        let batch = self.parameters.batch_dims.at(self.k.imm(0));
        let location = memory.element(self.k, (batch, row, column));
        let each = [(indices[0].0, rows, row), (indices[1].0, columns, column)];
        let inside = each.into_iter().filter(|(index, dim, _)| !self.is_within(*index, dim));
        let inside = inside.map(|(_, dim, at)| at.lt(self.size(dim)));
        let inside = inside.reduce(|all, one| all & one);
        match (self.load(memory.dtype, location, inside, LoadCache::ReadOnly), inside) {
            (Value::Float(value), Some(inside)) => Value::Float(value.select(f32::NAN, inside)),
            (value, _) => value,
        }
    }

    /// Whether an index is a constant that a dim has.
    fn is_within(&self, index: NodeId, dim: &Dim) -> bool {
        match (dim, &self.plan.graph[index].op) {
            (Dim::Size(size), Op::Constant(Constant::I32(index))) => {
                u32::try_from(*index).is_ok_and(|index| index < *size)
            }
            _ => false,
        }
    }

    /// A number that the host passed, by its bits: see `host`.
    fn host(&self, input: InputId, parameter: NumberParameter<'k, F32>) -> Value<'k> {
        let value = parameter.load();
        let bits = || self.k.f32_to_bits(value).cast::<S32>();
        match self.plan.graph.inputs()[input.0 as usize].dtype.elem() {
            Elem::F32 => Value::Float(value),
            Elem::I32 => Value::Integer(bits()),
            Elem::Bool => Value::Truth(bits().ne(0)),
        }
    }

    /// Reads one element; what is not inside the problem is zero.
    pub(crate) fn load(
        &self,
        dtype: DType,
        location: Location<'k>,
        inside: Option<Reg<'k, Pred>>,
        cache: LoadCache,
    ) -> Value<'k> {
        if dtype.is_packed() {
            return self.packed(dtype, location, inside, cache);
        }
        let from = Element { pointer: location.pointer(), inside, cache };
        let half = |half| Value::Float(self.k.f32_of_half(half, self.whole::<B16>(from, 0_u16)));
        let eighth = |format| {
            let bits = self.k.truncate_u16(self.narrow(Scalar::U8, from)).cast::<B16>();
            let [low, _] = self.k.unpack_halves(Half::F16, self.k.unpack_float8(format, bits));
            Value::Float(low)
        };
        match dtype {
            DType::F32 => Value::Float(self.whole::<F32>(from, 0.0)),
            DType::TF32 => Value::Float(tf32_value(self.k, self.whole::<F32>(from, 0.0))),
            DType::F16 => half(Half::F16),
            DType::BF16 => half(Half::BF16),
            DType::F8E4M3 => eighth(Packed8::E4M3),
            DType::F8E5M2 => eighth(Packed8::E5M2),
            DType::F8E8M0 => Value::Float(scale_value(self.k, self.narrow(Scalar::U8, from))),
            DType::I8 => Value::Integer(self.narrow(Scalar::S8, from).cast()),
            DType::U8 => Value::Integer(self.narrow(Scalar::U8, from).cast()),
            DType::I32 => Value::Integer(self.whole::<S32>(from, 0)),
            DType::I64 => Value::Integer(self.k.nearest_s32_of_s64(self.whole::<S64>(from, 0_i64))),
            DType::Bool => Value::Truth(self.narrow(Scalar::U8, from).ne(0)),
            DType::B1 | DType::I4 | DType::U4 => {
                panic!("compiler bug: {dtype} is not read as whole bytes")
            }
        }
    }

    /// Two neighbours of 16 bits that are one aligned word.
    pub(crate) fn load_pair(
        &self,
        half: Half,
        location: Location<'k>,
        inside: Option<Reg<'k, Pred>>,
        cache: LoadCache,
    ) -> [Value<'k>; 2] {
        let from = Element { pointer: location.pointer(), inside, cache };
        let word = self.whole::<U32>(from, 0_u32);
        self.k.unpack_halves(half, word.cast()).map(Value::Float)
    }

    /// Reads the byte that holds an element and takes its bits.
    fn packed(
        &self,
        dtype: DType,
        location: Location<'k>,
        inside: Option<Reg<'k, Pred>>,
        cache: LoadCache,
    ) -> Value<'k> {
        let (pointer, bit) = location.byte(self.k);
        let bits = self.narrow(Scalar::U8, Element { pointer, inside, cache }) >> bit;
        match dtype {
            DType::B1 => Value::Truth((bits & 1).ne(0)),
            DType::U4 => Value::Integer((bits & 15).cast()),
            // Both shifts together spread the fourth bit, the sign.
            DType::I4 => Value::Integer((bits << 28).cast::<S32>() >> 28),
            DType::F32
            | DType::TF32
            | DType::F16
            | DType::BF16
            | DType::F8E4M3
            | DType::F8E5M2
            | DType::F8E8M0
            | DType::I8
            | DType::U8
            | DType::I32
            | DType::I64
            | DType::Bool => panic!("compiler bug: {dtype} is not packed"),
        }
    }

    fn whole<T: Type>(&self, from: Element<'k>, otherwise: impl Into<Src<'k, T>>) -> Reg<'k, T> {
        let (k, cache) = (self.k, from.cache);
        let [value] = match from.inside {
            Some(inside) => k.load_global_if(inside, from.pointer, cache, otherwise),
            None => k.load_global(from.pointer, cache),
        };
        value
    }

    fn narrow(&self, ty: Scalar, from: Element<'k>) -> Reg<'k, U32> {
        let (k, cache) = (self.k, from.cache);
        match from.inside {
            Some(inside) => k.load_global_narrow_if(inside, ty, from.pointer, cache),
            None => k.load_global_narrow(ty, from.pointer, cache),
        }
    }
}
