//! The logarithm of a value that is made of exponentials, without computing the value.
//!
//! In: a node. Out: its natural logarithm as a sum of terms with constant factors, where the node is an exponential, or a
//! product, quotient, power, sum, choice or reduction of such. Invariant: the terms add up to the logarithm for every
//! operand, infinities and nan included; a shift by a maximum cancels or stays with its sum.

mod structure;
mod terms;

use std::f64::consts::LN_2;

use crate::dtype::{DType, Elem};
use crate::graph::{Binary, Fold, Graph, NodeId, Op, Unary};

use super::magnitude::MOST_EXPONENT;
use super::softmax::complement;
use super::stabilise::stabilise;
use super::views::{
    Fuel, are_opposite, binary, call, called, called_over, called_with_two, constant, difference,
    exponent, is_float, is_peak, multiple, negate, number, scaled, square, text, unary,
};
use structure::{log_of_choice, log_of_concat, log_of_pick, log_of_reduction};
use terms::Log;

/// Whether a factor about which nothing is known, not even its sign, may be left under a logarithm.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Unknown {
    Allowed,
    Refused,
}

/// `log`, `log2` and `log1p` of what is made of exponentials.
pub(super) fn log_of_exponentials(graph: &mut Graph, op: &Op) -> Option<NodeId> {
    let Op::Unary(function @ (Unary::Log | Unary::Log2 | Unary::Log1p), a) = *op else {
        return None;
    };
    stable_log(graph, function, a, &mut Fuel::new())
}

fn stable_log(graph: &mut Graph, function: Unary, a: NodeId, fuel: &mut Fuel) -> Option<NodeId> {
    let log = match function {
        Unary::Log1p => log_of_one_plus(graph, a, fuel)?,
        _ => log_of(graph, a, Unknown::Allowed, fuel)?,
    };
    let log = log.combined(graph);
    if !log.informative || log.terms.is_empty() {
        return None;
    }
    let log = if function == Unary::Log2 { log.times(LN_2.recip()) } else { log };
    let value = log.node(graph);
    // A value that varies along more than its logarithm has lost a dim on the way.
    (graph.ty(value).axes == graph.ty(a).axes).then_some(value)
}

fn log_of(graph: &mut Graph, node: NodeId, unknown: Unknown, fuel: &mut Fuel) -> Option<Log> {
    fuel.burn()?;
    if !is_float(graph, node) {
        return None;
    }
    if let Some((base, x)) = exponent(graph, node) {
        return Some(log_of_exponential(graph, base.function(), x));
    }
    if let Some((over, x)) = called_over(graph, node, "one_minus_softmax") {
        let total = graph.make(Op::Reduce(Fold::LogSumExp, over, x));
        let others = call(graph, "log_sum_of_other_exps", Some(over), &[x]);
        return Some(Log::known(vec![(1.0, others), (-1.0, total)], false));
    }
    let node = text(graph, node).unwrap_or(node);
    match graph[node].op.clone() {
        Op::Constant(value) => {
            let value = value.as_f32().filter(|value| *value > 0.0 && value.is_finite())?;
            let constant = f64::from(value).ln();
            Some(Log { constant, informative: false, ..Log::known(Vec::new(), false) })
        }
        Op::Extent(_) => {
            let log = graph.make(Op::Unary(Unary::Log, node));
            Some(Log { informative: false, ..Log::known(vec![(1.0, log)], false) })
        }
        Op::Unary(function, a) => log_of_function(graph, function, a, fuel),
        Op::Binary(Binary::Multiply | Binary::Divide, ..) => {
            log_of_product(graph, node, unknown, fuel)
        }
        Op::Binary(Binary::Pow, a, power) => {
            let power = number(graph, power).filter(|power| power.is_finite() && *power != 0.0)?;
            Some(log_of(graph, a, Unknown::Refused, fuel)?.of_positive()?.times(f64::from(power)))
        }
        Op::Binary(Binary::Add, a, b) => log_of_sum(graph, a, b, fuel),
        Op::Binary(op @ (Binary::Maximum | Binary::Minimum), a, b) => {
            log_of_extreme(graph, op, a, b, fuel)
        }
        Op::Binary(Binary::Subtract, a, b) if number(graph, a) == Some(1.0) => {
            log_of_complement(graph, b, fuel)
        }
        Op::Select(condition, a, b) => log_of_choice(graph, condition, a, b, unknown, fuel),
        Op::Cast(DType::F32, a) if graph.ty(a).elem == Elem::Bool => {
            let (zero, least) = (constant(graph, 0.0), constant(graph, f32::NEG_INFINITY));
            let log = graph.make(Op::Select(a, zero, least));
            Some(Log { informative: false, ..Log::known(vec![(1.0, log)], false) })
        }
        Op::Reduce(fold, over, terms) => log_of_reduction(graph, fold, over, terms, fuel),
        Op::Pick(of, index) => log_of_pick(graph, of, index, unknown, fuel),
        Op::Part(part, a) => {
            let log = log_of(graph, a, Unknown::Refused, fuel)?.combined(graph);
            let value = log.node(graph);
            let same = graph.ty(value).axes == graph.ty(a).axes;
            let value = same.then(|| graph.make(Op::Part(part, value)))?;
            Some(Log { terms: vec![(1.0, value)], constant: 0.0, ..log })
        }
        Op::Merge(merge, a, b) => {
            let (a, b) = (
                log_of(graph, a, Unknown::Refused, fuel)?,
                log_of(graph, b, Unknown::Refused, fuel)?,
            );
            let (left, right) = (a.node(graph), b.node(graph));
            let value = graph.add(Op::Merge(merge, left, right)).ok()?;
            let both = a.plus(b);
            Some(Log { terms: vec![(1.0, value)], constant: 0.0, ..both })
        }
        Op::Call(..) => log_of_call(graph, node),
        Op::Concat(concat, ref parts) => log_of_concat(graph, concat, parts.clone(), fuel),
        Op::Accumulator(_)
        | Op::Input(_)
        | Op::Index(_)
        | Op::Size(_)
        | Op::Binary(..)
        | Op::Fma(..)
        | Op::Cast(..)
        | Op::Round(..)
        | Op::Philox(_)
        | Op::Take(..)
        | Op::Entry(..)
        | Op::ReduceWeighted(..) => None,
    }
}

