//! Second-stage reductions, of finished vectors: the warpgroup that finishes a block of rows or columns folds what it
//! finished.

use postlude_ptx::kernel::Reg;
use postlude_ptx::types::{Pred, U32};

use crate::graph::Kind;
use crate::lower::{Batches, Reduction, ReductionScope};

use super::super::batch::Coordinate;
use super::super::chip::EpilogueChip;
use super::super::values::{Environment, Evaluator};
use super::partials::Partial;
use super::reductions::{Numbered, Reductions};
use super::warp_exchange::WarpExchange;
use super::workspace::{ResultOf, Workspace, WorkspaceIndex};

/// What a thread has folded of a block's finished values.
pub(super) struct SecondStage<'k>(Vec<(Numbered, Partial<'k>)>);

impl<'k> SecondStage<'k> {
    /// For all scalars whose partial results come from finished values of this scope.
    pub(super) fn new<C: EpilogueChip>(
        evaluator: &Evaluator<'_, 'k, C>,
        reductions: Reductions<'_>,
        scope: ReductionScope,
    ) -> SecondStage<'k> {
        let scalars =
            reductions.from(scope).filter(|(_, reduction)| reduction.scope.kind == Kind::Scalar);
        SecondStage(scalars.map(|one| (one, Partial::begin(evaluator, one.1))).collect())
    }

    /// Adds a row or a column with this environment and these coordinates to the reductions that it counts for.
    pub(super) fn add<C: EpilogueChip>(
        &self,
        evaluator: &Evaluator<'_, 'k, C>,
        (environment, at): (&Environment<'k>, Coordinate<'k>),
        counts: impl Fn(Reduction) -> Reg<'k, Pred>,
    ) {
        for ((_, reduction), partial) in &self.0 {
            let term = evaluator.fold_term_of(environment, *reduction, || at);
            let term = evaluator.fold_where(*reduction, term, counts(*reduction));
            partial.more(evaluator, *reduction, &[term]);
        }
    }

    /// Writes the block's partial results, by its number among this many of a batch.
    pub(super) fn leave<C: EpilogueChip>(
        self,
        exchange: &WarpExchange<'_, 'k, C>,
        workspace: &Workspace<'_, 'k, C>,
        index: WorkspaceIndex<'k>,
        (number, blocks): (Reg<'k, U32>, Reg<'k, U32>),
    ) {
        if self.0.is_empty() {
            return;
        }
        let scalars = self.0.iter().map(|(one, partial)| (*one, partial.state()));
        exchange.fold_scalars(scalars, || {
            for one in self.0.iter().map(|(one, _)| *one) {
                let number = match one.1.scope.batches {
                    Batches::Each => number,
                    Batches::All => index.batch.mad(blocks, number),
                };
                let first = workspace.first_of(one.1.scope, index);
                let state = exchange.load_scalar(one);
                workspace.write(one, first, (number, ResultOf::Scalar), &state);
            }
        });
    }
}
