//! Reductions of a tile, level by level.
//!
//! In: the values of every element, group of columns by group, and of every row. Each thread folds its own; lanes combine
//! theirs by shuffles; warps of a warpgroup through shared memory ([`WarpExchange`]); warpgroups through the workspace
//! ([`Workspace`]), to which each writes one partial result. The last warpgroup to arrive ([`Arrivals`]) finishes a
//! scope ([`Finisher`]).
//!
//! Along rows a thread folds its two rows of a block, then four lanes combine theirs. Along columns eight lanes combine
//! theirs, each some of the columns, then the four warps. A scalar is folded by the thread, the warp, the four warps.
//! The order is fixed by position and does not depend on timing.

use postlude_ptx::kernel::{Kernel, Reg};
use postlude_ptx::types::{Pred, U32};

use crate::graph::Kind;
use crate::lower::{Batches, Reduction, Source};

use super::super::chip::EpilogueChip;
use super::super::fragment::Fragment;
use super::super::tile_scheduler::{TileScheduler, WorkTile};
use super::super::values::{Environment, Evaluator, Term};
use super::super::warpgroup::WarpgroupIndex;
use super::arrivals::{Arrivals, Deferred};
use super::bounds::{Bounds, Element};
use super::elements::counts;
use super::finishing::Finisher;
use super::partials::{ColumnPartials, Partial, RowPartials, ScalarPartials, Terms, Turn};
use super::persistent::PersistentAccumulation;
use super::reductions::{Numbered, Reductions};
use super::thread::ThreadCoordinate;
use super::warp_exchange::{THREADS, WarpExchange};
use super::workspace::{ResultOf, Workspace, WorkspaceIndex};

pub(super) struct TileReductions<'a, 'k, C> {
    k: Kernel<'k, C>,
    evaluator: Evaluator<'a, 'k, C>,
    reductions: Reductions<'a>,
    warpgroup: WarpgroupIndex<'k>,
    exchange: WarpExchange<'a, 'k, C>,
    workspace: Workspace<'a, 'k, C>,
    arrivals: Arrivals<'a, 'k, C>,
    finisher: Finisher<'a, 'k, C>,
    /// Scalars that are accumulated across work tiles, where nothing else is reduced.
    persistent: Option<PersistentAccumulation<'k>>,
}

/// Partial results of a tile and of a block, and their workspace index.
#[derive(Clone, Copy)]
pub(super) struct TilePartials<'t, 'k> {
    pub(super) scalars: &'t ScalarPartials<'k>,
    pub(super) rows: &'t RowPartials<'k>,
    pub(super) index: WorkspaceIndex<'k>,
}

/// Some groups of 8 columns of a block, all of whose elements are computed.
#[derive(Clone, Copy)]
pub(super) struct VisitedGroups<'v, 'k> {
    pub(super) thread: &'v ThreadCoordinate<'k>,
    /// The column of the tile in which the first begins.
    pub(super) first: u32,
    pub(super) environment: &'v [Environment<'k>; 2],
    pub(super) terms: &'v [Terms<'k>],
}

impl<'a, 'k, C: EpilogueChip> TileReductions<'a, 'k, C> {
    /// If the graph has reductions.
    pub(super) fn new(
        evaluator: Evaluator<'a, 'k, C>,
        scheduler: &TileScheduler<'k, C>,
        warpgroup: WarpgroupIndex<'k>,
        rank: Reg<'k, U32>,
    ) -> Option<Self> {
        let (k, plan) = (evaluator.k, evaluator.plan);
        if !plan.schedule.needs.folds.any() {
            return None;
        }
        let reductions = Reductions(plan.program);
        let exchange = WarpExchange::new(evaluator, warpgroup, rank);
        let all = reductions.finished().any(|scope| scope.batches == Batches::All);
        let segmented = plan.graph.space().is_segmented();
        let deferred = (!reductions.has_second_stage()).then(|| Deferred::new(k, all, segmented));
        // Which tiles of a segment a warpgroup has is not known before the call.
        let persists =
            deferred.is_some() && !segmented && PersistentAccumulation::takes(reductions);
        let persistent = persists
            .then(|| PersistentAccumulation::new(&evaluator, reductions, scheduler, warpgroup));
        let workspace = Workspace {
            evaluator,
            tiles: scheduler.tiles(),
            workers: persistent.as_ref().map(|persistent| persistent.workers),
            finishes_later: deferred.is_some(),
        };
        let arrivals = Arrivals { k, reductions, exchange, workspace, deferred };
        let finisher = Finisher { evaluator, reductions, exchange, workspace };
        Some(TileReductions {
            k,
            evaluator,
            reductions,
            warpgroup,
            exchange,
            workspace,
            arrivals,
            finisher,
            persistent,
        })
    }

