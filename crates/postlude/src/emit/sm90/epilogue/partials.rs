//! What reductions of a tile have so far, and where it belongs.

use std::collections::HashMap;

use postlude_ptx::kernel::{Kernel, Reg, Var};
use postlude_ptx::target::Sm90a;
use postlude_ptx::types::{F32, Pred, U32};

use crate::graph::NodeId;
use crate::plan::sm90::{Batches, Reduction, ReductionScope};

use super::super::values::{Evaluator, State, Value};
use super::counting::number;

/// An arrival whose answers are still to be looked at.
pub(super) struct Deferred<'k> {
    /// What counters of rows, columns and scalars were before, of each batch and of all; in one thread.
    answers: Vec<Var<'k, U32>>,
    /// The tile that they are about, and the one behind it.
    pub(super) before: SavedIndex<'k>,
    pub(super) tile: SavedIndex<'k>,
}

/// Where a tile's partial results belong, kept from tile to tile.
pub(super) struct SavedIndex<'k> {
    batch: Var<'k, U32>,
    unit: Var<'k, U32>,
    tile: Var<'k, U32>,
}

impl<'k> Deferred<'k> {
    /// With answers of each batch, and of all where anybody asks for them.
    pub(super) fn new(k: Kernel<'k, Sm90a>, all: bool) -> Deferred<'k> {
        let count = if all { 6 } else { 3 };
        // No counter was ever that full.
        let answers = (0..count).map(|_| k.var(u32::MAX)).collect();
        Deferred { answers, before: SavedIndex::new(k), tile: SavedIndex::new(k) }
    }

    /// Forgets answers that were looked at, unless there are new ones.
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
    pub(super) fn new(k: Kernel<'k, Sm90a>) -> SavedIndex<'k> {
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

/// What a warpgroup has folded of a tile's scalars.
pub(super) struct ScalarPartials<'k>(pub(super) Vec<Partial<'k>>);

/// What it has folded of a block's rows, of which each thread has two.
pub(super) struct RowPartials<'k>(pub(super) [Vec<Partial<'k>>; 2]);

/// What a reduction has so far.
pub(super) struct Partial<'k>(Vec<Var<'k, F32>>);

/// What a thread has folded of its columns in some blocks, by the first of them and by the reduction's first word.
#[derive(Default)]
pub(super) struct ColumnPartials<'k>(pub(super) HashMap<(u32, u32), Vec<Partial<'k>>>);

/// What is folded of a tile and of a block, and where it belongs.
#[derive(Clone, Copy)]
pub(super) struct TilePartials<'t, 'k> {
    pub(super) partials: &'t ScalarPartials<'k>,
    pub(super) rows: &'t RowPartials<'k>,
    pub(super) index: WorkspaceIndex<'k>,
}

/// Where columns that are visited stand among a warpgroup's blocks.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Turn {
    /// More blocks follow, which the same columns are visited of next.
    Carries,
    /// The last one, or the only one.
    Ends,
    /// One of several that are visited whole, one behind the other; earlier ones left their columns in shared memory.
    Joins,
}

impl<'k> Partial<'k> {
    /// Nothing yet, not even that.
    pub(super) fn unset(k: Kernel<'k, Sm90a>, words: u32) -> Partial<'k> {
        Partial((0..words).map(|_| k.unset()).collect())
    }

    pub(super) fn begin(evaluator: &Evaluator<'_, 'k>, reduction: Reduction) -> Partial<'k> {
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
    pub(super) fn more(
        &self,
        evaluator: &Evaluator<'_, 'k>,
        reduction: Reduction,
        values: &[Reg<'k, F32>],
    ) {
        self.set(evaluator.fold_more(reduction, &self.state(), values));
    }
}

/// The values that reductions fold, for each group of 8 columns the thread's four.
pub(super) type Terms<'k> = Vec<(NodeId, [Value<'k>; 4])>;

/// Where a warpgroup's partial results belong.
#[derive(Clone, Copy)]
pub(super) struct WorkspaceIndex<'k> {
    pub(super) batch: Reg<'k, U32>,
    /// Its rows' number among all parts of tiles along rows, and how many there are.
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
