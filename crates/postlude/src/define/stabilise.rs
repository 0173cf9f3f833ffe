//! Replaces forms that overflow or cancel by ones that do not (docs/numerics.md, "Stability").
//!
//! Each node is made through here, its operands already stable, so a rule sees one level at a time and later rules see
//! what earlier ones made. A rule changes the value only where the naive form lost it.

use crate::dtype::Elem;
use crate::graph::{Binary, Call, Fold, Graph, NodeId, Op, Over, Unary};

use super::expand::make_stable;
use super::formula::{Scope, instantiate};

/// One rule: the node to use instead, if it applies.
type Rule = fn(&mut Graph, &Op) -> Option<NodeId>;

/// The rules, in the order tried.
const RULES: &[Rule] = &[
    double_negation,
    log_of_sigmoid,
    one_minus_sigmoid,
    softplus_of_log,
    sigmoid_of_quotient,
    one_minus_square_of_tanh,
    tanh_of_exponentials,
    root_of_square,
    log_of_exponential,
    log_of_sum_of_exponentials,
    log_of_mean_of_exponentials,
    log_of_two_exponentials,
    softmax_of_two,
    softmax_of_quotient,
    log_of_quotient_of_exponentials,
    exponential_minus_one,
    log_of_one_minus_exponential,
    log_of_one_plus,
    product_with_log,
    product_with_log_softmax,
];

/// Makes the node, or the stable one that stands for it.
pub(super) fn stabilise(graph: &mut Graph, op: Op) -> NodeId {
    for rule in RULES {
        if let Some(node) = rule(graph, &op) {
            return node;
        }
    }
    graph.make(op)
}

// What a node is, for the rules below.

fn number(graph: &Graph, node: NodeId) -> Option<f32> {
    match graph[node].op {
        Op::Constant(constant) => constant.as_f32(),
        _ => None,
    }
}

fn is(graph: &Graph, node: NodeId, value: f32) -> bool {
    number(graph, node) == Some(value)
}

fn unary(graph: &Graph, node: NodeId, wanted: Unary) -> Option<NodeId> {
    match graph[node].op {
        Op::Unary(op, a) if op == wanted => Some(a),
        _ => None,
    }
}

fn basis(graph: &Graph, node: NodeId, function: &str) -> Option<NodeId> {
    match &graph[node].op {
        Op::Call(call, arguments) if call.function == function && !call.grad => Some(arguments[0]),
        _ => None,
    }
}

fn square(graph: &Graph, node: NodeId) -> Option<NodeId> {
    match graph[node].op {
        Op::Binary(Binary::Multiply, a, b) if a == b => Some(a),
        _ => None,
    }
}

/// `x` of `1 + exp(x)`.
fn one_plus_exponential(graph: &Graph, node: NodeId) -> Option<NodeId> {
    match graph[node].op {
        Op::Binary(Binary::Add, a, b) if is(graph, a, 1.0) => unary(graph, b, Unary::Exp),
        Op::Binary(Binary::Add, a, b) if is(graph, b, 1.0) => unary(graph, a, Unary::Exp),
        _ => None,
    }
}

/// `x` and what is summed over of `sum(exp(x))`, when `x` is not already shifted by its maximum.
fn sum_of_exponentials(graph: &Graph, node: NodeId) -> Option<(NodeId, Over)> {
    let Op::Reduce(Fold::Sum, over, terms) = graph[node].op else { return None };
    let x = unary(graph, terms, Unary::Exp)?;
    match graph[x].op {
        Op::Binary(Binary::Subtract, _, peak) if matches!(graph[peak].op, Op::Reduce(Fold::Max, peak_over, _) if peak_over == over) => {
            None
        }
        _ => Some((x, over)),
    }
}

// What rules make.

fn call(graph: &mut Graph, function: &'static str, over: Option<Over>, x: NodeId) -> NodeId {
    make_stable(graph, Op::Call(Call { function, grad: false, over, count: 0 }, vec![x]))
}

fn negate(graph: &mut Graph, x: NodeId) -> NodeId {
    stabilise(graph, Op::Unary(Unary::Negate, x))
}

fn constant(graph: &mut Graph, value: f32) -> NodeId {
    graph.make(Op::number(value))
}

// The rules.

/// `-(-x)` is `x`.
fn double_negation(graph: &mut Graph, op: &Op) -> Option<NodeId> {
    match op {
        Op::Unary(Unary::Negate, a) => unary(graph, *a, Unary::Negate),
        _ => None,
    }
}

/// `log(sigmoid(x))` is `-softplus(-x)`.
fn log_of_sigmoid(graph: &mut Graph, op: &Op) -> Option<NodeId> {
    let Op::Unary(Unary::Log, a) = op else { return None };
    let x = basis(graph, *a, "sigmoid")?;
    let opposite = negate(graph, x);
    let plus = call(graph, "softplus", None, opposite);
    Some(negate(graph, plus))
}

