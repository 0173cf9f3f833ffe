//! Passes over a row that threads hold: its elements are folded, and what follows from them is known in all its threads.

use crate::graph::{Axes, Kind, NodeId};
use crate::lower::Reduction;
use crate::target::sm90::plan::{EpilogueTransfer, row_folds};

use super::super::chip::EpilogueChip;
use super::super::epilogue::store;
use super::super::parameters::Destination;
use super::super::values::{Environment, Evaluator, Place, State, Term};
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
            let states = self.fold(row, environment, elements, reductions);
            self.finish_pass(number, reductions, states, place, environment);
        }
    }

    /// Adds what follows from a pass to the environment of its row, of which this thread has `states`.
    pub(super) fn finish_pass(
        &self,
        number: usize,
        reductions: &[Reduction],
        states: Vec<State<'k>>,
        place: &Place<'k>,
        environment: &mut Environment<'k>,
    ) {
        let (evaluator, program) = (self.evaluator(), self.plan.program);
        let states = self.exchange.combine(&evaluator, number, reductions, states);
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

    /// What a thread's elements add to the reductions of a pass.
    fn fold(
        &self,
        row: &HeldRow<'k>,
        environment: &Environment<'k>,
        elements: &mut Elements<'k>,
        reductions: &[Reduction],
    ) -> Vec<State<'k>> {
        let evaluator = self.evaluator();
        let roots = reductions.iter().flat_map(|one| one.operands());
        let only = self.missing(roots, &elements[0][0]);
        let mut totals: Vec<State<'k>> = Vec::new();
        for (number, elements) in elements.iter_mut().enumerate() {
            self.compute((row, number), environment, elements, &only);
            let fold = |one: &Reduction| {
                Self::fold_vector(&evaluator, (row, number), environment, elements, *one)
            };
            let states: Vec<State<'k>> = reductions.iter().map(fold).collect();
            self.forget(elements);
            totals = if number == 0 {
                states
            } else {
                let both = reductions.iter().zip(totals.iter().zip(&states));
                both.map(|(one, (all, more))| evaluator.fold_both(*one, all, more)).collect()
            };
        }
        totals
    }

    /// What one vector adds: nothing where it is beyond the last column.
    fn fold_vector(
        evaluator: &Evaluator<'_, 'k, C>,
        (row, number): (&HeldRow<'k>, usize),
        environment: &Environment<'k>,
        elements: &[Environment<'k>],
        reduction: Reduction,
    ) -> State<'k> {
        let terms = Self::terms(evaluator, (row, number), environment, elements, reduction);
        let state = evaluator.fold_some(reduction, &terms);
        let nothing = evaluator.fold_begin(reduction);
        let words = state.into_iter().zip(nothing);
        words.map(|(word, nothing)| word.select(nothing, row.vectors[number].inside)).collect()
    }

    /// The terms of a vector, as if it were inside.
    pub(super) fn terms(
        evaluator: &Evaluator<'_, 'k, C>,
        (row, number): (&HeldRow<'k>, usize),
        environment: &Environment<'k>,
        elements: &[Environment<'k>],
        reduction: Reduction,
    ) -> Vec<Term<'k>> {
        let vector = &row.vectors[number];
        let term = |(place, element): (usize, &Environment<'k>)| -> Term<'k> {
            let column = || vector.column + place as u32;
            let term = evaluator.fold_term_of(element, reduction, || (row.batch, row.at, column()));
            let number = (vector.column, place as u32);
            match Evaluator::<C>::fold_takes(reduction, environment, number, || None) {
                Some(counts) => evaluator.fold_where(reduction, term, counts),
                None => term,
            }
        };
        elements.iter().enumerate().map(term).collect()
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
