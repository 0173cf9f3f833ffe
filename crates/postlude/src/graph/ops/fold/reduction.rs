//! Folds over any arithmetic: identity, lift, combine, finish.
//!
//! A partial result is a few words: one, or the peak and the sum of exponentials below it, or an
//! extreme and where it is. The reference folds enclosures, the CPU numbers in memory, a GPU thread registers; what a fold
//! does to them is here alone.
//! Invariant: `combine` is associative but for rounding, and NaN in a term is NaN in the result.

use super::Fold;
use super::ranked::{Gives, Ranking, Top, combine_ranked, pairs};
use super::weighted::Weighted;

/// What folds of one word are made of.
pub(crate) trait Arithmetic {
    /// A word of a partial result.
    type Word: Copy;

    /// The sum.
    fn add(&self, a: Self::Word, b: Self::Word) -> Self::Word;
    /// The product.
    fn mul(&self, a: Self::Word, b: Self::Word) -> Self::Word;
    /// The larger; NaN where either is.
    fn max(&self, a: Self::Word, b: Self::Word) -> Self::Word;
    /// The smaller; NaN where either is.
    fn min(&self, a: Self::Word, b: Self::Word) -> Self::Word;
    /// The magnitude.
    fn abs(&self, a: Self::Word) -> Self::Word;
}

/// What folds that choose between words take beside that.
pub(crate) trait Selection: Arithmetic {
    /// A condition.
    type Truth: Copy;

    /// One of two words.
    fn select(&self, condition: Self::Truth, yes: Self::Word, no: Self::Word) -> Self::Word;
    /// The same value with one representation of zero and one of NaN.
    fn canonical(&self, a: Self::Word) -> Self::Word;
    /// Whether two canonical values are the same; NaN is NaN.
    fn same(&self, a: Self::Word, b: Self::Word) -> Self::Truth;
    /// The lower of two words that hold indices.
    fn lower_index(&self, a: Self::Word, b: Self::Word) -> Self::Word;
}

/// What sums of exponentials take beside that.
pub(crate) trait Transcendental: Ranking {
    /// This number.
    fn constant(&self, value: f32) -> Self::Word;
    /// The difference.
    fn sub(&self, a: Self::Word, b: Self::Word) -> Self::Word;
    /// Whether it is neither infinite nor NaN.
    fn is_finite(&self, a: Self::Word) -> Self::Truth;
    /// Whether they are equal; not where either is NaN.
    fn equal(&self, a: Self::Word, b: Self::Word) -> Self::Truth;
    /// A word, or this number.
    fn select_or(&self, condition: Self::Truth, yes: Self::Word, no: f32) -> Self::Word;
    /// The exponential.
    fn exp(&self, a: Self::Word) -> Self::Word;
    /// The logarithm.
    fn log(&self, a: Self::Word) -> Self::Word;
    /// The logarithm of one more.
    fn log1p(&self, a: Self::Word) -> Self::Word;
    /// The reciprocal.
    fn rcp(&self, a: Self::Word) -> Self::Word;
    /// `a * b + c`, rounded once or twice.
    fn mul_add(&self, a: Self::Word, b: Self::Word, c: Self::Word) -> Self::Word;
}

/// The words of a partial result.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Words {
    /// The result so far.
    One,
    /// The largest term, and the sum of exponentials of what each is below it.
    Exponentials(Peak),
    /// The extreme, in its canonical representation, and the lowest index that has it.
    Indexed(Extreme),
    /// The keys of the largest terms with their indices, in order.
    Ranked(u32),
    /// Those of terms with weights.
    Weighted(Weighted),
}

/// Which term an index is of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Extreme {
    /// The largest.
    Largest,
    /// The smallest.
    Smallest,
}

impl Extreme {
    fn of<A: Arithmetic>(self, on: &A, a: A::Word, b: A::Word) -> A::Word {
        match self {
            Extreme::Largest => on.max(a, b),
            Extreme::Smallest => on.min(a, b),
        }
    }
}

