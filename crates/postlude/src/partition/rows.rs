//! Rows that wait for their own reductions behind a product: one launch multiplies, the next one folds and visits.
//!
//! ```text
//! h = bf16(A @ W.T + b)
//! D = softmax(h, N)              two launches: one for each line
//! ```
//!
//! The second launch reads elements that the first one stored, whatever computes the reductions, so it computes them, too: it
//! holds rows in registers and moves each element once. The cut is where the fewest bytes are stored.

use std::cmp::Reverse;

use super::cutting::Cutting;
use super::levels::{Levels, crosses_tiles, with_rounded_outputs};
use super::stored;
use crate::graph::{Dependence, Graph, Kind, NodeId, Op, Over, Run};

/// The same kernel in two launches; `None` where its elements do not wait for reductions of rows alone.
pub(super) fn behind_product(graph: &Graph) -> Option<Graph> {
    let graph = &with_rounded_outputs(graph);
    let levels = Levels::of(graph);
    let is_live = |id: &NodeId| levels.live[id.index()];
    let mut folds = graph.nodes().filter(|(id, node)| is_live(id) && crosses_tiles(&node.op));
    if graph.products().is_empty()
        || levels.last == 0
        || !folds.all(|(_, node)| is_of_row(&node.op))
    {
        return None;
    }
    let read_again = Cutting::new(graph, &levels).wanted_after(0);
    let any_tile = read_again.iter().any(|id| kind(graph, *id) == Kind::Tile);
    let levels = Levels::behind_product(graph, levels).filter(|_| any_tile)?;
    Some(Cutting::new(graph, &levels).cut(stored::cheapest))
}

/// Whether an operation folds whole rows, one by one.
fn is_of_row(op: &Op) -> bool {
    let whole = Over { batch: false, row: None, column: Some(Run::All) };
    match op.dependence() {
        Dependence::Reduce(_, over, _) | Dependence::ReduceWeighted(_, over, ..) => over == whole,
        Dependence::Pick(..) => true,
        Dependence::Source
        | Dependence::Elementwise(_)
        | Dependence::Part(..)
        | Dependence::Merge(..)
        | Dependence::Concat(_)
        | Dependence::Call => false,
    }
}

impl Levels {
    /// The first launch stores one tile, of the fewest bytes, and the second one computes all that waits for reductions from
    /// it; `None` where one tile is not enough.
    fn behind_product(graph: &Graph, by_reductions: Levels) -> Option<Levels> {
        let Levels { again, live, .. } = by_reductions;
        let mut behind = vec![false; graph.len()];
        for (id, node) in graph.nodes() {
            let waits = node.op.operands().any(|operand| behind[operand.index()]);
            behind[id.index()] = live[id.index()] && (waits || crosses_tiles(&node.op));
        }
        let tiles = graph.nodes().map(|(id, _)| id).filter(|id| {
            let place = id.index();
            live[place] && !behind[place] && !again[place] && kind(graph, *id) == Kind::Tile
        });
        // The last one of the fewest bytes: what it is made of is computed beside the product.
        let cuts =
            tiles.filter_map(|tile| Some((tile, behind_tile(graph, tile, &behind, &again)?)));
        let bytes = |tile: NodeId| graph.stored_dtype(tile).0.bits();
        let (_, behind) = cuts.min_by_key(|(tile, _)| (bytes(*tile), Reverse(tile.index())))?;
        let of = behind.into_iter().map(usize::from).collect();
        Some(Levels::new(of, again, live))
    }
}

fn kind(graph: &Graph, node: NodeId) -> Kind {
    graph.ty(node).axes.kind()
}

/// What the second launch computes where the first one stores a tile; `None` where it would need more of the product.
fn behind_tile(graph: &Graph, tile: NodeId, behind: &[bool], again: &[bool]) -> Option<Vec<bool>> {
    let mut behind = behind.to_vec();
    for (id, node) in graph.nodes().rev() {
        if !behind[id.index()] {
            continue;
        }
        for operand in node.op.operands() {
            let (at, is_given) = (operand.index(), operand == tile || again[operand.index()]);
            let moves = matches!(graph[operand].op.dependence(), Dependence::Elementwise(_));
            if !behind[at] && !is_given {
                behind[at] = moves.then_some(true)?;
            }
        }
    }
    Some(behind)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::define::defined;
    use crate::dtype::DType;
    use crate::graph::Output;

    const SIGNATURE: &str = "A: bf16[M, K], W: bf16[N, K], R: bf16[M, N], g: f32[N]";

    /// What the first launch of a kernel stores, and the outputs of the second; nothing where it is not cut.
    fn launches(outputs: &str, body: &str) -> Vec<Vec<(String, DType)>> {
        let graph = defined(&format!("kernel k({SIGNATURE}) -> {outputs} {{ {body} }}"));
        let Some(cut) = behind_product(&graph) else { return Vec::new() };
        assert!(cut.products().is_empty(), "the second launch multiplies");
        let earlier = cut.earlier().into_iter().map(|it| it.graph.outputs());
        let stored = |outputs: &[Output]| -> Vec<(String, DType)> {
            outputs.iter().map(|output| (output.name.clone(), output.dtype)).collect()
        };
        earlier.chain([cut.outputs()]).map(stored).collect()
    }

    fn dtypes(body: &str) -> Vec<DType> {
        let first = launches("D: bf16[M, N]", body).into_iter().next().unwrap_or_default();
        first.into_iter().map(|(_, dtype)| dtype).collect()
    }

    #[test]
    fn what_the_text_rounds_is_stored_and_all_that_is_made_of_it_is_computed_behind() {
        assert_eq!(dtypes("h = bf16(A @ W.T); D = rms_norm(h, N, 1e-5) * g"), [DType::BF16]);
        assert_eq!(dtypes("h = bf16(A @ W.T) * g + 1; D = softmax(h, N)"), [DType::BF16]);
        assert_eq!(dtypes("h = f8e4m3(bf16(A @ W.T) * g); D = softmax(h, N)"), [DType::F8E4M3]);
        assert_eq!(dtypes("h = gelu(A @ W.T + R); D = layer_norm(h, N, 1e-5)"), [DType::F32]);
    }

    #[test]
    fn other_reductions_stay_with_the_product() {
        let cut = |body: &str| !launches("D: bf16[M, N]", body).is_empty();
        assert!(!cut("z = A @ W.T; D = z - max(z, M)"));
        assert!(!cut("z = A @ W.T; D = z - max(z)"));
        assert!(!cut("z = A @ W.T; D = max(z, N) * g"));
        assert!(!cut("D = A @ W.T + R"));
    }
}
