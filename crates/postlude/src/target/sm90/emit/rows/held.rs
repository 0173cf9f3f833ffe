//! Which columns of which row a thread holds.
//!
//! ```text
//! tile 2 x 4096 of 256 threads, vectors of 8 columns
//! row 0   columns 0 to 1023: threads 0 to 127, a vector each   columns 1024 to 2047: the same threads ...
//! row 1   threads 128 to 255
//! ```
//!
//! Neighbouring threads have neighbouring vectors, so that a warp's accesses are whole lines. Of a streamed row the CTAs of a
//! cluster take chunks of a tile's columns by turns.

use postlude_ptx::kernel::{GlobalPointer, Kernel, Reg};
use postlude_ptx::types::{B32, Pred, U32};

use crate::target::sm90::plan::RowNeeds;

use super::super::batch::{Batch, BatchDims};
use super::super::chip::EpilogueChip;
use super::super::parameters::Parameters;
use super::super::plan::Plan;

/// A thread of the warps that hold the rows of a tile.
pub(super) struct Holder<'k> {
    /// Work tiles of the launch, of a batch, and side by side; `None` where one has all columns.
    pub(super) tiles: Reg<'k, U32>,
    per_batch: Option<Reg<'k, U32>>,
    beside: Option<Reg<'k, U32>>,
    batch_dims: BatchDims<'k>,
    batch: Batch<'k>,
    /// The problem's rows and columns.
    rows: Reg<'k, U32>,
    columns: Reg<'k, U32>,
    /// Rows and columns of a tile, and threads of a row.
    tile: [u32; 2],
    pub(super) threads: u32,
    /// Vectors of a thread, and the columns of each.
    pub(super) vectors: u32,
    width: u32,
    /// The thread's row in a tile, and its place among the row's threads.
    pub(super) row: Reg<'k, U32>,
    pub(super) lane: Reg<'k, U32>,
    /// The CTA's place among those that share a row, where several do.
    pub(super) rank: Option<Reg<'k, U32>>,
    /// CTAs that share a row.
    blocks: u32,
    /// Whether no vector lies beyond the last column.
    exact: bool,
}

/// A thread's columns of a row.
pub(super) struct HeldRow<'k> {
    pub(super) batch: Batch<'k>,
    /// The row, or the last one for threads beyond it.
    pub(super) at: Reg<'k, U32>,
    /// Whether the row is the problem's, where not every one is.
    pub(super) inside: Option<Reg<'k, Pred>>,
    pub(super) vectors: Vec<HeldVector<'k>>,
    /// Their words, where registers hold them: of each tile operand and of each vector.
    pub(super) words: RowWords<'k>,
}

/// The words of a row, of each tile operand and of each vector of it.
pub(super) type RowWords<'k> = Vec<Vec<Vec<Reg<'k, B32>>>>;

/// Columns side by side.
#[derive(Clone, Copy)]
pub(super) struct HeldVector<'k> {
    /// The first column, and the one that is read: another where this one is beyond the last.
    pub(super) column: Reg<'k, U32>,
    pub(super) read: Reg<'k, U32>,
    /// Whether they are the problem's, where not all are.
    pub(super) inside: Option<Reg<'k, Pred>>,
    /// What is read lies so many columns behind this one.
    from: (Reg<'k, U32>, u32),
}

impl<'k> HeldVector<'k> {
    /// Where it is read, or written where it is inside, in a row that begins here, whose elements have as many bytes.
    pub(super) fn address(&self, start: GlobalPointer<'k>, bytes: u32) -> GlobalPointer<'k> {
        let (first, behind) = self.from;
        start.element(first, bytes).offset(i64::from(behind * bytes))
    }
}

impl<'k> Holder<'k> {
    pub(super) fn new<C: EpilogueChip>(
        k: Kernel<'k, C>,
        plan: &Plan<'_>,
        parameters: &Parameters<'k>,
        needs: RowNeeds,
    ) -> Holder<'k> {
        let tile = plan.schedule.tile;
        let threads = tile.threads_per_row();
        let up = |size: Reg<'k, U32>, by: u32| (size + (by - 1)) >> by.trailing_zeros();
        let below = up(parameters.rows, tile.rows);
        let beside = (needs.columns == 0).then(|| up(parameters.columns, tile.columns));
        let per_batch = beside.map_or(below, |beside| below * beside);
        let batched = !plan.graph.space().batch.is_empty();
        let thread = k.thread();
        Holder {
            tiles: per_batch * parameters.batches,
            per_batch: batched.then_some(per_batch),
            beside,
            batch_dims: parameters.batch_dims,
            batch: parameters.batch_dims.batch(k.imm(0)),
            rows: parameters.rows,
            columns: parameters.columns,
            tile: [tile.rows, tile.columns],
            threads,
            vectors: tile.row_elements() / needs.vector,
            width: needs.vector,
            row: thread >> threads.trailing_zeros(),
            lane: thread & (threads - 1),
            rank: (tile.cluster.blocks() > 1).then(|| k.cluster_rank()),
            blocks: tile.cluster.blocks(),
            exact: needs.multiple > 1,
        }
    }

