//! A stage of a long launch, where power limits the clock: as long as its slowest part takes.
//!
//! Fitted to a hundred tiles on P1 to P8 and 120 problems of random sizes. Products are slower than in short bursts at the full
//! clock, L2 is not: a schedule has to do well at both clocks.

use crate::problem::Problem;

use super::super::mainloop::Mainloop;
use super::super::operand::{OperandLoad, STAGE_ROW_BYTES};
use super::super::schedule::Sm90Schedule;
use super::around::Around;

/// Bytes of a row of A, each multiplied with one of B, that one SM takes in a cycle: 2048 elements of 16 bits.
const MULTIPLIED_BYTES: f64 = 4096.0;
/// How much longer products take than they would without waits and at the full clock: cooperative, ping-pong, and with
/// one math warpgroup.
const COOPERATIVE: f64 = 1.3;
const PING_PONG: f64 = 1.27;
const ALONE: f64 = 1.0;
/// What products take at the full clock, as a part of what they take where power limits it: fitted to a ping-pong tile of
/// 128 x 128, which L2 limits at the full clock alone.
const FULL_CLOCK: f64 = 0.855;
/// How much the full clock counts: as much as the large products need whose ping-pong tile loses there.
const FULL_CLOCK_WEIGHT: f64 = 0.25;
/// Cycles in which one row of a stage reaches an SM, and which a stage takes at least.
const ROW: f64 = 1.86;
const SHORTEST: f64 = 135.0;
/// Rows of stages that L2 gives out in a cycle, by what the distance between two of them is a multiple of, in bytes.
const L2_ROWS: [(usize, f64); 2] = [(64, 41.0), (32, 37.5)];
const L2_OTHER_ROWS: f64 = 31.0;
const L2_STAGGERED_ROWS: f64 = 18.3;
/// The same of memory: 4.2 TB/s at 1.75 GHz.
const MEMORY_ROWS: f64 = 18.8;
/// Cycles in which threads bring in a row of a stage: from where copies put it, by one load warpgroup or by two, or
/// element by element.
const STAGGERED_ROW: [f64; 2] = [6.5, 6.1];
const ELEMENTS_ROW: f64 = 40.0;
/// The same for 16 bytes at a time. A guess that is not fitted.
const VECTORS_ROW: f64 = 8.0;
/// The same for rows that load warps widen, where all of them have as much to do; and more where factors multiply sums.
const WIDENED_ROW: f64 = 6.3;
const WIDENED_SCALED: f64 = 3.0;
/// The same where warpgroups widen rows of 4 or 8 bits in registers and multiply them from there, with factors of sums, and for
/// each row of A. These and those above are fitted to 16 and 64 rows of four layers, weights of 4 and 8 bits and of 8-bit floats.
const SWAPPED_ROW: [f64; 2] = [1.7, 3.0];
const SWAPPED_SCALED: f64 = 0.7;
const SWAPPED_OF_A: f64 = 0.02;
/// Load warps that widen, and rows of 4-bit elements that one widens at a time.
const WIDENING_WARPS: u32 = 7;
const WIDENED_UNIT: u32 = 16;
/// How much longer tiles take with rows beyond the edge, their own or those of CTAs of their cluster: as measured with 1 and
/// with 64 rows.
const IDLE_ROWS: f64 = 1.4;

/// Clusters of more than two CTAs lose in every wave of a long launch what is counted here at its start.
pub(super) const AROUND: Around = Around {
    pair: 2040.0,
    large_cluster: 10_000.0,
    finish: 170.0,
    finish_slot: 210.0,
    finish_column: 4.9,
    beside_products: 1.2,
    split_k: 870.0,
    split_k_element: 0.163,
    slices_meet: 2200.0,
    slice_written: 0.15,
    slice_read: 0.1,
};

/// The same of launches that are not long, but have few rows or operands that threads bring in.
pub(super) const SMALL: Around = Around { large_cluster: 1190.0, ..AROUND };

/// A mean of both clocks, in cycles of the slower products, of cycles where products take some part of their time.
pub(super) fn of_both_clocks(at: impl Fn(f64) -> f64) -> f64 {
    at(1.0) * (1.0 - FULL_CLOCK_WEIGHT) + at(FULL_CLOCK) * FULL_CLOCK_WEIGHT
}

/// Rows of stages that are this many bytes apart, that L2 gives out in a cycle.
fn l2_rows(distance: usize) -> f64 {
    let known = L2_ROWS.iter().find(|(multiple, _)| distance.is_multiple_of(*multiple));
    known.map_or(L2_OTHER_ROWS, |(_, rate)| *rate)
}

