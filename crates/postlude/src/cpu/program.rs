//! What one sweep does to each row of a region: straight-line steps over numbered slots.
//!
//! In: a sweep of a lowered kernel. Out: steps in order, and where what is stored, folded and kept is found.
//! Invariant: a step's elementwise operands are as wide as its result or single; wider runs are stretched before.

use crate::dtype::Elem;
use crate::graph::{Axes, Columns, Dependence, Fold, Graph, NodeId, Op};
use crate::lower::{How, Reduction, Sweep, SweepProgram};

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
    !matches!(op.dependence(), Dependence::Source | Dependence::Elementwise(_))
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
    pub(super) reduction: Reduction,
    pub(super) fold: Fold,
    /// `None` when there is no batch to fold.
    pub(super) terms: Option<Source>,
    /// Where terms have weights.
    pub(super) weights: Option<Source>,
    /// All nodes that its partial results give, each with the fold that finishes it.
    pub(super) members: Vec<(NodeId, Fold)>,
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
pub(super) fn program(lowered: &SweepProgram, sweep: &Sweep, batches: usize) -> Program {
    let graph: &Graph = lowered.graph();
    let is_there = |node: NodeId| batches > 0 || !graph.ty(node).axes.batch;
    let mut builder = Builder {
        graph,
        program: Program::default(),
        places: vec![None; graph.len()],
        stretched: Vec::new(),
    };
    for id in sweep.visit.iter().copied().filter(|id| is_there(*id)) {
        let source = if matches!(graph[id].op, Op::Accumulator(_)) {
            builder.program.uses_accumulators = true;
            Source::Accumulators
        } else {
            builder.evaluate(id)
        };
        builder.places[id.index()] = Some(source);
    }
    let kept = sweep.kept.iter().filter_map(|id| Some((*id, builder.places[id.index()]?)));
    builder.program.kept = kept.collect();
    for place in sweep.stores.iter().copied() {
        builder.store(place, batches);
    }
    for reduction in sweep.reductions.iter().copied() {
        let fold = fold_of(reduction);
        let is_there = is_there(reduction.terms);
        let terms = is_there.then(|| builder.source(reduction.terms));
        let weights = reduction.weights.filter(|_| is_there).map(|by| builder.source(by));
        let members = lowered.members(reduction).into_iter();
        let members = members.map(|member| (member.node, fold_of(member))).collect();
        builder.program.folds.push(Folded { reduction, fold, terms, weights, members });
    }
    builder.program
}

/// How regions fold; rows pick by themselves.
fn fold_of(reduction: Reduction) -> Fold {
    match reduction.how {
        How::Fold(fold) => fold,
        How::Pick(_) => panic!("compiler bug: regions share a pick"),
    }
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

    /// Stores a tile output. One of no batches has no elements, though its value may be there.
    fn store(&mut self, place: usize, batches: usize) {
        let output = &self.graph.outputs()[place];
        let declared = self.graph.space().axes(&output.dims);
        let varies = |axes: Axes| axes.batch;
        let batched = varies(self.graph.ty(output.value).axes) || declared.is_some_and(varies);
        if batches > 0 || !batched {
            let source = self.source_at(output.value, declared.and_then(Axes::columns));
            self.program.stores.push((place, source));
        }
    }
}
