//! Dims where expressions are expected: `sum(x, M, N/2)`.

use crate::catalogue::{self, Group};
use crate::shape::Dim;
use crate::syntax::{ExprId, ExprKind, Exprs, Infix, Number};

/// Reads an argument as a dim.
pub(super) fn read(exprs: &Exprs, id: ExprId) -> Option<Dim> {
    match &exprs[id].kind {
        ExprKind::Name(name) => Some(Dim::name(name.clone())),
        ExprKind::Number(Number::Integer(size)) => u32::try_from(*size).ok().map(Dim::Size),
        ExprKind::Infix(Infix::Divide, name, by) => match (&exprs[*name].kind, &exprs[*by].kind) {
            (ExprKind::Name(name), ExprKind::Number(Number::Integer(by))) => {
                let divisor = u32::try_from(*by).ok().filter(|by| *by > 0)?;
                Some(Dim::Name { name: name.clone(), divisor })
            }
            _ => None,
        },
        _ => None,
    }
}

/// Whether an argument of a function stands where a dim or a count is read, not a value.
pub(super) fn is_dim_argument(function: &str, place: usize) -> bool {
    let Some(entry) = catalogue::find(function) else { return false };
    match entry.group {
        Group::Reduction => place > 0,
        Group::Composite => {
            place < entry.parameters.len() && matches!(entry.parameter(place), "dim" | "k")
        }
        Group::Bits => entry.parameter(place.min(entry.parameters.len() - 1)) == "dim",
        Group::Structure => {
            place > 0 && matches!(entry.name, "halves" | "pairs" | "split" | "topk")
                || entry.parameters.get(place) == Some(&"dim")
        }
        Group::Elementwise | Group::Activation => false,
    }
}
