//! The order in which tiles are walked: groups of them along one side, so that what they share stays in L2.
//!
//! It is a parameter of the kernel, not part of its code.

use crate::problem::Problem;

use super::{Cluster, Tile};

/// Bytes of what a group shares that stay in L2 beside what comes and goes, and the most clusters that are worth it: the
/// best of what was timed for ping-pong.
const GROUP_BYTES: usize = 10 << 20;
const MOST_CLUSTERS: usize = 16;

/// In which order tiles are walked.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Walk {
    /// The side along which tiles are grouped; a group is walked along the other one.
    pub grouped: Side,
    /// Clusters of a group.
    pub group: u32,
}

/// A side of the product.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Side {
    /// Tiles one below the other.
    Rows,
    /// Tiles side by side.
    Columns,
}

impl Side {
    /// Both.
    pub const ALL: [Side; 2] = [Side::Rows, Side::Columns];

    /// The word in a printed schedule.
    pub const fn name(self) -> &'static str {
        match self {
            Side::Rows => "rows",
            Side::Columns => "columns",
        }
    }
}

impl Walk {
    /// What serves most problems: groups of clusters along the side that a cluster is long on.
    pub const fn usual(cluster: Cluster) -> Walk {
        let wide = cluster.columns() > cluster.rows();
        Walk { grouped: if wide { Side::Columns } else { Side::Rows }, group: 8 }
    }

    /// What serves a problem.
    pub(super) fn of(tile: Tile, problem: &Problem) -> Walk {
        let usual = Walk::usual(tile.cluster);
        if !tile.is_ping_pong() {
            return usual;
        }
        let shared = match usual.grouped {
            Side::Rows => tile.rows * tile.cluster.rows(),
            Side::Columns => tile.columns * tile.cluster.columns(),
        };
        let bytes = (shared as usize * 2).saturating_mul(problem.inner.max(1));
        Walk { group: (GROUP_BYTES / bytes).clamp(2, MOST_CLUSTERS) as u32, ..usual }
    }

    /// More only makes the last group ragged.
    pub(super) const MOST: u32 = 1024;
}
