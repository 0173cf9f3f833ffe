//! The end of a reduction: the last warpgroup to arrive combines all partial results, in the order of the tiles, and
//! writes what is computed from them.
//!
//! Partial results are stored; one thread adds to a counter, and its answer says whether all others had arrived before.
//! Nothing orders stores and counters: a word of a partial result says itself whether it is there, so that nobody waits
//! for a fence, and who is last waits for words that are still on their way. It leaves words and counters at zero for the
//! next launch. A counter's answer is looked at behind the next tile, when it has long been there. Who finishes a block of
//! rows or columns may leave a partial result of what it finished, and then arrives for that, too.

use postlude_ptx::kernel::{GlobalPointer, Half, Kernel, Packed8, Reg, Var};
use postlude_ptx::modifier::{Order, Reduction, Scope};
use postlude_ptx::target::Sm90a;
use postlude_ptx::types::{B32, F32, Pred, Scalar, U16, U32, U64};

use crate::dtype::DType;
use crate::graph::Kind;
use crate::plan::sm90::{Folded, How, SLOT_ROWS, Source};

use super::super::parameters::{Destination, Location};
use super::super::values::{Evaluator, Known, Place, State, Value};
use super::folding::Folding;
use super::further::Further;
use super::tally::{Deferred, Share, numbered};

/// Words of scalars that are asked for before the first is there.
const SCALARS_UNDER_WAY: u32 = 16;
/// Registers beside the accumulators that hold many words and where they come from.
const MANY_REGISTERS: u32 = 104;
/// Threads of a warpgroup.
const THREADS: u32 = 128;
/// Where it is said who was last for a block of rows, a block of columns and a batch's scalars.
const ROWS: u32 = 0;
const COLUMNS: u32 = 1;
const SCALARS: u32 = 2;

