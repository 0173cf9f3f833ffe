//! Candidates of a row in shared memory: pairs of a key and a column, in any order, among which the largest are.

use postlude_ptx::kernel::{Kernel, Reg, SharedAddress, Var};
use postlude_ptx::modifier::{Alignment, ShuffleMode};
use postlude_ptx::types::{Pred, U32};

use crate::target::sm90::emit::chip::EpilogueChip;
use crate::target::sm90::plan::{CANDIDATE_BYTES, MOST_RAISING};

use super::bound::{Bound, Search};
use super::tally::Tally;

/// The key of nothing.
const NOTHING: u32 = 0;

pub(super) struct Candidates<'k, C> {
    pub(super) k: Kernel<'k, C>,
    pub(super) pairs: SharedAddress<'k>,
    pub(super) tally: Tally<'k, C>,
    /// How many there are, without those that were added since the last meeting.
    pub(super) filled: Var<'k, U32>,
    pub(super) threads: u32,
}

impl<'k, C: EpilogueChip> Candidates<'k, C> {
    fn at(&self, place: Reg<'k, U32>) -> SharedAddress<'k> {
        self.pairs + place * CANDIDATE_BYTES
    }

    /// The pair at a place.
    pub(super) fn pair(&self, place: Reg<'k, U32>) -> [Reg<'k, U32>; 2] {
        self.k.load_shared::<U32, 2>(self.at(place))
    }

    /// Adds a pair.
    pub(super) fn add(&self, key: Reg<'k, U32>, column: Reg<'k, U32>) {
        let place = self.filled.get() + self.tally.take_place();
        self.k.store_shared(self.at(place), [key, column]);
    }

    /// Counts threads; behind it all that was added is there.
    pub(super) fn count(&self, is_so: Reg<'k, Pred>) -> Reg<'k, U32> {
        let [count, taken] = self.tally.count(is_so);
        self.filled.set(self.filled.get() + taken);
        count
    }

    /// Waits until all that was added is there.
    pub(super) fn settle(&self) {
        let [_, taken] = self.tally.meet(self.k.imm(0));
        self.filled.set(self.filled.get() + taken);
    }

    /// Keeps the candidates that reach a bound of the best ones of all threads, and sets that bound. All are there, before
    /// and behind it; there are more than a list has, and each column once.
    pub(super) fn select(&self, search: &Search<'_, 'k, C>, bound: &Bound<'k>) {
        let (k, thread) = (self.k, self.k.thread());
        let (best, first) = (k.var(NOTHING), k.var(u32::MAX));
        k.for_(thread, self.filled.get(), self.threads, |place| {
            let [key, column] = self.pair(place);
            let better = key.gt(best.get()) | (key.eq(best.get()) & column.lt(first.get()));
            best.set(key.select(best.get(), better));
            first.set(column.select(first.get(), better));
        });
        let something = self.count(best.get().gt(NOTHING));
        bound.key.set(NOTHING);
        bound.go_on();
        k.if_(something.gt(MOST_RAISING), || search.raise(bound, best.get(), || first.copy()));
        let all = self.filled.copy();
        self.filled.set(0);
        k.for_(0, all, self.threads, |begin| {
            let place = begin + thread;
            let [key, column] = self.pair(place.min(all - 1));
            let stays = place.lt(all) & bound.is_reached(key, column);
            // Behind the barrier all have read what is written over.
            self.settle();
            k.if_(stays, || self.add(key, column));
        });
        self.settle();
    }

    /// Keeps few enough to be ranked; the least key that they have, or less.
    pub(super) fn select_few(&self, search: &Search<'_, 'k, C>) -> Reg<'k, U32> {
        let bound = Bound::lowest(self.k);
        let many = || self.filled.get().gt(MOST_RAISING);
        self.k.while_(many, || self.select(search, &bound));
        bound.key.copy()
    }

    /// Brings the few candidates of all CTAs of a cluster to the first one.
    pub(super) fn gather(&self, rank: Reg<'k, U32>, blocks: u32) {
        let (k, thread) = (self.k, self.k.thread());
        let empty = thread.lt(MOST_RAISING) & thread.ge(self.filled.get());
        let nothing = [NOTHING, u32::MAX].map(|word| k.imm::<U32>(word));
        k.if_(empty, || k.store_shared(self.at(thread), nothing));
        k.cluster_sync(Alignment::Any);
        let all = blocks * MOST_RAISING;
        k.if_(rank.eq(0), || {
            k.for_(thread + MOST_RAISING, all, self.threads, |place| {
                let own = self.at(place & (MOST_RAISING - 1));
                let from = k.remote_address(own, place >> MOST_RAISING.trailing_zeros());
                let pair = k.load_cluster::<U32, 2>(from);
                k.store_shared(self.at(place), pair);
            });
            self.filled.set(all);
        });
        k.cluster_sync(Alignment::Any);
    }

    /// Gives the few candidates and how many of them come before each, to one thread a candidate.
    pub(super) fn rank(&self, give: impl FnOnce(Reg<'k, U32>, [Reg<'k, U32>; 2], Reg<'k, Pred>)) {
        let (k, thread) = (self.k, self.k.thread());
        // Some neighbouring threads compare a candidate with some others each.
        let threads_each = self.threads / MOST_RAISING;
        let (own, part) = (thread >> threads_each.trailing_zeros(), thread & (threads_each - 1));
        let last = self.filled.get() - 1;
        let pair = |place: Reg<'k, U32>| self.pair(place.min(last));
        let [key, column] = pair(own);
        let mut before = k.imm::<U32>(0);
        for number in 0..MOST_RAISING / threads_each {
            let place = part + number * threads_each;
            let [other, at] = pair(place);
            let precedes = other.gt(key) | (other.eq(key) & at.lt(column));
            before = (before + 1).select(before, precedes & place.le(last));
        }
        let mut bit = 1;
        while bit < threads_each {
            before = before + k.shuffle(ShuffleMode::Butterfly, before, bit);
            bit *= 2;
        }
        give(before, [key, column], own.le(last) & part.eq(0));
    }
}
