//! How the partial results of blocks lie in a tile's shared memory.
//!
//! In: a reduction of runs of rows. Out: the rows that a warp folds before it writes a partial result, and the sizes of a
//! block. A block's result takes the place of the first of its partial results.

use crate::lower::{Reduction, TileProgram};

use super::schedule::Sm90Schedule;

/// The sizes of a reduction's blocks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct BlockLayout {
    /// Rows that are folded before a partial result is written: 16 of a warp, or as many of them as divide a block.
    pub(crate) unit: u32,
    /// Rows of a block.
    pub(crate) rows: u32,
    /// Columns of a block.
    pub(crate) columns: u32,
}

impl BlockLayout {
    pub(crate) fn of(program: &TileProgram, reduction: Reduction) -> BlockLayout {
        let rows = program.graph().ty(reduction.node).axes.row.unwrap_or(1);
        let columns = program.runs[reduction.node.index()];
        BlockLayout { unit: 1 << rows.trailing_zeros().min(4), rows, columns }
    }

    /// Words of partial results of a tile, for each register of one.
    pub(crate) fn words(self, schedule: &Sm90Schedule) -> u32 {
        schedule.tile.rows / self.unit * self.across(schedule)
    }

    /// Blocks of a tile side by side.
    pub(crate) fn across(self, schedule: &Sm90Schedule) -> u32 {
        schedule.width() / self.columns
    }

    /// Partial results of a block, one below the other.
    pub(crate) fn units(self) -> u32 {
        self.rows / self.unit
    }
}

impl Sm90Schedule {
    /// Bytes of the partial results of a tile's blocks, which the warpgroups that work on it share.
    pub(crate) fn tile_block_bytes(&self) -> u32 {
        let across = (self.needs.block_words * self.width()).div_ceil(256);
        4 * self.tile.rows.div_ceil(16) * across.next_multiple_of(4)
    }

    /// Bytes of those of all tiles that are under way.
    pub(crate) fn block_bytes(&self) -> u32 {
        self.tile_block_bytes() * self.tile.tiles_in_flight()
    }
}
