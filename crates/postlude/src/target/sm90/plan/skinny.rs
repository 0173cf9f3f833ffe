//! Products of few rows: warps stream columns of B through rings of their own, and multiply them with `mma`.
//!
//! In: a tile and what a graph needs. Out: whether the tile suits it, and what the shared memory of its rings holds. A warp of a
//! CTA has 32 of the tile's columns and a part of K; those that have the same part share the rows of A, and wait for no others
//! until they have multiplied.
//! Invariant: a chunk is 128 bytes of each column: less of a line at a time costs a sixth of the bandwidth.

use crate::problem::Problem;
use crate::target::tile::{Cluster, KernelSchedule, Tile};

use super::chip::Sm90;
use super::mainloop::Mainloop;
use super::needs::{Needs, SlotCounts};
use super::operand::{CHUNK_BYTES, OperandLoad};
use super::schedule::Sm90Schedule;

/// Such tiles.
pub(crate) const SKINNY: [Tile; 3] = [skinny(32), skinny(64), skinny(128)];

const fn skinny(columns: u32) -> Tile {
    let (rows, math_warpgroups, cluster) = (64, 1, Cluster::ONE);
    Tile { rows, columns, kernel: KernelSchedule::Skinny, math_warpgroups, cluster }
}

/// Warps of a CTA, and columns of each.
pub(crate) const SKINNY_WARPS: u32 = 8;
pub(crate) const WARP_COLUMNS: u32 = 32;
/// Bytes of one copy.
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
/// Registers of a thread beside its sums, and those of narrow elements.
const REGISTERS: u32 = 72;
const NARROW_REGISTERS: u32 = 32;
/// Those of an SM.
const FILE: u32 = 65536;
/// Words of a chunk that elements of a column share at most.
const MOST_WORDS: u32 = 16;

/// What a CTA multiplies of a chunk.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Skinny {
    /// Bits of an element of B, and of A.
    pub(crate) bits: u32,
    pub(crate) row_bits: u32,
    /// Warps side by side along columns.
    pub(crate) across: u32,
    /// Eights of rows.
    pub(crate) groups: u32,
    /// Words that elements of a column share.
    pub(crate) words: u32,
}

impl Skinny {
    /// K of a chunk.
    pub(crate) const fn depth(self) -> u32 {
        CHUNK_BYTES * 8 / self.bits
    }

    /// Parts of K: warps that have the same columns.
    pub(crate) const fn parts(self) -> u32 {
        SKINNY_WARPS / self.across
    }

    /// Columns of a tile.
    pub(crate) const fn columns(self) -> u32 {
        self.across * WARP_COLUMNS
    }

    /// Rows of A.
    pub(crate) const fn rows(self) -> u32 {
        self.groups * MMA_ROWS
    }

    /// Bytes of a row of A in a chunk.
    pub(crate) const fn row_bytes(self) -> u32 {
        self.depth() * self.row_bits / 8
    }

    /// Bytes of the rows of A in a chunk, and of a warp's columns with what their elements share.
    pub(crate) const fn rows_bytes(self) -> u32 {
        self.rows() * self.row_bytes()
    }

    pub(crate) const fn warp_bytes(self) -> u32 {
        WARP_COLUMNS * (CHUNK_BYTES + self.words * 4)
    }

    /// Bytes of a stage: the rows of all parts of K, and behind them the columns of all warps.
    pub(crate) const fn stage_bytes(self) -> u32 {
        self.parts() * self.rows_bytes() + SKINNY_WARPS * self.warp_bytes()
    }

    /// Floats from a row of sums to the next, and of a part of K.
    pub(crate) const fn row_floats(self) -> u32 {
        self.columns() + SUM_PADDING
    }

    pub(crate) const fn part_floats(self) -> u32 {
        self.rows() * self.row_floats()
    }

    /// CTAs whose threads' registers an SM has, where sums of runs are added to others or not.
    pub(super) fn ctas(self, scaled: bool) -> u32 {
        let narrow = if self.words > 0 { NARROW_REGISTERS } else { 0 };
        let registers = REGISTERS + narrow + self.sums(scaled);
        FILE / (32 * SKINNY_WARPS * registers.next_multiple_of(8))
    }

