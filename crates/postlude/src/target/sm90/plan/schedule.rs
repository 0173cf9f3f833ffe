//! How a product is run on Hopper: plain data, everything that the emitter needs.
//!
//! Code depends on it and on dtypes alone; sizes and strides are parameters of the kernel.

use crate::lower::{BoundProgram, least_common_multiple};
use crate::problem::Problem;
use crate::target::tile::{KernelSchedule, Tile};

use super::chip::Sm90;
use super::hints::Hints;
use super::needs::Needs;
use super::partials::FoldWords;
use super::raster::{Raster, RasterOrder};

/// Words of partial results along rows of which two blocks' do not fit into registers beside the accumulators.
const MANY_ROW_WORDS: u32 = 16;

/// How a product is run on Hopper.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Sm90Schedule {
    /// The tile of a CTA.
    pub(crate) tile: Tile,
    /// Stages of the mainloop's ring of A and B; 0 where there is no product.
    pub(crate) stages: u32,
    /// Columns that the epilogue works on at a time: 64, 32 or 16, of which a tile has whole ones.
    pub(crate) epilogue_tile: u32,
    /// Columns that the graph is applied to at a time, before their values are converted and reduced: 8, 16, 32 or 64,
    /// of which an epilogue tile has whole ones.
    pub(crate) fragment: u32,
    /// C stages: slots of each math warpgroup's ring that tile operands are loaded into.
    pub(crate) c_stages: u32,
    /// D stages: slots of each math warpgroup's ring that tile outputs are stored through.
    pub(crate) d_stages: u32,
    /// Whether tile outputs are stored through the slots of tile operands of the same layout; where all are, there are
    /// no other slots for them, and `d_stages` says how many of the operands' stores may read at a time.
    pub(crate) reuse_c: bool,
    /// Whether a slot's store is issued only when the next one is filled: the threads that fill slots synchronise once
    /// for both.
    pub(crate) delay_store: bool,
    /// Whether the epilogue is a loop over epilogue tiles and not unrolled: less code, for a few moves.
    pub(crate) epilogue_loop: bool,
    /// Rounds of that loop, and of loops for passes over whole rows before it; 0 for as few as there are, and none
    /// before it.
    pub(crate) rounds: u32,
    /// wgmma groups in flight while the next stage's are issued: 0 or 1, and 0 where there is no product.
    pub(crate) wgmma_in_flight: u32,
    /// What L2 is told to keep.
    pub(crate) hints: Hints,
    /// The order in which work tiles are computed.
    pub(crate) raster: Raster,
    /// CTAs of an SM at a time: registers are limited so that as many fit. More than one only where threads hold rows.
    pub(crate) ctas: u32,
    /// Parts of K that work tiles are cut into, whose partial sums meet in the workspace; 1 where they are whole.
    pub(crate) split_k_slices: u32,
    /// Waves whose tiles have all of K before the waves of slices: as in stream-K, the last tiles alone are cut.
    pub(crate) data_parallel_waves: u32,
    /// The most CTAs launched, but for those of one cluster; `None` for as many as fit.
    pub(crate) grid_limit: Option<u32>,
    /// What the graph needs of it.
    pub(crate) needs: Needs,
}

impl Sm90Schedule {
    /// The first line of its text.
    pub(super) const OPENING: &str = "schedule sm90 {";

