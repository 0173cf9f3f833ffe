//! Quotients of softmaxes by sums of the same softmax: masked, weighted or chosen probabilities, normalised again.
//!
//! In: a quotient. Out: the quotient of the exponentials that the softmax is made of, since its own divisor cancels; the
//! rules of quotients shift it by what is left of the row. Invariant: both are equal in exact arithmetic.

use crate::graph::{Binary, Fold, Graph, NodeId, Op, Over, Unary};

use super::quotient::quotient_of_exponentials;
use super::views::{Fuel, binary, called_over, number};

/// The softmax that cancels: what it runs along, and its argument.
type Softmax = (Over, NodeId);

/// `p * m / sum(p * m)` of a softmax p.
pub(super) fn quotient_of_one_softmax(graph: &mut Graph, op: &Op) -> Option<NodeId> {
    let (a, b) = match *op {
        Op::Binary(Binary::Divide, a, b) => (a, b),
        Op::Binary(Binary::Multiply, a, b) => match (graph[a].op.clone(), graph[b].op.clone()) {
            (_, Op::Unary(Unary::Rcp, b)) => (a, b),
            (Op::Unary(Unary::Rcp, a), _) => (b, a),
            _ => return None,
        },
        _ => return None,
    };
    let softmax = find(graph, b, &mut Fuel::new())?;
    let fuel = &mut Fuel::new();
    let below = without_divisor(graph, b, softmax, fuel)?;
    let above = without_divisor(graph, a, softmax, fuel)?;
    let node = quotient_of_exponentials(graph, &Op::Binary(Binary::Divide, above, below))?;
    (graph.ty(node) == graph.type_of(op).ok()?).then_some(node)
}

/// A softmax in a value.
fn find(graph: &Graph, node: NodeId, fuel: &mut Fuel) -> Option<Softmax> {
    fuel.burn()?;
    if let Some(found) = called_over(graph, node, "softmax") {
        return Some(found);
    }
    match graph[node].op {
        Op::Unary(Unary::Negate, a)
        | Op::Binary(Binary::Divide, a, _)
        | Op::Pick(a, _)
        | Op::Reduce(Fold::Sum | Fold::Max | Fold::Min, _, a) => find(graph, a, fuel),
        Op::Binary(Binary::Multiply | Binary::Add | Binary::Subtract, a, b)
        | Op::Select(_, a, b) => find(graph, a, fuel).or_else(|| find(graph, b, fuel)),
        _ => None,
    }
}

/// The value times the divisor of a softmax that it is proportional to.
fn without_divisor(
    graph: &mut Graph,
    node: NodeId,
    softmax: Softmax,
    fuel: &mut Fuel,
) -> Option<NodeId> {
    fuel.burn()?;
    if called_over(graph, node, "softmax") == Some(softmax) {
        return Some(graph.make(Op::Unary(Unary::Exp, softmax.1)));
    }
    let mut inner = |graph: &mut Graph, node: NodeId| without_divisor(graph, node, softmax, fuel);
    match graph[node].op {
        Op::Unary(Unary::Negate, a) => {
            let a = inner(graph, a)?;
            Some(graph.make(Op::Unary(Unary::Negate, a)))
        }
        Op::Binary(Binary::Divide, a, b) => {
            let a = inner(graph, a)?;
            find(graph, b, &mut Fuel::new()).is_none().then(|| binary(graph, Binary::Divide, a, b))
        }
        Op::Binary(Binary::Multiply, a, b) => {
            let (holds, free) =
                if find(graph, a, &mut Fuel::new()).is_some() { (a, b) } else { (b, a) };
            if find(graph, free, &mut Fuel::new()).is_some() {
                return None;
            }
            let power = inner(graph, holds)?;
            Some(binary(graph, Binary::Multiply, power, free))
        }
        Op::Binary(op @ (Binary::Add | Binary::Subtract), a, b) => {
            let (a, b) = (inner(graph, a)?, inner(graph, b)?);
            Some(binary(graph, op, a, b))
        }
        Op::Select(condition, a, b) => {
            let mut side = |graph: &mut Graph, node: NodeId| match number(graph, node) {
                Some(0.0) => Some(node),
                _ => inner(graph, node),
            };
            let (a, b) = (side(graph, a)?, side(graph, b)?);
            Some(graph.make(Op::Select(condition, a, b)))
        }
        Op::Reduce(fold @ (Fold::Sum | Fold::Max | Fold::Min), over, of) if over == softmax.0 => {
            let of = inner(graph, of)?;
            Some(graph.make(Op::Reduce(fold, over, of)))
        }
        Op::Pick(of, index) => {
            let column_divisor = softmax.0.column.is_some();
            let of = column_divisor.then(|| inner(graph, of))??;
            Some(graph.make(Op::Pick(of, index)))
        }
        _ => None,
    }
}
