//! Reductions of a tile: each warpgroup folds its part, and leaves a partial result in the workspace.
//!
//! Along rows a thread folds its two rows of a block, then four lanes meet. Along columns eight lanes meet and share a
//! thread's columns, then the four warps meet in shared memory. A scalar is folded by the thread, the warp, the warps.
//! The order is that of the places, whatever the time.

use postlude_ptx::kernel::{GlobalPointer, Kernel, Reg, SharedAddress};
use postlude_ptx::target::Sm90a;
use postlude_ptx::types::{F32, U32, U64};

use crate::graph::{Kind, NodeId};
use crate::plan::sm90::{Batches, Folded, SLOT_ROWS, Source, folds_of};

use super::super::Plan;
use super::super::parameters::Parameters;
use super::super::tile_scheduler::{TileScheduler, WorkTile};
use super::super::values::{Evaluator, Known, State};
use super::super::warpgroup::WarpgroupIndex;
use super::Spot;
use super::finishing::of_known;
use super::groups;
use super::kept::Kept;
use super::tally::{
    Carried, Deferred, RowTally, Running, Share, Tallies, Tally, Terms, Turn, numbered,
};

/// Warps of a warpgroup.
pub(super) const WARPS: u32 = 4;
/// Lanes of a warp that have rows of the same columns.
const SHARING_LANES: usize = 8;

pub(super) struct Folding<'a, 'k> {
    pub(super) k: Kernel<'k, Sm90a>,
    pub(super) plan: &'a Plan<'a>,
    pub(super) parameters: &'a Parameters<'k>,
    pub(super) rows: Vec<Folded>,
    pub(super) columns: Vec<Folded>,
    pub(super) scalars: Vec<Folded>,
    pub(super) warpgroup: WarpgroupIndex<'k>,
    /// This thread in its warpgroup.
    pub(super) rank: Reg<'k, U32>,
    /// Its first column of an 8-column group.
    column: Reg<'k, U32>,
    /// Tiles along rows and along columns.
    tiles: [Reg<'k, U32>; 2],
    /// What this warpgroup has of shared memory.
    shared: SharedAddress<'k>,
    /// The arrival of the tile before, where it can wait.
    pub(super) deferred: Option<Deferred<'k>>,
    /// Scalars of more than a tile, where there is nothing else.
    pub(super) kept: Option<Kept<'k>>,
}

impl<'a, 'k> Folding<'a, 'k> {
    /// If the graph has reductions.
    pub(super) fn new(
        k: Kernel<'k, Sm90a>,
        plan: &'a Plan<'a>,
        parameters: &'a Parameters<'k>,
        scheduler: &TileScheduler<'k>,
        warpgroup: WarpgroupIndex<'k>,
        rank: Reg<'k, U32>,
    ) -> Option<Self> {
        let words = plan.schedule.needs.folds;
        let bytes = words.shared_bytes(plan.schedule.width());
        let of = |kind| folds_of(plan.graph, kind).collect();
        let mut folding = words.any().then(|| Folding {
            k,
            plan,
            parameters,
            rows: of(Kind::AlongRows),
            columns: of(Kind::AlongColumns),
            scalars: of(Kind::Scalar),
            warpgroup,
            rank,
            column: (rank & 3) * 2,
            tiles: scheduler.tiles(),
            shared: k.region(&plan.folds) + warpgroup.in_cta * bytes,
            deferred: None,
            kept: None,
        })?;
        let all = folding.finished().any(|home| home.batches == Batches::All);
        folding.deferred = (!folding.goes_further()).then(|| Deferred::new(k, all));
        if folding.deferred.is_some()
            && Kept::takes(&folding.rows, &folding.columns, &folding.scalars)
        {
            let evaluator = Evaluator { k, plan, parameters };
            let tile = plan.schedule.tile;
            folding.kept =
                Some(Kept::new(&evaluator, &folding.scalars, scheduler, warpgroup, tile));
        }
        Some(folding)
    }

