//! A kernel as sweeps over all of its regions, for an engine that is not bound to one launch.
//!
//! In: an optimised graph, whatever it splits, puts together or reduces. Out: a [`SweepProgram`]. A reduction that several
//! regions share is finished behind a sweep; what uses it belongs to the next one.
//! Invariant: nothing that a sweep reads is finished by itself or a later one.

mod text;

use std::sync::Arc;

use crate::graph::{Axes, Graph, NodeId, Op, Output, Reach, Run};

use super::reductions::{Reduction, leading};

/// What a region holds of its rows.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Width {
    /// Part of a row: the math needs no other columns.
    Part,
    /// A whole row: a value meets other columns of its row.
    Row,
}

/// What a kernel computes, in sweeps.
#[derive(Clone, Debug)]
pub struct SweepProgram {
    graph: Arc<Graph>,
    /// Of what computes its computed inputs, in the order of [`Graph::earlier`].
    pub(crate) earlier: Vec<Arc<SweepProgram>>,
    live: Vec<bool>,
    /// What regions hold.
    pub(crate) width: Width,
    /// Whether a sweep after the first reads accumulators again.
    pub(crate) retains: bool,
    pub(crate) sweeps: Vec<Sweep>,
}

/// One sweep.
#[derive(Clone, Debug)]
pub(crate) struct Sweep {
    /// Values that do not vary from row to row, which are finished first, in order.
    pub(crate) before: Vec<NodeId>,
    /// What is computed in each row, in order. No memory holds elements, so those of earlier sweeps are computed again.
    pub(crate) visit: Vec<NodeId>,
    /// Values along rows of the visit, which are kept for later sweeps and for what does not vary from row to row.
    pub(crate) kept: Vec<NodeId>,
    /// Outputs that regions store.
    pub(crate) stores: Vec<usize>,
    /// Reductions that are finished when all regions are done.
    pub(crate) reductions: Vec<Reduction>,
}

impl SweepProgram {
    /// Of a graph.
    pub fn new(graph: &Arc<Graph>) -> SweepProgram {
        let width = if needs_whole_rows(graph) { Width::Row } else { Width::Part };
        let live = graph.live();
        let known = graph.depths(|id| crosses_regions(graph, width, id));
        let used = known.iter().zip(&live).filter(|(_, live)| **live);
        let last = used.map(|(sweep, _)| *sweep).max().unwrap_or(0);
        let values = Values { graph, live: &live, known, width };
        let sweeps: Vec<Sweep> = (0..=last).map(|sweep| values.sweep(sweep)).collect();
        let multiplies = |id: &NodeId| matches!(graph[*id].op, Op::Accumulator(_));
        let retains = sweeps[1..].iter().any(|sweep| sweep.visit.iter().any(multiplies));
        let earlier = graph.earlier().into_iter();
        let earlier = earlier.map(|it| Arc::new(SweepProgram::new(it.graph))).collect();
        SweepProgram { graph: graph.clone(), earlier, live, width, retains, sweeps }
    }

    /// The graph that it was made of.
    pub(crate) fn graph(&self) -> &Arc<Graph> {
        &self.graph
    }

    /// All results of a reduction: several where nodes share its partial results.
    pub(crate) fn members(&self, reduction: Reduction) -> Vec<Reduction> {
        reduction.members(&self.graph, &self.live)
    }

    /// Whether regions store an output.
    pub(crate) fn is_stored(&self, output: usize) -> bool {
        self.sweeps.iter().any(|sweep| sweep.stores.contains(&output))
    }
}

/// Whether several regions share a reduction. What does not vary from row to row is known whole before the first one.
fn crosses_regions(graph: &Graph, width: Width, id: NodeId) -> bool {
    let Some((_, over, terms)) = graph[id].op.reduction() else { return false };
    let shared = match over.reach() {
        Reach::Run | Reach::Row => width == Width::Part,
        Reach::Block | Reach::Tiles => true,
    };
    shared && graph.ty(terms).axes.has_each_row()
}

/// The values of a graph and the sweep in which each is known.
struct Values<'a> {
    graph: &'a Graph,
    live: &'a [bool],
    known: Vec<usize>,
    width: Width,
}

