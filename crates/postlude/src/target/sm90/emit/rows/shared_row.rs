//! A row that the CTAs of a cluster share: each sends what it has of a pass to all, and reads what all have.
//!
//! Words travel by `st.async`, which counts them on a barrier of the receiver: no thread fences, and no phase begins before
//! all words of the one before it are there. Two buffers with a barrier each are used by turns: who sends to one again has
//! received at the other what all CTAs sent after they had read this one.

use postlude_ptx::kernel::{Barrier, Kernel, Reg, SharedAddress, Var};
use postlude_ptx::types::U32;

use crate::lower::Reduction;

use super::super::chip::EpilogueChip;
use super::super::plan::Plan;
use super::super::values::{Evaluator, State};
use super::states::fold_stored;

/// Bytes of a word, and of a barrier.
const WORD: u32 = 4;
const BARRIER: u32 = 8;

pub(super) struct SharedRow<'k, C> {
    k: Kernel<'k, C>,
    blocks: u32,
    rank: Reg<'k, U32>,
    /// The first buffer, and its bytes; the first barrier.
    words: SharedAddress<'k>,
    bytes: u32,
    barriers: SharedAddress<'k>,
    /// Bit 0: which buffer comes next; bit 1: the parity of its phase.
    turn: Var<'k, U32>,
}

impl<'k, C: EpilogueChip> SharedRow<'k, C> {
    /// One thread makes the barriers, and no CTA goes on before all have done so.
    pub(super) fn new(k: Kernel<'k, C>, plan: &Plan<'_>, rank: Reg<'k, U32>) -> Self {
        let (words, barriers) =
            (k.region(&plan.cluster_reduction), k.region(&plan.cluster_reduction_barriers));
        SharedRow {
            k,
            blocks: plan.schedule.tile.cluster.blocks(),
            rank,
            words,
            bytes: plan.schedule.cluster_reduction_bytes() / 2,
            barriers,
            turn: k.var(0),
        }
    }

    /// What all CTAs have together, of which this one has `states`.
    pub(super) fn combine(
        &self,
        evaluator: &Evaluator<'_, 'k, C>,
        reductions: &[Reduction],
        states: &[State<'k>],
    ) -> Vec<State<'k>> {
        let (k, turn) = (self.k, self.turn.copy());
        let (buffer, parity) = (turn & 1, turn >> 1);
        let barrier = Barrier::at(self.barriers + buffer * BARRIER);
        let words = self.words + buffer * self.bytes;
        let apart = self.blocks * WORD;
        let count = states.iter().flatten().count() as u32;
        let thread = k.thread();
        k.if_(thread.lt(self.blocks), || {
            k.when(thread.eq(0), || k.barrier_expect(barrier, count * apart));
            let to = k.remote_address(words + self.rank * WORD, thread);
            let theirs = k.remote(barrier, thread);
            for (number, word) in (0..).zip(states.iter().flatten()) {
                k.store_async(to.advance(number * apart), *word, theirs);
            }
        });
        k.barrier_wait(barrier, parity);
        self.turn.set((turn + 1) & 3);
        fold_stored(evaluator, reductions, words, (self.blocks, apart))
    }
}

/// Makes the barriers of a shared row.
pub(super) fn initialise<C: EpilogueChip>(k: Kernel<'_, C>, plan: &Plan<'_>) {
    let barriers = k.region(&plan.cluster_reduction_barriers);
    k.if_(k.thread().eq(0), || {
        for number in 0..2 {
            k.barrier_init(Barrier::at(barriers + number * BARRIER), 1);
        }
        k.fence_barrier_init();
    });
}
