//! Partial results of a tile's reductions, and their index in the workspace.

use std::collections::HashMap;

use postlude_ptx::kernel::{Kernel, Reg, Var};
use postlude_ptx::types::{F32, Pred, U32};

use crate::graph::{Kind, NodeId};
use crate::lower::{Batches, Reduction, ReductionScope};

use super::super::chip::EpilogueChip;
use super::super::values::{Evaluator, State, Value};

/// An arrival whose counters' old values are not looked at yet.
pub(super) struct Deferred<'k> {
    /// The old values of the counters of rows, columns and scalars, of each batch and of all; in one thread.
    answers: Vec<Var<'k, U32>>,
    /// The tile that arrived there, and the one after it.
    pub(super) before: SavedIndex<'k>,
    pub(super) tile: SavedIndex<'k>,
}

/// The workspace index of a tile, saved until after the next tile.
pub(super) struct SavedIndex<'k> {
    batch: Var<'k, U32>,
    unit: Var<'k, U32>,
    tile: Var<'k, U32>,
}

impl<'k> Deferred<'k> {
    /// With answers of each batch, and of all batches if `all`.
    pub(super) fn new<C: EpilogueChip>(k: Kernel<'k, C>, all: bool) -> Deferred<'k> {
        let count = if all { 6 } else { 3 };
        // No counter was ever that full.
        let answers = (0..count).map(|_| k.var(u32::MAX)).collect();
        Deferred { answers, before: SavedIndex::new(k), tile: SavedIndex::new(k) }
    }

    /// Clears answers that were looked at, unless there are new ones.
    pub(super) fn forget_unless(&self, new: Reg<'k, Pred>) {
        for answer in &self.answers {
            answer.set(answer.get().select(u32::MAX, new));
        }
    }

    pub(super) fn answer(&self, scope: ReductionScope) -> &Var<'k, U32> {
        let behind = if scope.batches == Batches::All { 3 } else { 0 };
        &self.answers[behind + number(scope.kind) as usize]
    }
}

impl<'k> SavedIndex<'k> {
    pub(super) fn new<C: EpilogueChip>(k: Kernel<'k, C>) -> SavedIndex<'k> {
        let [batch, unit, tile] = [(); 3].map(|()| k.var(0));
        SavedIndex { batch, unit, tile }
    }

    /// This tile's index in a grid.
    pub(super) fn in_grid(&self, grid: WorkspaceIndex<'k>) -> WorkspaceIndex<'k> {
        let [batch, unit, tile] = [self.batch, self.unit, self.tile].map(Var::copy);
        WorkspaceIndex { batch, unit, tile, ..grid }
    }

    pub(super) fn save(&self, index: WorkspaceIndex<'k>) {
        self.batch.set(index.batch);
        self.unit.set(index.unit);
        self.tile.set(index.tile);
    }
}

/// Partial results of a tile's scalars, in one thread.
pub(super) struct ScalarPartials<'k>(pub(super) Vec<Partial<'k>>);

/// Partial results of a block's rows, of which each thread has two.
pub(super) struct RowPartials<'k>(pub(super) [Vec<Partial<'k>>; 2]);

/// A partial result.
pub(super) struct Partial<'k>(Vec<Var<'k, F32>>);

/// Partial results of a thread's columns over some blocks, by the first column and by the reduction's first word.
#[derive(Default)]
pub(super) struct ColumnPartials<'k>(pub(super) HashMap<(u32, u32), Vec<Partial<'k>>>);

/// Partial results of a tile and of a block, and their workspace index.
#[derive(Clone, Copy)]
pub(super) struct TilePartials<'t, 'k> {
    pub(super) partials: &'t ScalarPartials<'k>,
    pub(super) rows: &'t RowPartials<'k>,
    pub(super) index: WorkspaceIndex<'k>,
}

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

impl<'k> Partial<'k> {
    /// Registers without a value.
    pub(super) fn unset<C: EpilogueChip>(k: Kernel<'k, C>, words: u32) -> Partial<'k> {
        Partial((0..words).map(|_| k.unset()).collect())
    }

    pub(super) fn begin<C: EpilogueChip>(
        evaluator: &Evaluator<'_, 'k, C>,
        reduction: Reduction,
    ) -> Partial<'k> {
        let nothing = evaluator.fold_begin(reduction);
        Partial(nothing.into_iter().map(|word| evaluator.k.var(word)).collect())
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
        values: &[Reg<'k, F32>],
    ) {
        self.set(evaluator.fold_more(reduction, &self.state(), values));
    }
}

/// The values that reductions fold, for each group of 8 columns the thread's four.
pub(super) type Terms<'k> = Vec<(NodeId, [Value<'k>; 4])>;

/// Where a warpgroup's partial results lie in the workspace.
#[derive(Clone, Copy)]
pub(super) struct WorkspaceIndex<'k> {
    pub(super) batch: Reg<'k, U32>,
    /// The warpgroup's number along rows, over all tiles, and how many there are.
    pub(super) unit: Reg<'k, U32>,
    pub(super) units: Reg<'k, U32>,
    /// The tile's number along columns, and how many there are.
    pub(super) tile: Reg<'k, U32>,
    pub(super) tiles: Reg<'k, U32>,
}

/// Each with the number of its first word among all of theirs.
pub(super) fn numbered(all: &[Reduction]) -> impl Iterator<Item = (u32, Reduction)> {
    all.iter().scan(0, |next, reduction| {
        let first = *next;
        *next += reduction.words();
        Some((first, *reduction))
    })
}

/// The number of a finished kind: rows, columns, scalars.
pub(super) fn number(kind: Kind) -> u32 {
    match kind {
        Kind::AlongRows => 0,
        Kind::AlongColumns => 1,
        Kind::Scalar | Kind::Tile => 2,
    }
}
