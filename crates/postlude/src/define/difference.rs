//! Sums and differences that cancel.
//!
//! In: a sum or difference of two values, seen through constant factors, signs and order. Out: a form in which nothing
//! cancels: `expm1`, a sigmoid or tanh of the other side. Invariant: both are equal in exact arithmetic.

use crate::dtype::DType;
use crate::graph::{Binary, Fold, Graph, IndexAxis, NodeId, Op, Over, Run, Unary};

use super::logarithm::{log_of_probability, one_plus};
use super::magnitude::base_of;
use super::softmax::complement;
use super::views::{
    Base, Fuel, are_opposite, binary, call, called, constant, exponent, is_float, multiple, negate,
    number, scaled, square, unary,
};

/// Sums and differences of exponentials, of sigmoids and of tanh, with each other and with constants.
pub(super) fn difference_that_cancels(graph: &mut Graph, op: &Op) -> Option<NodeId> {
    let (sign, a, b) = match *op {
        Op::Binary(Binary::Add, a, b) => (1.0, a, b),
        Op::Binary(Binary::Subtract, a, b) => (-1.0, a, b),
        _ => return None,
    };
    if !is_float(graph, a) {
        return None;
    }
    let node = match (number(graph, a), number(graph, b)) {
        (Some(first), None) => {
            let (factor, b) = scaled(graph, b);
            beside_constant(graph, f64::from(first), sign * factor, b)
        }
        (None, Some(second)) => {
            let (factor, a) = scaled(graph, a);
            beside_constant(graph, sign * f64::from(second), factor, a)
        }
        (None, None) => {
            let ((first, a), (second, b)) = (scaled(graph, a), scaled(graph, b));
            of_two(graph, (first, a), (sign * second, b))
                .or_else(|| of_two(graph, (sign * second, b), (first, a)))
        }
        (Some(_), Some(_)) => None,
    }?;
    let wanted = graph.type_of(op).ok()?;
    (graph.ty(node) == wanted).then_some(node)
}

/// Half of `1 + tanh(x)` or `1 - tanh(x)` is a sigmoid.
pub(super) fn half_of_one_plus_tanh(graph: &mut Graph, op: &Op) -> Option<NodeId> {
    let a = match *op {
        Op::Binary(Binary::Multiply, a, b) if number(graph, a) == Some(0.5) => b,
        Op::Binary(Binary::Multiply, a, b) if number(graph, b) == Some(0.5) => a,
        Op::Binary(Binary::Divide, a, b) if number(graph, b) == Some(2.0) => a,
        _ => return None,
    };
    let double = match (called(graph, a, "one_plus_tanh"), called(graph, a, "one_minus_tanh")) {
        (Some(x), _) => multiple(graph, 2.0, x),
        (None, Some(x)) => multiple(graph, -2.0, x),
        (None, None) => return None,
    };
    Some(call(graph, "sigmoid", None, &[double]))
}

/// `total + factor * x`, where `x` comes close to a constant that cancels the other.
fn beside_constant(graph: &mut Graph, total: f64, factor: f64, x: NodeId) -> Option<NodeId> {
    let ratio = factor / total;
    if ratio == -1.0
        && let Some(node) = complement(graph, x, &mut Fuel::new())
    {
        return Some(multiple(graph, total, node));
    }
    if let Some((base, power)) = exponent(graph, x).filter(|_| ratio == -1.0) {
        let node = match base {
            Base::Natural => graph.make(Op::Unary(Unary::Expm1, power)),
            Base::Two => call(graph, "exp2m1", None, &[power]),
        };
        return Some(multiple(graph, factor, node));
    }
    if let Some(y) = called(graph, x, "sigmoid") {
        // 1 - 2 * sigmoid(y)
        let half = (ratio == -2.0).then(|| multiple(graph, 0.5, y))?;
        let node = graph.make(Op::Unary(Unary::Tanh, half));
        return Some(multiple(graph, -total, node));
    }
    if let Some(y) = unary(graph, x, Unary::Tanh).filter(|_| ratio.abs() == 1.0) {
        let function = if ratio > 0.0 { "one_plus_tanh" } else { "one_minus_tanh" };
        let node = call(graph, function, None, &[y]);
        return Some(multiple(graph, total, node));
    }
    if let Some(y) = called(graph, x, "sech_squared").filter(|_| ratio == -1.0) {
        let root = graph.make(Op::Unary(Unary::Tanh, y));
        let node = binary(graph, Binary::Multiply, root, root);
        return Some(multiple(graph, total, node));
    }
    if let Some((_, root)) = square(graph, x).filter(|(sign, _)| ratio * sign == -1.0)
        && let Some(node) = beside_square(graph, root)
    {
        return Some(multiple(graph, total, node));
    }
    let log = (ratio == -1.0).then(|| log_of_probability(graph, x))??;
    let node = call(graph, "one_minus_by_log", None, &[x, log]);
    Some(multiple(graph, total, node))
}

