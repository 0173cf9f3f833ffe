//! The results of a strip's columns: warps combine what they folded of a unit's rows, units leave it in the workspace, and the
//! last CTA of a strip to arrive finishes the strip. Scalars are the results of all strips, which the last CTA of all finishes.
//! Rows that are folded beside columns have a partial result of each strip: of the CTAs that have the same rows, the last to
//! arrive finishes them.
//!
//! In: what each thread has folded of its columns. Out: stored vectors or scalars. A column's partial results are combined in the order of
//! warps and units, a row's in the order of strips, whichever CTA does it. As everywhere in the workspace, words say themselves
//! whether they are written, so that an arrival needs no fence.

use postlude_ptx::kernel::{Reg, SharedAddress};
use postlude_ptx::modifier::{self, Order, Scope};
use postlude_ptx::types::{F32, U32};

use crate::graph::Kind;
use crate::lower::{Batches, Reduction, ReductionScope};
use crate::target::sm90::plan::{STRIP_ROWS, strip_results};

use super::super::chip::EpilogueChip;
use super::super::fragment::Fragment;
use super::super::tile_scheduler::up;
use super::super::values::{Evaluator, Place, State};
use super::finishing::{environment, store_outputs};
use super::reductions::{Numbered, Reductions};
use super::workspace::{Parts, ResultOf, Workspace, WorkspaceIndex};

/// Bytes of the flag that says whether the CTA was the last, with what aligns the words behind it.
const FLAG_BYTES: u32 = 16;
/// Where the flag lies that says whether it was the last of its rows.
const OF_ROWS: u32 = 4;
/// Words that are stored to shared memory at a time.
const WORDS: usize = 4;

pub(crate) struct StripResults<'a, 'k, C> {
    evaluator: Evaluator<'a, 'k, C>,
    reductions: Reductions<'a>,
    workspace: Workspace<'a, 'k, C>,
    /// CTAs that share a strip's rows, and strips.
    units: Reg<'k, U32>,
    strips: Reg<'k, U32>,
    shared: SharedAddress<'k>,
    thread: Reg<'k, U32>,
    /// What the results are: values along columns, or scalars.
    kind: Kind,
}

/// A CTA's share of the rows of a strip.
#[derive(Clone, Copy)]
pub(crate) struct StripUnit<'k> {
    /// Its number among those of the strip, and how many these are.
    pub(crate) number: Reg<'k, U32>,
    pub(crate) units: Reg<'k, U32>,
    /// The strip's number.
    pub(crate) strip: Reg<'k, U32>,
}

impl<'a, 'k, C: EpilogueChip> StripResults<'a, 'k, C> {
    pub(crate) fn new(evaluator: Evaluator<'a, 'k, C>) -> Self {
        let Evaluator { k, plan, parameters } = evaluator;
        let strips = up(parameters.columns, plan.schedule.tile.columns);
        let at_once = k.imm::<U32>(plan.schedule.most_strip_units()) / strips;
        let [most, least] = plan.schedule.strip_share().map(|rows| up(parameters.rows, rows));
        let units = at_once.max(1).min(most).max(least);
        let tiles = [units, strips];
        let workspace = Workspace { evaluator, tiles, workers: None, finishes_later: false };
        let Some(kind) = strip_results(plan.program) else {
            panic!("compiler bug: strips of another program")
        };
        StripResults {
            kind,
            evaluator,
            reductions: Reductions(plan.program),
            workspace,
            units,
            strips,
            shared: k.region(&plan.folds),
            thread: k.thread(),
        }
    }

