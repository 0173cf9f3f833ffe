//! The warpgroup level of a reduction: four warps combine their partial results through shared memory.
//!
//! In: a thread's partial results of columns or scalars. Lanes of a warp combine theirs by shuffles, one of them writes
//! the warp's to shared memory, and after a barrier the four are read and combined in the order of the warps. Out:
//! partial results of the warpgroup. The flags of the last arrival lie behind them in the same shared memory.

use postlude_ptx::kernel::{Reg, SharedAddress};
use postlude_ptx::types::{F32, U32};

use crate::lower::Reduction;

use super::super::chip::EpilogueChip;
use super::super::fragment::Fragment;
use super::super::values::{Evaluator, State};
use super::super::warpgroup::WarpgroupIndex;
use super::partials::Turn;
use super::reductions::Numbered;

/// Warps of a warpgroup.
const WARPS: u32 = 4;
/// Threads of a warpgroup.
pub(super) const THREADS: u32 = 128;

#[derive(Clone, Copy)]
pub(super) struct WarpExchange<'a, 'k, C> {
    evaluator: Evaluator<'a, 'k, C>,
    warpgroup: WarpgroupIndex<'k>,
    /// This thread in its warpgroup.
    pub(super) rank: Reg<'k, U32>,
    /// Its first column of an 8-column group.
    pub(super) column: Reg<'k, U32>,
    /// This warpgroup's shared memory.
    shared: SharedAddress<'k>,
}

impl<'a, 'k, C: EpilogueChip> WarpExchange<'a, 'k, C> {
    pub(super) fn new(
        evaluator: Evaluator<'a, 'k, C>,
        warpgroup: WarpgroupIndex<'k>,
        rank: Reg<'k, U32>,
    ) -> Self {
        let (k, plan) = (evaluator.k, evaluator.plan);
        let bytes = plan.schedule.needs.folds.shared_bytes(plan.schedule.width());
        let column = Fragment::column(rank);
        let shared = k.region(&plan.folds) + warpgroup.in_cta * bytes;
        WarpExchange { evaluator, warpgroup, rank, column, shared }
    }

    /// The warpgroup synchronises.
    pub(super) fn sync(&self) {
        self.evaluator.k.sync_named(self.warpgroup.barrier(), THREADS);
    }

    /// Combines a column, or those of some groups of 8, of which each thread has folded its own rows: over the rows of
    /// a warp, and with the blocks before. The first is in this column of the tile, or this many behind `before`.
    ///
    /// Eight lanes have rows of the same columns. Of each pair of lanes that exchange, each keeps half of the columns,
    /// so that each next exchange is about half as many.
    pub(super) fn fold_columns(
        &self,
        (word, reduction): Numbered,
        (first, before): (u32, Option<Reg<'k, U32>>),
        turn: Turn,
        mut states: Vec<State<'k>>,
    ) {
        let (k, lane) = (self.evaluator.k, self.rank & 31);
        let within = self.column + first;
        let mut within = before.map_or(within, |before| within + before);
        let mut rest = Vec::new();
        for &bit in Fragment::COLUMN_BITS {
            let half = states.len() / 2;
            if half == 0 {
                rest.push(bit);
                continue;
            }
            // Neighbours are one column apart, groups eight.
            let apart = if half == 1 { 1 } else { 4 * half as u32 };
            let second = (lane & bit).ne(0);
            within = within + k.imm(apart).select(0, second);
            let (low, high) = states.split_at(half);
            let exchange = |(low, high): (&State<'k>, &State<'k>)| {
                self.evaluator.fold_exchanged(reduction, [low, high], second, bit)
            };
            states = low.iter().zip(high).map(exchange).collect();
        }
        let state = self.evaluator.fold_lanes(reduction, states.remove(0), &rest);
        let place = |each: u32| self.column_place(word + each, self.rank >> 5, within);
        k.if_((lane & rest.iter().sum::<u32>()).eq(0), || {
            let state = if turn == Turn::Joins {
                let before = self.load(reduction, place);
                self.evaluator.fold_both(reduction, &before, &state)
            } else {
                state
            };
            self.store(state, place);
        });
    }

    /// A column of the tile, combined over the four warps.
    pub(super) fn load_column(
        &self,
        (word, reduction): Numbered,
        within: Reg<'k, U32>,
    ) -> State<'k> {
        self.load_warps(reduction, |each, warp| self.column_place(word + each, warp, within))
    }

    /// Combines scalars over their warps, then runs `then` in the first thread, where [`WarpExchange::load_scalar`] gives
    /// them combined over the warpgroup.
    pub(super) fn fold_scalars(
        &self,
        scalars: impl Iterator<Item = (Numbered, State<'k>)>,
        then: impl FnOnce(),
    ) {
        let k = self.evaluator.k;
        for ((word, reduction), state) in scalars {
            let state = self.evaluator.fold_lanes(reduction, state, Fragment::WARP_BITS);
            k.if_((self.rank & 31).eq(0), || {
                self.store(state, |each| self.scalar_place(word + each, self.rank >> 5));
            });
        }
        self.sync();
        k.if_(self.rank.eq(0), then);
    }

    /// A scalar, combined over the four warps.
    pub(super) fn load_scalar(&self, (word, reduction): Numbered) -> State<'k> {
        self.load_warps(reduction, |each, warp| self.scalar_place(word + each, warp))
    }

    fn load_warps(
        &self,
        reduction: Reduction,
        place: impl Fn(u32, Reg<'k, U32>) -> SharedAddress<'k>,
    ) -> State<'k> {
        let k = self.evaluator.k;
        let warp = |warp: u32| self.load(reduction, |each| place(each, k.imm(warp)));
        let both = |all, warp| self.evaluator.fold_both(reduction, &all, &warp);
        (1..WARPS).map(warp).fold(warp(0), both)
    }

    fn load(&self, reduction: Reduction, from: impl Fn(u32) -> SharedAddress<'k>) -> State<'k> {
        let load = |each| self.evaluator.k.load_shared::<F32, 1>(from(each))[0];
        (0..reduction.registers()).map(load).collect()
    }

    fn store(&self, state: State<'k>, to: impl Fn(u32) -> SharedAddress<'k>) {
        for (each, value) in (0..).zip(state) {
            self.evaluator.k.store_shared(to(each), [value]);
        }
    }

    /// Where a warp's partial result of a column lies.
    fn column_place(
        &self,
        word: u32,
        warp: Reg<'k, U32>,
        within: Reg<'k, U32>,
    ) -> SharedAddress<'k> {
        let row = warp + word * WARPS;
        self.shared + row.mad(self.evaluator.plan.schedule.width(), within) * 4
    }

    /// The same of a scalar.
    fn scalar_place(&self, word: u32, warp: Reg<'k, U32>) -> SharedAddress<'k> {
        let schedule = self.evaluator.plan.schedule;
        let behind = schedule.needs.folds.columns * schedule.width();
        self.shared + (warp + (word + behind) * WARPS) * 4
    }

    /// The flags that say for what this warpgroup arrived last.
    pub(super) fn flag_place(&self, number: u32) -> SharedAddress<'k> {
        let schedule = self.evaluator.plan.schedule;
        let words = schedule.needs.folds;
        let behind = words.columns * schedule.width() + words.scalars;
        self.shared + (16 * behind + 4 * number)
    }
}
