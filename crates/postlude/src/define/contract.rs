//! Contraction: a product that is added or subtracted is rounded once, with the sum (docs/numerics.md, "The body").

use crate::dtype::Elem;
use crate::graph::{Binary, Graph, NodeId, Op, Rewriter, Unary};

/// Forms every fused multiply-add that the contract defines: the left operand's product if it is one, else the right one's.
pub(crate) fn contract(graph: &Graph) -> Graph {
    Rewriter::rebuild(graph, |new, op| {
        let fused = match op {
            Op::Binary(Binary::Add, left, right) => match (factors(new, left), factors(new, right))
            {
                (Some((a, b)), _) => Some(Op::Fma(a, b, right)),
                (None, Some((a, b))) => Some(Op::Fma(a, b, left)),
                (None, None) => None,
            },
            // The difference of equal products is 0, not the rounding error of one of them.
            Op::Binary(Binary::Subtract, left, right) if are_equal(new, left, right) => None,
            Op::Binary(Binary::Subtract, left, right) => {
                match (factors(new, left), factors(new, right)) {
                    (Some((a, b)), _) => Some(Op::Fma(a, b, negated(new, right))),
                    (None, Some((a, b))) => Some(Op::Fma(negated(new, a), b, left)),
                    (None, None) => None,
                }
            }
            _ => None,
        };
        new.make(fused.unwrap_or(op))
    })
}

fn factors(graph: &Graph, node: NodeId) -> Option<(NodeId, NodeId)> {
    match graph[node].op {
        Op::Binary(Binary::Multiply, a, b) if graph.ty(node).elem == Elem::F32 => Some((a, b)),
        _ => None,
    }
}

fn are_equal(graph: &Graph, left: NodeId, right: NodeId) -> bool {
    left == right
        || match (factors(graph, left), factors(graph, right)) {
            (Some((a, b)), Some(other)) => (b, a) == other,
            _ => false,
        }
}

fn negated(graph: &mut Graph, node: NodeId) -> NodeId {
    match graph[node].op {
        Op::Unary(Unary::Negate, inner) => inner,
        _ => graph.make(Op::Unary(Unary::Negate, node)),
    }
}
