//! Tensors in memory that the kernel addresses itself.

use postlude_ptx::kernel::{GlobalPointer, Kernel, NumberParameter, PointerParameter, Reg};
use postlude_ptx::target::Architecture;
use postlude_ptx::types::{Pred, S64, U32, U64};

use crate::dtype::DType;
use crate::target::sm90::plan::EpilogueTransfer;

use super::batch::{Batch, Batching, Coordinate, ListTable, parameter_name};

/// A tensor in memory: its address, and the bytes between neighbours along batch, rows and columns; of packed elements,
/// the bits.
#[derive(Clone)]
pub(super) struct Memory<'k> {
    pub(super) dtype: DType,
    pointer: PointerParameter<'k>,
    /// Along each batch dim, the last one first.
    batches: Vec<NumberParameter<'k, U64>>,
    row: NumberParameter<'k, U64>,
    column: NumberParameter<'k, U64>,
    /// Where it is a list.
    list: Option<ListTable<'k>>,
    /// The columns of the product, or runs of them, that the tensor's are: the first, and how many.
    window: Option<ColumnWindow<'k>>,
}

/// Columns of the product, or runs of them, that a tensor's are.
#[derive(Clone, Copy)]
pub(super) struct ColumnWindow<'k> {
    /// The first.
    pub(super) first: Reg<'k, U32>,
    /// How many.
    pub(super) columns: Reg<'k, U32>,
    /// Where the tensor has those of one part of each run: the columns of a run, and of a part.
    pub(super) fold: Option<[u32; 2]>,
}

impl<'k> ColumnWindow<'k> {
    /// Columns of the tensor up to a column of the product, both counted from a run's first.
    fn folded(self, column: Reg<'k, U32>) -> Reg<'k, U32> {
        let Some([run, part]) = self.fold else { return column };
        let parts = column / part;
        column / run * part + (column - parts * part)
    }
}

/// Where an element lies.
#[derive(Clone, Copy)]
pub(super) enum Location<'k> {
    /// At an address.
    Bytes(GlobalPointer<'k>),
    /// This many bits behind an address, before it where they are negative.
    Bit { start: GlobalPointer<'k>, index: Reg<'k, U64> },
}

impl<'k> Location<'k> {
    /// The address of an element of whole bytes.
    pub(super) fn pointer(self) -> GlobalPointer<'k> {
        match self {
            Location::Bytes(pointer) => pointer,
            Location::Bit { .. } => panic!("compiler bug: the address of a part of a byte"),
        }
    }

    /// The byte that holds a packed element, and the element's lowest bit in it.
    pub(super) fn byte<C: Architecture>(
        self,
        k: Kernel<'k, C>,
    ) -> (GlobalPointer<'k>, Reg<'k, U32>) {
        match self {
            Location::Bit { start, index } => {
                let bytes = (index.cast::<S64>() >> 3).cast::<U64>();
                (start + bytes, k.truncate(index) & 7)
            }
            Location::Bytes(_) => panic!("compiler bug: a part of whole bytes"),
        }
    }
}

