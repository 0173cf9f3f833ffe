//! The index of a math warpgroup: in its CTA, in the order of ping-pong, and in its tile.

use postlude_ptx::kernel::{Kernel, Reg};
use postlude_ptx::target::Architecture;
use postlude_ptx::types::U32;

use crate::target::tile::{KernelSchedule, Tile};

/// The index of a math warpgroup.
#[derive(Clone, Copy)]
pub(super) struct WarpgroupIndex<'k> {
    pub(super) in_cta: Reg<'k, U32>,
    /// Which of the CTA's tiles in flight it computes: 0, or in ping-pong 0 or 1.
    pub(super) order: Reg<'k, U32>,
    /// Among the warpgroups of its tile.
    pub(super) in_tile: Reg<'k, U32>,
}

impl<'k> WarpgroupIndex<'k> {
    pub(super) fn new<C: Architecture>(k: Kernel<'k, C>, tile: Tile, in_cta: Reg<'k, U32>) -> Self {
        let (order, in_tile) = match (tile.kernel, tile.warpgroups_per_tile()) {
            (
                KernelSchedule::Cooperative
                | KernelSchedule::Swapped
                | KernelSchedule::Rows
                | KernelSchedule::StreamedRows
                | KernelSchedule::Strips
                | KernelSchedule::Elements,
                _,
            ) => (k.imm(0), in_cta),
            (KernelSchedule::PingPong, 1) => (in_cta, k.imm(0)),
            (KernelSchedule::PingPong, per_tile) => {
                let order = in_cta / per_tile;
                (order, in_cta - order * per_tile)
            }
        };
        WarpgroupIndex { in_cta, order, in_tile }
    }

    /// The warpgroup's own barrier.
    pub(super) fn barrier(self) -> Reg<'k, U32> {
        self.in_cta + 1
    }
}
