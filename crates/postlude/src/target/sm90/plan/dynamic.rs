//! Which schedules have a dynamic tile scheduler: those whose tiles take unlike times.

use super::mainloop::Mainloop;
use super::schedule::Sm90Schedule;

/// Numbers of tiles that are published at a time: the tile that is loaded, two that are multiplied or stored, and the next.
pub(crate) const DYNAMIC_SLOTS: u32 = 4;
/// Bytes of a slot: a full barrier, an empty one, and the number.
const SLOT_BYTES: u32 = 8 + 8 + 4;
/// Bytes of the counter in the workspace that tiles are taken from.
const COUNTER_BYTES: u64 = 16;

impl Sm90Schedule {
    /// Whether a cluster takes its next tile when it has loaded one, and not the same ones in every launch. Partial results
    /// of reductions are counted by tiles in the order of a static scheduler, and so are slices of K.
    pub(crate) fn is_dynamic(&self) -> bool {
        let uneven = |mainloop: &Mainloop| {
            (mainloop.segmented || mainloop.ragged || mainloop.masked) && !mainloop.is_written()
        };
        self.needs.mainloop.as_ref().is_some_and(uneven)
            && !self.needs.folds.any()
            && !self.tile.is_swapped()
            && self.tile.cluster.split_k() == 1
            && self.split_k_slices == 1
    }

    /// Bytes of the slots that numbers of tiles are published in.
    pub(crate) fn dynamic_bytes(&self) -> u32 {
        if self.is_dynamic() { DYNAMIC_SLOTS * SLOT_BYTES } else { 0 }
    }

    /// Bytes of the counter that tiles are taken from. It is zero whenever no kernel runs.
    pub(crate) fn counter_bytes(&self) -> u64 {
        if self.is_dynamic() { COUNTER_BYTES } else { 0 }
    }

    /// Warps of a CTA that are told which tiles come: the one that loads A and B, those that load tile operands, and math warps.
    pub(crate) fn told_warps(&self) -> u32 {
        let tile = self.tile;
        let operands = match self.c_bytes() {
            0 => 0,
            _ => tile.math_warpgroups / self.served_warpgroups(),
        };
        1 + operands + 4 * tile.math_warpgroups
    }

    /// Math warpgroups whose tile operands one load warp loads: one, or all of a tile where there are more math warpgroups
    /// than such warps.
    pub(crate) fn served_warpgroups(&self) -> u32 {
        if self.tile.math_warpgroups < 4 { 1 } else { self.tile.warpgroups_per_tile() }
    }
}
