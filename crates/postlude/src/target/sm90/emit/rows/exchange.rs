//! Partial results of a row that several threads hold: combined by shuffles, and where warps share a row, through shared
//! memory.
//!
//! A warp's first lane writes its words, the threads of the CTA synchronise, and every thread combines the words of all in
//! the same order, so that all have the same bits. Buffers are used one after the other: a
//! warp writes to one again only after a barrier of another, at which all warps arrive that have read this one.

use postlude_ptx::kernel::{Kernel, Reg, SharedAddress, Var};
use postlude_ptx::types::U32;

use crate::lower::Reduction;

use super::super::chip::EpilogueChip;
use super::super::plan::Plan;
use super::super::values::{Evaluator, State};
use super::held::Holder;
use super::shared_row::SharedRow;
use super::states::{fold_stored, fold_threads};

pub(super) struct RowExchange<'k, C> {
    k: Kernel<'k, C>,
    /// Threads of a row.
    threads: u32,
    lane: Reg<'k, U32>,
    /// Where the row's words begin, and this warp's, in the first buffer.
    row: SharedAddress<'k>,
    own: SharedAddress<'k>,
    /// Bytes between two words, and between two buffers.
    word: u32,
    buffer: u32,
    /// With one pass, the buffer that comes next: each row takes the other one.
    turn: Option<Var<'k, U32>>,
    /// Where CTAs share a row.
    shared: Option<SharedRow<'k, C>>,
}

impl<'k, C: EpilogueChip> RowExchange<'k, C> {
    pub(super) fn new(k: Kernel<'k, C>, plan: &Plan<'_>, holder: &Holder<'k>) -> Self {
        let (schedule, threads) = (plan.schedule, holder.threads);
        let passes = schedule.needs.rows.map_or(0, |rows| rows.passes);
        let start = k.region(&plan.held_rows);
        let row = start + (holder.row * (threads / 32 * 4));
        RowExchange {
            k,
            threads,
            lane: k.lane(),
            row,
            own: row + ((holder.lane >> 5) * 4),
            word: schedule.threads() / 32 * 4,
            buffer: schedule.held_buffer_bytes(),
            turn: (passes == 1).then(|| k.var(0)),
            shared: holder.rank.map(|rank| SharedRow::new(k, plan, rank)),
        }
    }

    /// What all threads of a row have together, of which this one has `states`, for the pass of this number.
    pub(super) fn combine(
        &self,
        evaluator: &Evaluator<'_, 'k, C>,
        pass: usize,
        reductions: &[Reduction],
        states: Vec<State<'k>>,
    ) -> Vec<State<'k>> {
        let states = self.combine_warps(evaluator, pass, reductions, states);
        match &self.shared {
            Some(shared) => shared.combine(evaluator, reductions, &states),
            None => states,
        }
    }

    /// What the threads of this CTA have together.
    fn combine_warps(
        &self,
        evaluator: &Evaluator<'_, 'k, C>,
        pass: usize,
        reductions: &[Reduction],
        states: Vec<State<'k>>,
    ) -> Vec<State<'k>> {
        let states = fold_threads(evaluator, reductions, states, self.threads);
        let warps = self.threads / 32;
        if warps <= 1 {
            return states;
        }
        let k = self.k;
        let turn = self.turn.map(Var::copy);
        let at = |address: SharedAddress<'k>| match turn {
            Some(turn) => address + turn * self.buffer,
            None => address + pass as u32 * self.buffer,
        };
        let own = at(self.own);
        k.if_(self.lane.eq(0), || {
            for (number, word) in (0..).zip(states.iter().flatten()) {
                k.store_shared(own + number * self.word, [*word]);
            }
        });
        k.sync();
        if let (Some(next), Some(turn)) = (self.turn, turn) {
            next.set(turn ^ 1);
        }
        fold_stored(evaluator, reductions, at(self.row), (warps, self.word))
    }
}
