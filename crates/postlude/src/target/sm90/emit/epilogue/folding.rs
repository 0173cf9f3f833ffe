//! Reductions of a tile: each warpgroup folds its part, and writes a partial result to the workspace.
//!
//! Along rows a thread folds its two rows of a block, then four lanes combine theirs. Along columns eight lanes combine
//! theirs, each some of the columns, then the four warps through shared memory. A scalar is folded by the thread, the
//! warp, the four warps. The order is fixed by position and does not depend on timing.

use postlude_ptx::kernel::{Kernel, Reg, SharedAddress};
use postlude_ptx::types::{F32, U32};

use crate::graph::{Kind, NodeId};
use crate::lower::{Batches, Reduction, Source};

use super::super::chip::EpilogueChip;
use super::super::fragment::Fragment;
use super::super::parameters::Parameters;
use super::super::plan::Plan;
use super::super::tile_scheduler::{TileScheduler, WorkTile};
use super::super::values::{Environment, Evaluator, State};
use super::super::warpgroup::WarpgroupIndex;
use super::elements::counts;
use super::partials::{
    ColumnPartials, Deferred, Partial, RowPartials, ScalarPartials, Terms, TilePartials, Turn,
    WorkspaceIndex, numbered,
};
use super::persistent::PersistentAccumulation;
use super::thread::ThreadCoordinate;

/// Warps of a warpgroup.
pub(super) const WARPS: u32 = 4;

pub(super) struct Folding<'a, 'k, C> {
    pub(super) k: Kernel<'k, C>,
    pub(super) plan: &'a Plan<'a>,
    pub(super) parameters: &'a Parameters<'k>,
    pub(super) rows: Vec<Reduction>,
    pub(super) columns: Vec<Reduction>,
    pub(super) scalars: Vec<Reduction>,
    pub(super) warpgroup: WarpgroupIndex<'k>,
    /// This thread in its warpgroup.
    pub(super) rank: Reg<'k, U32>,
    /// Its first column of an 8-column group.
    column: Reg<'k, U32>,
    /// Tiles along rows and along columns.
    tiles: [Reg<'k, U32>; 2],
    /// This warpgroup's shared memory.
    pub(super) shared: SharedAddress<'k>,
    /// The arrival of the tile before, where its answer is looked at later.
    pub(super) deferred: Option<Deferred<'k>>,
    /// Scalars that are accumulated across work tiles, where nothing else is reduced.
    pub(super) persistent: Option<PersistentAccumulation<'k>>,
}

impl<'a, 'k, C: EpilogueChip> Folding<'a, 'k, C> {
    /// If the graph has reductions.
    pub(super) fn new(
        k: Kernel<'k, C>,
        plan: &'a Plan<'a>,
        parameters: &'a Parameters<'k>,
        scheduler: &TileScheduler<'k, C>,
        warpgroup: WarpgroupIndex<'k>,
        rank: Reg<'k, U32>,
    ) -> Option<Self> {
        let words = plan.schedule.needs.folds;
        let bytes = words.shared_bytes(plan.schedule.width());
        let of = |kind| plan.program.reductions_of(kind).collect();
        let mut folding = words.any().then(|| Folding {
            k,
            plan,
            parameters,
            rows: of(Kind::AlongRows),
            columns: of(Kind::AlongColumns),
            scalars: of(Kind::Scalar),
            warpgroup,
            rank,
            column: Fragment::column(rank),
            tiles: scheduler.tiles(),
            shared: k.region(&plan.folds) + warpgroup.in_cta * bytes,
            deferred: None,
            persistent: None,
        })?;
        let all = folding.finished().any(|scope| scope.batches == Batches::All);
        folding.deferred = (!folding.has_second_stage()).then(|| Deferred::new(k, all));
        if folding.deferred.is_some()
            && PersistentAccumulation::takes(&folding.rows, &folding.columns, &folding.scalars)
        {
            let evaluator = Evaluator { k, plan, parameters };
            let tile = plan.schedule.tile;
            folding.persistent = Some(PersistentAccumulation::new(
                &evaluator,
                &folding.scalars,
                scheduler,
                warpgroup,
                tile,
            ));
        }
        Some(folding)
    }

    /// The index of the first tile of all.
    pub(super) fn grid(&self) -> WorkspaceIndex<'k> {
        let (zero, [rows, tiles]) = (self.k.imm(0), self.tiles);
        let units = rows * self.plan.schedule.tile.warpgroups_per_tile();
        WorkspaceIndex { batch: zero, unit: zero, units, tile: zero, tiles }
    }

