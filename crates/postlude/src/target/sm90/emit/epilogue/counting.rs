//! Which warpgroup finishes a reduction: warpgroups arrive at the counter of a scope, and the last to arrive finishes it.
//!
//! One thread adds to a counter, and the counter's old value says whether all other warpgroups had arrived before. The
//! last one leaves it at zero for the next launch. A warpgroup looks at the old value after its next tile, when the
//! atomic has long returned. A warpgroup that finishes a block of rows or columns may write a partial result of what it
//! finished, and then arrives for that at once.

use postlude_ptx::kernel::Reg;
use postlude_ptx::modifier::{self, Order, Scope};
use postlude_ptx::types::{Pred, U32};

use crate::graph::Kind;
use crate::lower::{Batches, Reduction, ReductionScope, Source};

use super::super::chip::EpilogueChip;
use super::super::values::Evaluator;
use super::folding::Folding;
use super::partials::{Deferred, WorkspaceIndex, number, numbered};

/// The scopes of each batch.
const OF_EACH: [ReductionScope; 3] = scopes(Batches::Each);
/// The scopes of all batches, which are finished after those.
const OF_ALL: [ReductionScope; 3] = scopes(Batches::All);
/// The flag word for scopes of all batches, behind the flags of each batch's.
const ALL_FLAGS: u32 = 3;

/// Scalars last: they may be computed from what is finished along rows and columns.
const fn scopes(batches: Batches) -> [ReductionScope; 3] {
    [
        ReductionScope { kind: Kind::AlongRows, batches },
        ReductionScope { kind: Kind::AlongColumns, batches },
        ReductionScope { kind: Kind::Scalar, batches },
    ]
}

