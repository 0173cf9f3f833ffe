//! Strips of columns: folds along rows, each strip of columns by several CTAs that have a share of the rows.
//!
//! In: what a program folds, and the sizes of a problem. Out: strips and units, the CTAs that share a strip's rows; and what that
//! costs. Invariant: units depend on the schedule and the problem alone, so that results have the same bits whatever the grid,
//! and no thread adds more terms one after the other than bounds allow.

use crate::graph::{Axes, Kind, Output};
use crate::lower::{Batches, Reduction, ReductionScope, TileProgram};
use crate::problem::Problem;
use crate::target::tile::{Cluster, KernelSchedule, Tile};

use super::chip::Sm90;
use super::row_needs::RowNeeds;
use super::schedule::Sm90Schedule;

/// Rows that a CTA of 256 threads loads side by side, and columns of a strip.
pub(super) const STRIP_TILES: [Tile; 4] =
    [strip(8, 256), strip(16, 128), strip(16, 256), strip(32, 64)];

const fn strip(rows: u32, columns: u32) -> Tile {
    let (kernel, cluster) = (KernelSchedule::Strips, Cluster::ONE);
    Tile { rows, columns, kernel, math_warpgroups: 2, cluster }
}

/// Rows of a thread that are loaded at a time.
pub(crate) const STRIP_ROWS: u32 = 4;
/// Rows of a thread at most: bounds allow chains of 4096 roundings.
const MOST_FOLDED: u32 = 2048;
/// Strips at most that leave partial results of rows: sums of more need compensation.
const MOST_STRIPS: usize = 1024;
/// Registers of a thread beside partial results, loads and values along columns; and those that gather partial results, with more
/// for each word. Fitted to what ptxas takes without a spill.
const REGISTERS: u32 = 30;
const GATHERING: u32 = 72;
const GATHERED_WORD: u32 = 10;

/// Cycles from a launch's first load to its last store, and of a round of partial results that are gathered.
const LATENCY: f64 = 3000.0;
const GATHERED: f64 = 900.0;
/// Words of the workspace that a thread gathers at a time.
const AT_ONCE: f64 = 8.0;
/// Bytes in flight for which an SM gets its part of what memory moves.
const IN_FLIGHT: f64 = 40.0 * 1024.0;
/// How much longer rows of strips take than whole rows, for rows of this many bytes.
const PIECE_BYTES: f64 = 8.0;
/// Instructions of an element beside those of its graph, those that a tile's threads would take to combine its columns, and
/// elements for which an SM issues one in a cycle.
const ELEMENT: f64 = 3.0;
const COMBINING: u32 = 8;
const ISSUED: f64 = 100.0;

/// What a strip's results are: vectors along columns, where all that a program does is to fold columns whole, some of them rows
/// whole beside them, and to compute vectors from that; or scalars, where it folds all elements.
pub(crate) fn strip_results(program: &TileProgram) -> Option<Kind> {
    let graph = program.graph();
    let kinds = || program.reductions.iter().map(|one| one.scope.kind);
    let kind = kinds().find(|kind| *kind != Kind::AlongRows)?;
    let is_one =
        |other: Kind| other == kind || (kind, other) == (Kind::AlongColumns, Kind::AlongRows);
    let folds = |one: &Reduction| {
        let whole = ReductionScope { kind: one.scope.kind, batches: Batches::Each };
        let of_elements = one.is_of_elements() && !one.repeated && !one.is_pick();
        of_elements && one.scope == whole && is_one(whole.kind)
    };
    let follows = |output: &Output| {
        graph.space().axes(&output.dims).map(Axes::kind).is_some_and(is_one)
            && program.after_reductions[output.value.index()]
            && program.output_run(output) == 1
            && !program.is_shared(output)
    };
    let suits = matches!(kind, Kind::AlongColumns | Kind::Scalar)
        && graph.space().batch.is_empty()
        && program.row_passes.is_empty()
        && program.reductions.iter().all(folds)
        && graph.outputs().iter().all(follows);
    suits.then_some(kind)
}

/// Whether rows that are folded beside columns have few enough partial results, one of each strip.
pub(super) fn folds_few_strips(program: &TileProgram, problem: &Problem) -> bool {
    let narrowest = STRIP_TILES.iter().map(|tile| tile.columns).min().unwrap_or(1);
    let strips = problem.product_columns().div_ceil(narrowest as usize);
    strips <= MOST_STRIPS || program.reductions_of(Kind::AlongRows).next().is_none()
}