    /// The share of the first tile of all.
    pub(super) fn grid(&self) -> Share<'k> {
        let (zero, [rows, tiles]) = (self.k.imm(0), self.tiles);
        let units = rows * self.plan.schedule.tile.warpgroups_per_tile();
        Share { batch: zero, unit: zero, units, tile: zero, tiles }
    }

    /// What is to be folded of every element.
    pub(super) fn terms(&self) -> impl Iterator<Item = NodeId> {
        let all = self.rows.iter().chain(&self.columns).chain(&self.scalars);
        all.filter(|folded| folded.is_of_elements()).map(|folded| folded.terms)
    }

    /// The scalars of which a tile has partial results, each with its first word and its place among all.
    pub(super) fn of_tiles(&self) -> impl Iterator<Item = (usize, (u32, Folded))> {
        let of_tile = |folded: &Folded| matches!(folded.source, Source::Elements | Source::Rows);
        numbered(&self.scalars).enumerate().filter(move |(_, (_, folded))| of_tile(folded))
    }

    pub(super) fn share(&self, work_tile: &WorkTile<'k>) -> Share<'k> {
        let per_tile = self.plan.schedule.tile.warpgroups_per_tile();
        let [row, tile] = work_tile.index;
        let unit = row.mad(per_tile, self.warpgroup.in_tile);
        let [rows, tiles] = self.tiles;
        Share { batch: work_tile.batch, unit, units: rows * per_tile, tile, tiles }
    }

    pub(super) fn begin(&self, evaluator: &Evaluator<'_, 'k>) -> Tally<'k> {
        Tally(self.scalars.iter().map(|one| Running::begin(evaluator, *one)).collect())
    }

