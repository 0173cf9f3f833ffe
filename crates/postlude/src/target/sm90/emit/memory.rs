//! Tensors in memory that the kernel addresses itself.

use postlude_ptx::kernel::{GlobalPointer, Kernel, NumberParameter, PointerParameter, Reg};
use postlude_ptx::target::Architecture;
use postlude_ptx::types::{Pred, U32, U64};

use crate::dtype::DType;
use crate::target::sm90::plan::EpilogueTransfer;

/// A tensor in memory: its address, and the bytes between neighbours along batch, rows and columns; of packed bits, the
/// bits.
pub(super) struct Memory<'k> {
    pub(super) dtype: DType,
    pointer: PointerParameter<'k>,
    strides: [NumberParameter<'k, U64>; 3],
    /// The columns of the product, or runs of them, that the tensor's are: the first, and how many.
    window: Option<[Reg<'k, U32>; 2]>,
}

/// Where an element lies.
#[derive(Clone, Copy)]
pub(super) enum Location<'k> {
    /// At an address.
    Bytes(GlobalPointer<'k>),
    /// So many bits behind an address.
    Bit { start: GlobalPointer<'k>, index: Reg<'k, U64> },
}

impl<'k> Location<'k> {
    /// The address of an element of whole bytes.
    pub(super) fn pointer(self) -> GlobalPointer<'k> {
        match self {
            Location::Bytes(pointer) => pointer,
            Location::Bit { .. } => panic!("compiler bug: the address of a bit"),
        }
    }

    /// The byte that holds a bit, and the bit's place in it.
    pub(super) fn byte<C: Architecture>(
        self,
        k: Kernel<'k, C>,
    ) -> (GlobalPointer<'k>, Reg<'k, U32>) {
        match self {
            Location::Bit { start, index } => (start + (index >> 3), k.truncate(index) & 7),
            Location::Bytes(_) => panic!("compiler bug: a bit of whole bytes"),
        }
    }
}

impl<'k> Memory<'k> {
    pub(super) fn declare<C: Architecture>(
        k: Kernel<'k, C>,
        name: &str,
        dtype: DType,
        window: Option<[Reg<'k, U32>; 2]>,
    ) -> Memory<'k> {
        let pointer = k.parameter_pointer(name);
        let strides =
            ["batch", "row", "column"].map(|along| k.parameter_u64(&format!("{name}_{along}")));
        Memory { dtype, pointer, strides, window }
    }

    /// The element at a place; coordinates that the tensor does not have are multiplied by a stride of 0.
    pub(super) fn element<C: Architecture>(
        &self,
        k: Kernel<'k, C>,
        place: [Reg<'k, U32>; 3],
    ) -> Location<'k> {
        let start = self.pointer.load();
        // A column may lie before the window, and others that are found from it inside.
        let first =
            self.window.map(|[first, _]| (k.imm(0) - k.widen(first)) * self.strides[2].load());
        let steps = place.into_iter().zip(self.strides);
        let steps = steps.map(|(coordinate, stride)| k.widen(coordinate) * stride.load());
        let steps = steps.chain(first);
        if self.dtype == DType::B1 {
            Location::Bit { start, index: steps.fold(k.imm(0), |index, step| index + step) }
        } else {
            Location::Bytes(steps.fold(start, |address, step| address + step))
        }
    }

    /// Where a column of the product is inside, and one of the tensor's.
    pub(super) fn inside(
        &self,
        column: Reg<'k, U32>,
        inside: Option<Reg<'k, Pred>>,
    ) -> Option<Reg<'k, Pred>> {
        let Some([first, columns]) = self.window else { return inside };
        let own = (column - first).lt(columns);
        Some(inside.map_or(own, |inside| inside & own))
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
        let strided = || self.strides[2].load() * u64::from(columns);
        match (transfer, from) {
            (EpilogueTransfer::Tma | EpilogueTransfer::Contiguous, Location::Bytes(pointer)) => {
                let bytes = i64::from(columns) * self.dtype.bits() as i64 / 8;
                Location::Bytes(pointer.offset(bytes))
            }
            (
                EpilogueTransfer::Tma | EpilogueTransfer::Contiguous,
                Location::Bit { start, index },
            ) => {
                let start = start.offset(i64::from(columns / 8));
                let index = match columns % 8 {
                    0 => index,
                    within => index + u64::from(within),
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
