//! Who finishes a reduction: warpgroups arrive at counters, and the last finishes what lives there.
//!
//! One thread adds to a counter, and its answer says whether all others had arrived before; it is left at zero for the next
//! launch. The answer is looked at behind the next tile, when it has long been there. Who finishes a block of rows or
//! columns may leave a partial result of what it finished, and then arrives for that at once.

use postlude_ptx::kernel::Reg;
use postlude_ptx::modifier::{self, Order, Scope};
use postlude_ptx::types::{Pred, U32};

use crate::graph::Kind;
use crate::plan::sm90::{Batches, Reduction, ReductionScope, Source};

use super::super::values::Evaluator;
use super::folding::Folding;
use super::partials::{Deferred, WorkspaceIndex, numbered};

/// What may be finished of each batch.
const OF_EACH: [ReductionScope; 3] = scopes(Batches::Each);
/// The same of all batches, which comes behind.
const OF_ALL: [ReductionScope; 3] = scopes(Batches::All);
/// Where it is said for what of all batches a warpgroup was the last, behind what is said of each.
const ALL_FLAGS: u32 = 3;

/// Scalars may be made of what is finished along rows and columns.
const fn scopes(batches: Batches) -> [ReductionScope; 3] {
    [
        ReductionScope { kind: Kind::AlongRows, batches },
        ReductionScope { kind: Kind::AlongColumns, batches },
        ReductionScope { kind: Kind::Scalar, batches },
    ]
}

/// The place of a kind among them.
pub(super) fn number(kind: Kind) -> u32 {
    match kind {
        Kind::AlongRows => 0,
        Kind::AlongColumns => 1,
        Kind::Scalar | Kind::Tile => 2,
    }
}

