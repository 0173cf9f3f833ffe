//! What a schedule costs: waves of tiles, each as long as its products, its bytes or its threads take.
//!
//! The constants are fitted to times of a hundred tiles on an H200: P1 to P8 and 120 problems of random sizes. Only the
//! order of schedules matters, so what all have alike is left out. Products are slower where power limits the clock than
//! in short bursts at the full clock, L2 is not: a schedule has to do well in both.

use crate::problem::Problem;

use super::chip::Sm90;
use super::mainloop::Mainloop;
use super::operand::{OperandLoad, STAGE_ROW_BYTES};
use super::row_cost;
use super::schedule::Sm90Schedule;
use super::slots::SLOT_ROWS;
use super::streaming;

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
const L2_OTHER_ROWS: f64 = 28.5;
const L2_STAGGERED_ROWS: f64 = 18.3;
/// The same of memory: 4.2 TB/s at 1.75 GHz.
const MEMORY_ROWS: f64 = 18.8;
/// Cycles in which threads bring in a row of a stage: from where copies put it, by one load warpgroup or by two, or
/// element by element.
const STAGGERED_ROW: [f64; 2] = [6.5, 6.1];
const ELEMENTS_ROW: f64 = 40.0;
/// The same for 16 bytes at a time. A guess that is not fitted.
const VECTORS_ROW: f64 = 8.0;
/// The same for rows that load warps widen, where all of them have as much to do. A guess that is not fitted.
const WIDENED_ROW: f64 = 3.0;
/// The same where warpgroups widen them in registers and multiply them from there. A guess that is not fitted.
const SWAPPED_ROW: f64 = 1.5;
/// Load warps that widen, and rows of 4-bit elements that one widens at a time.
const WIDENING_WARPS: u32 = 7;
const WIDENED_UNIT: u32 = 16;
/// How much longer tiles take with rows beyond the edge, their own or those of CTAs of their cluster: as measured with 1 and
/// with 64 rows.
const IDLE_ROWS: f64 = 1.4;
/// Cycles between the last product of a tile and its last byte: in all, for each slot, and for each of its columns.
const FINISH: f64 = 170.0;
const FINISH_SLOT: f64 = 210.0;
const FINISH_COLUMN: f64 = 4.9;
/// The same for each element that goes straight to memory.
const DIRECT_ELEMENT: f64 = 0.5;
/// How much longer that takes while another warpgroup multiplies.
const BESIDE_PRODUCTS: f64 = 1.2;
/// Cycles until the CTAs of a cluster have synchronised at the start of a launch: of two, and of more.
const PAIR: f64 = 2040.0;
const LARGE_CLUSTER: f64 = 1190.0;
/// Cycles of the two cluster barriers of a split K, and for each element of a partial sum.
const SPLIT_K: f64 = 870.0;
const SPLIT_K_ELEMENT: f64 = 0.163;

/// Cycles from the last partial sum of a slice of K to the CTA that adds them, and for each element that is written and that
/// is read again.
const SLICES_MEET: f64 = 2200.0;
const SLICE_WRITTEN: f64 = 0.15;
const SLICE_READ: f64 = 0.1;

/// Cycles of a tile for each byte of a thread that its registers do not hold: a word is stored and loaded again. A guess
/// that is not fitted.
const SPILLED_BYTE: f64 = 16.0;

/// Cycles for the whole problem, where a thread has this many bytes that its registers do not hold.
pub(crate) fn with_spills(
    schedule: &Sm90Schedule,
    problem: &Problem,
    chip: Sm90,
    spilled: u32,
) -> f64 {
    let spills = waves(schedule, problem, chip) * f64::from(spilled) * SPILLED_BYTE;
    cycles(schedule, problem, chip) + spills
}

/// As many rows are few: tiles are chosen for them alone, and the model knows more of them.
pub(super) const FEW_ROWS: usize = 64;

/// Cycles for the whole problem, as the model sees it.
pub(super) fn cycles(schedule: &Sm90Schedule, problem: &Problem, chip: Sm90) -> f64 {
    both_clocks(schedule, problem, chip, problem.rows <= FEW_ROWS)
}

/// The same as the model sees all numbers of rows alike, to choose tiles that they share.
pub(super) fn shared_cycles(schedule: &Sm90Schedule, problem: &Problem, chip: Sm90) -> f64 {
    both_clocks(schedule, problem, chip, false)
}

/// A mean of both clocks, in cycles of the slower products.
fn both_clocks(schedule: &Sm90Schedule, problem: &Problem, chip: Sm90, few: bool) -> f64 {
    if let Some(needs) = &schedule.needs.rows {
        return row_cost::cycles(schedule, needs, problem, chip);
    }
    let Some(mainloop) = &schedule.needs.mainloop else {
        let grid = schedule.grid(problem, chip);
        return begun(schedule) + waves(schedule, problem, chip) * streaming::tile(schedule, grid);
    };
    let at =
        |products: f64| cycles_at((schedule, mainloop), (problem, few), chip, products) / products;
    at(1.0) * (1.0 - FULL_CLOCK_WEIGHT) + at(FULL_CLOCK) * FULL_CLOCK_WEIGHT
}