    /// Runs `body` for every unit of this CTA.
    pub(crate) fn for_each(&self, body: impl FnOnce(&StripUnit<'k>)) {
        let (k, units, strips) = (self.evaluator.k, self.units, self.strips);
        k.for_(k.block(), units * strips, k.blocks(), |place| {
            let number = place / strips;
            body(&StripUnit { number, units, strip: place - number * strips });
        });
    }

    /// Columns of a strip.
    fn width(&self) -> u32 {
        self.evaluator.plan.schedule.tile.columns
    }

    /// Where a word is that one of several has of a column.
    fn place(&self, word: u32, one: Reg<'k, U32>, column: Reg<'k, U32>) -> SharedAddress<'k> {
        let warps = self.evaluator.plan.schedule.threads() / 32;
        let row = one + word * warps;
        self.shared + (row.mad(self.width(), column) * 4 + FLAG_BYTES)
    }

    /// Combines the results of a column that are the first so many.
    fn combined(&self, (word, reduction): Numbered, column: Reg<'k, U32>, count: u32) -> State<'k> {
        let k = self.evaluator.k;
        let load = |one: u32| -> State<'k> {
            let word = |each| self.place(word + each, k.imm(one), column);
            (0..reduction.registers()).map(|each| k.load_shared::<F32, 1>(word(each))[0]).collect()
        };
        let both = |all, one| self.evaluator.fold_both(reduction, &all, &load(one));
        (1..count).fold(load(0), both)
    }

