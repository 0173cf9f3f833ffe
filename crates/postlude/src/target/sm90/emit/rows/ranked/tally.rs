//! Counts of a CTA: what its warps add up to, known to all behind one barrier, and places that threads take one by one.
//!
//! Three pairs of counters are used by turns. Those of the turn before are cleared behind a barrier at which all threads have
//! read them, one barrier before they are used again.

use postlude_ptx::kernel::{Kernel, Reg, SharedAddress, Var};
use postlude_ptx::modifier::Reduction;
use postlude_ptx::types::{Pred, U32};

use crate::target::sm90::emit::chip::EpilogueChip;

/// Pairs of counters, and bytes of one.
const TURNS: u32 = 3;
const PAIR: u32 = 8;
const SECOND: u32 = 4;

pub(super) struct Tally<'k, C> {
    k: Kernel<'k, C>,
    counters: SharedAddress<'k>,
    /// Where this turn's counters are, and those of the turn before.
    turn: Var<'k, U32>,
    before: Var<'k, U32>,
}

impl<'k, C: EpilogueChip> Tally<'k, C> {
    /// One thread clears the counters; no warp adds before all threads have met.
    pub(super) fn new(k: Kernel<'k, C>, counters: SharedAddress<'k>) -> Self {
        k.if_(k.thread().eq(0), || {
            for turn in 0..TURNS {
                k.store_shared(counters + turn * PAIR, [k.imm::<U32>(0); 2]);
            }
        });
        k.sync();
        Tally { k, counters, turn: k.var(0), before: k.var((TURNS - 1) * PAIR) }
    }

    /// What all warps add up to, each of which adds a number, and how many places were taken since the last meeting.
    pub(super) fn meet(&self, number: Reg<'k, U32>) -> [Reg<'k, U32>; 2] {
        let (k, turn) = (self.k, self.turn.copy());
        let counters = self.counters + turn;
        k.when(k.lane().eq(0), || k.atomic_shared(Reduction::Add, counters, number));
        k.sync();
        let all = k.load_shared::<U32, 2>(counters);
        let before = self.counters + self.before.get();
        let clear = k.thread().eq(0);
        let nothing = [k.imm::<U32>(0); 2];
        k.when(clear, || k.store_shared(before, nothing));
        self.before.set(turn);
        let next = turn + PAIR;
        self.turn.set(k.imm(0).select(next, next.eq(TURNS * PAIR)));
        all
    }

    /// How many threads it is so for, and how many places were taken.
    pub(super) fn count(&self, is_so: Reg<'k, Pred>) -> [Reg<'k, U32>; 2] {
        self.meet(self.k.ballot(is_so).count_ones())
    }

    /// The place that this thread takes, behind those that were taken since the last meeting.
    pub(super) fn take_place(&self) -> Reg<'k, U32> {
        let counters = self.counters + self.turn.get();
        self.k.atomic_shared(Reduction::Add, counters + SECOND, self.k.imm::<U32>(1))
    }
}
