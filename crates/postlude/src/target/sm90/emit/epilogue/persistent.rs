//! Persistent accumulation: a warpgroup accumulates scalars across its work tiles and writes one partial result a
//! batch, not one a tile.
//!
//! Which tiles a warpgroup computes depends on the grid alone, and so do the last bits of such a result. The error does
//! not grow with the number of tiles: what an addition rounds away is added to the next.

use postlude_ptx::kernel::{Reg, Var};
use postlude_ptx::types::{F32, Pred, U32};

use crate::graph::{Fold, Kind};
use crate::lower::{Batches, How, Reduction, ReductionScope};

use super::super::chip::EpilogueChip;
use super::super::tile_scheduler::{TileScheduler, WorkTile};
use super::super::values::{Evaluator, State};
use super::super::warpgroup::WarpgroupIndex;
use super::partials::{Partial, ScalarPartials};
use super::reductions::Reductions;

pub(super) struct PersistentAccumulation<'k> {
    totals: Vec<Total<'k>>,
    /// Whether the tile that was finished last was this warpgroup's last of its batch.
    pub(super) complete: Var<'k, Pred>,
    /// Whether this warpgroup arrived for the tile before.
    pub(super) arrived: Var<'k, Pred>,
    pub(super) workers: Workers<'k>,
}

/// The warpgroups that accumulate, of which each writes one partial result a batch.
#[derive(Clone, Copy)]
pub(super) struct Workers<'k> {
    /// Clusters' tiles in a batch, and how far apart those of a warpgroup are.
    batch_tiles: Reg<'k, U32>,
    apart: Reg<'k, U32>,
    /// This warpgroup's number among the warpgroups of a cluster's tiles, and how many there are.
    worker: Reg<'k, U32>,
    count: u32,
}

impl<'k> Workers<'k> {
    /// The number of this warpgroup's partial result among those of a batch.
    pub(super) fn number(&self, work_tile: &WorkTile<'k>) -> Reg<'k, U32> {
        let first = work_tile.within - work_tile.within / self.apart * self.apart;
        first.mad(self.count, self.worker)
    }

    /// How many there are of a batch.
    pub(super) fn count(&self) -> Reg<'k, U32> {
        self.batch_tiles.min(self.apart) * self.count
    }
}

/// A scalar so far.
struct Total<'k> {
    reduction: Reduction,
    running: Partial<'k>,
    /// By how much the last addition to a sum came out too large.
    excess: Option<Var<'k, F32>>,
}

impl<'k> Total<'k> {
    fn begin<C: EpilogueChip>(evaluator: &Evaluator<'_, 'k, C>, reduction: Reduction) -> Total<'k> {
        let rounds = reduction.how == How::Fold(Fold::Sum) && !reduction.is_integer();
        let running = Partial::begin(evaluator, reduction);
        Total { reduction, running, excess: rounds.then(|| evaluator.k.var(0.0)) }
    }

    fn add<C: EpilogueChip>(&self, evaluator: &Evaluator<'_, 'k, C>, more: &State<'k>) {
        let before = self.running.state();
        let Some(excess) = &self.excess else {
            return self.running.set(evaluator.fold_both(self.reduction, &before, more));
        };
        let more = more[0] - excess.get();
        let sum = before[0] + more;
        // Infinities have no excess.
        let finite = sum.abs().lt(f32::INFINITY);
        excess.set(((sum - before[0]) - more).select(0.0, finite));
        self.running.set(vec![sum]);
    }

    /// Returns the scalar so far, and starts again from the identity.
    fn take<C: EpilogueChip>(&self, evaluator: &Evaluator<'_, 'k, C>) -> Partial<'k> {
        let taken = Partial::begin(evaluator, self.reduction);
        taken.set(self.running.state());
        self.running.set(evaluator.fold_begin(self.reduction));
        self.excess.iter().for_each(|excess| excess.set(0.0));
        taken
    }
}

impl<'k> PersistentAccumulation<'k> {
    /// Whether all reductions can be accumulated across tiles: scalars of each batch, sums and extremes.
    pub(super) fn takes(reductions: Reductions<'_>) -> bool {
        reductions.all().all(|(_, reduction)| {
            let persists = match reduction.how {
                How::Fold(
                    Fold::Sum | Fold::Max | Fold::Min | Fold::AbsMax | Fold::ArgMax | Fold::ArgMin,
                ) => true,
                How::Fold(
                    Fold::Prod
                    | Fold::LogSumExp
                    | Fold::LogSumExpAboveMax
                    | Fold::Top(_)
                    | Fold::Weighted(_),
                )
                | How::Pick(_) => false,
            };
            let of_batch = ReductionScope { kind: Kind::Scalar, batches: Batches::Each };
            persists && reduction.scope == of_batch && !reduction.repeated
        })
    }

    pub(super) fn new<C: EpilogueChip>(
        evaluator: &Evaluator<'_, 'k, C>,
        reductions: Reductions<'_>,
        scheduler: &TileScheduler<'k, C>,
        warpgroup: WarpgroupIndex<'k>,
    ) -> PersistentAccumulation<'k> {
        let (k, tile) = (evaluator.k, evaluator.plan.schedule.tile);
        let per_tile = tile.warpgroups_per_tile();
        let tiles = tile.cluster.rows() * tile.cluster.columns();
        let worker = if tiles > 1 {
            scheduler.rank().mad(per_tile, warpgroup.in_tile)
        } else {
            warpgroup.in_tile
        };
        PersistentAccumulation {
            totals: reductions.all().map(|(_, one)| Total::begin(evaluator, one)).collect(),
            complete: k.var(false),
            arrived: k.var(false),
            workers: Workers {
                batch_tiles: scheduler.batch_tiles(),
                apart: scheduler.apart(),
                worker,
                count: tiles * per_tile,
            },
        }
    }

    /// Adds a tile, and notes whether it is the last of its batch.
    pub(super) fn add<C: EpilogueChip>(
        &self,
        evaluator: &Evaluator<'_, 'k, C>,
        work_tile: &WorkTile<'k>,
        partials: &ScalarPartials<'k>,
    ) {
        for (total, more) in self.totals.iter().zip(partials) {
            total.add(evaluator, &more.state());
        }
        let Workers { apart, batch_tiles, .. } = self.workers;
        self.complete.set((work_tile.within + apart).ge(batch_tiles));
    }

    /// Returns the scalars so far, and starts again from the identities.
    pub(super) fn take<C: EpilogueChip>(
        &self,
        evaluator: &Evaluator<'_, 'k, C>,
    ) -> ScalarPartials<'k> {
        self.totals.iter().map(|total| total.take(evaluator)).collect()
    }
}
