//! How often the epilogue passes over the tile.
//!
//! A reduction that crosses regions is finished only when all of them are done; what uses it belongs to the next sweep.

use crate::graph::{Graph, NodeId, Op, Output};

use super::schedule::Width;

/// Which sweep computes each node.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Sweeps {
    /// For every node, the sweep in which it is known.
    pub of: Vec<usize>,
    /// How many sweeps there are.
    pub count: usize,
    /// Whether a sweep after the first needs accumulators again.
    pub retains: bool,
}

/// Whether a reduction is complete only after every region has been seen.
pub(crate) fn crosses_regions(graph: &Graph, op: &Op, width: Width) -> bool {
    let Some((_, over, of)) = op.reduction() else { return false };
    // What does not vary from row to row is known whole before the first region.
    graph.ty(of).axes.has_each_row() && (over.crosses_rows() || width == Width::Part)
}

/// Assigns nodes to sweeps.
pub fn sweeps(graph: &Graph, width: Width) -> Sweeps {
    let mut of: Vec<usize> = Vec::with_capacity(graph.len());
    for (_, node) in graph.nodes() {
        let ready = node.op.operands().map(|operand| of[operand.index()]).max().unwrap_or(0);
        of.push(ready + usize::from(crosses_regions(graph, &node.op, width)));
    }
    let live = graph.live();
    let last = graph
        .nodes()
        .filter(|(id, _)| live[id.index()])
        .map(|(id, _)| of[id.index()])
        .max()
        .unwrap_or(0);
    let retains = (1..=last).any(|sweep| needs_accumulators(graph, &of, sweep, width));
    Sweeps { of, count: last + 1, retains }
}

/// Whether a value has to be computed row by row: it varies from row to row.
fn is_per_row(graph: &Graph, node: NodeId) -> bool {
    graph.ty(node).axes.has_each_row()
}

/// The nodes that a sweep computes row by row, among them those of earlier sweeps that were not kept (tiles are not).
pub(crate) fn row_nodes(graph: &Graph, of: &[usize], sweep: usize, width: Width) -> Vec<bool> {
    let live = graph.live();
    let mut wanted = vec![false; graph.len()];
    for value in graph.outputs().iter().flat_map(Output::values) {
        if of[value.index()] == sweep && is_per_row(graph, value) {
            wanted[value.index()] = true;
        }
    }
    for (id, node) in graph.nodes() {
        if !live[id.index()] {
            continue;
        }
        // The terms of a reduction that this sweep folds.
        if crosses_regions(graph, &node.op, width) && of[id.index()] == sweep + 1 {
            node.op.operands().for_each(|operand| wanted[operand.index()] = true);
        }
        // Values along rows are kept whole, for later sweeps and for what does not vary along rows.
        if of[id.index()] == sweep && is_per_row(graph, id) && graph.ty(id).axes.column.is_none() {
            wanted[id.index()] = true;
        }
    }
    for (id, node) in graph.nodes().rev() {
        if wanted[id.index()] && is_recomputed(graph, of, id, sweep, width) {
            node.op
                .operands()
                .filter(|operand| is_per_row(graph, *operand))
                .for_each(|operand| wanted[operand.index()] = true);
        }
    }
    (0..graph.len()).map(|index| wanted[index] && is_per_row(graph, graph.node_at(index))).collect()
}

/// Whether a sweep computes the node from its operands; if not, it reads what an earlier sweep kept.
pub(crate) fn is_recomputed(
    graph: &Graph,
    of: &[usize],
    node: NodeId,
    sweep: usize,
    width: Width,
) -> bool {
    let is_tile = graph.ty(node).axes.column.is_some();
    let finished = crosses_regions(graph, &graph[node].op, width);
    !finished && (is_tile || of[node.index()] == sweep)
}

fn needs_accumulators(graph: &Graph, of: &[usize], sweep: usize, width: Width) -> bool {
    let nodes = row_nodes(graph, of, sweep, width);
    graph.nodes().any(|(id, node)| nodes[id.index()] && matches!(node.op, Op::Accumulator(_)))
}
