//! Groups of columns that a tile holds whole: their reductions, what follows from them, and outputs that have one value
//! for each.
//!
//! Four lanes hold eight neighbouring columns of a row, two each. A group of 8 columns or more is folded by each lane
//! through its own columns, then by the four; of 4 columns by two lanes; of 2 columns by the lane that has both. A
//! *span* is the fewest epilogue tiles that hold whole groups: all about its groups is known before its elements are
//! visited.

use postlude_ptx::kernel::Reg;
use postlude_ptx::types::{F32, Pred, U32};

use crate::graph::{Axes, Kind, NodeId, Output};
use crate::plan::sm90::{Reduction, is_group_fold, lengths, output_run, reduction, terms_of};

use super::super::Plan;
use super::super::parameters::Destination;
use super::super::values::{Environment, Evaluator, Place, State, Value};
use super::finishing::store;
use super::loads::LoadedOperands;
use super::{Elements, Epilogue, EpilogueTile, ThreadCoordinate, of_group};

/// Epilogue tiles with the accumulators of their products.
pub(super) type Span<'e, 'k> = Vec<(EpilogueTile, Vec<&'e [Reg<'k, F32>]>)>;

/// Columns that four lanes hold of a row.
const CHUNK: u32 = 8;

/// What a thread knows of its groups in a span.
pub(super) struct Groups<'k> {
    /// Where the span begins in the tile.
    offset: u32,
    /// For each length of a run, longest first, the groups of the thread's two rows.
    runs: Vec<(u32, Vec<Group<'k>>)>,
}

