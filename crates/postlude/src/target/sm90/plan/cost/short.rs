//! A stage of a short launch, at the full clock: what its parts take adds up in part, for launches end before waits even out.
//!
//! Fitted to 15,000 times of 330 tiles on 119 products of random sizes, and to those that the model of long launches is
//! fitted to, as far as they are short.

use crate::problem::Problem;

use super::super::mainloop::Mainloop;
use super::super::operand::OperandLoad;
use super::super::schedule::Sm90Schedule;
use super::around::Around;

/// How much longer products take than wgmma alone: cooperative, ping-pong, ping-pong with one tile a CTA, and with one math
/// warpgroup a tile of 64 rows.
const COOPERATIVE: f64 = 1.27;
const PING_PONG: f64 = 1.05;
const ONE_TILE: f64 = 1.18;
const ALONE: f64 = 1.37;
/// wgmma of a 64-row block in a stage, and cycles of one: by its columns, but no fewer than its A takes from shared memory.
const INSTRUCTIONS: f64 = 4.0;
const COLUMN: f64 = 0.5;
const LEAST: f64 = 12.4;
const LEAST_COLUMN: f64 = 0.345;
/// Rows of stages that L2 gives out in a cycle, by what the distance between two of them is a multiple of, in bytes; and
/// cycles in which one reaches an SM, those of whole sectors first.
const L2_ROWS: [(usize, f64); 2] = [(64, 54.3), (32, 44.4)];
const L2_OTHER_ROWS: f64 = 29.6;
const SECTOR: usize = 32;
const ROW: [f64; 2] = [1.07, 1.43];
/// How much longer stages take where there are fewer than four: loads wait for products.
const FEW_STAGES: f64 = 1.06;
/// The same where more than two CTAs wait for one another in tile after tile.
const LARGE_CLUSTER: f64 = 1.06;
/// How many times less L2 gives out where a row is multicast to two CTAs, and to four.
const MULTICAST: [f64; 2] = [1.85, 3.43];

pub(super) const AROUND: Around = Around {
    pair: 1490.0,
    large_cluster: 970.0,
    finish: 0.0,
    finish_slot: 138.0,
    finish_column: 0.12,
    beside_products: 2.46,
    split_k: 810.0,
    split_k_element: 0.173,
    slices_meet: 720.0,
    slice_written: 0.327,
    slice_read: 0.204,
};

/// Cycles of one stage while this many CTAs run, with more than one tile each or not.
pub(super) fn step(
    (schedule, mainloop): (&Sm90Schedule, &Mainloop),
    problem: &Problem,
    (blocks, one_tile): (f64, bool),
) -> f64 {
    let tile = schedule.tile;
    let waits = if tile.rows == 64 {
        ALONE
    } else if tile.is_ping_pong() {
        PING_PONG
    } else {
        COOPERATIVE
    };
    let waits = if tile.is_ping_pong() && one_tile { waits * ONE_TILE } else { waits };
    let each = if mainloop.split { 3.0 } else { 1.0 };
    let columns = f64::from(tile.columns);
    let instruction = (columns * COLUMN).max(LEAST + columns * LEAST_COLUMN);
    let products = f64::from(tile.rows) / 64.0 * INSTRUCTIONS * instruction * each * waits;
    let sides = [
        (tile.rows, tile.cluster.columns(), problem.rows),
        (tile.columns, tile.cluster.rows(), problem.product_columns()),
    ];
    let (mut drawn, mut received) = (0.0, 0.0);
    for (load, (size, multicast, extent)) in mainloop.operands.into_iter().zip(sides) {
        let elements = if load == OperandLoad::TmaMnMajor { extent } else { problem.inner };
        let distance = elements * mainloop.operand_bytes as usize;
        let known = L2_ROWS.iter().find(|(multiple, _)| distance.is_multiple_of(*multiple));
        let rate = known.map_or(L2_OTHER_ROWS, |(_, rate)| *rate);
        let saved = match multicast {
            1 => 1.0,
            2 => MULTICAST[0],
            _ => MULTICAST[1],
        };
        drawn += f64::from(size) / saved * blocks / rate;
        received += f64::from(size) * ROW[usize::from(!distance.is_multiple_of(SECTOR))];
    }
    let few = if schedule.stages < 4 { FEW_STAGES } else { 1.0 };
    let large = if tile.cluster.blocks() > 2 && !one_tile { LARGE_CLUSTER } else { 1.0 };
    overlapped([products, drawn, received]) * few * large
}

/// What parts take together that hide one another in part: more than the longest of them, and less than their sum.
fn overlapped(parts: [f64; 3]) -> f64 {
    parts.map(|part| part * part * part.sqrt()).iter().sum::<f64>().powf(0.4)
}