fn log_of_exponential(graph: &mut Graph, function: Unary, x: NodeId) -> Log {
    if function == Unary::Exp2 {
        return Log::known(vec![(LN_2, x)], true);
    }
    if let Some((over, x)) = called_over(graph, x, "log_softmax") {
        let total = graph.make(Op::Reduce(Fold::LogSumExp, over, x));
        return Log::known(vec![(1.0, x), (-1.0, total)], false);
    }
    match graph[x].op {
        // Kept apart, so that it may cancel against the same shift of another exponential.
        Op::Binary(Binary::Subtract, x, peak) if is_peak(graph, peak) => {
            Log::known(vec![(1.0, x), (-1.0, peak)], false)
        }
        _ => Log::known(vec![(1.0, x)], true),
    }
}

fn log_of_function(graph: &mut Graph, function: Unary, a: NodeId, fuel: &mut Fuel) -> Option<Log> {
    let mut root = |graph: &mut Graph, factor: f64| {
        log_of(graph, a, Unknown::Refused, fuel).map(|log| log.times(factor))
    };
    match function {
        Unary::Sqrt => root(graph, 0.5),
        Unary::Rsqrt => root(graph, -0.5),
        Unary::Rcp => root(graph, -1.0),
        Unary::Expm1 => {
            let log = call(graph, "log_expm1", None, &[a]);
            Some(Log::signed(vec![(1.0, log)], true))
        }
        Unary::Negate => {
            if let Some((a, b)) = called_with_two(graph, a, "exp_difference") {
                return Some(log_of_difference(graph, b, a));
            }
            if let Some((a, b)) = called_with_two(graph, a, "sigmoid_difference") {
                let opposite = call(graph, "sigmoid_difference", None, &[b, a]);
                return log_of_call(graph, opposite);
            }
            let x = unary(graph, a, Unary::Expm1)?;
            let log = call(graph, "log_one_minus_exp", None, &[x]);
            Some(Log::signed(vec![(1.0, log)], false))
        }
        _ => None,
    }
}

/// `log(exp(a) - exp(b))`
fn log_of_difference(graph: &mut Graph, a: NodeId, b: NodeId) -> Log {
    let below = difference(graph, b, a);
    let log = call(graph, "log_one_minus_exp", None, &[below]);
    Log::signed(vec![(1.0, a), (1.0, log)], true)
}