/// What the largest term itself adds to a sum of exponentials.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Peak {
    /// One.
    Counted,
    /// Nothing; another that is as large adds one.
    Left,
}

impl Words {
    /// How many there are.
    pub(crate) const fn count(self) -> u32 {
        match self {
            Words::One => 1,
            Words::Exponentials(_) | Words::Indexed(_) => 2,
            Words::Ranked(count) => 2 * count,
            Words::Weighted(weighted) => weighted.count(),
        }
    }
}

impl Fold {
    /// The words of its partial results.
    pub(crate) const fn words(self) -> Words {
        match self {
            Fold::Sum | Fold::Prod | Fold::Max | Fold::Min | Fold::AbsMax => Words::One,
            Fold::LogSumExp => Words::Exponentials(Peak::Counted),
            Fold::LogSumExpAboveMax => Words::Exponentials(Peak::Left),
            Fold::ArgMax => Words::Indexed(Extreme::Largest),
            Fold::ArgMin => Words::Indexed(Extreme::Smallest),
            Fold::Top(top) => Words::Ranked(top.of),
            Fold::Weighted(weighted) => Words::Weighted(weighted),
        }
    }

    /// A term as a partial result of one word.
    #[inline(always)]
    pub(crate) fn lift<A: Arithmetic>(self, on: &A, term: A::Word) -> A::Word {
        if self == Fold::AbsMax { on.abs(term) } else { term }
    }

    /// Two partial results of one word each.
    #[inline(always)]
    pub(crate) fn combine_words<A: Arithmetic>(self, on: &A, a: A::Word, b: A::Word) -> A::Word {
        match self {
            Fold::Sum => on.add(a, b),
            Fold::Prod => on.mul(a, b),
            Fold::Min => on.min(a, b),
            Fold::Max | Fold::AbsMax => on.max(a, b),
            Fold::LogSumExp
            | Fold::LogSumExpAboveMax
            | Fold::ArgMax
            | Fold::ArgMin
            | Fold::Top(_)
            | Fold::Weighted(_) => {
                panic!("compiler bug: `{}` has more than one word", self.name())
            }
        }
    }

    /// The partial result of no terms.
    pub(crate) fn identity_words<A: Transcendental>(self, on: &A) -> Vec<A::Word> {
        let nothing = on.constant(self.identity(crate::dtype::Elem::F32) as f32);
        match self.words() {
            Words::One => vec![nothing],
            // An extreme that is what nothing gives is in every term, and so in the first.
            Words::Exponentials(_) | Words::Indexed(_) => vec![nothing, on.constant(0.0)],
            Words::Ranked(count) => [on.nothing()].repeat(count as usize).concat(),
            Words::Weighted(weighted) => {
                weighted.identity().iter().map(|word| on.constant(*word)).collect()
            }
        }
    }

    /// A partial result with more terms.
    pub(crate) fn extend<A: Transcendental>(
        self,
        on: &A,
        before: &[A::Word],
        terms: &[A::Word],
    ) -> Vec<A::Word> {
        match self.words() {
            Words::One => {
                let one = |total, term: &A::Word| {
                    let term = self.lift(on, *term);
                    self.combine_words(on, total, term)
                };
                vec![terms.iter().fold(before[0], one)]
            }
            Words::Exponentials(peak) => {
                exponentials(on, peak, &[[before[0], before[1]]], terms).to_vec()
            }
            Words::Indexed(_) | Words::Ranked(_) => {
                panic!("compiler bug: terms of `{}` come with their indices", self.name())
            }
            Words::Weighted(_) => {
                panic!("compiler bug: terms of `{}` come with their weights", self.name())
            }
        }
    }

