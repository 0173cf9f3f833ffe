//! Row passes: reductions along rows that elements of the same rows use, as in softmax and norms.
//!
//! Where one tile holds whole rows, or the tiles of a cluster do, such a reduction is finished there, before elements
//! are visited. A reduction that needs the result of another takes one more pass over the accumulators.

use crate::dtype::Elem;
use crate::graph::{Dependence, Graph, Kind, NodeId, Reach};

/// How many row passes come before a node can be computed; all zero where no element uses a reduction of its row.
pub(super) fn passes(graph: &Graph, live: &[bool]) -> Vec<usize> {
    let mut passes = vec![0; graph.len()];
    let mut needed = false;
    for (id, node) in graph.nodes().filter(|(id, _)| live[id.index()]) {
        let before = node.op.operands().map(|operand| passes[operand.index()]).max().unwrap_or(0);
        let crosses_tiles = node.op.reduction().is_some_and(|(_, over, _)| over.crosses_rows());
        // The warpgroup that finishes a reduction over several tiles has no results of row passes.
        passes[id.index()] =
            if crosses_tiles { 0 } else { before + usize::from(is_whole_row(graph, id)) };
        needed |= node.ty.axes.kind() == Kind::Tile && before > 0;
    }
    if needed { passes } else { vec![0; graph.len()] }
}

/// Whether a node folds the whole rows of a tile.
pub(super) fn is_whole_row(graph: &Graph, id: NodeId) -> bool {
    let is_tile = |terms: NodeId| graph[terms].ty.axes.kind() == Kind::Tile;
    match graph[id].op.dependence() {
        Dependence::Reduce(_, over, terms) | Dependence::ReduceWeighted(_, over, terms, _) => {
            over.reach() == Reach::Row && is_tile(terms)
        }
        Dependence::Pick(terms, index) => {
            let is_single = graph[index].ty.axes.column.is_none();
            is_single && graph[terms].ty.elem == Elem::F32 && is_tile(terms)
        }
        Dependence::Source
        | Dependence::Elementwise(_)
        | Dependence::Part(..)
        | Dependence::Merge(..)
        | Dependence::Concat(_)
        | Dependence::Call => false,
    }
}
