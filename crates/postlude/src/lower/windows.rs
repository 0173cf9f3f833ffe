//! Parts of named sizes as windows of the columns.
//!
//! In: a graph that splits columns into parts of which some are neither halves nor pairs. Out: the same kernel with every
//! value at the product's own columns: a part is its columns of the whole, an input or an output along a part is a tensor
//! with a window, of which only the columns of its part are read and written; a reduction of a part counts its columns
//! only. Parts that meet each other lie in different columns: no window computes those, and they are refused.
//! Invariant: the new graph has neither listed nor equal parts; pairs, and what joins them, are left as they are.

mod context;
mod place;

use crate::graph::{Graph, Op, Output, Part};

use super::refusal::LowerRefusal;
use super::views::Views;
use context::Contexts;
use place::Placing;

/// Whether a graph splits columns into others than halves or pairs, or puts such parts together.
pub(super) fn has_windows(graph: &Graph) -> bool {
    let live = graph.live();
    let named = |op: &Op| {
        let counted = matches!(op, Op::Extent(axes) if axes.part > 0);
        counted
            || matches!(op, Op::Part(Part::Equal { .. } | Part::Listed { .. }, _) | Op::Concat(..))
    };
    // A value without columns is repeated along a part as it is along all columns.
    let declared =
        |output: &Output| graph.space().axes(&output.dims).is_some_and(|axes| axes.part > 0);
    graph.nodes().any(|(id, node)| live[id.index()] && (named(&node.op) || node.ty.axes.part > 0))
        || graph.outputs().iter().any(declared)
}

/// The graph with every value at the product's columns.
pub(super) fn windowed(graph: &Graph) -> Result<(Graph, Views), LowerRefusal> {
    let contexts = Contexts::of(graph)?;
    Placing::new(graph, contexts).run()
}
