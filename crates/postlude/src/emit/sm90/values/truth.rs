//! Conditions, in predicates.

use postlude_ptx::kernel::Reg;
use postlude_ptx::types::Pred;

use crate::graph::{Binary, Unary};

use super::Evaluator;

impl<'k> Evaluator<'_, 'k> {
    pub(super) fn unary_truth(&self, op: Unary, a: Reg<'k, Pred>) -> Reg<'k, Pred> {
        assert!(op == Unary::Not, "compiler bug: `{}` of a condition", op.name());
        a ^ true
    }

    pub(super) fn binary_truth(
        &self,
        op: Binary,
        a: Reg<'k, Pred>,
        b: Reg<'k, Pred>,
    ) -> Reg<'k, Pred> {
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
            | Binary::Less
            | Binary::LessEqual => panic!("compiler bug: `{}` of conditions", op.name()),
        }
    }

    /// `a` where the condition holds, else `b`.
    pub(super) fn select_truth(
        &self,
        condition: Reg<'k, Pred>,
        a: Reg<'k, Pred>,
        b: Reg<'k, Pred>,
    ) -> Reg<'k, Pred> {
        (condition & a) | ((condition ^ true) & b)
    }
}
