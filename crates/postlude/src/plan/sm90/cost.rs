//! What a schedule costs: waves of tiles, each as long as its products or its bytes take.

use crate::problem::Problem;

use super::{STAGE_DEPTH, Sharing, Sm90, Sm90Schedule};

/// Multiply-adds of 16-bit operands that one SM does in a cycle.
const MULTIPLY_ADDS: f64 = 2048.0;
/// Bytes that one SM draws from L2 in a cycle when all do.
const L2_BYTES: f64 = 40.0;
/// Cycles between the last product of a tile and the first of the next: the epilogue that nothing hides.
const BETWEEN_TILES: f64 = 1500.0;
/// Bytes of output that one SM stores in a cycle.
const STORE_BYTES: f64 = 32.0;
/// What narrow instructions lose: an SM needs 128 columns at once to keep its tensor cores busy.
const FULL_WIDTH: f64 = 128.0;

/// Cycles for the whole problem, as the model sees it.
pub(super) fn cycles(schedule: &Sm90Schedule, problem: &Problem, chip: Sm90) -> f64 {
    let tile = schedule.tile;
    let clusters = f64::from(schedule.grid(problem, chip) / tile.cluster.blocks());
    let [rows, columns] = schedule.clusters(problem).map(|count| count as f64);
    let waves = (rows * columns * problem.batch as f64 / clusters).ceil();
    let steps = (problem.inner as f64 / f64::from(STAGE_DEPTH)).ceil();
    let (m, n) = (f64::from(tile.rows), f64::from(tile.columns));
    let narrow = (FULL_WIDTH / n).max(1.0) * if tile.consumers == 1 { 1.15 } else { 1.0 };
    let product = m * n * f64::from(STAGE_DEPTH) / MULTIPLY_ADDS * narrow;
    let loaded = m / f64::from(tile.cluster.columns()) + n / f64::from(tile.cluster.rows());
    let bytes = loaded * f64::from(STAGE_DEPTH) * 2.0 / L2_BYTES;
    let multiplied = steps * product.max(bytes);
    let finished = BETWEEN_TILES + m * n * 2.0 / STORE_BYTES;
    match tile.sharing {
        Sharing::Rows => waves * (multiplied + finished),
        // Hidden but for the last.
        Sharing::Tiles => waves * multiplied.max(finished / 2.0) + finished,
    }
}
