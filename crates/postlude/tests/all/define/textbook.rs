//! What an expression of the language means on paper: every function by its textbook formula, no rounding, no care.

use std::collections::HashMap;

use postlude::syntax::{self, ExprId, ExprKind, Exprs, Infix, Number, Prefix};

use super::real::{Real, with_bits};

/// Values along the columns; one stands for all of them.
type Row = Vec<Real>;

/// An expression to evaluate at many points and precisions.
pub(crate) struct Textbook {
    exprs: Exprs,
    root: ExprId,
}

impl Textbook {
    pub(crate) fn parse(expression: &str) -> Textbook {
        let (exprs, root) = syntax::parse_expression(expression).expect("an expression");
        Textbook { exprs, root }
    }

    /// The single value, computed with `bits` bits and rounded to f64; `None` if a part of the expression is not finite.
    pub(crate) fn finite(&self, bits: usize, names: &[(&str, &[f64])]) -> Option<f64> {
        with_bits(bits, || {
            let rows = self.rows(names);
            let finite = rows.values().flatten().all(Real::is_finite);
            finite.then(|| rows[&self.root][0].to_f64())
        })
    }
}

/// The value of an expression for these values of its names.
pub(crate) fn evaluate(expression: &str, names: &[(&str, &[f64])]) -> Vec<Real> {
    let textbook = Textbook::parse(expression);
    textbook.rows(names).remove(&textbook.root).expect("the root is an expression")
}

impl Textbook {
    /// The values of every part.
    fn rows(&self, names: &[(&str, &[f64])]) -> HashMap<ExprId, Row> {
        let mut rows: HashMap<ExprId, Row> = HashMap::new();
        for (id, expr) in self.exprs.iter() {
            let row = match &expr.kind {
                ExprKind::Number(Number::Float(value)) => {
                    vec![Real::from_decimal(&format!("{value:e}"))]
                }
                ExprKind::Number(Number::Integer(value)) => vec![Real::from(*value as f64)],
                ExprKind::Name(name) => match names.iter().find(|(known, _)| known == name) {
                    Some((_, values)) => values.iter().map(|value| Real::from(*value)).collect(),
                    None => Row::new(),
                },
                ExprKind::Prefix(Prefix::Negate, a) => each(&rows[a], |x| -x.clone()),
                ExprKind::Prefix(Prefix::Not, a) => each(&rows[a], |x| Real::from(1.0) - x),
                ExprKind::Infix(infix, a, b) => {
                    both(&rows[a], &rows[b], |a, b| operate(*infix, a, b))
                }
                ExprKind::Call { function, arguments, .. } => {
                    let arguments: Vec<&Row> =
                        arguments.iter().map(|argument| &rows[argument]).collect();
                    call(&function.text, &arguments)
                }
                ExprKind::Prefix(Prefix::Invert, _)
                | ExprKind::Annotated(..)
                | ExprKind::Dims(_)
                | ExprKind::Transpose(_)
                | ExprKind::Product(..) => {
                    unreachable!("not in the expressions of these tests")
                }
            };
            rows.insert(id, row);
        }
        rows
    }
}

/// [`evaluate`] at a precision at which nothing cancels, checked at a higher one.
pub(crate) fn exactly(expression: &str, names: &[(&str, &[f64])]) -> Vec<f64> {
    let bits = enough_bits(expression, names);
    let at = |bits| -> Vec<f64> {
        with_bits(bits, || evaluate(expression, names).iter().map(Real::to_f64).collect())
    };
    // The rule that chose the precision is checked where that is quick.
    let values = at(bits);
    if bits >= 8192 {
        return values;
    }
    let check = at(bits + bits / 8);
    for (value, check) in values.iter().zip(&check) {
        let same = value == check || (value - check).abs() <= 4.0 * f64::EPSILON * value.abs();
        assert!(same || value.is_nan(), "{bits} bits are too few for {expression}");
    }
    values
}

/// [`exactly`], at a low precision where a second one confirms it: only sums of very different exponentials need many bits.
pub(crate) fn exactly_or_quickly(expression: &str, names: &[(&str, &[f64])]) -> Vec<f64> {
    let at = |bits| with_bits(bits, || evaluate(expression, names));
    let (low, high) = (at(512), at(768));
    let zero = with_bits(512, || Real::from(0.0));
    let agrees = |low: &Real, high: &Real| {
        let ratio = with_bits(768, || (low.clone() / high).to_f64());
        *low != zero && *high != zero && (ratio - 1.0).abs() <= 4.0 * f64::EPSILON
    };
    if low.iter().zip(&high).all(|(low, high)| agrees(low, high)) {
        return high.iter().map(Real::to_f64).collect();
    }
    exactly(expression, names)
}