/// The same where products take this part of their time.
fn cycles_at(
    (schedule, mainloop): (&Sm90Schedule, &Mainloop),
    (problem, few): (&Problem, bool),
    chip: Sm90,
    products: f64,
) -> f64 {
    let tile = schedule.tile;
    let cluster = tile.cluster;
    let blocks = f64::from(schedule.grid(problem, chip));
    let waves = waves(schedule, problem, chip);
    // A segment has its part of K.
    let parts = if mainloop.ragged { problem.batch.max(1) } else { 1 };
    let inner = problem.inner.div_ceil(parts) as f64;
    let steps = (inner / f64::from(mainloop.depth())).ceil().max(1.0);
    let steps = (steps / f64::from(cluster.split_k())).ceil();
    // CTAs below the last row of tiles only load, and TMA takes long for rows beyond the edge.
    let rows = tile.rows as usize;
    let idle = cluster.rows() > 1 && problem.rows <= rows;
    let beyond = 2 * problem.rows <= rows && schedule.short_rows().is_none();
    let waits = if few && (idle || beyond) { IDLE_ROWS } else { 1.0 };
    let step = step((schedule, mainloop), (problem, few), blocks, products) * waits;
    let multiplied = steps * step;
    let finished = finish(schedule);
    begun(schedule)
        + if schedule.split_k_slices > 1 {
            let whole = f64::from(schedule.data_parallel_waves);
            let slice = (steps / f64::from(schedule.split_k_slices)).ceil() * step;
            let cut = waves - whole;
            whole * (multiplied + finished) + cut * slice + sliced(schedule, cut, finished)
        } else if tile.is_ping_pong() {
            // Two tiles are in flight; only the last one's epilogue is not hidden.
            let all = multiplied + finished * BESIDE_PRODUCTS;
            waves * multiplied.max(all / f64::from(tile.tiles_in_flight())) + finished
        } else {
            waves * (multiplied + finished)
        }
}

/// Cycles beside products where work tiles are slices of K: of most waves, the mean of CTAs with partial sums and with whole ones;
/// of the last, what a tile takes until its end.
fn sliced(schedule: &Sm90Schedule, waves: f64, finished: f64) -> f64 {
    let others = f64::from(schedule.split_k_slices - 1);
    let elements = f64::from(schedule.tile.rows * schedule.tile.columns);
    let (written, read) = (elements * SLICE_WRITTEN, elements * SLICE_READ * others);
    let mean = (written * others + read + finished) / (others + 1.0);
    (waves - 1.0) * mean + written + SLICES_MEET + read + finished
}

/// Cycles until a launch's first tile begins.
fn begun(schedule: &Sm90Schedule) -> f64 {
    match schedule.tile.cluster.blocks() {
        1 => 0.0,
        2 => PAIR,
        _ => LARGE_CLUSTER,
    }
}

/// Tiles of a CTA, one after the other.
fn waves(schedule: &Sm90Schedule, problem: &Problem, chip: Sm90) -> f64 {
    let running =
        f64::from(schedule.grid(problem, chip)) / f64::from(schedule.tile.cluster.blocks());
    (schedule.work_tiles(problem, chip) as f64 / running).ceil()
}

/// Cycles from the last product of a tile to its end.
fn finish(schedule: &Sm90Schedule) -> f64 {
    let tile = schedule.tile;
    let slots = tile.rows / SLOT_ROWS / tile.warpgroups_per_tile()
        * (schedule.width() / schedule.epilogue_tile);
    let slot = FINISH_SLOT + FINISH_COLUMN * f64::from(schedule.epilogue_tile);
    let others = f64::from(tile.cluster.split_k() - 1);
    let elements = f64::from(tile.rows * tile.columns);
    let met = if others > 0.0 { SPLIT_K } else { 0.0 };
    let gathered = met + elements * SPLIT_K_ELEMENT * others;
    let direct =
        schedule.needs.epilogue_stores.iter().filter(|transfer| transfer.is_direct()).count();
    let stored = f64::from(tile.rows * schedule.width()) * direct as f64;
    FINISH + f64::from(slots) * slot + gathered + stored * DIRECT_ELEMENT
}

/// Cycles of one stage while this many CTAs run and products take this part of their time.
fn step(
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
    let once = few && problem.rows <= (tile.rows * tile.cluster.rows()) as usize;
    for (place, (load, (size, multicast, extent))) in
        mainloop.operands.into_iter().zip(sides).enumerate()
    {
        let narrow = load.narrow_bits().map_or(1.0, |bits| f64::from(bits) / 16.0);
        let elements = if load == OperandLoad::TmaMnMajor { extent } else { problem.inner };
        let distance = elements * mainloop.operand_bytes as usize;
        let known = L2_ROWS.iter().find(|(multiple, _)| distance.is_multiple_of(*multiple));
        let rate = match load {
            OperandLoad::Staggered => L2_STAGGERED_ROWS,
            OperandLoad::TmaKMajor
            | OperandLoad::TmaMnMajor
            | OperandLoad::ElementsKMajor
            | OperandLoad::ElementsMnMajor
            | OperandLoad::VectorsKMajor
            | OperandLoad::Widened4
            | OperandLoad::Widened8 => known.map_or(L2_OTHER_ROWS, |(_, rate)| *rate),
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
                OperandLoad::Widened4 | OperandLoad::Widened8 if tile.is_swapped() => SWAPPED_ROW,
                OperandLoad::Widened4 => widened(size, WIDENED_UNIT) * WIDENED_ROW,
                OperandLoad::Widened8 => widened(size, WIDENED_UNIT / 2) * WIDENED_ROW,
            };
    }
    let rows = schedule.short_rows().unwrap_or(tile.rows);
    let received = f64::from(rows + tile.columns) * ROW;
    products.max(received).max(drawn).max(read).max(threads).max(SHORTEST)
}

/// What rows take on average where load warps widen this many at a time, in what they take where all warps have as much to do.
fn widened(rows: u32, unit: u32) -> f64 {
    let rounds = (rows / unit).div_ceil(WIDENING_WARPS);
    f64::from(rounds * WIDENING_WARPS * unit) / f64::from(rows)
}
