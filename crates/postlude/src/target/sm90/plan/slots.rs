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

/// What the epilogue has of shared memory.
#[derive(Clone, Copy)]
pub(super) struct Slots {
    pub(super) epilogue_tile: u32,
    pub(super) c_stages: u32,
    pub(super) d_stages: u32,
    /// Whether fewer bytes are being stored at a time than would be good.
    pub(super) few: bool,
}

/// Slots of the epilogue, best first.
pub(super) fn choices(tile: Tile, needs: &Needs) -> Vec<Slots> {
    let loads: &[u32] = if needs.has_tma_loads() { &[4, 2] } else { &[1] };
    let width = needs.width(tile);
    // In ping-pong with two warpgroups a tile, each has few registers and slots of its own.
    let widest = if tile.is_ping_pong() && tile.warpgroups_per_tile() > 1 { 32 } else { 64 };
    let long = |epilogue_tile: u32| {
        code_lines(tile, needs, epilogue_tile) > MOST_LINES && epilogue_tile > 16
    };
    let fits = |epilogue_tile: &u32| {
        *epilogue_tile <= widest && width.is_multiple_of(*epilogue_tile) && !long(*epilogue_tile)
    };
    let epilogue_tiles = [64, 32, NARROWEST].into_iter().filter(fits);
    let usual = epilogue_tiles.clone().flat_map(|epilogue_tile| {
        // As many bytes being stored at a time, however narrow a slot is.
        let slots = move |c_stages: &u32| {
            let (c_stages, d_stages) = (*c_stages, 128 / epilogue_tile);
            Slots { epilogue_tile, c_stages, d_stages, few: false }
        };
        loads.iter().map(slots)
    });
    let least = loads[loads.len() - 1];
    let few = epilogue_tiles
        .filter(|epilogue_tile| *epilogue_tile < 64)
        .map(|epilogue_tile| Slots { epilogue_tile, c_stages: least, d_stages: 2, few: true });
    usual.chain(few).collect()
}
