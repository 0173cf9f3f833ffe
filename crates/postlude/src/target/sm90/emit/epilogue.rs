//! The epilogue: the graph applied to a warpgroup's accumulators.
//!
//! A thread holds two columns of two rows of every group of 8 columns; `fragment` says which. The chip is a type, since
//! accumulators come in as registers: what the epilogue asks of it is in `chip`.
//!
//! The loads of a tile's scalars and vectors are issued before its products; after them, values along columns are
//! computed once and shared. Then block by block, epilogue tile by epilogue tile: tile operands are loaded, the graph
//! is applied to every element, outputs are stored.

mod arrivals;
mod bits;
mod block_pass;
mod blocks;
mod bounds;
mod cluster_reduction;
mod coalesced;
mod columns;
mod converted;
mod copies;
mod elements;
mod exchange;
mod finishing;
mod groups;
mod lanes;
mod loads;
mod partials;
mod persistent;
mod plain;
mod reductions;
mod rounds;
mod row_pass;
mod second_stage;
mod single;
mod stores;
mod strips;
mod thread;
mod tile_reductions;
mod warp_exchange;
mod workspace;

use postlude_ptx::kernel::{Kernel, Reg, Var};
use postlude_ptx::types::{F32, Pred, U32};

use crate::graph::{InputId, Kind, NodeId, Op};
use crate::target::sm90::plan::{EpilogueTransfer, SLOT_ROWS};

use super::chip::EpilogueChip;
use super::fragment::Fragment;
use super::parameters::Parameters;
use super::plan::Plan;
use super::tile_scheduler::{TileScheduler, WorkTile};
use super::values::{Environment, Evaluator, Pairs, Place, Value, fill};
use super::warpgroup::WarpgroupIndex;
use blocks::Blocks;
pub(super) use cluster_reduction::ClusterReduction;
use columns::{Columns, PrefetchedColumns};
use converted::Converted;
use elements::{Elements, Exchanged, Groups, Span, SpanTile, grouped_outputs, of_group};
use lanes::Lanes;
use loads::{EpilogueLoads, LoadedOperands};
use partials::{ColumnPartials, RowPartials, ScalarPartials, Terms, Turn};
use reductions::Reductions;
pub(super) use single::store;
use stores::EpilogueStores;
pub(super) use strips::{StripResults, StripUnit};
use thread::{EpilogueTile, ThreadCoordinate};
use tile_reductions::{TilePartials, TileReductions, VisitedGroups};
use workspace::WorkspaceIndex;

pub(super) struct Epilogue<'a, 'k, C> {
    k: Kernel<'k, C>,
    plan: &'a Plan<'a>,
    parameters: &'a Parameters<'k>,
    warpgroup: WarpgroupIndex<'k>,
    /// This thread in its warpgroup.
    rank: Reg<'k, U32>,
    /// This thread's first row of a 64-row block, and its first column of an 8-column group.
    row: Reg<'k, U32>,
    column: Reg<'k, U32>,
    /// Whether the graph asks for an element's row or column.
    indexed: bool,
    /// Whether elements have random words.
    random: bool,
    lanes: Lanes<'k, C>,
    columns: Columns<'a, 'k, C>,
    /// Where runs of rows are reduced.
    blocks: Option<Blocks<'k, C>>,
    loads: EpilogueLoads<'a, 'k, C>,
    stores: EpilogueStores<'a, 'k, C>,
    /// Where rows are longer than a tile.
    cluster_reduction: Option<ClusterReduction<'k, C>>,
    reductions: Option<TileReductions<'a, 'k, C>>,
    /// Values of tiles that outputs or reductions take, what is computed of an element for them, and what of its
    /// groups, too.
    wanted: Vec<NodeId>,
    only: Vec<bool>,
    needed: Vec<bool>,
}

/// Loads that were issued before a tile's products.
pub(super) struct Prefetched<'k> {
    scalars: Environment<'k>,
    /// For each 64-row block, the thread's two rows.
    rows: Vec<[(Place<'k>, Environment<'k>); 2]>,
    columns: PrefetchedColumns<'k>,
}