/// Each exponential of `x` is within 1.45 |x| binary digits of 1 on either side, its square twice that; products of small
/// arguments need as many digits as their exponents are apart. The error function is an exponential of a square.
pub(crate) fn enough_bits(expression: &str, names: &[(&str, &[f64])]) -> usize {
    let largest = (names.iter().flat_map(|(_, values)| values.iter()))
        .fold(0.0_f64, |largest, x| largest.max(x.abs()));
    let squared = ["erf", "gelu", "exp(-square"].iter().any(|name| expression.contains(name));
    let cubed = expression.contains("gelu_tanh");
    let exponent = if cubed {
        0.08 * largest * largest * largest + largest
    } else if squared {
        largest * largest
    } else {
        largest
    };
    640 + (3.0 * exponent) as usize
}

fn each(row: &Row, f: impl Fn(&Real) -> Real) -> Row {
    row.iter().map(f).collect()
}

fn both(a: &Row, b: &Row, f: impl Fn(&Real, &Real) -> Real) -> Row {
    let width = a.len().max(b.len());
    let at = |row: &Row, column: usize| row[if row.len() == 1 { 0 } else { column }].clone();
    (0..width).map(|column| f(&at(a, column), &at(b, column))).collect()
}

fn truth(holds: bool) -> Real {
    Real::from(f64::from(u8::from(holds)))
}

fn operate(infix: Infix, a: &Real, b: &Real) -> Real {
    let one = Real::from(1.0);
    match infix {
        Infix::Add => a.clone() + b,
        Infix::Subtract => a.clone() - b,
        Infix::Multiply => a.clone() * b,
        Infix::Divide => a.clone() / b,
        Infix::Less => truth(a < b),
        Infix::LessEqual => truth(a <= b),
        Infix::Greater => truth(a > b),
        Infix::GreaterEqual => truth(a >= b),
        Infix::Equal => truth(a == b),
        Infix::NotEqual => truth(a != b),
        Infix::And => truth(*a == one && *b == one),
        Infix::Or => truth(*a == one || *b == one),
        Infix::Xor | Infix::ShiftLeft | Infix::ShiftRight => unreachable!("bits of reals"),
    }
}

fn call(function: &str, arguments: &[&Row]) -> Row {
    match (function, arguments) {
        ("sum", [x, ..]) => vec![sum(x)],
        ("mean", [x, ..]) => vec![sum(x) / x.len() as f64],
        ("prod", [x, ..]) => vec![x.iter().fold(Real::from(1.0), |total, x| total * x)],
        ("pick", [x, index]) => vec![x[index[0].to_f64() as usize].clone()],
        ("f32", [x]) => (*x).clone(),
        ("max", [x, ..]) => vec![x[1..].iter().fold(x[0].clone(), |a, b| larger(&a, b))],
        ("min", [x, ..]) => vec![x[1..].iter().fold(x[0].clone(), |a, b| smaller(&a, b))],
        ("logsumexp", [x, ..]) => vec![sum(&each(x, Real::exp)).ln()],
        ("softmax", [x, ..]) => {
            let total = sum(&each(x, Real::exp));
            each(x, |x| x.exp() / &total)
        }
        ("log_softmax", [x, ..]) => {
            let total = sum(&each(x, Real::exp));
            each(x, |x| (x.exp() / &total).ln())
        }
        ("where", [condition, x, y]) => {
            let kept =
                both(
                    condition,
                    x,
                    |holds, x| if *holds == truth(true) { x.clone() } else { Real::from(0.0) },
                );
            let other =
                both(
                    condition,
                    y,
                    |holds, y| if *holds == truth(true) { Real::from(0.0) } else { y.clone() },
                );
            both(&kept, &other, |a, b| a.clone() + b)
        }
        (_, [x]) => each(x, |x| unary(function, x)),
        (_, [x, y]) => both(x, y, |x, y| binary(function, x, y)),
        (_, [x, y, z]) => {
            let [y, z] = [&y[0], &z[0]];
            each(x, |x| ternary(function, x, y, z))
        }
        _ => unreachable!("{function}"),
    }
}

fn sum(row: &Row) -> Real {
    row.iter().fold(Real::from(0.0), |total, x| total + x)
}

fn larger(a: &Real, b: &Real) -> Real {
    if a < b { b.clone() } else { a.clone() }
}

fn smaller(a: &Real, b: &Real) -> Real {
    if a > b { b.clone() } else { a.clone() }
}

fn nearest_even(x: &Real) -> Real {
    let below = x.clone().floor();
    let rest = x.clone() - &below;
    let half = Real::from(0.5);
    let whole = |x: &Real| *x == (x.clone() / 2.0).floor() * 2.0;
    if rest < half || (rest == half && whole(&below)) { below } else { below + 1.0 }
}

fn relu6(x: &Real) -> Real {
    smaller(&larger(x, &Real::from(0.0)), &Real::from(6.0))
}

fn sigmoid(x: &Real) -> Real {
    Real::from(1.0) / ((-x.clone()).exp() + 1.0)
}