/// `1 - root * root`
fn beside_square(graph: &mut Graph, root: NodeId) -> Option<NodeId> {
    if let Some(y) = unary(graph, root, Unary::Tanh) {
        return Some(call(graph, "sech_squared", None, &[y]));
    }
    if let Some(y) = called(graph, root, "sigmoid") {
        return Some(call(graph, "one_minus_squared_sigmoid", None, &[y]));
    }
    // (1 + v)^2 - 1 is v * (v + 2).
    let v = one_plus(graph, root)?;
    base_of(graph, v, &mut Fuel::new())?;
    let two = constant(graph, 2.0);
    let more = binary(graph, Binary::Add, v, two);
    let node = binary(graph, Binary::Multiply, v, more);
    Some(negate(graph, node))
}

/// The sum of two values with their factors.
fn of_two(
    graph: &mut Graph,
    (first, a): (f64, NodeId),
    (second, b): (f64, NodeId),
) -> Option<NodeId> {
    // softplus(x) - x is softplus(-x).
    if let Some(x) = called(graph, a, "softplus") {
        let (own, inner) = scaled(graph, x);
        if inner == b && first * own == -second {
            let opposite = negate(graph, x);
            let node = call(graph, "softplus", None, &[opposite]);
            return Some(multiple(graph, first, node));
        }
    }
    if first != -second {
        return None;
    }
    if let Some(node) = sum_without_one(graph, a, b) {
        return Some(multiple(graph, first, node));
    }
    if let (Some((base, x)), Some((other, y))) = (exponent(graph, a), exponent(graph, b))
        && base == other
    {
        let function = match base {
            Base::Natural => "exp_difference",
            Base::Two => "exp2_difference",
        };
        let node = call(graph, function, None, &[x, y]);
        return Some(multiple(graph, first, node));
    }
    if let (Some(x), Some(y)) = (called(graph, a, "sigmoid"), called(graph, b, "sigmoid"))
        && are_opposite(graph, x, y)
    {
        let half = multiple(graph, 0.5, x);
        let node = graph.make(Op::Unary(Unary::Tanh, half));
        return Some(multiple(graph, first, node));
    }
    if let (Some(x), Some(y)) = (called(graph, a, "sigmoid"), called(graph, b, "sigmoid")) {
        let (x, y) = if first < 0.0 { (y, x) } else { (x, y) };
        let node = call(graph, "sigmoid_difference", None, &[x, y]);
        return Some(multiple(graph, first.abs(), node));
    }
    let (x, y) = (called(graph, a, "softplus")?, called(graph, b, "softplus")?);
    are_opposite(graph, x, y).then(|| multiple(graph, first, x))
}

/// `sum(exp(x)) - exp(x)`, or less one element that is picked.
fn sum_without_one(graph: &mut Graph, sum: NodeId, one: NodeId) -> Option<NodeId> {
    let Op::Reduce(Fold::Sum, over, terms) = graph[sum].op else { return None };
    let x = unary(graph, terms, Unary::Exp)?;
    if one == terms {
        return Some(call(graph, "sum_of_other_exps", Some(over), &[x]));
    }
    let index = match graph[one].op {
        Op::Pick(of, index) if of == terms => index,
        Op::Unary(Unary::Exp, picked) => match graph[picked].op {
            Op::Pick(of, index) if of == x => index,
            _ => return None,
        },
        _ => return None,
    };
    if over != (Over { column: Some(Run::All), ..Over::NOTHING }) {
        return None;
    }
    // An index outside of the columns is nan, as the element that it picks.
    let place = graph.make(Op::Cast(DType::F32, index));
    let count = graph.make(Op::Extent(over.extent(graph.ty(terms).axes)));
    let (zero, missing) = (constant(graph, 0.0), constant(graph, f32::NAN));
    let (below, above) =
        (binary(graph, Binary::Less, place, zero), binary(graph, Binary::LessEqual, count, place));
    let outside = binary(graph, Binary::Or, below, above);
    let x = graph.make(Op::Select(outside, missing, x));
    let power = graph.make(Op::Unary(Unary::Exp, x));
    let columns = graph.make(Op::Index(IndexAxis::Column));
    let is_one = binary(graph, Binary::Equal, columns, index);
    let others = graph.make(Op::Select(is_one, zero, power));
    (graph.ty(others) == graph.ty(terms)).then(|| graph.make(Op::Reduce(Fold::Sum, over, others)))
}
