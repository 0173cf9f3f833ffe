//! The finish of a scope: all partial results of its rows, columns or scalars are combined, and what is computed from
//! them is stored.
//!
//! In: a scope, all of whose partial results are written or about to be, in the threads of the warpgroup that arrived
//! last. A warpgroup that finishes a block of rows or columns may write a partial result of what it finished.

use crate::graph::Kind;
use crate::lower::{Reduction, ReductionScope};

use super::super::batch::Coordinate;
use super::super::chip::EpilogueChip;
use super::super::parameters::Destination;
use super::super::values::{Environment, Evaluator, Place, State};
use super::bounds::Bounds;
use super::partials::Partial;
use super::reductions::{Numbered, Reductions};
use super::second_stage::SecondStage;
use super::single::{begins_run, store_at};
use super::warp_exchange::{THREADS, WarpExchange};
use super::workspace::{Parts, ResultOf, Workspace, WorkspaceIndex};

#[derive(Clone, Copy)]
pub(super) struct Finisher<'a, 'k, C> {
    pub(super) evaluator: Evaluator<'a, 'k, C>,
    pub(super) reductions: Reductions<'a>,
    pub(super) exchange: WarpExchange<'a, 'k, C>,
    pub(super) workspace: Workspace<'a, 'k, C>,
}

impl<'k, C: EpilogueChip> Finisher<'_, 'k, C> {
    /// Finishes a scope at a tile's index.
    pub(super) fn finish(&self, scope: ReductionScope, index: WorkspaceIndex<'k>) {
        let index = self.workspace.first_of(scope, index);
        match scope.kind {
            Kind::AlongRows | Kind::AlongColumns => self.finish_vector(scope, index),
            Kind::Scalar => self.finish_scalars(scope, index),
            Kind::Tile => panic!("compiler bug: tiles finish themselves"),
        }
    }

    /// A block of rows or columns, each by one thread.
    fn finish_vector(&self, scope: ReductionScope, index: WorkspaceIndex<'k>) {
        let (k, workspace, along_rows) =
            (self.evaluator.k, &self.workspace, scope.kind == Kind::AlongRows);
        let parameters = self.evaluator.parameters;
        let (block, blocks, extent) = if along_rows {
            (index.unit, index.units, parameters.rows)
        } else {
            (index.tile, index.tiles, parameters.columns)
        };
        let length = workspace.block_length(scope.kind);
        let second_stage = SecondStage::new(&self.evaluator, self.reductions, scope);
        let apart = workspace.apart(scope.kind, index);
        k.for_(self.exchange.rank, length, THREADS, |within| {
            let number = block.mad(length, within);
            let inside = number.lt(extent);
            let (zero, batch) = (k.imm(0), parameters.batch_dims.batch(index.batch));
            let (at, of) = if along_rows {
                ((batch, number, zero), ResultOf::Row(number))
            } else {
                ((batch, zero, number), ResultOf::Column(number))
            };
            let place = Place { at, inside: Some(inside) };
            let known = environment(&self.evaluator, scope.kind, &place);
            let result = |one: Numbered| {
                let count = if one.1.is_pick() {
                    // No tile writes an element that does not exist.
                    let picked = Evaluator::<C>::picked(one.1, &known);
                    k.imm(1).select(0, inside & picked.lt(parameters.columns))
                } else {
                    workspace.count(one.1, index)
                };
                let parts = Parts { count, apart, first: k.imm(0), step: 1 };
                let gather = || workspace.gather(one, index, of, parts);
                let (Some(_), ResultOf::Row(row)) = (one.1.bounded(), of) else {
                    return (one.1, gather());
                };
                let total = Partial::begin(&self.evaluator, one.1);
                let bounds = Bounds { workspace: *workspace, rank: self.exchange.rank };
                k.if_else(
                    Bounds::<C>::apply(one.1, index),
                    || bounds.gather(one, index, row, count, &total),
                    || total.set(gather()),
                );
                (one.1, total.state())
            };
            let results: Vec<_> = self.reductions.in_scope(scope).map(result).collect();
            let environment = store_outputs(&self.evaluator, scope, &place, known, &results);
            let counts = |reduction: Reduction| match self.evaluator.plan.program.runs
                [reduction.terms.index()]
            {
                run if run > 1 && !along_rows => inside & begins_run(number, run),
                _ => inside,
            };
            second_stage.add(&self.evaluator, (&environment, at), counts);
            self.leave_finished(scope, index, (&environment, at), of);
        });
        second_stage.leave(&self.exchange, workspace, index, (block, blocks));
    }

    /// Scalars, each by all threads of the warpgroup.
    fn finish_scalars(&self, scope: ReductionScope, index: WorkspaceIndex<'k>) {
        let (k, workspace) = (self.evaluator.k, &self.workspace);
        let gathered = self.reductions.in_scope(scope).map(|one| {
            let (count, apart) =
                (workspace.count(one.1, index), workspace.apart(scope.kind, index));
            let parts = Parts { count, apart, first: self.exchange.rank, step: THREADS };
            (one, workspace.gather(one, index, ResultOf::Scalar, parts))
        });
        self.exchange.fold_scalars(gathered, || {
            let result = |one: Numbered| (one.1, self.exchange.load_scalar(one));
            let results: Vec<_> = self.reductions.in_scope(scope).map(result).collect();
            let zero = k.imm(0);
            let batch = self.evaluator.parameters.batch_dims.batch(index.batch);
            let place = Place { at: (batch, zero, zero), inside: None };
            let known = environment(&self.evaluator, Kind::Scalar, &place);
            let environment = store_outputs(&self.evaluator, scope, &place, known, &results);
            self.leave_finished(scope, index, (&environment, place.at), ResultOf::Scalar);
        });
    }

    /// Writes a batch's row, column or scalar as a partial result of the one of all batches.
    fn leave_finished(
        &self,
        scope: ReductionScope,
        index: WorkspaceIndex<'k>,
        (environment, at): (&Environment<'k>, Coordinate<'k>),
        of: ResultOf<'k>,
    ) {
        let from = self.reductions.from(scope);
        for one in from.filter(|(_, reduction)| reduction.scope.kind == scope.kind) {
            let term = self.evaluator.fold_term_of(environment, one.1, || at);
            let state = self.evaluator.fold_some(one.1, &[term]);
            let first = self.workspace.first_of(one.1.scope, index);
            self.workspace.write(one, first, (index.batch, of), &state);
        }
    }
}

