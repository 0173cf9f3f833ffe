//! The shared memory of a schedule, region by region.

use super::mainloop::Mainloop;
use super::operand::{OperandLoad, STAGE_ROW_BYTES, STAGGERED_ROW_BYTES, STAGING_SLOTS};
use super::schedule::Sm90Schedule;
use super::slots::SLOT_ROWS;
use super::widened::{SPAN_BYTES, WIDENED_SLOTS};

/// Rows of the tiles that load few rows of A.
const SHORT_TILE: u32 = 64;

impl Sm90Schedule {
    /// Bytes of A and B in one stage.
    pub(crate) fn stage_bytes(&self) -> u32 {
        if let Some(mainloop) = self.needs.mainloop.as_ref().filter(|_| self.tile.is_swapped()) {
            return self.swapped_stage_bytes(mainloop);
        }
        let split = self.needs.mainloop.as_ref().is_some_and(|mainloop| mainloop.split);
        self.part_bytes() * if split { 2 } else { 1 }
    }

    /// Bytes of A and B in one stage, or of their high or low parts.
    pub(crate) fn part_bytes(&self) -> u32 {
        (self.tile.rows + self.tile.columns) * STAGE_ROW_BYTES
    }

    /// Bytes of a slot of C or D: 64 rows of an epilogue tile of a 16-bit type,
    /// or of half of one of a 32-bit type.
    pub(crate) fn slot_bytes(&self) -> u32 {
        SLOT_ROWS * self.epilogue_tile * 2
    }

    /// Bytes of all slots that tile operands are loaded into.
    pub(crate) fn c_bytes(&self) -> u32 {
        if self.needs.has_tma_loads() {
            self.math_warpgroups() * self.c_stages * self.slot_bytes()
        } else {
            0
        }
    }

    /// Bytes of all slots that tile outputs are stored through.
    pub(crate) fn d_bytes(&self) -> u32 {
        if self.has_d_slots() {
            self.math_warpgroups() * self.d_stages * self.slot_bytes()
        } else {
            0
        }
    }

    /// Bytes of a tile's values along columns, which the warpgroups that work on it share.
    pub(crate) fn tile_column_bytes(&self) -> u32 {
        // Threads that hold rows load what their own columns have.
        if self.tile.holds_rows() { 0 } else { self.needs.column_values * self.width() * 4 }
    }

    /// Bytes of the values along columns of all tiles that are under way.
    pub(crate) fn column_bytes(&self) -> u32 {
        self.tile_column_bytes() * self.tile.tiles_in_flight()
    }

    /// Bytes of staggered operands as TMA loads them, before load warps move them to their stages.
    pub(crate) fn staging_bytes(&self) -> u32 {
        self.staging_slots() * self.staging_slot_bytes()
    }

    /// Whether load warps compute an operand from narrower elements.
    pub(crate) fn is_widened(&self) -> bool {
        self.needs.mainloop.as_ref().is_some_and(Mainloop::is_widened)
    }

    /// Slots of staggered or narrow operands.
    pub(crate) fn staging_slots(&self) -> u32 {
        match &self.needs.mainloop {
            Some(_) if self.tile.is_swapped() => 0,
            Some(_) if self.is_widened() => WIDENED_SLOTS,
            Some(mainloop) if mainloop.is_staggered() => STAGING_SLOTS,
            Some(_) | None => 0,
        }
    }

    /// Bytes of the staggered operands of one stage, or of a span of a narrow one.
    pub(crate) fn staging_slot_bytes(&self) -> u32 {
        let Some(mainloop) = &self.needs.mainloop else { return 0 };
        let sides = [self.tile.rows, self.tile.columns].into_iter().zip(mainloop.operands);
        let bytes = |(rows, load): (u32, OperandLoad)| match load {
            OperandLoad::Staggered => rows * STAGGERED_ROW_BYTES,
            OperandLoad::Widened4 | OperandLoad::Widened8 => rows * SPAN_BYTES,
            OperandLoad::TmaKMajor
            | OperandLoad::TmaMnMajor
            | OperandLoad::ElementsKMajor
            | OperandLoad::ElementsMnMajor
            | OperandLoad::VectorsKMajor => 0,
        };
        sides.map(bytes).sum()
    }

    /// Rows of A that TMA loads, where that is not all of a tile's.
    pub(crate) fn short_rows(&self) -> Option<u32> {
        let mainloop = self.needs.mainloop.as_ref()?;
        let suits = self.tile.rows == SHORT_TILE
            && self.tile.cluster.columns() == 1
            && mainloop.operands[0] == OperandLoad::TmaKMajor;
        (suits && mainloop.short_rows > 0).then_some(mainloop.short_rows)
    }