fn log_of_call(graph: &mut Graph, node: NodeId) -> Option<Log> {
    let Op::Call(function, arguments) = graph[node].op.clone() else { return None };
    let x = *arguments.first()?;
    let mut one = |factor: f64, name: &'static str, x: NodeId, unbounded: bool| {
        let log = call(graph, name, None, &[x]);
        Some(Log::known(vec![(factor, log)], unbounded))
    };
    match function.function {
        "sigmoid" => {
            let opposite = negate(graph, x);
            let log = call(graph, "softplus", None, &[opposite]);
            Some(Log::known(vec![(-1.0, log)], false))
        }
        "softmax" => {
            let total = graph.make(Op::Reduce(Fold::LogSumExp, function.over?, x));
            Some(Log::known(vec![(1.0, x), (-1.0, total)], false))
        }
        "softplus" => one(1.0, "log_softplus", x, true),
        "sech_squared" => one(-2.0, "log_cosh", x, false),
        "one_minus_squared_sigmoid" => {
            let upper = call(graph, "sigmoid", None, &[x]);
            let (down, more) =
                (call(graph, "softplus", None, &[x]), graph.make(Op::Unary(Unary::Log1p, upper)));
            Some(Log::known(vec![(1.0, more), (-1.0, down)], false))
        }
        "one_plus_tanh" => {
            let opposite = negate(graph, x);
            let log = call(graph, "log_one_minus_tanh", None, &[opposite]);
            Some(Log::known(vec![(1.0, log)], false))
        }
        "one_minus_tanh" => one(1.0, "log_one_minus_tanh", x, false),
        "one_minus_by_log" => {
            let log = call(graph, "log_one_minus_exp", None, &[*arguments.get(1)?]);
            Some(Log::known(vec![(1.0, log)], false))
        }
        "sum_of_other_exps" => {
            let log = call(graph, "log_sum_of_other_exps", function.over, &[x]);
            Some(Log::known(vec![(1.0, log)], true))
        }
        "sigmoid_difference" => {
            let (y, opposite) = (*arguments.get(1)?, negate(graph, x));
            let below = difference(graph, y, x);
            let log = call(graph, "log_one_minus_exp", None, &[below]);
            let (up, down) =
                (call(graph, "softplus", None, &[opposite]), call(graph, "softplus", None, &[y]));
            Some(Log::signed(vec![(1.0, log), (-1.0, up), (-1.0, down)], false))
        }
        "exp_difference" => Some(log_of_difference(graph, x, *arguments.get(1)?)),
        _ => None,
    }
}

/// The logarithms of factors that are added, and the factors that have none here.
struct Factors {
    log: Log,
    above: Vec<NodeId>,
    below: Vec<NodeId>,
}

/// Sorts the factors of a product; one that may be negative has a logarithm by itself alone.
fn factors_of(graph: &mut Graph, node: NodeId, fuel: &mut Fuel) -> Option<Factors> {
    let mut factors = Vec::new();
    gather_factors(graph, node, 1.0, &mut factors, fuel)?;
    let nothing = Log { informative: false, ..Log::known(Vec::new(), false) };
    let mut sorted = Factors { log: nothing, above: Vec::new(), below: Vec::new() };
    let mut signed = Vec::new();
    for (power, factor) in factors {
        match log_of(graph, factor, Unknown::Refused, fuel) {
            Some(log) if log.signed => signed.push((power, factor, log)),
            Some(log) => sorted.log = sorted.log.plus(log.times(power)),
            None if power > 0.0 => sorted.above.push(factor),
            None => sorted.below.push(factor),
        }
    }
    let alone = signed.len() == 1 && sorted.above.is_empty() && sorted.below.is_empty();
    for (power, factor, log) in signed {
        match power > 0.0 {
            _ if alone => sorted.log = sorted.log.clone().plus(log.times(power)),
            true => sorted.above.push(factor),
            false => sorted.below.push(factor),
        }
    }
    Some(sorted)
}

