//! Which warpgroup finishes a scope: warpgroups arrive at its counter, and the last to arrive finishes it.
//!
//! In: the workspace index of a tile whose partial results are written. Out: a call of `finish` for each scope, in all
//! threads of the warpgroup that arrived last.
//!
//! One thread adds to a counter, and the counter's old value says whether all other warpgroups had arrived before. The
//! last one leaves it at zero for the next launch. A warpgroup looks at the old value after its next tile, when the
//! atomic has long returned. A warpgroup that finishes a block of rows or columns may write a partial result of what it
//! finished, and then arrives for that at once.

use postlude_ptx::kernel::{Kernel, Reg, Var};
use postlude_ptx::modifier::{self, Order, Scope};
use postlude_ptx::types::{Pred, U32};

use crate::graph::Kind;
use crate::lower::{Batches, Reduction, ReductionScope, Source};

use super::super::chip::EpilogueChip;
use super::bounds;
use super::reductions::Reductions;
use super::warp_exchange::WarpExchange;
use super::workspace::{UnitsOfSegment, Workspace, WorkspaceIndex};

/// The scope of rows that have bounds.
const ROWS_OF_BATCH: ReductionScope =
    ReductionScope { kind: Kind::AlongRows, batches: Batches::Each };
/// The flag word for scopes of all batches, behind the flags of each batch's.
const ALL_FLAGS: u32 = 3;

pub(super) struct Arrivals<'a, 'k, C> {
    pub(super) k: Kernel<'k, C>,
    pub(super) reductions: Reductions<'a>,
    pub(super) exchange: WarpExchange<'a, 'k, C>,
    pub(super) workspace: Workspace<'a, 'k, C>,
    /// The arrival of the tile before, where its answer is looked at later.
    pub(super) deferred: Option<Deferred<'k>>,
}

/// An arrival whose counters' old values are not looked at yet.
pub(super) struct Deferred<'k> {
    /// The old values of the counters of rows, columns and scalars, of each batch and of all; in one thread.
    answers: Vec<Var<'k, U32>>,
    /// The tile that arrived there, and the one after it.
    before: SavedIndex<'k>,
    tile: SavedIndex<'k>,
}

/// The batch, unit and tile of a workspace index, and where the units of its segment are, saved until after the next tile.
struct SavedIndex<'k> {
    own: [Var<'k, U32>; 3],
    segment: Option<[Var<'k, U32>; 2]>,
}

impl<'k> Deferred<'k> {
    /// With answers of each batch, and of all batches if `all`.
    pub(super) fn new<C: EpilogueChip>(
        k: Kernel<'k, C>,
        all: bool,
        segmented: bool,
    ) -> Deferred<'k> {
        let count = if all { 6 } else { 3 };
        // No counter was ever that full.
        let answers = (0..count).map(|_| k.var(u32::MAX)).collect();
        let [before, tile] = [(); 2].map(|()| SavedIndex::new(k, segmented));
        Deferred { answers, before, tile }
    }

    /// Clears answers that were looked at, unless there are new ones.
    pub(super) fn forget_unless(&self, new: Reg<'k, Pred>) {
        for answer in &self.answers {
            answer.set(answer.get().select(u32::MAX, new));
        }
    }

    fn answer(&self, scope: ReductionScope) -> &Var<'k, U32> {
        let behind = if scope.batches == Batches::All { 3 } else { 0 };
        &self.answers[behind + number(scope.kind) as usize]
    }
}

