//! Groups of columns: reductions of runs, which a tile finishes for itself, and the values of fewer columns that follow.
//!
//! A value of fewer columns is one for each row and *run* of the product's columns. Tiles hold whole runs, so everything
//! about a run is known in the tile, before its elements are visited.

use crate::graph::{Concat, Graph, Kind, NodeId, Op, Output, Part, Reach};

/// Columns of the product that a column of such a value stands for: 1 for its own, 0 for more than it has.
fn run_of(graph: &Graph, column: Option<u32>) -> u32 {
    column.map_or(1, |divisor| divisor / graph.space().column.divisor())
}

/// For every node, the columns of the product that one of its own stands for.
pub(super) fn runs(graph: &Graph) -> Vec<u32> {
    graph.nodes().map(|(_, node)| run_of(graph, node.ty.axes.column)).collect()
}

/// The run of an output's columns.
pub(super) fn output_run(graph: &Graph, output: &Output) -> u32 {
    run_of(graph, graph.space().axes(&output.dims).and_then(|axes| axes.column))
}

/// Every length of a run that tiles know of that is longer than a column, longest first.
pub(super) fn lengths(graph: &Graph, live: &[bool], runs: &[u32]) -> Vec<u32> {
    let tiles = || {
        graph.outputs().iter().filter(|output| {
            let axes = graph.space().axes(&output.dims);
            axes.is_none_or(|axes| axes.kind() == Kind::Tile)
        })
    };
    // Vectors that no tile uses, and that no output repeats in one, go with the columns.
    let is_tile = |id: &NodeId| graph.ty(*id).axes.kind() == Kind::Tile;
    let of_tiles = graph.nodes().map(|(id, _)| id).filter(|id| live[id.index()] && is_tile(id));
    let roots = of_tiles.chain(tiles().map(|output| output.value));
    let known = graph.made_of(roots, |id| is_tile(&id) || runs[id.index()] > 1);
    let nodes = known.iter().zip(runs).filter(|(known, _)| **known).map(|(_, run)| *run);
    let outputs = tiles().map(|output| output_run(graph, output));
    let repeated =
        graph.nodes().filter(|(id, _)| live[id.index()]).map(|(_, node)| match node.op {
            Op::Part(Part::Repeated { run, .. }, _) | Op::Concat(Concat::Repeated(run), _) => run,
            _ => 1,
        });
    longest_first(nodes.chain(outputs).chain(repeated))
}

fn longest_first(runs: impl Iterator<Item = u32>) -> Vec<u32> {
    let mut lengths: Vec<u32> = runs.filter(|run| *run > 1).collect();
    lengths.sort_unstable_by(|a, b| b.cmp(a));
    lengths.dedup();
    lengths
}

/// Vectors of fewer columns that are computed column by column, by the length of their runs, longest first: outputs, what
/// they and vectors of all columns are made of, and what is reduced further.
pub(super) fn column_runs(graph: &Graph, live: &[bool], runs: &[u32]) -> Vec<(u32, Vec<NodeId>)> {
    let mut wanted = vec![false; graph.len()];
    graph.outputs().iter().for_each(|output| wanted[output.value.index()] = true);
    for (id, node) in graph.nodes().rev().filter(|(id, _)| live[id.index()]) {
        let along = node.ty.axes.kind() == Kind::AlongColumns;
        let reduces = node.op.reduction().is_some() && node.ty.axes.kind() == Kind::Scalar;
        if reduces || along && (runs[id.index()] == 1 || wanted[id.index()]) {
            node.op.operands().for_each(|operand| wanted[operand.index()] = true);
        }
    }
    let along = |id: NodeId| graph.ty(id).axes.kind() == Kind::AlongColumns && wanted[id.index()];
    let all: Vec<NodeId> = graph.nodes().map(|(id, _)| id).filter(|id| along(*id)).collect();
    let of_run = |run: u32| all.iter().copied().filter(|id| runs[id.index()] == run).collect();
    let lengths = longest_first(all.iter().map(|id| runs[id.index()]));
    lengths.into_iter().map(|run| (run, of_run(run))).collect()
}

/// Whether a node folds runs of a tile's elements.
pub(super) fn is_reduction_of_run(graph: &Graph, id: NodeId) -> bool {
    let Some((_, over, of)) = graph[id].op.reduction() else { return false };
    let axes = graph[of].ty.axes;
    let elements = axes.kind() == Kind::Tile && run_of(graph, axes.column) == 1;
    over.reach() == Reach::Run && elements
}

/// The smallest multiple of both, as far as there are numbers for it.
pub(crate) fn least_common_multiple(a: u32, b: u32) -> u32 {
    let (mut larger, mut smaller) = (a, b);
    while smaller > 0 {
        (larger, smaller) = (smaller, larger % smaller);
    }
    (a / larger.max(1)).saturating_mul(b)
}