    /// What is to be folded of every element.
    pub(super) fn terms(&self) -> impl Iterator<Item = NodeId> {
        let all = self.rows.iter().chain(&self.columns).chain(&self.scalars);
        all.filter(|reduction| reduction.is_of_elements()).map(|reduction| reduction.terms)
    }

    /// The scalars of which a tile has partial results, each with its first word and its place among all.
    pub(super) fn of_tiles(&self) -> impl Iterator<Item = (usize, (u32, Reduction))> {
        let of_tile =
            |reduction: &Reduction| matches!(reduction.source, Source::Elements | Source::Rows);
        numbered(&self.scalars).enumerate().filter(move |(_, (_, reduction))| of_tile(reduction))
    }

    pub(super) fn workspace_index(&self, work_tile: &WorkTile<'k>) -> WorkspaceIndex<'k> {
        let per_tile = self.plan.schedule.tile.warpgroups_per_tile();
        let [row, tile] = work_tile.index;
        let unit = row.mad(per_tile, self.warpgroup.in_tile);
        let [rows, tiles] = self.tiles;
        WorkspaceIndex { batch: work_tile.batch, unit, units: rows * per_tile, tile, tiles }
    }

    pub(super) fn begin(&self, evaluator: &Evaluator<'_, 'k, C>) -> ScalarPartials<'k> {
        ScalarPartials(self.scalars.iter().map(|one| Partial::begin(evaluator, *one)).collect())
    }

