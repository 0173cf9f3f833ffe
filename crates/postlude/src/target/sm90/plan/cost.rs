//! What a schedule costs: waves of tiles, each as long as its products, its bytes or its threads take.
//!
//! The constants are fitted to times on an H200. Only the order of schedules matters, so what all have alike is left out.
//! Short launches run at the full clock, and waits of every kind count in them; in long ones power limits the clock, and
//! the slowest part of a stage hides the others. Each has a model of its own for a stage: [`short`] and [`long`].

mod around;
mod long;
mod short;

use crate::problem::Problem;
use crate::target::tile::Tile;

use super::candidates::TALL;
use super::chip::Sm90;
use super::mainloop::Mainloop;
use super::row_copies;
use super::row_cost;
use super::schedule::Sm90Schedule;
use super::slots::SLOT_ROWS;
use super::streaming;
use around::Around;

/// Cycles between the last product of a tile and its end for each element that goes straight to memory.
const DIRECT_ELEMENT: f64 = 0.5;

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
    modelled(schedule, problem, chip, problem.rows <= FEW_ROWS)
}

/// The same as the model sees all numbers of rows alike, to choose tiles that they share.
pub(super) fn shared_cycles(schedule: &Sm90Schedule, problem: &Problem, chip: Sm90) -> f64 {
    modelled(schedule, problem, chip, false)
}

/// Cycles, as the model of such launches sees it.
fn modelled(schedule: &Sm90Schedule, problem: &Problem, chip: Sm90, few: bool) -> f64 {
    if let Some(needs) = &schedule.needs.rows {
        return row_cost::cycles(schedule, needs, problem, chip);
    }
    if schedule.needs.copied_bytes > 0 {
        return row_copies::cycles(schedule, problem);
    }
    let Some(mainloop) = &schedule.needs.mainloop else {
        let grid = schedule.grid(problem, chip);
        let begun = begun(schedule, &long::SMALL);
        return begun + waves(schedule, problem, chip) * streaming::tile(schedule, grid);
    };
    let of_tiles = |step: f64, around| tiles((schedule, mainloop), problem, chip, (step, around));
    let blocks = f64::from(schedule.grid(problem, chip));
    if !few && is_short(mainloop, problem) {
        let one_tile = waves(schedule, problem, chip) <= 1.0;
        let step = short::step((schedule, mainloop), problem, (blocks, one_tile));
        return of_tiles(step, &short::AROUND);
    }
    let around = if few || is_small(mainloop, problem) { &long::SMALL } else { &long::AROUND };
    let at = |products: f64| {
        let step = long::step((schedule, mainloop), (problem, few), blocks, products);
        of_tiles(step, around) / products
    };
    long::of_both_clocks(at) * tall(schedule.tile, problem)
}

/// What a tall tile takes of segments, in what this model counts: of long ones, which it has less to load for, and of short ones,
/// most of which do not fill it. As measured with 8 segments of 1024 rows, and with 64 of 128.
fn tall(tile: Tile, problem: &Problem) -> f64 {
    const LONG: f64 = 0.93;
    const SHORT: f64 = 1.1;
    let long = problem.rows >= 4 * tile.rows as usize * problem.batch;
    match (tile == TALL, long) {
        (false, _) => 1.0,
        (true, true) => LONG,
        (true, false) => SHORT,
    }
}

/// Whether a launch is over before power limits its clock, and TMA alone brings in its operands.
pub(super) fn is_short(mainloop: &Mainloop, problem: &Problem) -> bool {
    let even = !mainloop.ragged && !mainloop.masked;
    is_small(mainloop, problem) && !mainloop.is_written() && even
}

/// Whether a launch is over before power limits its clock.
fn is_small(mainloop: &Mainloop, problem: &Problem) -> bool {
    let size = problem.rows as f64 * problem.product_columns() as f64 * problem.inner as f64;
    let size = size * problem.batch.max(1) as f64 * f64::from(mainloop.products);
    size < MOST_SHORT
}

