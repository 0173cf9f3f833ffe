//! Products of few rows: warps stream columns of B through rings of their own, and multiply them with `mma`.
//!
//! In: a tile and what a graph needs. Out: whether the tile suits it, and what the shared memory of its rings holds. A warp of a
//! CTA has a part of K and all of the tile's columns; it waits for no other until it has multiplied, so that as many bytes are
//! on their way as shared memory holds.
//! Invariant: a chunk is 64 bytes of each column, of which each of four lanes has 16, and the same K of each row of A.

use crate::problem::Problem;
use crate::target::tile::{Cluster, KernelSchedule, Tile};

use super::chip::Sm90;
use super::mainloop::Mainloop;
use super::needs::{Needs, SlotCounts};
use super::operand::{CHUNK_BYTES, OperandLoad};
use super::schedule::Sm90Schedule;

/// Such tiles.
pub(crate) const SKINNY: [Tile; 6] =
    [skinny(16), skinny(32), skinny(48), skinny(64), skinny(96), skinny(128)];

const fn skinny(columns: u32) -> Tile {
    let (rows, math_warpgroups, cluster) = (64, 1, Cluster::ONE);
    Tile { rows, columns, kernel: KernelSchedule::Skinny, math_warpgroups, cluster }
}

/// Warps of a CTA, each with a part of K.
pub(crate) const SKINNY_WARPS: u32 = 8;
/// Bytes of a column that a lane has of a chunk.
pub(crate) const PIECE_BYTES: u32 = 16;
/// Bytes of a piece of all lanes.
pub(crate) const PIECES_BYTES: u32 = 32 * PIECE_BYTES;
/// Columns and rows of A of one instruction.
pub(crate) const MMA_COLUMNS: u32 = 16;
pub(crate) const MMA_ROWS: u32 = 8;
/// Floats between rows of sums in shared memory beside a tile's columns: lanes write two rows of eight columns at a time.
const SUM_PADDING: u32 = 4;
/// Sums of a thread at most, those of a run of K counted twice.
const MOST_SUMS: u32 = 64;
/// Registers of a thread beside its sums and the addresses of its columns, and those of narrow elements.
const REGISTERS: u32 = 56;
const NARROW_REGISTERS: u32 = 24;
/// Those of an SM.
const FILE: u32 = 65536;
/// Words of a chunk that elements of a column share at most.
const MOST_WORDS: u32 = 8;

/// What a warp multiplies of a chunk.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Skinny {
    /// Bits of an element of B, and of A.
    pub(crate) bits: u32,
    pub(crate) row_bits: u32,
    /// Sixteens of columns, and eights of rows.
    pub(crate) blocks: u32,
    pub(crate) groups: u32,
    /// Words that elements of a column share.
    pub(crate) words: u32,
}

impl Skinny {
    /// K of a chunk.
    pub(crate) const fn depth(self) -> u32 {
        CHUNK_BYTES * 8 / self.bits
    }

    /// Bytes of a row of A in a chunk.
    pub(crate) const fn row_bytes(self) -> u32 {
        self.depth() * self.row_bits / 8
    }

    /// Pieces of a row of A that a lane has of a chunk.
    pub(crate) const fn row_pieces(self) -> u32 {
        self.row_bits / self.bits
    }

    /// Pieces that a lane has of a chunk: two of each block's columns, and those of each group's row.
    pub(crate) const fn pieces(self) -> u32 {
        2 * self.blocks + self.groups * self.row_pieces()
    }

    /// Columns.
    pub(crate) const fn columns(self) -> u32 {
        self.blocks * MMA_COLUMNS
    }

    /// Bytes of a chunk in a warp's ring.
    pub(crate) const fn chunk_bytes(self) -> u32 {
        self.pieces() * PIECES_BYTES + self.columns() * self.words * 4
    }

    /// Floats from a row of sums to the next, and of a warp's sums.
    pub(crate) const fn row_floats(self) -> u32 {
        self.columns() + SUM_PADDING
    }

    pub(crate) const fn sum_floats(self) -> u32 {
        self.groups * MMA_ROWS * self.row_floats()
    }