/// By Newton's method from the nearest f64: digits double with every step.
fn arc_tangent(x: &Real) -> Real {
    if x.to_f64().abs() > 1.0 {
        let quarter = Real::pi() / 2.0;
        let rest = arc_tangent(&(Real::from(1.0) / x));
        return if x.to_f64() > 0.0 { quarter - rest } else { -quarter - rest };
    }
    let mut angle = Real::from(x.to_f64().atan());
    for _ in 0..6 {
        let tangent = angle.sin() / angle.cos();
        let slope = tangent.clone() * &tangent + 1.0;
        angle = angle - (tangent - x) / slope;
    }
    angle
}

/// Functions of one number: PyTorch's documentation, or the literature's formula.
pub(crate) fn unary(function: &str, x: &Real) -> Real {
    let zero = Real::from(0.0);
    let x = x.clone();
    match function {
        "negate" => -x,
        "abs" => x.abs(),
        "sign" if x == zero => zero,
        "sign" => x.clone() / x.abs(),
        "sqrt" => x.sqrt(),
        "rsqrt" => Real::from(1.0) / x.sqrt(),
        "rcp" => Real::from(1.0) / x,
        "square" => x.clone() * x,
        "exp" => x.exp(),
        "exp2" => (x * Real::from(2.0).ln()).exp(),
        "log" => x.ln(),
        "log2" => x.ln() / Real::from(2.0).ln(),
        "log1p" => x.ln_1p(),
        "expm1" => x.exp_m1(),
        "sin" => x.sin(),
        "cos" => x.cos(),
        "tanh" => x.tanh(),
        "erf" => x.erf(),
        "floor" => x.floor(),
        "ceil" => -(-x).floor(),
        "round" => nearest_even(&x),
        "relu" => larger(&x, &zero),
        "relu6" => relu6(&x),
        "leaky_relu" => binary("leaky_relu", &x, &Real::from_decimal("0.01")),
        "elu" if x > zero => x,
        "elu" => x.exp_m1(),
        "selu" => {
            let scale = Real::from_decimal("1.0507009873554804934193349852946");
            let alpha = Real::from_decimal("1.6732632423543772848170429916717");
            if x > zero { scale * x } else { scale * alpha * (x.exp() - 1.0) }
        }
        "softplus" => x.softplus(),
        "logsigmoid" => -(-x).softplus(),
        "trunc" if x < zero => -(-x).floor(),
        "trunc" => x.floor(),
        "tan" => x.sin() / x.cos(),
        "atan" => arc_tangent(&x),
        "sinh" => x.sinh(),
        "cosh" => (x.exp() + (-x).exp()) / 2.0,
        "asinh" => {
            let size = x.abs();
            let log = (size.clone() + (size.clone() * &size + 1.0).sqrt()).ln();
            if x < zero { -log } else { log }
        }
        "sigmoid" => sigmoid(&x),
        "silu" => x.clone() * sigmoid(&x),
        "mish" => x.clone() * x.softplus().tanh(),
        "hardswish" => x.clone() * relu6(&(x + 3.0)) / 6.0,
        "hardsigmoid" => relu6(&(x + 3.0)) / 6.0,
        "gelu" => x.clone() * ((x / Real::from(2.0).sqrt()).erf() + 1.0) / 2.0,
        "gelu_tanh" => {
            let cube = x.clone() * &x * &x;
            let inner = (Real::from_decimal("0.044715") * cube + &x)
                * (Real::from(2.0) / Real::pi()).sqrt();
            x * (inner.tanh() + 1.0) / 2.0
        }
        "quick_gelu" => x.clone() * sigmoid(&(Real::from_decimal("1.702") * x)),
        "relu2" => {
            let positive = larger(&x, &zero);
            positive.clone() * positive
        }
        _ => unreachable!("{function}"),
    }
}

/// Functions of two numbers.
pub(crate) fn binary(function: &str, x: &Real, y: &Real) -> Real {
    let (x, y) = (x.clone(), y.clone());
    match function {
        "elu" if x > Real::from(0.0) => x,
        "elu" => y * (x.exp() - 1.0),
        "softplus" => ((y.clone() * x).exp() + 1.0).ln() / y,
        "fmod" => {
            let quotient = x.clone() / &y;
            let whole = unary("trunc", &quotient);
            x - whole * y
        }
        "add" => x + y,
        "subtract" => x - y,
        "multiply" => x * y,
        "divide" => x / y,
        "maximum" => larger(&x, &y),
        "minimum" => smaller(&x, &y),
        "pow" => x.pow(&y),
        "leaky_relu" if x > Real::from(0.0) => x,
        "leaky_relu" => x * y,
        "snake" => {
            let wave = (x.clone() * &y).sin();
            x + wave.clone() * wave / y
        }
        _ => unreachable!("{function}"),
    }
}

/// Functions of three numbers.
pub(crate) fn ternary(function: &str, x: &Real, y: &Real, z: &Real) -> Real {
    let x = x.clone();
    match function {
        "clamp" => smaller(&larger(&x, y), z),
        "threshold" if x > *y => x,
        "threshold" => z.clone(),
        "fma" => x * y + z,
        _ => unreachable!("{function}"),
    }
}
