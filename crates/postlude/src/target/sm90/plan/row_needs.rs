//! What a kernel whose threads hold rows in registers has to hold, and how many such CTAs an SM has room for.

use crate::target::tile::{Cluster, Tile};

/// What a row kernel has to hold.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct RowNeeds {
    /// Columns side by side that a thread loads and stores at a time: 16 bytes of the widest tile, and N is a multiple.
    pub(crate) vector: u32,
    /// Bytes that all tile operands have for an element, and that they and tile outputs have.
    pub(crate) loaded: u32,
    pub(crate) moved: u32,
    /// Bytes of an element that are read from gathered rows in the same way.
    pub(crate) gathered: u32,
    /// Floats of an element that wait in registers while a pass over the row is finished, and those of them that are not
    /// computed again where the others would be too many.
    pub(crate) kept: u32,
    pub(crate) least: u32,
    /// Vectors along columns that are read.
    pub(crate) vectors: u32,
    /// Passes over a row before its elements are visited, and the floats of the one that folds most.
    pub(crate) passes: u32,
    pub(crate) words: u32,
    /// Columns of the rows that passes fold, all of which a tile has; 0 where there is no pass.
    pub(crate) columns: u32,
    /// What these are a multiple of: all columns of the tiles that share a row, where none lies beyond the edge; or 1.
    pub(crate) multiple: u32,
}

/// The most registers of a thread for values that could be computed again.
const MOST_KEPT: u32 = 40;
/// Registers of a thread beside the elements that wait: addresses, counters, values of a row, what is being computed; the
/// least that ptxas compiles softmax of a row in. More for vectors along columns: of a chunk, and for each vector of a
/// thread beside an edge; and for long computations: each instruction beyond this many.
const REGISTERS: u32 = 32;
const ALONG_COLUMNS: u32 = 4;
const EDGE: u32 = 3;
const SHORT_WORK: u32 = 24;
/// Registers and threads of an SM, and the most registers of a thread and CTAs of an SM.
const FILE: u32 = 65536;
pub(super) const MOST_THREADS: u32 = 2048;
/// Shared memory of an SM that each CTA takes beside its own.
pub(super) const CTA_BYTES: u32 = 1024;
const MOST_REGISTERS: u32 = 255;
pub(super) const MOST_CTAS: u32 = 8;

/// Words of partial results that a pass may have in registers: warps read those of all others.
const MOST_WORDS: u32 = 8;

impl RowNeeds {
    /// How many of a row's largest elements are listed, where those are too many for registers.
    pub(crate) fn ranked(&self) -> Option<u32> {
        (self.words > MOST_WORDS).then_some(self.words / 2)
    }

    /// Whether a kernel for these can be used where `other` is needed.
    pub(super) fn covers(&self, other: &RowNeeds) -> bool {
        let RowNeeds { columns, multiple, .. } = *other;
        self.columns >= columns
            && columns.is_multiple_of(self.multiple)
            && RowNeeds { columns, multiple, ..*self } == *other
    }

    /// Whether values of elements wait in registers rather than being computed again from what was loaded.
    pub(crate) fn keeps(&self, tile: Tile) -> bool {
        tile.row_elements().saturating_mul(self.kept) <= MOST_KEPT
    }

    /// Registers of a thread for the elements of a row that it holds.
    fn waiting(&self, tile: Tile) -> u32 {
        let elements = tile.row_elements();
        let (kept, least) = (self.kept, self.least);
        let words = elements.saturating_mul(self.loaded + self.gathered).div_ceil(4);
        match (tile.streams_rows(), self.keeps(tile)) {
            (true, _) => 0,
            (false, true) => words.max(elements.saturating_mul(kept)),
            // What is computed again is computed from what was loaded.
            (false, false) if least < kept => words.saturating_add(elements.saturating_mul(least)),
            (false, false) => words.max(elements.saturating_mul(least)),
        }
    }

    /// Registers of a thread, as estimated.
    fn registers(&self, tile: Tile, work: u32) -> u32 {
        if tile.folds_strips() {
            return self.strip_registers(tile) + work.saturating_sub(SHORT_WORK);
        }
        let waiting = self.waiting(tile);
        // Beyond an edge each vector has an address of its own in each vector along columns.
        let pieces = if self.multiple == 1 { tile.row_elements() / self.vector } else { 0 };
        let edges = if tile.streams_rows() { ALONG_COLUMNS } else { EDGE * pieces };
        let beside = edges * self.vectors.min(2) + work.saturating_sub(SHORT_WORK);
        REGISTERS.saturating_add(waiting).saturating_add(beside)
    }

    /// CTAs of an SM; 0 where no registers hold the tile.
    pub(super) fn ctas(&self, tile: Tile, work: u32) -> u32 {
        let (registers, threads) = (self.registers(tile, work), 128 * tile.math_warpgroups);
        if registers > MOST_REGISTERS {
            return 0;
        }
        (FILE / (registers * threads)).min(MOST_THREADS / threads).min(MOST_CTAS)
    }

    /// All columns of the tiles that share a row.
    pub(super) fn side_by_side(tile: Tile) -> u32 {
        tile.columns * tile.cluster.blocks()
    }

    /// Columns of the longest rows of a tile.
    pub(super) fn longest(&self, tile: Tile) -> u32 {
        match tile.cluster {
            _ if tile.streams_rows() => self.longest_streamed(tile),
            Cluster::ONE if self.ranked().is_none() => tile.columns,
            _ => 0,
        }
    }

    /// Whether a tile's threads hold its rows.
    pub(super) fn fit(&self, tile: Tile, work: u32) -> bool {
        self.longest(tile) >= self.columns.max(1)
            && tile.row_elements() > 0
            && tile.row_elements().is_multiple_of(self.vector)
            && (self.columns > 0 || tile.columns.is_power_of_two())
            && self.ctas(tile, work) > 0
    }
}