    /// Sums of a thread, those of runs counted, too, where they are added to others.
    const fn sums(self, scaled: bool) -> u32 {
        WARP_COLUMNS / MMA_COLUMNS * self.groups * if scaled { 8 } else { 4 }
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
    /// What a CTA of such a tile multiplies of a chunk.
    pub(super) fn skinny(&self, tile: Tile) -> Skinny {
        Skinny {
            bits: self.operands[1].narrow_bits().unwrap_or(8 * self.operand_bytes),
            row_bits: 8 * self.operand_bytes,
            across: tile.columns / WARP_COLUMNS,
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
    /// What a CTA multiplies of a chunk, where warps stream columns of B.
    pub(crate) fn skinny(&self) -> Option<Skinny> {
        let mainloop = self.needs.mainloop.as_ref().filter(|_| self.tile.is_skinny())?;
        Some(mainloop.skinny(self.tile))
    }

    /// Bytes of the rings of all warps, where their sums meet, too.
    pub(super) fn skinny_bytes(&self, shape: Skinny) -> u32 {
        let rings = self.stages * shape.stage_bytes();
        // What lies behind them is swizzled.
        rings.max(shape.parts() * shape.part_floats() * 4).next_multiple_of(1024)
    }

    /// Bytes of the sums of a tile that the CTA of a slice leaves.
    pub(crate) fn sum_bytes(&self) -> u32 {
        if self.tile.is_swapped() {
            return self.swapped_rows() * self.tile.columns * 4;
        }
        let of_shape = |shape: Skinny| shape.rows() * shape.columns() * 4;
        self.skinny().map_or(self.tile.sum_bytes(), of_shape)
    }
}

/// Cycles of a launch until its first bytes arrive and behind the last ones, of a tile, and of adding up slices.
const START: f64 = 3400.0;
const SLICES: f64 = 1200.0;
/// Bytes that an SM takes in a cycle, and that are on their way to one for which it does.
const SM_BYTES: f64 = 36.0;
const IN_FLIGHT: f64 = 64.0 * 1024.0;
/// Cycles of a warp for a chunk of 16-bit elements, and for each bit less.
const CHUNK: f64 = 130.0;
const NARROWER: f64 = 40.0;

/// Cycles for the whole problem: what memory takes for all bytes once, or what SMs take with the rows of A that each tile reads.
pub(super) fn cycles(schedule: &Sm90Schedule, shape: Skinny, problem: &Problem, chip: Sm90) -> f64 {
    let grid = f64::from(schedule.grid(problem, chip));
    let work = schedule.work_tiles(problem, chip) as f64;
    let slices = f64::from(schedule.split_k_slices);
    let chunks = (problem.inner as f64 / f64::from(shape.depth()) / slices).ceil();
    let bytes = chunks * f64::from(shape.columns() * CHUNK_BYTES);
    let rows = chunks * f64::from(shape.rows_bytes());
    let processors = grid.min(f64::from(chip.processors));
    let resident = (grid / processors).ceil();
    let waves = (work / grid).ceil();
    // A processor that has fewer CTAs than the others idles at the end.
    let under_way = resident * f64::from((schedule.stages - 1) * SKINNY_WARPS * shape.warp_bytes());
    let speed = (under_way / IN_FLIGHT).min(1.0) * processors / f64::from(chip.processors);
    let memory = work * bytes / (Sm90::MEMORY_BYTES * speed);
    let received = waves * resident * (bytes + rows) / SM_BYTES;
    let warp_chunks = (chunks / f64::from(shape.parts())).ceil();
    let narrower = f64::from(shape.row_bits - shape.bits) / f64::from(shape.row_bits) * 16.0;
    let computed = waves * warp_chunks * f64::from(shape.groups).sqrt() * (CHUNK + NARROWER * narrower);
    let sliced = if slices > 1.0 { SLICES } else { 0.0 };
    START + sliced + memory.max(received).max(computed)
}
