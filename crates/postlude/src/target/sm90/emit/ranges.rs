//! What a node's own formula tells about its values, so that shorter instructions do.
//!
//! In: a node of the graph. Out: a fact that holds for every input, NaN aside. Looks a few nodes deep and no further.

use crate::graph::{Binary, Constant, Graph, NodeId, Op, Unary};

/// How deep to look.
const DEPTH: u32 = 6;
/// Constants from here on stay normal numbers when something that is not negative is added.
const LEAST: f64 = f32::MIN_POSITIVE as f64;

/// Whether a value is at least the smallest normal number.
pub(super) fn is_normal(graph: &Graph, node: NodeId) -> bool {
    normal(graph, node, DEPTH)
}

/// Whether a value lies between 0 and 1.
pub(super) fn is_within_one(graph: &Graph, node: NodeId) -> bool {
    let Op::Unary(Unary::Exp | Unary::Exp2, power) = graph[node].op else { return false };
    matches!(graph[power].op, Op::Unary(Unary::Negate, a) if positive(graph, a, DEPTH))
}

/// The other factor and the constant of a product with one.
pub(super) fn scaled(graph: &Graph, node: NodeId) -> Option<(NodeId, f64)> {
    let Op::Binary(Binary::Multiply, a, b) = graph[node].op else { return None };
    constant(graph, a).map(|scale| (b, scale)).or_else(|| Some((a, constant(graph, b)?)))
}

/// Whether a factor is far from both ends of the range, so that its product with another such one is a normal number.
pub(super) fn is_moderate(factor: f64) -> bool {
    (1e-3..1e3).contains(&factor.abs())
}

/// A constant's value.
pub(super) fn constant(graph: &Graph, node: NodeId) -> Option<f64> {
    let Op::Constant(constant @ Constant::F32(_)) = graph[node].op else { return None };
    Some(constant.as_f64())
}

fn normal(graph: &Graph, node: NodeId, depth: u32) -> bool {
    let Some(depth) = depth.checked_sub(1) else { return false };
    let large = |node| constant(graph, node).is_some_and(|value| value >= LEAST);
    match graph[node].op {
        Op::Constant(_) => large(node),
        Op::Binary(Binary::Add, a, b) => {
            (normal(graph, a, depth) && positive(graph, b, depth))
                || (positive(graph, a, depth) && normal(graph, b, depth))
        }
        Op::Binary(Binary::Maximum, a, b) => normal(graph, a, depth) || normal(graph, b, depth),
        _ => false,
    }
}

/// Whether a value is zero or more.
fn positive(graph: &Graph, node: NodeId, depth: u32) -> bool {
    let Some(depth) = depth.checked_sub(1) else { return false };
    match graph[node].op {
        Op::Constant(_) => constant(graph, node).is_some_and(|value| value >= 0.0),
        Op::Unary(Unary::Exp | Unary::Exp2 | Unary::Abs | Unary::Sqrt, _) => true,
        Op::Binary(Binary::Multiply, a, b) => {
            a == b || (positive(graph, a, depth) && positive(graph, b, depth))
        }
        Op::Binary(Binary::Add, a, b) => positive(graph, a, depth) && positive(graph, b, depth),
        Op::Binary(Binary::Maximum, a, b) => positive(graph, a, depth) || positive(graph, b, depth),
        _ => false,
    }
}