impl<'k> Memory<'k> {
    /// Declares the parameters of a tensor.
    pub(super) fn declare<C: Architecture>(
        k: Kernel<'k, C>,
        name: &str,
        (dtype, batching): (DType, Batching),
        window: Option<ColumnWindow<'k>>,
    ) -> Memory<'k> {
        let dims = batching.dims();
        let pointer = k.parameter_pointer(name);
        let stride = |along: &str| k.parameter_u64(&format!("{name}_{along}"));
        let batches = (0..dims).rev().map(|dim| stride(&parameter_name("batch", dim, dims)));
        let batches = batches.collect();
        let [row, column] = ["row", "column"].map(stride);
        let list = batching.declare_table(k, name);
        Memory { dtype, pointer, batches, row, column, list, window }
    }

    /// Declares the address of a tensor whose strides are those of another one.
    pub(super) fn declare_like<C: Architecture>(
        k: Kernel<'k, C>,
        name: &str,
        dtype: DType,
        other: &Memory<'k>,
    ) -> Memory<'k> {
        let pointer = k.parameter_pointer(name);
        let &Memory { row, column, window, .. } = other;
        let (batches, list) = (other.batches.clone(), None);
        Memory { dtype, pointer, batches, row, column, list, window }
    }

    /// A batch's steps along the batch strides.
    fn batch<C: Architecture>(&self, k: Kernel<'k, C>, batch: Batch<'k>) -> Batch<'k> {
        self.list.map_or(batch, |list| list.look_up(k, batch))
    }

    /// The element of a vector along rows, its address added last: all vectors of the same strides have one distance.
    pub(super) fn element_of_row<C: Architecture>(
        &self,
        k: Kernel<'k, C>,
        (batch, row, _): Coordinate<'k>,
    ) -> Location<'k> {
        let batches = self.batch(k, batch).places();
        let steps = batches.zip(self.batches.iter().copied()).chain([(row, self.row)]);
        let steps = steps.map(|(coordinate, stride)| k.widen(coordinate) * stride.load());
        let distance = steps.reduce(|distance, step| distance + step);
        let start = self.pointer.load();
        Location::Bytes(distance.map_or(start, |distance| start + distance))
    }

    /// The element at a place; coordinates that the tensor does not have are multiplied by a stride of 0.
    pub(super) fn element<C: Architecture>(
        &self,
        k: Kernel<'k, C>,
        (batch, row, column): Coordinate<'k>,
    ) -> Location<'k> {
        let start = self.pointer.load();
        // A column may lie before the window, and others that are found from it inside.
        let column = self.window.map_or(column, |window| window.folded(column));
        let first = self.window.map(|window| window.folded(window.first));
        let first = first.map(|first| (k.imm(0) - k.widen(first)) * self.column.load());
        let steps = self.batch(k, batch).places().zip(self.batches.iter().copied());
        let steps = steps.chain([(row, self.row), (column, self.column)]);
        let steps = steps.map(|(coordinate, stride)| k.widen(coordinate) * stride.load());
        let steps = steps.chain(first);
        if self.dtype.is_packed() {
            Location::Bit { start, index: steps.fold(k.imm(0), |index, step| index + step) }
        } else {
            Location::Bytes(steps.fold(start, |address, step| address + step))
        }
    }

    /// Bytes between neighbours along rows.
    pub(super) fn row_stride(&self) -> Reg<'k, U64> {
        self.row.load()
    }

    /// Bytes between neighbours along columns.
    pub(super) fn column_stride(&self) -> Reg<'k, U64> {
        self.column.load()
    }

    /// Where a column of the product is inside, and one of the tensor's.
    pub(super) fn inside(
        &self,
        column: impl FnOnce() -> Reg<'k, U32>,
        inside: Option<Reg<'k, Pred>>,
    ) -> Option<Reg<'k, Pred>> {
        let Some(window) = self.window else { return inside };
        let own = (column() - window.first).lt(window.columns);
        Some(inside.map_or(own, |inside| inside & own))
    }

    /// Columns of the tensor that this many of the product are, counted from a run's first.
    pub(super) fn columns(&self, columns: u32) -> u32 {
        match self.window.and_then(|window| window.fold) {
            Some([run, part]) => columns / run * part + columns % part,
            None => columns,
        }
    }

    /// An element that lies this many columns behind another, whatever is between two.
    pub(super) fn beyond(&self, from: Location<'k>, columns: u32) -> Location<'k> {
        self.along(from, EpilogueTransfer::Strided, columns)
    }

    /// An element that lies this many columns behind another.
    pub(super) fn along(
        &self,
        from: Location<'k>,
        transfer: EpilogueTransfer,
        columns: u32,
    ) -> Location<'k> {
        let strided = || self.column.load() * u64::from(columns);
        match (transfer, from) {
            (
                EpilogueTransfer::Tma
                | EpilogueTransfer::Pairs
                | EpilogueTransfer::Coalesced
                | EpilogueTransfer::Contiguous,
                Location::Bytes(pointer),
            ) => {
                let bytes = i64::from(columns) * self.dtype.bits() as i64 / 8;
                Location::Bytes(pointer.offset(bytes))
            }
            (
                EpilogueTransfer::Tma
                | EpilogueTransfer::Pairs
                | EpilogueTransfer::Coalesced
                | EpilogueTransfer::Contiguous,
                Location::Bit { start, index },
            ) => {
                let bits = u64::from(columns) * self.dtype.bits() as u64;
                let start = start.offset((bits / 8) as i64);
                let index = match bits % 8 {
                    0 => index,
                    within => index + within,
                };
                Location::Bit { start, index }
            }
            (
                EpilogueTransfer::TmaTransposed
                | EpilogueTransfer::Strided
                | EpilogueTransfer::Finished,
                Location::Bytes(pointer),
            ) => Location::Bytes(pointer + strided()),
            (
                EpilogueTransfer::TmaTransposed
                | EpilogueTransfer::Strided
                | EpilogueTransfer::Finished,
                Location::Bit { start, index },
            ) => Location::Bit { start, index: index + strided() },
        }
    }
}