/// `1 - sigmoid(x)` is `sigmoid(-x)`.
fn one_minus_sigmoid(graph: &mut Graph, op: &Op) -> Option<NodeId> {
    let Op::Binary(Binary::Subtract, a, b) = op else { return None };
    let x = basis(graph, *b, "sigmoid").filter(|_| is(graph, *a, 1.0))?;
    let opposite = negate(graph, x);
    Some(call(graph, "sigmoid", None, opposite))
}

/// `log(1 + exp(x))` and `log1p(exp(x))` are `softplus(x)`.
fn softplus_of_log(graph: &mut Graph, op: &Op) -> Option<NodeId> {
    let x = match op {
        Op::Unary(Unary::Log, a) => one_plus_exponential(graph, *a)?,
        Op::Unary(Unary::Log1p, a) => unary(graph, *a, Unary::Exp)?,
        _ => return None,
    };
    Some(call(graph, "softplus", None, x))
}

/// `1 / (1 + exp(-x))` and `exp(x) / (1 + exp(x))` are `sigmoid(x)`.
fn sigmoid_of_quotient(graph: &mut Graph, op: &Op) -> Option<NodeId> {
    let x = match op {
        Op::Unary(Unary::Rcp, below) => {
            let x = one_plus_exponential(graph, *below)?;
            negate(graph, x)
        }
        Op::Binary(Binary::Divide, above, below) => {
            let x = one_plus_exponential(graph, *below)?;
            if is(graph, *above, 1.0) {
                negate(graph, x)
            } else if unary(graph, *above, Unary::Exp) == Some(x) {
                x
            } else {
                return None;
            }
        }
        _ => return None,
    };
    Some(call(graph, "sigmoid", None, x))
}

/// `1 - square(tanh(x))` is `4 * sigmoid(2 * x) * sigmoid(-2 * x)`.
fn one_minus_square_of_tanh(graph: &mut Graph, op: &Op) -> Option<NodeId> {
    let Op::Binary(Binary::Subtract, a, b) = op else { return None };
    let root = square(graph, *b).filter(|_| is(graph, *a, 1.0))?;
    let x = unary(graph, root, Unary::Tanh)?;
    let two = constant(graph, 2.0);
    let double = graph.make(Op::Binary(Binary::Multiply, two, x));
    let opposite = negate(graph, double);
    let (up, down) = (call(graph, "sigmoid", None, double), call(graph, "sigmoid", None, opposite));
    let four = constant(graph, 4.0);
    let scaled = graph.make(Op::Binary(Binary::Multiply, four, up));
    Some(graph.make(Op::Binary(Binary::Multiply, scaled, down)))
}

/// `(exp(x) - exp(-x)) / (exp(x) + exp(-x))` is `tanh(x)`.
fn tanh_of_exponentials(graph: &mut Graph, op: &Op) -> Option<NodeId> {
    let Op::Binary(Binary::Divide, above, below) = op else { return None };
    let (Op::Binary(Binary::Subtract, a, b), Op::Binary(Binary::Add, c, d)) =
        (&graph[*above].op, &graph[*below].op)
    else {
        return None;
    };
    let (x, opposite) = (unary(graph, *a, Unary::Exp)?, unary(graph, *b, Unary::Exp)?);
    let same = (a == c && b == d) || (a == d && b == c);
    (same && unary(graph, opposite, Unary::Negate) == Some(x))
        .then(|| graph.make(Op::Unary(Unary::Tanh, x)))
}

/// `sqrt(square(x))` is `abs(x)`.
fn root_of_square(graph: &mut Graph, op: &Op) -> Option<NodeId> {
    let Op::Unary(Unary::Sqrt, a) = op else { return None };
    let x = square(graph, *a)?;
    Some(graph.make(Op::Unary(Unary::Abs, x)))
}

/// `log(exp(x))` is `x`.
fn log_of_exponential(graph: &mut Graph, op: &Op) -> Option<NodeId> {
    match op {
        Op::Unary(Unary::Log, a) => unary(graph, *a, Unary::Exp),
        Op::Unary(Unary::Log2, a) => unary(graph, *a, Unary::Exp2),
        Op::Unary(Unary::Log1p, a) => unary(graph, *a, Unary::Expm1),
        _ => None,
    }
}

/// `log(sum(exp(x)))` is `logsumexp(x)`.
fn log_of_sum_of_exponentials(graph: &mut Graph, op: &Op) -> Option<NodeId> {
    let Op::Unary(Unary::Log, a) = op else { return None };
    let (x, over) = sum_of_exponentials(graph, *a)?;
    Some(graph.make(Op::Reduce(Fold::LogSumExp, over, x)))
}