impl<'k> Folding<'_, 'k> {
    /// This warpgroup's partial results of a tile are there. Arrives; if they were the last, finishes: at once, or when
    /// [`Folding::answer`] looks at the counters' answers, so that nobody waits for them.
    pub(super) fn end(&self, evaluator: &Evaluator<'_, 'k>, index: WorkspaceIndex<'k>) {
        match &self.deferred {
            Some(deferred) => deferred.tile.save(index),
            None => self.arrive_now(evaluator, index),
        }
    }

    /// Behind a tile, if there was one: finishes what the arrival of the one before allows, and arrives.
    pub(super) fn answer(&self, evaluator: &Evaluator<'_, 'k>, real: Reg<'k, Pred>) {
        let Some(deferred) = &self.deferred else { return };
        let Some(persistent) = &self.persistent else {
            return self.answer_of(evaluator, deferred, real);
        };
        // Tiles that leave nothing ask for nothing.
        let arrives = real & persistent.complete.get();
        self.k.if_(arrives | persistent.arrived.get(), || {
            self.answer_of(evaluator, deferred, arrives);
            deferred.forget_unless(arrives);
        });
        persistent.arrived.set(arrives);
    }

    fn answer_of(
        &self,
        evaluator: &Evaluator<'_, 'k>,
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
        // Nobody says anything about the next tile before all have heard of this one.
        self.sync();
    }

    /// One thread says for which counters the tile before was the last.
    fn set_flags(&self, deferred: &Deferred<'k>, index: WorkspaceIndex<'k>) {
        self.k.if_(self.rank.eq(0), || {
            for (scope, _) in self.counters(index) {
                let wanted = self.tiles_of(scope, index);
                self.set_flag(scope, deferred.answer(scope).get().eq(wanted - 1));
            }
        });
    }

    /// What is finished, those of each batch first.
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

    /// How many arrive for one of what lives there: parts of tiles, or those that keep what they have of several.
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

    /// How many finish something of which one of what lives at home is made.
    pub(super) fn blocks_of(
        &self,
        from: ReductionScope,
        scope: ReductionScope,
        index: WorkspaceIndex<'k>,
    ) -> Reg<'k, U32> {
        let batches = self.parameters.batches;
        let blocks = match from.kind {
            // Of each batch one.
            _ if from.kind == scope.kind => return batches,
            Kind::AlongRows => index.units,
            Kind::AlongColumns | Kind::Scalar | Kind::Tile => index.tiles,
        };
        if from.batches == scope.batches { blocks } else { blocks * batches }
    }

    /// Whether reductions of what is finished follow, whose arrivals depend on who was last.
    pub(super) fn has_second_stage(&self) -> bool {
        self.all().any(|(_, reduction)| matches!(reduction.source, Source::Finished(_)))
    }

    /// Arrives at once, where what is finished goes on to another counter.
    fn arrive_now(&self, evaluator: &Evaluator<'_, 'k>, index: WorkspaceIndex<'k>) {
        let k = self.k;
        self.sync();
        // Scalars may be made of vectors, and what is of all batches of what is of each.
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
                // The next ones' flags share a word with these.
                self.sync();
            }
        }
        // Nobody says anything about the next tile before all have heard of this one.
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
        // Somebody finishes what needs no partial results, too.
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
            // Who adds nothing must not look: after the last one it would find the counter full.
            self.set_flag(scope, k.imm(false));
            k.if_(arrivals.ne(0), || self.count(scope, counter, arrivals, wanted));
        }
    }

    /// One thread adds arrivals to a counter, and says whether they were the last.
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

    /// Adds one to a counter, which the last that is wanted leaves at zero; what it was before.
    ///
    /// Of an addition ptxas would let a whole warp wait for the answer.
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

    /// Adds to a counter; what it was before.
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

    /// Leaves a counter as the next launch wants it.
    fn reset_if(&self, last: Reg<'k, Pred>, counter: Reg<'k, U32>) {
        let (k, zero) = (self.k, self.k.imm::<U32>(0));
        let counter = self.part(0, k.widen(counter));
        k.when(last, || k.store_ordered(Order::Relaxed, Scope::Gpu, counter, zero));
    }

    /// One thread says whether this warpgroup was the last there.
    fn set_flag(&self, scope: ReductionScope, last: Reg<'k, Pred>) {
        let (k, bit) = (self.k, 1 << number(scope.kind));
        if scope.batches == Batches::Each {
            let to = self.flag_place(number(scope.kind));
            return k.store_shared(to, [k.imm::<U32>(1).select(0, last)]);
        }
        let to = self.flag_place(ALL_FLAGS);
        let own = k.imm::<U32>(bit).select(0, last);
        // The first to be said clears what was said of the tile before.
        let first = OF_ALL.into_iter().find(|scope| self.finishes(*scope)) == Some(scope);
        let flags = if first { own } else { own | k.load_shared::<U32, 1>(to)[0] };
        k.store_shared(to, [flags]);
    }

    /// What was said: 1 or 0.
    fn flag(&self, scope: ReductionScope) -> Reg<'k, U32> {
        let load = |place| self.k.load_shared::<U32, 1>(self.flag_place(place))[0];
        match scope.batches {
            Batches::Each => load(number(scope.kind)),
            Batches::All => (load(ALL_FLAGS) >> number(scope.kind)) & 1,
        }
    }

    /// Does something with all threads of the warpgroup that was the last to arrive.
    fn if_last(&self, scope: ReductionScope, finish: impl FnOnce()) {
        self.k.if_(self.flag(scope).ne(0), finish);
    }

    /// Whether anything of that is finished.
    fn finishes(&self, scope: ReductionScope) -> bool {
        self.all().any(|(_, reduction)| reduction.scope == scope)
            || self.from(scope).next().is_some()
    }

    /// All reductions, each with its first word among those of its kind.
    fn all(&self) -> impl Iterator<Item = (u32, Reduction)> {
        numbered(&self.rows).chain(numbered(&self.columns)).chain(numbered(&self.scalars))
    }

    /// Those that have their partial results from who finishes that.
    pub(super) fn from(&self, scope: ReductionScope) -> impl Iterator<Item = (u32, Reduction)> {
        self.all().filter(move |(_, reduction)| reduction.source == Source::Finished(scope))
    }
}
