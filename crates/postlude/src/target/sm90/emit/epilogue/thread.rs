//! Where a thread is in a tile, and where its elements of direct operands and outputs lie.

use postlude_ptx::kernel::Reg;
use postlude_ptx::types::{Pred, U32};

use crate::placement::Major;
use crate::target::sm90::emit::batch::Batch;
use crate::target::sm90::emit::memory::Location;

/// The coordinate of a thread in a 64-row block of a tile.
pub(super) struct ThreadCoordinate<'k> {
    pub(super) batch: Batch<'k>,
    pub(super) block_row: Reg<'k, U32>,
    pub(super) tile_column: Reg<'k, U32>,
    pub(super) rows: [Reg<'k, U32>; 2],
    /// The row behind the last that the tile may write.
    pub(super) row_end: Reg<'k, U32>,
    /// The same counted from the tile's first, where blocks of rows are reduced.
    pub(super) tile_rows: Option<[Reg<'k, U32>; 2]>,
    pub(super) inside_rows: [Reg<'k, Pred>; 2],
    /// The thread's first column, and how many of the problem's columns follow from it.
    pub(super) column: Reg<'k, U32>,
    pub(super) remaining: Reg<'k, U32>,
    /// The tile's columns before this round's, where the epilogue is a loop.
    pub(super) before: Option<Reg<'k, U32>>,
    /// Whether all of the tile is inside the problem, where folds ask for it.
    pub(super) whole: Option<Reg<'k, Pred>>,
    /// The addresses of direct operands and outputs.
    pub(super) loads: Vec<Option<[Location<'k>; 2]>>,
    pub(super) stores: Vec<Option<StoreTarget<'k>>>,
}

impl<'k> ThreadCoordinate<'k> {
    /// The thread's rows, counted from the tile's first.
    pub(super) fn tile_rows(&self) -> [Reg<'k, U32>; 2] {
        self.tile_rows.unwrap_or_else(|| panic!("compiler bug: blocks that no pass reduces"))
    }
}

/// Where a block's elements of a direct output are stored.
#[derive(Clone, Copy)]
pub(super) enum StoreTarget<'k> {
    /// The thread's first column of its two rows.
    Elements([Location<'k>; 2]),
    /// Bytes of packed bits, each from several threads.
    Bits(Major, ByteTarget<'k>),
}

/// Where a lane's byte of the first two groups of a block goes.
#[derive(Clone, Copy)]
pub(super) struct ByteTarget<'k> {
    pub(super) location: Location<'k>,
    pub(super) inside_rows: Reg<'k, Pred>,
    /// How many of the problem's columns follow from its first.
    pub(super) remaining: Reg<'k, U32>,
}

/// Columns of a tile that are worked on together.
#[derive(Clone, Copy)]
pub(super) struct EpilogueTile {
    pub(super) offset: u32,
    pub(super) columns: u32,
}
