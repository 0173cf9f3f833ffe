//! The end of a reduction: the last warpgroup to arrive combines all partial results, in the order of batches and
//! tiles, and writes what is computed from them.
//!
//! Nothing orders stores of partial results and counters: a word of a partial result says itself whether it is written,
//! so that no thread waits for a fence, and the last warpgroup polls words that are not there yet. It leaves words at
//! zero for the next launch. A warpgroup that finishes a block of rows or columns may write a partial result of what it
//! finished.

use postlude_ptx::kernel::{GlobalPointer, Reg, Var};
use postlude_ptx::modifier::{Order, Scope};
use postlude_ptx::types::{B32, F32, Pred, U32, U64};

use crate::graph::Kind;
use crate::lower::{Batches, How, Reduction, ReductionScope, Source};
use crate::target::sm90::plan::SLOT_ROWS;

use super::super::chip::EpilogueChip;
use super::super::parameters::Destination;
use super::super::values::{Environment, Evaluator, Place, State};
use super::folding::Folding;
use super::partials::{WorkspaceIndex, numbered};
use super::second_stage::SecondStage;
use super::single::{begins_run, store_at};

/// Words of scalars whose loads are in flight at a time.
const SCALARS_UNDER_WAY: u32 = 8;
/// Registers beside the accumulators that hold many words and where they come from.
const MANY_REGISTERS: u32 = 104;
/// Of a word that holds half of an integer, what says that it is there.
const THERE: u32 = 1 << 16;
/// Threads of a warpgroup.
const THREADS: u32 = 128;

/// Partial results of one place: how many there are, and where.
struct Parts<'f, 'k> {
    reduction: Reduction,
    count: Reg<'k, U32>,
    /// Where the first is, by the number of a word, and how many bytes are from each to the next.
    at: &'f dyn Fn(u32) -> GlobalPointer<'k>,
    apart: Reg<'k, U64>,
}

