//! Where partial results lie: those of warps in shared memory, those of tiles in the launch's workspace.

use postlude_ptx::kernel::{GlobalPointer, Reg, SharedAddress};
use postlude_ptx::types::{U32, U64};

use crate::target::sm90::plan::SLOT_ROWS;

use super::super::chip::EpilogueChip;
use super::folding::{Folding, WARPS};
use super::partials::WorkspaceIndex;

impl<'k, C: EpilogueChip> Folding<'_, 'k, C> {
    /// Where a warp's partial result of a column lies in shared memory.
    pub(super) fn column_place(
        &self,
        word: u32,
        warp: Reg<'k, U32>,
        within: Reg<'k, U32>,
    ) -> SharedAddress<'k> {
        let columns = self.plan.schedule.width();
        let row = warp + word * WARPS;
        self.shared + row.mad(columns, within) * 4
    }

    /// The same of a scalar.
    pub(super) fn scalar_place(&self, word: u32, warp: Reg<'k, U32>) -> SharedAddress<'k> {
        let behind = self.plan.schedule.needs.folds.columns * self.plan.schedule.width();
        self.shared + (warp + (word + behind) * WARPS) * 4
    }

    /// The flags that say for what this warpgroup arrived last.
    pub(super) fn flag_place(&self, number: u32) -> SharedAddress<'k> {
        let words = self.plan.schedule.needs.folds;
        let behind = words.columns * self.plan.schedule.width() + words.scalars;
        self.shared + (16 * behind + 4 * number)
    }

    /// A partial result of a row, from the tile of this number along columns.
    pub(super) fn row_part(
        &self,
        index: WorkspaceIndex<'k>,
        word: u32,
        tile: Reg<'k, U32>,
        row: Reg<'k, U32>,
    ) -> GlobalPointer<'k> {
        let (k, unit_rows) = (self.k, self.plan.schedule.tile.blocks() * SLOT_ROWS);
        let line = self.plane(index, word) * k.widen(index.tiles) + k.widen(tile);
        self.part(1, line * k.widen(index.units * unit_rows) + k.widen(row))
    }

    /// A partial result of a column, from the part of a tile of this number along rows.
    pub(super) fn column_part(
        &self,
        index: WorkspaceIndex<'k>,
        word: u32,
        unit: Reg<'k, U32>,
        column: Reg<'k, U32>,
    ) -> GlobalPointer<'k> {
        let (k, width) = (self.k, self.plan.schedule.width());
        let line = self.plane(index, word) * k.widen(index.units) + k.widen(unit);
        self.part(2, line * k.widen(index.tiles * width) + k.widen(column))
    }

    /// A partial scalar, by its number.
    pub(super) fn scalar_part(
        &self,
        index: WorkspaceIndex<'k>,
        word: u32,
        place: Reg<'k, U32>,
    ) -> GlobalPointer<'k> {
        let k = self.k;
        let plane = self.plane(index, word) * k.widen(index.units) * k.widen(index.tiles);
        self.part(3, plane + k.widen(place))
    }

    fn plane(&self, index: WorkspaceIndex<'k>, word: u32) -> Reg<'k, U64> {
        self.k.widen(self.parameters.batches * word + index.batch)
    }

    pub(super) fn part(&self, which: usize, place: Reg<'k, U64>) -> GlobalPointer<'k> {
        let Some(workspace) = &self.parameters.workspace else {
            panic!("compiler bug: reductions without a workspace")
        };
        workspace[which].load() + place * 4_u64
    }
}