/// 64 rows of a tile, of which a thread has two.
struct Block<'e, 'k> {
    places: [Place<'k>; 2],
    thread: ThreadCoordinate<'k>,
    environment: [Environment<'k>; 2],
    sums: &'e [Var<'k, F32>],
    accumulators: Vec<Reg<'k, F32>>,
    rows: Option<RowPartials<'k>>,
}

impl<'a, 'k, C: EpilogueChip> Epilogue<'a, 'k, C> {
    pub(super) fn new(
        k: Kernel<'k, C>,
        plan: &'a Plan<'a>,
        parameters: &'a Parameters<'k>,
        scheduler: &TileScheduler<'k, C>,
        warpgroup: WarpgroupIndex<'k>,
        rank: Reg<'k, U32>,
    ) -> Self {
        let (warp, lane) = (rank >> 5, rank & 31);
        let evaluator = Evaluator { k, plan, parameters };
        let reductions = TileReductions::new(evaluator, scheduler, warpgroup, rank);
        let wanted = wanted(plan);
        let loads = EpilogueLoads::new(k, plan, parameters, warpgroup, rank);
        let grouped = grouped_outputs(plan).map(|(output, _)| plan.graph.outputs()[output].value);
        Epilogue {
            k,
            plan,
            parameters,
            warpgroup,
            rank,
            row: Fragment::row(warp, lane),
            column: Fragment::column(lane),
            lanes: Lanes::new(k, rank, plan),
            random: plan.graph.nodes().any(|(_, node)| matches!(node.op, Op::Philox(_))),
            indexed: plan.graph.nodes().any(|(_, node)| matches!(node.op, Op::Index(_))),
            columns: Columns::new(k, plan, warpgroup, rank, Fragment::column(lane)),
            blocks: Blocks::new(k, plan, warpgroup, rank),
            loads,
            stores: EpilogueStores::new(k, plan, parameters, warpgroup, rank),
            cluster_reduction: ClusterReduction::new(k, plan, scheduler, warpgroup, rank),
            reductions,
            only: plan.program.terms_of(wanted.iter().copied(), false),
            needed: plan.program.terms_of(wanted.iter().copied().chain(grouped), true),
            wanted,
        }
    }

    fn evaluator(&self) -> Evaluator<'a, 'k, C> {
        Evaluator { k: self.k, plan: self.plan, parameters: self.parameters }
    }