    pub(super) fn begin_block(&self, evaluator: &Evaluator<'_, 'k, C>) -> RowPartials<'k> {
        let nothing = || self.rows.iter().map(|one| Partial::begin(evaluator, *one)).collect();
        RowPartials([nothing(), nothing()])
    }

    /// Folds some groups of 8 columns of a block, the first of which begins in this column of the tile.
    pub(super) fn visit(
        &self,
        evaluator: &Evaluator<'_, 'k, C>,
        thread: &ThreadCoordinate<'k>,
        first: u32,
        (environment, chunks): (&[Environment<'k>; 2], &[Terms<'k>]),
        tile_partials: TilePartials<'_, 'k>,
        (turn, carried): (Turn, &mut ColumnPartials<'k>),
    ) {
        let k = self.k;
        for (word, reduction) in numbered(&self.rows).filter(|(_, reduction)| reduction.is_pick()) {
            self.pick(
                evaluator,
                thread,
                first,
                environment,
                (word, reduction),
                chunks,
                tile_partials.index,
            );
        }
        let columns: Vec<(u32, Reduction, Vec<Partial<'k>>, bool)> = numbered(&self.columns)
            .filter(|(_, reduction)| reduction.is_of_elements())
            .map(|(word, reduction)| {
                if let Some(before) = carried.0.remove(&(first, word)) {
                    (word, reduction, before, true)
                } else {
                    let unset = |_| Partial::unset(k, reduction.registers());
                    (word, reduction, (0..2 * chunks.len()).map(unset).collect(), false)
                }
            })
            .collect();
        let fold = |whole: bool| {
            let values =
                |reduction| self.values(evaluator, (thread, whole), first, reduction, chunks);
            let rows = self.rows.iter().enumerate();
            for (place, reduction) in rows.filter(|(_, reduction)| reduction.is_of_elements()) {
                if reduction.is_pick() {
                    continue;
                }
                let values = values(*reduction);
                for (row, states) in tile_partials.rows.0.iter().enumerate() {
                    let own = values.iter().flat_map(|four| [four[2 * row], four[2 * row + 1]]);
                    states[place].more(evaluator, *reduction, &own.collect::<Vec<_>>());
                }
            }
            let scalars = tile_partials.partials.0.iter().zip(&self.scalars);
            for (state, reduction) in scalars.filter(|(_, reduction)| reduction.is_of_elements()) {
                state.more(evaluator, *reduction, &values(*reduction).concat());
            }
            for (_, reduction, states, begun) in &columns {
                let rows = |four: &[Reg<'k, F32>; 4]| [[four[0], four[2]], [four[1], four[3]]];
                for (state, rows) in states.iter().zip(values(*reduction).iter().flat_map(rows)) {
                    if *begun {
                        state.more(evaluator, *reduction, &rows);
                    } else {
                        state.set(evaluator.fold_some(*reduction, &rows));
                    }
                }
            }
        };
        match thread.whole {
            Some(whole) => k.if_else(whole, || fold(true), || fold(false)),
            None => fold(false),
        }
        for (word, reduction, states, _) in columns {
            if turn == Turn::Carries {
                carried.0.insert((first, word), states);
            } else {
                self.end_columns(evaluator, reduction, (word, first, turn), thread.before, &states);
            }
        }
    }

    /// The columns of some groups are complete for this warpgroup's rows.
    fn end_columns(
        &self,
        evaluator: &Evaluator<'_, 'k, C>,
        reduction: Reduction,
        (word, first, turn): (u32, u32, Turn),
        before: Option<Reg<'k, U32>>,
        states: &[Partial<'k>],
    ) {
        // An exchange takes registers for every word, and eight lanes exchange at most eight columns.
        let together = if reduction.registers() == 1 {
            states.len().min(Fragment::LANES_OF_COLUMN)
        } else {
            1
        };
        for (place, states) in (0..).step_by(together).zip(states.chunks(together)) {
            let place = (word, first + 8 * (place / 2) + place % 2, turn);
            let states = states.iter().map(Partial::state).collect();
            self.fold_columns(evaluator, reduction, place, before, states);
        }
    }

    /// Writes the picked element, where one of these groups has it: few tiles do. There is one word for a row, whatever
    /// the number of tiles.
    #[allow(clippy::too_many_arguments)] // All of them say which elements there are.
    fn pick(
        &self,
        evaluator: &Evaluator<'_, 'k, C>,
        thread: &ThreadCoordinate<'k>,
        first: u32,
        environment: &[Environment<'k>; 2],
        (word, reduction): (u32, Reduction),
        chunks: &[Terms<'k>],
        index: WorkspaceIndex<'k>,
    ) {
        let k = self.k;
        let values = self.values(evaluator, (thread, true), first, reduction, chunks);
        assert!(
            self.plan.program.runs[reduction.terms.index()] == 1,
            "compiler bug: a pick of a run"
        );
        for (row, environment) in environment.iter().enumerate() {
            let picked = Evaluator::<C>::picked(reduction, environment);
            let from = picked - (thread.column + first);
            let exists = picked.lt(self.parameters.columns) & thread.inside_rows[row];
            let exists = if reduction.repeated { exists & index.batch.eq(0) } else { exists };
            k.if_(from.lt(8 * chunks.len() as u32) & exists, || {
                let to = self.row_part(index, word, k.imm(0), thread.rows[row]);
                for (group, four) in values.iter().enumerate() {
                    for column in 0..2 {
                        let value = four[2 * row + column];
                        let here = from.eq((8 * group + column) as u32);
                        k.if_(here, || self.leave(reduction, &vec![value], |_| to));
                    }
                }
            });
        }
    }

    /// Folds what is known of a thread's two rows of a block: once, though four lanes and every tile beside know it.
    pub(super) fn visit_rows(
        &self,
        evaluator: &Evaluator<'_, 'k, C>,
        thread: &ThreadCoordinate<'k>,
        index: WorkspaceIndex<'k>,
        environment: &[Environment<'k>; 2],
        partials: &ScalarPartials<'k>,
    ) {
        let first = || Fragment::is_first_of_row(self.rank) & index.tile.eq(0);
        let scalars = partials.0.iter().zip(&self.scalars);
        for (state, reduction) in scalars.filter(|(_, reduction)| reduction.source == Source::Rows)
        {
            let nothing = evaluator.fold_nothing(*reduction);
            let first = first();
            let own = [0, 1].map(|row| {
                let value = evaluator.fold_term_of(&environment[row], *reduction);
                value.select(nothing, first & thread.inside_rows[row])
            });
            state.more(evaluator, *reduction, &own);
        }
        let rows = numbered(&self.rows).filter(|(_, reduction)| reduction.source == Source::Rows);
        for (word, reduction) in rows {
            let of_all = self.index_of(reduction.scope, index);
            self.k.if_(first(), || {
                for (row, environment) in thread.rows.iter().zip(environment) {
                    let state = evaluator
                        .fold_some(reduction, &[evaluator.fold_term_of(environment, reduction)]);
                    let to = |each| self.row_part(of_all, word + each, index.batch, *row);
                    self.leave(reduction, &state, to);
                }
            });
        }
    }

    /// A reduction's values, those outside the problem replaced by nothing.
    fn values(
        &self,
        evaluator: &Evaluator<'_, 'k, C>,
        (thread, whole): (&ThreadCoordinate<'k>, bool),
        first: u32,
        reduction: Reduction,
        chunks: &[Terms<'k>],
    ) -> Vec<[Reg<'k, F32>; 4]> {
        let (nothing, run) =
            (evaluator.fold_nothing(reduction), self.plan.program.runs[reduction.terms.index()]);
        let group = |(group, terms): (usize, &Terms<'k>)| {
            let found = terms.iter().find(|(node, _)| *node == reduction.terms);
            let Some((_, four)) = found else { panic!("compiler bug: a reduction of nothing") };
            let mut four = four.map(|value| evaluator.fold_term(value));
            for (element, value) in four.iter_mut().enumerate() {
                let offset = first + 8 * group as u32 + element as u32 % 2;
                let row = thread.inside_rows[element / 2];
                let column = || thread.remaining.gt(offset);
                let inside = match reduction.scope.kind {
                    _ if whole => None,
                    Kind::AlongRows => Some(column()),
                    Kind::AlongColumns => Some(row),
                    Kind::Scalar | Kind::Tile => Some(row & column()),
                };
                let (chunk, column) = (first + 8 * group as u32, element as u32 % 2);
                let counts = counts(run, self.column, chunk, column).and(inside);
                *value = counts.choose(*value, nothing);
            }
            four
        };
        chunks.iter().enumerate().map(group).collect()
    }

    /// Combines a column, or those of some groups of 8, of which each thread has folded its own rows: over the rows of
    /// a warp, and with the blocks before.
    ///
    /// Eight lanes have rows of the same columns. Of each pair of lanes that exchange, each keeps half of the columns,
    /// so that each next exchange is about half as many.
    fn fold_columns(
        &self,
        evaluator: &Evaluator<'_, 'k, C>,
        reduction: Reduction,
        (word, first, turn): (u32, u32, Turn),
        before: Option<Reg<'k, U32>>,
        mut states: Vec<State<'k>>,
    ) {
        let (k, lane) = (self.k, self.rank & 31);
        let within = self.column + first;
        let mut within = before.map_or(within, |before| within + before);
        let mut rest = Vec::new();
        for &bit in Fragment::COLUMN_BITS {
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
            let exchange = |(low, high): (&State<'k>, &State<'k>)| {
                evaluator.fold_exchanged(reduction, [low, high], second, bit)
            };
            states = low.iter().zip(high).map(exchange).collect();
        }
        let state = evaluator.fold_lanes(reduction, states.remove(0), &rest);
        let place = |word: u32| self.column_place(word, self.rank >> 5, within);
        k.if_((lane & rest.iter().sum::<u32>()).eq(0), || {
            let state = if turn == Turn::Joins {
                let before = (0..reduction.registers())
                    .map(|each| k.load_shared::<F32, 1>(place(word + each))[0])
                    .collect();
                evaluator.fold_both(reduction, &before, &state)
            } else {
                state
            };
            for (each, value) in (0..).zip(state) {
                k.store_shared(place(word + each), [value]);
            }
        });
    }

    /// The rows of a block are complete for this tile.
    pub(super) fn end_block(
        &self,
        evaluator: &Evaluator<'_, 'k, C>,
        thread: &ThreadCoordinate<'k>,
        index: WorkspaceIndex<'k>,
        rows: &RowPartials<'k>,
    ) {
        let k = self.k;
        let of_elements = |reduction: Reduction| reduction.is_of_elements() && !reduction.is_pick();
        let reduction = numbered(&self.rows).enumerate();
        for (place, (word, reduction)) in
            reduction.filter(|(_, (_, reduction))| of_elements(*reduction))
        {
            for (row, states) in rows.0.iter().enumerate() {
                let state =
                    evaluator.fold_lanes(reduction, states[place].state(), Fragment::ROW_BITS);
                let state = Self::once(evaluator, reduction, index, state);
                k.if_(Fragment::is_first_of_row(self.rank), || {
                    let to = |each| self.row_part(index, word + each, index.tile, thread.rows[row]);
                    self.leave(reduction, &state, to);
                });
            }
        }
    }

    /// Columns and scalars of a tile are complete.
    pub(super) fn end_tile(
        &self,
        evaluator: &Evaluator<'_, 'k, C>,
        work_tile: &WorkTile<'k>,
        index: WorkspaceIndex<'k>,
        partials: &ScalarPartials<'k>,
    ) {
        if let Some(persistent) = &self.persistent {
            persistent.add(evaluator, work_tile, partials);
            return self.k.if_(persistent.complete.get(), || {
                let partials = persistent.take(evaluator);
                self.leave_scalars(evaluator, index, persistent.place(work_tile), &partials);
            });
        }
        if self.columns.is_empty() && self.of_tiles().next().is_none() {
            return;
        }
        let k = self.k;
        let place = index.tile.mad(index.units, index.unit);
        self.leave_scalars(evaluator, index, place, partials);
        let columns = self.plan.schedule.width();
        k.for_(self.rank, columns, 128, |within| {
            let of_elements = |(_, reduction): &(u32, Reduction)| reduction.is_of_elements();
            for (word, reduction) in numbered(&self.columns).filter(of_elements) {
                let warps = (0..WARPS).map(|warp| {
                    (0..reduction.registers())
                        .map(|each| {
                            let from = self.column_place(word + each, k.imm(warp), within);
                            k.load_shared::<F32, 1>(from)[0]
                        })
                        .collect::<State<'k>>()
                });
                let state = Self::in_order(evaluator, reduction, warps);
                let state = Self::once(evaluator, reduction, index, state);
                self.leave(reduction, &state, |each| {
                    self.column_part(index, word + each, index.unit, work_tile.column + within)
                });
            }
        });
    }

    /// Writes a warpgroup's scalars as the partial results of this number.
    fn leave_scalars(
        &self,
        evaluator: &Evaluator<'_, 'k, C>,
        index: WorkspaceIndex<'k>,
        place: Reg<'k, U32>,
        partials: &ScalarPartials<'k>,
    ) {
        for (number, (word, reduction)) in self.of_tiles() {
            self.store_warp_scalar(evaluator, reduction, word, partials.0[number].state());
        }
        self.sync();
        self.k.if_(self.rank.eq(0), || {
            for (_, (word, reduction)) in self.of_tiles() {
                self.leave_scalar(evaluator, (word, reduction), index, place);
            }
        });
    }

    /// Writes the combined scalar of the four warps as the partial result of this number.
    pub(super) fn leave_scalar(
        &self,
        evaluator: &Evaluator<'_, 'k, C>,
        (word, reduction): (u32, Reduction),
        index: WorkspaceIndex<'k>,
        place: Reg<'k, U32>,
    ) {
        let state = self.load_warp_scalars(evaluator, reduction, word);
        let state = Self::once(evaluator, reduction, index, state);
        self.leave(reduction, &state, |each| self.scalar_part(index, word + each, place));
    }

    /// The partial result that a tile writes: the identity where the first batch's tile writes the same.
    fn once(
        evaluator: &Evaluator<'_, 'k, C>,
        reduction: Reduction,
        index: WorkspaceIndex<'k>,
        state: State<'k>,
    ) -> State<'k> {
        if !reduction.repeated {
            return state;
        }
        let (first, nothing) = (index.batch.eq(0), evaluator.fold_begin(reduction));
        state.iter().zip(nothing).map(|(word, nothing)| word.select(nothing, first)).collect()
    }

    fn in_order(
        evaluator: &Evaluator<'_, 'k, C>,
        reduction: Reduction,
        states: impl Iterator<Item = State<'k>>,
    ) -> State<'k> {
        let both = |first, second| evaluator.fold_both(reduction, &first, &second);
        states.reduce(both).unwrap_or_else(|| evaluator.fold_begin(reduction))
    }

    /// Stores a warp's scalar in shared memory, for the other warps.
    pub(super) fn store_warp_scalar(
        &self,
        evaluator: &Evaluator<'_, 'k, C>,
        reduction: Reduction,
        word: u32,
        state: State<'k>,
    ) {
        let state = evaluator.fold_lanes(reduction, state, Fragment::WARP_BITS);
        self.k.if_((self.rank & 31).eq(0), || {
            for (each, value) in (0..).zip(state) {
                let to = self.scalar_place(word + each, self.rank >> 5);
                self.k.store_shared(to, [value]);
            }
        });
    }

    /// The scalars of the four warps, combined.
    pub(super) fn load_warp_scalars(
        &self,
        evaluator: &Evaluator<'_, 'k, C>,
        reduction: Reduction,
        word: u32,
    ) -> State<'k> {
        let k = self.k;
        let warps = (0..WARPS).map(|warp| {
            (0..reduction.registers())
                .map(|each| k.load_shared::<F32, 1>(self.scalar_place(word + each, k.imm(warp)))[0])
                .collect::<State<'k>>()
        });
        Self::in_order(evaluator, reduction, warps)
    }

    /// The warpgroup synchronises.
    pub(super) fn sync(&self) {
        self.k.sync_named(self.warpgroup.barrier(), 128);
    }
}