/// The logarithm of a product whose factors' logarithms are known, but for one of which not even the sign is.
fn log_of_product(
    graph: &mut Graph,
    node: NodeId,
    unknown: Unknown,
    fuel: &mut Fuel,
) -> Option<Log> {
    let Factors { log: total, above, below } = factors_of(graph, node, fuel)?;
    let rest = match (&above[..], &below[..]) {
        ([], []) => return Some(total),
        _ if unknown == Unknown::Refused => return None,
        // The square of anything: its root is within range.
        ([a, b], []) if a == b => (2.0, graph.make(Op::Unary(Unary::Abs, *a))),
        // The area hyperbolic tangent: close to 1, both sums round away what matters.
        ([a], [b]) if are_mirrored(graph, *a, *b) => {
            let (a, b) = (one_plus(graph, *a)?, one_plus(graph, *b)?);
            let (up, down) =
                (graph.make(Op::Unary(Unary::Log1p, a)), graph.make(Op::Unary(Unary::Log1p, b)));
            return Some(total.plus(Log::signed(vec![(1.0, up), (-1.0, down)], true)));
        }
        _ if !total.informative => return None,
        ([a], []) => (1.0, *a),
        ([], [b]) => (-1.0, *b),
        // Products of factors that the text keeps apart may overflow where it does not.
        _ => return None,
    };
    let log = stabilise(graph, Op::Unary(Unary::Log, rest.1));
    let split = total.clone().plus(Log::signed(vec![(rest.0, log)], true));
    if !total.informative {
        return Some(split);
    }
    let split = split.combined(graph).node(graph);
    // Where the factors cancel, their logarithms do not cancel as well: the text is taken while its factors are within range.
    let known = total.combined(graph).node(graph);
    let size = graph.make(Op::Unary(Unary::Abs, known));
    let most = constant(graph, MOST_EXPONENT);
    let within = binary(graph, Binary::Less, size, most);
    let plain = graph.make(Op::Unary(Unary::Log, node));
    let chosen = graph.make(Op::Select(within, plain, split));
    Some(Log::signed(vec![(1.0, chosen)], true))
}

/// `x` of `1 + x`
pub(super) fn one_plus(graph: &mut Graph, node: NodeId) -> Option<NodeId> {
    match graph[node].op {
        Op::Binary(Binary::Add, a, b) if number(graph, a) == Some(1.0) => Some(b),
        Op::Binary(Binary::Add, a, b) if number(graph, b) == Some(1.0) => Some(a),
        Op::Binary(Binary::Subtract, a, b) if number(graph, a) == Some(1.0) => {
            Some(negate(graph, b))
        }
        Op::Unary(Unary::Negate, inside) => match graph[inside].op {
            Op::Binary(Binary::Subtract, a, b) if number(graph, b) == Some(1.0) => {
                Some(negate(graph, a))
            }
            _ => None,
        },
        _ => None,
    }
}

/// Whether the two are `1 + x` and `1 - x`.
fn are_mirrored(graph: &mut Graph, a: NodeId, b: NodeId) -> bool {
    match (one_plus(graph, a), one_plus(graph, b)) {
        (Some(a), Some(b)) => are_opposite(graph, a, b),
        _ => false,
    }
}

fn gather_factors(
    graph: &Graph,
    node: NodeId,
    power: f64,
    factors: &mut Vec<(f64, NodeId)>,
    fuel: &mut Fuel,
) -> Option<()> {
    fuel.burn()?;
    let node = text(graph, node).unwrap_or(node);
    match graph[node].op {
        Op::Binary(Binary::Multiply, a, b) => {
            gather_factors(graph, a, power, factors, fuel)?;
            gather_factors(graph, b, power, factors, fuel)
        }
        Op::Binary(Binary::Divide, a, b) => {
            gather_factors(graph, a, power, factors, fuel)?;
            gather_factors(graph, b, -power, factors, fuel)
        }
        Op::Unary(Unary::Rcp, a) => gather_factors(graph, a, -power, factors, fuel),
        _ => {
            factors.push((power, node));
            Some(())
        }
    }
}

/// `log(a + b)` of two positive values. A constant beside a value that cannot overflow is meant as it stands.
fn log_of_sum(graph: &mut Graph, a: NodeId, b: NodeId, fuel: &mut Fuel) -> Option<Log> {
    let a = log_of(graph, a, Unknown::Refused, fuel)?.of_positive()?.combined(graph);
    let b = log_of(graph, b, Unknown::Refused, fuel)?.of_positive()?.combined(graph);
    let (a, b) = if a.terms.is_empty() { (b, a) } else { (a, b) };
    let unbounded = a.unbounded || b.unbounded;
    if b.terms.is_empty() {
        if a.terms.is_empty() || !a.unbounded {
            return None;
        }
        let above = Log { constant: a.constant - b.constant, ..a }.node(graph);
        let log = call(graph, "softplus", None, &[above]);
        return Some(Log { constant: b.constant, ..Log::known(vec![(1.0, log)], true) });
    }
    if !a.informative || !b.informative {
        return None;
    }
    let common = if a.constant == b.constant { a.constant } else { 0.0 };
    let part = |log: Log| Log { constant: log.constant - common, ..log };
    let (left, right) = (part(a).node(graph), part(b).node(graph));
    if are_opposite(graph, left, right) {
        let (factor, x) = scaled(graph, left);
        let size = multiple(graph, factor.abs(), x);
        let log = call(graph, "log_cosh", None, &[size]);
        return Some(Log { constant: common + LN_2, ..Log::known(vec![(1.0, log)], unbounded) });
    }
    let log = call(graph, "log_add_exp", None, &[left, right]);
    Some(Log { constant: common, ..Log::known(vec![(1.0, log)], unbounded) })
}

