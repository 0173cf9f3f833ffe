//! Expands calls into primitives.
//!
//! First everything but the basis of stability (sigmoid, softplus, softmax, log_softmax and what only rules make), every node through
//! its rules; then the basis, whose formulas are stable as they stand and must not be recognised again.

use crate::catalogue;
use crate::graph::{Binary, Call, Fold, Gives, Graph, NodeId, Op, Rewriter, Top, Unary};

use super::basis::{self, is_basis};
use super::formula::{Scope, instantiate};
use super::softmax::expand_log_softmax;
use super::stabilise::stabilise;

pub(super) fn expand_calls(graph: &Graph) -> Graph {
    Rewriter::rebuild(graph, make_stable)
}

pub(super) fn expand_basis(graph: &Graph) -> Graph {
    Rewriter::rebuild(graph, make_plain)
}

/// Makes a node by the rules of stability, expanding what is not of their basis.
pub(super) fn make_stable(graph: &mut Graph, op: Op) -> NodeId {
    match &op {
        Op::Call(call, _) if is_basis(call) => stabilise(graph, op),
        Op::Call(call, arguments) => expand(graph, call, arguments, make_stable),
        _ => stabilise(graph, op),
    }
}

fn make_plain(graph: &mut Graph, op: Op) -> NodeId {
    match &op {
        Op::Call(call, arguments) => expand(graph, call, arguments, make_plain),
        _ => graph.make(op),
    }
}

fn expand(
    graph: &mut Graph,
    call: &Call,
    arguments: &[NodeId],
    make: fn(&mut Graph, Op) -> NodeId,
) -> NodeId {
    if let Some(basis) = basis::find(call.function) {
        let values: Vec<(&str, NodeId)> =
            basis.parameters.iter().copied().zip(arguments.iter().copied()).collect();
        let scope = Scope { values: &values, over: call.over, make };
        return instantiate(graph, basis.formula, &scope);
    }
    let Some(entry) = catalogue::find(call.function) else {
        panic!("compiler bug: call to `{}`", call.function)
    };
    match call.function {
        "mean" => return expand_mean(graph, call, arguments[0], make),
        "topk_softmax" => return expand_topk(graph, call, arguments[0], make),
        "log_softmax" => {
            let Some(over) = call.over else { panic!("compiler bug: log_softmax of nothing") };
            return expand_log_softmax(graph, over, arguments[0]);
        }
        _ => {}
    }
    let values: Vec<(&str, NodeId)> = (0..entry.parameters.len())
        .map(|place| entry.parameter(place))
        .filter(|name| !matches!(*name, "dim" | "k"))
        .zip(arguments.iter().copied())
        .collect();
    let formula = match (call.grad, entry.derivative) {
        (false, _) => entry.formula,
        (true, "") => primitive_derivative(call.function),
        (true, derivative) => derivative,
    };
    let value = instantiate(graph, formula, &Scope { values: &values, over: call.over, make });
    // A formula need not mention all arguments: a derivative may be a constant, and is still one for every element where
    // it is reduced or split.
    arguments.iter().fold(value, |value, argument| graph.spread(value, *argument))
}

fn primitive_derivative(function: &str) -> &'static str {
    let unary = Unary::from_name(function).and_then(Unary::derivative);
    let binary = || Binary::from_name(function).and_then(Binary::derivative);
    unary.or_else(binary).unwrap_or_else(|| panic!("compiler bug: `{function}` has no derivative"))
}

fn expand_mean(
    graph: &mut Graph,
    call: &Call,
    of: NodeId,
    make: fn(&mut Graph, Op) -> NodeId,
) -> NodeId {
    let Some(over) = call.over else { panic!("compiler bug: mean of nothing") };
    let total = make(graph, Op::Reduce(Fold::Sum, over, of));
    let rest = over.extent(graph.ty(of).axes);
    let count = if over.has_runs() {
        let run = graph.make(Op::number(over.run_elements()));
        if rest.rank() == 0 {
            run
        } else {
            let rest = graph.make(Op::Extent(rest));
            graph.make(Op::Binary(Binary::Multiply, rest, run))
        }
    } else {
        graph.make(Op::Extent(rest))
    };
    make(graph, Op::Binary(Binary::Divide, total, count))
}

fn expand_topk(
    graph: &mut Graph,
    call: &Call,
    of: NodeId,
    make: fn(&mut Graph, Op) -> NodeId,
) -> NodeId {
    let Some(over) = call.over else { panic!("compiler bug: topk_softmax of nothing") };
    let Some(place) = graph.place_along(over, of) else {
        panic!("compiler bug: topk_softmax along several dims")
    };
    let [value, index] = [Gives::Value, Gives::Index].map(|gives| {
        let last = Top { place: call.count - 1, of: call.count, gives };
        graph.make(Op::Reduce(Fold::Top(last), over, of))
    });
    let index = place.scaled(graph, index);
    let Some(entry) = catalogue::find("topk_softmax") else {
        panic!("compiler bug: no topk_softmax")
    };
    let values = [("x", of), ("value", value), ("index", index), ("place", place.index)];
    instantiate(graph, entry.formula, &Scope { values: &values, over: call.over, make })
}
