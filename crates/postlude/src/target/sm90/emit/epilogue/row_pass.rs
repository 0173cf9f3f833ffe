//! Row passes: passes over a tile that finish the reductions of its rows, before its elements are visited.

use postlude_ptx::kernel::{Reg, Var};
use postlude_ptx::types::F32;

use crate::graph::{Axes, Kind, NodeId};
use crate::lower::Reduction;
use crate::target::sm90::plan::EpilogueTransfer;

use super::super::chip::EpilogueChip;
use super::super::fragment::Fragment;
use super::super::parameters::Destination;
use super::super::tile_scheduler::WorkTile;
use super::super::values::{Environment, Evaluator, Place, State};
use super::Epilogue;
use super::elements::{Elements, counts, of_group};
use super::partials::Terms;
use super::single::store;
use super::thread::ThreadCoordinate;

impl<'k, C: EpilogueChip> Epilogue<'_, 'k, C> {
    /// Adds to the environment of a thread's two rows of a block what follows from their own reductions.
    pub(super) fn pass_over(
        &self,
        evaluator: &Evaluator<'_, 'k, C>,
        work_tile: &WorkTile<'k>,
        (thread, places): (&ThreadCoordinate<'k>, &[Place<'k>; 2]),
        environment: &mut [Environment<'k>; 2],
        (sums, accumulators): (&[Var<'k, F32>], &[Reg<'k, F32>]),
    ) {
        let program = self.plan.program;
        for (pass, reductions) in (1..).zip(&program.row_passes) {
            let begin = || reductions.iter().map(|one| evaluator.fold_begin(*one)).collect();
            let begun: [Vec<State<'k>>; 2] = [(); 2].map(|()| begin());
            let states = if self.plan.schedule.rounds > 0 {
                self.fold_rounds(
                    evaluator,
                    work_tile,
                    places,
                    environment,
                    (sums, accumulators),
                    reductions,
                    begun,
                )
            } else {
                let width = self.plan.schedule.width();
                self.fold_rows(
                    evaluator,
                    thread,
                    environment,
                    (accumulators, width),
                    reductions,
                    begun,
                )
            };
            let states = states.map(|row| {
                let lanes = reductions.iter().zip(row);
                lanes
                    .map(|(one, state)| evaluator.fold_lanes(*one, state, Fragment::ROW_BITS))
                    .collect()
            });
            let states = match &self.cluster_reduction {
                Some(cluster) => cluster.combine(evaluator, reductions, &states),
                None => states,
            };
            for ((environment, place), states) in environment.iter_mut().zip(places).zip(states) {
                for (reduction, state) in reductions.iter().zip(states) {
                    for one in program.members(*reduction) {
                        let value = evaluator.fold_finish(one, &state, environment);
                        environment[one.node.index()] = Some(value);
                    }
                }
                let ready = |id: NodeId| {
                    program.passes[id.index()] == pass && !program.after_reductions[id.index()]
                };
                evaluator.extend_some(environment, Kind::AlongRows, place, &[], ready);
            }
        }
    }

    /// What all columns of the tile add to a thread's two rows' reductions, in a loop.
    #[allow(clippy::too_many_arguments)] // A round's own arguments, and the values that rounds carry.
    fn fold_rounds(
        &self,
        evaluator: &Evaluator<'_, 'k, C>,
        work_tile: &WorkTile<'k>,
        places: &[Place<'k>; 2],
        environment: &[Environment<'k>; 2],
        (sums, accumulators): (&[Var<'k, F32>], &[Reg<'k, F32>]),
        reductions: &[Reduction],
        begun: [Vec<State<'k>>; 2],
    ) -> [Vec<State<'k>>; 2] {
        let (k, columns) = (self.k, self.round_columns());
        let carried = begun.map(|row| {
            let states = row.into_iter().map(|state| state.into_iter().map(|word| k.var(word)));
            states.map(Iterator::collect).collect::<Vec<Vec<Var<'k, F32>>>>()
        });
        let now = || {
            carried.each_ref().map(|row| {
                row.iter().map(|state| state.iter().map(|word| word.get()).collect()).collect()
            })
        };
        self.rotate_over(sums, columns, |before| {
            let thread = self.thread_at(work_tile, places, Some(before));
            let part = (accumulators, columns);
            let states = self.fold_rows(evaluator, &thread, environment, part, reductions, now());
            for (to, from) in carried.iter().flatten().zip(states.iter().flatten()) {
                to.iter().zip(from).for_each(|(to, from)| to.set(*from));
            }
        });
        now()
    }

    /// What the first columns of the tile add to a thread's two rows' reductions.
    fn fold_rows(
        &self,
        evaluator: &Evaluator<'_, 'k, C>,
        thread: &ThreadCoordinate<'k>,
        environment: &[Environment<'k>; 2],
        (accumulators, columns): (&[Reg<'k, F32>], u32),
        reductions: &[Reduction],
        begun: [Vec<State<'k>>; 2],
    ) -> [Vec<State<'k>>; 2] {
        let roots = || reductions.iter().flat_map(|one| one.operands());
        let only = &self.plan.program.terms_of(roots(), false);
        let needed = self.plan.program.terms_of(roots(), true);
        let wanted = &roots().collect::<Vec<_>>();
        let mut states = begun;
        let spans = self.spans(accumulators);
        for span in spans.into_iter().filter(|span| span[0].0.offset < columns) {
            let loaded = self.load_span(evaluator, thread, &span);
            let groups = &self.groups(evaluator, thread, environment, (&span, &loaded), &needed);
            let (span, loaded) = (&*span, &*loaded);
            for ((epilogue_tile, part), own) in span.iter().zip(loaded) {
                for group in 0..epilogue_tile.columns as usize / 8 {
                    let offset = epilogue_tile.offset + 8 * group as u32;
                    let products = &of_group(part, group);
                    let elements =
                        Elements { offset, products, groups, wanted, only, span, loaded };
                    let operands = self.operands(own, group);
                    let terms =
                        self.visit_group(evaluator, thread, environment, &elements, operands);
                    self.fold_group(
                        evaluator,
                        thread,
                        environment,
                        (reductions, offset, &terms),
                        &mut states,
                    );
                }
                self.loads.give_back_all(own);
            }
        }
        states
    }

    /// Adds a group of 8 columns to a thread's two rows' reductions.
    fn fold_group(
        &self,
        evaluator: &Evaluator<'_, 'k, C>,
        thread: &ThreadCoordinate<'k>,
        environment: &[Environment<'k>; 2],
        (reductions, offset, terms): (&[Reduction], u32, &Terms<'k>),
        states: &mut [Vec<State<'k>>; 2],
    ) {
        for (place, reduction) in reductions.iter().enumerate() {
            let values = evaluator.folded_four(terms, reduction.terms);
            let weights = reduction
                .weights
                .map(|node| (evaluator.folded_four(terms, node), evaluator.no_weight(*reduction)));
            let nothing = evaluator.fold_nothing(*reduction);
            let run = self.plan.program.runs[reduction.terms.index()];
            for (row, states) in states.iter_mut().enumerate() {
                let own = [0, 1].map(|column| {
                    let inside = || Some(thread.remaining.gt(offset + column));
                    let number = (thread.column, offset + column);
                    let inside =
                        Evaluator::<C>::fold_takes(*reduction, &environment[row], number, inside);
                    let counts = counts(run, self.column, offset, column).and(inside);
                    let place = 2 * row + column as usize;
                    let value = counts.choose(values[place], nothing);
                    let weight = weights.map(|(four, none)| counts.choose(four[place], none));
                    evaluator.fold_at(*reduction, value, weight, || {
                        (thread.batch, thread.rows[row], thread.column + (offset + column))
                    })
                });
                states[place] = evaluator.fold_more(*reduction, &states[place], &own);
            }
        }
    }

    /// Writes outputs along rows that row passes finish, and those that need no pass.
    pub(super) fn write_rows(
        &self,
        work_tile: &WorkTile<'k>,
        places: &[Place<'k>; 2],
        environment: &[Environment<'k>; 2],
    ) {
        let (k, graph, transfers) =
            (self.k, self.plan.graph, &self.plan.schedule.needs.epilogue_stores);
        let outputs = graph.outputs().iter().zip(transfers).zip(&self.parameters.destinations);
        let others = outputs.zip(&self.plan.copied).filter(|(_, from)| from.is_none());
        for ((output, transfer), destination) in others.map(|(output, _)| output) {
            let node = output.value.index();
            let along = graph.space().axes(&output.dims).map(Axes::kind);
            let own = *transfer == EpilogueTransfer::Finished
                && !self.plan.program.after_reductions[node]
                && along == Some(Kind::AlongRows);
            if let (true, Destination::Direct(memory)) = (own, destination) {
                for (place, environment) in places.iter().zip(environment) {
                    let Some(value) = environment[node] else {
                        panic!("compiler bug: an output without a value")
                    };
                    // The first of the four lanes that have the row, in the tile that has its columns.
                    let first = self.column.eq(0) & work_tile.index[1].eq(0);
                    let inside = place.inside.map_or(first, |inside| inside & first);
                    let inside = self.written(output, work_tile.batch.number, Some(inside));
                    let (at, inside) = self.at_run_of_rows(output, place.at, inside);
                    store(k, output.dtype, memory.element(k, at), value, inside);
                }
            }
        }
    }
}