/// Partial results of one place: how many there are, and where.
struct Parts<'f, 'k> {
    folded: Folded,
    count: Reg<'k, U32>,
    /// Where the first is, by the number of a word, and how many bytes are from each to the next.
    at: &'f dyn Fn(u32) -> GlobalPointer<'k>,
    apart: Reg<'k, U64>,
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
        let (before, share) =
            (deferred.before.share(self.grid()), deferred.tile.share(self.grid()));
        self.say_last(deferred, before);
        self.sync();
        self.k.if_(real & self.rank.eq(0), || {
            for (number, counter) in self.counters(share) {
                let answer = self.count_up(counter, Self::wanted(number, share));
                deferred.answers[number as usize].set(answer);
            }
        });
        deferred.before.remember(share);
        self.finish_last(evaluator, before);
        // Nobody says anything about the next tile before all have heard of this one.
        self.sync();
    }

    /// One thread says for which counters the tile before was the last.
    fn say_last(&self, deferred: &Deferred<'k>, share: Share<'k>) {
        let k = self.k;
        k.if_(self.rank.eq(0), || {
            for (number, _) in self.counters(share) {
                let last =
                    deferred.answers[number as usize].get().eq(Self::wanted(number, share) - 1);
                k.store_shared(self.flag_place(number), [k.imm::<U32>(1).select(0, last)]);
            }
        });
    }

    /// Finishes that tile, where it was the last.
    fn finish_last(&self, evaluator: &Evaluator<'_, 'k>, share: Share<'k>) {
        for (number, _) in self.counters(share) {
            self.if_last(number, || match number {
                ROWS => self.finish_rows(evaluator, share),
                COLUMNS => self.finish_columns(evaluator, share),
                _ => self.finish_scalars(evaluator, share),
            });
        }
    }

    /// The counters of a tile, each with the number of its flag.
    fn counters(&self, share: Share<'k>) -> Vec<(u32, Reg<'k, U32>)> {
        let batches = self.parameters.batches;
        let behind = batches * share.units;
        let mut counters = Vec::new();
        if self.finishes(Kind::AlongRows) {
            counters.push((ROWS, share.batch.mad(share.units, share.unit)));
        }
        if self.finishes(Kind::AlongColumns) {
            counters.push((COLUMNS, share.batch.mad(share.tiles, share.tile) + behind));
        }
        if !self.scalars.is_empty() {
            counters.push((SCALARS, batches.mad(share.tiles, behind) + share.batch));
        }
        counters
    }

    /// How many arrive at a counter.
    fn wanted(number: u32, share: Share<'k>) -> Reg<'k, U32> {
        match number {
            ROWS => share.tiles,
            COLUMNS => share.units,
            _ => share.units * share.tiles,
        }
    }

    /// Whether reductions of what is finished follow, whose arrivals depend on who was last.
    pub(super) fn goes_further(&self) -> bool {
        self.from(Source::FinishedRows).chain(self.from(Source::FinishedColumns)).count() > 0
    }

    fn arrive_now(&self, evaluator: &Evaluator<'_, 'k>, share: Share<'k>) {
        let k = self.k;
        let (rows, columns) = (self.finishes(Kind::AlongRows), self.finishes(Kind::AlongColumns));
        self.sync();
        k.if_(self.rank.eq(0), || {
            for (number, counter) in self.counters(share) {
                if number != SCALARS {
                    self.count(number, counter, k.imm(1), Self::wanted(number, share));
                }
            }
        });
        self.sync();
        if rows {
            self.if_last(ROWS, || self.finish_rows(evaluator, share));
        }
        if columns {
            self.if_last(COLUMNS, || self.finish_columns(evaluator, share));
        }
        k.if_(self.rank.eq(0), || self.count_scalars(share));
        self.sync();
        self.if_last(SCALARS, || self.finish_scalars(evaluator, share));
        // Nobody says anything about the next tile before all have heard of this one.
        self.sync();
    }

    /// Whether blocks of rows or of columns are finished.
    fn finishes(&self, kind: Kind) -> bool {
        match kind {
            Kind::AlongRows => {
                !self.rows.is_empty() || self.from(Source::FinishedRows).next().is_some()
            }
            Kind::AlongColumns => {
                !self.columns.is_empty() || self.from(Source::FinishedColumns).next().is_some()
            }
            Kind::Scalar | Kind::Tile => false,
        }
    }

    /// Scalars that have their partial results from there, each with its first word.
    pub(super) fn from(&self, source: Source) -> impl Iterator<Item = (u32, Folded)> {
        numbered(&self.scalars).filter(move |(_, folded)| folded.source == source)
    }

    /// One thread adds arrivals to a counter, and says whether they were the last.
    fn count(
        &self,
        number: u32,
        counter: Reg<'k, U32>,
        arrivals: Reg<'k, U32>,
        wanted: Reg<'k, U32>,
    ) {
        let k = self.k;
        let last = self.add(counter, arrivals).eq(wanted - arrivals);
        self.reset_if(last, counter);
        k.store_shared(self.flag_place(number), [k.imm::<U32>(1).select(0, last)]);
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

    /// The same for a batch's scalars: a tile arrives, and whoever finished a block for one more.
    fn count_scalars(&self, share: Share<'k>) {
        let k = self.k;
        let (units, tiles) = (share.units, share.tiles);
        let behind = self.parameters.batches.mad(tiles, self.parameters.batches * units);
        let (counter, all) = (behind + share.batch, units * tiles);
        let of_rows = self.from(Source::FinishedRows).next().map(|_| (ROWS, units));
        let of_columns = self.from(Source::FinishedColumns).next().map(|_| (COLUMNS, tiles));
        let tiles_count = self.of_tiles().next().is_some();
        let (mut arrivals, mut wanted) =
            if tiles_count { (k.imm(1), all) } else { (k.imm(0), k.imm(0)) };
        for (number, blocks) in of_rows.into_iter().chain(of_columns) {
            let [last] = k.load_shared::<U32, 1>(self.flag_place(number));
            arrivals = arrivals + last;
            wanted = wanted + blocks;
        }
        if tiles_count {
            self.count(SCALARS, counter, arrivals, wanted);
        } else {
            // Who adds nothing must not look: after the last one it would find the counter full.
            k.store_shared(self.flag_place(SCALARS), [k.imm::<U32>(0)]);
            k.if_(arrivals.ne(0), || self.count(SCALARS, counter, arrivals, wanted));
        }
    }

    /// Does something with all threads of the warpgroup that was the last to arrive.
    fn if_last(&self, number: u32, finish: impl FnOnce()) {
        let [last] = self.k.load_shared::<U32, 1>(self.flag_place(number));
        self.k.if_(last.ne(0), finish);
    }

    fn finish_rows(&self, evaluator: &Evaluator<'_, 'k>, share: Share<'k>) {
        let k = self.k;
        let unit_rows = self.plan.schedule.tile.blocks() * SLOT_ROWS;
        let further = Further::new(self, evaluator, Source::FinishedRows);
        let apart = k.widen(share.units * unit_rows) * 4_u64;
        k.for_(self.rank, unit_rows, THREADS, |within| {
            let row = share.unit.mad(unit_rows, within);
            let inside = row.lt(self.parameters.rows);
            let place = Place { at: [share.batch, row, k.imm(0)], inside: Some(inside) };
            let known = self.known(evaluator, Kind::AlongRows, &place);
            let one = |(word, folded): (u32, Folded)| {
                let count = if folded.is_pick() {
                    // Nobody leaves what is not there.
                    let picked = Evaluator::picked(folded, &known);
                    k.imm(1).select(0, inside & picked.lt(self.parameters.columns))
                } else {
                    share.tiles
                };
                let at = |each: u32| self.row_part(share, word + each, k.imm(0), row);
                let parts = Parts { folded, count, at: &at, apart };
                (folded, self.gather(evaluator, &parts, k.imm(0), 1))
            };
            let results: Vec<_> = numbered(&self.rows).map(one).collect();
            let known = self.write(evaluator, Kind::AlongRows, &place, known, &results);
            further.add(evaluator, &known, inside);
        });
        further.leave(self, evaluator, share, share.unit);
    }

    fn finish_columns(&self, evaluator: &Evaluator<'_, 'k>, share: Share<'k>) {
        let k = self.k;
        let width = self.plan.schedule.width();
        let further = Further::new(self, evaluator, Source::FinishedColumns);
        let apart = k.widen(share.tiles * width) * 4_u64;
        k.for_(self.rank, width, THREADS, |within| {
            let column = share.tile.mad(width, within);
            let inside = column.lt(self.parameters.columns);
            let place = Place { at: [share.batch, k.imm(0), column], inside: Some(inside) };
            let known = self.known(evaluator, Kind::AlongColumns, &place);
            let one = |(word, folded): (u32, Folded)| {
                let at = |each: u32| self.column_part(share, word + each, k.imm(0), column);
                let parts = Parts { folded, count: share.units, at: &at, apart };
                (folded, self.gather(evaluator, &parts, k.imm(0), 1))
            };
            let results: Vec<_> = numbered(&self.columns).map(one).collect();
            let known = self.write(evaluator, Kind::AlongColumns, &place, known, &results);
            further.add(evaluator, &known, inside);
        });
        further.leave(self, evaluator, share, share.tile);
    }

    fn finish_scalars(&self, evaluator: &Evaluator<'_, 'k>, share: Share<'k>) {
        let (k, all) = (self.k, share.units * share.tiles);
        for (word, folded) in numbered(&self.scalars) {
            let at = |each: u32| self.scalar_part(share, word + each, k.imm(0));
            let count = match folded.source {
                Source::Elements | Source::Rows => all,
                Source::FinishedRows => share.units,
                Source::FinishedColumns => share.tiles,
            };
            let parts = Parts { folded, count, at: &at, apart: k.imm(4) };
            let state = self.gather(evaluator, &parts, self.rank, THREADS);
            self.keep_scalar(evaluator, folded, word, state);
        }
        self.sync();
        k.if_(self.rank.eq(0), || {
            let results: Vec<_> = numbered(&self.scalars)
                .map(|(word, folded)| (folded, self.kept_scalar(evaluator, folded, word)))
                .collect();
            let zero = k.imm(0);
            let place = Place { at: [share.batch, zero, zero], inside: None };
            let known = self.known(evaluator, Kind::Scalar, &place);
            self.write(evaluator, Kind::Scalar, &place, known, &results);
        });
    }

    /// Every `step`th part from the first on, in order.
    fn gather(
        &self,
        evaluator: &Evaluator<'_, 'k>,
        parts: &Parts<'_, 'k>,
        first: Reg<'k, U32>,
        step: u32,
    ) -> State<'k> {
        let (k, folded) = (self.k, parts.folded);
        let nothing = evaluator.fold_begin(folded);
        let total: Vec<_> = nothing.iter().map(|word| k.var(*word)).collect();
        let hop = parts.apart * u64::from(step);
        let at_once = match folded.how {
            // One word.
            How::Pick(_) => 1,
            // Their places differ by constants, which take no registers.
            How::Fold(_) if folded.kind == Kind::Scalar && self.deferred.is_some() => {
                SCALARS_UNDER_WAY / folded.words()
            }
            How::Fold(_) => self.under_way() / folded.words(),
        };
        let at_once = at_once.max(1);
        let start = k.widen(first) * parts.apart;
        let next: Vec<Var<'k, U64>> =
            (0..folded.words()).map(|each| k.var(((parts.at)(each) + start).register())).collect();
        k.for_(first, parts.count, step * at_once, |number| {
            let mut rows: Vec<GlobalPointer<'k>> =
                next.iter().map(|next| GlobalPointer::from_register(next.copy())).collect();
            let place = |turn: u32| {
                let words = rows.clone();
                for word in &mut rows {
                    *word = *word + hop;
                }
                ((number + turn * step).lt(parts.count), words)
            };
            let places: Vec<_> = (0..at_once).map(place).collect();
            next.iter().zip(&rows).for_each(|(next, row)| next.set(row.register()));
            let found = self.collect(&places);
            let one = |((counts, _), words): (&(Reg<'k, Pred>, _), Vec<Reg<'k, F32>>)| {
                let words = words.into_iter().zip(&nothing);
                words.map(|(word, nothing)| word.select(*nothing, *counts)).collect::<State<'k>>()
            };
            let some: Vec<State<'k>> = places.iter().zip(found).map(one).collect();
            let before: State<'k> = total.iter().map(|word| word.get()).collect();
            let both = |all: State<'k>, one: &State<'k>| evaluator.fold_both(folded, &all, one);
            let after = some.iter().fold(before, both);
            total.iter().zip(after).for_each(|(word, after)| word.set(after));
        });
        total.iter().map(|word| word.get()).collect()
    }

    /// Words that are asked for before the first is there: they come from far away, and many are worth having under way.
    fn under_way(&self) -> u32 {
        let schedule = self.plan.schedule;
        let [_, registers] = schedule.tile.registers(&schedule.needs);
        match registers - schedule.tile.accumulators() {
            free if free < MANY_REGISTERS => 4,
            _ if self.deferred.is_some() && schedule.looped => 16,
            _ => 8,
        }
    }

    /// The words of some partial results, of those that count: waits for them, and leaves their places as the next launch
    /// wants them.
    fn collect(&self, places: &[(Reg<'k, Pred>, Vec<GlobalPointer<'k>>)]) -> Vec<State<'k>> {
        let k = self.k;
        let found: Vec<Vec<Var<'k, U32>>> =
            places.iter().map(|(_, words)| words.iter().map(|_| k.var(1)).collect()).collect();
        k.do_while(|| {
            for ((counts, words), found) in places.iter().zip(&found) {
                for (from, found) in words.iter().zip(found) {
                    let load = || k.load_ordered::<U32>(Order::Relaxed, Scope::Gpu, *from);
                    k.when(*counts, || found.set(load()));
                }
            }
            let least = found.iter().flatten().map(|word| word.get()).reduce(Reg::min);
            least.map_or(k.imm(false), |least| least.eq(0))
        });
        for (counts, words) in places {
            let clear = |to: &GlobalPointer<'k>| {
                k.store_ordered(Order::Relaxed, Scope::Gpu, *to, k.imm::<U32>(0));
            };
            k.when(*counts, || words.iter().for_each(clear));
        }
        let read = |word: &Var<'k, U32>| self.read(word.get());
        found.iter().map(|words| words.iter().map(read).collect()).collect()
    }

    /// Leaves a word of a partial result: never zero, which says that it is not there.
    pub(super) fn leave(&self, to: GlobalPointer<'k>, value: Reg<'k, F32>) {
        let word = (self.k.f32_to_bits(value).cast::<U32>() ^ u32::MAX).max(1);
        self.k.store_ordered(Order::Relaxed, Scope::Gpu, to, word);
    }

    /// What a word says. Of all NaN one is read as another.
    fn read(&self, word: Reg<'k, U32>) -> Reg<'k, F32> {
        self.k.bits_to_f32((word ^ u32::MAX).cast::<B32>())
    }

    /// What is known of a place without reductions.
    fn known(&self, evaluator: &Evaluator<'_, 'k>, kind: Kind, place: &Place<'k>) -> Known<'k> {
        let mut known: Known<'k> = vec![None; self.plan.graph.len()];
        evaluator.extend(&mut known, Kind::Scalar, place, &[]);
        if kind != Kind::Scalar {
            evaluator.extend(&mut known, kind, place, &[]);
        }
        known
    }

    /// Computes what follows from finished reductions, and stores the outputs that live so; everything that is known.
    fn write(
        &self,
        evaluator: &Evaluator<'_, 'k>,
        kind: Kind,
        place: &Place<'k>,
        mut known: Known<'k>,
        results: &[(Folded, State<'k>)],
    ) -> Known<'k> {
        let graph = self.plan.graph;
        for (folded, state) in results {
            let value = evaluator.fold_finish(*folded, state, &known);
            known[folded.node.index()] = Some(Value::Float(value));
        }
        evaluator.extend_late(&mut known, kind, place);
        for (output, destination) in graph.outputs().iter().zip(&self.parameters.destinations) {
            let lives =
                graph.ty(output.value).axes.kind() == kind && self.plan.late[output.value.index()];
            if let (true, Destination::Direct(memory)) = (lives, destination) {
                let Some(value) = known[output.value.index()] else {
                    panic!("compiler bug: an output without a value")
                };
                let to = memory.element(self.k, place.at);
                store(self.k, output.dtype, to, value, place.inside);
            }
        }
        known
    }
}

/// Stores one value where it is inside.
pub(super) fn store<'k>(
    k: Kernel<'k, Sm90a>,
    dtype: DType,
    to: Location<'k>,
    value: Value<'k>,
    inside: Option<Reg<'k, Pred>>,
) {
    let to = to.pointer();
    let byte = |byte: Reg<'k, U32>| k.store_global_narrow(Scalar::U8, to, byte);
    let eighth = |format| {
        let pair = k.pack_float8(format, value.float(), 0.0);
        byte(k.widen_u16(pair.cast::<U16>()));
    };
    let store = || match dtype {
        DType::F32 => k.store_global(to, [value.float()]),
        DType::F16 => k.store_global(to, [k.half_of_f32(Half::F16, value.float())]),
        DType::BF16 => k.store_global(to, [k.half_of_f32(Half::BF16, value.float())]),
        DType::F8E4M3 => eighth(Packed8::E4M3),
        DType::F8E5M2 => eighth(Packed8::E5M2),
        DType::I32 => k.store_global(to, [value.integer()]),
        DType::I8 | DType::U8 => byte(value.integer().cast()),
        DType::Bool => byte(k.imm(1).select(0, value.truth())),
        DType::B1 => panic!("compiler bug: one bit is no element that can be stored"),
    };
    match inside {
        Some(inside) => k.if_(inside, store),
        None => store(),
    }
}