impl Values<'_> {
    fn sweep(&self, sweep: usize) -> Sweep {
        let wanted = self.wanted(sweep);
        let known = |id: &NodeId| self.known[id.index()] == sweep;
        let axes = |id: NodeId| self.graph.ty(id).axes;
        let before = |id: &NodeId| known(id) && !axes(*id).has_each_row() && !self.crosses(*id);
        let visit = |id: &NodeId| wanted[id.index()] && self.is_visited(*id, sweep);
        let kept = |id: &NodeId| visit(id) && known(id) && axes(*id).column.is_none();
        let stored = |output: &Output| known(&output.value) && is_row_of_tile(axes(output.value));
        let outputs = self.graph.outputs();
        let reductions = self.live().filter(|id| self.is_folded(*id, sweep));
        let reductions = reductions.filter_map(|id| Reduction::by_itself(self.graph, id));
        Sweep {
            before: self.live().filter(before).collect(),
            visit: self.live().filter(visit).collect(),
            kept: self.live().filter(kept).collect(),
            stores: (0..outputs.len()).filter(|place| stored(&outputs[*place])).collect(),
            reductions: leading(self.graph, reductions),
        }
    }

    fn crosses(&self, id: NodeId) -> bool {
        crosses_regions(self.graph, self.width, id)
    }

    /// Whether a sweep folds the terms of a reduction.
    fn is_folded(&self, id: NodeId, sweep: usize) -> bool {
        self.known[id.index()] == sweep + 1 && self.crosses(id)
    }

    /// Whether a sweep computes a value of its rows from its operands; if not, it reads what an earlier one kept.
    fn is_visited(&self, id: NodeId, sweep: usize) -> bool {
        let axes = self.graph.ty(id).axes;
        let again = axes.column.is_some() || self.known[id.index()] == sweep;
        axes.has_each_row() && again && !self.crosses(id)
    }

    fn live(&self) -> impl Iterator<Item = NodeId> {
        self.graph.nodes().map(|(id, _)| id).filter(|id| self.live[id.index()])
    }

    /// Which values a sweep reads or makes: outputs, what it folds and keeps, and what these are made of.
    fn wanted(&self, sweep: usize) -> Vec<bool> {
        let known = |id: &NodeId| self.known[id.index()] == sweep;
        let outputs = self.graph.outputs().iter().flat_map(Output::values);
        let along_rows = self.live().filter(|id| self.graph.ty(*id).axes.column.is_none());
        let folds = self.live().filter(|id| self.is_folded(*id, sweep));
        let folded = folds.flat_map(|id| self.graph[id].op.operands());
        let roots = outputs.chain(along_rows).filter(known).chain(folded);
        self.graph.made_of(roots, |id| self.is_visited(id, sweep))
    }
}

/// Whether a value has elements in each row.
fn is_row_of_tile(axes: Axes) -> bool {
    axes.has_each_row() && axes.column.is_some()
}

/// Whether some value meets other columns of its row before the row is finished.
fn needs_whole_rows(graph: &Graph) -> bool {
    let own = graph.space().accumulator_axes().columns();
    let other_columns = |axes: Axes| is_row_of_tile(axes) && axes.columns() != own;
    let reduction = |id: NodeId| {
        let reduction = graph[id].op.reduction();
        reduction.filter(|(_, _, terms)| graph.ty(*terms).axes.has_each_row())
    };
    let along_row = |id: NodeId| {
        let reach = reduction(id).map(|(_, over, _)| over.reach());
        matches!(reach, Some(Reach::Run | Reach::Row))
    };
    let after_row = graph.depths(along_row);
    let meets = |id: NodeId| {
        let (op, axes) = (&graph[id].op, graph.ty(id).axes);
        let moves = matches!(op, Op::Part(..) | Op::Merge(..) | Op::Concat(..) | Op::Pick(..));
        // A region folds the runs that begin in it.
        let torn =
            reduction(id).is_some_and(|(_, over, _)| matches!(over.column, Some(Run::Group(_))));
        let waits = || op.operands().any(|operand| after_row[operand.index()] > 0);
        other_columns(axes)
            || moves && axes.has_each_row()
            || torn
            || is_row_of_tile(axes) && waits()
    };
    graph.nodes().any(|(id, _)| meets(id))
        || graph
            .outputs()
            .iter()
            .any(|output| graph.space().axes(&output.dims).is_some_and(other_columns))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::define::defined;
    use crate::lower::TileTextError;

    /// What a kernel's program says of each line but the first.
    fn parts(body: &str, outputs: &str) -> Vec<String> {
        let signature = "kernel k(A: bf16[M, K], W: bf16[N, K], b: f32[N], t: i32[M])";
        let graph = defined(&format!("{signature} -> {outputs} {{ {body} }}"));
        let program = SweepProgram::new(&Arc::new(graph));
        let text = program.to_string();
        let read: SweepProgram = text.parse().expect("it reads back");
        assert_eq!(read.to_string(), text);
        let lines = text.lines().skip(2);
        lines.map(|line| line.trim().get(..10).unwrap_or_default().trim().to_owned()).collect()
    }

    #[test]
    fn a_region_of_whole_rows_finishes_their_reductions() {
        let parts = parts("D = softmax(A @ W.T + b, N)", "D: bf16[M, N]");
        assert!(!parts.iter().any(|part| part.starts_with("reduce") || part.ends_with('2')));
        assert!(parts.contains(&"store 1".to_owned()), "{parts:?}");
    }

    #[test]
    fn what_uses_a_reduction_of_all_regions_belongs_to_the_next_sweep() {
        let parts =
            parts("z = A @ W.T\n D = z / absmax(z)\n s = sum(z, N)", "(D: f32[M, N], s: f32[M])");
        for part in ["reduce 1", "visit 1,2", "visit 2", "store 2", "finish"] {
            assert!(parts.contains(&part.to_owned()), "{part} of {parts:?}");
        }
    }

    #[test]
    fn a_line_of_another_sweep_is_named() {
        let graph = Arc::new(defined("s = sum(A @ W.T)"));
        let text = SweepProgram::new(&graph).to_string();
        let wrong = text.replacen("reduce 1", "reduce 2", 1);
        let line =
            1 + text.lines().position(|line| line.contains("reduce 1")).expect("a reduction");
        let error = wrong.parse::<SweepProgram>().unwrap_err();
        assert!(
            matches!(error, TileTextError::Sweep { line: found, .. } if found == line),
            "{error}"
        );
        assert!("".parse::<SweepProgram>().is_err());
    }
}
