//! A warpgroup's place among those that multiply.

use postlude_ptx::kernel::{Kernel, Reg};
use postlude_ptx::target::Sm90a;
use postlude_ptx::types::U32;

use crate::plan::sm90::Tile;

/// A warpgroup that multiplies, its team, and its number there.
#[derive(Clone, Copy)]
pub(super) struct Seat<'k> {
    pub(super) warpgroup: Reg<'k, U32>,
    pub(super) team: Reg<'k, U32>,
    pub(super) member: Reg<'k, U32>,
}

impl<'k> Seat<'k> {
    pub(super) fn new(k: Kernel<'k, Sm90a>, tile: Tile, warpgroup: Reg<'k, U32>) -> Seat<'k> {
        let (team, member) = match (tile.teams, tile.sharers()) {
            (1, _) => (k.imm(0), warpgroup),
            (_, 1) => (warpgroup, k.imm(0)),
            (_, sharers) => {
                let team = warpgroup / sharers;
                (team, warpgroup - team * sharers)
            }
        };
        Seat { warpgroup, team, member }
    }

    /// The warpgroup's own barrier.
    pub(super) fn barrier(self) -> Reg<'k, U32> {
        self.warpgroup + 1
    }
}
