//! The slots of C and D in shared memory, and the epilogue tiles that they hold.
//!
//! In: a tile and what a graph needs. Out: choices, best first, each of which some shared memory may hold.

use crate::target::tile::Tile;

use super::code::{MOST_LINES, code_lines};
use super::needs::Needs;

/// Rows of a slot: what one warpgroup's instruction computes.
pub(crate) const SLOT_ROWS: u32 = 64;
/// Columns of the narrowest epilogue tile.
pub(super) const NARROWEST: u32 = 16;

/// Stages of A and B, or slots of C or D; more hide nothing.
pub(super) const MOST_STAGES: u32 = 12;

/// What the epilogue has of shared memory.
#[derive(Clone, Copy)]
pub(super) struct Slots {
    pub(super) epilogue_tile: u32,
    pub(super) c_stages: u32,
    pub(super) d_stages: u32,
    /// Whether fewer bytes are being stored at a time than would be good.
    pub(super) few: bool,
}

/// C and D stages of 64 columns in a launch without a product, best first: shared memory has no stages to hold, and bytes
/// in flight are what such a launch is bound by.
const STREAMING: [[u32; 2]; 10] =
    [[12, 4], [8, 4], [12, 2], [6, 4], [8, 2], [6, 2], [4, 4], [4, 2], [2, 2], [2, 1]];

/// Slots of the epilogue, best first.
pub(super) fn choices(tile: Tile, needs: &Needs) -> Vec<Slots> {
    let width = needs.width(tile);
    // In ping-pong with two warpgroups a tile, each has few registers and slots of its own.
    let widest = if tile.is_ping_pong() && tile.warpgroups_per_tile() > 1 { 32 } else { 64 };
    let long = |epilogue_tile: u32| {
        code_lines(tile, needs, epilogue_tile) > MOST_LINES && epilogue_tile > 16
    };
    let fits = |epilogue_tile: &u32| {
        *epilogue_tile <= widest && width.is_multiple_of(*epilogue_tile) && !long(*epilogue_tile)
    };
    let epilogue_tiles: Vec<u32> = [64, 32, NARROWEST].into_iter().filter(fits).collect();
    if needs.mainloop.is_none() {
        return epilogue_tiles.iter().flat_map(|columns| streaming(*columns, needs)).collect();
    }
    let loads: &[u32] = if needs.has_tma_loads() { &[4, 2] } else { &[1] };
    let usual = epilogue_tiles.iter().flat_map(|epilogue_tile| {
        // As many bytes being stored at a time, however narrow a slot is.
        let slots = move |c_stages: &u32| {
            let (epilogue_tile, c_stages) = (*epilogue_tile, *c_stages);
            Slots { epilogue_tile, c_stages, d_stages: 128 / epilogue_tile, few: false }
        };
        loads.iter().map(slots)
    });
    let least = loads[loads.len() - 1];
    let narrow = epilogue_tiles.iter().copied().filter(|epilogue_tile| *epilogue_tile < 64);
    let few = narrow.map(|epilogue_tile| Slots {
        epilogue_tile,
        c_stages: least,
        d_stages: 2,
        few: true,
    });
    usual.chain(few).collect()
}

/// Slots of an epilogue tile of this many columns where no stages of A and B are beside them.
fn streaming(epilogue_tile: u32, needs: &Needs) -> Vec<Slots> {
    let slots = |[c_stages, d_stages]: [u32; 2]| {
        let c_stages = if needs.has_tma_loads() { c_stages } else { 1 };
        let d_stages = (d_stages * 64 / epilogue_tile).min(MOST_STAGES);
        Slots { epilogue_tile, c_stages, d_stages, few: false }
    };
    // While one epilogue tile is computed, all operands of the next should have slots.
    let (roomy, tight): (Vec<Slots>, Vec<Slots>) =
        STREAMING.into_iter().map(slots).partition(|slots| slots.c_stages >= 2 * needs.slots.loads);
    roomy.into_iter().chain(tight).collect()
}