/// `log(mean(exp(x)))` is `logsumexp(x)` less the log of how many there are.
fn log_of_mean_of_exponentials(graph: &mut Graph, op: &Op) -> Option<NodeId> {
    let Op::Unary(Unary::Log, a) = op else { return None };
    let Op::Binary(Binary::Divide, total, count) = graph[*a].op else { return None };
    let is_count = |node: NodeId| match graph[node].op {
        Op::Extent(_) => true,
        Op::Constant(constant) => constant.as_f32().is_some_and(|value| value > 0.0),
        _ => false,
    };
    let counts = match graph[count].op {
        Op::Binary(Binary::Multiply, rest, width) => is_count(rest) && is_count(width),
        _ => is_count(count),
    };
    let (x, over) = sum_of_exponentials(graph, total).filter(|_| counts)?;
    let log_total = graph.make(Op::Reduce(Fold::LogSumExp, over, x));
    let log_count = graph.make(Op::Unary(Unary::Log, count));
    Some(graph.make(Op::Binary(Binary::Subtract, log_total, log_count)))
}

/// `log(exp(a) + exp(b))`, without overflow; two equal infinities have no difference.
fn log_of_two_exponentials(graph: &mut Graph, op: &Op) -> Option<NodeId> {
    let Op::Unary(Unary::Log, sum) = op else { return None };
    let Op::Binary(Binary::Add, a, b) = graph[*sum].op else { return None };
    let (a, b) = (unary(graph, a, Unary::Exp)?, unary(graph, b, Unary::Exp)?);
    let values = [("a", a), ("b", b)];
    let scope = Scope { values: &values, over: None, make: Graph::make };
    Some(instantiate(graph, LOG_OF_TWO_EXPONENTIALS, &scope))
}

const LOG_OF_TWO_EXPONENTIALS: &str =
    "where(a == b, a + 0.6931471805599453, maximum(a, b) + log1p(exp(-abs(a - b))))";

/// `exp(a) / (exp(a) + exp(b))` is `sigmoid(a - b)`.
fn softmax_of_two(graph: &mut Graph, op: &Op) -> Option<NodeId> {
    let Op::Binary(Binary::Divide, above, below) = op else { return None };
    let Op::Binary(Binary::Add, first, second) = graph[*below].op else { return None };
    let other = match *above {
        above if above == first => second,
        above if above == second => first,
        _ => return None,
    };
    let (a, b) = (unary(graph, *above, Unary::Exp)?, unary(graph, other, Unary::Exp)?);
    let difference = stabilise(graph, Op::Binary(Binary::Subtract, a, b));
    Some(call(graph, "sigmoid", None, difference))
}

/// `exp(x) / sum(exp(x))` is `softmax(x)`.
fn softmax_of_quotient(graph: &mut Graph, op: &Op) -> Option<NodeId> {
    let Op::Binary(Binary::Divide, above, below) = op else { return None };
    let (x, over) = sum_of_exponentials(graph, *below)?;
    (unary(graph, *above, Unary::Exp) == Some(x)).then(|| call(graph, "softmax", Some(over), x))
}

/// `log` of a softmax is `log_softmax`.
fn log_of_quotient_of_exponentials(graph: &mut Graph, op: &Op) -> Option<NodeId> {
    let Op::Unary(Unary::Log, a) = op else { return None };
    let Op::Binary(Binary::Divide, above, below) = graph[*a].op else { return None };
    let Op::Reduce(Fold::Sum, over, terms) = graph[below].op else { return None };
    let shifted = unary(graph, above, Unary::Exp).filter(|_| terms == above)?;
    // softmax(x) has been expanded to exponentials of x - max(x): the shift cancels.
    let x = match graph[shifted].op {
        Op::Binary(Binary::Subtract, x, peak)
            if graph[peak].op == Op::Reduce(Fold::Max, over, x) =>
        {
            x
        }
        _ => shifted,
    };
    Some(call(graph, "log_softmax", Some(over), x))
}

/// `exp(x) - 1` is `expm1(x)`, `1 - exp(x)` its opposite.
fn exponential_minus_one(graph: &mut Graph, op: &Op) -> Option<NodeId> {
    let Op::Binary(Binary::Subtract, a, b) = op else { return None };
    if let Some(x) = unary(graph, *a, Unary::Exp).filter(|_| is(graph, *b, 1.0)) {
        return Some(graph.make(Op::Unary(Unary::Expm1, x)));
    }
    let x = unary(graph, *b, Unary::Exp).filter(|_| is(graph, *a, 1.0))?;
    let minus_one = graph.make(Op::Unary(Unary::Expm1, x));
    Some(negate(graph, minus_one))
}