    /// Two partial results as one, the first before the second.
    pub(crate) fn combine<A: Transcendental>(
        self,
        on: &A,
        first: &[A::Word],
        second: &[A::Word],
    ) -> Vec<A::Word> {
        match self.words() {
            Words::One => vec![self.combine_words(on, first[0], second[0])],
            Words::Exponentials(peak) => {
                let both = [first, second].map(|words| [words[0], words[1]]);
                exponentials(on, peak, &both, &[]).to_vec()
            }
            Words::Indexed(extreme) => {
                let [first, second] = [first, second].map(|words| [words[0], words[1]]);
                combine_indexed(on, extreme, first, second).to_vec()
            }
            Words::Ranked(_) => combine_ranked(on, &pairs(first), &pairs(second)).concat(),
            Words::Weighted(weighted) => weighted.combine(on, first, second),
        }
    }

    /// The result.
    pub(crate) fn finish<A: Transcendental>(self, on: &A, words: &[A::Word]) -> A::Word {
        match self.words() {
            // It may be finished from the partial results of a fold that has them first.
            Words::One => words[0],
            Words::Indexed(_) => words[words.len() - 1],
            Words::Ranked(_) => self.finish_ranked(on, words),
            Words::Exponentials(peak) => finish_exponentials(on, peak, [words[0], words[1]]),
            Words::Weighted(weighted) => weighted.finish(on, words),
        }
    }

    /// The value or the index at its place among the largest.
    pub(crate) fn finish_ranked<A: Ranking>(self, on: &A, words: &[A::Word]) -> A::Word {
        let Fold::Top(Top { place, gives, .. }) = self else {
            panic!("compiler bug: `{}` keeps no order", self.name())
        };
        let [key, index] = pairs(words)[place as usize];
        match gives {
            Gives::Value => on.value(key),
            Gives::Index => index,
        }
    }
}

/// Some partial sums of exponentials and some terms as one.
#[inline(always)]
pub(crate) fn exponentials<A: Transcendental>(
    on: &A,
    counted: Peak,
    partials: &[[A::Word; 2]],
    terms: &[A::Word],
) -> [A::Word; 2] {
    let others = partials[1..].iter().map(|words| words[0]).chain(terms.iter().copied());
    let peak = others.clone().fold(partials[0][0], |peak, term| on.max(peak, term));
    // An infinite peak and NaN are their own result, whatever the sum is.
    let base = on.select_or(on.is_finite(peak), peak, 0.0);
    let exp = |word: A::Word| on.exp(on.sub(word, base));
    let scaled = |words: &[A::Word; 2]| {
        let scale = exp(words[0]);
        on.mul(words[1], scale)
    };
    let sum = match counted {
        Peak::Counted => {
            let first = scaled(&partials[0]);
            let sum = partials[1..].iter().fold(first, |sum, words| on.add(sum, scaled(words)));
            terms.iter().fold(sum, |sum, term| on.add(sum, exp(*term)))
        }
        Peak::Left => {
            let (zero, one) = (on.constant(0.0), on.constant(1.0));
            let mut as_large = on.constant(-1.0);
            let mut rest = zero;
            for word in std::iter::once(partials[0][0]).chain(others) {
                let is_peak = on.equal(word, peak);
                as_large = on.add(as_large, on.select(is_peak, one, zero));
                rest = on.add(rest, on.select(is_peak, zero, exp(word)));
            }
            on.add(partials.iter().fold(rest, |rest, words| on.add(rest, scaled(words))), as_large)
        }
    };
    [peak, sum]
}

/// The logarithm of a sum of exponentials, or what it is above its largest term.
#[inline(always)]
fn finish_exponentials<A: Transcendental>(
    on: &A,
    counted: Peak,
    [peak, sum]: [A::Word; 2],
) -> A::Word {
    let finite = on.is_finite(peak);
    match counted {
        Peak::Left => on.select_or(finite, on.log1p(sum), f32::NAN),
        Peak::Counted => {
            let log = on.log(sum);
            on.select(finite, on.add(peak, log), peak)
        }
    }
}

/// An extreme and its index, with a term whose index is higher than all before it.
#[inline(always)]
pub(crate) fn extend_indexed<A: Selection>(
    on: &A,
    extreme: Extreme,
    [value, index]: [A::Word; 2],
    [term, at]: [A::Word; 2],
) -> [A::Word; 2] {
    let both = extreme.of(on, value, on.canonical(term));
    [both, on.select(on.same(both, value), index, at)]
}