/// The logarithm of the larger or smaller of two positive values. A constant beside a value that cannot overflow is meant
/// as it stands.
fn log_of_extreme(
    graph: &mut Graph,
    op: Binary,
    a: NodeId,
    b: NodeId,
    fuel: &mut Fuel,
) -> Option<Log> {
    let a = log_of(graph, a, Unknown::Refused, fuel)?.of_positive()?.combined(graph);
    let b = log_of(graph, b, Unknown::Refused, fuel)?.of_positive()?.combined(graph);
    let both = a.informative && b.informative;
    if !both && !a.unbounded && !b.unbounded {
        return None;
    }
    let (left, right) = (a.node(graph), b.node(graph));
    let log = binary(graph, op, left, right);
    Some(Log::known(vec![(1.0, log)], a.unbounded || b.unbounded))
}

/// The logarithm of a product, power or root of probabilities.
pub(super) fn log_of_probability(graph: &mut Graph, p: NodeId) -> Option<NodeId> {
    match graph[p].op {
        Op::Binary(Binary::Multiply | Binary::Pow, ..)
        | Op::Unary(Unary::Sqrt, _)
        | Op::Reduce(Fold::Prod, ..) => {}
        _ => return None,
    }
    let log = log_of(graph, p, Unknown::Refused, &mut Fuel::new())?.of_positive()?.combined(graph);
    // A constant factor may be above 1.
    if !log.informative || log.unbounded || log.constant > 0.0 || log.terms.is_empty() {
        return None;
    }
    let positive = log.terms.iter().any(|(factor, term)| {
        *factor < 0.0 && called(graph, *term, "softplus").is_none() && !is_logsumexp(graph, *term)
    });
    if positive {
        return None;
    }
    let value = log.node(graph);
    (graph.ty(value) == graph.ty(p)).then_some(value)
}

fn is_logsumexp(graph: &Graph, node: NodeId) -> bool {
    matches!(graph[node].op, Op::Reduce(Fold::LogSumExp, ..))
}

/// `log(1 - p)` of what is below 1. Logits' own rounding would be worse than that of a softmax.
fn log_of_complement(graph: &mut Graph, p: NodeId, fuel: &mut Fuel) -> Option<Log> {
    if let Some(rest) = complement(graph, p, fuel) {
        return log_of(graph, rest, Unknown::Refused, fuel);
    }
    let log = log_of(graph, p, Unknown::Refused, fuel)?.of_positive()?.combined(graph);
    if !log.informative || log.terms.iter().any(|(_, term)| is_logsumexp(graph, *term)) {
        return None;
    }
    let power = log.node(graph);
    let log = call(graph, "log_one_minus_exp", None, &[power]);
    Some(Log::known(vec![(1.0, log)], false))
}

/// `log(1 + v)`
fn log_of_one_plus(graph: &mut Graph, v: NodeId, fuel: &mut Fuel) -> Option<Log> {
    let one = |graph: &mut Graph, factor: f64, function: &'static str, x: NodeId| {
        let log = call(graph, function, None, &[x]);
        Some(Log::known(vec![(factor, log)], false))
    };
    let (factor, inner) = scaled(graph, v);
    if let Some(x) = unary(graph, inner, Unary::Tanh).filter(|_| factor.abs() == 1.0) {
        let x = if factor > 0.0 { negate(graph, x) } else { x };
        return one(graph, 1.0, "log_one_minus_tanh", x);
    }
    if let Some((sign, root)) = square(graph, inner)
        && factor * sign == -1.0
        && let Some(x) = unary(graph, root, Unary::Tanh)
    {
        return one(graph, -2.0, "log_cosh", x);
    }
    if let Some(x) = unary(graph, inner, Unary::Expm1).filter(|_| factor == 1.0) {
        return Some(Log::known(vec![(1.0, x)], true));
    }
    if let Some(x) = called(graph, inner, "sigmoid").filter(|_| factor == -1.0) {
        return one(graph, -1.0, "softplus", x);
    }
    if factor == -1.0 {
        return log_of_complement(graph, inner, fuel);
    }
    let log = log_of(graph, v, Unknown::Refused, fuel)?.of_positive()?.combined(graph);
    if !log.unbounded || log.terms.is_empty() {
        return None;
    }
    let above = log.node(graph);
    one(graph, 1.0, "softplus", above)
}
