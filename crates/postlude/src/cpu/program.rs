//! What one sweep does to each row of a region: straight-line steps over numbered slots.
//!
//! In: a graph and its sweeps. Out: steps in order, what is stored, what is folded, what is kept.
//! Invariant: a step's elementwise operands are as wide as its result or single; wider runs are stretched before.

use crate::dtype::Elem;
use crate::graph::{Axes, Columns, Graph, NodeId, Op, Over};
use crate::plan::{Sweeps, Width, crosses_regions, is_recomputed, row_nodes};

/// Where a step finds an operand.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Source {
    /// A slot of this row.
    Slot(usize),
    /// The row's accumulators.
    Accumulators,
    /// A finished value, by place in [`Program::known`].
    Known(usize),
}

/// The most operands that a step has: the parts of a split.
pub(super) const MOST_OPERANDS: usize = 16;

/// Whether an operation reads its operands at their own widths.
pub(super) fn moves(op: &Op) -> bool {
    op.reduction().is_some()
        || matches!(op, Op::Part(..) | Op::Merge(..) | Op::Concat(..) | Op::Pick(..))
}

/// One step.
#[derive(Clone, Debug)]
pub(super) enum Step {
    /// Computes a node.
    Evaluate { node: NodeId, operands: Vec<Source>, out: usize },
    /// Repeats each value of a coarser run.
    Stretch { from: Source, out: usize },
}

/// A slot: the values of one node in one row, or a stretched run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Slot {
    pub(super) elem: Elem,
    /// A single value for `None`.
    pub(super) columns: Option<Columns>,
}

/// Terms of a reduction that the sweep folds.
#[derive(Clone, Debug)]
pub(super) struct Folded {
    /// The reduction.
    pub(super) node: NodeId,
    pub(super) over: Over,
    /// `None` when there is no batch to fold.
    pub(super) terms: Option<Source>,
    /// Where terms have weights.
    pub(super) weights: Option<Source>,
    /// Whether the terms have no columns.
    pub(super) once_a_row: bool,
    /// Whether the terms are the same in every batch.
    pub(super) once_a_call: bool,
    /// Other reductions that have the same partial results.
    pub(super) shared: Vec<NodeId>,
}

/// What a sweep does to a row.
#[derive(Clone, Debug, Default)]
pub(super) struct Program {
    pub(super) steps: Vec<Step>,
    pub(super) slots: Vec<Slot>,
    /// Finished values that steps read, and the columns they are read at.
    pub(super) known: Vec<(NodeId, Option<Columns>)>,
    /// Tile outputs: which, and what.
    pub(super) stores: Vec<(usize, Source)>,
    pub(super) folds: Vec<Folded>,
    /// Values along rows that later sweeps read.
    pub(super) kept: Vec<(NodeId, Source)>,
    pub(super) uses_accumulators: bool,
}

impl Program {
    /// Whether there is nothing to do.
    pub(super) fn is_empty(&self) -> bool {
        self.stores.is_empty() && self.folds.is_empty() && self.kept.is_empty()
    }
}

struct Builder<'a> {
    graph: &'a Graph,
    program: Program,
    places: Vec<Option<Source>>,
    stretched: Vec<((Source, Columns), Source)>,
}

/// The program of one sweep. Without a batch to run, only what does not vary with the batch is left of it.
pub(super) fn program(
    graph: &Graph,
    sweeps: &Sweeps,
    sweep: usize,
    width: Width,
    batches: usize,
) -> Program {
    let wanted = row_nodes(graph, &sweeps.of, sweep, width);
    let is_there = |node: NodeId| batches > 0 || !graph.ty(node).axes.batch;
    let mut builder = Builder {
        graph,
        program: Program::default(),
        places: vec![None; graph.len()],
        stretched: Vec::new(),
    };
    for (id, node) in graph.nodes().filter(|(id, _)| wanted[id.index()] && is_there(*id)) {
        if !is_recomputed(graph, &sweeps.of, id, sweep, width) {
            continue;
        }
        let source = if matches!(node.op, Op::Accumulator(_)) {
            builder.program.uses_accumulators = true;
            Source::Accumulators
        } else {
            builder.evaluate(id)
        };
        builder.places[id.index()] = Some(source);
        if node.ty.axes.column.is_none() && sweeps.of[id.index()] == sweep {
            builder.program.kept.push((id, source));
        }
    }
    builder.store(sweeps, sweep, batches, is_there);
    builder.fold(sweeps, sweep, width, is_there);
    builder.program
}

