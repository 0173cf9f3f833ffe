//! What a schedule costs: waves of tiles, each as long as its products, its bytes or its threads take.
//!
//! The constants are fitted to times of every tile of the table on an H200: P1 to P8 and 43 problems of random sizes. Only
//! the order of schedules matters, so what all have alike is left out.

use crate::problem::Problem;

use super::{Feed, STAGE_DEPTH, Sharing, Sm90, Sm90Schedule};

/// Multiply-adds of 16-bit operands that one SM does in a cycle.
const MULTIPLY_ADDS: f64 = 2048.0;
/// How much longer a stage takes where one warpgroup waits for its own products.
const ALONE: f64 = 4.5;
/// Bytes that one SM draws from L2 in a cycle when all do.
const L2_BYTES: f64 = 52.0;
/// Bytes of a line of L2, and how many more are drawn where a tile's rows do not begin with one.
const LINE_BYTES: usize = 128;
const BETWEEN_LINES: f64 = 1.75;
/// Cycles in which threads bring in a row of a stage, from where copies put it or element by element.
const STAGGERED_ROW: f64 = 5.0;
const ELEMENTS_ROW: f64 = 40.0;
/// Cycles between the last product of a tile and its last byte, and for each of its elements.
const FINISH: f64 = 4150.0;
const FINISH_ELEMENT: f64 = 0.005;
/// Cycles until the warpgroups of a CTA take turns.
const TURNS: f64 = 700.0;
/// Cycles until the CTAs of a cluster have met.
const CLUSTER: f64 = 4300.0;
/// Cycles until the parts of a sum have met twice, and for each element of a part.
const PARTS: f64 = 2000.0;
const PART_ELEMENT: f64 = 0.0625;

/// Cycles for the whole problem, as the model sees it.
pub(super) fn cycles(schedule: &Sm90Schedule, problem: &Problem, chip: Sm90) -> f64 {
    let tile = schedule.tile;
    let (cluster, blocks) = (tile.cluster, f64::from(tile.cluster.blocks()));
    let running = f64::from(schedule.grid(problem, chip)) / blocks;
    let [rows, columns] = schedule.clusters(problem).map(|count| count as f64);
    let waves = (rows * columns * problem.batch as f64 / running).ceil();
    let steps = (problem.inner as f64 / f64::from(STAGE_DEPTH)).ceil().max(1.0);
    let multiplied = (steps / f64::from(cluster.parts())).ceil() * step(schedule, problem);
    let elements = f64::from(tile.rows * tile.columns);
    let parts = f64::from(cluster.parts() - 1);
    let gathered = if parts > 0.0 { PARTS + parts * elements * PART_ELEMENT } else { 0.0 };
    let finished = FINISH + elements * FINISH_ELEMENT + gathered;
    let begun = if blocks > 1.0 { CLUSTER } else { 0.0 };
    begun
        + match tile.sharing {
            Sharing::Rows => waves * (multiplied + finished),
            // Hidden but for the last.
            Sharing::Tiles => waves * multiplied.max(finished / 2.0) + finished + TURNS,
        }
}

/// Cycles of one stage.
fn step(schedule: &Sm90Schedule, problem: &Problem) -> f64 {
    let tile = schedule.tile;
    let depth = f64::from(STAGE_DEPTH);
    let alone = if tile.consumers == 1 { ALONE } else { 1.0 };
    let product = f64::from(tile.rows * tile.columns) * depth / MULTIPLY_ADDS * alone;
    let sides = [
        (tile.rows, tile.cluster.columns(), problem.rows),
        (tile.columns, tile.cluster.rows(), problem.product_columns()),
    ];
    let (mut bytes, mut threads) = (0.0, 0.0);
    for (feed, (size, sharers, extent)) in schedule.needs.operands.into_iter().zip(sides) {
        let line = if feed == Feed::Outer { extent } else { problem.inner } * 2;
        let between = if line.is_multiple_of(LINE_BYTES) { 1.0 } else { BETWEEN_LINES };
        bytes += f64::from(size / sharers) * depth * 2.0 * between;
        threads += f64::from(size)
            * match feed {
                Feed::Inner | Feed::Outer => 0.0,
                Feed::Staggered => STAGGERED_ROW,
                Feed::InnerElements | Feed::OuterElements => ELEMENTS_ROW,
            };
    }
    product.max(bytes / L2_BYTES).max(threads)
}
