//! What a kernel whose threads hold rows costs: the bytes that it moves, the instructions of its threads, or what passes
//! through L1 and shared memory.
//!
//! The constants are fitted to times on an H200 of norms and losses whose rows have 256 to 16384 columns.

use crate::problem::Problem;

use super::chip::Sm90;
use super::row_needs::RowNeeds;
use super::row_work::executed;
use super::schedule::Sm90Schedule;
use super::{ranked, streamed, strips};

/// Bytes in flight for which an SM gets its part of what memory moves, and more for each pass, in which a CTA loads nothing.
const IN_FLIGHT: f64 = 32.0 * 1024.0;
const IN_PASS: f64 = 2.0 * 1024.0;
/// Instructions of an element for what each pass computes again.
const AGAIN: u32 = 2;
/// Instructions of a thread for each tile.
const TILE: f64 = 43.0;
/// How much of a CTA's own loads and computations do not overlap.
const IN_TURN: f64 = 0.7;
/// How much longer pieces of rows take than whole rows, for pieces of this many bytes.
const PIECE_BYTES: f64 = 16.0;
/// Cycles from a tile's first load to its last store.
const LATENCY: f64 = 500.0;

/// Cycles of a row kernel for the whole problem.
pub(super) fn cycles(
    schedule: &Sm90Schedule,
    needs: &RowNeeds,
    problem: &Problem,
    chip: Sm90,
) -> f64 {
    if schedule.ranks_rows() {
        return ranked::cycles(schedule, needs, problem, chip);
    }
    if schedule.tile.streams_rows() {
        return streamed::cycles(schedule, needs, problem, chip);
    }
    if schedule.tile.folds_strips() {
        return strips::cycles(schedule, needs, problem, chip);
    }
    let (tile, processors) = (schedule.tile, f64::from(chip.processors));
    let [along_rows, along_columns] = schedule.clusters(problem).map(|count| count as f64);
    let tiles = along_rows * along_columns * problem.batch as f64;
    let grid = f64::from(schedule.ctas * chip.processors).min(tiles);
    // CTAs of one tile follow each other without waiting for all.
    let waves = tiles / grid;
    let threads = f64::from(schedule.threads());
    // What lies beyond the edges is computed, but not moved.
    let again = if needs.keeps(tile) { 0 } else { AGAIN * needs.passes };
    let per_thread = f64::from(tile.row_elements() * (schedule.needs.work + again))
        + TILE
        + needs.pass_instructions(tile.threads_per_row());
    let resident = (grid / processors).max(1.0);
    let done = waves * resident;
    let l1 = needs.l1_cycles(done * f64::from(tile.rows * tile.columns), 0);
    let computed = executed(done * threads * per_thread, resident * threads / 32.0, l1);
    let sizes = [problem.batch, problem.rows, problem.product_columns()];
    let elements: f64 = sizes.into_iter().map(|size| size as f64).product();
    let inside = elements / (tiles * f64::from(tile.rows * tile.columns));
    let gathered = tile.rows * tile.columns * needs.gathered;
    let loaded = f64::from(schedule.ctas * (schedule.held_tile_bytes() + gathered));
    let wanted = IN_FLIGHT + IN_PASS * f64::from(needs.passes);
    let in_flight = if needs.loaded + needs.gathered == 0 {
        1.0
    } else {
        (loaded * inside / wanted).clamp(0.05, 1.0)
    };
    let idle = waves * grid / tiles;
    // Short pieces of long rows are far from each other.
    let columns = problem.product_columns() as f64;
    let moved_bytes = needs.moved + needs.gathered;
    let pieces = if f64::from(tile.columns) < columns {
        PIECE_BYTES / f64::from(tile.columns * moved_bytes)
    } else {
        0.0
    };
    let moved = elements * f64::from(moved_bytes) / (Sm90::MEMORY_BYTES * in_flight)
        * idle
        * (1.0 + pieces);
    // A CTA computes while others of its SM load.
    let overlapped = moved.max(computed) + IN_TURN / resident * moved.min(computed);
    // Memory is not busy both ways while the first tiles are loaded, and the last ones stored.
    let filling = grid * f64::from(schedule.held_tile_bytes()) / Sm90::MEMORY_BYTES;
    overlapped + filling + LATENCY
}
