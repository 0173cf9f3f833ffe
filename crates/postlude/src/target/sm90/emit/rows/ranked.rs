//! Rows whose largest elements are listed in order: each is streamed once, and what may be among them waits in shared memory.
//!
//! ```text
//! chunk by chunk   each thread's largest element ─> how many threads reach the bound
//!                  many: a bound that as many threads reach as a list has     few: what their threads have are candidates
//! many candidates  the best of each thread's ─> a bound ─> those that reach it stay
//! behind a row     the same until few are left, of a cluster's CTAs together ─> their elements, read again
//!                  the same of those ─> how many come before each ─> its place
//! ```
//!
//! A candidate is what a thread has of a chunk, by its largest element and the column of that: of the elements of a list none
//! is elsewhere than in the first as many of these. Columns rise from chunk to chunk, so that what equals the bound comes too late.
//! A chunk adds a few candidates, whatever the row has, so that none overflows shared memory. Which ones are candidates does
//! not depend on timing, and neither does the result.

mod bound;
mod candidates;
mod tally;

use postlude_ptx::kernel::{GlobalPointer, Half, Reg};
use postlude_ptx::modifier::Compare;
use postlude_ptx::types::{BF16x2, F16x2, F32, U32};

use crate::graph::{Gives, Kind, NodeId, Op};
use crate::lower::{Ranked, RankedList};
use crate::target::sm90::plan::{COUNTER_BYTES, KEPT, MOST_RAISING};

use super::super::chip::EpilogueChip;
use super::super::epilogue::store;
use super::super::memory::Location;
use super::super::parameters::Destination;
use super::super::slot::half_of;
use super::super::values::{Environment, Place, Value};
use super::held::{HeldRow, HeldVector};
use super::streamed::{Stream, Traversal};
use super::{Elements, RowKernel};
use bound::{Bound, Search};
use candidates::Candidates;
use tally::Tally;

/// What threads know of the lists of a launch.
pub(super) struct Ranking<'k, C> {
    ranked: Ranked,
    candidates: Candidates<'k, C>,
    bound: Bound<'k>,
    /// Bits that the number of columns has at most.
    bits: Reg<'k, U32>,
    /// Where terms are 16-bit elements as they lie: the place of their operand.
    halves: Option<(usize, Half)>,
}

