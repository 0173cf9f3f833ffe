//! The grid level of a reduction: partial results of warpgroups in the launch's workspace.
//!
//! In: the partial results of tiles, of finished blocks and of batches, each at its own address. Out: the combination of
//! all that there are of one row, column or scalar, in the order of batches and tiles.
//!
//! Nothing orders stores of partial results and counters: a word of a partial result says itself whether it is written,
//! so that no thread waits for a fence, and the reader polls words that are not there yet. It leaves words at zero for
//! the next launch.

use std::iter::successors;

use postlude_ptx::kernel::{GlobalPointer, Reg, Var};
use postlude_ptx::modifier::{Order, Scope};
use postlude_ptx::types::{B32, F32, Pred, U32, U64};

use crate::graph::{Fold, Kind};
use crate::lower::{Batches, How, Reduction, ReductionScope, Source};
use crate::target::sm90::plan::SLOT_ROWS;

use super::super::chip::EpilogueChip;
use super::super::tile_scheduler::{TilesOfSegment, WorkTile};
use super::super::values::{Evaluator, State};
use super::partials::Partial;
use super::persistent::Workers;
use super::reductions::Numbered;

/// Words of scalars whose loads are in flight at a time.
const SCALARS_IN_FLIGHT: u32 = 8;
/// Words of the largest terms and their indices whose loads are in flight at a time.
const RANKED_IN_FLIGHT: u32 = 16;
/// Words whose loads are in flight at a time where registers are plenty.
const MOST_IN_FLIGHT: u32 = 16;
/// The same of sums of exponentials.
const RESCALED_IN_FLIGHT: u32 = 32;
/// Words of a partial result that each have a pointer.
const FEW_WORDS: u32 = 4;
/// Registers beside the accumulators that hold many words and where they come from.
const MANY_REGISTERS: u32 = 104;
/// Of a word that holds half of an integer, what says that it is there.
const THERE: u32 = 1 << 16;

#[derive(Clone, Copy)]
pub(super) struct Workspace<'a, 'k, C> {
    pub(super) evaluator: Evaluator<'a, 'k, C>,
    /// Tiles along rows and along columns.
    pub(super) tiles: [Reg<'k, U32>; 2],
    /// Where scalars are accumulated across work tiles.
    pub(super) workers: Option<Workers<'k>>,
    /// Whether results are finished after the next tile, outside of the code of a tile.
    pub(super) finishes_later: bool,
}

/// Where a warpgroup's partial results lie in the workspace.
#[derive(Clone, Copy)]
pub(super) struct WorkspaceIndex<'k> {
    pub(super) batch: Reg<'k, U32>,
    /// The warpgroup's number along rows, over all tiles, and how many there are.
    pub(super) unit: Reg<'k, U32>,
    pub(super) units: Reg<'k, U32>,
    /// The tile's number along columns, and how many there are.
    pub(super) tile: Reg<'k, U32>,
    pub(super) tiles: Reg<'k, U32>,
    /// Where rows are cut into segments: the batch's warpgroups along rows, of those of all batches.
    pub(super) segment: Option<UnitsOfSegment<'k>>,
}

/// The warpgroups along rows of a segment: the number of the first among those of all segments, and how many there are.
#[derive(Clone, Copy)]
pub(super) struct UnitsOfSegment<'k> {
    pub(super) first: Reg<'k, U32>,
    pub(super) count: Reg<'k, U32>,
}

impl<'k> WorkspaceIndex<'k> {
    /// How many warpgroups along rows the batch has.
    pub(super) fn own_units(&self) -> Reg<'k, U32> {
        self.segment.map_or(self.units, |segment| segment.count)
    }
}

/// The result that a partial result is of: a row, a column, or a scalar.
#[derive(Clone, Copy)]
pub(super) enum ResultOf<'k> {
    Row(Reg<'k, U32>),
    Column(Reg<'k, U32>),
    Scalar,
}

/// Words at these addresses, where they count.
pub(super) type Written<'k> = (Reg<'k, Pred>, Vec<GlobalPointer<'k>>);

/// Partial results that one thread combines: every `step`th of `count` from the first on, and their distance in bytes.
#[derive(Clone, Copy)]
pub(super) struct Parts<'k> {
    pub(super) count: Reg<'k, U32>,
    pub(super) apart: Reg<'k, U64>,
    pub(super) first: Reg<'k, U32>,
    pub(super) step: u32,
}