impl Builder<'_> {
    fn evaluate(&mut self, id: NodeId) -> Source {
        let node = &self.graph[id];
        let columns = node.ty.axes.columns();
        let moves = moves(&node.op);
        let operands = node.op.operands().collect::<Vec<_>>();
        let operands = operands
            .into_iter()
            .map(
                |operand| {
                    if moves { self.source(operand) } else { self.source_at(operand, columns) }
                },
            )
            .collect();
        let out = self.slot(node.ty.elem, columns);
        self.program.steps.push(Step::Evaluate { node: id, operands, out });
        Source::Slot(out)
    }

    fn slot(&mut self, elem: Elem, columns: Option<Columns>) -> usize {
        self.program.slots.push(Slot { elem, columns });
        self.program.slots.len() - 1
    }

    /// A value at its own width.
    fn source(&mut self, node: NodeId) -> Source {
        let columns = self.graph.ty(node).axes.columns();
        self.places[node.index()].unwrap_or_else(|| self.known(node, columns))
    }

    /// A value where there are these columns.
    fn source_at(&mut self, node: NodeId, columns: Option<Columns>) -> Source {
        let own = self.graph.ty(node).axes.columns();
        let Some(place) = self.places[node.index()] else {
            return self.known(node, if own.is_some() { columns } else { None });
        };
        match (own, columns) {
            (Some(own), Some(wanted)) if own != wanted => {
                self.stretch(place, wanted, self.graph.ty(node).elem)
            }
            _ => place,
        }
    }

    fn known(&mut self, node: NodeId, columns: Option<Columns>) -> Source {
        let entry = (node, columns);
        let place =
            self.program.known.iter().position(|known| *known == entry).unwrap_or_else(|| {
                self.program.known.push(entry);
                self.program.known.len() - 1
            });
        Source::Known(place)
    }

    fn stretch(&mut self, from: Source, columns: Columns, elem: Elem) -> Source {
        if let Some((_, source)) = self.stretched.iter().find(|(key, _)| *key == (from, columns)) {
            return *source;
        }
        let out = self.slot(elem, Some(columns));
        self.program.steps.push(Step::Stretch { from, out });
        self.stretched.push(((from, columns), Source::Slot(out)));
        Source::Slot(out)
    }

    /// Tile outputs of this sweep; others are stored when everything is finished.
    fn store(
        &mut self,
        sweeps: &Sweeps,
        sweep: usize,
        batches: usize,
        is_there: impl Fn(NodeId) -> bool,
    ) {
        for (place, output) in self.graph.outputs().iter().enumerate() {
            let declared = self.graph.space().axes(&output.dims);
            // An output of no batches has no elements, though its value may be there.
            if batches == 0 && declared.is_some_and(|axes| axes.batch) {
                continue;
            }
            let value = self.graph.ty(output.value).axes;
            let is_tile = value.has_each_row() && value.column.is_some();
            if is_tile && sweeps.of[output.value.index()] == sweep && is_there(output.value) {
                let columns = declared.and_then(Axes::columns);
                let source = self.source_at(output.value, columns);
                self.program.stores.push((place, source));
            }
        }
    }

    fn fold(
        &mut self,
        sweeps: &Sweeps,
        sweep: usize,
        width: Width,
        is_there: impl Fn(NodeId) -> bool,
    ) {
        let live = self.graph.live();
        for (id, node) in self.graph.nodes() {
            if let Some((_, over, of)) = node.op.reduction() {
                let now = live[id.index()]
                    && sweeps.of[id.index()] == sweep + 1
                    && crosses_regions(self.graph, &node.op, width);
                let before = self.program.folds.iter_mut();
                let shared =
                    before.filter(|_| now).find(|folded| self.graph.folds_alike(folded.node, id));
                if let Some(folded) = shared {
                    folded.shared.push(id);
                } else if now {
                    let terms = is_there(of).then(|| self.source(of));
                    let weights = match node.op {
                        Op::ReduceWeighted(.., by) => is_there(of).then(|| self.source(by)),
                        _ => None,
                    };
                    let axes = self.graph.ty(of).axes;
                    let (once_a_row, once_a_call) = (axes.column.is_none(), !axes.batch);
                    self.program.folds.push(Folded {
                        node: id,
                        over,
                        terms,
                        weights,
                        once_a_row,
                        once_a_call,
                        shared: Vec::new(),
                    });
                }
            }
        }
    }
}