impl<'k, C: EpilogueChip> Folding<'_, 'k, C> {
    /// Finishes a scope, all of whose partial results are written or about to be.
    pub(super) fn finish(
        &self,
        evaluator: &Evaluator<'_, 'k, C>,
        scope: ReductionScope,
        index: WorkspaceIndex<'k>,
    ) {
        let index = self.index_of(scope, index);
        match scope.kind {
            Kind::AlongRows => self.finish_rows(evaluator, scope, index),
            Kind::AlongColumns => self.finish_columns(evaluator, scope, index),
            Kind::Scalar => self.finish_scalars(evaluator, scope, index),
            Kind::Tile => panic!("compiler bug: tiles finish themselves"),
        }
    }

    /// The index of a batch, or of the first of all batches: partial results of the others follow it.
    pub(super) fn index_of(
        &self,
        scope: ReductionScope,
        index: WorkspaceIndex<'k>,
    ) -> WorkspaceIndex<'k> {
        match scope.batches {
            Batches::Each => index,
            Batches::All => WorkspaceIndex { batch: self.k.imm(0), ..index },
        }
    }

    /// How many partial results a reduction has of one place.
    fn parts(&self, reduction: Reduction, index: WorkspaceIndex<'k>) -> Reg<'k, U32> {
        match reduction.source {
            Source::Elements => self.tiles_of(reduction.scope, index),
            // Of each batch one along rows, which the first tile knows.
            Source::Rows if reduction.scope.kind == Kind::AlongRows => self.parameters.batches,
            Source::Rows => self.tiles_of(reduction.scope, index),
            Source::Finished(from) => self.blocks_of(from, reduction.scope, index),
        }
    }

    fn finish_rows(
        &self,
        evaluator: &Evaluator<'_, 'k, C>,
        scope: ReductionScope,
        index: WorkspaceIndex<'k>,
    ) {
        let k = self.k;
        let unit_rows = self.plan.schedule.tile.blocks() * SLOT_ROWS;
        let second_stage = SecondStage::new(self, evaluator, scope);
        let apart = k.widen(index.units * unit_rows) * 4_u64;
        k.for_(self.rank, unit_rows, THREADS, |within| {
            let row = index.unit.mad(unit_rows, within);
            let inside = row.lt(self.parameters.rows);
            let place = Place { at: [index.batch, row, k.imm(0)], inside: Some(inside) };
            let environment = self.environment(evaluator, Kind::AlongRows, &place);
            let one = |(word, reduction): (u32, Reduction)| {
                let count = if reduction.is_pick() {
                    // No tile writes an element that does not exist.
                    let picked = Evaluator::<C>::picked(reduction, &environment);
                    k.imm(1).select(0, inside & picked.lt(self.parameters.columns))
                } else {
                    self.parts(reduction, index)
                };
                let at = |each: u32| self.row_part(index, word + each, k.imm(0), row);
                let parts = Parts { reduction, count, at: &at, apart };
                (reduction, self.gather(evaluator, &parts, k.imm(0), 1))
            };
            let results: Vec<_> = living(&self.rows, scope).map(one).collect();
            let environment = self.write(evaluator, scope, &place, environment, &results);
            second_stage.add(evaluator, &environment, |_| inside);
            self.leave_finished(evaluator, (scope, index), &environment, row);
        });
        second_stage.leave(self, evaluator, index, (index.unit, index.units));
    }

    fn finish_columns(
        &self,
        evaluator: &Evaluator<'_, 'k, C>,
        scope: ReductionScope,
        index: WorkspaceIndex<'k>,
    ) {
        let k = self.k;
        let width = self.plan.schedule.width();
        let second_stage = SecondStage::new(self, evaluator, scope);
        let apart = k.widen(index.tiles * width) * 4_u64;
        k.for_(self.rank, width, THREADS, |within| {
            let column = index.tile.mad(width, within);
            let inside = column.lt(self.parameters.columns);
            let place = Place { at: [index.batch, k.imm(0), column], inside: Some(inside) };
            let environment = self.environment(evaluator, Kind::AlongColumns, &place);
            let one = |(word, reduction): (u32, Reduction)| {
                let at = |each: u32| self.column_part(index, word + each, k.imm(0), column);
                let parts =
                    Parts { reduction, count: self.parts(reduction, index), at: &at, apart };
                (reduction, self.gather(evaluator, &parts, k.imm(0), 1))
            };
            let results: Vec<_> = living(&self.columns, scope).map(one).collect();
            let environment = self.write(evaluator, scope, &place, environment, &results);
            let counts =
                |reduction: Reduction| match self.plan.program.runs[reduction.terms.index()] {
                    1 => inside,
                    run => inside & begins_run(column, run),
                };
            second_stage.add(evaluator, &environment, counts);
            self.leave_finished(evaluator, (scope, index), &environment, column);
        });
        second_stage.leave(self, evaluator, index, (index.tile, index.tiles));
    }

    fn finish_scalars(
        &self,
        evaluator: &Evaluator<'_, 'k, C>,
        scope: ReductionScope,
        index: WorkspaceIndex<'k>,
    ) {
        let k = self.k;
        for (word, reduction) in living(&self.scalars, scope) {
            let at = |each: u32| self.scalar_part(index, word + each, k.imm(0));
            let parts =
                Parts { reduction, count: self.parts(reduction, index), at: &at, apart: k.imm(4) };
            let state = self.gather(evaluator, &parts, self.rank, THREADS);
            self.store_warp_scalar(evaluator, reduction, word, state);
        }
        self.sync();
        k.if_(self.rank.eq(0), || {
            let results: Vec<_> = living(&self.scalars, scope)
                .map(|(word, reduction)| {
                    (reduction, self.load_warp_scalars(evaluator, reduction, word))
                })
                .collect();
            let zero = k.imm(0);
            let place = Place { at: [index.batch, zero, zero], inside: None };
            let environment = self.environment(evaluator, Kind::Scalar, &place);
            let environment = self.write(evaluator, scope, &place, environment, &results);
            self.leave_finished(evaluator, (scope, index), &environment, zero);
        });
    }

    /// Writes a batch's row, column or scalar as a partial result of the one of all batches.
    fn leave_finished(
        &self,
        evaluator: &Evaluator<'_, 'k, C>,
        (scope, index): (ReductionScope, WorkspaceIndex<'k>),
        environment: &Environment<'k>,
        place: Reg<'k, U32>,
    ) {
        for (word, reduction) in
            self.from(scope).filter(|(_, reduction)| reduction.scope.kind == scope.kind)
        {
            let state =
                evaluator.fold_some(reduction, &[evaluator.fold_term_of(environment, reduction)]);
            let first = self.index_of(reduction.scope, index);
            self.leave(reduction, &state, |each| match scope.kind {
                Kind::AlongRows => self.row_part(first, word + each, index.batch, place),
                Kind::AlongColumns => self.column_part(first, word + each, index.batch, place),
                Kind::Scalar | Kind::Tile => self.scalar_part(first, word + each, index.batch),
            });
        }
    }

    /// Every `step`th part from the first on, in order.
    fn gather(
        &self,
        evaluator: &Evaluator<'_, 'k, C>,
        parts: &Parts<'_, 'k>,
        first: Reg<'k, U32>,
        step: u32,
    ) -> State<'k> {
        let (k, reduction) = (self.k, parts.reduction);
        let nothing = evaluator.fold_begin(reduction);
        let total: Vec<_> = nothing.iter().map(|word| k.var(*word)).collect();
        let hop = parts.apart * u64::from(step);
        let at_once = match reduction.how {
            // One word.
            How::Pick(_) => 1,
            // Their places differ by constants, which take no registers.
            How::Fold(_) if reduction.scope.kind == Kind::Scalar && self.deferred.is_some() => {
                SCALARS_UNDER_WAY / reduction.words()
            }
            How::Fold(_) => self.under_way() / reduction.words(),
        };
        let at_once = at_once.max(1);
        let start = k.widen(first) * parts.apart;
        let next: Vec<Var<'k, U64>> = (0..reduction.words())
            .map(|each| k.var(((parts.at)(each) + start).register()))
            .collect();
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
            let found = self.collect(&places).into_iter().map(|words| self.read(reduction, &words));
            let found: Vec<State<'k>> = found.collect();
            let one = |((counts, _), words): (&(Reg<'k, Pred>, _), Vec<Reg<'k, F32>>)| {
                let words = words.into_iter().zip(&nothing);
                words.map(|(word, nothing)| word.select(*nothing, *counts)).collect::<State<'k>>()
            };
            let some: Vec<State<'k>> = places.iter().zip(found).map(one).collect();
            let before: State<'k> = total.iter().map(|word| word.get()).collect();
            let both = |all: State<'k>, one: &State<'k>| evaluator.fold_both(reduction, &all, one);
            let after = some.iter().fold(before, both);
            total.iter().zip(after).for_each(|(word, after)| word.set(after));
        });
        total.iter().map(|word| word.get()).collect()
    }

    /// Words whose loads are in flight at a time: latency is long, and many are worth having in flight.
    fn under_way(&self) -> u32 {
        let schedule = self.plan.schedule;
        let [_, registers] = schedule.tile.registers(&schedule.needs);
        match registers - schedule.tile.accumulators() {
            free if free < MANY_REGISTERS => 4,
            _ if self.deferred.is_some() && schedule.epilogue_loop => 16,
            _ => 8,
        }
    }

    /// The words of the partial results that count: polls until they are written, and zeroes them for the next launch.
    fn collect(
        &self,
        places: &[(Reg<'k, Pred>, Vec<GlobalPointer<'k>>)],
    ) -> Vec<Vec<Reg<'k, U32>>> {
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
        found.iter().map(|words| words.iter().map(|word| word.get()).collect()).collect()
    }

    /// Writes a partial result, each word to its address: never zero, which says that it is not written.
    pub(super) fn leave(
        &self,
        reduction: Reduction,
        state: &State<'k>,
        to: impl Fn(u32) -> GlobalPointer<'k>,
    ) {
        let bits = |place: usize| self.k.f32_to_bits(state[place]).cast::<U32>();
        for each in 0..reduction.words() {
            let to = to(each);
            let word = match each {
                _ if !reduction.is_integer() => (bits(each as usize) ^ u32::MAX).max(1),
                0 => (bits(0) & 0xffff) | THERE,
                _ => (bits(0) >> 16) | THERE,
            };
            self.k.store_ordered(Order::Relaxed, Scope::Gpu, to, word);
        }
    }

    /// The partial result that words encode. Of all NaN one is read as another; integers keep all their bits.
    fn read(&self, reduction: Reduction, words: &[Reg<'k, U32>]) -> State<'k> {
        if reduction.is_integer() {
            let bits = (words[0] & 0xffff) | (words[1] << 16);
            return vec![self.k.bits_to_f32(bits.cast::<B32>())];
        }
        let read = |word: &Reg<'k, U32>| self.k.bits_to_f32((*word ^ u32::MAX).cast::<B32>());
        words.iter().map(read).collect()
    }

    /// The environment of a place without finished reductions.
    fn environment(
        &self,
        evaluator: &Evaluator<'_, 'k, C>,
        kind: Kind,
        place: &Place<'k>,
    ) -> Environment<'k> {
        let mut environment: Environment<'k> = vec![None; self.plan.graph.len()];
        evaluator.extend(&mut environment, Kind::Scalar, place, &[]);
        match kind {
            Kind::AlongColumns => evaluator.extend_column(&mut environment, place),
            Kind::AlongRows | Kind::Tile => evaluator.extend(&mut environment, kind, place, &[]),
            Kind::Scalar => {}
        }
        environment
    }

    /// Computes what follows from finished reductions, and stores the outputs of this scope; returns the environment.
    fn write(
        &self,
        evaluator: &Evaluator<'_, 'k, C>,
        scope: ReductionScope,
        place: &Place<'k>,
        mut environment: Environment<'k>,
        results: &[(Reduction, State<'k>)],
    ) -> Environment<'k> {
        let graph = self.plan.graph;
        for (reduction, state) in results {
            let value = evaluator.fold_finish(*reduction, state, &environment);
            environment[reduction.node.index()] = Some(value);
        }
        evaluator.extend_after_reductions(&mut environment, scope, place);
        for (output, destination) in graph.outputs().iter().zip(&self.parameters.destinations) {
            let lives = ReductionScope::of(graph, graph.ty(output.value).axes) == scope
                && self.plan.program.after_reductions[output.value.index()];
            if let (true, Destination::Direct(memory)) = (lives, destination) {
                let Some(value) = environment[output.value.index()] else {
                    panic!("compiler bug: an output without a value")
                };
                let run = self.plan.program.output_run(output);
                store_at(self.k, (output, memory, run), place.at, value, place.inside);
            }
        }
        environment
    }
}

/// The reductions of a scope, each with the number of its first word among all of its kind.
fn living(folds: &[Reduction], scope: ReductionScope) -> impl Iterator<Item = (u32, Reduction)> {
    numbered(folds).filter(move |(_, reduction)| reduction.scope == scope)
}