impl<'k> SavedIndex<'k> {
    fn new<C: EpilogueChip>(k: Kernel<'k, C>, segmented: bool) -> SavedIndex<'k> {
        let own = [(); 3].map(|()| k.var(0));
        // A counter that no warpgroup adds to would look full from the start.
        SavedIndex { own, segment: segmented.then(|| [0, 1].map(|value: u32| k.var(value))) }
    }

    /// This tile's index in a grid.
    fn in_grid(&self, grid: WorkspaceIndex<'k>) -> WorkspaceIndex<'k> {
        let [batch, unit, tile] = self.own.map(Var::copy);
        let segment = self.segment.map(|saved| {
            let [first, count] = saved.map(Var::copy);
            UnitsOfSegment { first, count }
        });
        WorkspaceIndex { batch, unit, tile, segment, ..grid }
    }

    fn save(&self, index: WorkspaceIndex<'k>) {
        let values = [index.batch, index.unit, index.tile];
        self.own.iter().zip(values).for_each(|(saved, value)| saved.set(value));
        if let (Some([first, count]), Some(segment)) = (self.segment, index.segment) {
            first.set(segment.first);
            count.set(segment.count);
        }
    }
}

impl<'k, C: EpilogueChip> Arrivals<'_, 'k, C> {
    /// Arrives for a tile. The last warpgroup finishes: at once, or when [`Arrivals::answer`] looks at the counters' old
    /// values, so that no thread waits for the atomics.
    pub(super) fn arrive(&self, index: WorkspaceIndex<'k>, finish: impl Fn(ReductionScope)) {
        match &self.deferred {
            Some(deferred) => deferred.tile.save(index),
            None => self.arrive_now(index, finish),
        }
    }

    /// Finishes the scopes that the tile before was the last to arrive for, and arrives for this one.
    pub(super) fn answer(
        &self,
        deferred: &Deferred<'k>,
        arrives: Reg<'k, Pred>,
        finish: impl Fn(ReductionScope, WorkspaceIndex<'k>),
    ) {
        let [before, index] =
            [&deferred.before, &deferred.tile].map(|saved| saved.in_grid(self.workspace.grid()));
        self.k.if_(self.exchange.rank.eq(0), || {
            for (scope, _) in self.counters(before) {
                let wanted = self.workspace.tiles_of(scope, before);
                let last = deferred.answer(scope).get().eq(wanted - 1);
                self.set_flag(scope, last);
                if scope == ROWS_OF_BATCH {
                    self.order_slots(before, Some(last));
                }
            }
        });
        self.exchange.sync();
        self.k.if_(arrives & self.exchange.rank.eq(0), || {
            self.order_slots(index, None);
            for (scope, counter) in self.counters(index) {
                let answer = self.count_up(counter, self.workspace.tiles_of(scope, index));
                deferred.answer(scope).set(answer);
            }
        });
        deferred.before.save(index);
        for (scope, _) in self.counters(before) {
            self.if_last(scope, || finish(scope, before));
        }
        // No flag is set for the next tile before all threads have read those of this one.
        self.exchange.sync();
    }

    /// Arrives at once, where there are second-stage reductions.
    fn arrive_now(&self, index: WorkspaceIndex<'k>, finish: impl Fn(ReductionScope)) {
        self.exchange.sync();
        for turn in self.reductions.turns() {
            self.k.if_(self.exchange.rank.eq(0), || {
                self.order_slots(index, None);
                for scope in &turn {
                    self.arrive_at(*scope, index);
                }
                self.order_slots(index, None);
            });
            self.exchange.sync();
            for scope in &turn {
                self.if_last(*scope, || finish(*scope));
            }
            if turn[0].batches == Batches::All {
                // The next scopes' flags are in the same word.
                self.exchange.sync();
            }
        }
        // No flag is set for the next tile before all threads have read those of this one.
        self.exchange.sync();
    }

    /// Orders changes of slots before the arrival, and the arrival of the last before it zeroes them: a slot does not say
    /// itself whether all tiles have changed it. One thread orders those of its warpgroup, between barriers, where this
    /// is so.
    fn order_slots(&self, index: WorkspaceIndex<'k>, only: Option<Reg<'k, Pred>>) {
        if let Some(applies) = bounds::applies(self.reductions, index) {
            let applies = only.map_or(applies, |only| applies & only);
            self.k.when(applies, || self.k.fence(Order::AcqRel, Scope::Gpu));
        }
    }

    /// Arrives for a tile, if it has partial results, and for what this warpgroup just finished.
    fn arrive_at(&self, scope: ReductionScope, index: WorkspaceIndex<'k>) {
        let k = self.k;
        let living: Vec<Reduction> = self.reductions.in_scope(scope).map(|(_, one)| one).collect();
        let finished = |reduction: &Reduction| matches!(reduction.source, Source::Finished(_));
        // The last tile to arrive finishes a scope without partial results, too.
        let tiles_count = living.is_empty() || !living.iter().all(finished);
        let (mut arrivals, mut wanted) = if tiles_count {
            (k.imm(1), self.workspace.tiles_of(scope, index))
        } else {
            (k.imm(0), k.imm(0))
        };
        for from in self.reductions.finished() {
            if living.iter().any(|reduction| reduction.source == Source::Finished(from)) {
                arrivals = arrivals + self.flag(from);
                wanted = wanted + self.workspace.blocks_of(from, scope, index);
            }
        }
        let counter = self.counter(scope, index);
        if tiles_count {
            self.count(scope, counter, arrivals, wanted);
        } else {
            // Threads with no arrivals must skip the atomic, or they would see a full counter.
            self.set_flag(scope, k.imm(false));
            k.if_(arrivals.ne(0), || self.count(scope, counter, arrivals, wanted));
        }
    }

    /// One thread adds arrivals to a counter. If they were the last, it sets the flag, and resets the counter for the
    /// next launch.
    fn count(
        &self,
        scope: ReductionScope,
        counter: Reg<'k, U32>,
        arrivals: Reg<'k, U32>,
        wanted: Reg<'k, U32>,
    ) {
        let (k, to) = (self.k, self.workspace.counter(counter));
        let add = modifier::Reduction::Add;
        let last =
            k.atomic::<U32>(add, Order::Relaxed, Scope::Gpu, to, arrivals).eq(wanted - arrivals);
        let (zero, to) = (k.imm::<U32>(0), self.workspace.counter(counter));
        k.when(last, || k.store_ordered(Order::Relaxed, Scope::Gpu, to, zero));
        self.set_flag(scope, last);
    }

    /// Adds one to a counter, which wraps to zero at the last arrival; returns its old value.
    ///
    /// With an addition instead of an increment ptxas would make the whole warp wait for the old value.
    fn count_up(&self, counter: Reg<'k, U32>, wanted: Reg<'k, U32>) -> Reg<'k, U32> {
        let to = self.workspace.counter(counter);
        let increment = modifier::Reduction::Increment;
        self.k.atomic::<U32>(increment, Order::Relaxed, Scope::Gpu, to, wanted - 1)
    }

    /// The counters of a tile.
    fn counters(&self, index: WorkspaceIndex<'k>) -> Vec<(ReductionScope, Reg<'k, U32>)> {
        self.reductions.finished().map(|scope| (scope, self.counter(scope, index))).collect()
    }

    /// Those of each batch's rows and columns come first, then its scalars'; those of all batches follow.
    fn counter(&self, scope: ReductionScope, index: WorkspaceIndex<'k>) -> Reg<'k, U32> {
        let batches = self.workspace.evaluator.parameters.batches;
        if index.segment.is_some() {
            return self.counter_of_segment(scope, index);
        }
        let behind = batches * index.units;
        let of_all = || batches.mad(index.tiles, behind) + batches;
        match (scope.batches, scope.kind) {
            (Batches::Each, Kind::AlongRows) => index.batch.mad(index.units, index.unit),
            (Batches::Each, Kind::AlongColumns) => {
                index.batch.mad(index.tiles, index.tile) + behind
            }
            (Batches::Each, Kind::Scalar | Kind::Tile) => {
                batches.mad(index.tiles, behind) + index.batch
            }
            (Batches::All, Kind::AlongRows) => of_all() + index.unit,
            (Batches::All, Kind::AlongColumns) => of_all() + index.units + index.tile,
            (Batches::All, Kind::Scalar | Kind::Tile) => of_all() + index.units + index.tiles,
        }
    }

    /// The same where rows are cut into segments, along which nothing is counted.
    fn counter_of_segment(&self, scope: ReductionScope, index: WorkspaceIndex<'k>) -> Reg<'k, U32> {
        let batches = self.workspace.evaluator.parameters.batches;
        let scalars = batches * index.tiles;
        match (scope.batches, scope.kind) {
            (_, Kind::AlongRows) => {
                panic!("compiler bug: a reduction along rows that are segmented")
            }
            (Batches::Each, Kind::AlongColumns) => index.batch.mad(index.tiles, index.tile),
            (Batches::Each, Kind::Scalar | Kind::Tile) => scalars + index.batch,
            (Batches::All, Kind::AlongColumns) => scalars + batches + index.tile,
            (Batches::All, Kind::Scalar | Kind::Tile) => scalars + batches + index.tiles,
        }
    }

    /// One thread sets or clears the flag that this warpgroup arrived last.
    fn set_flag(&self, scope: ReductionScope, last: Reg<'k, Pred>) {
        let (k, bit) = (self.k, 1 << number(scope.kind));
        if scope.batches == Batches::Each {
            let to = self.exchange.flag_place(number(scope.kind));
            return k.store_shared(to, [k.imm::<U32>(1).select(0, last)]);
        }
        let to = self.exchange.flag_place(ALL_FLAGS);
        let own = k.imm::<U32>(bit).select(0, last);
        // The first flag to be set clears those of the tile before.
        let mut of_all = self.reductions.finished().filter(|one| one.batches == Batches::All);
        let first = of_all.next() == Some(scope);
        let flags = if first { own } else { own | k.load_shared::<U32, 1>(to)[0] };
        k.store_shared(to, [flags]);
    }

    /// The flag: 1 or 0.
    fn flag(&self, scope: ReductionScope) -> Reg<'k, U32> {
        let load = |place| self.k.load_shared::<U32, 1>(self.exchange.flag_place(place))[0];
        match scope.batches {
            Batches::Each => load(number(scope.kind)),
            Batches::All => (load(ALL_FLAGS) >> number(scope.kind)) & 1,
        }
    }

    /// Runs `finish` in all threads of the warpgroup that arrived last.
    fn if_last(&self, scope: ReductionScope, finish: impl FnOnce()) {
        self.k.if_(self.flag(scope).ne(0), finish);
    }
}

/// The number of a finished kind: rows, columns, scalars.
pub(super) fn number(kind: Kind) -> u32 {
    match kind {
        Kind::AlongRows => 0,
        Kind::AlongColumns => 1,
        Kind::Scalar | Kind::Tile => 2,
    }
}
