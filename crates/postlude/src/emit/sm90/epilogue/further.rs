//! Reductions of finished vectors: who finishes a block of rows or columns folds what it finished.

use postlude_ptx::kernel::{Reg, Var};
use postlude_ptx::types::{F32, Pred, U32};

use crate::plan::sm90::{Folded, Source};

use super::super::values::{Evaluator, Known, State};
use super::folding::{Folding, Share};

/// What a thread has folded of a block's finished values.
pub(super) struct Further<'k> {
    /// Each reduction with its first word, and the partial result.
    totals: Vec<((u32, Folded), Vec<Var<'k, F32>>)>,
}

impl<'k> Further<'k> {
    /// Of all reductions that have their partial results from there.
    pub(super) fn new(
        folding: &Folding<'_, 'k>,
        evaluator: &Evaluator<'_, 'k>,
        source: Source,
    ) -> Further<'k> {
        let begin = |(word, folded): (u32, Folded)| {
            let nothing = evaluator.fold_begin(folded);
            ((word, folded), nothing.into_iter().map(|each| folding.k.var(each)).collect())
        };
        Further { totals: folding.from(source).map(begin).collect() }
    }

    /// Adds a row or a column of which this is known.
    pub(super) fn add(
        &self,
        evaluator: &Evaluator<'_, 'k>,
        known: &Known<'k>,
        inside: Reg<'k, Pred>,
    ) {
        for ((_, folded), total) in &self.totals {
            let Some(value) = known[folded.terms.index()] else {
                panic!("compiler bug: a reduction of nothing")
            };
            let value = value.float().select(evaluator.fold_nothing(*folded), inside);
            let before: State<'k> = total.iter().map(|word| word.get()).collect();
            let after = evaluator.fold_more(*folded, &before, &[value]);
            total.iter().zip(after).for_each(|(word, after)| word.set(after));
        }
    }

    /// Leaves the block's partial results, by its number.
    pub(super) fn leave(
        self,
        folding: &Folding<'_, 'k>,
        evaluator: &Evaluator<'_, 'k>,
        share: Share<'k>,
        place: Reg<'k, U32>,
    ) {
        if self.totals.is_empty() {
            return;
        }
        for ((word, folded), total) in &self.totals {
            let state = total.iter().map(|word| word.get()).collect();
            folding.keep_scalar(evaluator, *folded, *word, state);
        }
        folding.sync();
        folding.k.if_(folding.rank.eq(0), || {
            for (one, _) in &self.totals {
                folding.leave_scalar(evaluator, *one, share, place);
            }
        });
    }
}
