//! Partial results of reductions in registers: what nothing gives, what values add, how two become one.

use postlude_ptx::kernel::Reg;
use postlude_ptx::types::F32;

use crate::dtype::Elem;
use crate::graph::{Fold, Unary};
use crate::plan::sm90::Folded;

use super::Evaluator;

/// The floats of a partial result.
pub(in super::super) type State<'k> = Vec<Reg<'k, F32>>;

impl<'k> Evaluator<'_, 'k> {
    /// What a lane out of range contributes.
    pub(in super::super) fn fold_nothing(&self, fold: Fold) -> Reg<'k, F32> {
        self.k.imm(fold.identity(Elem::F32) as f32)
    }

    /// The partial result of nothing.
    pub(in super::super) fn fold_begin(&self, folded: Folded) -> State<'k> {
        let nothing = self.fold_nothing(folded.fold);
        match folded.fold {
            Fold::LogSumExp => vec![nothing, self.k.imm(0.0)],
            _ => vec![nothing],
        }
    }

    /// With these values, too.
    pub(in super::super) fn fold_more(
        &self,
        folded: Folded,
        state: &State<'k>,
        values: &[Reg<'k, F32>],
    ) -> State<'k> {
        if folded.fold != Fold::LogSumExp {
            let one = |total, value: &Reg<'k, F32>| match folded.fold {
                Fold::AbsMax => self.fold_two(folded.fold, total, value.abs()),
                fold => self.fold_two(fold, total, *value),
            };
            return vec![values.iter().fold(state[0], one)];
        }
        let peak = values.iter().fold(state[0], |peak, value| peak.max(*value));
        let base = self.fold_base(peak);
        let exp = |x: Reg<'k, F32>| self.fold_function(folded, Unary::Exp, x - base);
        let sum = values.iter().fold(state[1] * exp(state[0]), |sum, value| sum + exp(*value));
        vec![peak, sum]
    }

    /// Two partial results as one, the first before the second.
    pub(in super::super) fn fold_both(
        &self,
        folded: Folded,
        first: &State<'k>,
        second: &State<'k>,
    ) -> State<'k> {
        if folded.fold != Fold::LogSumExp {
            return vec![self.fold_two(folded.fold, first[0], second[0])];
        }
        let peak = first[0].max(second[0]);
        let base = self.fold_base(peak);
        let exp = |x: Reg<'k, F32>| self.fold_function(folded, Unary::Exp, x - base);
        vec![peak, first[1] * exp(first[0]) + second[1] * exp(second[0])]
    }

    /// What a whole one gives.
    pub(in super::super) fn fold_end(&self, folded: Folded, state: &State<'k>) -> Reg<'k, F32> {
        if folded.fold != Fold::LogSumExp {
            return state[0];
        }
        let finite = state[0].abs().lt(f32::INFINITY);
        let log = self.fold_function(folded, Unary::Log, state[1]);
        // Infinities and NaN are their own logarithm here.
        (state[0] + log).select(state[0], finite)
    }

    fn fold_two(&self, fold: Fold, a: Reg<'k, F32>, b: Reg<'k, F32>) -> Reg<'k, F32> {
        match fold {
            Fold::Sum => a + b,
            Fold::Prod => a * b,
            Fold::Max | Fold::AbsMax => a.max(b),
            Fold::Min => a.min(b),
            Fold::LogSumExp | Fold::Largest(_) => {
                panic!("compiler bug: `{}` of two floats", fold.name())
            }
        }
    }

    /// What exponents are taken beside: the largest, if it is a number.
    fn fold_base(&self, peak: Reg<'k, F32>) -> Reg<'k, F32> {
        peak.select(0.0, peak.abs().lt(f32::INFINITY))
    }

    fn fold_function(&self, folded: Folded, function: Unary, x: Reg<'k, F32>) -> Reg<'k, F32> {
        self.unary_float(function, self.plan.accuracies[folded.node.index()], x).float()
    }
}
