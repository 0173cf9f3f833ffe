//! Split K through the workspace: work tiles are slices of a tile's K, and the CTA with the last slice adds up all partial sums.
//! Where tiles fill more than a wave, whole tiles may fill the first waves, and slices what is left of the last.
//!
//! In: a schedule that fits, and a problem. Out: how many slices may serve it, and the bytes of their partial sums. CTAs wait
//! for slices of lower numbers only, which run before them or beside them.

use crate::problem::Problem;
use crate::target::tile::{KernelSchedule, Tile};

use super::chip::Sm90;
use super::mainloop::Mainloop;
use super::needs::Needs;
use super::schedule::Sm90Schedule;

/// The most slices of a tile.
pub(super) const MOST_SLICES: u32 = 32;
/// Stages that a slice has at least: fewer take less time than its partial sums do.
const FEWEST_STEPS: usize = 4;
/// Waves of slices at most: more give no better balance, and more partial sums.
const MOST_WAVES: u64 = 4;
/// The K of products of bytes is below this, so that no partial sum is the least integer, which marks a word that is not written.
const MOST_BYTES_INNER: usize = 1 << 16;
/// Waves of whole tiles before slices at most: beyond, the last wave is a small part of all.
const MOST_WHOLE_WAVES: u32 = 16;
/// Bytes of partial sums at most.
const MOST_BYTES: u64 = 256 << 20;

impl Tile {
    /// Bytes of all sums of a tile.
    pub(crate) const fn sum_bytes(self) -> u32 {
        self.rows * self.columns * 4
    }

    /// Whether the K of this tile may be cut into slices: one CTA alone has whole sums, so nothing else may be counted by
    /// tiles, and all tiles have the same K.
    pub(super) fn takes_slices(self, needs: &Needs) -> bool {
        let suits = |mainloop: &Mainloop| {
            let scaled = mainloop.scaling.count() > 0;
            let even = !mainloop.ragged && !mainloop.masked;
            let loaded = !mainloop.is_written() || mainloop.is_widened();
            even && (self.is_swapped() || !scaled && loaded)
        };
        let cooperative = self.kernel == KernelSchedule::Cooperative && self.cluster.split_k() == 1;
        (cooperative || self.is_swapped())
            && needs.mainloop.as_ref().is_some_and(suits)
            && !needs.folds.any()
            && !self.reduces_over_cluster(needs)
    }
}

impl Sm90Schedule {
    /// Clusters of tiles that have all of K, the first ones.
    pub(crate) fn whole_clusters(&self, problem: &Problem, chip: Sm90) -> u64 {
        let whole = match self.data_parallel_waves {
            0 => 0,
            waves => self.most_clusters(chip).saturating_mul(u64::from(waves)),
        };
        whole.min(self.all_clusters(problem))
    }

    /// Bytes of the partial sums of a problem's tiles in the workspace; 0 where tiles have all of K.
    pub(crate) fn partial_sum_bytes(&self, problem: &Problem, chip: Sm90) -> u64 {
        let others = u64::from(self.split_k_slices - 1);
        self.slice_bytes(problem, chip).saturating_mul(others)
    }

    /// The same of one slice of each tile.
    fn slice_bytes(&self, problem: &Problem, chip: Sm90) -> u64 {
        let cut = self.all_clusters(problem) - self.whole_clusters(problem, chip);
        let tiles = cut.saturating_mul(u64::from(self.tile.cluster.blocks()));
        tiles.max(1).saturating_mul(u64::from(self.sum_bytes()))
    }

    /// Whether as many slices as it has run a problem.
    pub(super) fn slices_suit(&self, problem: &Problem, chip: Sm90) -> bool {
        let fits = self.partial_sum_bytes(problem, chip) <= MOST_BYTES;
        let bytes = self.needs.mainloop.as_ref().map_or(0, |mainloop| mainloop.operand_bytes);
        let small = bytes > 1 || problem.inner < MOST_BYTES_INNER;
        let suits = self.tile.takes_slices(&self.needs) && !problem.segmented && fits && small;
        self.split_k_slices == 1 || (suits && self.split_k_slices <= MOST_SLICES)
    }

    /// Every number of slices of all tiles that may serve a problem.
    pub(super) fn slices(
        &self,
        problem: &Problem,
        chip: Sm90,
    ) -> impl Iterator<Item = u32> + use<> {
        let mainloop = self.needs.mainloop.as_ref();
        let depth = mainloop.map_or(1, |mainloop| mainloop.depth() as usize);
        let unit = self.steps_at_once() as usize;
        let steps = problem.inner.div_ceil(depth * unit) * unit;
        let suits = self.tile.takes_slices(&self.needs) && !problem.segmented;
        let small =
            mainloop.is_some_and(|it| it.operand_bytes > 1) || problem.inner < MOST_BYTES_INNER;
        let most = if suits && small { MOST_SLICES as usize } else { 1 };
        let most = most.min(steps.div_ceil(FEWEST_STEPS)) as u32;
        let (all, whole) = (self.all_clusters(problem), self.whole_clusters(problem, chip));
        let (cut, clusters) = (all - whole, self.most_clusters(chip));
        let waves = u64::from(self.data_parallel_waves);
        let bytes = self.slice_bytes(problem, chip);
        (2..=most).filter(move |slices| {
            let count = u64::from(*slices);
            let each = (steps / unit).div_ceil(*slices as usize) * unit;
            let work = cut.saturating_mul(count).saturating_add(whole);
            let fits = bytes.saturating_mul(count - 1) <= MOST_BYTES;
            let even = each >= FEWEST_STEPS && each * (*slices as usize - 1) < steps;
            even && fits && work.div_ceil(clusters) - waves <= MOST_WAVES
        })
    }

    /// The same schedule with whole tiles in the first waves, for slices of the tiles behind them: those of the last wave, or
    /// of the wave before it too, whose slices are longer. Tuning alone tries them: on 112 products of random sizes the model
    /// expects 0.1 % of them.
    pub(super) fn with_whole_waves(
        &self,
        problem: &Problem,
        chip: Sm90,
    ) -> impl Iterator<Item = Sm90Schedule> {
        let (all, clusters) = (self.all_clusters(problem), self.most_clusters(chip));
        let full = (all / clusters).min(u64::from(MOST_WHOLE_WAVES)) as u32;
        let widened = self.needs.mainloop.as_ref().is_some_and(Mainloop::is_widened);
        let suits = !widened && !all.is_multiple_of(clusters);
        let waves = [full, full.saturating_sub(1)].into_iter();
        let waves = waves.filter(move |waves| *waves > 0 && suits);
        waves.map(|data_parallel_waves| Sm90Schedule { data_parallel_waves, ..self.clone() })
    }
}
