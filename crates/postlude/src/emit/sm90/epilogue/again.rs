//! Passes over a tile that finish the reductions of its rows, before its elements are visited.

use postlude_ptx::kernel::Reg;
use postlude_ptx::types::F32;

use crate::graph::{Kind, NodeId};
use crate::plan::sm90::{Folded, Path, folded_by, terms_of};

use super::super::parameters::Destination;
use super::super::values::{Evaluator, Known, Place, State, Value};
use super::finishing::store;
use super::{Corner, Elements, Epilogue, Spot, of_group};

impl<'k> Epilogue<'_, 'k> {
    /// Adds to what is known of a thread's two rows of a block what follows from their own reductions.
    pub(super) fn pass_over(
        &self,
        evaluator: &Evaluator<'_, 'k>,
        (spot, places): (&Spot<'k>, &[Place<'k>; 2]),
        known: &mut [Known<'k>; 2],
        accumulators: &[Reg<'k, F32>],
    ) {
        let (graph, passes) = (self.plan.graph, &self.plan.passes);
        for pass in 1..=passes.iter().copied().max().unwrap_or(0) {
            let folded = folded_by(graph, passes, pass);
            let states = self.fold_rows(evaluator, spot, known, accumulators, &folded);
            for ((known, place), states) in known.iter_mut().zip(places).zip(states) {
                for (folded, state) in folded.iter().zip(states) {
                    let state = evaluator.fold_lanes(*folded, state, &[1, 2]);
                    let value = evaluator.fold_end(*folded, &state);
                    known[folded.node.index()] = Some(Value::Float(value));
                }
                let ready = |id: NodeId| passes[id.index()] == pass && !self.plan.late[id.index()];
                evaluator.extend_some(known, Kind::AlongRows, place, &[], ready);
            }
        }
    }

    /// What a thread has of its two rows' reductions.
    fn fold_rows(
        &self,
        evaluator: &Evaluator<'_, 'k>,
        spot: &Spot<'k>,
        known: &[Known<'k>; 2],
        accumulators: &[Reg<'k, F32>],
        folded: &[Folded],
    ) -> [Vec<State<'k>>; 2] {
        let only = terms_of(self.plan.graph, folded);
        let begin = || folded.iter().map(|one| evaluator.fold_begin(*one)).collect();
        let mut states: [Vec<State<'k>>; 2] = [(); 2].map(|()| begin());
        for (subtile, part) in self.subtiles(accumulators) {
            let arrived = self.arrivals.read(evaluator, &self.lanes, spot, subtile);
            for group in 0..subtile.columns as usize / 8 {
                let offset = subtile.offset + 8 * group as u32;
                let wanted = folded.iter().map(|one| one.terms).collect();
                let products = &of_group(&part, group);
                let elements = Elements { offset, products, wanted, only: Some(&only) };
                let terms = self.visit_group(evaluator, spot, known, &elements, |element| {
                    self.operands(&arrived, group, element)
                });
                for (place, (folded, (_, values))) in folded.iter().zip(&terms).enumerate() {
                    let nothing = evaluator.fold_nothing(*folded);
                    for (row, states) in states.iter_mut().enumerate() {
                        let own = [0, 1].map(|column| {
                            let inside = spot.remaining.gt(offset + column);
                            values[2 * row + column as usize].float().select(nothing, inside)
                        });
                        states[place] = evaluator.fold_more(*folded, &states[place], &own);
                    }
                }
            }
        }
        states
    }

    /// Writes outputs along rows that are known once the passes are done.
    pub(super) fn write_rows(
        &self,
        corner: &Corner<'k>,
        places: &[Place<'k>; 2],
        known: &[Known<'k>; 2],
    ) {
        let (k, graph, paths) = (self.k, self.plan.graph, &self.plan.schedule.needs.stores);
        let outputs = graph.outputs().iter().zip(paths).zip(&self.parameters.destinations);
        for ((output, path), destination) in outputs {
            let node = output.value.index();
            let own = *path == Path::Finished && !self.plan.late[node];
            if let (true, Destination::Direct(memory)) = (own, destination) {
                for (place, known) in places.iter().zip(known) {
                    let Some(value) = known[node] else {
                        panic!("compiler bug: an output without a value")
                    };
                    // The first of the four lanes that have the row, in the tile that has its columns.
                    let first = self.column.eq(0) & corner.tile[1].eq(0);
                    let inside = place.inside.map_or(first, |inside| inside & first);
                    let to = memory.element(k, place.at);
                    store(k, output.dtype, to, value.float(), Some(inside));
                }
            }
        }
    }
}