impl RowNeeds {
    /// Registers of a thread that folds a strip, as estimated: partial results of its columns, rows that are loaded, values along
    /// columns.
    pub(super) fn strip_registers(&self, tile: Tile) -> u32 {
        let loaded = STRIP_ROWS * self.loaded / 4;
        let held = tile.row_elements() * (self.words + self.vectors + loaded);
        (REGISTERS + held * 7 / 8).max(GATHERING + GATHERED_WORD * self.words)
    }
}

impl Sm90Schedule {
    /// Units of all strips that run at a time; the kernel divides them among strips as `strip_units` does.
    pub(crate) fn most_strip_units(&self) -> u32 {
        self.ctas * Sm90::H200.processors
    }

    /// Rows of a unit at least, and at most.
    pub(crate) fn strip_share(&self) -> [u32; 2] {
        [STRIP_ROWS, MOST_FOLDED].map(|rows| rows * self.tile.rows)
    }

    /// CTAs that share a strip's rows, and strips.
    pub(super) fn strip_units(&self, problem: &Problem) -> [u64; 2] {
        let strips = (problem.product_columns() as u64).div_ceil(u64::from(self.tile.columns));
        let at_once = u64::from(self.most_strip_units()) / strips.max(1);
        let [most, least] =
            self.strip_share().map(|rows| (problem.rows as u64).div_ceil(u64::from(rows)));
        [at_once.max(1).min(most).max(least), strips]
    }

    /// Bytes through which a CTA's warps combine what they folded, behind the flag that says whether it was the last.
    pub(super) fn strip_bytes(&self) -> u32 {
        let words = self.needs.rows.map_or(0, |rows| rows.words);
        16 + words * self.threads() / 32 * self.tile.columns * 4
    }
}

/// Cycles of a kernel of strips for the whole problem. None of the constants is fitted.
pub(super) fn cycles(
    schedule: &Sm90Schedule,
    needs: &RowNeeds,
    problem: &Problem,
    chip: Sm90,
) -> f64 {
    let (tile, processors) = (schedule.tile, f64::from(chip.processors));
    let [units, strips] = schedule.strip_units(problem).map(|count| count as f64);
    let ctas = f64::from(schedule.grid(problem, chip));
    let waves = (units * strips / ctas).ceil();
    let (rows, columns) = (problem.rows as f64, problem.product_columns() as f64);
    let turn = f64::from(tile.rows * STRIP_ROWS);
    let turns = (rows / (units * turn)).ceil();
    let inside = rows * columns / (units * turns * turn * strips * f64::from(tile.columns));
    let loaded = f64::from(needs.loaded);
    let under_way = ctas / processors * turn * f64::from(tile.columns) * loaded * inside;
    let in_flight = (under_way / IN_FLIGHT).clamp(0.02, 1.0);
    let pieces = 1.0 + PIECE_BYTES / (f64::from(tile.columns) * loaded);
    let idle = waves * ctas / (units * strips);
    let moved = rows * columns * loaded * pieces * idle / (Sm90::MEMORY_BYTES * in_flight);
    let combining = if schedule.needs.folds.columns > 0 { COMBINING } else { 0 };
    // Lanes combine a row by shuffles.
    let folds = schedule.needs.folds;
    let lanes = f64::from(folds.rows * 2 * tile.threads_per_row().ilog2());
    let work = f64::from(schedule.needs.work.saturating_sub(combining))
        + ELEMENT
        + lanes / f64::from(tile.row_elements());
    let resident = (ctas / processors).ceil();
    let all = waves * turns * resident * turn * f64::from(tile.columns);
    let computed = all * work / ISSUED;
    let groups = f64::from(schedule.threads() / tile.columns);
    let of_columns = units * f64::from(folds.columns) / (groups * AT_ONCE);
    let of_all = units * strips * f64::from(folds.scalars);
    let of_all = of_all / (f64::from(schedule.threads()) * AT_ONCE);
    let of_rows = (rows / (units * f64::from(schedule.threads()))).ceil()
        * (strips * f64::from(folds.rows) / AT_ONCE).ceil();
    let gathered = (of_columns.ceil() + of_all.ceil() + of_rows) * GATHERED;
    // A CTA computes while others of its SM load.
    LATENCY + moved.max(computed) + moved.min(computed) / resident + gathered
}
