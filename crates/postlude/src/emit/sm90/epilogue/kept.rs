//! Scalars that a warpgroup keeps from tile to tile: it leaves one partial result a batch, not one a tile.
//!
//! Which tiles a warpgroup has depends on the grid, and so do the last bits of such a result; on nothing else.

use postlude_ptx::kernel::{Kernel, Reg, Var};
use postlude_ptx::target::Sm90a;
use postlude_ptx::types::{Pred, U32};

use crate::plan::sm90::{Batches, Folded, Tile};

use super::super::raster::{Corner, Raster};
use super::super::seat::Seat;
use super::super::values::Evaluator;
use super::tally::{Running, Tally};

pub(super) struct Kept<'k> {
    totals: Vec<Running<'k>>,
    /// Whether the tile that was finished last was this warpgroup's last of its batch.
    pub(super) complete: Var<'k, Pred>,
    /// Whether it arrived for the one before.
    pub(super) arrived: Var<'k, Pred>,
    /// Clusters' tiles in a batch, and how far apart those of a warpgroup are.
    batch_tiles: Reg<'k, U32>,
    apart: Reg<'k, U32>,
    /// This warpgroup's number among those that work on a cluster's tiles, and how many there are.
    worker: Reg<'k, U32>,
    workers: u32,
}

impl<'k> Kept<'k> {
    /// Whether all that is folded can be kept so: scalars of each batch.
    pub(super) fn takes(rows: &[Folded], columns: &[Folded], scalars: &[Folded]) -> bool {
        let own = |folded: &Folded| folded.home.batches == Batches::Each && !folded.repeated;
        rows.is_empty() && columns.is_empty() && scalars.iter().all(own)
    }

    pub(super) fn new(
        evaluator: &Evaluator<'_, 'k>,
        scalars: &[Folded],
        raster: &Raster<'k>,
        seat: Seat<'k>,
        tile: Tile,
    ) -> Kept<'k> {
        let k: Kernel<'k, Sm90a> = evaluator.k;
        let sharers = tile.sharers();
        let tiles = tile.cluster.rows() * tile.cluster.columns();
        let worker = if tiles > 1 { raster.rank().mad(sharers, seat.member) } else { seat.member };
        Kept {
            totals: scalars.iter().map(|one| Running::begin(evaluator, *one)).collect(),
            complete: k.var(false),
            arrived: k.var(false),
            batch_tiles: raster.batch_tiles(),
            apart: raster.apart(),
            worker,
            workers: tiles * sharers,
        }
    }

    /// Adds a tile, and notes whether it is the last of its batch.
    pub(super) fn add(
        &self,
        evaluator: &Evaluator<'_, 'k>,
        scalars: &[Folded],
        corner: &Corner<'k>,
        tally: &Tally<'k>,
    ) {
        for ((total, folded), more) in self.totals.iter().zip(scalars).zip(&tally.0) {
            total.set(evaluator.fold_both(*folded, &total.state(), &more.state()));
        }
        self.complete.set((corner.within + self.apart).ge(self.batch_tiles));
    }

    /// Takes what is there, and begins anew.
    pub(super) fn take(&self, evaluator: &Evaluator<'_, 'k>, scalars: &[Folded]) -> Tally<'k> {
        let taken = self.totals.iter().zip(scalars).map(|(total, folded)| {
            let taken = Running::begin(evaluator, *folded);
            taken.set(total.state());
            total.set(evaluator.fold_begin(*folded));
            taken
        });
        Tally(taken.collect())
    }

    /// The number of this warpgroup's partial result among those of a batch.
    pub(super) fn place(&self, corner: &Corner<'k>) -> Reg<'k, U32> {
        let first = corner.within - corner.within / self.apart * self.apart;
        first.mad(self.workers, self.worker)
    }

    /// How many there are of a batch.
    pub(super) fn count(&self) -> Reg<'k, U32> {
        self.batch_tiles.min(self.apart) * self.workers
    }
}
