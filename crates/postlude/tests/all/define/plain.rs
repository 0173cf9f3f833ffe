//! What a text gives when it is evaluated as a NumPy user would: every operation and every function rounded to f32, in
//! the order written.

use std::collections::HashMap;

use postlude::syntax::{self, ExprId, ExprKind, Exprs, Infix, Number, Prefix};

/// Whether a product that is added or subtracted is rounded by itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Products {
    Rounded,
    Contracted,
}

/// A text to evaluate at many points.
pub(crate) struct Plain {
    exprs: Exprs,
    root: ExprId,
}

impl Plain {
    pub(crate) fn parse(expression: &str) -> Plain {
        let (exprs, root) = syntax::parse_expression(expression).expect("an expression");
        Plain { exprs, root }
    }

    /// The value where `x` and `y` are these; `function` computes one of one number.
    pub(crate) fn at(
        &self,
        (x, y): (f32, f32),
        products: Products,
        function: impl Fn(&str, f32) -> f32,
    ) -> f32 {
        let mut values: HashMap<ExprId, f32> = HashMap::new();
        let mut factors: HashMap<ExprId, (f32, f32)> = HashMap::new();
        for (id, expr) in self.exprs.iter() {
            let value = match &expr.kind {
                ExprKind::Number(Number::Float(value)) => *value as f32,
                ExprKind::Number(Number::Integer(value)) => *value as f32,
                ExprKind::Name(name) => {
                    if name == "y" {
                        y
                    } else {
                        x
                    }
                }
                ExprKind::Prefix(Prefix::Negate, a) => -values[a],
                ExprKind::Prefix(Prefix::Not, a) => 1.0 - values[a],
                ExprKind::Infix(infix, a, b) => {
                    let (left, right) = (values[a], values[b]);
                    let (of_left, of_right) = match products {
                        Products::Rounded => (None, None),
                        Products::Contracted => (factors.get(a).copied(), factors.get(b).copied()),
                    };
                    if *infix == Infix::Multiply {
                        factors.insert(id, (left, right));
                    }
                    operate(*infix, (left, of_left), (right, of_right))
                }
                ExprKind::Call { function: called, arguments, .. } => {
                    let argument = |place: usize| values[&arguments[place]];
                    match (called.text.as_str(), arguments.len()) {
                        ("square", 1) => {
                            factors.insert(id, (argument(0), argument(0)));
                            argument(0) * argument(0)
                        }
                        (name, 1) => function(name, argument(0)),
                        (name, 2) => of_two(name, argument(0), argument(1)),
                        ("where", _) if argument(0) != 0.0 => argument(1),
                        ("where", _) => argument(2),
                        ("clamp", _) => smaller(larger(argument(0), argument(1)), argument(2)),
                        ("fma", _) => argument(0).mul_add(argument(1), argument(2)),
                        (name, _) => {
                            unreachable!("{name} is not in the expressions of these tests")
                        }
                    }
                }
                ExprKind::Prefix(Prefix::Invert, _)
                | ExprKind::Annotated(..)
                | ExprKind::Dims(_)
                | ExprKind::Transpose(_)
                | ExprKind::Product(..) => unreachable!("not in the expressions of these tests"),
            };
            values.insert(id, value);
        }
        values[&self.root]
    }
}

/// A value, and the factors that it is the product of, to be contracted.
type Operand = (f32, Option<(f32, f32)>);

