//! Bounds of `topk` along rows: a tile drops elements that cannot be among the largest of their row.
//!
//! A row has as many slots in the workspace as it keeps elements. Slot s holds the largest key that was kept so far in the
//! column tiles t with `t % kept == s`, by all CTAs. The least slot is a bound: as many elements as there are slots, each of
//! another tile, are at least as large, so an element below it is not among the largest, whatever the timing. An element
//! that equals the bound may be, by its index. Most tiles keep no element of most rows, so a tile writes how many pairs it
//! kept, and only those pairs, in any order. The last warpgroup reads the counts, then the pairs that are there.
//!
//! Where there are few column tiles, bounds would drop little: then tiles write whole lists ([`Workspace`]).

use std::iter::successors;

use postlude_ptx::kernel::{GlobalPointer, Reg, Var};
use postlude_ptx::modifier::{self, Order, Scope, ShuffleMode, VoteMode};
use postlude_ptx::types::{F32, Pred, U32, U64};

use crate::lower::Reduction;

use super::super::chip::EpilogueChip;
use super::super::fragment::Fragment;
use super::super::values::{Evaluator, State, Term};
use super::partials::{Partial, RowBounds};
use super::reductions::{Numbered, Reductions};
use super::thread::ThreadCoordinate;
use super::workspace::{ResultOf, Workspace, WorkspaceIndex};

/// Column tiles for each slot from which on bounds are used: the first tiles of a row run together and find none.
const TILES_OF_SLOT: u32 = 4;
/// Counts of pairs whose loads are in flight at a time, where no accumulators are live.
const MANY_COUNTS: u32 = 32;
/// The same elsewhere.
const FEW_COUNTS: u32 = 8;

#[derive(Clone, Copy)]
pub(super) struct Bounds<'a, 'k, C> {
    pub(super) workspace: Workspace<'a, 'k, C>,
    /// This thread in its warpgroup.
    pub(super) rank: Reg<'k, U32>,
}

/// An element of a row.
#[derive(Clone, Copy)]
pub(super) struct Element<'k> {
    pub(super) value: Reg<'k, F32>,
    /// The weight, where the reduction takes one: an element of weight 0 does not count.
    pub(super) weight: Option<Reg<'k, F32>>,
    /// How many columns it is behind the thread's first.
    pub(super) offset: u32,
}

impl<'k> Element<'k> {
    /// Whether it is none of the largest of a row that has this bound.
    fn is_dropped(&self, bound: Reg<'k, F32>) -> Reg<'k, Pred> {
        let below = self.value.lt(bound);
        self.weight.map_or(below, |weight| below | weight.eq(0.0))
    }
}

/// Whether tiles share bounds at this size: the same in all threads; `None` if they never do.
pub(super) fn applies<'k>(
    reductions: Reductions<'_>,
    index: WorkspaceIndex<'k>,
) -> Option<Reg<'k, Pred>> {
    let least = reductions.all().filter_map(|(_, reduction)| reduction.bounded()).min()?;
    Some(applies_to(least, index))
}

