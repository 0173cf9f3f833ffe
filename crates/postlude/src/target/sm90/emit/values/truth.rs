//! Conditions, in predicates.

use postlude_ptx::kernel::Reg;
use postlude_ptx::types::Pred;

use crate::graph::{Binary, Unary};

pub(super) fn unary(op: Unary, a: Reg<'_, Pred>) -> Reg<'_, Pred> {
    assert!(op == Unary::Not, "compiler bug: `{}` of a condition", op.name());
    a ^ true
}

pub(super) fn binary<'k>(op: Binary, a: Reg<'k, Pred>, b: Reg<'k, Pred>) -> Reg<'k, Pred> {
    match op {
        Binary::And => a & b,
        Binary::Or => a | b,
        Binary::Equal => (a ^ b) ^ true,
        Binary::NotEqual => a ^ b,
        Binary::Add
        | Binary::Subtract
        | Binary::Multiply
        | Binary::Divide
        | Binary::Maximum
        | Binary::Minimum
        | Binary::Pow
        | Binary::Fmod
        | Binary::Less
        | Binary::LessEqual
        | Binary::Xor
        | Binary::ShiftLeft
        | Binary::ShiftRight
        | Binary::ShiftRightLogical => panic!("compiler bug: `{}` of conditions", op.name()),
    }
}

/// `a` where the condition holds, else `b`.
pub(super) fn select<'k>(
    condition: Reg<'k, Pred>,
    a: Reg<'k, Pred>,
    b: Reg<'k, Pred>,
) -> Reg<'k, Pred> {
    (condition & a) | ((condition ^ true) & b)
}