    /// Issues the loads that a tile's epilogue will need, so that they are complete when the products are.
    pub(super) fn begin(&self, work_tile: &WorkTile<'k>) -> Prefetched<'k> {
        let (k, evaluator, length) = (self.k, self.evaluator(), self.plan.graph.len());
        let mut scalars: Environment<'k> = vec![None; length];
        let zero = k.imm(0);
        let whole = Place { at: (work_tile.batch, zero, zero), inside: None };
        evaluator.issue_loads(&mut scalars, Kind::Scalar, &whole);
        let tile = self.plan.schedule.tile;
        let first = self.warpgroup.in_tile.mad(tile.blocks() * SLOT_ROWS, work_tile.row) + self.row;
        let row = |offset: u32| {
            let row = first + offset;
            let inside = Some(row.lt(work_tile.row_end));
            let place = Place { at: (work_tile.batch, row, zero), inside };
            let mut environment: Environment<'k> = vec![None; length];
            evaluator.issue_loads(&mut environment, Kind::AlongRows, &place);
            (place, environment)
        };
        let rows = (0..tile.blocks())
            .map(|block| [0, Fragment::SECOND_ROW].map(|half| row(block * SLOT_ROWS + half)));
        Prefetched {
            scalars,
            rows: rows.collect(),
            columns: self.columns.issue_loads(&evaluator, work_tile, self.parameters.columns),
        }
    }

    /// Finishes one tile.
    pub(super) fn finish(
        &self,
        work_tile: &WorkTile<'k>,
        prefetched: Prefetched<'k>,
        blocks: &[Vec<Var<'k, F32>>],
    ) {
        let (k, evaluator) = (self.k, self.evaluator());
        let Prefetched { mut scalars, rows, columns } = prefetched;
        let zero = k.imm(0);
        let whole = Place { at: (work_tile.batch, zero, zero), inside: None };
        evaluator.extend(&mut scalars, Kind::Scalar, &whole, &[]);
        self.columns.share(&evaluator, columns, &scalars);
        self.write_plain(&evaluator, work_tile, &scalars);
        let reductions = self.reductions.as_ref();
        let reductions =
            reductions.map(|reductions| (reductions, reductions.workspace_index(work_tile)));
        let partials = reductions.map(|(reductions, _)| reductions.begin());
        let together = if self.plan.schedule.visits_columns() { blocks.len() } else { 1 };
        let mut rows = rows.into_iter();
        let mut prepare = |sums| {
            let Some(rows) = rows.next() else { panic!("compiler bug: a block without rows") };
            let mut block = self.prepare(&evaluator, work_tile, rows, &scalars, sums);
            if let (Some((reductions, index)), Some(partials)) = (reductions, &partials) {
                block.rows = Some(reductions.begin_block(&block.thread, index));
                reductions.visit_rows(&block.thread, index, &block.environment, partials);
            }
            self.write_rows(work_tile, &block.places, &block.environment);
            self.write_copies(&evaluator, work_tile, &block.places);
            block
        };
        // Runs of rows may extend over all of them.
        let mut early = Vec::new();
        if self.blocks.is_some() {
            early.extend(blocks.iter().map(Vec::as_slice).map(&mut prepare));
            self.pass_over_blocks(&evaluator, work_tile, &early);
        }
        let mut early = early.into_iter();
        for (first, some) in blocks.chunks(together).enumerate() {
            let prepared: Vec<_> = some
                .iter()
                .map(|sums| early.next().unwrap_or_else(|| prepare(sums.as_slice())))
                .collect();
            let partials = partials.as_ref().zip(reductions.map(|(_, index)| index));
            self.visit_blocks(&evaluator, work_tile, (first > 0, &prepared), partials);
            for block in &prepared {
                if let (Some((reductions, index)), Some(rows)) = (reductions, &block.rows) {
                    reductions.end_block(&block.thread, index, rows);
                }
            }
        }
        self.finish_stores();
        if let (Some((reductions, index)), Some(partials)) = (reductions, partials) {
            reductions.end_tile(work_tile, index, &partials);
            reductions.arrive(index);
        }
    }

    /// Computes all values of a block that its elements use.
    fn prepare<'e>(
        &self,
        evaluator: &Evaluator<'_, 'k, C>,
        work_tile: &WorkTile<'k>,
        rows: [(Place<'k>, Environment<'k>); 2],
        scalars: &Environment<'k>,
        sums: &'e [Var<'k, F32>],
    ) -> Block<'e, 'k> {
        let accumulators: Vec<_> = sums.iter().map(|sum| sum.get()).collect();
        let places = rows.each_ref().map(|(place, _)| *place);
        let thread = self.thread_at(work_tile, &places, None);
        let mut environment = rows.map(|(place, mut environment)| {
            fill(&mut environment, scalars);
            evaluator.extend(&mut environment, Kind::AlongRows, &place, &[]);
            environment
        });
        self.pass_over(
            evaluator,
            work_tile,
            (&thread, &places),
            &mut environment,
            (sums, &accumulators),
        );
        Block { places, thread, environment, sums, accumulators, rows: None }
    }