impl<'k, C: EpilogueChip> RowKernel<'_, 'k, C> {
    /// Makes counters and bounds; all threads meet.
    pub(super) fn ranking(&self, ranked: Ranked) -> Ranking<'k, C> {
        let k = self.k;
        let counters = k.region(&self.plan.candidates);
        let threads = self.plan.schedule.threads();
        let (tally, pairs) = (Tally::new(k, counters), counters + COUNTER_BYTES);
        let candidates = Candidates { k, pairs, tally, filled: k.var(0), threads };
        let bits = k.var(0);
        let columns = self.parameters.columns;
        k.while_(|| (columns >> bits.get()).gt(0), || bits.set(bits.get() + 2));
        let halves = self.halves(&ranked);
        Ranking { ranked, candidates, bound: Bound::lowest(k), bits: bits.copy(), halves }
    }

    /// The operand of 16-bit elements that are the terms, as they lie.
    fn halves(&self, ranked: &Ranked) -> Option<(usize, Half)> {
        let Op::Input(input) = self.plan.graph[ranked.reduction.terms].op else { return None };
        let operands = &self.plan.program.tile_operands;
        let place = operands.iter().position(|operand| *operand == input)?;
        Some((place, half_of(self.plan.graph.inputs()[input.0 as usize].dtype)?))
    }

    /// Lists the largest elements of a row.
    pub(super) fn rank_row(
        &self,
        ranking: &Ranking<'k, C>,
        stream: &Stream<'k>,
        number: Reg<'k, U32>,
        (row, scalars): (&HeldRow<'k>, Environment<'k>),
    ) {
        let (k, candidates) = (self.k, &ranking.candidates);
        let mut environment = scalars;
        let place = Place { at: (row.batch, row.at, k.imm(0)), inside: None };
        self.evaluator().extend(&mut environment, Kind::AlongRows, &place, &[]);
        let search = Search {
            k,
            tally: &candidates.tally,
            threads: candidates.threads,
            count: ranking.ranked.count,
            columns: self.parameters.columns,
            bits: ranking.bits,
            halves: matches!(ranking.halves, Some((_, Half::BF16))),
        };
        candidates.filled.set(0);
        ranking.bound.key.set(0);
        ranking.bound.go_on();
        self.traverse(stream, number, Traversal { first: true, last: true }, |row, _| {
            self.add_chunk(ranking, &search, (row, &environment));
        });
        candidates.settle();
        let finish = |least: Reg<'k, U32>| {
            self.expand(ranking, row, &environment, least);
            candidates.select_few(&search);
            self.write_lists(ranking, &place, &environment);
        };
        let own = candidates.select_few(&search);
        let Some(rank) = self.holder.rank else { return finish(own) };
        candidates.gather(rank, self.plan.schedule.tile.cluster.blocks());
        k.if_(rank.eq(0), || finish(candidates.select_few(&search)));
    }

    /// Adds what a chunk has to the candidates.
    fn add_chunk(
        &self,
        ranking: &Ranking<'k, C>,
        search: &Search<'_, 'k, C>,
        (row, environment): (&HeldRow<'k>, &Environment<'k>),
    ) {
        let (k, evaluator) = (self.k, self.evaluator());
        let Ranking { candidates, bound, .. } = ranking;
        let reduction = ranking.ranked.reduction;
        let maxima: Vec<Reg<'k, F32>> = (0..row.vectors.len())
            .map(|number| self.largest(ranking, (row, number), environment))
            .collect();
        let both = row.vectors.iter().zip(&maxima).skip(1);
        let largest = both.fold(maxima[0], |all, (vector, one)| {
            let one = vector.inside.map_or(*one, |inside| one.select(f32::NEG_INFINITY, inside));
            all.max(one)
        });
        // Vectors of a thread lie one behind the other.
        let best = evaluator.slot_of_value(reduction, largest);
        let best = row.vectors[0].inside.map_or(best, |inside| best.select(0, inside));
        let hot = candidates.count(best.gt(bound.key.get()));
        k.if_(hot.gt(0), || {
            k.while_(
                || candidates.filled.get().gt(KEPT),
                || {
                    let kept = Bound::lowest(k);
                    candidates.select(search, &kept);
                    bound.key.set(bound.key.get().max(kept.key.get()));
                },
            );
            // The first of a thread's vectors that have its largest element.
            let vectors = row.vectors.iter().zip(&maxima).rev();
            let column = vectors.fold(k.imm::<U32>(0), |column, (vector, largest)| {
                let has = evaluator.slot_of_value(reduction, *largest).eq(best);
                let has = vector.inside.map_or(has, |inside| has & inside);
                vector.column.select(column, has)
            });
            k.if_(hot.gt(MOST_RAISING), || {
                let found = Bound::lowest(k);
                search.raise(&found, best, || column);
                let higher = found.key.get().gt(bound.key.get());
                bound.columns.set(found.columns.get().select(0, higher));
                bound.key.set(bound.key.get().max(found.key.get()));
            });
            k.if_(bound.is_reached(best, column), || candidates.add(best, column));
            bound.go_on();
        });
    }

    /// Puts the elements of threads in the place of these: those that are no less than the least of the threads' largest.
    fn expand(
        &self,
        ranking: &Ranking<'k, C>,
        row: &HeldRow<'k>,
        environment: &Environment<'k>,
        least: Reg<'k, U32>,
    ) {
        let (k, evaluator, thread) = (self.k, self.evaluator(), self.k.thread());
        let candidates = &ranking.candidates;
        let (width, tile) = (self.needs.vector, self.plan.schedule.tile.columns);
        let (vectors, apart) = (self.holder.vectors, self.holder.threads * width);
        let last = candidates.filled.get() - 1;
        let vector = |number: u32| {
            let place = thread + number;
            let own = place >> vectors.trailing_zeros();
            let [_, column] = candidates.pair(own.min(last));
            let first = (column & !(tile - 1)) + (column & (apart - 1));
            let column = (place & (vectors - 1)).mad(apart, first);
            self.holder.vector_at(column, own.le(last))
        };
        let rounds = (0..MOST_RAISING * vectors).step_by(candidates.threads as usize);
        let vectors: Vec<HeldVector<'k>> = rounds.map(vector).collect();
        // Behind the barrier all have read what is written over.
        candidates.settle();
        candidates.filled.set(0);
        let lowest = evaluator.value_of_slot(ranking.ranked.reduction, least);
        for vector in vectors {
            let Some(inside) = vector.inside else { continue };
            k.if_(inside, || {
                let (vectors, words) = (vec![vector], Vec::new());
                let row = HeldRow { batch: row.batch, at: row.at, inside: None, vectors, words };
                let row = HeldRow { words: self.load_row(&row), ..row };
                for (place, value) in (0..).zip(self.terms_of((&row, 0), environment, ranking)) {
                    // Nan is above all numbers.
                    k.if_(value.compare(Compare::GeOrNan, lowest), || {
                        let key = evaluator.slot_of_value(ranking.ranked.reduction, value);
                        k.if_(key.ge(least), || candidates.add(key, vector.column + place));
                    });
                }
            });
        }
        candidates.settle();
    }

    /// The terms of a vector.
    fn terms_of(
        &self,
        (row, number): (&HeldRow<'k>, usize),
        environment: &Environment<'k>,
        ranking: &Ranking<'k, C>,
    ) -> Vec<Reg<'k, F32>> {
        let mut elements: Elements<'k> = self.unknown();
        let reduction = ranking.ranked.reduction;
        let only = self.missing(reduction.operands(), &elements[number][0]);
        let elements = &mut elements[number];
        self.compute((row, number), environment, elements, &only);
        let (evaluator, row) = (self.evaluator(), (row, number));
        let terms = Self::terms(&evaluator, row, environment, elements, reduction);
        terms.iter().map(|term| term.value).collect()
    }

    /// The largest term of a vector, or nan.
    fn largest(
        &self,
        ranking: &Ranking<'k, C>,
        (row, number): (&HeldRow<'k>, usize),
        environment: &Environment<'k>,
    ) -> Reg<'k, F32> {
        let k = self.k;
        let largest = |values: Vec<Reg<'k, F32>>| {
            let all = values.into_iter().reduce(Reg::max);
            all.unwrap_or_else(|| panic!("compiler bug: a vector of nothing"))
        };
        let Some((operand, half)) = ranking.halves else {
            return largest(self.terms_of((row, number), environment, ranking));
        };
        let pairs = self.staging().read(operand, number).into_iter();
        let pairs = pairs.reduce(|all, one| match half {
            Half::BF16 => all.cast::<BF16x2>().max(one.cast::<BF16x2>()).cast(),
            Half::F16 => all.cast::<F16x2>().max(one.cast::<F16x2>()).cast(),
        });
        let Some(pair) = pairs else { panic!("compiler bug: a vector of nothing") };
        largest(k.unpack_halves(half, pair).to_vec())
    }

    /// Stores the lists of a row, a thread for each element.
    fn write_lists(
        &self,
        ranking: &Ranking<'k, C>,
        place: &Place<'k>,
        environment: &Environment<'k>,
    ) {
        let (k, count) = (self.k, ranking.ranked.count);
        ranking.candidates.rank(|number, [key, column], is_one| {
            k.if_(is_one & number.lt(count), || {
                let value = self.evaluator().value_of_slot(ranking.ranked.reduction, key);
                for list in &ranking.ranked.lists {
                    let value = match list.gives {
                        Gives::Value => Value::Float(value),
                        Gives::Index => Value::Integer(column.cast()),
                    };
                    self.write_element(*list, number, value, (place, environment));
                }
            });
        });
    }

    /// Stores an element of a list at its place.
    fn write_element(
        &self,
        list: RankedList,
        number: Reg<'k, U32>,
        value: Value<'k>,
        (place, environment): (&Place<'k>, &Environment<'k>),
    ) {
        let (k, output) = (self.k, &self.plan.graph.outputs()[list.first]);
        let mut known = environment.clone();
        known[list.node.index()] = Some(value);
        let casts = self.plan.graph.made_of([output.value], |id| id != list.node);
        let chosen = |id: NodeId| casts[id.index()];
        self.evaluator().extend_some(&mut known, Kind::AlongRows, place, &[], chosen);
        let Some(value) = known[output.value.index()] else {
            panic!("compiler bug: an output without a value")
        };
        let start = |output: usize| match &self.parameters.destinations[output] {
            Destination::Direct(memory) => memory.element_of_row(k, place.at).pointer().register(),
            Destination::Map(_) | Destination::Coalesced(_) => {
                panic!("compiler bug: a list that leaves through a slot")
            }
        };
        let (first, second) = (start(list.first), start(list.first + 1));
        let to = first + k.widen(number) * (second - first);
        let to = Location::Bytes(GlobalPointer::from_register(to));
        store(k, output.dtype, to, value, None);
    }
}
