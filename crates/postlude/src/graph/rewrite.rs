//! Rebuilding a graph node by node: how every pass works.

use super::op::Op;
use super::{Graph, NodeId};

/// A new graph under construction from an old one. Equal operations merge on the way; what nothing uses is not carried over by [`Rewriter::finish`].
pub(crate) struct Rewriter<'a> {
    old: &'a Graph,
    pub(crate) new: Graph,
    places: Vec<NodeId>,
}

impl<'a> Rewriter<'a> {
    fn new(old: &'a Graph) -> Rewriter<'a> {
        Rewriter { old, new: old.emptied(), places: Vec::with_capacity(old.len()) }
    }

    /// Rebuilds `old`, giving each live node's operation, on its new operands, to `rule`, which returns the new node.
    pub(crate) fn rebuild(old: &'a Graph, mut rule: impl FnMut(&mut Graph, Op) -> NodeId) -> Graph {
        let mut rewriter = Rewriter::new(old);
        let live = old.live();
        for (id, node) in old.nodes() {
            let place = if live[id.index()] {
                let op = node.op.map(|operand| rewriter.places[operand.index()]);
                rewriter.new.continue_statement(old, id);
                rule(&mut rewriter.new, op)
            } else {
                // Never read: only live nodes have users that are rebuilt.
                id
            };
            rewriter.places.push(place);
        }
        rewriter.finish()
    }

    fn finish(mut self) -> Graph {
        for output in self.old.outputs() {
            self.new.push_output(output.map(|value| self.places[value.index()]));
        }
        collect(self.new)
    }
}

/// The graph without nodes that no output needs, numbered anew.
fn collect(graph: Graph) -> Graph {
    let live = graph.live();
    if live.iter().all(|live| *live) {
        return graph;
    }
    let mut new = graph.emptied();
    let mut places = Vec::with_capacity(graph.len());
    for (id, node) in graph.nodes() {
        new.continue_statement(&graph, id);
        places.push(if live[id.index()] {
            new.make(node.op.map(|operand: NodeId| places[operand.index()]))
        } else {
            id
        });
    }
    for output in graph.outputs() {
        new.push_output(output.map(|value| places[value.index()]));
    }
    new
}
