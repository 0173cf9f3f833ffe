//! Other ways to write the same expression: commuted, negated, with reciprocals, with names.

use postlude::syntax::{self, ExprId, ExprKind, Exprs, Infix, Number};
use postlude_corpus::pick;

/// A way to rewrite an expression without a change of its value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Variant {
    /// `b + a` for `a + b`, `b * a` for `a * b`.
    Commuted,
    /// `-(b - a)` for `a - b`.
    Negated,
    /// `-b + a` for `a - b`.
    Added,
    /// `a * rcp(b)` for `a / b`, `x * x` for `square(x)`.
    Reciprocal,
    /// A name for every call.
    Named,
}

impl Variant {
    pub(crate) const ALL: [Variant; 5] =
        [Variant::Commuted, Variant::Negated, Variant::Added, Variant::Reciprocal, Variant::Named];
}

/// The expression as it stands, and in a variant that it picks and that differs from it, or in all of them where everything
/// is asked for.
pub(crate) fn ways(expression: &str) -> Vec<String> {
    let mut ways = vec![expression.to_owned()];
    for variant in pick(&Variant::ALL, expression, 1) {
        let other = written(expression, variant);
        if !ways.contains(&other) {
            ways.push(other);
        }
    }
    ways
}

/// Statements and the value they end in, separated by semicolons.
pub(crate) fn written(expression: &str, variant: Variant) -> String {
    let (exprs, root) = syntax::parse_expression(expression).expect("an expression");
    let mut writer = Writer { exprs: &exprs, variant, statements: Vec::new() };
    let value = writer.write(root);
    writer.statements.push(value);
    writer.statements.join("; ")
}

/// The expression with exponentials and logarithms to base 2.
pub(crate) fn to_base_two(expression: &str) -> String {
    expression.replace("exp(", "exp2(").replace("log(", "log2(").replace("pexp2(", "pexp(")
}

struct Writer<'a> {
    exprs: &'a Exprs,
    variant: Variant,
    statements: Vec<String>,
}

impl Writer<'_> {
    fn write(&mut self, id: ExprId) -> String {
        match &self.exprs[id].kind {
            ExprKind::Number(Number::Integer(value)) => value.to_string(),
            ExprKind::Number(Number::Float(value)) => format!("{value:?}"),
            ExprKind::Name(name) => name.clone(),
            ExprKind::Prefix(prefix, a) => format!("{}({})", prefix.symbol(), self.write(*a)),
            ExprKind::Infix(infix, a, b) => {
                let (a, b) = (self.write(*a), self.write(*b));
                match (infix, self.variant) {
                    (Infix::Add | Infix::Multiply, Variant::Commuted) => {
                        format!("({b} {} {a})", infix.symbol())
                    }
                    (Infix::Subtract, Variant::Negated) => format!("(-({b} - {a}))"),
                    (Infix::Subtract, Variant::Added) => format!("(-{b} + {a})"),
                    (Infix::Divide, Variant::Reciprocal) => format!("({a} * rcp({b}))"),
                    _ => format!("({a} {} {b})", infix.symbol()),
                }
            }
            ExprKind::Call { function, arguments, .. } => {
                let arguments: Vec<String> = arguments.iter().map(|a| self.write(*a)).collect();
                if function.text == "square" && self.variant == Variant::Reciprocal {
                    return format!("({0} * {0})", arguments[0]);
                }
                let call = format!("{}({})", function.text, arguments.join(", "));
                if self.variant != Variant::Named {
                    return call;
                }
                let name = format!("v{}", self.statements.len());
                self.statements.push(format!("{name} = {call}"));
                name
            }
            ExprKind::Annotated(..)
            | ExprKind::Dims(_)
            | ExprKind::Transpose(_)
            | ExprKind::Product(..) => {
                unreachable!("not in the expressions of these tests")
            }
        }
    }
}

#[test]
fn each_variant_has_the_expected_text() {
    let form = "1 - square(tanh(x)) / 2";
    let expected = [
        "(1 - (square(tanh(x)) / 2))",
        "(-((square(tanh(x)) / 2) - 1))",
        "(-(square(tanh(x)) / 2) + 1)",
        "(1 - ((tanh(x) * tanh(x)) * rcp(2)))",
        "v0 = tanh(x); v1 = square(v0); (1 - (v1 / 2))",
    ];
    for (variant, expected) in Variant::ALL.into_iter().zip(expected) {
        assert_eq!(written(form, variant), expected);
    }
    assert_eq!(written("exp(x) + 1", Variant::Commuted), "(1 + exp(x))");
    assert_eq!(to_base_two("log(sum(exp(x), N))"), "log2(sum(exp2(x), N))");
}
