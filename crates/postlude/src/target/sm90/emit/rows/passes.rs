//! Passes over a row that threads hold: its elements are folded, and what follows from them is known in all its threads.

use crate::graph::{Axes, Kind, NodeId};
use crate::lower::Reduction;
use crate::target::sm90::plan::{EpilogueTransfer, row_folds};

use super::super::chip::EpilogueChip;
use super::super::epilogue::store;
use super::super::parameters::Destination;
use super::super::values::{Environment, Place};
use super::folds::Total;
use super::held::HeldRow;
use super::{Elements, RowKernel};

impl<'k, C: EpilogueChip> RowKernel<'_, 'k, C> {
    /// Runs all passes: adds what follows from a row's reductions to its environment, and to its elements what passes
    /// compute of them, which later passes and the visit need not compute again.
    pub(super) fn pass_over(
        &self,
        row: &HeldRow<'k>,
        place: &Place<'k>,
        environment: &mut Environment<'k>,
        elements: &mut Elements<'k>,
    ) {
        for (number, reductions) in row_folds(self.plan.program).into_iter().enumerate() {
            let totals = self.begin_totals(reductions);
            self.fold_row(row, environment, elements, (reductions, &totals));
            self.finish_pass((number, reductions), &totals, place, environment);
        }
    }

    /// Adds what follows from a pass to the environment of its row, of which this thread has a part.
    pub(super) fn finish_pass(
        &self,
        (number, reductions): (usize, &[Reduction]),
        totals: &[Total<'k>],
        place: &Place<'k>,
        environment: &mut Environment<'k>,
    ) {
        let (evaluator, program) = (self.evaluator(), self.plan.program);
        let states = totals.iter().map(|total| total.iter().map(|word| word.copy()).collect());
        let states = self.exchange.combine(&evaluator, number, reductions, states.collect());
        for (reduction, state) in reductions.iter().zip(&states) {
            for one in program.members(*reduction) {
                let value = evaluator.fold_finish(one, state, environment);
                environment[one.node.index()] = Some(value);
            }
        }
        if number < program.row_passes.len() {
            let ready = |id: NodeId| {
                program.passes[id.index()] == number + 1 && !program.after_reductions[id.index()]
            };
            evaluator.extend_some(environment, Kind::AlongRows, place, &[], ready);
        } else if let Some(first) = reductions.first() {
            evaluator.extend_after_reductions(environment, first.scope, place);
        }
    }

    /// Writes outputs along rows, by the first thread of each.
    pub(super) fn write_rows(
        &self,
        place: &Place<'k>,
        row: &HeldRow<'k>,
        environment: &Environment<'k>,
    ) {
        let (k, graph) = (self.k, self.plan.graph);
        let transfers = &self.plan.schedule.needs.epilogue_stores;
        let outputs = graph.outputs().iter().zip(transfers).zip(&self.parameters.destinations);
        for ((output, transfer), destination) in outputs {
            let along = graph.space().axes(&output.dims).map(Axes::kind);
            let own = *transfer == EpilogueTransfer::Finished && along == Some(Kind::AlongRows);
            if let (true, Destination::Direct(memory)) = (own, destination) {
                let Some(value) = environment[output.value.index()] else {
                    panic!("compiler bug: an output without a value")
                };
                let first = self.holder.lane.eq(0);
                let first = self.holder.rank.map_or(first, |rank| first & rank.eq(0));
                let inside = row.inside.map_or(first, |inside| inside & first);
                store(k, output.dtype, memory.element(k, place.at), value, Some(inside));
            }
        }
    }
}