    pub(super) fn workspace_index(&self, work_tile: &WorkTile<'k>) -> WorkspaceIndex<'k> {
        self.workspace.index(work_tile, self.warpgroup.in_tile)
    }

    pub(super) fn begin(&self) -> ScalarPartials<'k> {
        self.begin_of(Kind::Scalar)
    }

    pub(super) fn begin_block(
        &self,
        thread: &ThreadCoordinate<'k>,
        index: WorkspaceIndex<'k>,
    ) -> RowPartials<'k> {
        let bounds = self.reductions.of(Kind::AlongRows).map(|one| {
            let bounded = one.1.bounded().is_some();
            bounded.then(|| self.bounds().load(one, index, thread))
        });
        RowPartials {
            bounds: bounds.collect(),
            states: [(); 2].map(|()| self.begin_of(Kind::AlongRows)),
        }
    }

    fn bounds(&self) -> Bounds<'a, 'k, C> {
        Bounds { workspace: self.workspace, rank: self.exchange.rank }
    }

    fn begin_of(&self, kind: Kind) -> Vec<Partial<'k>> {
        let begin = |(_, one): Numbered| Partial::begin(&self.evaluator, one);
        self.reductions.of(kind).map(begin).collect()
    }

    /// Folds what is known of a thread's two rows of a block: once, though four lanes and every tile beside know it.
    pub(super) fn visit_rows(
        &self,
        thread: &ThreadCoordinate<'k>,
        index: WorkspaceIndex<'k>,
        environment: &[Environment<'k>; 2],
        partials: &ScalarPartials<'k>,
    ) {
        let evaluator = &self.evaluator;
        let first = || Fragment::is_first_of_row(self.exchange.rank) & index.tile.eq(0);
        let of_rows = |(_, one): &Numbered| one.source == Source::Rows;
        for (state, (_, reduction)) in
            partials.iter().zip(self.reductions.of(Kind::Scalar)).filter(|(_, one)| of_rows(one))
        {
            let first = first();
            let own = [0, 1].map(|row| {
                let at = || (thread.batch, thread.rows[row], self.k.imm(0));
                let term = evaluator.fold_term_of(&environment[row], reduction, at);
                evaluator.fold_where(reduction, term, first & thread.inside_rows[row])
            });
            state.more(evaluator, reduction, &own);
        }
        for one in self.reductions.of(Kind::AlongRows).filter(of_rows) {
            let of_all = self.workspace.first_of(one.1.scope, index);
            self.k.if_(first(), || {
                for (row, environment) in thread.rows.iter().zip(environment) {
                    let at = || (thread.batch, *row, self.k.imm(0));
                    let term = evaluator.fold_term_of(environment, one.1, at);
                    let state = evaluator.fold_some(one.1, &[term]);
                    self.workspace.write(one, of_all, (index.batch, ResultOf::Row(*row)), &state);
                }
            });
        }
    }

    /// Folds some groups of 8 columns of a block.
    pub(super) fn visit(
        &self,
        groups: VisitedGroups<'_, 'k>,
        partials: TilePartials<'_, 'k>,
        (turn, carried): (Turn, &mut ColumnPartials<'k>),
    ) {
        for one in self.reductions.of(Kind::AlongRows).filter(|(_, one)| one.is_pick()) {
            self.pick(groups, one, partials.index);
        }
        let columns = self.reductions.of(Kind::AlongColumns);
        let columns: Vec<(Numbered, Vec<Partial<'k>>, bool)> = columns
            .filter(|(_, one)| one.is_of_elements())
            .map(|one| {
                if let Some(before) = carried.remove(&(groups.first, one.0)) {
                    return (one, before, true);
                }
                let unset = |_| Partial::unset(self.k, one.1.registers());
                (one, (0..2 * groups.terms.len()).map(unset).collect(), false)
            })
            .collect();
        let fold = |whole: bool| self.fold(groups, whole, partials, &columns);
        match groups.thread.whole {
            Some(whole) => self.k.if_else(whole, || fold(true), || fold(false)),
            None => fold(false),
        }
        for (one, states, _) in columns {
            if turn == Turn::Carries {
                carried.insert((groups.first, one.0), states);
            } else {
                self.end_columns(groups, one, turn, &states);
            }
        }
    }

    /// Folds a thread's elements: along rows, scalars, along columns; `whole` if all are inside the problem.
    fn fold(
        &self,
        groups: VisitedGroups<'_, 'k>,
        whole: bool,
        partials: TilePartials<'_, 'k>,
        columns: &[(Numbered, Vec<Partial<'k>>, bool)],
    ) {
        let evaluator = &self.evaluator;
        let values = |reduction| self.values(groups, whole, reduction);
        for (place, (_, reduction)) in self.rows_of_elements() {
            let states = partials.rows.states.each_ref().map(|states| &states[place]);
            let all = || {
                let values = values(reduction);
                for (row, state) in states.iter().enumerate() {
                    let own = values.iter().flat_map(|four| [four[2 * row], four[2 * row + 1]]);
                    state.more(evaluator, reduction, &own.collect::<Vec<_>>());
                }
            };
            let Some(bounds) = &partials.rows.bounds[place] else {
                all();
                continue;
            };
            let bounded = || {
                let elements = self.elements(groups, whole, reduction);
                let elements = elements.each_ref().map(Vec::as_slice);
                self.bounds().fold(reduction, groups.thread, bounds, states, elements);
            };
            if !whole && groups.thread.whole.is_some() {
                // Few tiles are at an edge: they have the shorter code, at any size.
                bounded();
            } else {
                self.k.if_else(bounds.applies, bounded, all);
            }
        }
        let scalars = partials.scalars.iter().zip(self.reductions.of(Kind::Scalar));
        for (state, (_, reduction)) in scalars.filter(|(_, (_, one))| one.is_of_elements()) {
            state.more(evaluator, reduction, &values(reduction).concat());
        }
        for ((_, reduction), states, begun) in columns {
            let rows = |four: &[Term<'k>; 4]| [[four[0], four[2]], [four[1], four[3]]];
            for (state, rows) in states.iter().zip(values(*reduction).iter().flat_map(rows)) {
                if *begun {
                    state.more(evaluator, *reduction, &rows);
                } else {
                    state.set(evaluator.fold_some(*reduction, &rows));
                }
            }
        }
    }

    /// Folds of elements along rows, each with its place among all reductions along rows.
    fn rows_of_elements(&self) -> impl Iterator<Item = (usize, Numbered)> {
        let rows = self.reductions.of(Kind::AlongRows).enumerate();
        rows.filter(|(_, (_, one))| one.is_of_elements() && !one.is_pick())
    }

    /// The columns of some groups are complete for this warpgroup's rows.
    fn end_columns(
        &self,
        groups: VisitedGroups<'_, 'k>,
        one: Numbered,
        turn: Turn,
        states: &[Partial<'k>],
    ) {
        // An exchange takes registers for every word, and eight lanes exchange at most eight columns.
        let together = match one.1.registers() {
            1 => states.len().min(Fragment::LANES_OF_COLUMN),
            _ => 1,
        };
        for (place, states) in (0..).step_by(together).zip(states.chunks(together)) {
            let first = groups.first + 8 * (place / 2) + place % 2;
            let states = states.iter().map(Partial::state).collect();
            self.exchange.fold_columns(one, (first, groups.thread.before), turn, states);
        }
    }

    /// Writes the picked element, where one of these groups has it: few tiles do. There is one word for a row, whatever
    /// the number of tiles.
    fn pick(
        &self,
        groups: VisitedGroups<'_, 'k>,
        (word, reduction): Numbered,
        index: WorkspaceIndex<'k>,
    ) {
        let (k, thread, plan) = (self.k, groups.thread, self.evaluator.plan);
        let values = self.values(groups, true, reduction);
        assert!(plan.program.runs[reduction.terms.index()] == 1, "compiler bug: a pick of a run");
        for (row, environment) in groups.environment.iter().enumerate() {
            let picked = Evaluator::<C>::picked(reduction, environment);
            let from = picked - (thread.column + groups.first);
            let exists = picked.lt(self.evaluator.parameters.columns) & thread.inside_rows[row];
            let exists = if reduction.repeated { exists & index.batch.eq(0) } else { exists };
            k.if_(from.lt(8 * groups.terms.len() as u32) & exists, || {
                let of = ResultOf::Row(thread.rows[row]);
                let to = self.workspace.part(index, word, k.imm(0), of);
                for (group, four) in values.iter().enumerate() {
                    for column in 0..2 {
                        let Term { value, .. } = four[2 * row + column];
                        let here = from.eq((8 * group + column) as u32);
                        k.if_(here, || self.workspace.store(reduction, &vec![value], |_| to));
                    }
                }
            });
        }
    }

    /// A reduction's values, those outside the problem replaced by nothing.
    fn values(
        &self,
        groups: VisitedGroups<'_, 'k>,
        whole: bool,
        reduction: Reduction,
    ) -> Vec<[Term<'k>; 4]> {
        let (evaluator, VisitedGroups { thread, first, .. }) = (&self.evaluator, groups);
        let nothing = evaluator.fold_nothing(reduction);
        let no_weight = reduction.weights.map(|_| evaluator.no_weight(reduction));
        let run = evaluator.plan.program.runs[reduction.terms.index()];
        let group = |(group, terms): (usize, &Terms<'k>)| {
            let four = evaluator.folded_four(terms, reduction.terms);
            let weights = reduction.weights.map(|node| evaluator.folded_four(terms, node));
            let weights = weights.zip(no_weight);
            let element = |element: usize| {
                let (chunk, column) = (first + 8 * group as u32, element as u32 % 2);
                let row = thread.inside_rows[element / 2];
                let inside_column = || thread.remaining.gt(chunk + column);
                let inside = match reduction.scope.kind {
                    _ if whole => None,
                    Kind::AlongRows => Some(inside_column()),
                    Kind::AlongColumns => Some(row),
                    Kind::Scalar | Kind::Tile => Some(row & inside_column()),
                };
                let counts = counts(run, self.exchange.column, chunk, column).and(inside);
                let value = counts.choose(four[element], nothing);
                let weight = weights.map(|(four, none)| counts.choose(four[element], none));
                evaluator.fold_at(reduction, value, weight, || {
                    (thread.batch, thread.rows[element / 2], thread.column + (chunk + column))
                })
            };
            [0, 1, 2, 3].map(element)
        };
        groups.terms.iter().enumerate().map(group).collect()
    }

    /// The elements of a thread's two rows, those outside the problem replaced by nothing.
    fn elements(
        &self,
        groups: VisitedGroups<'_, 'k>,
        whole: bool,
        reduction: Reduction,
    ) -> [Vec<Element<'k>>; 2] {
        let (evaluator, VisitedGroups { thread, first, .. }) = (&self.evaluator, groups);
        let nothing = evaluator.fold_nothing(reduction);
        let no_weight = reduction.weights.map(|_| evaluator.no_weight(reduction));
        let run = evaluator.plan.program.runs[reduction.terms.index()];
        [0, 1].map(|row| {
            let of_group = |(group, terms): (usize, &Terms<'k>)| {
                let four = evaluator.folded_four(terms, reduction.terms);
                let weights = reduction.weights.map(|node| evaluator.folded_four(terms, node));
                let weights = weights.zip(no_weight);
                let chunk = first + 8 * group as u32;
                [0, 1].map(|column| {
                    let (offset, place) = (chunk + column, 2 * row + column as usize);
                    let inside = (!whole).then(|| thread.remaining.gt(offset));
                    let counts = counts(run, self.exchange.column, chunk, column).and(inside);
                    let value = counts.choose(four[place], nothing);
                    let weight = weights.map(|(four, none)| counts.choose(four[place], none));
                    Element { value, weight, offset }
                })
            };
            groups.terms.iter().enumerate().flat_map(of_group).collect()
        })
    }

    /// The rows of a block are complete for this tile.
    pub(super) fn end_block(
        &self,
        thread: &ThreadCoordinate<'k>,
        index: WorkspaceIndex<'k>,
        rows: &RowPartials<'k>,
    ) {
        for (place, one) in self.rows_of_elements() {
            let states = rows.states.each_ref().map(|states| &states[place]);
            let all = || {
                for (row, state) in thread.rows.iter().zip(states) {
                    let state = state.state();
                    let state = self.evaluator.fold_lanes(one.1, state, Fragment::ROW_BITS);
                    let state = self.workspace.once(one.1, index, state);
                    self.k.if_(Fragment::is_first_of_row(self.exchange.rank), || {
                        self.workspace.write(one, index, (index.tile, ResultOf::Row(*row)), &state);
                    });
                }
            };
            match &rows.bounds[place] {
                Some(bounds) => {
                    let bounded = || self.bounds().write(one, index, thread, states);
                    self.k.if_else(bounds.applies, bounded, all);
                }
                None => all(),
            }
        }
    }

    /// Columns and scalars of a tile are complete.
    pub(super) fn end_tile(
        &self,
        work_tile: &WorkTile<'k>,
        index: WorkspaceIndex<'k>,
        partials: &ScalarPartials<'k>,
    ) {
        if let Some(persistent) = &self.persistent {
            persistent.add(&self.evaluator, work_tile, partials);
            return self.k.if_(persistent.complete.get(), || {
                let partials = persistent.take(&self.evaluator);
                self.write_scalars(index, persistent.workers.number(work_tile), &partials);
            });
        }
        let columns = || self.reductions.of(Kind::AlongColumns);
        if columns().next().is_none() && self.reductions.of_tiles().next().is_none() {
            return;
        }
        self.write_scalars(index, index.tile.mad(index.own_units(), index.unit), partials);
        let width = self.evaluator.plan.schedule.width();
        self.k.for_(self.exchange.rank, width, THREADS, |within| {
            for one in columns().filter(|(_, one)| one.is_of_elements()) {
                let state = self.exchange.load_column(one, within);
                let state = self.workspace.once(one.1, index, state);
                self.workspace.store(one.1, &state, |each| {
                    let of = ResultOf::Column(work_tile.column + within);
                    self.workspace.part(index, one.0 + each, index.unit, of)
                });
            }
        });
    }

    /// Writes a warpgroup's scalars as the partial results of this number.
    fn write_scalars(
        &self,
        index: WorkspaceIndex<'k>,
        number: Reg<'k, U32>,
        partials: &ScalarPartials<'k>,
    ) {
        let scalars = self.reductions.of_tiles().map(|(place, one)| (one, partials[place].state()));
        self.exchange.fold_scalars(scalars, || {
            for (_, one) in self.reductions.of_tiles() {
                let state = self.exchange.load_scalar(one);
                let state = self.workspace.once(one.1, index, state);
                self.workspace.write(one, index, (number, ResultOf::Scalar), &state);
            }
        });
    }

    /// Arrives for this warpgroup's partial results of a tile, which are written.
    pub(super) fn arrive(&self, index: WorkspaceIndex<'k>) {
        self.arrivals.arrive(index, |scope| self.finisher.finish(scope, index));
    }

    /// Whether [`TileReductions::answer`] is called after each tile.
    pub(super) fn answers_later(&self) -> bool {
        self.arrivals.deferred.is_some()
    }

    /// After a tile, if there was one: finishes the scopes that the tile before was the last to arrive for, and arrives.
    pub(super) fn answer(&self, real: Reg<'k, Pred>) {
        let Some(deferred) = &self.arrivals.deferred else { return };
        let answer = |arrives| {
            let finish = |scope, index| self.finisher.finish(scope, index);
            self.arrivals.answer(deferred, arrives, finish);
        };
        let Some(persistent) = &self.persistent else { return answer(real) };
        // Tiles without a partial result do not arrive.
        let arrives = real & persistent.complete.get();
        self.k.if_(arrives | persistent.arrived.get(), || {
            answer(arrives);
            deferred.forget_unless(arrives);
        });
        persistent.arrived.set(arrives);
    }
}
