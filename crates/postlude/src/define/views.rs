//! What a node is, for the rules of stability, and the small nodes that they make.
//!
//! In: a graph after the rules were applied to its nodes. Out: the operands of a form, seen through negations, constant
//! factors and the order of operands. Nothing here changes a value.

use crate::dtype::Elem;
use crate::graph::{Axes, Binary, Call, Fold, Graph, NodeId, Op, Over, Run, Unary};

use super::expand::make_stable;
use super::stabilise::stabilise;

/// How many nodes one question about a node may look at; the answer is no when it is used up.
pub(super) struct Fuel(u32);

impl Fuel {
    pub(super) fn new() -> Fuel {
        Fuel(600)
    }

    pub(super) fn burn(&mut self) -> Option<()> {
        self.0 = self.0.checked_sub(1)?;
        Some(())
    }
}

/// The base of an exponential.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Base {
    /// `exp`
    Natural,
    /// `exp2`
    Two,
}

impl Base {
    /// The base that both can be written in.
    pub(super) fn join(self, other: Base) -> Base {
        if self == other { self } else { Base::Natural }
    }

    pub(super) fn function(self) -> Unary {
        match self {
            Base::Natural => Unary::Exp,
            Base::Two => Unary::Exp2,
        }
    }
}

/// The value of a constant, of its opposite, or of a quotient of two.
pub(super) fn number(graph: &Graph, node: NodeId) -> Option<f32> {
    let plain = |node: NodeId| {
        let Op::Constant(constant) = graph[node].op else { return None };
        constant.as_f32()
    };
    match graph[node].op {
        Op::Constant(_) => plain(node),
        Op::Unary(Unary::Negate, a) => plain(a).map(|value| -value),
        Op::Binary(Binary::Divide, a, b) => Some(plain(a)? / plain(b)?),
        _ => None,
    }
}

pub(super) fn is(graph: &Graph, node: NodeId, value: f32) -> bool {
    number(graph, node) == Some(value)
}

pub(super) fn unary(graph: &Graph, node: NodeId, wanted: Unary) -> Option<NodeId> {
    let Op::Unary(op, a) = graph[node].op else { return None };
    (op == wanted).then_some(a)
}

/// The argument of a function of the basis.
pub(super) fn called(graph: &Graph, node: NodeId, function: &str) -> Option<NodeId> {
    let Op::Call(call, arguments) = &graph[node].op else { return None };
    (call.function == function && !call.grad).then(|| arguments[0])
}

/// The text of a product or quotient that was rewritten for what is out of range.
pub(super) fn text(graph: &Graph, node: NodeId) -> Option<NodeId> {
    called(graph, node, "unless_out_of_range")
}

/// What a function of the basis runs along, and its argument.
pub(super) fn called_over(graph: &Graph, node: NodeId, function: &str) -> Option<(Over, NodeId)> {
    match &graph[node].op {
        Op::Call(call, arguments) if call.function == function && !call.grad => {
            Some((call.over?, arguments[0]))
        }
        _ => None,
    }
}

/// Both arguments of a function of the basis.
pub(super) fn called_with_two(
    graph: &Graph,
    node: NodeId,
    function: &str,
) -> Option<(NodeId, NodeId)> {
    let Op::Call(call, arguments) = &graph[node].op else { return None };
    let [a, b] = arguments[..] else { return None };
    (call.function == function).then_some((a, b))
}

/// `x` of `x * x`, with any signs of the factors: the square is positive for two equal signs only.
pub(super) fn square(graph: &Graph, node: NodeId) -> Option<(f64, NodeId)> {
    let Op::Binary(Binary::Multiply, a, b) = graph[node].op else { return None };
    let ((left, a), (right, b)) = (scaled(graph, a), scaled(graph, b));
    (a == b && (left * right).abs() == 1.0).then_some((left * right, a))
}

pub(super) fn is_float(graph: &Graph, node: NodeId) -> bool {
    graph.ty(node).elem == Elem::F32
}

/// A value as a constant times another: negations, factors and divisors that are constants are taken off.
pub(super) fn scaled(graph: &Graph, node: NodeId) -> (f64, NodeId) {
    let (mut factor, mut node) = (1.0, node);
    if !is_float(graph, node) {
        return (factor, node);
    }
    loop {
        let plain = |value: f32| value.is_finite() && value != 0.0;
        match graph[node].op {
            Op::Unary(Unary::Negate, a) => (factor, node) = (-factor, a),
            Op::Binary(Binary::Multiply, a, b) => {
                match (
                    number(graph, a).filter(|v| plain(*v)),
                    number(graph, b).filter(|v| plain(*v)),
                ) {
                    (Some(value), _) => (factor, node) = (factor * f64::from(value), b),
                    (None, Some(value)) => (factor, node) = (factor * f64::from(value), a),
                    (None, None) => return (factor, node),
                }
            }
            Op::Binary(Binary::Divide, a, b) => match number(graph, b).filter(|v| plain(*v)) {
                Some(value) => (factor, node) = (factor / f64::from(value), a),
                None => return (factor, node),
            },
            _ => return (factor, node),
        }
    }
}