/// Two extremes of terms in any order: of equal ones, the lower index.
#[inline(always)]
pub(crate) fn combine_indexed<A: Selection>(
    on: &A,
    extreme: Extreme,
    [first, first_at]: [A::Word; 2],
    [second, second_at]: [A::Word; 2],
) -> [A::Word; 2] {
    let both = extreme.of(on, first, second);
    let lower = on.lower_index(first_at, second_at);
    let of_first = on.select(on.same(both, second), lower, first_at);
    [both, on.select(on.same(both, first), of_first, second_at)]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dtype::Elem;
    use crate::functions::Accuracy;
    use crate::graph::Value;
    use crate::graph::fold::F64;

    fn partial(fold: Fold, terms: &[f64]) -> Vec<f64> {
        fold.extend(&F64, &fold.identity_words(&F64), terms)
    }

    #[test]
    fn terms_split_anywhere_give_what_the_reference_allows() {
        let infinity = f64::INFINITY;
        let rows: [&[f64]; 7] = [
            &[],
            &[0.5, -2.0, 3.0, 3.0, -7.25, 1.0],
            &[-infinity, 2.0, -infinity],
            &[-infinity, -infinity],
            &[infinity, 1.0],
            &[1.0, f64::NAN, infinity],
            &[100.0, -100.0, 99.5],
        ];
        let folds = Fold::ALL.into_iter().filter(|fold| !fold.uses_index());
        for (fold, terms) in folds.flat_map(|fold| rows.map(|terms| (fold, terms))) {
            let values: Vec<Value> = terms.iter().copied().map(Value::exact).collect();
            let allowed = fold.apply(Elem::F32, Accuracy::Accurate, &values);
            for place in 0..=terms.len() {
                let (first, second) = terms.split_at(place);
                let both = fold.combine(&F64, &partial(fold, first), &partial(fold, second));
                let got = fold.finish(&F64, &both);
                let within = allowed.contains(got as f32 as f64) || (allowed.nan && got.is_nan());
                assert!(within, "{} of {terms:?} split at {place}: {got}", fold.name());
            }
        }
    }

    /// The index that a fold gives of these terms, of which the first has this index.
    fn partial_index(fold: Fold, extreme: Extreme, terms: &[f64], first: usize) -> [f64; 2] {
        let words = fold.identity_words(&F64);
        let terms = terms.iter().enumerate();
        terms.fold([words[0], words[1]], |words, (at, term)| {
            extend_indexed(&F64, extreme, words, [*term, (first + at) as f64])
        })
    }

    #[test]
    fn an_index_is_the_lowest_of_equal_extremes_wherever_terms_are_split() {
        let (infinity, nan) = (f64::INFINITY, f64::NAN);
        let rows: [(&[f64], f64, f64); 7] = [
            (&[1.0, 3.0, 3.0, -2.0, -2.0], 1.0, 3.0),
            (&[0.0, -0.0, 0.0], 0.0, 0.0),
            (&[-0.0, 0.0], 0.0, 0.0),
            (&[-infinity, -infinity], 0.0, 0.0),
            (&[infinity, infinity, -infinity], 0.0, 2.0),
            (&[1.0, nan, infinity, nan], 1.0, 1.0),
            (&[2.0, infinity, -1.0, -nan], 3.0, 3.0),
        ];
        for (terms, largest, smallest) in rows {
            for (fold, extreme, index) in [
                (Fold::ArgMax, Extreme::Largest, largest),
                (Fold::ArgMin, Extreme::Smallest, smallest),
            ] {
                for place in 0..=terms.len() {
                    let (first, second) = terms.split_at(place);
                    let first = partial_index(fold, extreme, first, 0);
                    let second = partial_index(fold, extreme, second, place);
                    for both in [[first, second], [second, first]] {
                        let got = fold.finish(&F64, &fold.combine(&F64, &both[0], &both[1]));
                        assert_eq!(got, index, "{} of {terms:?} at {place}", fold.name());
                    }
                }
            }
        }
    }
}
