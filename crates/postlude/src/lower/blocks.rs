//! Blocks: reductions of runs of rows, with runs of columns or without, which a tile that holds them finishes for itself.
//!
//! In: a graph. Out: which reductions are of blocks, and how many passes over a tile come before a node can be computed.
//! A value of a run of rows is known in each of its rows, so that what follows from it is computed as rows and elements
//! are; only the reductions themselves cross rows.

use crate::graph::{Graph, Kind, NodeId, Op, Output, Run};

/// Whether a node folds runs of rows of a tile's elements.
pub(super) fn is_block(graph: &Graph, id: NodeId) -> bool {
    let Op::Reduce(_, over, terms) = graph[id].op else { return false };
    let axes = graph.ty(terms).axes;
    matches!(over.row, Some(Run::Group(_)))
        && !over.batch
        && over.column != Some(Run::All)
        && axes.kind() == Kind::Tile
        && axes.has_each_row()
}

/// How many passes over the blocks of a tile come before a node can be computed.
pub(super) fn passes(graph: &Graph, live: &[bool]) -> Vec<usize> {
    let mut passes = vec![0; graph.len()];
    for (id, node) in graph.nodes().filter(|(id, _)| live[id.index()]) {
        let before = node.op.operands().map(|operand| passes[operand.index()]).max().unwrap_or(0);
        passes[id.index()] = before + usize::from(is_block(graph, id));
    }
    passes
}

/// Rows of the product that one of an output's stands for.
pub(super) fn output_row_run(graph: &Graph, output: &Output) -> u32 {
    graph.space().axes(&output.dims).and_then(|axes| axes.row).unwrap_or(1)
}

/// Every length of a run of rows that is folded, longest first.
pub(super) fn lengths(graph: &Graph, live: &[bool]) -> Vec<u32> {
    let blocks = graph.nodes().filter(|(id, _)| live[id.index()] && is_block(graph, *id));
    let mut lengths: Vec<u32> = blocks.filter_map(|(_, node)| node.ty.axes.row).collect();
    lengths.sort_unstable_by(|a, b| b.cmp(a));
    lengths.dedup();
    lengths
}