    pub(super) fn begin_block(&self, evaluator: &Evaluator<'_, 'k>) -> RowTally<'k> {
        let nothing = || self.rows.iter().map(|one| Running::begin(evaluator, *one)).collect();
        RowTally([nothing(), nothing()])
    }

    /// Folds some groups of 8 columns of a block, the first of which begins in this column of the tile.
    pub(super) fn visit(
        &self,
        evaluator: &Evaluator<'_, 'k>,
        spot: &Spot<'k>,
        first: u32,
        (known, chunks): (&[Known<'k>; 2], &[Terms<'k>]),
        tallies: Tallies<'_, 'k>,
        (turn, carried): (Turn, &mut Carried<'k>),
    ) {
        let k = self.k;
        for (word, folded) in numbered(&self.rows).filter(|(_, folded)| folded.is_pick()) {
            self.pick(evaluator, spot, first, known, (word, folded), chunks, tallies.share);
        }
        let columns: Vec<(u32, Folded, Vec<Running<'k>>, bool)> = numbered(&self.columns)
            .filter(|(_, folded)| folded.is_of_elements())
            .map(|(word, folded)| {
                if let Some(before) = carried.0.remove(&(first, word)) {
                    (word, folded, before, true)
                } else {
                    let unset = |_| Running::unset(k, folded.registers());
                    (word, folded, (0..2 * chunks.len()).map(unset).collect(), false)
                }
            })
            .collect();
        let fold = |whole: bool| {
            let values = |folded| self.values(evaluator, (spot, whole), first, folded, chunks);
            let rows = self.rows.iter().enumerate();
            for (place, folded) in rows.filter(|(_, folded)| folded.is_of_elements()) {
                if folded.is_pick() {
                    continue;
                }
                let values = values(*folded);
                for (row, states) in tallies.rows.0.iter().enumerate() {
                    let own = values.iter().flat_map(|four| [four[2 * row], four[2 * row + 1]]);
                    states[place].more(evaluator, *folded, &own.collect::<Vec<_>>());
                }
            }
            let scalars = tallies.tally.0.iter().zip(&self.scalars);
            for (state, folded) in scalars.filter(|(_, folded)| folded.is_of_elements()) {
                state.more(evaluator, *folded, &values(*folded).concat());
            }
            for (_, folded, states, begun) in &columns {
                let rows = |four: &[Reg<'k, F32>; 4]| [[four[0], four[2]], [four[1], four[3]]];
                for (state, rows) in states.iter().zip(values(*folded).iter().flat_map(rows)) {
                    if *begun {
                        state.more(evaluator, *folded, &rows);
                    } else {
                        state.set(evaluator.fold_some(*folded, &rows));
                    }
                }
            }
        };
        match spot.whole {
            Some(whole) => k.if_else(whole, || fold(true), || fold(false)),
            None => fold(false),
        }
        for (word, folded, states, _) in columns {
            if turn == Turn::Carries {
                carried.0.insert((first, word), states);
            } else {
                self.end_columns(evaluator, folded, (word, first, turn), spot.before, &states);
            }
        }
    }

    /// The columns of some groups are complete, as far as this warpgroup's rows go.
    fn end_columns(
        &self,
        evaluator: &Evaluator<'_, 'k>,
        folded: Folded,
        (word, first, turn): (u32, u32, Turn),
        before: Option<Reg<'k, U32>>,
        states: &[Running<'k>],
    ) {
        // Sharing takes registers for every word, and eight lanes share as many columns.
        let together = if folded.registers() == 1 { states.len().min(SHARING_LANES) } else { 1 };
        for (place, states) in (0..).step_by(together).zip(states.chunks(together)) {
            let place = (word, first + 8 * (place / 2) + place % 2, turn);
            let states = states.iter().map(Running::state).collect();
            self.fold_columns(evaluator, folded, place, before, states);
        }
    }

    /// Leaves what is picked, where some groups have it: hardly any tile does. There is one word for a row, whatever the
    /// number of tiles.
    #[allow(clippy::too_many_arguments)] // All of them say which elements there are.
    fn pick(
        &self,
        evaluator: &Evaluator<'_, 'k>,
        spot: &Spot<'k>,
        first: u32,
        known: &[Known<'k>; 2],
        (word, folded): (u32, Folded),
        chunks: &[Terms<'k>],
        share: Share<'k>,
    ) {
        let k = self.k;
        let values = self.values(evaluator, (spot, true), first, folded, chunks);
        assert!(self.plan.runs[folded.terms.index()] == 1, "compiler bug: a pick of a run");
        for (row, known) in known.iter().enumerate() {
            let picked = Evaluator::picked(folded, known);
            let from = picked - (spot.column + first);
            let exists = picked.lt(self.parameters.columns) & spot.inside_rows[row];
            let exists = if folded.repeated { exists & share.batch.eq(0) } else { exists };
            k.if_(from.lt(8 * chunks.len() as u32) & exists, || {
                let to = self.row_part(share, word, k.imm(0), spot.rows[row]);
                for (group, four) in values.iter().enumerate() {
                    for column in 0..2 {
                        let value = four[2 * row + column];
                        let here = from.eq((8 * group + column) as u32);
                        k.if_(here, || self.leave(folded, &vec![value], |_| to));
                    }
                }
            });
        }
    }

    /// Folds what is known of a thread's two rows of a block: once, though four lanes and every tile beside know it.
    pub(super) fn visit_rows(
        &self,
        evaluator: &Evaluator<'_, 'k>,
        spot: &Spot<'k>,
        share: Share<'k>,
        known: &[Known<'k>; 2],
        tally: &Tally<'k>,
    ) {
        let first = || (self.rank & 3).eq(0) & share.tile.eq(0);
        let scalars = tally.0.iter().zip(&self.scalars);
        for (state, folded) in scalars.filter(|(_, folded)| folded.source == Source::Rows) {
            let nothing = evaluator.fold_nothing(*folded);
            let first = first();
            let own = [0, 1].map(|row| {
                let value = of_known(evaluator, &known[row], *folded);
                value.select(nothing, first & spot.inside_rows[row])
            });
            state.more(evaluator, *folded, &own);
        }
        let rows = numbered(&self.rows).filter(|(_, folded)| folded.source == Source::Rows);
        for (word, folded) in rows {
            let of_all = self.share_of(folded.home, share);
            self.k.if_(first(), || {
                for (row, known) in spot.rows.iter().zip(known) {
                    let state = evaluator.fold_some(folded, &[of_known(evaluator, known, folded)]);
                    let to = |each| self.row_part(of_all, word + each, share.batch, *row);
                    self.leave(folded, &state, to);
                }
            });
        }
    }

    /// A reduction's values, those outside the problem replaced by nothing.
    fn values(
        &self,
        evaluator: &Evaluator<'_, 'k>,
        (spot, whole): (&Spot<'k>, bool),
        first: u32,
        folded: Folded,
        chunks: &[Terms<'k>],
    ) -> Vec<[Reg<'k, F32>; 4]> {
        let (nothing, run) = (evaluator.fold_nothing(folded), self.plan.runs[folded.terms.index()]);
        let group = |(group, terms): (usize, &Terms<'k>)| {
            let found = terms.iter().find(|(node, _)| *node == folded.terms);
            let Some((_, four)) = found else { panic!("compiler bug: a reduction of nothing") };
            let mut four = four.map(|value| evaluator.fold_term(value));
            for (element, value) in four.iter_mut().enumerate() {
                let offset = first + 8 * group as u32 + element as u32 % 2;
                let row = spot.inside_rows[element / 2];
                let column = || spot.remaining.gt(offset);
                let inside = match folded.home.kind {
                    _ if whole => None,
                    Kind::AlongRows => Some(column()),
                    Kind::AlongColumns => Some(row),
                    Kind::Scalar | Kind::Tile => Some(row & column()),
                };
                let (chunk, column) = (first + 8 * group as u32, element as u32 % 2);
                let counts = groups::counts(run, self.column, chunk, column).and(inside);
                *value = counts.choose(*value, nothing);
            }
            four
        };
        chunks.iter().enumerate().map(group).collect()
    }

    /// A column, or those of some groups of 8, each by the thread's own rows: the rows of a warp meet, and join those of
    /// the blocks before.
    ///
    /// Eight lanes have rows of the same columns. Each two that meet share the columns between them, so that each next
    /// meeting is about half as many.
    fn fold_columns(
        &self,
        evaluator: &Evaluator<'_, 'k>,
        folded: Folded,
        (word, first, turn): (u32, u32, Turn),
        before: Option<Reg<'k, U32>>,
        mut states: Vec<State<'k>>,
    ) {
        let (k, lane) = (self.k, self.rank & 31);
        let within = self.column + first;
        let mut within = before.map_or(within, |before| within + before);
        let mut rest = Vec::new();
        for bit in [4, 8, 16] {
            let half = states.len() / 2;
            if half == 0 {
                rest.push(bit);
                continue;
            }
            // Neighbours are one column apart, groups eight.
            let apart = if half == 1 { 1 } else { 4 * half as u32 };
            let second = (lane & bit).ne(0);
            within = within + k.imm(apart).select(0, second);
            let (low, high) = states.split_at(half);
            let share = |(low, high): (&State<'k>, &State<'k>)| {
                evaluator.fold_exchanged(folded, [low, high], second, bit)
            };
            states = low.iter().zip(high).map(share).collect();
        }
        let state = evaluator.fold_lanes(folded, states.remove(0), &rest);
        let place = |word: u32| self.column_place(word, self.rank >> 5, within);
        k.if_((lane & rest.iter().sum::<u32>()).eq(0), || {
            let state = if turn == Turn::Joins {
                let before = (0..folded.registers())
                    .map(|each| k.load_shared::<F32, 1>(place(word + each))[0])
                    .collect();
                evaluator.fold_both(folded, &before, &state)
            } else {
                state
            };
            for (each, value) in (0..).zip(state) {
                k.store_shared(place(word + each), [value]);
            }
        });
    }

    /// The rows of a block are complete, as far as this tile goes.
    pub(super) fn end_block(
        &self,
        evaluator: &Evaluator<'_, 'k>,
        spot: &Spot<'k>,
        share: Share<'k>,
        rows: &RowTally<'k>,
    ) {
        let k = self.k;
        let of_elements = |folded: Folded| folded.is_of_elements() && !folded.is_pick();
        let folded = numbered(&self.rows).enumerate();
        for (place, (word, folded)) in folded.filter(|(_, (_, folded))| of_elements(*folded)) {
            for (row, states) in rows.0.iter().enumerate() {
                let state = evaluator.fold_lanes(folded, states[place].state(), &[1, 2]);
                let state = Self::once(evaluator, folded, share, state);
                k.if_((self.rank & 3).eq(0), || {
                    let to = |each| self.row_part(share, word + each, share.tile, spot.rows[row]);
                    self.leave(folded, &state, to);
                });
            }
        }
    }

    /// Columns and scalars of a tile are complete.
    pub(super) fn end_tile(
        &self,
        evaluator: &Evaluator<'_, 'k>,
        work_tile: &WorkTile<'k>,
        share: Share<'k>,
        tally: &Tally<'k>,
    ) {
        if let Some(kept) = &self.kept {
            kept.add(evaluator, work_tile, tally);
            return self.k.if_(kept.complete.get(), || {
                let tally = kept.take(evaluator);
                self.leave_scalars(evaluator, share, kept.place(work_tile), &tally);
            });
        }
        if self.columns.is_empty() && self.of_tiles().next().is_none() {
            return;
        }
        let k = self.k;
        let place = share.tile.mad(share.units, share.unit);
        self.leave_scalars(evaluator, share, place, tally);
        let columns = self.plan.schedule.width();
        k.for_(self.rank, columns, 128, |within| {
            let of_elements = |(_, folded): &(u32, Folded)| folded.is_of_elements();
            for (word, folded) in numbered(&self.columns).filter(of_elements) {
                let warps = (0..WARPS).map(|warp| {
                    (0..folded.registers())
                        .map(|each| {
                            let from = self.column_place(word + each, k.imm(warp), within);
                            k.load_shared::<F32, 1>(from)[0]
                        })
                        .collect::<State<'k>>()
                });
                let state = Self::in_order(evaluator, folded, warps);
                let state = Self::once(evaluator, folded, share, state);
                self.leave(folded, &state, |each| {
                    self.column_part(share, word + each, share.unit, work_tile.column + within)
                });
            }
        });
    }

    /// Leaves what a warpgroup has of scalars as the partial results of this number.
    fn leave_scalars(
        &self,
        evaluator: &Evaluator<'_, 'k>,
        share: Share<'k>,
        place: Reg<'k, U32>,
        tally: &Tally<'k>,
    ) {
        for (number, (word, folded)) in self.of_tiles() {
            self.keep_scalar(evaluator, folded, word, tally.0[number].state());
        }
        self.sync();
        self.k.if_(self.rank.eq(0), || {
            for (_, (word, folded)) in self.of_tiles() {
                self.leave_scalar(evaluator, (word, folded), share, place);
            }
        });
    }

    /// Leaves what the four warps kept as the partial result of this number.
    pub(super) fn leave_scalar(
        &self,
        evaluator: &Evaluator<'_, 'k>,
        (word, folded): (u32, Folded),
        share: Share<'k>,
        place: Reg<'k, U32>,
    ) {
        let state = self.kept_scalar(evaluator, folded, word);
        let state = Self::once(evaluator, folded, share, state);
        self.leave(folded, &state, |each| self.scalar_part(share, word + each, place));
    }

    /// What a tile leaves: nothing where the first batch's tile leaves the same.
    fn once(
        evaluator: &Evaluator<'_, 'k>,
        folded: Folded,
        share: Share<'k>,
        state: State<'k>,
    ) -> State<'k> {
        if !folded.repeated {
            return state;
        }
        let (first, nothing) = (share.batch.eq(0), evaluator.fold_begin(folded));
        state.iter().zip(nothing).map(|(word, nothing)| word.select(nothing, first)).collect()
    }

    fn in_order(
        evaluator: &Evaluator<'_, 'k>,
        folded: Folded,
        states: impl Iterator<Item = State<'k>>,
    ) -> State<'k> {
        let both = |first, second| evaluator.fold_both(folded, &first, &second);
        states.reduce(both).unwrap_or_else(|| evaluator.fold_begin(folded))
    }

    /// A warp's scalar for the others to see.
    pub(super) fn keep_scalar(
        &self,
        evaluator: &Evaluator<'_, 'k>,
        folded: Folded,
        word: u32,
        state: State<'k>,
    ) {
        let state = evaluator.fold_lanes(folded, state, &[1, 2, 4, 8, 16]);
        self.k.if_((self.rank & 31).eq(0), || {
            for (each, value) in (0..).zip(state) {
                let to = self.scalar_place(word + each, self.rank >> 5);
                self.k.store_shared(to, [value]);
            }
        });
    }

    /// What the four warps kept.
    pub(super) fn kept_scalar(
        &self,
        evaluator: &Evaluator<'_, 'k>,
        folded: Folded,
        word: u32,
    ) -> State<'k> {
        let k = self.k;
        let warps = (0..WARPS).map(|warp| {
            (0..folded.registers())
                .map(|each| k.load_shared::<F32, 1>(self.scalar_place(word + each, k.imm(warp)))[0])
                .collect::<State<'k>>()
        });
        Self::in_order(evaluator, folded, warps)
    }

    /// The warpgroup meets.
    pub(super) fn sync(&self) {
        self.k.sync_named(self.warpgroup.barrier(), 128);
    }

    fn column_place(
        &self,
        word: u32,
        warp: Reg<'k, U32>,
        within: Reg<'k, U32>,
    ) -> SharedAddress<'k> {
        let columns = self.plan.schedule.width();
        let row = warp + word * WARPS;
        self.shared + row.mad(columns, within) * 4
    }

    fn scalar_place(&self, word: u32, warp: Reg<'k, U32>) -> SharedAddress<'k> {
        let behind = self.plan.schedule.needs.folds.columns * self.plan.schedule.width();
        self.shared + (warp + (word + behind) * WARPS) * 4
    }

    /// Where it is said whether this warpgroup was the last.
    pub(super) fn flag_place(&self, number: u32) -> SharedAddress<'k> {
        let words = self.plan.schedule.needs.folds;
        let behind = words.columns * self.plan.schedule.width() + words.scalars;
        self.shared + (16 * behind + 4 * number)
    }

    /// A partial result of a row, from the tile of this number along columns.
    pub(super) fn row_part(
        &self,
        share: Share<'k>,
        word: u32,
        tile: Reg<'k, U32>,
        row: Reg<'k, U32>,
    ) -> GlobalPointer<'k> {
        let (k, unit_rows) = (self.k, self.plan.schedule.tile.blocks() * SLOT_ROWS);
        let line = self.plane(share, word) * k.widen(share.tiles) + k.widen(tile);
        self.part(1, line * k.widen(share.units * unit_rows) + k.widen(row))
    }

    /// A partial result of a column, from the part of a tile of this number along rows.
    pub(super) fn column_part(
        &self,
        share: Share<'k>,
        word: u32,
        unit: Reg<'k, U32>,
        column: Reg<'k, U32>,
    ) -> GlobalPointer<'k> {
        let (k, width) = (self.k, self.plan.schedule.width());
        let line = self.plane(share, word) * k.widen(share.units) + k.widen(unit);
        self.part(2, line * k.widen(share.tiles * width) + k.widen(column))
    }

    /// A partial scalar, by its number.
    pub(super) fn scalar_part(
        &self,
        share: Share<'k>,
        word: u32,
        place: Reg<'k, U32>,
    ) -> GlobalPointer<'k> {
        let k = self.k;
        let plane = self.plane(share, word) * k.widen(share.units) * k.widen(share.tiles);
        self.part(3, plane + k.widen(place))
    }

    fn plane(&self, share: Share<'k>, word: u32) -> Reg<'k, U64> {
        self.k.widen(self.parameters.batches * word + share.batch)
    }

    pub(super) fn part(&self, which: usize, place: Reg<'k, U64>) -> GlobalPointer<'k> {
        let Some(workspace) = &self.parameters.workspace else {
            panic!("compiler bug: reductions without a workspace")
        };
        workspace[which].load() + place * 4_u64
    }
}