struct Group<'k> {
    /// Its place for each of the two rows; the column is the group's number.
    places: [Place<'k>; 2],
    environment: [Environment<'k>; 2],
}

impl<'k> Groups<'k> {
    /// Adds what is known of the groups that a chunk of 8 columns belongs to.
    pub(super) fn fill(&self, environment: &mut Environment<'k>, offset: u32, row: usize) {
        for (run, groups) in &self.runs {
            let place = (offset - self.offset) / run.max(&CHUNK);
            Evaluator::fill(environment, &groups[place as usize].environment[row]);
        }
    }
}

/// Whether a value counts: one of a group of columns does in the first of them.
#[derive(Clone, Copy)]
pub(super) enum Counts<'k> {
    Always,
    Never,
    Where(Reg<'k, Pred>),
}

impl<'k> Counts<'k> {
    /// If this is so, too.
    pub(super) fn and(self, also: Option<Reg<'k, Pred>>) -> Counts<'k> {
        match (self, also) {
            (counts, None) => counts,
            (Counts::Always, Some(also)) => Counts::Where(also),
            (Counts::Where(first), Some(also)) => Counts::Where(first & also),
            (Counts::Never, Some(_)) => Counts::Never,
        }
    }

    /// The value, or nothing.
    pub(super) fn choose(self, value: Reg<'k, F32>, nothing: Reg<'k, F32>) -> Reg<'k, F32> {
        match self {
            Counts::Always => value,
            Counts::Never => nothing,
            Counts::Where(counts) => value.select(nothing, counts),
        }
    }
}

/// For a column of a chunk that begins this many columns from the tile's first.
pub(super) fn counts(run: u32, own: Reg<'_, U32>, offset: u32, column: u32) -> Counts<'_> {
    match run {
        1 => Counts::Always,
        _ if column > 0 || !offset.is_multiple_of(run.max(CHUNK)) => Counts::Never,
        2 => Counts::Always,
        4 => Counts::Where((own & 2).eq(0)),
        _ => Counts::Where(own.eq(0)),
    }
}

/// Outputs that have one value for each row and group of columns, with the group's length.
pub(super) fn outputs(plan: &Plan<'_>) -> impl Iterator<Item = (usize, u32)> {
    let graph = plan.graph;
    let kind = |output: &Output| graph.product().axes(&output.dims).map(Axes::kind);
    let outputs = graph.outputs().iter().enumerate();
    let tiles = outputs.filter(move |(_, output)| kind(output) == Some(Kind::Tile));
    tiles.map(|(place, output)| (place, output_run(graph, output))).filter(|(_, run)| *run > 1)
}

impl<'k> Epilogue<'_, 'k> {
    /// The spans of a block.
    pub(super) fn spans<'e>(&self, accumulators: &'e [Reg<'k, F32>]) -> Vec<Span<'e, 'k>> {
        let schedule = self.plan.schedule;
        let epilogue_tiles: Vec<_> = self.epilogue_tiles(accumulators).collect();
        let span = |part: &[_]| part.to_vec();
        epilogue_tiles
            .chunks((schedule.span() / schedule.epilogue_tile) as usize)
            .map(span)
            .collect()
    }

    /// Reads the tile operands of a span.
    pub(super) fn load_span(
        &self,
        evaluator: &Evaluator<'_, 'k>,
        thread: &ThreadCoordinate<'k>,
        span: &Span<'_, 'k>,
    ) -> Vec<LoadedOperands<'k>> {
        let read = |epilogue_tile| {
            self.make_room();
            self.loads.read(evaluator, &self.lanes, thread, epilogue_tile)
        };
        span.iter().map(|(epilogue_tile, _)| read(*epilogue_tile)).collect()
    }

    /// What is needed of a span's groups, as far as it follows from what is known of the rows.
    pub(super) fn groups(
        &self,
        evaluator: &Evaluator<'_, 'k>,
        thread: &ThreadCoordinate<'k>,
        environment: &[Environment<'k>; 2],
        (span, loaded): (&Span<'_, 'k>, &[LoadedOperands<'k>]),
        needed: &[bool],
    ) -> Groups<'k> {
        let mut groups = self.begin_groups(thread, environment, span);
        if groups.runs.is_empty() {
            return groups;
        }
        let levels = &self.plan.levels;
        for level in 0..=levels.iter().copied().max().unwrap_or(0) {
            let in_level = |id: NodeId| needed[id.index()] && levels[id.index()] == level;
            let nodes = self.plan.graph.nodes().map(|(id, _)| id);
            let folds = nodes.filter(|id| in_level(*id) && is_group_fold(self.plan.graph, *id));
            let folds: Vec<Reduction> = folds
                .filter_map(|id| reduction(self.plan.graph, &self.plan.after_reductions, id))
                .collect();
            if !folds.is_empty() {
                self.fold_runs(evaluator, thread, environment, (span, loaded), &folds, &mut groups);
            }
            extend(evaluator, &mut groups, in_level);
        }
        groups
    }

    /// The groups of a span, of which nothing is known but their rows.
    fn begin_groups(
        &self,
        thread: &ThreadCoordinate<'k>,
        environment: &[Environment<'k>; 2],
        span: &Span<'_, 'k>,
    ) -> Groups<'k> {
        let offset = span[0].0.offset;
        let columns: u32 = span.iter().map(|(epilogue_tile, _)| epilogue_tile.columns).sum();
        let run = |run: u32| {
            // Lanes that have groups of their own each have their own number.
            let first = if run < CHUNK { thread.column } else { thread.tile_column } / run;
            let count = self.parameters.columns / run;
            let group = |place: u32| {
                let number = first + (offset + place * run.max(CHUNK)) / run;
                let places = [0, 1].map(|row| Place {
                    at: [thread.batch, thread.rows[row], number],
                    inside: Some(thread.inside_rows[row] & number.lt(count)),
                });
                Group { places, environment: environment.clone() }
            };
            (run, (0..columns / run.max(CHUNK)).map(group).collect())
        };
        Groups { offset, runs: lengths(self.plan.graph).into_iter().map(run).collect() }
    }

    /// Folds groups whose terms are known of a span's elements.
    fn fold_runs(
        &self,
        evaluator: &Evaluator<'_, 'k>,
        thread: &ThreadCoordinate<'k>,
        environment: &[Environment<'k>; 2],
        (span, loaded): (&Span<'_, 'k>, &[LoadedOperands<'k>]),
        folds: &[Reduction],
        groups: &mut Groups<'k>,
    ) {
        let roots = || folds.iter().map(|one| one.terms);
        let (only, wanted) =
            (&terms_of(self.plan.graph, roots(), false), &roots().collect::<Vec<_>>());
        let mut states: Vec<[Option<State<'k>>; 2]> = vec![[None, None]; folds.len()];
        for ((epilogue_tile, part), loaded) in span.iter().zip(loaded) {
            for chunk in 0..(epilogue_tile.columns / CHUNK) as usize {
                let offset = epilogue_tile.offset + CHUNK * chunk as u32;
                let products = &of_group(part, chunk);
                let elements = Elements { offset, products, groups, wanted, only };
                let operands = self.operands(loaded, chunk);
                let terms = self.visit_group(evaluator, thread, environment, &elements, operands);
                for (one, states) in folds.iter().zip(&mut states) {
                    let run = self.plan.runs[one.node.index()];
                    let found = terms.iter().find(|(node, _)| *node == one.terms);
                    let Some((_, four)) = found else {
                        panic!("compiler bug: a reduction of nothing")
                    };
                    let four = four.map(|value| evaluator.fold_term(value));
                    let within = offset - groups.offset;
                    let last = (within + CHUNK).is_multiple_of(run.max(CHUNK));
                    for (row, state) in states.iter_mut().enumerate() {
                        let before = state.take().unwrap_or_else(|| evaluator.fold_begin(*one));
                        let own = &four[2 * row..2 * row + 2];
                        let after = evaluator.fold_more(*one, &before, own);
                        if last {
                            let value = finish(evaluator, *one, run, after);
                            let group = (within / run.max(CHUNK)) as usize;
                            groups.set(run, group, row, one.node, value);
                        } else {
                            *state = Some(after);
                        }
                    }
                }
            }
        }
    }

    /// Writes outputs that have one value for each group.
    pub(super) fn write_groups(&self, thread: &ThreadCoordinate<'k>, groups: &Groups<'k>) {
        let k = self.k;
        for (output, run) in outputs(self.plan) {
            let declared = &self.plan.graph.outputs()[output];
            let Destination::Direct(memory) = &self.parameters.destinations[output] else {
                panic!("compiler bug: a map of groups")
            };
            // An operand may lie in the same memory: every lane has read its own.
            k.warp_sync();
            for group in groups.of(run) {
                for (place, environment) in group.places.iter().zip(&group.environment) {
                    let Some(value) = environment[declared.value.index()] else {
                        panic!("compiler bug: an output without a value")
                    };
                    let inside = place.inside.unwrap_or(thread.inside_rows[0]);
                    let inside = match counts(run, self.column, 0, 0) {
                        Counts::Where(first) => inside & first,
                        Counts::Always | Counts::Never => inside,
                    };
                    let inside = self.written(declared, thread.batch, Some(inside));
                    store(k, declared.dtype, memory.element(k, place.at), value, inside);
                }
            }
        }
    }
}

impl<'k> Groups<'k> {
    fn of(&self, run: u32) -> &[Group<'k>] {
        let found = self.runs.iter().find(|(length, _)| *length == run);
        found.map_or_else(|| panic!("compiler bug: no groups of {run}"), |(_, groups)| groups)
    }

    fn set(&mut self, run: u32, group: usize, row: usize, node: NodeId, value: Value<'k>) {
        let found = self.runs.iter_mut().find(|(length, _)| *length == run);
        let Some((_, groups)) = found else { panic!("compiler bug: no groups of {run}") };
        groups[group].environment[row][node.index()] = Some(value);
    }
}

/// What lanes that share a group have together.
fn finish<'k>(
    evaluator: &Evaluator<'_, 'k>,
    reduction: Reduction,
    run: u32,
    state: State<'k>,
) -> Value<'k> {
    let lanes: &[u32] = match run {
        2 => &[],
        4 => &[1],
        _ => &[1, 2],
    };
    evaluator.fold_end(reduction, &evaluator.fold_lanes(reduction, state, lanes))
}

/// Computes nodes that are chosen for every group; shorter groups know the longer ones that they are part of.
fn extend<'k>(
    evaluator: &Evaluator<'_, 'k>,
    groups: &mut Groups<'k>,
    chosen: impl Fn(NodeId) -> bool,
) {
    for number in 0..groups.runs.len() {
        let (longer, rest) = groups.runs.split_at_mut(number);
        let (run, shorter) = &mut rest[0];
        for (place, group) in shorter.iter_mut().enumerate() {
            let offset = place as u32 * (*run).max(CHUNK);
            for row in 0..2 {
                let environment = &mut group.environment[row];
                for (run, longer) in longer.iter().filter(|(longer, _)| longer % *run == 0) {
                    let place = offset / (*run).max(CHUNK);
                    Evaluator::fill(environment, &longer[place as usize].environment[row]);
                }
                evaluator.extend_group(environment, *run, &group.places[row], &chosen);
            }
        }
    }
}
