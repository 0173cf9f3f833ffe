//! The end of a reduction: the last warpgroup to arrive combines all partial results, in the order of the tiles, and
//! writes what is computed from them.
//!
//! Partial results are stored; the warpgroup meets; one thread adds to a counter with release and acquire, and its answer
//! says whether all others were there before. Who is last sees everything behind a fence, and leaves the counter at zero
//! for the next launch.

use postlude_ptx::kernel::{GlobalPointer, Half, Kernel, Reg};
use postlude_ptx::modifier::{Order, Reduction, Scope};
use postlude_ptx::target::Sm90a;
use postlude_ptx::types::{F32, Pred, U32};

use crate::dtype::DType;
use crate::graph::Kind;
use crate::plan::sm90::{Folded, How, SLOT_ROWS};

use super::super::parameters::{Destination, Location};
use super::super::values::{Evaluator, Known, Place, State, Value};
use super::folding::{Folding, Share, numbered};

/// Partial results that are asked for before the first is there.
const AT_ONCE: u32 = 4;
/// Threads of a warpgroup.
const THREADS: u32 = 128;

/// Partial results of one place: how many there are, and where.
struct Parts<'f, 'k> {
    folded: Folded,
    count: Reg<'k, U32>,
    /// By the number of a word and of a part.
    at: &'f dyn Fn(u32, Reg<'k, U32>) -> GlobalPointer<'k>,
}