    /// Visits every element of some blocks: of one whose neighbours come before it or behind, or of all.
    fn visit_blocks(
        &self,
        evaluator: &Evaluator<'_, 'k, C>,
        work_tile: &WorkTile<'k>,
        (joins, blocks): (bool, &[Block<'_, 'k>]),
        partials: Option<(&ScalarPartials<'k>, WorkspaceIndex<'k>)>,
    ) {
        let last = if joins { Turn::Joins } else { Turn::Ends };
        let visit = |at: Option<Reg<'k, U32>>, columns: u32| {
            let threads: Vec<ThreadCoordinate<'k>> =
                blocks.iter().map(|block| self.thread_at(work_tile, &block.places, at)).collect();
            let spans: Vec<_> =
                blocks.iter().map(|block| self.spans(&block.accumulators)).collect();
            for number in (0..).take_while(|number| {
                spans[0].get(*number).is_some_and(|span| span[0].0.offset < columns)
            }) {
                let mut carried = ColumnPartials::default();
                for (place, block) in blocks.iter().enumerate() {
                    let turn = if place + 1 < blocks.len() { Turn::Carries } else { last };
                    let tile_partials = partials
                        .zip(block.rows.as_ref())
                        .map(|((scalars, index), rows)| TilePartials { scalars, rows, index });
                    let span = &spans[place][number];
                    let environment = &block.environment;
                    self.visit_span(
                        evaluator,
                        &threads[place],
                        environment,
                        span,
                        tile_partials,
                        (turn, &mut carried),
                    );
                }
            }
        };
        if !self.plan.schedule.epilogue_loop {
            return visit(None, self.plan.schedule.width());
        }
        let sums: Vec<_> = blocks.iter().map(|block| block.sums).collect();
        let columns = self.round_columns();
        self.loop_over(&sums, columns, |before| {
            visit(Some(before), columns);
            self.finish_stores();
        });
    }