    /// CTAs whose threads' registers an SM has, where sums of runs are added to others or not.
    pub(super) fn ctas(self, scaled: bool) -> u32 {
        let narrow = if self.words > 0 { NARROW_REGISTERS } else { 0 };
        let registers = REGISTERS + narrow + self.sums(scaled) + 4 * self.blocks;
        FILE / (32 * SKINNY_WARPS * registers.next_multiple_of(8))
    }

    /// Sums of a thread, those of runs counted, too, where they are added to others.
    const fn sums(self, scaled: bool) -> u32 {
        self.blocks * self.groups * if scaled { 8 } else { 4 }
    }
}

impl Tile {
    /// Whether this tile's warps multiply such operands.
    pub(super) fn multiplies_few_rows(self, mainloop: &Mainloop) -> bool {
        let [left, right] = mainloop.operands;
        let by_vectors =
            |load: OperandLoad| matches!(load, OperandLoad::TmaKMajor | OperandLoad::VectorsKMajor);
        let uneven = mainloop.segmented || mainloop.ragged || mainloop.masked;
        let scaled = mainloop.scaling.count() > 0;
        let shape = mainloop.skinny(self);
        SKINNY.contains(&self)
            && matches!(mainloop.operand_bytes, 1 | 2)
            && self.columns.is_multiple_of(MMA_COLUMNS * mainloop.products)
            && mainloop.short_rows > 0
            && by_vectors(left)
            && (by_vectors(right) || right.is_widened())
            && !uneven
            && mainloop.scaling.rows == 0
            && shape.sums(scaled) <= MOST_SUMS
            && shape.words <= MOST_WORDS
    }
}

impl Mainloop {
    /// What a warp of such a tile multiplies of a chunk.
    pub(super) fn skinny(&self, tile: Tile) -> Skinny {
        Skinny {
            bits: self.operands[1].narrow_bits().unwrap_or(8 * self.operand_bytes),
            row_bits: 8 * self.operand_bytes,
            blocks: tile.columns / MMA_COLUMNS,
            groups: self.short_rows / MMA_ROWS,
            words: self.shared_words,
        }
    }
}

impl Needs {
    /// The same with operands that threads load.
    pub(super) fn by_vectors(&self) -> Option<Needs> {
        let mainloop = self.mainloop.as_ref()?;
        let operands = mainloop.operands.map(|load| match load {
            OperandLoad::TmaKMajor => OperandLoad::VectorsKMajor,
            load => load,
        });
        let mainloop = Some(Mainloop { operands, ..mainloop.clone() });
        let slots = SlotCounts { loads: 0, reusable: 0, ..self.slots };
        Some(Needs { mainloop, slots, ..self.clone() }.settled())
    }
}

impl Sm90Schedule {
    /// What a warp multiplies of a chunk, where warps stream columns of B.
    pub(crate) fn skinny(&self) -> Option<Skinny> {
        let mainloop = self.needs.mainloop.as_ref().filter(|_| self.tile.is_skinny())?;
        Some(mainloop.skinny(self.tile))
    }

    /// Bytes of the rings of all warps, where their sums meet, too.
    pub(super) fn skinny_bytes(&self, shape: Skinny) -> u32 {
        let rings = self.stages * SKINNY_WARPS * shape.chunk_bytes();
        // What lies behind them is swizzled.
        rings.max(SKINNY_WARPS * shape.sum_floats() * 4).next_multiple_of(1024)
    }
}

/// Cycles of a launch until its first bytes arrive, and beside the bytes that memory moves; and bytes that an SM takes in a
/// cycle. None is fitted.
const START: f64 = 2600.0;
const SM_BYTES: f64 = 50.0;

/// Cycles for the whole problem: what memory takes for all bytes once, or what SMs take with the rows of A that each tile reads.
pub(super) fn cycles(schedule: &Sm90Schedule, shape: Skinny, problem: &Problem, chip: Sm90) -> f64 {
    let grid = f64::from(schedule.grid(problem, chip));
    let tiles = schedule.work_tiles(problem, chip) as f64;
    let inner = problem.inner as f64;
    let columns = inner * f64::from(shape.columns() * shape.bits) / 8.0;
    let rows = inner * f64::from(shape.groups * MMA_ROWS * shape.row_bits) / 8.0;
    let processors = grid.min(f64::from(chip.processors));
    let memory = tiles * columns / Sm90::MEMORY_BYTES;
    let received = tiles * (columns + rows) / (processors * SM_BYTES);
    START + memory.max(received)
}
