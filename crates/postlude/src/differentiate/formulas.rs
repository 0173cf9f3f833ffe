//! The derivatives of functions as the catalogue writes them, as expressions.

use crate::catalogue;
use crate::graph::{Binary, Unary};
use crate::syntax::{self, ExprId, ExprKind, Number};

/// Functions whose derivative is written out where it is read: a person would.
const WRITTEN: &[&str] = &[
    "abs", "asinh", "atan", "ceil", "cos", "cosh", "exp", "expm1", "floor", "fma", "log", "log1p",
    "rcp", "round", "rsqrt", "sign", "sin", "sinh", "sqrt", "square", "trunc",
];

/// The derivative of a function in its first argument, if it is written out where it is read.
pub(super) fn written(function: &str) -> Option<&'static str> {
    WRITTEN.contains(&function).then(|| derivative(function, 1))?
}

/// The derivative of a function with this number of arguments, in its first argument.
pub(super) fn derivative(function: &str, arguments: usize) -> Option<&'static str> {
    let entry = catalogue::find(function)?;
    match (function, entry.derivative) {
        // With beta it is `softplus(beta * x) / beta`.
        ("softplus", _) if arguments == 2 => Some("sigmoid(beta * x)"),
        (_, "") => Unary::from_name(function)
            .and_then(Unary::derivative)
            .or_else(|| Binary::from_name(function).and_then(Binary::derivative)),
        (_, derivative) => Some(derivative),
    }
}

/// Writes a function's formula with arguments in the places of its parameters, expression by expression.
pub(super) fn write(
    formula: &str,
    (function, arguments): (&str, &[ExprId]),
    push: &mut dyn FnMut(ExprKind) -> ExprId,
) -> ExprId {
    let (Some(entry), Ok((exprs, root))) =
        (catalogue::find(function), syntax::parse_expression(formula))
    else {
        panic!("compiler bug: formula `{formula}`")
    };
    let mut places: Vec<ExprId> = Vec::with_capacity(exprs.len());
    for (_, expr) in exprs.iter() {
        let parameter = |name: &str| {
            let count = entry.parameters.len();
            (0..count).find(|place| entry.parameter(*place) == name)
        };
        let place = match &expr.kind {
            ExprKind::Name(name) => match parameter(name) {
                Some(place) => match (arguments.get(place), entry.default(place)) {
                    (Some(argument), _) => *argument,
                    (None, default) => {
                        let default = default.unwrap_or_default();
                        let shortest = default.to_string().parse().unwrap_or(f64::from(default));
                        push(ExprKind::Number(Number::Float(shortest)))
                    }
                },
                None => push(expr.kind.clone()),
            },
            kind => push(kind.map_children(|child| places[child.0 as usize])),
        };
        places.push(place);
    }
    places[root.0 as usize]
}
