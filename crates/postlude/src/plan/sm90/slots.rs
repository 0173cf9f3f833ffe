//! The slots that tiles of the epilogue travel through, and the subtiles that they hold.
//!
//! In: a tile and what a graph needs. Out: choices, best first, each of which some shared memory may hold.

use super::{MOST_LINES, Needs, Tile, code_lines};

/// Columns of the narrowest subtile.
pub(super) const NARROWEST: u32 = 16;

/// What the epilogue has of shared memory.
#[derive(Clone, Copy)]
pub(super) struct Slots {
    pub(super) subtile: u32,
    pub(super) load_stages: u32,
    pub(super) store_stages: u32,
    /// Whether fewer bytes are on their way out than would be good.
    pub(super) few: bool,
}

/// Slots of the epilogue, best first.
pub(super) fn choices(tile: Tile, needs: &Needs) -> Vec<Slots> {
    let loads: &[u32] = if needs.has_tma_loads() { &[4, 2] } else { &[1] };
    let width = needs.width(tile);
    // In ping-pong with two warpgroups a tile, each has few registers and slots of its own.
    let widest = if tile.is_ping_pong() && tile.warpgroups_per_tile() > 1 { 32 } else { 64 };
    let long = |subtile: u32| code_lines(tile, needs, subtile) > MOST_LINES && subtile > 16;
    let fits =
        |subtile: &u32| *subtile <= widest && width.is_multiple_of(*subtile) && !long(*subtile);
    let subtiles = [64, 32, NARROWEST].into_iter().filter(fits);
    let usual = subtiles.clone().flat_map(|subtile| {
        // As many bytes on their way out, however narrow a slot is.
        let slots = move |load_stages: &u32| {
            let (load_stages, store_stages) = (*load_stages, 128 / subtile);
            Slots { subtile, load_stages, store_stages, few: false }
        };
        loads.iter().map(slots)
    });
    let least = loads[loads.len() - 1];
    let few = subtiles.filter(|subtile| *subtile < 64).map(|subtile| Slots {
        subtile,
        load_stages: least,
        store_stages: 2,
        few: true,
    });
    usual.chain(few).collect()
}
