//! Second-stage reductions, of finished vectors: the warpgroup that finishes a block of rows or columns folds what it
//! finished.

use postlude_ptx::kernel::{Reg, Var};
use postlude_ptx::types::{F32, Pred, U32};

use crate::graph::Kind;
use crate::lower::{Batches, Reduction, ReductionScope};

use super::super::chip::EpilogueChip;
use super::super::values::{Environment, Evaluator, State};
use super::folding::Folding;
use super::partials::WorkspaceIndex;

/// What a thread has folded of a block's finished values.
pub(super) struct SecondStage<'k> {
    totals: Vec<Total<'k>>,
}

/// A reduction with the number of its first word, and its partial result.
struct Total<'k> {
    one: (u32, Reduction),
    words: Vec<Var<'k, F32>>,
}

impl<'k> SecondStage<'k> {
    /// For all scalars whose partial results come from finished values of this scope.
    pub(super) fn new<C: EpilogueChip>(
        folding: &Folding<'_, 'k, C>,
        evaluator: &Evaluator<'_, 'k, C>,
        scope: ReductionScope,
    ) -> SecondStage<'k> {
        let begin = |(word, reduction): (u32, Reduction)| {
            let nothing = evaluator.fold_begin(reduction);
            let words = nothing.into_iter().map(|each| folding.k.var(each)).collect();
            Total { one: (word, reduction), words }
        };
        let scalars =
            folding.from(scope).filter(|(_, reduction)| reduction.scope.kind == Kind::Scalar);
        SecondStage { totals: scalars.map(begin).collect() }
    }

    /// Adds a row or a column with this environment to the reductions that it counts for.
    pub(super) fn add<C: EpilogueChip>(
        &self,
        evaluator: &Evaluator<'_, 'k, C>,
        environment: &Environment<'k>,
        counts: impl Fn(Reduction) -> Reg<'k, Pred>,
    ) {
        for Total { one: (_, reduction), words } in &self.totals {
            let value = evaluator
                .fold_term_of(environment, *reduction)
                .select(evaluator.fold_nothing(*reduction), counts(*reduction));
            let before: State<'k> = words.iter().map(|word| word.get()).collect();
            let after = evaluator.fold_more(*reduction, &before, &[value]);
            words.iter().zip(after).for_each(|(word, after)| word.set(after));
        }
    }

    /// Writes the block's partial results, by its number among this many of a batch.
    pub(super) fn leave<C: EpilogueChip>(
        self,
        folding: &Folding<'_, 'k, C>,
        evaluator: &Evaluator<'_, 'k, C>,
        index: WorkspaceIndex<'k>,
        (place, blocks): (Reg<'k, U32>, Reg<'k, U32>),
    ) {
        if self.totals.is_empty() {
            return;
        }
        for Total { one: (word, reduction), words } in &self.totals {
            let state = words.iter().map(|word| word.get()).collect();
            folding.store_warp_scalar(evaluator, *reduction, *word, state);
        }
        folding.sync();
        folding.k.if_(folding.rank.eq(0), || {
            for total in &self.totals {
                let (_, reduction) = total.one;
                let place = match reduction.scope.batches {
                    Batches::Each => place,
                    Batches::All => index.batch.mad(blocks, place),
                };
                let index = folding.index_of(reduction.scope, index);
                folding.leave_scalar(evaluator, total.one, index, place);
            }
        });
    }
}