/// `log(1 - exp(x))` and `log1p(-exp(x))` keep their digits on both sides of -log(2).
fn log_of_one_minus_exponential(graph: &mut Graph, op: &Op) -> Option<NodeId> {
    let x = match op {
        Op::Unary(Unary::Log, a) => {
            let minus_one = unary(graph, *a, Unary::Negate)?;
            unary(graph, minus_one, Unary::Expm1)?
        }
        Op::Unary(Unary::Log1p, a) => {
            let power = unary(graph, *a, Unary::Negate)?;
            unary(graph, power, Unary::Exp)?
        }
        _ => return None,
    };
    let border = constant(graph, -std::f32::consts::LN_2);
    let far = graph.make(Op::Binary(Binary::Less, x, border));
    let power = graph.make(Op::Unary(Unary::Exp, x));
    let opposite = graph.make(Op::Unary(Unary::Negate, power));
    let small = graph.make(Op::Unary(Unary::Log1p, opposite));
    let minus_one = graph.make(Op::Unary(Unary::Expm1, x));
    let complement = graph.make(Op::Unary(Unary::Negate, minus_one));
    let near = graph.make(Op::Unary(Unary::Log, complement));
    Some(graph.make(Op::Select(far, small, near)))
}

/// `log(1 + x)` is `log1p(x)`.
fn log_of_one_plus(graph: &mut Graph, op: &Op) -> Option<NodeId> {
    let Op::Unary(Unary::Log, a) = op else { return None };
    let x = match graph[*a].op {
        Op::Binary(Binary::Add, one, x) if is(graph, one, 1.0) => x,
        Op::Binary(Binary::Add, x, one) if is(graph, one, 1.0) => x,
        Op::Binary(Binary::Subtract, one, x) if is(graph, one, 1.0) => {
            graph.make(Op::Unary(Unary::Negate, x))
        }
        _ => return None,
    };
    Some(stabilise(graph, Op::Unary(Unary::Log1p, x)))
}

/// `y * log(p)` is 0 where y is 0, also where p has vanished; a nan in p stays.
fn product_with_log(graph: &mut Graph, op: &Op) -> Option<NodeId> {
    let Op::Binary(Binary::Multiply, a, b) = op else { return None };
    let log_argument = |node| {
        let positive = unary(graph, node, Unary::Negate).unwrap_or(node);
        unary(graph, positive, Unary::Log)
            .or_else(|| unary(graph, positive, Unary::Log2))
            .or_else(|| unary(graph, positive, Unary::Log1p))
    };
    let (factor, p) = match (log_argument(*a), log_argument(*b)) {
        (None, Some(p)) => (*a, p),
        (Some(p), None) => (*b, p),
        _ => return None,
    };
    if graph.ty(factor).elem != Elem::F32 || matches!(graph[factor].op, Op::Constant(_)) {
        return None;
    }
    let zero = constant(graph, 0.0);
    let vanishes = graph.make(Op::Binary(Binary::Equal, factor, zero));
    let bad = graph.make(Op::Unary(Unary::IsNan, p));
    let good = graph.make(Op::Unary(Unary::Not, bad));
    let quiet = graph.make(Op::Binary(Binary::And, vanishes, good));
    let product = graph.make(op.clone());
    Some(graph.make(Op::Select(quiet, zero, product)))
}

/// `y * log(softmax(x))` is 0 where y is 0 and x has been masked by minus infinity.
fn product_with_log_softmax(graph: &mut Graph, op: &Op) -> Option<NodeId> {
    let Op::Binary(Binary::Multiply, a, b) = op else { return None };
    let masked = |node| {
        let positive = unary(graph, node, Unary::Negate).unwrap_or(node);
        match graph[positive].op {
            Op::Binary(Binary::Subtract, x, total) => match graph[total].op {
                Op::Reduce(Fold::LogSumExp, _, of) if of == x => Some(x),
                _ => None,
            },
            _ => None,
        }
    };
    let (factor, x) = match (masked(*a), masked(*b)) {
        (None, Some(x)) => (*a, x),
        (Some(x), None) => (*b, x),
        _ => return None,
    };
    if matches!(graph[factor].op, Op::Constant(_)) {
        return None;
    }
    let (zero, least) = (constant(graph, 0.0), constant(graph, f32::NEG_INFINITY));
    let vanishes = graph.make(Op::Binary(Binary::Equal, factor, zero));
    let masked = graph.make(Op::Binary(Binary::Equal, x, least));
    let quiet = graph.make(Op::Binary(Binary::And, vanishes, masked));
    let product = graph.make(op.clone());
    Some(graph.make(Op::Select(quiet, zero, product)))
}