impl<'k> Folding<'_, 'k> {
    /// Says that this warpgroup's partial results of a tile are there; if they were the last, finishes.
    pub(super) fn arrive(&self, evaluator: &Evaluator<'_, 'k>, share: Share<'k>) {
        let (k, batches) = (self.k, self.parameters.batches);
        let all = share.units * share.tiles;
        let behind_rows = batches * share.units;
        let behind_columns = batches.mad(share.tiles, behind_rows);
        let groups = [
            (&self.rows, share.batch.mad(share.units, share.unit), share.tiles),
            (&self.columns, share.batch.mad(share.tiles, share.tile) + behind_rows, share.units),
            (&self.scalars, behind_columns + share.batch, all),
        ];
        self.sync();
        k.if_(self.rank.eq(0), || {
            for (number, (folds, counter, wanted)) in (0..).zip(&groups) {
                if !folds.is_empty() {
                    let counter = self.part(0, k.widen(*counter));
                    let before =
                        k.atomic::<U32>(Reduction::Add, Order::AcqRel, Scope::Gpu, counter, 1);
                    let last = before.eq(*wanted - 1);
                    let zero = k.imm::<U32>(0);
                    k.when(last, || {
                        k.store_ordered(Order::Relaxed, Scope::Gpu, counter, zero);
                    });
                    k.store_shared(self.flag_place(number), [k.imm::<U32>(1).select(0, last)]);
                }
            }
        });
        self.sync();
        let finish: [&dyn Fn(); 3] = [
            &|| self.finish_rows(evaluator, share),
            &|| self.finish_columns(evaluator, share),
            &|| self.finish_scalars(evaluator, share),
        ];
        for (number, ((folds, ..), finish)) in (0..).zip(groups.iter().zip(finish)) {
            if !folds.is_empty() {
                let [last] = k.load_shared::<U32, 1>(self.flag_place(number));
                k.if_(last.ne(0), || {
                    k.fence(Order::AcqRel, Scope::Gpu);
                    finish();
                });
            }
        }
        // Nobody says anything about the next tile before all have heard of this one.
        self.sync();
    }

    fn finish_rows(&self, evaluator: &Evaluator<'_, 'k>, share: Share<'k>) {
        let k = self.k;
        let unit_rows = self.plan.schedule.tile.blocks() * SLOT_ROWS;
        k.for_(self.rank, unit_rows, THREADS, |within| {
            let row = share.unit.mad(unit_rows, within);
            let at = |word: u32, part: Reg<'k, U32>| self.row_part(share, word, part, row);
            let results = self.in_tile_order(evaluator, &self.rows, share.tiles, &at);
            let inside = row.lt(self.parameters.rows);
            let place = Place { at: [share.batch, row, k.imm(0)], inside: Some(inside) };
            self.write(evaluator, Kind::AlongRows, &place, &results);
        });
    }

    fn finish_columns(&self, evaluator: &Evaluator<'_, 'k>, share: Share<'k>) {
        let k = self.k;
        let width = self.plan.schedule.width();
        k.for_(self.rank, width, THREADS, |within| {
            let column = share.tile.mad(width, within);
            let at = |word: u32, part: Reg<'k, U32>| self.column_part(share, word, part, column);
            let results = self.in_tile_order(evaluator, &self.columns, share.units, &at);
            let inside = column.lt(self.parameters.columns);
            let place = Place { at: [share.batch, k.imm(0), column], inside: Some(inside) };
            self.write(evaluator, Kind::AlongColumns, &place, &results);
        });
    }

    fn finish_scalars(&self, evaluator: &Evaluator<'_, 'k>, share: Share<'k>) {
        let (k, count) = (self.k, share.units * share.tiles);
        for (word, folded) in numbered(&self.scalars) {
            let at = |each: u32, part: Reg<'k, U32>| self.scalar_part(share, word + each, part);
            let parts = Parts { folded, count, at: &at };
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
            self.write(evaluator, Kind::Scalar, &place, &results);
        });
    }

    /// For each reduction all parts of one place, by the number of a word of all of them and of a part.
    fn in_tile_order(
        &self,
        evaluator: &Evaluator<'_, 'k>,
        folds: &[Folded],
        count: Reg<'k, U32>,
        at: &dyn Fn(u32, Reg<'k, U32>) -> GlobalPointer<'k>,
    ) -> Vec<(Folded, State<'k>)> {
        let one = |(word, folded): (u32, Folded)| {
            let at = |each: u32, part: Reg<'k, U32>| at(word + each, part);
            let parts = Parts { folded, count, at: &at };
            (folded, self.gather(evaluator, &parts, self.k.imm(0), 1))
        };
        numbered(folds).map(one).collect()
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
        k.for_(first, parts.count, step * AT_ONCE, |number| {
            let one = |turn: u32| -> State<'k> {
                let number = number + turn * step;
                let (there, number) = (number.lt(parts.count), number.min(parts.count - 1));
                let word = |(each, nothing): (u32, &Reg<'k, F32>)| {
                    let from = (parts.at)(each, number);
                    let value = k.load_ordered::<F32>(Order::Relaxed, Scope::Gpu, from);
                    value.select(*nothing, there)
                };
                (0..).zip(&nothing).map(word).collect()
            };
            let some: Vec<State<'k>> = (0..AT_ONCE).map(one).collect();
            let before: State<'k> = total.iter().map(|word| word.get()).collect();
            let both = |all: State<'k>, one: &State<'k>| evaluator.fold_both(folded, &all, one);
            let after = some.iter().fold(before, both);
            total.iter().zip(after).for_each(|(word, after)| word.set(after));
        });
        total.iter().map(|word| word.get()).collect()
    }

    /// Computes what follows from finished reductions, and stores the outputs that live so.
    fn write(
        &self,
        evaluator: &Evaluator<'_, 'k>,
        kind: Kind,
        place: &Place<'k>,
        results: &[(Folded, State<'k>)],
    ) {
        let graph = self.plan.graph;
        let mut known: Known<'k> = vec![None; graph.len()];
        evaluator.extend(&mut known, Kind::Scalar, place, &[]);
        if kind != Kind::Scalar {
            evaluator.extend(&mut known, kind, place, &[]);
        }
        for (folded, state) in results {
            let mut value = evaluator.fold_end(*folded, state);
            if let How::Pick(index) = folded.how {
                let Some(Value::Integer(index)) = known[index.index()] else {
                    panic!("compiler bug: no column is picked")
                };
                // As an unsigned number a negative one is beyond the last column.
                let there = index.cast::<U32>().lt(self.parameters.columns);
                value = value.select(f32::NAN, there);
            }
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
                store(self.k, output.dtype, to, value.float(), place.inside);
            }
        }
    }
}

/// Stores one number where it is inside.
pub(super) fn store<'k>(
    k: Kernel<'k, Sm90a>,
    dtype: DType,
    to: Location<'k>,
    value: Reg<'k, F32>,
    inside: Option<Reg<'k, Pred>>,
) {
    let to = to.pointer();
    let store = || match dtype {
        DType::F16 => k.store_global(to, [k.half_of_f32(Half::F16, value)]),
        DType::BF16 => k.store_global(to, [k.half_of_f32(Half::BF16, value)]),
        _ => k.store_global(to, [value]),
    };
    match inside {
        Some(inside) => k.if_(inside, store),
        None => store(),
    }
}
