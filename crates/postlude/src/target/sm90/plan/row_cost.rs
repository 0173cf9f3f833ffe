//! What a kernel whose threads hold rows costs: the bytes that it moves, or the instructions of its threads.
//!
//! None of these constants is fitted: they order tiles by bytes in flight, by waves and by what lies beyond edges.

use crate::problem::Problem;

use super::chip::Sm90;
use super::row_needs::RowNeeds;
use super::schedule::Sm90Schedule;
use super::{streamed, strips};

/// Bytes in flight for which an SM gets its part of what memory moves.
const IN_FLIGHT: f64 = 32.0 * 1024.0;
/// Bytes more for each pass, in which a CTA loads nothing.
const IN_PASS: f64 = 12.0 * 1024.0;
/// Instructions of an element beside those of its graph, and of a thread for each tile and pass.
const ELEMENT: f64 = 3.0;
const TILE: f64 = 60.0;
const PASS: f64 = 40.0;
/// Elements for which an SM issues an instruction in a cycle.
const ISSUED: f64 = 100.0;
/// Warps of an SM that hide the latency of instructions.
const WARPS: f64 = 20.0;
/// How much of what takes less time does not overlap with what takes more.
const NOT_OVERLAPPED: f64 = 0.2;
/// How much longer pieces of rows take than whole rows, for pieces of this many bytes, and tiles of nothing.
const PIECE_BYTES: f64 = 16.0;
const BEYOND: f64 = 0.2;
/// Cycles from a tile's first load to its last store, and of each pass.
const LATENCY: f64 = 600.0;
const PASS_LATENCY: f64 = 150.0;

/// Cycles of a row kernel for the whole problem.
pub(super) fn cycles(
    schedule: &Sm90Schedule,
    needs: &RowNeeds,
    problem: &Problem,
    chip: Sm90,
) -> f64 {
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
    let waves = if schedule.is_one_tile_a_cta() { waves } else { waves.ceil() };
    let threads = f64::from(schedule.threads());
    let per_thread = f64::from(tile.row_elements()) * (f64::from(schedule.needs.work) + ELEMENT)
        + TILE
        + PASS * f64::from(needs.passes);
    // What lies beyond the edges is computed, but not moved.
    let resident = (grid.max(processors) / processors).ceil();
    let hidden = (resident * threads / 32.0 / WARPS).min(1.0);
    let computed = waves * resident * threads * per_thread / (ISSUED * hidden);
    let sizes = [problem.batch, problem.rows, problem.product_columns()];
    let elements: f64 = sizes.into_iter().map(|size| size as f64).product();
    let inside = elements / (tiles * f64::from(tile.rows * tile.columns));
    let ahead = schedule.c_stages.max(2) - 1;
    let loaded = f64::from(schedule.ctas * ahead * schedule.held_stage_bytes());
    let wanted = IN_FLIGHT + IN_PASS * f64::from(needs.passes);
    let in_flight =
        if needs.loaded == 0 { 1.0 } else { (loaded * inside / wanted).clamp(0.05, 1.0) };
    let idle = waves * grid / tiles;
    // Short pieces of long rows are far from each other, and vectors beyond the last column keep their threads idle.
    let columns = problem.product_columns() as f64;
    let pieces = if f64::from(tile.columns) < columns {
        PIECE_BYTES / f64::from(tile.columns * needs.moved)
    } else {
        0.0
    };
    let slowed = idle * (1.0 + pieces + BEYOND * (1.0 - inside));
    let moved = elements * f64::from(needs.moved) / (Sm90::MEMORY_BYTES * in_flight) * slowed;
    let overlapped = moved.max(computed) + NOT_OVERLAPPED * moved.min(computed);
    // Memory is not busy both ways while the first tiles are loaded, and the last ones stored.
    let filling = grid * f64::from(ahead * schedule.held_stage_bytes()) / Sm90::MEMORY_BYTES;
    overlapped + filling + LATENCY + PASS_LATENCY * f64::from(needs.passes)
}
