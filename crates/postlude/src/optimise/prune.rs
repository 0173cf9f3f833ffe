//! Drops outputs that nobody asked for, and every node that no output needs.

use crate::graph::{Graph, Rewriter};

use super::Context;

/// The graph with the wanted outputs and what they need.
pub(super) fn prune(graph: &Graph, context: &Context<'_>) -> Graph {
    drop_unused(&graph.keeping(context.keep))
}

/// The graph without nodes that no output needs, numbered anew.
pub(super) fn drop_unused(graph: &Graph) -> Graph {
    Rewriter::rebuild(graph, Graph::make)
}
