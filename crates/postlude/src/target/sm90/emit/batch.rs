//! Batches of several dims: their numbers, and their places along each dim.
//!
//! Tiles, partial results and counters know a batch by its number; tensors have a stride along each batch dim.

use postlude_ptx::kernel::{Kernel, PointerParameter, Reg};
use postlude_ptx::modifier::LoadCache;
use postlude_ptx::target::Architecture;
use postlude_ptx::types::U32;

use crate::graph::Space;

/// A batch.
#[derive(Clone, Copy)]
pub(crate) struct Batch<'k> {
    pub(crate) number: Reg<'k, U32>,
    /// Its place along each batch dim, the last one first; `None` for dims that the kernel does not have.
    along: [Option<Reg<'k, U32>>; Space::MOST_BATCH_DIMS],
}

impl<'k> Batch<'k> {
    /// Its places along the batch dims, the last dim first: a tensor map's coordinates.
    pub(crate) fn places(self) -> impl Iterator<Item = Reg<'k, U32>> {
        self.along.into_iter().flatten()
    }

    /// The place along the batch dim of this number.
    pub(crate) fn along(self, dim: usize) -> Reg<'k, U32> {
        let dims = self.places().count();
        self.along[dims - 1 - dim].unwrap_or(self.number)
    }

    /// The batch that tensor maps of tiles know: rows of all segments lie in one matrix.
    pub(crate) fn of_tiles<C: Architecture>(self, k: Kernel<'k, C>, space: &Space) -> Batch<'k> {
        if !space.is_segmented() {
            return self;
        }
        let zero = k.imm(0);
        Batch { number: zero, along: self.along.map(|along| along.map(|_| zero)) }
    }

    /// The batch that an operand reads, which has some of the batch dims: `has` is 1 along these and 0 along others.
    pub(crate) fn of_operand(self, has: &[Reg<'k, U32>]) -> Batch<'k> {
        let mut own = self;
        for (along, has) in own.along.iter_mut().zip(has) {
            *along = along.map(|along| along * *has);
        }
        own
    }
}

/// How a tensor's batches are found: by a stride along each batch dim.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Batching {
    dims: usize,
    /// The dim along which a table has the steps of the stride, where the tensor is a list.
    listed: Option<usize>,
}

impl Batching {
    /// That of a tensor of a kernel, which may be a list along a batch dim.
    pub(super) fn of(space: &Space, listed: Option<usize>) -> Batching {
        Batching { dims: declared_dims(space), listed }
    }

    /// Dims that it has a stride along.
    pub(super) fn dims(self) -> usize {
        self.dims
    }

    /// Declares the table of a list.
    pub(super) fn declare_table<'k, C: Architecture>(
        self,
        k: Kernel<'k, C>,
        name: &str,
    ) -> Option<ListTable<'k>> {
        let Batching { dims, listed } = self;
        let place = dims - 1 - listed?;
        Some(ListTable { steps: k.parameter_pointer(&format!("{name}_list")), place })
    }
}

/// Where each tensor of a list lies: steps of its stride, by the place along the batch dim that numbers them.
#[derive(Clone, Copy)]
pub(crate) struct ListTable<'k> {
    steps: PointerParameter<'k>,
    /// Batch dims behind that dim.
    place: usize,
}

impl<'k> ListTable<'k> {
    /// Bytes of a number of steps.
    const BYTES: u64 = 4;

    /// The batch's place in the list's memory.
    pub(super) fn look_up<C: Architecture>(self, k: Kernel<'k, C>, batch: Batch<'k>) -> Batch<'k> {
        let mut along = batch.along;
        let is_only = batch.places().count() == 1;
        let own = along[self.place].filter(|_| !is_only).unwrap_or(batch.number);
        let from = self.steps.load() + k.widen(own) * ListTable::BYTES;
        let [steps] = k.load_global::<U32, 1>(from, LoadCache::ReadOnly);
        along[self.place] = Some(steps);
        Batch { along, ..batch }
    }
}

/// An element's batch, row and column.
pub(crate) type Coordinate<'k> = (Batch<'k>, Reg<'k, U32>, Reg<'k, U32>);

/// The batch dims of a kernel.
#[derive(Clone, Copy)]
pub(crate) struct BatchDims<'k> {
    /// Sizes of all but the first, the last one first.
    sizes: [Option<Reg<'k, U32>>; Space::MOST_BATCH_DIMS - 1],
}

impl<'k> BatchDims<'k> {
    pub(super) fn declare<C: Architecture>(k: Kernel<'k, C>, space: &Space) -> BatchDims<'k> {
        let mut sizes = [None; Space::MOST_BATCH_DIMS - 1];
        for (size, dim) in sizes.iter_mut().zip((1..space.batch.len()).rev()) {
            *size = Some(k.parameter_u32(&format!("batch_size{dim}")).load());
        }
        BatchDims { sizes }
    }

    /// The same place along every batch dim: an element of a tensor with one dim, whichever that is.
    pub(crate) fn at(&self, place: Reg<'k, U32>) -> Batch<'k> {
        let mut along = [Some(place); Space::MOST_BATCH_DIMS];
        along[self.sizes.iter().flatten().count() + 1..].fill(None);
        Batch { number: place, along }
    }

    /// The numbers between a batch and the next one along the dim of this number; `None` where that is 1.
    pub(crate) fn step(&self, dim: usize) -> Option<Reg<'k, U32>> {
        let behind = self.sizes.iter().flatten().count() - dim;
        self.sizes.iter().flatten().take(behind).copied().reduce(|all, size| all * size)
    }

    /// The batch of this number.
    pub(crate) fn batch(&self, number: Reg<'k, U32>) -> Batch<'k> {
        let mut along = [None; Space::MOST_BATCH_DIMS];
        let mut rest = number;
        let mut dims = 0;
        for size in self.sizes.into_iter().flatten() {
            let quotient = rest / size;
            along[dims] = Some(rest - quotient * size);
            rest = quotient;
            dims += 1;
        }
        along[dims] = Some(rest);
        Batch { number, along }
    }
}

/// How many batch dims tensors are declared with: one where the kernel has none.
pub(super) fn declared_dims(space: &Space) -> usize {
    space.batch.len().max(1)
}

/// What a parameter of one batch dim is called; the only one has no number.
pub(super) fn parameter_name(name: &str, dim: usize, dims: usize) -> String {
    if dims == 1 { name.to_owned() } else { format!("{name}{dim}") }
}
