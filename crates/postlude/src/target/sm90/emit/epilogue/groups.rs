//! Groups of columns that a tile holds whole: their reductions, what follows from them, and outputs that have one value
//! for each.
//!
//! Four lanes hold eight neighbouring columns of a row, two each. A group of 8 columns or more is folded by each lane
//! through its own columns, then by the four; of 4 columns by two lanes; of 2 columns by the lane that has both. A
//! *span* is the fewest epilogue tiles that hold whole groups: all about its groups is known before its elements are
//! visited.

use postlude_ptx::kernel::Reg;
use postlude_ptx::types::F32;

use crate::graph::NodeId;
use crate::lower::Reduction;

use super::super::chip::EpilogueChip;
use super::super::fragment::Fragment;
use super::super::parameters::Destination;
use super::super::values::{Environment, Evaluator, Place, State, Value, fill};
use super::Epilogue;
use super::elements::{
    CHUNK, Counts, Elements, Group, Groups, Span, counts, grouped_outputs, of_group,
};
use super::loads::LoadedOperands;
use super::single::store;
use super::thread::ThreadCoordinate;

impl<'k, C: EpilogueChip> Epilogue<'_, 'k, C> {
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
        evaluator: &Evaluator<'_, 'k, C>,
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
        evaluator: &Evaluator<'_, 'k, C>,
        thread: &ThreadCoordinate<'k>,
        environment: &[Environment<'k>; 2],
        (span, loaded): (&Span<'_, 'k>, &[LoadedOperands<'k>]),
        needed: &[bool],
    ) -> Groups<'k> {
        let mut groups = self.begin_groups(thread, environment, span);
        if groups.runs.is_empty() {
            return groups;
        }
        if let Some(blocks) = &self.blocks {
            blocks.fill_groups(evaluator, thread, needed, &mut groups);
        }
        let levels = &self.plan.program.levels;
        for level in 0..=levels.iter().copied().max().unwrap_or(0) {
            let in_level = |id: NodeId| needed[id.index()] && levels[id.index()] == level;
            let folds = self.plan.program.run_reductions.iter().copied();
            let folds: Vec<Reduction> = folds.filter(|one| in_level(one.node)).collect();
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
                    at: (thread.batch, thread.rows[row], number),
                    inside: Some(thread.inside_rows[row] & number.lt(count)),
                });
                Group { places, environment: environment.clone() }
            };
            (run, (0..columns / run.max(CHUNK)).map(group).collect())
        };
        Groups { offset, runs: self.plan.program.run_lengths.iter().copied().map(run).collect() }
    }

    /// Folds groups whose terms are known of a span's elements.
    fn fold_runs(
        &self,
        evaluator: &Evaluator<'_, 'k, C>,
        thread: &ThreadCoordinate<'k>,
        environment: &[Environment<'k>; 2],
        (span, loaded): (&Span<'_, 'k>, &[LoadedOperands<'k>]),
        folds: &[Reduction],
        groups: &mut Groups<'k>,
    ) {
        let roots = || folds.iter().flat_map(|one| one.operands());
        let (only, wanted) =
            (&self.plan.program.terms_of(roots(), false), &roots().collect::<Vec<_>>());
        let mut states: Vec<[Option<State<'k>>; 2]> = vec![[None, None]; folds.len()];
        for ((epilogue_tile, part), own) in span.iter().zip(loaded) {
            for chunk in 0..(epilogue_tile.columns / CHUNK) as usize {
                let offset = epilogue_tile.offset + CHUNK * chunk as u32;
                let products = &of_group(part, chunk);
                let elements = Elements { offset, products, groups, wanted, only, span, loaded };
                let operands = self.operands(own, chunk);
                let terms = self.visit_group(evaluator, thread, environment, &elements, operands);
                for (one, states) in folds.iter().zip(&mut states) {
                    let run = self.plan.program.runs[one.node.index()];
                    let four = evaluator.folded_four(&terms, one.terms);
                    let weights = one.weights.map(|node| evaluator.folded_four(&terms, node));
                    let within = offset - groups.offset;
                    let last = (within + CHUNK).is_multiple_of(run.max(CHUNK));
                    for (row, state) in states.iter_mut().enumerate() {
                        let before = state.take().unwrap_or_else(|| evaluator.fold_begin(*one));
                        let own = [0, 1].map(|column| {
                            let weight = weights.map(|four| four[2 * row + column]);
                            evaluator.fold_at(*one, four[2 * row + column], weight, || {
                                let column = thread.column + (offset + column as u32);
                                (thread.batch, thread.rows[row], column)
                            })
                        });
                        let after = evaluator.fold_more(*one, &before, &own);
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
        for (output, run) in grouped_outputs(self.plan) {
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
                    let inside = memory.inside(|| place.at.2, Some(inside));
                    let inside = self.written(declared, thread.batch.number, inside);
                    let (at, inside) = self.at_run_of_rows(declared, place.at, inside);
                    store(k, declared.dtype, memory.element(k, at), value, inside);
                }
            }
        }
    }
}

/// What lanes that share a group have together.
fn finish<'k, C: EpilogueChip>(
    evaluator: &Evaluator<'_, 'k, C>,
    reduction: Reduction,
    run: u32,
    state: State<'k>,
) -> Value<'k> {
    let lanes = Fragment::run_bits(run);
    evaluator.fold_end(reduction, &evaluator.fold_lanes(reduction, state, lanes))
}

/// Computes nodes that are chosen for every group; shorter groups know the longer ones that they are part of.
fn extend<'k, C: EpilogueChip>(
    evaluator: &Evaluator<'_, 'k, C>,
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
                    fill(environment, &longer[place as usize].environment[row]);
                }
                evaluator.extend_group(environment, *run, &group.places[row], &chosen);
            }
        }
    }
}
