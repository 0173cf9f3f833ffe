//! What a tile costs in a launch without a product: the bytes that it moves, or what its threads compute of them.
//!
//! None of these constants is fitted. All tiles of a launch move the same bytes, so that their order depends on waves, on
//! edges, and on how well their threads hide latency.

use super::chip::Sm90;
use super::schedule::Sm90Schedule;
use super::slots::SLOT_ROWS;

/// The most bytes that one SM moves in a cycle.
const PROCESSOR_BYTES: f64 = 48.0;
/// Bytes of an element in a slot, and of one that moves directly between registers and memory.
const SLOT_ELEMENT: f64 = 2.0;
const DIRECT_BYTES: f64 = 3.0;
/// Instructions for an element beside those of its graph, and for each transfer that is direct.
const ELEMENT: f64 = 4.0;
const DIRECT: f64 = 6.0;
/// Elements for which an SM issues an instruction in a cycle, by its math warpgroups: few do not hide latency.
const ISSUED: [f64; 4] = [40.0, 70.0, 90.0, 100.0];
/// Cycles that each tile takes beside its elements, and each of its epilogue tiles, one behind the other.
const TILE: f64 = 300.0;
const EPILOGUE_TILE: f64 = 150.0;

/// Cycles of one tile while this many CTAs run.
pub(super) fn tile(schedule: &Sm90Schedule, blocks: u32) -> f64 {
    let (tile, needs) = (schedule.tile, &schedule.needs);
    let elements = f64::from(tile.rows * schedule.width());
    let transfers = needs.epilogue_loads.iter().chain(&needs.epilogue_stores);
    let direct = transfers.filter(|transfer| transfer.is_direct()).count() as f64;
    let slots = f64::from(needs.slots.loads + needs.slots.stores);
    let bytes = elements * (slots * SLOT_ELEMENT + direct * DIRECT_BYTES);
    let moved = bytes / PROCESSOR_BYTES.min(Sm90::MEMORY_BYTES / f64::from(blocks));
    let issued = ISSUED[(tile.math_warpgroups as usize).clamp(1, ISSUED.len()) - 1];
    let computed = elements * (ELEMENT + f64::from(needs.work) + direct * DIRECT) / issued;
    let epilogue_tiles = tile.rows / SLOT_ROWS / tile.warpgroups_per_tile()
        * (schedule.width() / schedule.epilogue_tile);
    moved.max(computed) + TILE + EPILOGUE_TILE * f64::from(epilogue_tiles)
}
