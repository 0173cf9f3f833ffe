//! Tiles with A and B swapped: warpgroups widen columns of B in registers, from where wgmma multiplies them by rows of A.
//!
//! In: a tile and what a graph needs. Out: whether the tile suits it, and what a stage holds: a span of narrow rows of B, and
//! the same K of A, 64 elements of each row after the other. Invariant: stages hold whole spans.

use crate::problem::Problem;
use crate::target::tile::{Cluster, KernelSchedule, Tile};

use super::mainloop::Mainloop;
use super::operand::{OperandLoad, STAGE_ROW_BYTES};
use super::schedule::Sm90Schedule;
use super::widened::SPAN_BYTES;

/// Such tiles: alone, and for many rows of A beside another that they are multicast to.
pub(super) const SWAPPED: [Tile; 2] = [swapped(Cluster::ONE), swapped(Cluster::tiles(1, 2))];

const fn swapped(cluster: Cluster) -> Tile {
    Tile { rows: 64, columns: 128, kernel: KernelSchedule::Swapped, math_warpgroups: 1, cluster }
}

/// Columns of B that a warpgroup widens: the rows of one instruction.
pub(crate) const SWAPPED_COLUMNS: u32 = 64;
/// Parts of the spans, each multiplied by other warpgroups: as many warps as registers allow hide one another's waits.
pub(crate) const K_PARTS: u32 = 2;
/// Registers of a thread that loads, of one that only multiplies, and of one that runs the epilogue, too.
pub(crate) const SWAPPED_REGISTERS: [u32; 3] = [24, 112, 120];
/// Floats between rows of sums in shared memory beside a tile's columns: threads write eight columns of four rows at a time.
const SUM_PADDING: u32 = 4;

impl Tile {
    /// Warpgroups that multiply, where A and B are swapped: the math warpgroup is the last.
    pub(crate) const fn multipliers(self) -> u32 {
        self.columns / SWAPPED_COLUMNS * K_PARTS
    }

    /// Whether warpgroups widen B in registers for this tile, where A and B are swapped.
    pub(super) fn swaps(self, mainloop: &Mainloop) -> bool {
        let [left, right] = mainloop.operands;
        // Boxes of few rows are not divided.
        let divides = self.cluster == Cluster::ONE || mainloop.short_rows == 0;
        SWAPPED.contains(&self)
            && divides
            && left == OperandLoad::TmaKMajor
            && right.is_widened()
            && mainloop.products == 1
            && mainloop.scaling.rows == 0
            && !(mainloop.ragged || mainloop.masked)
    }

    /// Stages that are filled at a time.
    pub(super) fn stages_at_once(self, mainloop: &Mainloop) -> u32 {
        if self.is_swapped() { 1 } else { mainloop.stages_at_once() }
    }
}

impl Sm90Schedule {
    /// Rows of A in a stage, where A and B are swapped.
    pub(crate) fn swapped_rows(&self) -> u32 {
        self.short_rows().unwrap_or(self.tile.rows)
    }

    /// Bytes of A's rows in such a stage for 64 elements of K.
    pub(crate) fn swapped_piece_bytes(&self) -> u32 {
        self.swapped_rows() * STAGE_ROW_BYTES
    }

    /// Bytes of narrow rows of B in such a stage: of half a span where K ends with one, and where many rows of A would leave room
    /// for few stages.
    pub(crate) fn swapped_span_bytes(&self) -> u32 {
        let halves = |mainloop: &Mainloop| {
            let four = mainloop.operands[1] == OperandLoad::Widened4;
            mainloop.half_spans || four && self.short_rows().is_none()
        };
        if self.needs.mainloop.as_ref().is_some_and(halves) { SPAN_BYTES / 2 } else { SPAN_BYTES }
    }

    /// Parts of such a stage's K with 64 elements each.
    fn swapped_pieces(&self, mainloop: &Mainloop) -> u32 {
        mainloop.stages_at_once() * self.swapped_span_bytes() / SPAN_BYTES
    }

    /// Bytes of such a stage.
    pub(super) fn swapped_stage_bytes(&self, mainloop: &Mainloop) -> u32 {
        let narrow = self.tile.columns * self.swapped_span_bytes();
        narrow + self.swapped_pieces(mainloop) * self.swapped_piece_bytes()
    }

    /// Such stages that are used: as many for every part of the spans, so that the slots of one are never another's.
    pub(crate) fn swapped_stages(&self) -> u32 {
        self.stages / K_PARTS * K_PARTS
    }

    /// Floats from a row of sums in shared memory to the next.
    pub(crate) fn swapped_row_floats(&self) -> u32 {
        self.tile.columns + SUM_PADDING
    }

    /// Bytes of the sums of a tile that the CTA of a slice leaves.
    pub(crate) fn sum_bytes(&self) -> u32 {
        let rows = if self.tile.is_swapped() { self.swapped_rows() } else { self.tile.rows };
        rows * self.tile.columns * 4
    }

    /// Steps of 64 elements of K that are loaded at a time: those of a span, where stages hold spans.
    pub(crate) fn steps_at_once(&self) -> u32 {
        let mainloop = self.needs.mainloop.as_ref().filter(|_| self.tile.is_swapped());
        mainloop.map_or(1, |mainloop| self.swapped_pieces(mainloop))
    }

    /// Whether a problem's K is made of whole spans, where stages hold those.
    pub(super) fn has_whole_spans(&self, problem: &Problem) -> bool {
        let depth = self.needs.mainloop.as_ref().map_or(1, Mainloop::depth);
        let span = self.steps_at_once() * depth;
        !self.tile.is_swapped() || problem.inner.is_multiple_of(span as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn registers_are_those_that_a_cta_starts_with() {
        const FILE: u32 = 65536;
        let multipliers = SWAPPED[0].multipliers();
        let threads = 128 * (multipliers + 1);
        let start = FILE / threads / 8 * 8;
        let [load, multiply, math] = SWAPPED_REGISTERS;
        assert!(load + (multipliers - 1) * multiply + math <= start * threads / 128);
        assert!(load <= start && multiply >= start && math >= start);
    }
}
