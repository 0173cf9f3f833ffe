//! Partial results of a tile's reductions in registers, and what is folded into them.

use std::collections::HashMap;

use postlude_ptx::kernel::{Kernel, Reg, Var};
use postlude_ptx::types::{F32, Pred};

use crate::graph::NodeId;
use crate::lower::Reduction;

use super::super::chip::EpilogueChip;
use super::super::values::{Evaluator, State, Term, Value};

/// Partial results of a tile's scalars, in one thread.
pub(super) type ScalarPartials<'k> = Vec<Partial<'k>>;

/// Partial results of a block's rows, of which each thread has two.
pub(super) struct RowPartials<'k> {
    pub(super) states: [Vec<Partial<'k>>; 2],
    /// Of each reduction, where its elements may be below bounds.
    pub(super) bounds: Vec<Option<RowBounds<'k>>>,
}

/// The bounds of a thread's two rows of a block.
#[derive(Clone, Copy)]
pub(super) struct RowBounds<'k> {
    /// Whether there are bounds at this size.
    pub(super) applies: Reg<'k, Pred>,
    pub(super) rows: [Var<'k, F32>; 2],
}

/// Partial results of a thread's columns over some blocks, by the first column and by the reduction's first word.
pub(super) type ColumnPartials<'k> = HashMap<(u32, u32), Vec<Partial<'k>>>;

/// What comes after the visit of a block's columns.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Turn {
    /// The same columns of the next block.
    Carries,
    /// Nothing: it is the last block, or the only one.
    Ends,
    /// Blocks are visited whole, one after the other; the partial results of earlier blocks are in shared memory.
    Joins,
}

/// The values that reductions fold, for each group of 8 columns the thread's four.
pub(super) type Terms<'k> = Vec<(NodeId, [Value<'k>; 4])>;

/// A partial result.
pub(super) struct Partial<'k>(Vec<Var<'k, F32>>);

impl<'k> Partial<'k> {
    /// Registers without a value.
    pub(super) fn unset<C: EpilogueChip>(k: Kernel<'k, C>, words: u32) -> Partial<'k> {
        Partial((0..words).map(|_| k.unset()).collect())
    }

    /// The partial result of nothing.
    pub(super) fn begin<C: EpilogueChip>(
        evaluator: &Evaluator<'_, 'k, C>,
        reduction: Reduction,
    ) -> Partial<'k> {
        Partial::new(evaluator.k, &evaluator.fold_begin(reduction))
    }

    /// Holds this at first.
    pub(super) fn new<C: EpilogueChip>(k: Kernel<'k, C>, state: &State<'k>) -> Partial<'k> {
        Partial(state.iter().map(|word| k.var(*word)).collect())
    }

    pub(super) fn state(&self) -> State<'k> {
        self.0.iter().map(|word| word.get()).collect()
    }

    pub(super) fn set(&self, state: State<'k>) {
        self.0.iter().zip(state).for_each(|(word, value)| word.set(value));
    }

    /// Folds more into it.
    pub(super) fn more<C: EpilogueChip>(
        &self,
        evaluator: &Evaluator<'_, 'k, C>,
        reduction: Reduction,
        terms: &[Term<'k>],
    ) {
        self.set(evaluator.fold_more(reduction, &self.state(), terms));
    }
}
