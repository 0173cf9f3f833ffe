//! Partial results of reductions in registers: what nothing gives, what values add, how two become one.
//!
//! Code that moves them sees floats: an integer is moved as the float with its bits.

use postlude_ptx::kernel::Reg;
use postlude_ptx::modifier::ShuffleMode;
use postlude_ptx::types::{F32, Pred, S32, U32};

use crate::dtype::Elem;
use crate::graph::{Fold, NodeId, Unary};
use crate::lower::{How, Reduction};

use super::evaluator::Evaluator;
use super::integer;
use super::value::{Environment, State, Value};

impl<'k> Evaluator<'_, 'k> {
    /// What a lane out of range contributes.
    pub(crate) fn fold_nothing(&self, reduction: Reduction) -> Reg<'k, F32> {
        self.k.imm(match reduction.how {
            How::Fold(fold) if reduction.is_integer() => {
                f32::from_bits(fold.identity(Elem::I32) as i32 as u32)
            }
            How::Fold(fold) => fold.identity(Elem::F32) as f32,
            How::Pick(_) => 0.0,
        })
    }

    /// A value as it is folded.
    pub(crate) fn fold_term(&self, value: Value<'k>) -> Reg<'k, F32> {
        match value {
            Value::Float(value) => value,
            Value::Integer(value) => self.k.bits_to_f32(value.cast()),
            Value::Truth(_) => panic!("compiler bug: a reduction of conditions"),
        }
    }

    /// The value that a reduction folds, from the environment of a place.
    pub(crate) fn fold_term_of(
        &self,
        environment: &Environment<'k>,
        reduction: Reduction,
    ) -> Reg<'k, F32> {
        match environment[reduction.terms.index()] {
            Some(value) => self.fold_term(value),
            None => panic!("compiler bug: a reduction of nothing"),
        }
    }

    /// A result as others take it.
    fn fold_value(&self, reduction: Reduction, result: Reg<'k, F32>) -> Value<'k> {
        if reduction.is_integer() {
            Value::Integer(self.integer(result))
        } else {
            Value::Float(result)
        }
    }

    /// The integer that travels so.
    fn integer(&self, word: Reg<'k, F32>) -> Reg<'k, S32> {
        self.k.f32_to_bits(word).cast()
    }

    /// What a value counts with.
    fn fold_size(&self, reduction: Reduction, value: Reg<'k, F32>) -> Reg<'k, F32> {
        match reduction.how {
            How::Fold(Fold::AbsMax) if reduction.is_integer() => {
                let size = integer::unary(Unary::Abs, self.integer(value));
                self.k.bits_to_f32(size.cast())
            }
            How::Fold(Fold::AbsMax) => value.abs(),
            How::Fold(_) | How::Pick(_) => value,
        }
    }

    /// The partial result of nothing.
    pub(crate) fn fold_begin(&self, reduction: Reduction) -> State<'k> {
        let nothing = self.fold_nothing(reduction);
        if is_exponential(reduction) {
            vec![nothing, self.k.imm(0.0)]
        } else {
            vec![nothing; reduction.registers() as usize]
        }
    }

    /// The partial result of some values, without nothing before them where that changes nothing.
    pub(crate) fn fold_some(&self, reduction: Reduction, values: &[Reg<'k, F32>]) -> State<'k> {
        match values {
            [first, others @ ..] if !is_exponential(reduction) && !is_ordered(reduction) => {
                let first = self.fold_size(reduction, *first);
                self.fold_more(reduction, &vec![first], others)
            }
            _ => self.fold_more(reduction, &self.fold_begin(reduction), values),
        }
    }

    /// With these values, too.
    pub(crate) fn fold_more(
        &self,
        reduction: Reduction,
        state: &State<'k>,
        values: &[Reg<'k, F32>],
    ) -> State<'k> {
        if is_ordered(reduction) {
            let state = state.clone();
            return values.iter().fold(state, |state, value| insert(state, 0, *value));
        }
        if !is_exponential(reduction) {
            let one = |total, value: &Reg<'k, F32>| {
                self.fold_two(reduction, total, self.fold_size(reduction, *value))
            };
            return vec![values.iter().fold(state[0], one)];
        }
        if is_above_max(reduction) {
            let peaks: Vec<Reg<'k, F32>> =
                std::iter::once(&state[0]).chain(values).copied().collect();
            return self.fold_above_max(reduction, &peaks, &[state]);
        }
        let peak = values.iter().fold(state[0], |peak, value| peak.max(*value));
        let base = base(peak);
        let exp = |x: Reg<'k, F32>| self.fold_function(reduction, Unary::Exp, x - base);
        let sum = values.iter().fold(state[1] * exp(state[0]), |sum, value| sum + exp(*value));
        vec![peak, sum]
    }

    /// Two partial results as one, the first before the second.
    pub(crate) fn fold_both(
        &self,
        reduction: Reduction,
        first: &State<'k>,
        second: &State<'k>,
    ) -> State<'k> {
        if is_ordered(reduction) {
            // What comes after others in its own is not before as many here.
            let others = second.iter().enumerate();
            return others
                .fold(first.clone(), |state, (place, value)| insert(state, place, *value));
        }
        if !is_exponential(reduction) {
            return vec![self.fold_two(reduction, first[0], second[0])];
        }
        if is_above_max(reduction) {
            return self.fold_above_max(reduction, &[first[0], second[0]], &[first, second]);
        }
        let peak = first[0].max(second[0]);
        let base = base(peak);
        let exp = |x: Reg<'k, F32>| self.fold_function(reduction, Unary::Exp, x - base);
        vec![peak, first[1] * exp(first[0]) + second[1] * exp(second[0])]
    }

    /// The largest of some peaks, and what else there is beside it: the other peaks, one that is as large included, and what
    /// was beside each already.
    fn fold_above_max(
        &self,
        reduction: Reduction,
        peaks: &[Reg<'k, F32>],
        states: &[&State<'k>],
    ) -> State<'k> {
        let peak = peaks[1..].iter().fold(peaks[0], |peak, value| peak.max(*value));
        let base = base(peak);
        let exp = |x: Reg<'k, F32>| self.fold_function(reduction, Unary::Exp, x - base);
        let (zero, one) = (self.k.imm(0.0), self.k.imm(1.0));
        let mut largest = self.k.imm(-1.0);
        let mut rest = zero;
        for value in peaks {
            let is_largest = value.eq(peak);
            largest = largest + one.select(zero, is_largest);
            rest = rest + zero.select(exp(*value), is_largest);
        }
        let beside = states.iter().fold(rest, |rest, state| rest + state[1] * exp(state[0]));
        vec![peak, beside + largest]
    }

    /// Lanes that differ in these bits of their number fold what they have; all of them get the result.
    pub(crate) fn fold_lanes(
        &self,
        reduction: Reduction,
        state: State<'k>,
        bits: &[u32],
    ) -> State<'k> {
        bits.iter().fold(state, |state, bit| {
            let other = |word: &Reg<'k, F32>| self.k.shuffle(ShuffleMode::Butterfly, *word, *bit);
            let other: State<'k> = state.iter().map(other).collect();
            self.fold_both(reduction, &state, &other)
        })
    }

    /// Lanes that differ in this bit of their number exchange two partial results: the lane with the bit gets the
    /// second, combined over both lanes.
    pub(crate) fn fold_exchanged(
        &self,
        reduction: Reduction,
        [first, second]: [&State<'k>; 2],
        has_bit: Reg<'k, Pred>,
        bit: u32,
    ) -> State<'k> {
        let pairs = || first.iter().zip(second);
        let kept: State<'k> = pairs().map(|(a, b)| b.select(*a, has_bit)).collect();
        let given = pairs().map(|(a, b)| a.select(*b, has_bit));
        let other = given.map(|word| self.k.shuffle(ShuffleMode::Butterfly, word, bit)).collect();
        self.fold_both(reduction, &kept, &other)
    }

    /// What a whole one gives.
    pub(crate) fn fold_end(&self, reduction: Reduction, state: &State<'k>) -> Value<'k> {
        if !is_exponential(reduction) {
            // The only one, or the last of the largest.
            return self.fold_value(reduction, state[state.len() - 1]);
        }
        let finite = state[0].abs().lt(f32::INFINITY);
        if is_above_max(reduction) {
            let log = self.fold_function(reduction, Unary::Log1p, state[1]);
            return Value::Float(log.select(f32::NAN, finite));
        }
        let log = self.fold_function(reduction, Unary::Log, state[1]);
        // Infinities and NaN are their own logarithm here.
        Value::Float((state[0] + log).select(state[0], finite))
    }

    /// The same, where what is picked may not be there.
    pub(crate) fn fold_finish(
        &self,
        reduction: Reduction,
        state: &State<'k>,
        environment: &Environment<'k>,
    ) -> Value<'k> {
        let value = self.fold_end(reduction, state);
        match reduction.how {
            // As an unsigned number a negative one is beyond the last column.
            How::Pick(index) => {
                let exists = picked(environment, index).lt(self.parameters.columns);
                Value::Float(value.float().select(f32::NAN, exists))
            }
            How::Fold(_) => value,
        }
    }

    /// Whether an element counts, this many columns behind this one of a row of which this is known; `None` if it does.
    pub(crate) fn fold_takes(
        reduction: Reduction,
        environment: &Environment<'k>,
        (column, offset): (Reg<'k, U32>, u32),
        inside: impl FnOnce() -> Option<Reg<'k, Pred>>,
    ) -> Option<Reg<'k, Pred>> {
        match reduction.how {
            // What is picked beyond the last column is NaN in the end.
            How::Pick(index) => Some((picked(environment, index) - column).eq(offset)),
            How::Fold(_) => inside(),
        }
    }

    /// The column that is picked in a row of which this is known; as an unsigned number a negative one is beyond the last.
    pub(crate) fn picked(reduction: Reduction, environment: &Environment<'k>) -> Reg<'k, U32> {
        match reduction.how {
            How::Pick(index) => picked(environment, index),
            How::Fold(_) => panic!("compiler bug: no column is picked"),
        }
    }

    fn fold_two(&self, reduction: Reduction, a: Reg<'k, F32>, b: Reg<'k, F32>) -> Reg<'k, F32> {
        match reduction.how {
            How::Fold(fold) if reduction.is_integer() => {
                let [a, b] = [a, b].map(|word| self.integer(word));
                let both = match fold {
                    Fold::Sum => a + b,
                    Fold::Prod => a * b,
                    Fold::Max | Fold::AbsMax => a.max(b),
                    Fold::Min => a.min(b),
                    Fold::LogSumExp | Fold::LogSumExpAboveMax | Fold::Largest(_) => {
                        panic!("compiler bug: `{}` of integers", fold.name())
                    }
                };
                self.k.bits_to_f32(both.cast())
            }
            How::Fold(Fold::Sum) => a + b,
            How::Fold(Fold::Prod) => a * b,
            How::Fold(Fold::Max | Fold::AbsMax) => a.max(b),
            How::Fold(Fold::Min) => a.min(b),
            // At most one of them is there, with all its bits; the others have none.
            How::Pick(_) => {
                let [a, b] = [a, b].map(|value| self.k.f32_to_bits(value));
                self.k.bits_to_f32(a | b)
            }
            How::Fold(fold @ (Fold::LogSumExp | Fold::LogSumExpAboveMax | Fold::Largest(_))) => {
                panic!("compiler bug: `{}` of two floats", fold.name())
            }
        }
    }

    fn fold_function(
        &self,
        reduction: Reduction,
        function: Unary,
        x: Reg<'k, F32>,
    ) -> Reg<'k, F32> {
        self.unary_float(function, self.plan.accuracies[reduction.node.index()], x).float()
    }
}

fn picked<'k>(environment: &Environment<'k>, index: NodeId) -> Reg<'k, U32> {
    match environment[index.index()] {
        Some(value) => value.integer().cast(),
        None => panic!("compiler bug: no column is picked"),
    }
}

fn is_exponential(reduction: Reduction) -> bool {
    matches!(reduction.how, How::Fold(Fold::LogSumExp | Fold::LogSumExpAboveMax))
}

fn is_above_max(reduction: Reduction) -> bool {
    reduction.how == How::Fold(Fold::LogSumExpAboveMax)
}

fn is_ordered(reduction: Reduction) -> bool {
    matches!(reduction.how, How::Fold(Fold::Largest(_)))
}

/// The largest values in order with one more, which is not among those before `place`; NaN is larger than all.
fn insert<'k>(mut state: State<'k>, place: usize, mut value: Reg<'k, F32>) -> State<'k> {
    for kept in &mut state[place..] {
        let smaller = kept.min(value);
        *kept = kept.max(value);
        value = smaller;
    }
    state
}

/// What exponents are taken beside: the largest, if it is a number.
fn base(peak: Reg<'_, F32>) -> Reg<'_, F32> {
    peak.select(0.0, peak.abs().lt(f32::INFINITY))
}
