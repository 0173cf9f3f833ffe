//! The raster: the order in which work tiles are computed, in groups whose A or B stays in L2.
//!
//! It is a parameter of the kernel, not part of its code.

use crate::problem::Problem;
use crate::target::tile::{Cluster, Tile};

use super::needs::Needs;

/// Bytes of A or B of a group that stay in L2 beside the other operand, and the most clusters of a group: the best of
/// what was timed for ping-pong.
const GROUP_BYTES: usize = 10 << 20;
const MOST_CLUSTERS: usize = 16;

/// The order in which work tiles are computed.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Raster {
    /// The dim that groups advance along.
    pub(crate) order: RasterOrder,
    /// Clusters of a group along the other dim.
    pub(crate) group: u32,
}

/// The dim that groups of tiles advance along.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum RasterOrder {
    /// Groups of tiles side by side advance along M.
    AlongM,
    /// Groups of tiles one below the other advance along N.
    AlongN,
}

impl RasterOrder {
    /// Both.
    pub(crate) const ALL: [RasterOrder; 2] = [RasterOrder::AlongN, RasterOrder::AlongM];

    /// The word in a printed schedule.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            RasterOrder::AlongN => "along_n",
            RasterOrder::AlongM => "along_m",
        }
    }
}

/// Clusters of a whole group: clusters that far apart in the grid start on the same group of SMs, which then fetches what both
/// load once.
const WHOLE_GROUP: usize = 8;

impl RasterOrder {
    /// This order, or the other where only the other has whole groups.
    fn for_whole_groups(self, tile: Tile, needs: &Needs, problem: &Problem) -> RasterOrder {
        let rows = problem.rows.div_ceil((tile.rows * tile.cluster.rows()) as usize);
        let width = needs.width(tile) * tile.cluster.columns();
        let columns = problem.columns.div_ceil(width.max(1) as usize);
        match (rows < WHOLE_GROUP, columns < WHOLE_GROUP) {
            (true, false) => RasterOrder::AlongM,
            (false, true) => RasterOrder::AlongN,
            (true, true) | (false, false) => self,
        }
    }
}

impl Raster {
    /// What serves most problems: groups of clusters along the dim that a cluster is long on.
    pub(crate) const fn usual(cluster: Cluster) -> Raster {
        let wide = cluster.columns() > cluster.rows();
        Raster { order: if wide { RasterOrder::AlongM } else { RasterOrder::AlongN }, group: 8 }
    }

    /// What serves a problem.
    pub(super) fn of(tile: Tile, needs: &Needs, problem: &Problem) -> Raster {
        let usual = Raster::usual(tile.cluster);
        // Tiles of different rows share nothing: whole rows are read and written one behind the other.
        let Some(mainloop) = &needs.mainloop else {
            return Raster { order: RasterOrder::AlongN, group: 1 };
        };
        let usual = Raster { order: usual.order.for_whole_groups(tile, needs, problem), ..usual };
        // Tiles one below the other share B: L2 gives out less, and how groups are shaped matters little.
        if !tile.is_ping_pong() || tile.cluster.rows() > tile.cluster.columns() {
            return usual;
        }
        let shared = match usual.order {
            RasterOrder::AlongN => tile.rows * tile.cluster.rows(),
            RasterOrder::AlongM => tile.columns * tile.cluster.columns(),
        };
        let bytes =
            ((shared * mainloop.operand_bytes) as usize).saturating_mul(problem.inner.max(1));
        Raster { group: (GROUP_BYTES / bytes).clamp(2, MOST_CLUSTERS) as u32, ..usual }
    }

    /// Others that may serve better where a launch has few waves: groups along the other dim, and of half and twice as many.
    pub(crate) fn others(self) -> [Raster; 3] {
        let order = match self.order {
            RasterOrder::AlongN => RasterOrder::AlongM,
            RasterOrder::AlongM => RasterOrder::AlongN,
        };
        let group = |group: u32| Raster { group: group.clamp(1, Raster::MOST), ..self };
        [
            Raster { order, group: WHOLE_GROUP as u32 },
            group(self.group / 2),
            group(self.group.saturating_mul(2)),
        ]
    }

    /// More only makes the last group ragged.
    pub(super) const MOST: u32 = 1024;
}