    /// The program that it runs of a call: with A and B swapped or not; `None` where they cannot be.
    pub(crate) fn own<'a>(&self, bound: &'a BoundProgram) -> Option<&'a BoundProgram> {
        if self.needs.swap_ab { bound.swapped() } else { Some(bound) }
    }

    /// Columns of the sums that are promoted at a time, where a stage's are.
    pub(crate) fn promoted_columns(&self) -> Option<u32> {
        let promoted = self.needs.mainloop.as_ref().is_some_and(|mainloop| mainloop.promoted);
        promoted.then(|| self.tile.promoted_columns())
    }

    /// Accumulators of one thread.
    pub(super) fn accumulators(&self) -> u32 {
        if self.needs.mainloop.is_some() { self.tile.accumulators() } else { 0 }
    }

    /// Math warpgroups of a CTA.
    pub(crate) fn math_warpgroups(&self) -> u32 {
        self.tile.math_warpgroups
    }

    /// Warpgroups that load.
    pub(crate) fn loaders(&self) -> u32 {
        self.tile.loaders(&self.needs)
    }

    /// Threads of a CTA.
    pub(crate) fn threads(&self) -> u32 {
        128 * (self.loaders() + self.math_warpgroups())
    }

    /// Columns of every tile of the epilogue: the product's, or half of them where halves of it are products of their
    /// own.
    pub(crate) fn width(&self) -> u32 {
        self.needs.width(self.tile)
    }

    /// Columns of a span: the fewest epilogue tiles that hold whole groups.
    pub(crate) fn span(&self) -> u32 {
        least_common_multiple(self.needs.groups, self.epilogue_tile)
    }

    /// Whether a warpgroup visits the same columns of all its blocks before the next columns, so that its warps combine
    /// a column's reduction once for all blocks. Not where row passes come first, and not where many words of columns
    /// would wait for the next block, or many of rows for the next columns.
    pub(crate) fn visits_columns(&self) -> bool {
        let FoldWords { rows, columns, .. } = self.needs.folds;
        let few_words = columns <= 1 && rows <= MANY_ROW_WORDS;
        self.epilogue_loop && self.needs.whole_columns == 0 && few_words
    }

    /// Rows and columns of the product that one cluster computes.
    fn cluster_size(&self) -> [u32; 2] {
        let Tile { rows, cluster, .. } = self.tile;
        if self.tile.streams_rows() {
            return [rows, u32::MAX];
        }
        [rows * cluster.rows(), self.width() * cluster.columns()]
    }

    /// Clusters of tiles along the rows and along the columns of a problem.
    pub(super) fn clusters(&self, problem: &Problem) -> [u64; 2] {
        if self.tile.folds_strips() {
            return self.strip_units(problem);
        }
        let [rows, columns] = self.cluster_size().map(u64::from);
        let sizes = [problem.rows as u64, problem.product_columns() as u64];
        // Every segment with rows has a tile, and its last one is half empty, as far as is known before the call.
        let parts = if problem.segmented { problem.batch.min(problem.rows) as u64 } else { 0 };
        let along_rows = (sizes[0] + parts * rows / 2).div_ceil(rows).max(parts);
        [along_rows, sizes[1].div_ceil(columns)]
    }

    /// What the raster divides numbers of clusters by: those of a batch, those of a group, and the clusters side by side in a
    /// group and in the last one.
    pub(crate) fn raster_divisors(&self, problem: &Problem) -> [u64; 4] {
        let [rows, columns] = self.clusters(problem).map(|count| count.max(1));
        let (grouped, other) = match self.raster.order {
            RasterOrder::AlongM => (columns, rows),
            RasterOrder::AlongN => (rows, columns),
        };
        let group = u64::from(self.raster.group);
        let last = grouped - (grouped - 1) / group * group;
        [rows.saturating_mul(columns), other.saturating_mul(group), group, last]
    }

    /// Products of all rows and columns.
    fn batches(problem: &Problem) -> usize {
        if problem.segmented { 1 } else { problem.batch }
    }

    /// Clusters of tiles of a problem, as far as they are known before the call.
    pub(super) fn all_clusters(&self, problem: &Problem) -> u64 {
        let [rows, columns] = self.clusters(problem);
        rows.saturating_mul(columns).saturating_mul(Sm90Schedule::batches(problem) as u64)
    }

    /// Work tiles of a problem's clusters: each slice of a tile's K is one.
    pub(super) fn work_tiles(&self, problem: &Problem, chip: Sm90) -> u64 {
        let (all, whole) = (self.all_clusters(problem), self.whole_clusters(problem, chip));
        (all - whole).saturating_mul(u64::from(self.split_k_slices)).saturating_add(whole)
    }

    /// What the kernel's code depends on: the same schedule whatever a launch decides.
    pub(crate) fn code(&self) -> Sm90Schedule {
        Sm90Schedule {
            grid_limit: None,
            raster: Raster::usual(self.tile.cluster),
            split_k_slices: self.split_k_slices.min(2),
            data_parallel_waves: 0,
            ..self.clone()
        }
    }

    /// Multiply-adds of all tiles of a call's problem, what lies beyond its edges counted.
    pub(crate) fn multiply_adds(&self, problem: &Problem) -> u64 {
        let Some(mainloop) = &self.needs.mainloop else { return 0 };
        let problem = &*problem.with_swap(self.needs.swap_ab);
        let [rows, columns] = self.cluster_size().map(|size| size as usize);
        let rows = self.clusters(problem)[0] as usize * rows;
        let columns = problem.product_columns().next_multiple_of(columns);
        let columns = columns * mainloop.products as usize;
        let inner = problem.inner.next_multiple_of(mainloop.depth() as usize);
        let sizes = [Sm90Schedule::batches(problem), rows, columns, inner];
        sizes.into_iter().fold(1, |product, size| product.saturating_mul(size as u64))
    }

    /// Whether each CTA has one tile: registers hold its rows.
    fn is_one_tile_a_cta(&self) -> bool {
        self.tile.kernel == KernelSchedule::Rows
    }

    /// CTAs for a problem on a chip.
    pub(crate) fn grid(&self, problem: &Problem, chip: Sm90) -> u32 {
        let clusters = self.work_tiles(problem, chip);
        (clusters.clamp(1, self.most_clusters(chip)) as u32) * self.tile.cluster.blocks()
    }

    /// Clusters of a launch at most.
    pub(super) fn most_clusters(&self, chip: Sm90) -> u64 {
        let blocks = self.tile.cluster.blocks();
        let together = chip.together(blocks) * self.ctas;
        let most = if self.is_one_tile_a_cta() { u32::MAX } else { together };
        let limit = self.grid_limit.map_or(most, |limit| limit.min(most));
        u64::from(limit / blocks).max(1)
    }
}