/// Products of the longest such launches: about 0.1 ms.
const MOST_SHORT: f64 = 4e10;

/// Cycles of all tiles whose stages take this many.
fn tiles(
    (schedule, mainloop): (&Sm90Schedule, &Mainloop),
    problem: &Problem,
    chip: Sm90,
    (step, around): (f64, &Around),
) -> f64 {
    let tile = schedule.tile;
    let waves = waves(schedule, problem, chip);
    // A segment has its part of K.
    let parts = if mainloop.ragged { problem.batch.max(1) } else { 1 };
    let inner = problem.inner.div_ceil(parts) as f64;
    let steps = (inner / f64::from(mainloop.depth())).ceil().max(1.0);
    let steps = (steps / f64::from(tile.cluster.split_k())).ceil();
    let multiplied = steps * step;
    let finished = finish(schedule, around);
    begun(schedule, around)
        + if schedule.split_k_slices > 1 {
            let whole = f64::from(schedule.data_parallel_waves);
            let slice = (steps / f64::from(schedule.split_k_slices)).ceil() * step;
            let cut = waves - whole;
            whole * (multiplied + finished) + cut * slice + sliced(schedule, cut, finished, around)
        } else if tile.is_ping_pong() && waves > 1.0 {
            // Two tiles are in flight; only the last one's epilogue is not hidden.
            let all = multiplied + finished * around.beside_products;
            waves * multiplied.max(all / f64::from(tile.tiles_in_flight())) + finished
        } else {
            waves * (multiplied + finished)
        }
}

/// Cycles until a slice's sums have arrived.
const SLICE_LATENCY: f64 = 800.0;

/// Cycles beside products where work tiles are slices of K: of most waves, the mean of CTAs with partial sums and with whole ones;
/// of the last, what a tile takes until its end.
fn sliced(schedule: &Sm90Schedule, waves: f64, finished: f64, around: &Around) -> f64 {
    let others = f64::from(schedule.split_k_slices - 1);
    let elements = f64::from(schedule.sum_bytes() / 4);
    let written = elements * around.slice_written;
    let read = elements * around.slice_read * others;
    // The few sums of few rows wait for one another all the same: as measured of weights that are widened in registers.
    let least = if schedule.tile.is_swapped() { SLICE_LATENCY * others } else { 0.0 };
    let read = read.max(least);
    let mean = (written * others + read + finished) / (others + 1.0);
    (waves - 1.0) * mean + written + around.slices_meet + read + finished
}

/// Cycles until a launch's first tile begins.
fn begun(schedule: &Sm90Schedule, around: &Around) -> f64 {
    match schedule.tile.cluster.blocks() {
        1 => 0.0,
        2 => around.pair,
        _ => around.large_cluster,
    }
}

/// Tiles of a CTA, one after the other.
fn waves(schedule: &Sm90Schedule, problem: &Problem, chip: Sm90) -> f64 {
    let running =
        f64::from(schedule.grid(problem, chip)) / f64::from(schedule.tile.cluster.blocks());
    (schedule.work_tiles(problem, chip) as f64 / running).ceil()
}

/// Cycles from the last product of a tile to its end.
fn finish(schedule: &Sm90Schedule, around: &Around) -> f64 {
    let tile = schedule.tile;
    let slots = tile.rows / SLOT_ROWS / tile.warpgroups_per_tile()
        * (schedule.width() / schedule.epilogue_tile);
    let slot = around.finish_slot + around.finish_column * f64::from(schedule.epilogue_tile);
    let others = f64::from(tile.cluster.split_k() - 1);
    let elements = f64::from(tile.rows * tile.columns);
    let met = if others > 0.0 { around.split_k } else { 0.0 };
    let gathered = met + elements * around.split_k_element * others;
    let direct =
        schedule.needs.epilogue_stores.iter().filter(|transfer| transfer.is_direct()).count();
    let stored = f64::from(tile.rows * schedule.width()) * direct as f64;
    around.finish + f64::from(slots) * slot + gathered + stored * DIRECT_ELEMENT
}