impl<'k, C: EpilogueChip> Folding<'_, 'k, C> {
    /// Arrives for this warpgroup's partial results of a tile, which are written. The last warpgroup finishes: at once,
    /// or when [`Folding::answer`] looks at the counters' old values, so that no thread waits for the atomics.
    pub(super) fn end(&self, evaluator: &Evaluator<'_, 'k, C>, index: WorkspaceIndex<'k>) {
        match &self.deferred {
            Some(deferred) => deferred.tile.save(index),
            None => self.arrive_now(evaluator, index),
        }
    }

    /// After a tile, if there was one: finishes the scopes that the tile before was the last to arrive for, and arrives.
    pub(super) fn answer(&self, evaluator: &Evaluator<'_, 'k, C>, real: Reg<'k, Pred>) {
        let Some(deferred) = &self.deferred else { return };
        let Some(persistent) = &self.persistent else {
            return self.answer_of(evaluator, deferred, real);
        };
        // Tiles without a partial result do not arrive.
        let arrives = real & persistent.complete.get();
        self.k.if_(arrives | persistent.arrived.get(), || {
            self.answer_of(evaluator, deferred, arrives);
            deferred.forget_unless(arrives);
        });
        persistent.arrived.set(arrives);
    }

    fn answer_of(
        &self,
        evaluator: &Evaluator<'_, 'k, C>,
        deferred: &Deferred<'k>,
        arrives: Reg<'k, Pred>,
    ) {
        let (before, index) =
            (deferred.before.in_grid(self.grid()), deferred.tile.in_grid(self.grid()));
        self.set_flags(deferred, before);
        self.sync();
        self.k.if_(arrives & self.rank.eq(0), || {
            for (scope, counter) in self.counters(index) {
                let answer = self.count_up(counter, self.tiles_of(scope, index));
                deferred.answer(scope).set(answer);
            }
        });
        deferred.before.save(index);
        for (scope, _) in self.counters(before) {
            self.if_last(scope, || self.finish(evaluator, scope, before));
        }
        // No flag is set for the next tile before all threads have read those of this one.
        self.sync();
    }

    /// One thread sets the flags of the counters at which the tile before arrived last.
    fn set_flags(&self, deferred: &Deferred<'k>, index: WorkspaceIndex<'k>) {
        self.k.if_(self.rank.eq(0), || {
            for (scope, _) in self.counters(index) {
                let wanted = self.tiles_of(scope, index);
                self.set_flag(scope, deferred.answer(scope).get().eq(wanted - 1));
            }
        });
    }

    /// The scopes that are finished, those of each batch first.
    pub(super) fn finished(&self) -> impl Iterator<Item = ReductionScope> {
        OF_EACH.into_iter().chain(OF_ALL).filter(|scope| self.finishes(*scope))
    }

    /// The counters of a tile.
    fn counters(&self, index: WorkspaceIndex<'k>) -> Vec<(ReductionScope, Reg<'k, U32>)> {
        self.finished().map(|scope| (scope, self.counter(scope, index))).collect()
    }

    /// Those of each batch's rows and columns come first, then its scalars'; those of all batches follow.
    fn counter(&self, scope: ReductionScope, index: WorkspaceIndex<'k>) -> Reg<'k, U32> {
        let batches = self.parameters.batches;
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

    /// How many arrivals a scope's counter takes: of tiles' warpgroups, or of warpgroups that accumulate across tiles.
    pub(super) fn tiles_of(
        &self,
        scope: ReductionScope,
        index: WorkspaceIndex<'k>,
    ) -> Reg<'k, U32> {
        let of_batch = match (scope.kind, &self.persistent) {
            (Kind::AlongRows, _) => index.tiles,
            (Kind::AlongColumns, _) => index.units,
            (Kind::Scalar | Kind::Tile, Some(persistent)) => persistent.count(),
            (Kind::Scalar | Kind::Tile, None) => index.units * index.tiles,
        };
        match scope.batches {
            Batches::Each => of_batch,
            Batches::All => of_batch * self.parameters.batches,
        }
    }

    /// How many finished blocks one result of this scope is computed from.
    pub(super) fn blocks_of(
        &self,
        from: ReductionScope,
        scope: ReductionScope,
        index: WorkspaceIndex<'k>,
    ) -> Reg<'k, U32> {
        let batches = self.parameters.batches;
        let blocks = match from.kind {
            // One of each batch.
            _ if from.kind == scope.kind => return batches,
            Kind::AlongRows => index.units,
            Kind::AlongColumns | Kind::Scalar | Kind::Tile => index.tiles,
        };
        if from.batches == scope.batches { blocks } else { blocks * batches }
    }

    /// Whether there are second-stage reductions, whose arrivals depend on which warpgroup was the last.
    pub(super) fn has_second_stage(&self) -> bool {
        self.all().any(|(_, reduction)| matches!(reduction.source, Source::Finished(_)))
    }

    /// Arrives at once, where there are second-stage reductions.
    fn arrive_now(&self, evaluator: &Evaluator<'_, 'k, C>, index: WorkspaceIndex<'k>) {
        let k = self.k;
        self.sync();
        // Scalars may be computed from vectors, and results of all batches from those of each batch.
        for turn in [&OF_EACH[..2], &OF_EACH[2..], &OF_ALL[..2], &OF_ALL[2..]] {
            let turn = turn.iter().copied().filter(|scope| self.finishes(*scope));
            let turn: Vec<ReductionScope> = turn.collect();
            if turn.is_empty() {
                continue;
            }
            k.if_(self.rank.eq(0), || turn.iter().for_each(|scope| self.arrive(*scope, index)));
            self.sync();
            for scope in &turn {
                self.if_last(*scope, || self.finish(evaluator, *scope, index));
            }
            if turn[0].batches == Batches::All {
                // The next scopes' flags are in the same word.
                self.sync();
            }
        }
        // No flag is set for the next tile before all threads have read those of this one.
        self.sync();
    }

    /// Arrives for a tile, if it has partial results, and for what this warpgroup just finished.
    fn arrive(&self, scope: ReductionScope, index: WorkspaceIndex<'k>) {
        let k = self.k;
        let living: Vec<Reduction> = self
            .all()
            .map(|(_, reduction)| reduction)
            .filter(|reduction| reduction.scope == scope)
            .collect();
        let finished = |reduction: &Reduction| matches!(reduction.source, Source::Finished(_));
        // The last tile to arrive finishes a scope without partial results, too.
        let tiles_count = living.is_empty() || !living.iter().all(finished);
        let (mut arrivals, mut wanted) = if tiles_count {
            (k.imm(1), self.tiles_of(scope, index))
        } else {
            (k.imm(0), k.imm(0))
        };
        for from in OF_EACH.into_iter().chain(OF_ALL) {
            if living.iter().any(|reduction| reduction.source == Source::Finished(from)) {
                arrivals = arrivals + self.flag(from);
                wanted = wanted + self.blocks_of(from, scope, index);
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

    /// One thread adds arrivals to a counter, and sets the flag if they were the last.
    fn count(
        &self,
        scope: ReductionScope,
        counter: Reg<'k, U32>,
        arrivals: Reg<'k, U32>,
        wanted: Reg<'k, U32>,
    ) {
        let last = self.add(counter, arrivals).eq(wanted - arrivals);
        self.reset_if(last, counter);
        self.set_flag(scope, last);
    }

    /// Adds one to a counter, which wraps to zero at the last arrival; returns its old value.
    ///
    /// With an addition instead of an increment ptxas would make the whole warp wait for the old value.
    fn count_up(&self, counter: Reg<'k, U32>, wanted: Reg<'k, U32>) -> Reg<'k, U32> {
        let (k, counter) = (self.k, self.part(0, self.k.widen(counter)));
        k.atomic::<U32>(
            modifier::Reduction::Increment,
            Order::Relaxed,
            Scope::Gpu,
            counter,
            wanted - 1,
        )
    }

    /// Adds to a counter; returns its old value.
    fn add(&self, counter: Reg<'k, U32>, arrivals: Reg<'k, U32>) -> Reg<'k, U32> {
        let counter = self.part(0, self.k.widen(counter));
        self.k.atomic::<U32>(
            modifier::Reduction::Add,
            Order::Relaxed,
            Scope::Gpu,
            counter,
            arrivals,
        )
    }

    /// Resets a counter for the next launch.
    fn reset_if(&self, last: Reg<'k, Pred>, counter: Reg<'k, U32>) {
        let (k, zero) = (self.k, self.k.imm::<U32>(0));
        let counter = self.part(0, k.widen(counter));
        k.when(last, || k.store_ordered(Order::Relaxed, Scope::Gpu, counter, zero));
    }

    /// One thread sets or clears the flag that this warpgroup arrived last.
    fn set_flag(&self, scope: ReductionScope, last: Reg<'k, Pred>) {
        let (k, bit) = (self.k, 1 << number(scope.kind));
        if scope.batches == Batches::Each {
            let to = self.flag_place(number(scope.kind));
            return k.store_shared(to, [k.imm::<U32>(1).select(0, last)]);
        }
        let to = self.flag_place(ALL_FLAGS);
        let own = k.imm::<U32>(bit).select(0, last);
        // The first flag to be set clears those of the tile before.
        let first = OF_ALL.into_iter().find(|scope| self.finishes(*scope)) == Some(scope);
        let flags = if first { own } else { own | k.load_shared::<U32, 1>(to)[0] };
        k.store_shared(to, [flags]);
    }

    /// The flag: 1 or 0.
    fn flag(&self, scope: ReductionScope) -> Reg<'k, U32> {
        let load = |place| self.k.load_shared::<U32, 1>(self.flag_place(place))[0];
        match scope.batches {
            Batches::Each => load(number(scope.kind)),
            Batches::All => (load(ALL_FLAGS) >> number(scope.kind)) & 1,
        }
    }

    /// Runs `finish` in all threads of the warpgroup that arrived last.
    fn if_last(&self, scope: ReductionScope, finish: impl FnOnce()) {
        self.k.if_(self.flag(scope).ne(0), finish);
    }

    /// Whether anything of this scope is finished.
    fn finishes(&self, scope: ReductionScope) -> bool {
        self.all().any(|(_, reduction)| reduction.scope == scope)
            || self.from(scope).next().is_some()
    }

    /// All reductions, each with its first word among those of its kind.
    fn all(&self) -> impl Iterator<Item = (u32, Reduction)> {
        numbered(&self.rows).chain(numbered(&self.columns)).chain(numbered(&self.scalars))
    }

    /// Those whose partial results come from finished values of this scope.
    pub(super) fn from(&self, scope: ReductionScope) -> impl Iterator<Item = (u32, Reduction)> {
        self.all().filter(move |(_, reduction)| reduction.source == Source::Finished(scope))
    }
}