    /// The CTA's chunks of a streamed row: with those beyond the last column, as many as each other's.
    pub(super) fn chunks(&self) -> Reg<'k, U32> {
        let columns = self.tile[1] * self.blocks;
        (self.columns + (columns - 1)) >> columns.trailing_zeros()
    }

    /// The thread's columns in one of these.
    pub(super) fn chunk(&self, number: Reg<'k, U32>, chunk: Reg<'k, U32>) -> HeldRow<'k> {
        let place = match self.rank {
            Some(rank) => chunk.mad(self.blocks, rank),
            None => chunk,
        };
        let (batch, at) = self.batch_of(number);
        let first = place.mad(self.tile[1], self.lane * self.width);
        HeldRow { batch, at, inside: None, vectors: self.vectors_from(first), words: Vec::new() }
    }

    /// The batch of a tile, and its number there.
    fn batch_of(&self, number: Reg<'k, U32>) -> (Batch<'k>, Reg<'k, U32>) {
        match self.per_batch {
            Some(per_batch) => {
                let batch = number / per_batch;
                (self.batch_dims.batch(batch), number - batch * per_batch)
            }
            None => (self.batch, number),
        }
    }

    /// A thread's vectors, of which the first begins at this column.
    fn vectors_from(&self, first: Reg<'k, U32>) -> Vec<HeldVector<'k>> {
        let vector = |number: u32| {
            let behind = number * self.threads * self.width;
            let column = first + behind;
            if self.exact {
                return HeldVector { column, read: column, inside: None, from: (first, behind) };
            }
            let inside = Some(column.lt(self.columns));
            let read = column.min(self.columns - self.width);
            HeldVector { column, read, inside, from: (read, 0) }
        };
        (0..self.vectors).map(vector).collect()
    }

    /// Any vector of a row, where it is one.
    pub(super) fn vector_at(&self, column: Reg<'k, U32>, is_one: Reg<'k, Pred>) -> HeldVector<'k> {
        let read = column.min(self.columns - self.width);
        let inside = Some(is_one & column.lt(self.columns));
        HeldVector { column, read, inside, from: (read, 0) }
    }

    /// The thread's columns in a strip of a tile's columns.
    pub(super) fn strip(&self, number: Reg<'k, U32>) -> Vec<HeldVector<'k>> {
        self.vectors_from(number.mad(self.tile[1], self.lane * self.width))
    }

    /// A row of a strip, or the last one beyond it.
    pub(super) fn strip_row(&self, row: Reg<'k, U32>, vectors: &[HeldVector<'k>]) -> HeldRow<'k> {
        let (at, inside) = (row.min(self.rows - 1), Some(row.lt(self.rows)));
        HeldRow { batch: self.batch, at, inside, vectors: vectors.to_vec(), words: Vec::new() }
    }

    /// The thread's columns in the tile of this number.
    pub(super) fn row(&self, number: Reg<'k, U32>) -> HeldRow<'k> {
        let (batch, within) = self.batch_of(number);
        let [rows, columns] = self.tile;
        let own = self.lane * self.width;
        let (below, first) = match self.beside {
            Some(beside) => {
                let below = within / beside;
                (below, (within - below * beside).mad(columns, own))
            }
            None => (within, own),
        };
        let (at, inside) = match rows {
            1 => (below, None),
            rows => {
                let row = below.mad(rows, self.row);
                (row.min(self.rows - 1), Some(row.lt(self.rows)))
            }
        };
        HeldRow { batch, at, inside, vectors: self.vectors_from(first), words: Vec::new() }
    }
}
