//! What reductions of a tile have so far, and where it belongs.

use std::collections::HashMap;

use postlude_ptx::kernel::{Kernel, Reg, Var};
use postlude_ptx::target::Sm90a;
use postlude_ptx::types::{F32, Pred, U32};

use crate::graph::NodeId;
use crate::plan::sm90::{Batches, Folded, Home};

use super::super::values::{Evaluator, State, Value};
use super::counting::number;

/// An arrival whose answers are still to be looked at.
pub(super) struct Deferred<'k> {
    /// What counters of rows, columns and scalars were before, of each batch and of all; in one thread.
    answers: Vec<Var<'k, U32>>,
    /// The tile that they are about, and the one behind it.
    pub(super) before: Remembered<'k>,
    pub(super) tile: Remembered<'k>,
}

/// Where a tile's partial results belong, kept from tile to tile.
pub(super) struct Remembered<'k> {
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
        Deferred { answers, before: Remembered::new(k), tile: Remembered::new(k) }
    }

    /// Forgets answers that were looked at, unless there are new ones.
    pub(super) fn forget_unless(&self, new: Reg<'k, Pred>) {
        for answer in &self.answers {
            answer.set(answer.get().select(u32::MAX, new));
        }
    }

    pub(super) fn answer(&self, home: Home) -> &Var<'k, U32> {
        let behind = if home.batches == Batches::All { 3 } else { 0 };
        &self.answers[behind + number(home.kind) as usize]
    }
}

impl<'k> Remembered<'k> {
    pub(super) fn new(k: Kernel<'k, Sm90a>) -> Remembered<'k> {
        let [batch, unit, tile] = [(); 3].map(|()| k.var(0));
        Remembered { batch, unit, tile }
    }

    /// The share of this tile in a grid.
    pub(super) fn share(&self, grid: Share<'k>) -> Share<'k> {
        let [batch, unit, tile] = [self.batch, self.unit, self.tile].map(Var::copy);
        Share { batch, unit, tile, ..grid }
    }

    pub(super) fn remember(&self, share: Share<'k>) {
        self.batch.set(share.batch);
        self.unit.set(share.unit);
        self.tile.set(share.tile);
    }
}

/// What a warpgroup has folded of a tile's scalars.
pub(super) struct Tally<'k>(pub(super) Vec<Running<'k>>);

/// What it has folded of a block's rows, of which each thread has two.
pub(super) struct RowTally<'k>(pub(super) [Vec<Running<'k>>; 2]);

/// What a reduction has so far.
pub(super) struct Running<'k>(Vec<Var<'k, F32>>);

/// What a thread has folded of its columns in some blocks, by the first of them and by the reduction's first word.
#[derive(Default)]
pub(super) struct Carried<'k>(pub(super) HashMap<(u32, u32), Vec<Running<'k>>>);

/// What is folded of a tile and of a block, and where it belongs.
#[derive(Clone, Copy)]
pub(super) struct Tallies<'t, 'k> {
    pub(super) tally: &'t Tally<'k>,
    pub(super) rows: &'t RowTally<'k>,
    pub(super) share: Share<'k>,
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

impl<'k> Running<'k> {
    /// Nothing yet, not even that.
    pub(super) fn unset(k: Kernel<'k, Sm90a>, words: u32) -> Running<'k> {
        Running((0..words).map(|_| k.unset()).collect())
    }

    pub(super) fn begin(evaluator: &Evaluator<'_, 'k>, folded: Folded) -> Running<'k> {
        let nothing = evaluator.fold_begin(folded);
        Running(nothing.into_iter().map(|word| evaluator.k.var(word)).collect())
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
        folded: Folded,
        values: &[Reg<'k, F32>],
    ) {
        self.set(evaluator.fold_more(folded, &self.state(), values));
    }
}

/// The values that reductions fold, for each group of 8 columns the thread's four.
pub(super) type Terms<'k> = Vec<(NodeId, [Value<'k>; 4])>;

/// Where a warpgroup's partial results belong.
#[derive(Clone, Copy)]
pub(super) struct Share<'k> {
    pub(super) batch: Reg<'k, U32>,
    /// Its rows' number among all parts of tiles along rows, and how many there are.
    pub(super) unit: Reg<'k, U32>,
    pub(super) units: Reg<'k, U32>,
    /// The tile's number along columns, and how many there are.
    pub(super) tile: Reg<'k, U32>,
    pub(super) tiles: Reg<'k, U32>,
}

/// Each with the number of its first word among all of theirs.
pub(super) fn numbered(all: &[Folded]) -> impl Iterator<Item = (u32, Folded)> {
    all.iter().scan(0, |next, folded| {
        let first = *next;
        *next += folded.words();
        Some((first, *folded))
    })
}
