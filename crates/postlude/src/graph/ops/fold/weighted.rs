//! Folds of terms with weights: sums of exponentials relative to the largest exponent, and squared deviations.
//!
//! In: pairs of a term and its weight. Out: partial results of a few words and what they give. A partial sum is relative to
//! the maxima of its own terms, and is rescaled when it meets larger ones; a partial sum of squares is about its own mean.
//! Invariant: `combine` is associative but for rounding, and a term that is not there is [`Weighted::nothing`].

use super::reduction::Transcendental;

/// What is folded of terms with weights.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Weighted {
    /// `sum(w * exp(x - max(x)))`: the largest x, and the sum relative to it.
    Exponentials,
    /// `sum((w - max(w)) * exp(x - max(x)))`: the largest x, the sum of exponentials, the largest w, and the sum.
    ExponentialsBelowMax,
    /// `sum(w * square(x - mean))`, the mean with the same weights: the sum of weights, the mean, and the sum of squares.
    Deviations,
}

impl Weighted {
    /// How many words a partial result has.
    pub(crate) const fn count(self) -> u32 {
        match self {
            Weighted::Exponentials => 2,
            Weighted::ExponentialsBelowMax => 4,
            Weighted::Deviations => 3,
        }
    }

    /// A term and a weight that change no partial result.
    pub(crate) const fn nothing(self) -> [f32; 2] {
        match self {
            Weighted::Exponentials => [f32::NEG_INFINITY, 0.0],
            Weighted::ExponentialsBelowMax => [f32::NEG_INFINITY; 2],
            Weighted::Deviations => [0.0, 0.0],
        }
    }

    /// The partial result of no terms.
    pub(crate) const fn identity(self) -> &'static [f32] {
        match self {
            Weighted::Exponentials => &[f32::NEG_INFINITY, 0.0],
            Weighted::ExponentialsBelowMax => &[f32::NEG_INFINITY, 0.0, f32::NEG_INFINITY, 0.0],
            Weighted::Deviations => &[0.0, 0.0, 0.0],
        }
    }

    /// A partial result with more terms, each with its weight.
    pub(crate) fn extend<A: Transcendental>(
        self,
        on: &A,
        before: &[A::Word],
        terms: &[[A::Word; 2]],
    ) -> Vec<A::Word> {
        match self {
            Weighted::Exponentials => {
                let peak = terms.iter().fold(before[0], |peak, term| on.max(peak, term[0]));
                let base = finite_or_zero(on, peak);
                let exp = |word: A::Word| on.exp(on.sub(word, base));
                let scaled = on.mul(before[1], exp(before[0]));
                let add = |sum, [x, weight]: &[A::Word; 2]| on.mul_add(*weight, exp(*x), sum);
                vec![peak, terms.iter().fold(scaled, add)]
            }
            Weighted::ExponentialsBelowMax => {
                let largest = |word: usize, place: usize| {
                    terms.iter().fold(before[word], |peak, term| on.max(peak, term[place]))
                };
                let (peak, top) = (largest(0, 0), largest(2, 1));
                let (base, level) = (finite_or_zero(on, peak), finite_or_zero(on, top));
                let [mut sum, mut total] = lowered(on, before, base, level);
                for [x, weight] in terms {
                    let part = on.exp(on.sub(*x, base));
                    sum = on.add(sum, part);
                    // What has vanished adds nothing, also where its weight is minus infinity.
                    let gone = on.equal(part, on.constant(0.0));
                    let below = on.select(gone, part, on.sub(*weight, level));
                    total = on.mul_add(below, part, total);
                }
                vec![peak, sum, top, total]
            }
            Weighted::Deviations => {
                let zero = on.constant(0.0);
                let count = terms.iter().fold(zero, |count, term| on.add(count, term[1]));
                let add = |sum, [x, weight]: &[A::Word; 2]| on.mul_add(*weight, *x, sum);
                let mean = on.mul(terms.iter().fold(zero, add), reciprocal_or_zero(on, count));
                let square = |total, [x, weight]: &[A::Word; 2]| {
                    let apart = on.sub(*x, mean);
                    on.mul_add(on.mul(*weight, apart), apart, total)
                };
                let squares = terms.iter().fold(zero, square);
                self.combine(on, before, &[count, mean, squares])
            }
        }
    }

    /// Two partial results as one.
    pub(crate) fn combine<A: Transcendental>(
        self,
        on: &A,
        first: &[A::Word],
        second: &[A::Word],
    ) -> Vec<A::Word> {
        match self {
            Weighted::Exponentials => {
                let peak = on.max(first[0], second[0]);
                let base = finite_or_zero(on, peak);
                let exp = |word: A::Word| on.exp(on.sub(word, base));
                let scaled = on.mul(first[1], exp(first[0]));
                vec![peak, on.mul_add(second[1], exp(second[0]), scaled)]
            }
            Weighted::ExponentialsBelowMax => {
                let (peak, top) = (on.max(first[0], second[0]), on.max(first[2], second[2]));
                let (base, level) = (finite_or_zero(on, peak), finite_or_zero(on, top));
                let [a, b] = [first, second].map(|words| lowered(on, words, base, level));
                vec![peak, on.add(a[0], b[0]), top, on.add(a[1], b[1])]
            }
            Weighted::Deviations => {
                let zero = on.constant(0.0);
                let count = on.add(first[0], second[0]);
                let share = on.mul(second[0], reciprocal_or_zero(on, count));
                let (no_first, no_second) = (on.equal(first[0], zero), on.equal(second[0], zero));
                let apart = on.sub(second[1], first[1]);
                let apart = on.select(no_first, zero, on.select(no_second, zero, apart));
                let mean = on.select(no_first, second[1], on.mul_add(apart, share, first[1]));
                let between = on.mul(on.mul(apart, first[0]), share);
                let squares = on.add(first[2], second[2]);
                vec![count, mean, on.mul_add(apart, between, squares)]
            }
        }
    }

    /// The result; nan where a maximum or the mean is no number.
    pub(crate) fn finish<A: Transcendental>(self, on: &A, words: &[A::Word]) -> A::Word {
        match self {
            Weighted::Exponentials => on.select_or(on.is_finite(words[0]), words[1], f32::NAN),
            Weighted::ExponentialsBelowMax => {
                let total = on.select_or(on.is_finite(words[0]), words[3], f32::NAN);
                on.select_or(on.is_finite(words[2]), total, f32::NAN)
            }
            Weighted::Deviations => on.select_or(on.is_finite(words[1]), words[2], f32::NAN),
        }
    }
}

fn finite_or_zero<A: Transcendental>(on: &A, word: A::Word) -> A::Word {
    on.select_or(on.is_finite(word), word, 0.0)
}

fn reciprocal_or_zero<A: Transcendental>(on: &A, word: A::Word) -> A::Word {
    let zero = on.constant(0.0);
    on.select(on.equal(word, zero), zero, on.rcp(word))
}

/// The sum of exponentials and the sum below the largest weight, relative to larger maxima.
fn lowered<A: Transcendental>(
    on: &A,
    words: &[A::Word],
    base: A::Word,
    level: A::Word,
) -> [A::Word; 2] {
    let scale = on.exp(on.sub(words[0], base));
    let moved = on.mul_add(on.sub(words[2], level), words[1], words[3]);
    // Nothing has no largest weight.
    let total = on.select(on.equal(words[1], on.constant(0.0)), words[3], moved);
    [on.mul(words[1], scale), on.mul(total, scale)]
}
