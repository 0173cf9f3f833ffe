//! Row passes: reductions along rows that elements of the same rows use, as in softmax and norms.
//!
//! Where one tile holds whole rows, or the tiles of a cluster do, such a reduction is finished there, before elements
//! are visited. A reduction that needs the result of another takes one more pass over the accumulators.

use crate::graph::{Graph, Kind, NodeId, Op};

use super::folds::{self, Reduction, is_whole_row};
use super::{CANDIDATES, Needs, Sm90Refusal, groups};

/// How many row passes come before a node can be computed; all zero where no element uses a reduction of its row.
pub(crate) fn passes(graph: &Graph) -> Vec<usize> {
    let live = graph.live();
    let mut passes = vec![0; graph.len()];
    let mut needed = false;
    for (id, node) in graph.nodes().filter(|(id, _)| live[id.index()]) {
        let before = node.op.operands().map(|operand| passes[operand.index()]).max().unwrap_or(0);
        let crosses_tiles = matches!(node.op, Op::Reduce(_, over, _) if over.row || over.batch);
        // The warpgroup that finishes a reduction over several tiles has no results of row passes.
        passes[id.index()] =
            if crosses_tiles { 0 } else { before + usize::from(is_whole_row(graph, id)) };
        needed |= node.ty.axes.kind() == Kind::Tile && before > 0;
    }
    if needed { passes } else { vec![0; graph.len()] }
}

/// The reductions that a pass finishes.
pub(crate) fn reductions_of_pass(graph: &Graph, passes: &[usize], pass: usize) -> Vec<Reduction> {
    let in_pass = |id: &NodeId| passes[id.index()] == pass && is_whole_row(graph, *id);
    let after_reductions = folds::after_reductions(graph);
    let nodes = graph.nodes().map(|(id, _)| id).filter(in_pass);
    nodes.filter_map(|id| folds::reduction(graph, &after_reductions, id)).collect()
}

/// Which nodes have to be computed for some values of a tile. Values of groups of columns are there already, unless
/// `through` says that they are to be computed, too.
pub(crate) fn terms_of(
    graph: &Graph,
    roots: impl Iterator<Item = NodeId>,
    through: bool,
) -> Vec<bool> {
    let runs = groups::runs(graph);
    let mut wanted = vec![false; graph.len()];
    roots.for_each(|root| wanted[root.index()] = true);
    for (id, node) in graph.nodes().rev() {
        let coarse = runs[id.index()] > 1;
        let inner = (node.ty.axes.kind() == Kind::Tile && !coarse) || (through && coarse);
        if wanted[id.index()] && inner {
            node.op.operands().for_each(|operand| wanted[operand.index()] = true);
        }
    }
    wanted
}

/// Columns of whole rows that tiles have to hold; 0 where none has to.
pub(super) fn whole_columns(graph: &Graph, columns: usize) -> u32 {
    let needed = passes(graph).iter().any(|passes| *passes > 0);
    if needed { u32::try_from(columns.max(1)).unwrap_or(u32::MAX) } else { 0 }
}

/// Floats of a row in the pass that folds most.
pub(super) fn pass_words(graph: &Graph) -> u32 {
    let passes = passes(graph);
    let last = passes.iter().copied().max().unwrap_or(0);
    let words =
        |pass| reductions_of_pass(graph, &passes, pass).into_iter().map(Reduction::words).sum();
    (1..=last).map(words).max().unwrap_or(0)
}

/// Refuses rows that no cluster's tiles hold.
pub(super) fn refuse(graph: &Graph, needs: &Needs) -> Result<(), Sm90Refusal> {
    let most = CANDIDATES.iter().map(|tile| tile.row_columns(needs)).max().unwrap_or(0);
    if needs.whole_columns > most {
        let passes = passes(graph);
        let mut after_pass = graph.nodes().filter(|(id, _)| passes[id.index()] > 0);
        let statement = after_pass.find_map(|(id, _)| graph.statement(id));
        let bytes = statement.map(|statement| statement.bytes);
        return Err(Sm90Refusal::LongRows { columns: needs.whole_columns, most, bytes });
    }
    Ok(())
}