fn applies_to(kept: u32, index: WorkspaceIndex<'_>) -> Reg<'_, Pred> {
    index.tiles.ge(TILES_OF_SLOT * kept)
}

impl<'a, 'k, C: EpilogueChip> Bounds<'a, 'k, C> {
    fn evaluator(&self) -> &Evaluator<'a, 'k, C> {
        &self.workspace.evaluator
    }

    /// Whether there are bounds of this reduction at this size.
    pub(super) fn apply(reduction: Reduction, index: WorkspaceIndex<'k>) -> Reg<'k, Pred> {
        applies_to(kept(reduction), index)
    }

    /// A slot of a row.
    fn slot(
        &self,
        (word, reduction): Numbered,
        index: WorkspaceIndex<'k>,
        slot: Reg<'k, U32>,
        row: Reg<'k, U32>,
    ) -> GlobalPointer<'k> {
        // There are more tiles than slots.
        self.workspace.part(index, word + reduction.words() + 1, slot, ResultOf::Row(row))
    }

    /// How many pairs a tile has kept of a row, and one more.
    fn count(
        &self,
        (word, reduction): Numbered,
        index: WorkspaceIndex<'k>,
        tile: Reg<'k, U32>,
        row: Reg<'k, U32>,
    ) -> GlobalPointer<'k> {
        self.workspace.part(index, word + reduction.words(), tile, ResultOf::Row(row))
    }

    /// Reads the bounds of a thread's two rows: the lanes of a row read some of its slots each.
    pub(super) fn load(
        &self,
        one: Numbered,
        index: WorkspaceIndex<'k>,
        thread: &ThreadCoordinate<'k>,
    ) -> RowBounds<'k> {
        let (k, kept) = (self.evaluator().k, kept(one.1));
        let applies = Self::apply(one.1, index);
        let bounds = [(); 2].map(|()| k.var(f32::NAN));
        k.if_(applies, || {
            let lane = Fragment::lane_in_row(self.rank);
            let least = thread.rows.map(|row| {
                let own = (0..kept).step_by(Fragment::LANES_OF_ROW).map(|first| {
                    let from = self.slot(one, index, (lane + first).min(kept - 1), row);
                    k.load_ordered::<U32>(Order::Relaxed, Scope::Gpu, from)
                });
                own.collect::<Vec<_>>()
            });
            for ((own, bound), inside) in least.iter().zip(bounds).zip(thread.inside_rows) {
                let least = own.iter().copied().reduce(Reg::min).unwrap_or_else(|| k.imm(0));
                let least = Fragment::ROW_BITS.iter().fold(least, |least, bit| {
                    least.min(k.shuffle(ShuffleMode::Butterfly, least, *bit))
                });
                let value = self.evaluator().value_of_slot(one.1, least);
                // All elements of a row outside may be equal, and so as large as its bound.
                bound.set(value.select(f32::INFINITY, inside));
            }
        });
        RowBounds { applies, rows: bounds }
    }

    /// Folds elements of a thread's two rows: a warp whose elements are all below their bounds does nothing.
    pub(super) fn fold(
        &self,
        reduction: Reduction,
        thread: &ThreadCoordinate<'k>,
        bound: &RowBounds<'k>,
        partials: [&Partial<'k>; 2],
        elements: [&[Element<'k>]; 2],
    ) {
        let k = self.evaluator().k;
        let below = [0, 1].map(|row| {
            let bound = bound.rows[row].get();
            if reduction.weights.is_some() {
                let dropped = elements[row].iter().map(|element| element.is_dropped(bound));
                return dropped.reduce(|all, one| all & one).unwrap_or_else(|| k.imm(true));
            }
            let values = elements[row].iter().map(|element| element.value);
            let largest = values.reduce(Reg::max).unwrap_or_else(|| k.imm(f32::NEG_INFINITY));
            largest.lt(bound)
        });
        k.if_(!k.vote(VoteMode::All, below[0] & below[1]), || {
            for row in 0..2 {
                let at = (thread, row);
                self.insert(reduction, at, bound.rows[row].get(), partials[row], elements[row]);
            }
        });
    }

    /// Inserts a row's elements that are not below its bound: each lane its next, until no lane has one.
    fn insert(
        &self,
        reduction: Reduction,
        (thread, row): (&ThreadCoordinate<'k>, usize),
        bound: Reg<'k, F32>,
        partial: &Partial<'k>,
        elements: &[Element<'k>],
    ) {
        let (k, evaluator) = (self.evaluator().k, self.evaluator());
        let bits = (0..)
            .zip(elements)
            .map(|(place, element)| k.imm::<U32>(0).select(1 << place, element.is_dropped(bound)));
        let left = k.var(bits.reduce(|all, bit| all | bit).unwrap_or_else(|| k.imm(0)));
        k.while_(
            || k.vote(VoteMode::Any, left.get().ne(0)),
            || {
                let all = left.copy();
                let next = all & (k.imm(0) - all);
                let first = elements[0];
                let (mut value, mut offset) = (first.value, k.imm::<U32>(first.offset));
                for (place, other) in (0..).zip(elements).skip(1) {
                    let here = next.eq(1 << place);
                    value = other.value.select(value, here);
                    offset = k.imm(other.offset).select(offset, here);
                }
                left.set(all & (all - 1));
                let at = || (thread.batch, thread.rows[row], thread.column + offset);
                let term: Term<'k> = evaluator.fold_at(reduction, value, None, at);
                let state = partial.state();
                partial.set(evaluator.fold_candidate(reduction, &state, &term, all.ne(0)));
            },
        );
    }

    /// Writes what a tile kept of a thread's two rows.
    pub(super) fn write(
        &self,
        one: Numbered,
        index: WorkspaceIndex<'k>,
        thread: &ThreadCoordinate<'k>,
        partials: [&Partial<'k>; 2],
    ) {
        let k = self.evaluator().k;
        let first = Fragment::is_first_of_row(self.rank);
        for (row, partial) in thread.rows.into_iter().zip(partials) {
            let total = k.var::<U32>(0);
            let has_any = self.evaluator().slot_of_key(partial.state()[0]).ne(0);
            k.if_(k.vote(VoteMode::Any, has_any), || {
                let (own, before) = (k.var(0), k.var(0));
                self.place(one.1, partial, [own, before, total]);
                self.raise_slot(one, index, row, (partial.state()[0], first));
                let start = self.workspace.part(index, one.0, index.tile, ResultOf::Row(row));
                let next = self.workspace.part(index, one.0 + 1, index.tile, ResultOf::Row(row));
                let plane = next.register() - start.register();
                let start = start + plane * (k.widen(before.get()) * 2_u64);
                self.write_pairs(&partial.state(), 0, own.get(), (start, plane));
            });
            let to = self.count(one, index, index.tile, row);
            let count = total.get() + 1;
            k.when(first, || k.store_ordered(Order::Relaxed, Scope::Gpu, to, count));
        }
    }

    /// How many pairs a lane writes, how many lanes before it in its row do, and all lanes of the row together.
    fn place(
        &self,
        reduction: Reduction,
        partial: &Partial<'k>,
        [own, before, total]: [Var<'k, U32>; 3],
    ) {
        let (k, evaluator) = (self.evaluator().k, self.evaluator());
        own.set(evaluator.count_pairs(&partial.state()));
        total.set(own.get());
        for bit in Fragment::ROW_BITS {
            let other = k.shuffle(ShuffleMode::Butterfly, total.get(), *bit);
            let behind = (self.rank & *bit).ne(0);
            before.set(before.get() + other.select(0, behind));
            total.set(total.get() + other);
        }
        // Four lists may hold more pairs than are kept.
        k.if_(k.vote(VoteMode::Any, total.get().gt(kept(reduction))), || {
            let all = evaluator.fold_lanes(reduction, partial.state(), Fragment::ROW_BITS);
            partial.set(all);
            total.set(evaluator.count_pairs(&partial.state()));
            own.set(total.get().select(0, Fragment::is_first_of_row(self.rank)));
            before.set(0);
        });
    }

    /// Raises the tile's slot of a row to the largest key of its lanes.
    fn raise_slot(
        &self,
        one: Numbered,
        index: WorkspaceIndex<'k>,
        row: Reg<'k, U32>,
        (key, first): (Reg<'k, F32>, Reg<'k, Pred>),
    ) {
        let k = self.evaluator().k;
        let own = self.evaluator().slot_of_key(key);
        let largest = Fragment::ROW_BITS.iter().fold(own, |largest, bit| {
            largest.max(k.shuffle(ShuffleMode::Butterfly, largest, *bit))
        });
        let to = self.slot(one, index, index.tile % kept(one.1), row);
        let max = modifier::Reduction::Max;
        k.when(first & largest.ne(0), || {
            k.reduce::<U32>(max, Order::Relaxed, Scope::Gpu, to, largest);
        });
    }

    /// Writes a lane's pairs from this place on, while any lane of the warp has one.
    fn write_pairs(
        &self,
        state: &State<'k>,
        place: u32,
        own: Reg<'k, U32>,
        (start, plane): (GlobalPointer<'k>, Reg<'k, U64>),
    ) {
        let k = self.evaluator().k;
        let Some(pair) = state.chunks_exact(2).nth(place as usize) else { return };
        let has = own.gt(place);
        k.if_(k.vote(VoteMode::Any, has), || {
            let second = start + plane;
            for (to, value) in [start, second].into_iter().zip(pair) {
                let bits = self.workspace.written(*value);
                k.when(has, || k.store_ordered(Order::Relaxed, Scope::Gpu, to, bits));
            }
            self.write_pairs(state, place + 1, own, (second + plane, plane));
        });
    }

    /// Reads the pairs of all tiles of a row, and leaves them, their counts and the row's slots at zero.
    pub(super) fn gather(
        &self,
        one: Numbered,
        index: WorkspaceIndex<'k>,
        row: Reg<'k, U32>,
        tiles: Reg<'k, U32>,
        total: &Partial<'k>,
    ) {
        let k = self.evaluator().k;
        let at_once = if self.workspace.finishes_later { MANY_COUNTS } else { FEW_COUNTS };
        let start = self.count(one, index, k.imm(0), row);
        let apart = self.count(one, index, k.imm(1), row).register() - start.register();
        let next = k.var(start.register());
        k.for_(0, tiles, at_once, |number| {
            let first = GlobalPointer::from_register(next.copy());
            let starts = successors(Some(first), |start| Some(*start + apart));
            let starts: Vec<_> = starts.take(at_once as usize).collect();
            let place = |(each, start): (u32, &GlobalPointer<'k>)| {
                ((number + each).lt(tiles), vec![*start])
            };
            let places: Vec<_> = (0..).zip(&starts).map(place).collect();
            next.set((starts[starts.len() - 1] + apart).register());
            let counts: Vec<_> = self.workspace.poll(&places).concat();
            let left = k.var::<U32>(0);
            for (place, ((counted, at), count)) in (0..).zip(places.iter().zip(&counts)) {
                let empty = count.eq(1);
                left.set(left.get() | k.imm::<U32>(0).select(1 << place, empty));
                self.workspace.clear(&[(*counted & empty, at.clone())]);
            }
            k.while_(
                || k.vote(VoteMode::Any, left.get().ne(0)),
                || {
                    let all = left.copy();
                    let tile = number + ((all & (k.imm(0) - all)) - 1).cast().count_ones();
                    left.set(all & (all - 1));
                    self.gather_tile(one, index, (row, tile), all.ne(0), total);
                },
            );
        });
        let slots = (0..kept(one.1)).map(|slot| self.slot(one, index, k.imm(slot), row)).collect();
        self.workspace.clear(&[(k.imm(true), slots)]);
    }

    /// Reads the pairs of a tile where it has some.
    fn gather_tile(
        &self,
        one: Numbered,
        index: WorkspaceIndex<'k>,
        (row, tile): (Reg<'k, U32>, Reg<'k, U32>),
        has: Reg<'k, Pred>,
        total: &Partial<'k>,
    ) {
        let k = self.evaluator().k;
        let of = ResultOf::Row(row);
        let start = self.workspace.part(index, one.0, tile, of);
        let plane = self.workspace.part(index, one.0 + 1, tile, of).register() - start.register();
        let count = self.count(one, index, tile, row);
        let words = successors(Some(start), |word| Some(*word + plane));
        let words: Vec<_> = words.take(one.1.words() as usize).collect();
        let first = vec![count, words[0], words[1]];
        let first = [(has, first)];
        let found = self.workspace.poll(&first).concat();
        self.workspace.clear(&first);
        self.add(one.1, has, &found[1..], total);
        let pairs = (found[0] - 1).select(0, has);
        k.if_(k.vote(VoteMode::Any, pairs.gt(1)), || {
            let others = (0..).zip(words.chunks_exact(2)).skip(1);
            let places: Vec<_> =
                others.map(|(place, pair)| (pairs.gt(place), pair.to_vec())).collect();
            let found = self.workspace.poll(&places);
            self.workspace.clear(&places);
            for ((has, _), words) in places.iter().zip(found) {
                k.if_(k.vote(VoteMode::Any, *has), || self.add(one.1, *has, &words, total));
            }
        });
    }

    /// Inserts a pair where it is there.
    fn add(
        &self,
        reduction: Reduction,
        has: Reg<'k, Pred>,
        words: &[Reg<'k, U32>],
        total: &Partial<'k>,
    ) {
        let evaluator = self.evaluator();
        let nothing = evaluator.fold_begin(reduction);
        let pair = [0, 1].map(|word| {
            let read: Reg<'k, F32> = self.workspace.read_word(words[word]);
            read.select(nothing[word], has)
        });
        total.set(evaluator.fold_pair(reduction, &total.state(), pair));
    }
}

fn kept(reduction: Reduction) -> u32 {
    reduction.bounded().unwrap_or_else(|| panic!("compiler bug: a reduction without bounds"))
}