impl<'k, C: EpilogueChip> Workspace<'_, 'k, C> {
    /// The index of the first tile of all.
    pub(super) fn grid(&self) -> WorkspaceIndex<'k> {
        let (zero, [rows, tiles]) = (self.evaluator.k.imm(0), self.tiles);
        let units = rows * self.evaluator.plan.schedule.tile.warpgroups_per_tile();
        let segmented = self.evaluator.plan.graph.space().is_segmented();
        let segment = segmented.then_some(UnitsOfSegment { first: zero, count: units });
        WorkspaceIndex { batch: zero, unit: zero, units, tile: zero, tiles, segment }
    }

    /// The index of a tile's warpgroup of this number.
    pub(super) fn index(
        &self,
        work_tile: &WorkTile<'k>,
        warpgroup: Reg<'k, U32>,
    ) -> WorkspaceIndex<'k> {
        let per_tile = self.evaluator.plan.schedule.tile.warpgroups_per_tile();
        let [row, tile] = work_tile.index;
        let unit = row.mad(per_tile, warpgroup);
        let [rows, tiles] = self.tiles;
        let segment = work_tile.segment.map(|TilesOfSegment { first, count }| UnitsOfSegment {
            first: first * per_tile,
            count: count * per_tile,
        });
        let (batch, units) = (work_tile.batch.number, rows * per_tile);
        WorkspaceIndex { batch, unit, units, tile, tiles, segment }
    }

    /// The index of a batch, or of the first of all batches: partial results of the others follow it.
    pub(super) fn first_of(
        &self,
        scope: ReductionScope,
        index: WorkspaceIndex<'k>,
    ) -> WorkspaceIndex<'k> {
        match scope.batches {
            Batches::Each => index,
            Batches::All => {
                let zero = self.evaluator.k.imm(0);
                let all = UnitsOfSegment { first: zero, count: index.units };
                WorkspaceIndex { batch: zero, segment: index.segment.map(|_| all), ..index }
            }
        }
    }

    /// How many partial results a reduction has of one result.
    pub(super) fn count(&self, reduction: Reduction, index: WorkspaceIndex<'k>) -> Reg<'k, U32> {
        match reduction.source {
            // Of each batch one along rows, which the first tile knows.
            Source::Rows if reduction.scope.kind == Kind::AlongRows => {
                self.evaluator.parameters.batches
            }
            Source::Elements | Source::Rows => self.tiles_of(reduction.scope, index),
            Source::Finished(from) => self.blocks_of(from, reduction.scope, index),
        }
    }

    /// How many warpgroups write partial results of this scope: of tiles, or of warpgroups that accumulate across tiles.
    pub(super) fn tiles_of(
        &self,
        scope: ReductionScope,
        index: WorkspaceIndex<'k>,
    ) -> Reg<'k, U32> {
        let units = match scope.batches {
            Batches::Each => index.own_units(),
            Batches::All => index.units,
        };
        let found = match (scope.kind, &self.workers) {
            (Kind::AlongRows, _) => index.tiles,
            (Kind::AlongColumns, _) => units,
            (Kind::Scalar | Kind::Tile, Some(workers)) => workers.count(),
            (Kind::Scalar | Kind::Tile, None) => units * index.tiles,
        };
        match scope.batches {
            // Units are numbered through all segments.
            Batches::All if index.segment.is_none() => found * self.evaluator.parameters.batches,
            Batches::Each | Batches::All => found,
        }
    }

    /// How many finished blocks one result of this scope is computed from.
    pub(super) fn blocks_of(
        &self,
        from: ReductionScope,
        scope: ReductionScope,
        index: WorkspaceIndex<'k>,
    ) -> Reg<'k, U32> {
        let batches = self.evaluator.parameters.batches;
        let blocks = match from.kind {
            // One of each batch.
            _ if from.kind == scope.kind => return batches,
            Kind::AlongRows => index.own_units(),
            Kind::AlongColumns | Kind::Scalar | Kind::Tile => index.tiles,
        };
        if from.batches == scope.batches { blocks } else { blocks * batches }
    }

    /// Rows or columns of a block that one warpgroup finishes.
    pub(super) fn block_length(&self, kind: Kind) -> u32 {
        let schedule = self.evaluator.plan.schedule;
        match kind {
            Kind::AlongRows => schedule.tile.blocks() * SLOT_ROWS,
            Kind::AlongColumns => schedule.width(),
            Kind::Scalar | Kind::Tile => 1,
        }
    }

    /// How many bytes are from each partial result of one result to the next.
    pub(super) fn apart(&self, kind: Kind, index: WorkspaceIndex<'k>) -> Reg<'k, U64> {
        match kind {
            Kind::AlongRows | Kind::AlongColumns => self.line(kind, index) * 4_u64,
            Kind::Scalar | Kind::Tile => self.evaluator.k.imm(4),
        }
    }

    /// All rows or columns of the grid's tiles.
    fn line(&self, kind: Kind, index: WorkspaceIndex<'k>) -> Reg<'k, U64> {
        if kind == Kind::AlongRows && self.evaluator.plan.schedule.tile.folds_strips() {
            return self.evaluator.k.widen(self.evaluator.parameters.rows);
        }
        let blocks = if kind == Kind::AlongRows { index.units } else { index.tiles };
        self.evaluator.k.widen(blocks * self.block_length(kind))
    }

    /// A counter.
    pub(super) fn counter(&self, number: Reg<'k, U32>) -> GlobalPointer<'k> {
        self.address(0, self.evaluator.k.widen(number))
    }

    /// A word of a partial result: that of this number among those of one result, which of a row is the tile's number
    /// along columns, and of a column the warpgroup's along rows.
    pub(super) fn part(
        &self,
        index: WorkspaceIndex<'k>,
        word: u32,
        number: Reg<'k, U32>,
        of: ResultOf<'k>,
    ) -> GlobalPointer<'k> {
        let k = self.evaluator.k;
        if let Some(segment) = index.segment {
            return self.part_of_segment((index, segment), word, number, of);
        }
        let plane = k.widen(self.evaluator.parameters.batches * word + index.batch);
        match of {
            ResultOf::Row(row) => {
                let number = plane * k.widen(index.tiles) + k.widen(number);
                self.address(1, number * self.line(Kind::AlongRows, index) + k.widen(row))
            }
            ResultOf::Column(column) => {
                let number = plane * k.widen(index.units) + k.widen(number);
                self.address(2, number * self.line(Kind::AlongColumns, index) + k.widen(column))
            }
            ResultOf::Scalar => {
                let plane = plane * k.widen(index.units) * k.widen(index.tiles);
                self.address(3, plane + k.widen(number))
            }
        }
    }

    /// The same where rows are cut into segments: the partial results of a segment lie behind those of the one before.
    fn part_of_segment(
        &self,
        (index, segment): (WorkspaceIndex<'k>, UnitsOfSegment<'k>),
        word: u32,
        number: Reg<'k, U32>,
        of: ResultOf<'k>,
    ) -> GlobalPointer<'k> {
        let k = self.evaluator.k;
        let before = k.widen(index.units) * u64::from(word) + k.widen(segment.first);
        match of {
            ResultOf::Row(_) => panic!("compiler bug: a reduction along rows that are segmented"),
            ResultOf::Column(column) => {
                let line = self.line(Kind::AlongColumns, index);
                self.address(2, (before + k.widen(number)) * line + k.widen(column))
            }
            ResultOf::Scalar => self.address(3, before * k.widen(index.tiles) + k.widen(number)),
        }
    }

    fn address(&self, which: usize, word: Reg<'k, U64>) -> GlobalPointer<'k> {
        let Some(workspace) = &self.evaluator.parameters.workspace else {
            panic!("compiler bug: reductions without a workspace")
        };
        workspace[which].load() + word * 4_u64
    }

    /// The partial result that a tile writes: the identity where the first batch's tile writes the same.
    pub(super) fn once(
        &self,
        reduction: Reduction,
        index: WorkspaceIndex<'k>,
        state: State<'k>,
    ) -> State<'k> {
        if !reduction.repeated {
            return state;
        }
        let (first, nothing) = (index.batch.eq(0), self.evaluator.fold_begin(reduction));
        state.iter().zip(nothing).map(|(word, nothing)| word.select(nothing, first)).collect()
    }

    /// Writes the partial result of this number.
    pub(super) fn write(
        &self,
        (word, reduction): Numbered,
        index: WorkspaceIndex<'k>,
        (number, of): (Reg<'k, U32>, ResultOf<'k>),
        state: &State<'k>,
    ) {
        self.store(reduction, state, |each| self.part(index, word + each, number, of));
    }

    /// Stores a partial result, each word to its address: never zero, which says that it is not written.
    pub(super) fn store(
        &self,
        reduction: Reduction,
        state: &State<'k>,
        to: impl Fn(u32) -> GlobalPointer<'k>,
    ) {
        let k = self.evaluator.k;
        let bits = |place: usize| k.f32_to_bits(state[place]).cast::<U32>();
        for each in 0..reduction.words() {
            let to = to(each);
            // No index has all bits set.
            let word = match each {
                0 if reduction.is_integer() => (bits(0) & 0xffff) | THERE,
                1 if reduction.is_integer() => (bits(0) >> 16) | THERE,
                2.. if reduction.is_integer() => bits(each as usize - 1) ^ u32::MAX,
                _ => self.written(state[each as usize]),
            };
            k.store_ordered(Order::Relaxed, Scope::Gpu, to, word);
        }
    }

    /// A word as it is written: never zero.
    pub(super) fn written(&self, word: Reg<'k, F32>) -> Reg<'k, U32> {
        (self.evaluator.k.f32_to_bits(word).cast::<U32>() ^ u32::MAX).max(1)
    }

    /// Reads partial results of one result, and combines them in order.
    pub(super) fn gather(
        &self,
        (word, reduction): Numbered,
        index: WorkspaceIndex<'k>,
        of: ResultOf<'k>,
        parts: Parts<'k>,
    ) -> State<'k> {
        let (k, Parts { count, apart, first, step }) = (self.evaluator.k, parts);
        let nothing = self.evaluator.fold_begin(reduction);
        let total = Partial::new(k, &nothing);
        let hop = apart * u64::from(step);
        let at_once = self.in_flight(reduction);
        let start = k.widen(first) * apart;
        let at = |each: u32| self.part(index, word + each, k.imm(0), of) + start;
        // The words of a partial result lie equally far apart: of many only the first has a pointer of its own.
        let (count_own, plane) = match reduction.words() {
            words @ 0..=FEW_WORDS => (words, None),
            _ => (1, Some(at(1).register() - at(0).register())),
        };
        let next: Vec<Var<'k, U64>> =
            (0..count_own).map(|each| k.var(at(each).register())).collect();
        k.for_(first, count, step * at_once, |number| {
            let mut words: Vec<GlobalPointer<'k>> =
                next.iter().map(|next| GlobalPointer::from_register(next.copy())).collect();
            let place = |turn: u32| {
                let here = match plane {
                    // Multiples of the distance would be registers of a loop that has few to spare.
                    Some(plane) if reduction.bounded().is_some() => {
                        let all = successors(Some(words[0]), |word| Some(*word + plane));
                        all.take(reduction.words() as usize).collect()
                    }
                    Some(plane) => (0..reduction.words())
                        .map(|each| words[0] + plane * u64::from(each))
                        .collect(),
                    None => words.clone(),
                };
                for word in &mut words {
                    *word = *word + hop;
                }
                ((number + turn * step).lt(count), here)
            };
            let places: Vec<_> = (0..at_once).map(place).collect();
            next.iter().zip(&words).for_each(|(next, word)| next.set(word.register()));
            let found = if reduction.bounded().is_some() || self.has_many_in_flight(reduction) {
                let found = self.poll(&places);
                self.clear(&places);
                found
            } else {
                self.collect(&places)
            };
            let found = found.into_iter().map(|words| self.read(reduction, &words));
            let found: Vec<State<'k>> = found.collect();
            let one = |((counts, _), state): (&(Reg<'k, Pred>, _), State<'k>)| {
                let words = state.into_iter().zip(&nothing);
                words.map(|(word, nothing)| word.select(*nothing, *counts)).collect::<State<'k>>()
            };
            let some: Vec<State<'k>> = places.iter().zip(found).map(one).collect();
            let both = |all, one| self.evaluator.fold_both(reduction, &all, one);
            total.set(some.iter().fold(total.state(), both));
        });
        total.state()
    }

    /// Partial results whose loads are in flight at a time.
    fn in_flight(&self, reduction: Reduction) -> u32 {
        let words = match reduction.how {
            How::Pick(_) => return 1,
            // Their places differ by constants, which take no registers.
            How::Fold(_) if reduction.scope.kind == Kind::Scalar && self.finishes_later => {
                SCALARS_IN_FLIGHT
            }
            // Behind a tile no accumulators are live.
            How::Fold(Fold::Top(_)) if self.finishes_later => RANKED_IN_FLIGHT,
            How::Fold(_) if self.has_many_in_flight(reduction) => RESCALED_IN_FLIGHT,
            How::Fold(_) => self.words_in_flight(),
        };
        (words / reduction.words()).max(1)
    }

    /// Whether a row's partial results are sums of exponentials that are read where no accumulators are live: a vocabulary
    /// has a thousand of them in each row.
    fn has_many_in_flight(&self, reduction: Reduction) -> bool {
        let along_rows = reduction.scope.kind == Kind::AlongRows;
        along_rows && reduction.rescales() && self.words_in_flight() == MOST_IN_FLIGHT
    }

    /// Words whose loads are in flight at a time: latency is long, and many are worth having in flight.
    fn words_in_flight(&self) -> u32 {
        let schedule = self.evaluator.plan.schedule;
        let [_, registers] = schedule.tile.registers(&schedule.needs);
        match registers.saturating_sub(schedule.tile.accumulators()) {
            free if free < MANY_REGISTERS => 4,
            _ if self.finishes_later && schedule.epilogue_loop => MOST_IN_FLIGHT,
            _ => 8,
        }
    }

    /// The words that count, once they are written, in the registers that are polled; others are 1.
    ///
    /// A register that is first written under a guard is live in the whole loop over tiles, as ptxas sees it.
    pub(super) fn poll(&self, places: &[Written<'k>]) -> Vec<Vec<Reg<'k, U32>>> {
        let k = self.evaluator.k;
        let found: Vec<Vec<Var<'k, U32>>> =
            places.iter().map(|(_, words)| words.iter().map(|_| k.var(1)).collect()).collect();
        k.do_while(|| {
            for ((counts, words), found) in places.iter().zip(&found) {
                for (from, found) in words.iter().zip(found) {
                    let (order, scope) = (Order::Relaxed, Scope::Gpu);
                    k.when(*counts, || k.load_ordered_into(order, scope, *found, *from));
                }
            }
            let least = found.iter().flatten().map(|word| word.get()).reduce(Reg::min);
            least.map_or(k.imm(false), |least| least.eq(0))
        });
        found.iter().map(|words| words.iter().map(|word| word.get()).collect()).collect()
    }

    /// Zeroes words that count for the next launch.
    pub(super) fn clear(&self, places: &[Written<'k>]) {
        let k = self.evaluator.k;
        let zero = k.imm::<U32>(0);
        for (counts, words) in places {
            let clear = |to: &GlobalPointer<'k>| {
                k.store_ordered(Order::Relaxed, Scope::Gpu, *to, zero);
            };
            k.when(*counts, || words.iter().for_each(clear));
        }
    }

    /// The words of the partial results that count: polls until they are written, and zeroes them for the next launch.
    fn collect(&self, places: &[Written<'k>]) -> Vec<Vec<Reg<'k, U32>>> {
        let k = self.evaluator.k;
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

    /// The partial result that words encode. Of all NaN one is read as another; integers keep all their bits.
    fn read(&self, reduction: Reduction, words: &[Reg<'k, U32>]) -> State<'k> {
        let k = self.evaluator.k;
        let read = |word: &Reg<'k, U32>| self.read_word(*word);
        if reduction.is_integer() {
            let bits = (words[0] & 0xffff) | (words[1] << 16);
            let first = k.bits_to_f32(bits.cast::<B32>());
            return std::iter::once(first).chain(words[2..].iter().map(read)).collect();
        }
        words.iter().map(read).collect()
    }

    /// The word that was written.
    pub(super) fn read_word(&self, word: Reg<'k, U32>) -> Reg<'k, F32> {
        self.evaluator.k.bits_to_f32((word ^ u32::MAX).cast::<B32>())
    }
}