fn operate(infix: Infix, (left, of_left): Operand, (right, of_right): Operand) -> f32 {
    let truth = |holds: bool| f32::from(u8::from(holds));
    match infix {
        Infix::Add => match (of_left, of_right) {
            (Some((c, d)), _) => c.mul_add(d, right),
            (None, Some((c, d))) => c.mul_add(d, left),
            (None, None) => left + right,
        },
        Infix::Subtract => match (of_left, of_right) {
            (Some((c, d)), _) => c.mul_add(d, -right),
            (None, Some((c, d))) => (-c).mul_add(d, left),
            (None, None) => left - right,
        },
        Infix::Multiply => left * right,
        // What underflowed to 0 has lost its sign.
        Infix::Divide if right == 0.0 => f32::NAN,
        Infix::Divide => left / right,
        Infix::Less => truth(left < right),
        Infix::LessEqual => truth(left <= right),
        Infix::Greater => truth(left > right),
        Infix::GreaterEqual => truth(left >= right),
        Infix::Equal => truth(left == right),
        Infix::NotEqual => truth(left != right),
        Infix::And => left * right,
        Infix::Or => left.max(right),
        Infix::Xor | Infix::ShiftLeft | Infix::ShiftRight => {
            unreachable!("not in the expressions of these tests")
        }
    }
}

/// The larger, nan if either is.
fn larger(a: f32, b: f32) -> f32 {
    if a.is_nan() || b.is_nan() { f32::NAN } else { a.max(b) }
}

fn smaller(a: f32, b: f32) -> f32 {
    if a.is_nan() || b.is_nan() { f32::NAN } else { a.min(b) }
}

fn of_two(name: &str, x: f32, y: f32) -> f32 {
    match name {
        "maximum" => larger(x, y),
        "minimum" => smaller(x, y),
        // Either side of a jump is right.
        "fmod" if ((x / y) - (x / y).round()).abs() < 1e-5 => f32::NAN,
        "fmod" => x % y,
        // Any number to the power of what underflowed is 1.
        "pow" if x == 0.0 || x.is_infinite() => f32::NAN,
        "pow" => f64::from(x).powf(f64::from(y)) as f32,
        _ => unreachable!("{name} is not in the expressions of these tests"),
    }
}

/// A function of one number: elementary ones rounded once, activations by their formulas.
pub(crate) fn rounded(name: &str, x: f32) -> f32 {
    match name {
        "sigmoid" => 1.0 / (1.0 + elementary("exp", -x)),
        "softplus" => larger(x, 0.0) + elementary("log1p", elementary("exp", -x.abs())),
        "logsigmoid" => -rounded("softplus", -x),
        "silu" => x * rounded("sigmoid", x),
        "relu" => larger(x, 0.0),
        "elu" if x > 0.0 => x,
        "elu" => elementary("expm1", x),
        "mish" => x * elementary("tanh", rounded("softplus", x)),
        "gelu" => 0.5 * x * (1.0 + elementary("erf", std::f32::consts::FRAC_1_SQRT_2 * x)),
        "abs" => x.abs(),
        "sign" if x == 0.0 => 0.0,
        "sign" if x.is_nan() => f32::NAN,
        "sign" => x.signum(),
        "floor" => x.floor(),
        "ceil" => x.ceil(),
        "round" => x.round_ties_even(),
        "trunc" => x.trunc(),
        _ => elementary(name, x),
    }
}

fn elementary(name: &str, x: f32) -> f32 {
    let x = f64::from(x);
    let value = match name {
        "sqrt" => x.sqrt(),
        "rsqrt" => 1.0 / x.sqrt(),
        // As a quotient by 0.
        "rcp" if x == 0.0 => f64::NAN,
        "rcp" => 1.0 / x,
        "exp" => x.exp(),
        "exp2" => x.exp2(),
        "log" => x.ln(),
        "log2" => x.log2(),
        "log1p" => x.ln_1p(),
        "expm1" => x.exp_m1(),
        "sin" => x.sin(),
        "cos" => x.cos(),
        "tan" => x.tan(),
        "atan" => x.atan(),
        "tanh" => x.tanh(),
        "sinh" => x.sinh(),
        "cosh" => x.cosh(),
        "asinh" => libm::asinh(x),
        "erf" => libm::erf(x),
        _ => unreachable!("{name} is not in the expressions of these tests"),
    };
    value as f32
}
