//! Blocks: reductions of runs of rows, with runs of columns or without, which a tile that holds them finishes for itself.
//!
//! In: a graph. Out: which reductions are of blocks.
//! A value of a run of rows is known in each of its rows, so that what follows from it is computed as rows and elements
//! are; only the reductions themselves cross rows.

use crate::graph::{Graph, Kind, NodeId, Op, Output, Reach};

/// Whether a node folds runs of rows of a tile's elements.
pub(super) fn is_block(graph: &Graph, id: NodeId) -> bool {
    let Op::Reduce(_, over, terms) = graph[id].op else { return false };
    let axes = graph.ty(terms).axes;
    over.reach() == Reach::Block && axes.kind() == Kind::Tile && axes.has_each_row()
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