/// The environment of a place without finished reductions.
pub(super) fn environment<'k, C: EpilogueChip>(
    evaluator: &Evaluator<'_, 'k, C>,
    kind: Kind,
    place: &Place<'k>,
) -> Environment<'k> {
    let mut environment: Environment<'k> = vec![None; evaluator.plan.graph.len()];
    evaluator.extend(&mut environment, Kind::Scalar, place, &[]);
    match kind {
        Kind::AlongColumns => evaluator.extend_column(&mut environment, place),
        Kind::AlongRows | Kind::Tile => {
            evaluator.extend(&mut environment, kind, place, &[]);
        }
        Kind::Scalar => {}
    }
    environment
}

/// Computes what follows from finished reductions, and stores the outputs of this scope; returns the environment.
pub(super) fn store_outputs<'k, C: EpilogueChip>(
    evaluator: &Evaluator<'_, 'k, C>,
    scope: ReductionScope,
    place: &Place<'k>,
    mut environment: Environment<'k>,
    results: &[(Reduction, State<'k>)],
) -> Environment<'k> {
    let graph = evaluator.plan.graph;
    for (reduction, state) in results {
        for one in evaluator.plan.program.members(*reduction) {
            let value = evaluator.fold_finish(one, state, &environment);
            environment[one.node.index()] = Some(value);
        }
    }
    evaluator.extend_after_reductions(&mut environment, scope, place);
    for (output, destination) in graph.outputs().iter().zip(&evaluator.parameters.destinations) {
        let lives = ReductionScope::of(graph, graph.ty(output.value).axes) == scope
            && evaluator.plan.program.after_reductions[output.value.index()];
        if let (true, Destination::Direct(memory)) = (lives, destination) {
            let Some(value) = environment[output.value.index()] else {
                panic!("compiler bug: an output without a value")
            };
            let run = evaluator.plan.program.output_run(output);
            store_at(evaluator.k, (output, memory, run), place.at, value, place.inside);
        }
    }
    environment
}
