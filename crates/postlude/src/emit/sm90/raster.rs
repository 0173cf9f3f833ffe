//! Which tile a cluster works on: groups of rows walked together, so that their columns of B stay in L2.

use postlude_ptx::kernel::{Kernel, Reg};
use postlude_ptx::target::Sm90a;
use postlude_ptx::types::{Pred, U32};

use crate::plan::sm90::{STAGE_DEPTH, Sm90Schedule};

use super::parameters::Parameters;

/// Counts of tiles.
pub(super) struct Raster<'k> {
    k: Kernel<'k, Sm90a>,
    schedule: Sm90Schedule,
    cluster_rows: Reg<'k, U32>,
    tile_columns: Reg<'k, U32>,
    total: Reg<'k, U32>,
    per_batch: Reg<'k, U32>,
    rank: Reg<'k, U32>,
    /// Steps along the contraction; at least one, since the first product clears the accumulators.
    pub(super) steps: Reg<'k, U32>,
}

/// One tile: where it starts.
pub(super) struct Corner<'k> {
    pub(super) row: Reg<'k, U32>,
    pub(super) column: Reg<'k, U32>,
    pub(super) batch: Reg<'k, U32>,
    /// Whether this CTA has another tile behind it.
    pub(super) followed: Reg<'k, Pred>,
}

impl<'k> Raster<'k> {
    pub(super) fn new(
        k: Kernel<'k, Sm90a>,
        parameters: &Parameters<'k>,
        schedule: &Sm90Schedule,
    ) -> Raster<'k> {
        let up = |size: Reg<'k, U32>, by: u32| (size + (by - 1)) / by;
        let cluster_rows = up(parameters.rows, schedule.tile.rows * schedule.cluster);
        let tile_columns = up(parameters.columns, schedule.tile.columns);
        let per_batch = cluster_rows * tile_columns;
        let total = per_batch * parameters.batches;
        let steps = up(parameters.inner, STAGE_DEPTH).max(1);
        let rank = k.cluster_rank();
        Raster {
            k,
            schedule: schedule.clone(),
            cluster_rows,
            tile_columns,
            total,
            per_batch,
            rank,
            steps,
        }
    }

    /// This CTA's number in its cluster.
    pub(super) fn rank(&self) -> Reg<'k, U32> {
        self.rank
    }

    /// Runs `body` for every tile of this CTA. All CTAs of a cluster make the same number of steps.
    pub(super) fn for_each(&self, body: impl FnOnce(&Corner<'k>)) {
        let k = self.k;
        k.for_(k.cluster(), self.total, k.clusters(), |number| body(&self.corner(number)));
    }

    /// Runs `body` for every tile of this CTA, or for every other one.
    pub(super) fn for_own(&self, other: Option<Reg<'k, U32>>, body: impl FnOnce(&Corner<'k>)) {
        match other {
            None => self.for_each(body),
            Some(first) => self.for_every_other(first, body),
        }
    }

    /// Runs `body` for every other tile of this CTA, from the first or the second on: a warpgroup's own, where they
    /// alternate.
    fn for_every_other(&self, first: Reg<'k, U32>, body: impl FnOnce(&Corner<'k>)) {
        let (k, clusters) = (self.k, self.k.clusters());
        let start = first.mad(clusters, k.cluster());
        k.for_(start, self.total, clusters * 2, |number| body(&self.corner(number)));
    }

    fn corner(&self, number: Reg<'k, U32>) -> Corner<'k> {
        let group = self.schedule.raster_group;
        let batch = number / self.per_batch;
        let within = number - batch * self.per_batch;
        let per_group = self.tile_columns * group;
        let group_number = within / per_group;
        let first = group_number * group;
        let height = (self.cluster_rows - first).min(group);
        let place = within - group_number * per_group;
        let column_number = place / height;
        let row_number = place - column_number * height + first;
        let row = row_number.mad(self.schedule.cluster, self.rank) * self.schedule.tile.rows;
        let followed = (number + self.k.clusters()).lt(self.total);
        Corner { row, column: column_number * self.schedule.tile.columns, batch, followed }
    }
}
