//! A bound of what is among the largest: the best pairs of a CTA's threads, of which as many as a list has reach it.
//!
//! Keys are searched from their highest bits down, two bits behind each barrier, until few enough threads reach the bound; equal
//! keys then by their columns. At most [`MOST_RAISING`] threads have a pair that reaches it, so that no others have to be
//! looked at.

use postlude_ptx::kernel::{Kernel, Reg, Var};
use postlude_ptx::types::{Pred, U32};

use crate::target::sm90::emit::chip::EpilogueChip;
use crate::target::sm90::plan::MOST_RAISING;

use super::tally::Tally;

/// Bits that are searched behind one barrier, and of the count for each of their values.
const STEP: u32 = 2;
const COUNT: u32 = 10;
/// Bits of a key.
const KEY: u32 = 32;
/// Bits that keys of 16-bit floats differ in from the highest one on. The others are ones below zero and of nan, else zeros.
const HALF: u32 = 16;
const ONES: u32 = (1 << HALF) - 1;
const ZERO: u32 = 1 << 31;
const NAN: u32 = !ONES;

/// The least that a pair of a key and a column has to be.
pub(super) struct Bound<'k> {
    pub(super) key: Var<'k, U32>,
    /// Pairs of this key count up to this column.
    pub(super) columns: Var<'k, U32>,
}

impl<'k> Bound<'k> {
    /// Everything reaches it that is anything.
    pub(super) fn lowest<C: EpilogueChip>(k: Kernel<'k, C>) -> Self {
        Bound { key: k.var(0), columns: k.var(0) }
    }

    pub(super) fn is_reached(&self, key: Reg<'k, U32>, column: Reg<'k, U32>) -> Reg<'k, Pred> {
        let least = self.key.get();
        key.gt(least) | (key.eq(least) & column.lt(self.columns.get()))
    }

    /// The same for columns behind all that were looked at.
    pub(super) fn go_on(&self) {
        self.columns.set(0);
    }
}

/// A search among the threads of a CTA.
pub(super) struct Search<'a, 'k, C> {
    pub(super) k: Kernel<'k, C>,
    pub(super) tally: &'a Tally<'k, C>,
    pub(super) threads: u32,
    /// Elements of a list.
    pub(super) count: u32,
    /// Columns of a row, and bits that their number has at most.
    pub(super) columns: Reg<'k, U32>,
    pub(super) bits: Reg<'k, U32>,
    /// Whether keys are those of floats whose lower half is zero.
    pub(super) halves: bool,
}

impl<'k, C: EpilogueChip> Search<'_, 'k, C> {
    /// Sets a bound by the best pairs of all threads, of which many are something.
    pub(super) fn raise(
        &self,
        bound: &Bound<'k>,
        best: Reg<'k, U32>,
        column: impl FnOnce() -> Reg<'k, U32>,
    ) {
        let (k, last) = (self.k, if self.halves { HALF } else { 0 });
        let Bound { key, columns } = bound;
        key.set(0);
        columns.set(u32::MAX);
        let there = self.refine(*key, (k.imm(KEY), last), k.imm(0), |least| best.ge(least));
        k.if_(there.get().gt(MOST_RAISING), || {
            if self.halves {
                let is_filled = key.get().lt(ZERO) | key.get().eq(NAN);
                key.set((key.get() | ONES).select(key.get(), is_filled));
            }
            let [above, _] = self.tally.count(best.gt(key.get()));
            let (is_tied, place) = (best.eq(key.get()), self.columns - column());
            let first = k.var(0);
            let reaches = |least: Reg<'k, U32>| is_tied & place.ge(least);
            self.refine(first, (self.bits, 0), above, reaches);
            columns.set(self.columns + 1 - first.get());
        });
    }

    /// Adds bits to a number as long as enough threads reach it; how many do.
    fn refine(
        &self,
        least: Var<'k, U32>,
        (bits, last): (Reg<'k, U32>, u32),
        above: Reg<'k, U32>,
        reaches: impl Fn(Reg<'k, U32>) -> Reg<'k, Pred>,
    ) -> Var<'k, U32> {
        let k = self.k;
        let (there, shift) = (k.var(self.threads), k.var(bits));
        k.while_(
            || there.get().gt(MOST_RAISING) & shift.get().gt(last),
            || {
                shift.set(shift.get() - STEP);
                let base = least.copy();
                let steps = [1, 2, 3].map(|step: u32| base + (k.imm::<U32>(step) << shift.get()));
                let counted = |(place, step): (u32, &Reg<'k, U32>)| {
                    k.ballot(reaches(*step)).count_ones() << (place * COUNT)
                };
                let counts = (0..).zip(&steps).map(counted).reduce(|all, one| all + one);
                let Some(counts) = counts else { return };
                let [all, _] = self.tally.meet(counts);
                for (place, step) in (0..).zip(steps) {
                    let count = ((all >> (place * COUNT)) & ((1 << COUNT) - 1)) + above;
                    let enough = count.ge(self.count);
                    least.set(step.select(least.get(), enough));
                    there.set(count.select(there.get(), enough));
                }
            },
        );
        there
    }
}