    /// The epilogue tiles of a block, each with the accumulators of its products.
    fn epilogue_tiles<'e>(
        &self,
        accumulators: &'e [Reg<'k, F32>],
    ) -> impl Iterator<Item = (EpilogueTile, Vec<&'e [Reg<'k, F32>]>)> {
        let (columns, width) = (self.plan.schedule.epilogue_tile, self.plan.schedule.width());
        (0..width).step_by(columns as usize).map(move |offset| {
            let products = accumulators.chunks_exact(width as usize / 2);
            let part =
                |all: &'e [Reg<'k, F32>]| &all[offset as usize / 2..][..columns as usize / 2];
            (EpilogueTile { offset, columns }, products.map(part).collect())
        })
    }

    /// Where a thread is in a block, this many columns behind the tile's first.
    fn thread_at(
        &self,
        work_tile: &WorkTile<'k>,
        places: &[Place<'k>; 2],
        before: Option<Reg<'k, U32>>,
    ) -> ThreadCoordinate<'k> {
        let rows = places.map(|place| place.at.1);
        let tile_column = before.map_or(work_tile.column, |before| work_tile.column + before);
        let column = tile_column + self.column;
        let mut thread = ThreadCoordinate {
            batch: work_tile.batch,
            block_row: rows[0] - self.row,
            tile_column,
            before,
            whole: self.is_whole(work_tile),
            rows,
            tile_rows: self.blocks.as_ref().map(|_| rows.map(|row| row - work_tile.row)),
            row_end: work_tile.row_end,
            inside_rows: rows.map(|row| row.lt(work_tile.row_end)),
            column,
            remaining: self.parameters.columns.max(column) - column,
            loads: Vec::new(),
            stores: Vec::new(),
        };
        thread.loads = self.loads.locations(&thread);
        thread.stores = self.stores.targets(&thread);
        thread
    }

    /// Whether all of a tile is inside the problem, where that saves something: folds need not ask for every element.
    /// Not in code without a loop, which is long already, and slower with branches.
    fn is_whole(&self, work_tile: &WorkTile<'k>) -> Option<Reg<'k, Pred>> {
        let folds = Reductions(self.plan.program).terms().next().is_some();
        (folds && self.plan.schedule.epilogue_loop).then(|| {
            let rows = (work_tile.row + self.plan.schedule.tile.rows).le(work_tile.row_end);
            let width = self.plan.schedule.width();
            rows & (work_tile.column + width).le(self.parameters.columns)
        })
    }

    /// One span of a block: loads its operands, computes all about its groups, visits its epilogue tiles.
    fn visit_span(
        &self,
        evaluator: &Evaluator<'_, 'k, C>,
        thread: &ThreadCoordinate<'k>,
        environment: &[Environment<'k>; 2],
        span: &Span<'_, 'k>,
        tile_partials: Option<TilePartials<'_, 'k>>,
        (turn, carried): (Turn, &mut ColumnPartials<'k>),
    ) {
        let loaded = self.load_span(evaluator, thread, span);
        let groups = self.groups(evaluator, thread, environment, (span, &*loaded), &self.needed);
        self.write_groups(thread, &groups);
        for place in 0..span.len() {
            let visited = (environment, &groups);
            let around = (&**span, &*loaded);
            self.visit(evaluator, thread, place, visited, around, (tile_partials, turn, carried));
        }
    }

    /// One epilogue tile whose operands are loaded: computes every element, stores outputs.
    fn visit(
        &self,
        evaluator: &Evaluator<'_, 'k, C>,
        thread: &ThreadCoordinate<'k>,
        place: usize,
        (environment, groups): (&[Environment<'k>; 2], &Groups<'k>),
        (span, all): (&[SpanTile<'_, 'k>], &[LoadedOperands<'k>]),
        (tile_partials, turn, carried): (
            Option<TilePartials<'_, 'k>>,
            Turn,
            &mut ColumnPartials<'k>,
        ),
    ) {
        let ((epilogue_tile, part), loaded) = (&span[place], &all[place]);
        let epilogue_tile = *epilogue_tile;
        let outputs = self.plan.graph.outputs().len();
        let mut values: Vec<Vec<Converted<'k>>> = vec![Vec::new(); outputs];
        let groups_of_fragment = self.plan.schedule.fragment as usize / 8;
        for first in (0..epilogue_tile.columns as usize / 8).step_by(groups_of_fragment) {
            let compute = |group: usize| {
                let offset = epilogue_tile.offset + 8 * group as u32;
                let products = &of_group(part, group);
                let (wanted, only) = (&self.wanted, &self.only);
                let loaded = all;
                let elements = Elements { offset, products, groups, wanted, only, span, loaded };
                let mut operands = self.operands(&all[place], group);
                let late = self.loads.read_late(evaluator, thread, offset);
                self.set_operands(&mut operands, late);
                self.visit_group(evaluator, thread, environment, &elements, operands)
            };
            let terms: Vec<Terms<'k>> = (first..first + groups_of_fragment).map(compute).collect();
            for results in &terms {
                for output in self.tile_outputs() {
                    values[output].push(self.convert(output, results));
                }
            }
            // Soon, so that few values wait for it.
            if let (Some(reductions), Some(tile_partials)) = (&self.reductions, tile_partials) {
                let first = epilogue_tile.offset + 8 * first as u32;
                let groups = VisitedGroups { thread, first, environment, terms: &terms };
                reductions.visit(groups, tile_partials, (turn, &mut *carried));
            }
        }
        self.loads.give_back(loaded);
        for output in self.tile_outputs() {
            let reused = self.plan.reused[output].map(|operand| loaded.slots(operand));
            let groups = &values[output];
            self.stores.store_tile(&self.lanes, thread, epilogue_tile, (output, reused), groups);
        }
    }

    /// Releases operands' slots that outputs were stored through, as many as the next operands need.
    fn make_room(&self) {
        if self.plan.schedule.reuse_c {
            let held = self.plan.schedule.held_slots() as usize;
            self.loads.release(&self.stores.reclaim(held));
        }
    }

    /// Issues a delayed store, and releases all operands' slots.
    fn finish_stores(&self) {
        self.stores.flush();
        self.loads.release(&self.stores.reclaim(0));
    }

    /// An output's values of a group in its dtype.
    fn convert(&self, output: usize, results: &Terms<'k>) -> Converted<'k> {
        let node = self.plan.graph.outputs()[output].value;
        let four = results.iter().find(|(of, _)| *of == node);
        let Some((_, four)) = four else { panic!("compiler bug: an output of nothing") };
        self.stores.convert(output, *four)
    }

    /// Outputs that are tiles.
    fn tile_outputs(&self) -> impl Iterator<Item = usize> {
        tile_outputs(self.plan)
    }

    /// The environments of a group's four elements, with their tile operands.
    fn operands(&self, loaded: &LoadedOperands<'k>, group: usize) -> [Environment<'k>; 4] {
        let mut environment: [Environment<'k>; 4] =
            [(); 4].map(|()| vec![None; self.plan.graph.len()]);
        self.set_operands(&mut environment, loaded.group(self.k, group));
        environment
    }

    fn set_operands(
        &self,
        environment: &mut [Environment<'k>; 4],
        operands: Vec<(InputId, [Value<'k>; 4])>,
    ) {
        for (input, values) in operands {
            let Some(id) = self.plan.graph.input_node(input) else { continue };
            for (environment, value) in environment.iter_mut().zip(values) {
                environment[id.index()] = Some(value);
            }
        }
    }

    /// The four elements of an 8-column group, two rows of two columns: their values that are wanted.
    fn visit_group(
        &self,
        evaluator: &Evaluator<'_, 'k, C>,
        thread: &ThreadCoordinate<'k>,
        environment: &[Environment<'k>; 2],
        elements: &Elements<'_, 'k>,
        operands: [Environment<'k>; 4],
    ) -> Terms<'k> {
        let Elements { offset, products, groups, wanted, only, .. } = elements;
        let exchanged = self.exchanged(evaluator, thread, environment, elements);
        let along_columns = self.columns.read(thread.before, *offset);
        let of_blocks = self
            .blocks
            .as_ref()
            .map_or_else(Vec::new, |blocks| blocks.of_elements(evaluator, thread, only, *offset));
        let mut results: Vec<Vec<Value<'k>>> = vec![Vec::new(); wanted.len()];
        let random = environment.each_ref().map(|environment| {
            if self.random {
                evaluator.random_pairs(environment, thread.column + *offset, only)
            } else {
                Pairs::new()
            }
        });
        for (element, mut all) in operands.into_iter().enumerate() {
            let own: Vec<_> = products.iter().map(|four| four[element]).collect();
            let (row, column) = (element / 2, element % 2);
            fill(&mut all, &environment[row]);
            groups.fill(&mut all, *offset, row);
            for (node, values) in &along_columns {
                all[node.index()] = Some(values[column]);
            }
            for (node, values) in &random[row] {
                all[node.index()] = Some(values[column]);
            }
            for (node, values) in &of_blocks {
                all[node.index()] = Some(values[element]);
            }
            let column =
                if self.indexed { thread.column + (offset + column as u32) } else { thread.column };
            let place = Place { at: (thread.batch, thread.rows[row], column), inside: None };
            for (node, from) in &exchanged {
                let before = |id: NodeId| only[id.index()] && id < *node;
                evaluator.extend_some(&mut all, Kind::Tile, &place, &own, before);
                all[node.index()] = match from {
                    Exchanged::Own(of) => all[of.index()],
                    Exchanged::Other(four) => Some(four[element]),
                };
            }
            let chosen = |id: NodeId| only[id.index()];
            evaluator.extend_some(&mut all, Kind::Tile, &place, &own, chosen);
            for (result, node) in results.iter_mut().zip(*wanted) {
                let Some(value) = all[node.index()] else {
                    panic!("compiler bug: an element without a value")
                };
                result.push(value);
            }
        }
        let four = |values: Vec<Value<'k>>| [values[0], values[1], values[2], values[3]];
        wanted.iter().copied().zip(results.into_iter().map(four)).collect()
    }

    /// Whether counters' old values are looked at after the next tile.
    pub(super) fn answers_later(&self) -> bool {
        self.reductions.as_ref().is_some_and(TileReductions::answers_later)
    }

    /// After a tile, if there was one: finishes the scopes that the tile before was the last to arrive for.
    pub(super) fn answer(&self, real: Reg<'k, Pred>) {
        if let Some(reductions) = &self.reductions {
            reductions.answer(real);
        }
    }

    /// Waits until all stores are complete.
    pub(super) fn drain(&self) {
        self.stores.drain();
    }
}

/// Outputs that are tiles.
fn tile_outputs(plan: &Plan<'_>) -> impl Iterator<Item = usize> {
    let transfers = plan.schedule.needs.epilogue_stores.iter().enumerate();
    transfers
        .filter(|(_, transfer)| **transfer != EpilogueTransfer::Finished)
        .map(|(output, _)| output)
}

/// Values of tiles that outputs or reductions take.
fn wanted(plan: &Plan<'_>) -> Vec<NodeId> {
    let outputs = tile_outputs(plan).map(|output| plan.graph.outputs()[output].value);
    let mut wanted: Vec<NodeId> = outputs.chain(Reductions(plan.program).terms()).collect();
    wanted.sort_unstable();
    wanted.dedup();
    wanted
}