/// Whether one is the other with its sign changed.
pub(super) fn are_opposite(graph: &Graph, a: NodeId, b: NodeId) -> bool {
    let ((left, a), (right, b)) = (scaled(graph, a), scaled(graph, b));
    a == b && left == -right
}

/// Whether a shift by this value keeps exponentials of `x` from overflowing: a maximum, a logsumexp.
pub(super) fn is_peak(graph: &Graph, node: NodeId) -> bool {
    match graph[node].op {
        Op::Reduce(Fold::Max | Fold::LogSumExp, ..) => true,
        Op::Select(_, _, peak) => unguarded(graph, node).is_some_and(|of| of == peak),
        _ => false,
    }
}

/// The maximum in `where(isinf(maximum), 0, maximum)`.
pub(super) fn unguarded(graph: &Graph, node: NodeId) -> Option<NodeId> {
    let Op::Select(condition, zero, peak) = graph[node].op else { return None };
    let guards = unary(graph, condition, Unary::IsInf) == Some(peak) && is(graph, zero, 0.0);
    guards.then_some(peak)
}

/// The exponent of an exponential that nothing is added to.
pub(super) fn exponent(graph: &mut Graph, node: NodeId) -> Option<(Base, NodeId)> {
    match graph[node].op {
        Op::Unary(Unary::Exp, x) => Some((Base::Natural, x)),
        Op::Unary(Unary::Exp2, x) => Some((Base::Two, x)),
        Op::Pick(of, index) => {
            let (base, x) = match graph[of].op {
                Op::Unary(Unary::Exp, x) => (Base::Natural, x),
                Op::Unary(Unary::Exp2, x) => (Base::Two, x),
                _ => return None,
            };
            let same = graph.ty(x).axes == graph.ty(of).axes;
            same.then(|| (base, graph.make(Op::Pick(x, index))))
        }
        _ => {
            if let Some((a, b)) = called_with_two(graph, node, "exp_of_sum") {
                return Some((Base::Natural, binary(graph, Binary::Add, a, b)));
            }
            if let Some((a, b)) = called_with_two(graph, node, "exp_of_product") {
                return Some((Base::Natural, binary(graph, Binary::Multiply, a, b)));
            }
            let (a, b) = called_with_two(graph, node, "exp_of_difference")?;
            Some((Base::Natural, difference(graph, a, b)))
        }
    }
}

/// Whether a value differs between the elements that are folded into one.
pub(super) fn varies(graph: &Graph, node: NodeId, over: Over, folded: Axes) -> bool {
    let axes = graph.ty(node).axes;
    (over.batch && axes.batch)
        || Run::varies(over.row, folded.row, axes.row)
        || Run::varies(over.column, folded.column, axes.column)
}

/// Whether a value has every element that is folded, as another has.
pub(super) fn folds_as(graph: &Graph, node: NodeId, over: Over, folded: Axes) -> bool {
    let axes = graph.ty(node).axes;
    (!over.batch || axes.batch == folded.batch)
        && (over.row.is_none() || axes.row == folded.row)
        && (over.column.is_none() || axes.column == folded.column)
}

// What rules make.

pub(super) fn call(
    graph: &mut Graph,
    function: &'static str,
    over: Option<Over>,
    arguments: &[NodeId],
) -> NodeId {
    make_stable(graph, Op::Call(Call { function, grad: false, over, count: 0 }, arguments.to_vec()))
}

pub(super) fn negate(graph: &mut Graph, x: NodeId) -> NodeId {
    stabilise(graph, Op::Unary(Unary::Negate, x))
}

pub(super) fn constant(graph: &mut Graph, value: f32) -> NodeId {
    graph.make(Op::number(value))
}

pub(super) fn binary(graph: &mut Graph, op: Binary, a: NodeId, b: NodeId) -> NodeId {
    graph.make(Op::Binary(op, a, b))
}

/// `a - b`, doubled where they are opposite.
pub(super) fn difference(graph: &mut Graph, a: NodeId, b: NodeId) -> NodeId {
    if is(graph, b, 0.0) {
        a
    } else if is(graph, a, 0.0) {
        negate(graph, b)
    } else if are_opposite(graph, a, b) {
        multiple(graph, 2.0, a)
    } else {
        binary(graph, Binary::Subtract, a, b)
    }
}

/// A constant times a value.
pub(super) fn multiple(graph: &mut Graph, factor: f64, x: NodeId) -> NodeId {
    let (own, inner) = scaled(graph, x);
    // Powers of two are exact, so they may be taken together.
    let exact = |factor: f64| factor.abs().log2().fract() == 0.0;
    let (factor, x) = if exact(factor) && exact(own) { (factor * own, inner) } else { (factor, x) };
    if factor == 1.0 {
        x
    } else if factor == -1.0 {
        negate(graph, x)
    } else {
        let factor = constant(graph, factor as f32);
        binary(graph, Binary::Multiply, factor, x)
    }
}
