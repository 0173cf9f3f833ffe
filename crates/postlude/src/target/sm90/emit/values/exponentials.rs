//! Sums of exponentials below a largest term that is known: one multiply-add and one exponential for each.
//!
//! `2^(x log2(e) - p log2(e))` with the second product rounded errs by what the rounding takes away. That is the same for all
//! terms, and known: an fma gives it exactly, and one more exponential takes it out of the whole sum.

use postlude_ptx::kernel::Reg;
use postlude_ptx::modifier::{Approx, ShuffleMode};
use postlude_ptx::types::F32;

use crate::functions::Accuracy;
use crate::graph::Unary;
use crate::lower::Reduction;
use crate::target::sm90::emit::chip::EpilogueChip;

use super::evaluator::Evaluator;
use super::value::State;

/// From this largest term on, no other float is close enough to add anything: any base serves, and 2 is exact.
const HUGE: f32 = (1 << 29) as f32;

/// Exponentials of terms less the largest of them.
pub(crate) struct Below<'a, 'k, C> {
    evaluator: Evaluator<'a, 'k, C>,
    accuracy: Accuracy,
    /// The largest term, or 0 where it is infinite.
    base: Reg<'k, F32>,
    /// What terms are multiplied by and what is added, and the factor of their sum; `None` where functions are accurate.
    scaled: Option<[Reg<'k, F32>; 3]>,
}

impl<'k, C: EpilogueChip> Below<'_, 'k, C> {
    /// The exponential of a term, but for the factor of the sum.
    pub(crate) fn exp(&self, term: Reg<'k, F32>) -> Reg<'k, F32> {
        if let Some([scale, shift, _]) = self.scaled {
            return term.fma(scale, shift).approx(Approx::Ex2Flush);
        }
        let below = term - self.base;
        self.evaluator.unary_float(Unary::Exp, self.accuracy, below).float()
    }

    /// The sum of what `exp` gave.
    pub(crate) fn sum(&self, sum: Reg<'k, F32>) -> Reg<'k, F32> {
        self.scaled.map_or(sum, |[.., factor]| sum * factor)
    }
}

impl<'a, 'k, C: EpilogueChip> Evaluator<'a, 'k, C> {
    /// Exponentials of a reduction's terms, of which this is the largest.
    pub(crate) fn below(&self, reduction: Reduction, largest: Reg<'k, F32>) -> Below<'a, 'k, C> {
        let k = self.k;
        let base = largest.select(0.0, largest.abs().lt(f32::INFINITY));
        let accuracy = self.plan.accuracies[reduction.node.index()];
        let scaled = (accuracy != Accuracy::Accurate).then(|| {
            let one = k.imm(1.0);
            let scale = one.select(std::f32::consts::LOG2_E, base.abs().ge(HUGE));
            let shift = (base * scale).negate();
            [scale, shift, base.fma(scale, shift).negate().approx(Approx::Ex2Flush)]
        });
        Below { evaluator: *self, accuracy, base, scaled }
    }

    /// Partial sums of exponentials of neighbouring lanes as one, in all of them: the largest term first, then the sums.
    pub(super) fn exponentials_of_lanes(
        &self,
        reduction: Reduction,
        state: &State<'k>,
        bits: &[u32],
    ) -> State<'k> {
        let other = |word, bit: &u32| self.k.shuffle(ShuffleMode::Butterfly, word, *bit);
        let largest = bits.iter().fold(state[0], |one, bit| one.max(other(one, bit)));
        let below = self.below(reduction, largest);
        let own = state[1] * below.exp(state[0]);
        let sum = bits.iter().fold(own, |sum, bit| sum + other(sum, bit));
        vec![largest, below.sum(sum)]
    }

    /// Some partial results as one, in their order.
    pub(crate) fn fold_all(&self, reduction: Reduction, states: &[State<'k>]) -> State<'k> {
        let both = |a: State<'k>, b: State<'k>| self.fold_both(reduction, &a, &b);
        let of_others = || states.iter().cloned().reduce(both).unwrap_or_default();
        if !reduction.sums_exponentials() {
            return of_others();
        }
        let Some(largest) = states.iter().map(|state| state[0]).reduce(Reg::max) else {
            return of_others();
        };
        let below = self.below(reduction, largest);
        let own = |state: &State<'k>| state[1] * below.exp(state[0]);
        let sum = states[1..].iter().fold(own(&states[0]), |sum, state| sum + own(state));
        vec![largest, below.sum(sum)]
    }
}
