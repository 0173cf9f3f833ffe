//! Reductions of finished vectors: who finishes a block of rows or columns folds what it finished.

use postlude_ptx::kernel::{Reg, Var};
use postlude_ptx::types::{F32, Pred, U32};

use crate::graph::Kind;
use crate::plan::sm90::{Batches, Folded, Home};

use super::super::values::{Evaluator, Known, State};
use super::finishing::of_known;
use super::folding::Folding;
use super::tally::Share;

/// What a thread has folded of a block's finished values.
pub(super) struct Further<'k> {
    totals: Vec<Total<'k>>,
}

/// A reduction with the number of its first word, and its partial result.
struct Total<'k> {
    one: (u32, Folded),
    words: Vec<Var<'k, F32>>,
}

impl<'k> Further<'k> {
    /// Of all scalars that have their partial results from who finishes that.
    pub(super) fn new(
        folding: &Folding<'_, 'k>,
        evaluator: &Evaluator<'_, 'k>,
        home: Home,
    ) -> Further<'k> {
        let begin = |(word, folded): (u32, Folded)| {
            let nothing = evaluator.fold_begin(folded);
            let words = nothing.into_iter().map(|each| folding.k.var(each)).collect();
            Total { one: (word, folded), words }
        };
        let scalars = folding.from(home).filter(|(_, folded)| folded.home.kind == Kind::Scalar);
        Further { totals: scalars.map(begin).collect() }
    }

    /// Adds a row or a column of which this is known, to those that it counts for.
    pub(super) fn add(
        &self,
        evaluator: &Evaluator<'_, 'k>,
        known: &Known<'k>,
        counts: impl Fn(Folded) -> Reg<'k, Pred>,
    ) {
        for Total { one: (_, folded), words } in &self.totals {
            let value = of_known(evaluator, known, *folded)
                .select(evaluator.fold_nothing(*folded), counts(*folded));
            let before: State<'k> = words.iter().map(|word| word.get()).collect();
            let after = evaluator.fold_more(*folded, &before, &[value]);
            words.iter().zip(after).for_each(|(word, after)| word.set(after));
        }
    }

    /// Leaves the block's partial results, by its number among this many of a batch.
    pub(super) fn leave(
        self,
        folding: &Folding<'_, 'k>,
        evaluator: &Evaluator<'_, 'k>,
        share: Share<'k>,
        (place, blocks): (Reg<'k, U32>, Reg<'k, U32>),
    ) {
        if self.totals.is_empty() {
            return;
        }
        for Total { one: (word, folded), words } in &self.totals {
            let state = words.iter().map(|word| word.get()).collect();
            folding.keep_scalar(evaluator, *folded, *word, state);
        }
        folding.sync();
        folding.k.if_(folding.rank.eq(0), || {
            for total in &self.totals {
                let (_, folded) = total.one;
                let place = match folded.home.batches {
                    Batches::Each => place,
                    Batches::All => share.batch.mad(blocks, place),
                };
                let share = folding.share_of(folded.home, share);
                folding.leave_scalar(evaluator, total.one, share, place);
            }
        });
    }
}
