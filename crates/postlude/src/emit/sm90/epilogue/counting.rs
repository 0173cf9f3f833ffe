//! Who finishes a reduction: warpgroups arrive at counters, and the last finishes what lives there.
//!
//! One thread adds to a counter, and its answer says whether all others had arrived before; it is left at zero for the next
//! launch. The answer is looked at behind the next tile, when it has long been there. Who finishes a block of rows or
//! columns may leave a partial result of what it finished, and then arrives for that at once.

use postlude_ptx::kernel::Reg;
use postlude_ptx::modifier::{Order, Reduction, Scope};
use postlude_ptx::types::{Pred, U32};

use crate::graph::Kind;
use crate::plan::sm90::{Batches, Folded, Home, Source};

use super::super::values::Evaluator;
use super::folding::Folding;
use super::tally::{Deferred, Share, numbered};

/// What may be finished of each batch.
const OF_EACH: [Home; 3] = homes(Batches::Each);
/// The same of all batches, which comes behind.
const OF_ALL: [Home; 3] = homes(Batches::All);
/// Where it is said for what of all batches a warpgroup was the last, behind what is said of each.
const ALL_FLAGS: u32 = 3;

/// Scalars may be made of what is finished along rows and columns.
const fn homes(batches: Batches) -> [Home; 3] {
    [
        Home { kind: Kind::AlongRows, batches },
        Home { kind: Kind::AlongColumns, batches },
        Home { kind: Kind::Scalar, batches },
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
    pub(super) fn end(&self, evaluator: &Evaluator<'_, 'k>, share: Share<'k>) {
        match &self.deferred {
            Some(deferred) => deferred.tile.remember(share),
            None => self.arrive_now(evaluator, share),
        }
    }

    /// Behind a tile, if there was one: finishes what the arrival of the one before allows, and arrives.
    pub(super) fn answer(&self, evaluator: &Evaluator<'_, 'k>, real: Reg<'k, Pred>) {
        let Some(deferred) = &self.deferred else { return };
        let Some(kept) = &self.kept else {
            return self.answer_of(evaluator, deferred, real);
        };
        // Tiles that leave nothing ask for nothing.
        let arrives = real & kept.complete.get();
        self.k.if_(arrives | kept.arrived.get(), || {
            self.answer_of(evaluator, deferred, arrives);
            deferred.forget_unless(arrives);
        });
        kept.arrived.set(arrives);
    }

    fn answer_of(
        &self,
        evaluator: &Evaluator<'_, 'k>,
        deferred: &Deferred<'k>,
        arrives: Reg<'k, Pred>,
    ) {
        let (before, share) =
            (deferred.before.share(self.grid()), deferred.tile.share(self.grid()));
        self.say_last(deferred, before);
        self.sync();
        self.k.if_(arrives & self.rank.eq(0), || {
            for (home, counter) in self.counters(share) {
                let answer = self.count_up(counter, self.tiles_of(home, share));
                deferred.answer(home).set(answer);
            }
        });
        deferred.before.remember(share);
        for (home, _) in self.counters(before) {
            self.if_last(home, || self.finish(evaluator, home, before));
        }
        // Nobody says anything about the next tile before all have heard of this one.
        self.sync();
    }

    /// One thread says for which counters the tile before was the last.
    fn say_last(&self, deferred: &Deferred<'k>, share: Share<'k>) {
        self.k.if_(self.rank.eq(0), || {
            for (home, _) in self.counters(share) {
                let wanted = self.tiles_of(home, share);
                self.say(home, deferred.answer(home).get().eq(wanted - 1));
            }
        });
    }

    /// What is finished, those of each batch first.
    pub(super) fn finished(&self) -> impl Iterator<Item = Home> {
        OF_EACH.into_iter().chain(OF_ALL).filter(|home| self.finishes(*home))
    }

    /// The counters of a tile.
    fn counters(&self, share: Share<'k>) -> Vec<(Home, Reg<'k, U32>)> {
        self.finished().map(|home| (home, self.counter(home, share))).collect()
    }

    /// Those of each batch's rows and columns come first, then its scalars'; those of all batches follow.
    fn counter(&self, home: Home, share: Share<'k>) -> Reg<'k, U32> {
        let batches = self.parameters.batches;
        let behind = batches * share.units;
        let of_all = || batches.mad(share.tiles, behind) + batches;
        match (home.batches, home.kind) {
            (Batches::Each, Kind::AlongRows) => share.batch.mad(share.units, share.unit),
            (Batches::Each, Kind::AlongColumns) => {
                share.batch.mad(share.tiles, share.tile) + behind
            }
            (Batches::Each, Kind::Scalar | Kind::Tile) => {
                batches.mad(share.tiles, behind) + share.batch
            }
            (Batches::All, Kind::AlongRows) => of_all() + share.unit,
            (Batches::All, Kind::AlongColumns) => of_all() + share.units + share.tile,
            (Batches::All, Kind::Scalar | Kind::Tile) => of_all() + share.units + share.tiles,
        }
    }

    /// How many arrive for one of what lives there: parts of tiles, or those that keep what they have of several.
    pub(super) fn tiles_of(&self, home: Home, share: Share<'k>) -> Reg<'k, U32> {
        let of_batch = match (home.kind, &self.kept) {
            (Kind::AlongRows, _) => share.tiles,
            (Kind::AlongColumns, _) => share.units,
            (Kind::Scalar | Kind::Tile, Some(kept)) => kept.count(),
            (Kind::Scalar | Kind::Tile, None) => share.units * share.tiles,
        };
        match home.batches {
            Batches::Each => of_batch,
            Batches::All => of_batch * self.parameters.batches,
        }
    }

    /// How many finish something of which one of what lives at home is made.
    pub(super) fn blocks_of(&self, from: Home, home: Home, share: Share<'k>) -> Reg<'k, U32> {
        let batches = self.parameters.batches;
        let blocks = match from.kind {
            // Of each batch one.
            _ if from.kind == home.kind => return batches,
            Kind::AlongRows => share.units,
            Kind::AlongColumns | Kind::Scalar | Kind::Tile => share.tiles,
        };
        if from.batches == home.batches { blocks } else { blocks * batches }
    }

    /// Whether reductions of what is finished follow, whose arrivals depend on who was last.
    pub(super) fn goes_further(&self) -> bool {
        self.all().any(|(_, folded)| matches!(folded.source, Source::Finished(_)))
    }

    /// Arrives at once, where what is finished goes on to another counter.
    fn arrive_now(&self, evaluator: &Evaluator<'_, 'k>, share: Share<'k>) {
        let k = self.k;
        self.sync();
        // Scalars may be made of vectors, and what is of all batches of what is of each.
        for turn in [&OF_EACH[..2], &OF_EACH[2..], &OF_ALL[..2], &OF_ALL[2..]] {
            let turn = turn.iter().copied().filter(|home| self.finishes(*home));
            let turn: Vec<Home> = turn.collect();
            if turn.is_empty() {
                continue;
            }
            k.if_(self.rank.eq(0), || turn.iter().for_each(|home| self.arrive(*home, share)));
            self.sync();
            for home in &turn {
                self.if_last(*home, || self.finish(evaluator, *home, share));
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
    fn arrive(&self, home: Home, share: Share<'k>) {
        let k = self.k;
        let living: Vec<Folded> =
            self.all().map(|(_, folded)| folded).filter(|folded| folded.home == home).collect();
        let finished = |folded: &Folded| matches!(folded.source, Source::Finished(_));
        // Somebody finishes what needs no partial results, too.
        let tiles_count = living.is_empty() || !living.iter().all(finished);
        let (mut arrivals, mut wanted) =
            if tiles_count { (k.imm(1), self.tiles_of(home, share)) } else { (k.imm(0), k.imm(0)) };
        for from in OF_EACH.into_iter().chain(OF_ALL) {
            if living.iter().any(|folded| folded.source == Source::Finished(from)) {
                arrivals = arrivals + self.heard(from);
                wanted = wanted + self.blocks_of(from, home, share);
            }
        }
        let counter = self.counter(home, share);
        if tiles_count {
            self.count(home, counter, arrivals, wanted);
        } else {
            // Who adds nothing must not look: after the last one it would find the counter full.
            self.say(home, k.imm(false));
            k.if_(arrivals.ne(0), || self.count(home, counter, arrivals, wanted));
        }
    }

    /// One thread adds arrivals to a counter, and says whether they were the last.
    fn count(
        &self,
        home: Home,
        counter: Reg<'k, U32>,
        arrivals: Reg<'k, U32>,
        wanted: Reg<'k, U32>,
    ) {
        let last = self.add(counter, arrivals).eq(wanted - arrivals);
        self.reset_if(last, counter);
        self.say(home, last);
    }

    /// Adds one to a counter, which the last that is wanted leaves at zero; what it was before.
    ///
    /// Of an addition ptxas would let a whole warp wait for the answer.
    fn count_up(&self, counter: Reg<'k, U32>, wanted: Reg<'k, U32>) -> Reg<'k, U32> {
        let (k, counter) = (self.k, self.part(0, self.k.widen(counter)));
        k.atomic::<U32>(Reduction::Increment, Order::Relaxed, Scope::Gpu, counter, wanted - 1)
    }

    /// Adds to a counter; what it was before.
    fn add(&self, counter: Reg<'k, U32>, arrivals: Reg<'k, U32>) -> Reg<'k, U32> {
        let counter = self.part(0, self.k.widen(counter));
        self.k.atomic::<U32>(Reduction::Add, Order::Relaxed, Scope::Gpu, counter, arrivals)
    }

    /// Leaves a counter as the next launch wants it.
    fn reset_if(&self, last: Reg<'k, Pred>, counter: Reg<'k, U32>) {
        let (k, zero) = (self.k, self.k.imm::<U32>(0));
        let counter = self.part(0, k.widen(counter));
        k.when(last, || k.store_ordered(Order::Relaxed, Scope::Gpu, counter, zero));
    }

    /// One thread says whether this warpgroup was the last there.
    fn say(&self, home: Home, last: Reg<'k, Pred>) {
        let (k, bit) = (self.k, 1 << number(home.kind));
        if home.batches == Batches::Each {
            let to = self.flag_place(number(home.kind));
            return k.store_shared(to, [k.imm::<U32>(1).select(0, last)]);
        }
        let to = self.flag_place(ALL_FLAGS);
        let own = k.imm::<U32>(bit).select(0, last);
        // The first to be said clears what was said of the tile before.
        let first = OF_ALL.into_iter().find(|home| self.finishes(*home)) == Some(home);
        let said = if first { own } else { own | k.load_shared::<U32, 1>(to)[0] };
        k.store_shared(to, [said]);
    }

    /// What was said: 1 or 0.
    fn heard(&self, home: Home) -> Reg<'k, U32> {
        let load = |place| self.k.load_shared::<U32, 1>(self.flag_place(place))[0];
        match home.batches {
            Batches::Each => load(number(home.kind)),
            Batches::All => (load(ALL_FLAGS) >> number(home.kind)) & 1,
        }
    }

    /// Does something with all threads of the warpgroup that was the last to arrive.
    fn if_last(&self, home: Home, finish: impl FnOnce()) {
        self.k.if_(self.heard(home).ne(0), finish);
    }

    /// Whether anything of that is finished.
    fn finishes(&self, home: Home) -> bool {
        self.all().any(|(_, folded)| folded.home == home) || self.from(home).next().is_some()
    }

    /// All reductions, each with its first word among those of its kind.
    fn all(&self) -> impl Iterator<Item = (u32, Folded)> {
        numbered(&self.rows).chain(numbered(&self.columns)).chain(numbered(&self.scalars))
    }

    /// Those that have their partial results from who finishes that.
    pub(super) fn from(&self, home: Home) -> impl Iterator<Item = (u32, Folded)> {
        self.all().filter(move |(_, folded)| folded.source == Source::Finished(home))
    }
}