    /// The reductions, each with the number of its first register among those of all.
    fn numbered(&self) -> impl Iterator<Item = Numbered> + 'a {
        self.reductions.of(self.kind).scan(0, |next, (_, reduction)| {
            let first = *next;
            *next += reduction.registers();
            Some((first, reduction))
        })
    }

    /// Adds what the CTA's threads have folded of a unit, for each reduction of each of a thread's columns, to the strip's results,
    /// and finishes the strip where all others have.
    pub(crate) fn add(&self, unit: &StripUnit<'k>, states: Vec<Vec<State<'k>>>) {
        let k = self.evaluator.k;
        if self.kind == Kind::Scalar {
            return self.add_scalars(unit, states);
        }
        self.share(states);
        k.sync();
        let folds_rows = self.reductions.of(Kind::AlongRows).next().is_some();
        k.if_(self.thread.eq(0), || {
            self.arrive(self.shared, unit.strip, unit.units - 1);
            if folds_rows {
                self.arrive(self.shared + OF_ROWS, self.strips + unit.number, self.strips - 1);
            }
        });
        let index = self.index(unit);
        let own = self.thread & (self.width() - 1);
        let column = unit.strip.mad(self.width(), own);
        self.in_first_threads(|| {
            let warps = self.evaluator.plan.schedule.threads() / 32;
            let combined = self.numbered().map(|one| self.combined(one, own, warps));
            let all = self.reductions.of(Kind::AlongColumns).zip(combined.collect::<Vec<_>>());
            for (one, state) in all {
                self.workspace.write(one, index, (unit.number, ResultOf::Column(column)), &state);
            }
        });
        k.sync();
        let before = k.load_shared::<U32, 1>(self.shared)[0];
        let of_rows = folds_rows.then(|| k.load_shared::<U32, 1>(self.shared + OF_ROWS)[0]);
        k.if_(before.eq(unit.units - 1), || {
            self.finish(index, own, column);
            // The next unit's words come to the same memory.
            k.sync();
        });
        if let Some(before) = of_rows {
            k.if_(before.eq(self.strips - 1), || self.finish_rows(unit));
            // The next unit's flags come to the same memory.
            k.sync();
        }
    }

    /// Counts the CTA among those that have arrived, and says in shared memory how many had, of which the last is this one's number.
    fn arrive(&self, flag: SharedAddress<'k>, counter: Reg<'k, U32>, last: Reg<'k, U32>) {
        let k = self.evaluator.k;
        let (increment, to) = (modifier::Reduction::Increment, self.workspace.counter(counter));
        let before = k.atomic::<U32>(increment, Order::Relaxed, Scope::Gpu, to, last);
        k.store_shared(flag, [before]);
    }

    /// Leaves what threads have folded of a strip's part of some rows, by row and by reduction along rows: the lanes of each row
    /// combine it, and as many of them as there are rows have one each. The first row is given, and rows to the next.
    pub(crate) fn add_rows(
        &self,
        strip: Reg<'k, U32>,
        [first, apart]: [Reg<'k, U32>; 2],
        rows: &[Vec<State<'k>>],
    ) {
        let (k, evaluator) = (self.evaluator.k, self.evaluator);
        let threads = evaluator.plan.schedule.tile.threads_per_row();
        let bits = Fragment::WARP_BITS.iter().copied();
        let bits: Vec<u32> = bits.filter(|bit| (STRIP_ROWS..threads).contains(bit)).collect();
        let fold = |(place, one): (usize, Numbered)| {
            let mut states: Vec<State<'k>> = rows.iter().map(|row| row[place].clone()).collect();
            let mut bit = 1;
            while states.len() > 1 {
                let has_bit = (self.thread & bit).ne(0);
                let pair = |two: &[State<'k>]| {
                    evaluator.fold_exchanged(one.1, [&two[0], &two[1]], has_bit, bit)
                };
                states = states.chunks_exact(2).map(pair).collect();
                bit *= 2;
            }
            (one, evaluator.fold_lanes(one.1, states.remove(0), &bits))
        };
        let all = self.reductions.of(Kind::AlongRows).enumerate();
        let states: Vec<(Numbered, State<'k>)> = all.map(fold).collect();
        let row = apart.mad(self.thread & (STRIP_ROWS - 1), first);
        let writes = (self.thread & (threads - 1)).lt(STRIP_ROWS);
        k.if_(writes & row.lt(evaluator.parameters.rows), || {
            for (one, state) in &states {
                self.workspace.write(*one, self.row_index(), (strip, ResultOf::Row(row)), state);
            }
        });
    }

    /// The workspace index of partial results of rows: those of a strip lie side by side.
    fn row_index(&self) -> WorkspaceIndex<'k> {
        let (zero, tiles) = (self.evaluator.k.imm(0), self.strips);
        let units = self.units;
        WorkspaceIndex { batch: zero, unit: zero, units, tile: zero, tiles, segment: None }
    }

    /// Combines the partial results of all strips of a unit's rows, each row by one thread, and stores what follows.
    fn finish_rows(&self, unit: &StripUnit<'k>) {
        let (k, parameters) = (self.evaluator.k, self.evaluator.parameters);
        let schedule = self.evaluator.plan.schedule;
        let (index, height) = (self.row_index(), schedule.tile.rows);
        let groups = (up(parameters.rows, height) + (unit.units - 1)) / unit.units;
        let apart = self.workspace.apart(Kind::AlongRows, index);
        k.for_(self.thread, groups * height, schedule.threads(), |own| {
            let group = (own >> height.trailing_zeros()).mad(unit.units, unit.number);
            let row = group.mad(height, own & (height - 1));
            let inside = row.lt(parameters.rows);
            let count = self.strips.select(0, inside);
            let gather = |one: Numbered| {
                let parts = Parts { count, apart, first: k.imm(0), step: 1 };
                (one.1, self.workspace.gather(one, index, ResultOf::Row(row), parts))
            };
            let results: Vec<_> = self.reductions.of(Kind::AlongRows).map(gather).collect();
            let scope = ReductionScope { kind: Kind::AlongRows, batches: Batches::Each };
            let at = (parameters.batch_dims.batch(index.batch), row, k.imm(0));
            let place = Place { at, inside: Some(inside) };
            let known = environment(&self.evaluator, scope.kind, &place);
            store_outputs(&self.evaluator, scope, &place, known, &results);
        });
    }

    /// The same for scalars: a CTA's words are of all its columns, and the last CTA of all finishes them.
    fn add_scalars(&self, unit: &StripUnit<'k>, states: Vec<Vec<State<'k>>>) {
        let (k, index) = (self.evaluator.k, self.index(unit));
        let of_thread = self.numbered().zip(states);
        let of_thread = of_thread.map(|((_, one), columns)| self.evaluator.fold_all(one, &columns));
        self.share_scalars(of_thread.collect());
        k.sync();
        let last = unit.units * self.strips - 1;
        k.if_(self.thread.eq(0), || {
            let number = unit.strip.mad(unit.units, unit.number);
            let all = self.reductions.of(self.kind).zip(self.shared_scalars());
            for (one, (_, state)) in all {
                self.workspace.write(one, index, (number, ResultOf::Scalar), &state);
            }
            self.arrive(self.shared, k.imm(0), last);
        });
        k.sync();
        let before = k.load_shared::<U32, 1>(self.shared)[0];
        k.if_(before.eq(last), || {
            let parts = Parts {
                count: last + 1,
                apart: self.workspace.apart(self.kind, index),
                first: self.thread,
                step: self.evaluator.plan.schedule.threads(),
            };
            let gather = |one| self.workspace.gather(one, index, ResultOf::Scalar, parts);
            self.share_scalars(self.reductions.of(self.kind).map(gather).collect());
            k.sync();
            k.if_(self.thread.eq(0), || {
                let scope = ReductionScope { kind: self.kind, batches: Batches::Each };
                let (zero, batch) = (k.imm(0), index.batch);
                let at = (self.evaluator.parameters.batch_dims.batch(batch), zero, zero);
                let place = Place { at, inside: None };
                let known = environment(&self.evaluator, scope.kind, &place);
                store_outputs(&self.evaluator, scope, &place, known, &self.shared_scalars());
            });
            // The next unit's words come to the same memory.
            k.sync();
        });
    }

    /// Where the words begin that warps have of a scalar's word.
    fn scalar_place(&self, word: u32) -> SharedAddress<'k> {
        self.shared + (word * (self.evaluator.plan.schedule.threads() / 32) * 4 + FLAG_BYTES)
    }

    /// The lanes of each warp combine what they have of each reduction, and one writes it.
    fn share_scalars(&self, states: Vec<State<'k>>) {
        let k = self.evaluator.k;
        let fold = |((first, one), state)| {
            (first, self.evaluator.fold_lanes(one, state, Fragment::WARP_BITS))
        };
        let all: Vec<(u32, State<'k>)> = self.numbered().zip(states).map(fold).collect();
        k.if_((self.thread & 31).eq(0), || {
            for (first, state) in &all {
                for (word, value) in (*first..).zip(state) {
                    k.store_shared(self.scalar_place(word) + (self.thread >> 5) * 4, [*value]);
                }
            }
        });
    }

    /// What all warps have together of each reduction.
    fn shared_scalars(&self) -> Vec<(Reduction, State<'k>)> {
        let warps = self.evaluator.plan.schedule.threads() / 32;
        let load = |word: u32, warp: u32| {
            self.evaluator.k.load_shared::<F32, 1>(self.scalar_place(word) + warp * 4)[0]
        };
        let whole = |(first, one): Numbered| {
            let of = |warp| (first..first + one.registers()).map(|word| load(word, warp)).collect();
            let states: Vec<State<'k>> = (0..warps).map(of).collect();
            (one, self.evaluator.fold_all(one, &states))
        };
        self.numbered().map(whole).collect()
    }

    /// Runs `body` in one thread of each column.
    fn in_first_threads(&self, body: impl FnOnce()) {
        if self.evaluator.plan.schedule.threads() == self.width() {
            return body();
        }
        self.evaluator.k.if_(self.thread.lt(self.width()), body);
    }

    /// Lanes that have the same columns combine what they folded, and one of each warp writes it.
    fn share(&self, states: Vec<Vec<State<'k>>>) {
        let (k, plan) = (self.evaluator.k, self.evaluator.plan);
        let threads = plan.schedule.tile.threads_per_row();
        let vector = plan.schedule.needs.rows.map_or(1, |rows| rows.vector);
        let bits = Fragment::WARP_BITS.iter().copied();
        let bits: Vec<u32> = bits.filter(|bit| *bit >= threads).collect();
        let all: Vec<Vec<State<'k>>> = (self.numbered().zip(states))
            .map(|((_, one), columns)| {
                let fold = |state| self.evaluator.fold_lanes(one, state, &bits);
                columns.into_iter().map(fold).collect()
            })
            .collect();
        let own = (self.thread & (threads - 1)) * vector;
        let store = || {
            for ((first, one), columns) in self.numbered().zip(&all) {
                for word in 0..one.registers() {
                    let from = self.place(first + word, self.thread >> 5, own);
                    let words: Vec<_> = columns.iter().map(|state| state[word as usize]).collect();
                    for (number, four) in (0..).step_by(WORDS).zip(words.chunks_exact(WORDS)) {
                        let column = number / vector * threads * vector + number % vector;
                        let four = [four[0], four[1], four[2], four[3]];
                        k.store_shared(from + column * 4, four);
                    }
                }
            }
        };
        if bits.is_empty() { store() } else { k.if_((self.thread & 31).lt(threads), store) }
    }

    /// The workspace index of a unit.
    fn index(&self, unit: &StripUnit<'k>) -> WorkspaceIndex<'k> {
        let &StripUnit { number, units, strip } = unit;
        let (batch, tiles) = (self.evaluator.k.imm(0), self.strips);
        WorkspaceIndex { batch, unit: number, units, tile: strip, tiles, segment: None }
    }

    /// Combines the partial results of all units, each column by as many threads as there are, and stores what follows.
    fn finish(&self, index: WorkspaceIndex<'k>, own: Reg<'k, U32>, column: Reg<'k, U32>) {
        let (k, parameters) = (self.evaluator.k, self.evaluator.parameters);
        let step = self.evaluator.plan.schedule.threads() / self.width();
        let first = self.thread >> self.width().trailing_zeros();
        let apart = self.workspace.apart(Kind::AlongColumns, index);
        let parts = Parts { count: index.units, apart, first, step };
        let gather = |one| self.workspace.gather(one, index, ResultOf::Column(column), parts);
        let gathered: Vec<State<'k>> = self.reductions.of(Kind::AlongColumns).map(gather).collect();
        if step > 1 {
            for ((word, _), state) in self.numbered().zip(&gathered) {
                for (each, value) in (0..).zip(state) {
                    k.store_shared(self.place(word + each, first, own), [*value]);
                }
            }
            k.sync();
        }
        self.in_first_threads(|| {
            let result = |(one, state): (Numbered, State<'k>)| match step {
                1 => (one.1, state),
                _ => (one.1, self.combined(one, own, step)),
            };
            let results: Vec<_> = self.numbered().zip(gathered).map(result).collect();
            let scope = ReductionScope { kind: Kind::AlongColumns, batches: Batches::Each };
            let at = (parameters.batch_dims.batch(index.batch), k.imm(0), column);
            let place = Place { at, inside: Some(column.lt(parameters.columns)) };
            let known = environment(&self.evaluator, scope.kind, &place);
            store_outputs(&self.evaluator, scope, &place, known, &results);
        });
    }
}

impl<'k> StripUnit<'k> {
    /// The first row of a turn of rows that the CTA has side by side, counted from the unit's first, and rows to the next.
    pub(crate) fn rows(&self, rows: u32) -> [Reg<'k, U32>; 2] {
        [self.number, self.units].map(|count| count * rows)
    }

    /// Rows from each time that the threads load to the next.
    pub(crate) fn step(&self, rows: u32) -> Reg<'k, U32> {
        self.units * (rows * STRIP_ROWS)
    }
}