    /// Bytes of a tile's partial sums, where its CTAs or its warpgroups split K.
    pub(crate) fn partial_bytes(&self) -> u32 {
        if self.tile.is_swapped() {
            // What lies behind them is swizzled.
            return (self.swapped_rows() * self.swapped_row_floats() * 4).next_multiple_of(1024);
        }
        let splits = self.tile.cluster.split_k();
        if splits > 1 { self.tile.sum_bytes() } else { 0 }
    }

    /// Bytes that warpgroups fold reductions through.
    pub(crate) fn fold_bytes(&self) -> u32 {
        if self.tile.folds_strips() {
            return self.strip_bytes();
        }
        self.math_warpgroups() * self.needs.folds.shared_bytes(self.width())
    }

    /// Whether only the tiles of a cluster together hold whole rows.
    pub(crate) fn reduces_over_cluster(&self) -> bool {
        !self.tile.streams_rows() && self.tile.reduces_over_cluster(&self.needs)
    }

    /// Words of a streamed row that the CTAs of a cluster send one another in a pass.
    fn streamed_words(&self) -> u32 {
        let shared =
            self.tile.streams_rows() && self.tile.cluster.blocks() > 1 && !self.ranks_rows();
        let words = self.needs.rows.map_or(0, |rows| rows.words);
        if shared { words * self.tile.cluster.blocks() } else { 0 }
    }

    /// Bytes through which warps publish partial results of such rows to other CTAs: a warp has 16 rows.
    pub(crate) fn cluster_reduction_bytes(&self) -> u32 {
        if self.streamed_words() > 0 {
            return 2 * 4 * self.streamed_words();
        }
        let warps = 4 * self.math_warpgroups();
        if self.reduces_over_cluster() { warps * 2 * self.needs.pass_words * 16 * 4 } else { 0 }
    }

    /// Bytes of a barrier for each math warp, or of the two of a streamed row.
    pub(crate) fn cluster_reduction_barrier_bytes(&self) -> u32 {
        if self.streamed_words() > 0 {
            return 2 * 8;
        }
        if self.reduces_over_cluster() { 4 * self.math_warpgroups() * 8 } else { 0 }
    }

    /// Buffers of partial results of held rows, used one after the other: a warp that writes to one again has synchronised
    /// at another since all warps read it.
    pub(crate) fn held_buffers(&self) -> u32 {
        self.needs.rows.map_or(0, |rows| if rows.passes > 0 { rows.passes.max(2) } else { 0 })
    }

    /// Bytes of one of them: where several warps hold a row, each has its words there.
    pub(crate) fn held_buffer_bytes(&self) -> u32 {
        if self.ranks_rows() {
            return 0;
        }
        let words = self.needs.rows.map_or(0, |rows| rows.words);
        if self.tile.threads_per_row() > 32 { words * self.threads() / 32 * 4 } else { 0 }
    }

    /// Bytes of a tile's operands, where threads hold its rows: of a streamed row, of a chunk.
    pub(crate) fn held_tile_bytes(&self) -> u32 {
        self.needs.rows.map_or(0, |needs| self.tile.rows * self.tile.columns * needs.loaded)
    }

    /// Bytes of a slot for the chunks of streamed rows.
    pub(crate) fn held_stage_bytes(&self) -> u32 {
        if self.tile.streams_rows() { self.held_tile_bytes() } else { 0 }
    }

    /// Bytes of all of them.
    pub(crate) fn held_bytes(&self) -> u32 {
        if self.tile.holds_rows() { self.held_buffers() * self.held_buffer_bytes() } else { 0 }
    }

    /// Bytes of candidates for the largest elements of a row.
    pub(crate) fn candidate_bytes(&self) -> u32 {
        if self.tile.streams_rows() { self.ranked_bytes() } else { 0 }
    }

    /// Bytes of a full and an empty barrier for each slot that is loaded into.
    pub(crate) fn barrier_bytes(&self) -> u32 {
        let loads = if self.c_bytes() > 0 { self.math_warpgroups() * self.c_stages } else { 0 };
        16 * (self.stages + loads + self.staging_slots())
    }

    /// Dynamic shared memory.
    pub(crate) fn shared_bytes(&self) -> u32 {
        self.stages * self.stage_bytes()
            + self.staging_bytes()
            + self.partial_bytes()
            + self.c_bytes()
            + self.d_bytes()
            + self.column_bytes()
            + self.block_bytes()
            + self.fold_bytes()
            + self.cluster_reduction_bytes()
            + self.cluster_reduction_barrier_bytes()
            + self.c_stages * self.held_stage_bytes()
            + self.held_bytes()
            + self.candidate_bytes()
            + self.barrier_bytes()
            + self.dynamic_bytes()
    }
}