/// Cycles of one stage while this many CTAs run and products take this part of their time.
pub(super) fn step(
    (schedule, mainloop): (&Sm90Schedule, &Mainloop),
    (problem, few): (&Problem, bool),
    blocks: f64,
    part: f64,
) -> f64 {
    let tile = schedule.tile;
    let waits = match (tile.is_ping_pong(), tile.math_warpgroups) {
        (_, 1) => ALONE,
        (false, _) => COOPERATIVE,
        (true, _) => PING_PONG,
    };
    let each = if mainloop.split { 3.0 } else { 1.0 };
    let rows = if tile.is_swapped() { schedule.swapped_rows() } else { tile.rows };
    let products =
        f64::from(rows * tile.columns * STAGE_ROW_BYTES) / MULTIPLIED_BYTES * each * waits * part;
    let products_of_a = mainloop.products as usize;
    let sides = [
        (tile.rows, tile.cluster.columns(), problem.rows),
        (tile.columns, tile.cluster.rows(), problem.product_columns() * products_of_a),
    ];
    let (mut drawn, mut read, mut threads) = (0.0, 0.0_f64, 0.0);
    let scaled = mainloop.scaling.count() > 0;
    let once = few && problem.rows <= (tile.rows * tile.cluster.rows()) as usize;
    for (place, (load, (size, multicast, extent))) in
        mainloop.operands.into_iter().zip(sides).enumerate()
    {
        let narrow = load.narrow_bits().map_or(1.0, |bits| f64::from(bits) / 16.0);
        let elements = if load == OperandLoad::TmaMnMajor { extent } else { problem.inner };
        let distance = elements * mainloop.operand_bytes as usize;
        let rate = match load {
            OperandLoad::Staggered => L2_STAGGERED_ROWS,
            OperandLoad::TmaKMajor
            | OperandLoad::TmaMnMajor
            | OperandLoad::ElementsKMajor
            | OperandLoad::ElementsMnMajor
            | OperandLoad::VectorsKMajor
            | OperandLoad::Widened4
            | OperandLoad::Widened8 => l2_rows(distance),
        };
        let size = if place == 0 { schedule.short_rows().unwrap_or(size) } else { size };
        let rows = f64::from(size) / f64::from(multicast) * blocks;
        drawn += rows / rate;
        // What no other row of tiles reads again comes from memory.
        if place == 1 && once {
            read = rows / MEMORY_ROWS * narrow;
        }
        threads += f64::from(size)
            * match load {
                OperandLoad::TmaKMajor | OperandLoad::TmaMnMajor => 0.0,
                OperandLoad::Staggered => STAGGERED_ROW[schedule.loaders() as usize - 1],
                OperandLoad::ElementsKMajor | OperandLoad::ElementsMnMajor => ELEMENTS_ROW,
                OperandLoad::VectorsKMajor => VECTORS_ROW,
                OperandLoad::Widened4 | OperandLoad::Widened8 if tile.is_swapped() => {
                    let of_a = f64::from(schedule.swapped_rows()) * SWAPPED_OF_A;
                    let scaled = if scaled { SWAPPED_SCALED } else { 0.0 };
                    SWAPPED_ROW[usize::from(load == OperandLoad::Widened8)] + scaled + of_a
                }
                OperandLoad::Widened4 | OperandLoad::Widened8 => {
                    let unit = load.narrow_bits().map_or(1, |bits| WIDENED_UNIT * 4 / bits);
                    let scaled = if scaled { WIDENED_SCALED } else { 0.0 };
                    widened(size, unit) * (WIDENED_ROW + scaled)
                }
            };
    }
    let loaded = schedule.short_rows().unwrap_or(tile.rows);
    let received = f64::from(loaded + tile.columns) * ROW;
    let longest = products.max(received).max(drawn).max(read).max(threads).max(SHORTEST);
    // CTAs below the last row of tiles only load, and TMA takes long for rows beyond the edge.
    let idle = tile.cluster.rows() > 1 && problem.rows <= tile.rows as usize;
    let beyond = 2 * problem.rows <= tile.rows as usize && schedule.short_rows().is_none();
    if few && (idle || beyond) { longest * IDLE_ROWS } else { longest }
}

/// What rows take on average where load warps widen this many at a time, in what they take where all warps have as much to do.
fn widened(rows: u32, unit: u32) -> f64 {
    let rounds = (rows / unit).div_ceil(WIDENING_WARPS);
    f64::from(rounds * WIDENING_WARPS * unit) / f64::from(rows)
}
