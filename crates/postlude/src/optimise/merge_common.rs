//! Brings equal expressions into one form, so that they become one node.
//!
//! Identical operations are one node already. What is left is the order of operands that may be swapped: the older node
//! comes first, constants come last. Swapping changes no bit (the payload of a nan is not part of any value).

use crate::graph::{Graph, NodeId, Op};

use super::Context;
use super::rules::{Rule, Site, rewrite};

const RULES: &[Rule] = &[order_operands, order_factors];

/// The graph with operands of commuting operations in one order.
pub(super) fn merge_common(graph: &Graph, context: &Context<'_>) -> Graph {
    rewrite(graph, context, RULES)
}

fn swapped(site: &Site<'_>, a: NodeId, b: NodeId) -> bool {
    let place = |node| (site.constant(node).is_some(), node);
    place(b) < place(a)
}

/// `b + a` is `a + b`.
fn order_operands(site: &mut Site<'_>, op: &Op) -> Option<NodeId> {
    match *op {
        Op::Binary(binary, a, b) if binary.commutes() && swapped(site, a, b) => {
            Some(site.make_binary(binary, b, a))
        }
        _ => None,
    }
}

/// `b * a + c` is `a * b + c`.
fn order_factors(site: &mut Site<'_>, op: &Op) -> Option<NodeId> {
    match *op {
        Op::Fma(a, b, c) if swapped(site, a, b) => Some(site.make(Op::Fma(b, a, c))),
        _ => None,
    }
}
