//! The graph as it is emitted: outputs that are not floats from the first to the last get the cast that their store is.

use crate::dtype::{DType, Elem};
use crate::graph::{Graph, NodeId, Op, Output};

/// The same graph, every output of its type's element type and, where that is an integer, in its range.
pub(super) fn as_stored(graph: &Graph) -> Graph {
    let mut new = graph.emptied();
    let mut places: Vec<NodeId> = Vec::with_capacity(graph.len());
    for (id, node) in graph.nodes() {
        new.continue_statement(graph, id);
        places.push(new.make(node.op.map(|operand| places[operand.index()])));
    }
    for output in graph.outputs() {
        let value = places[output.value.index()];
        new.continue_statement(graph, output.value);
        let value = match new.ty(value).elem {
            // Stores convert floats; that of TF32 writes whole words.
            Elem::F32 if output.dtype.is_float() && output.dtype != DType::TF32 => value,
            Elem::F32 | Elem::I32 | Elem::Bool => new.make(Op::Cast(output.dtype, value)),
        };
        new.push_output(Output { value, ..output.clone() });
    }
    new
}
