//! Folds of terms with weights: sums of exponentials relative to the largest exponent, and squared deviations.
//!
//! In: pairs of a term and its weight. Out: partial results of a few words and what they give. A partial sum is relative to
//! the maxima of its own terms, and is rescaled when it meets larger ones; a partial sum of squares is about its own mean.
//! Invariant: `combine` is associative but for rounding, and a term that is not there is [`Weighted::nothing`].

use super::reduction::Transcendental;

/// Exponentials of what is as far below the largest term are nothing beside it.
const VANISHED: f32 = -1000.0;

/// What is folded of terms with weights.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Weighted {
    /// `sum(w * exp(x - max(x)))`: the largest x, and the sum relative to it.
    Exponentials,
    /// `sum((w - max(w)) * exp(x - max(x)))`: the largest x, the sum of exponentials, the largest w, and the sum.
    ExponentialsBelowMax,
    /// The same where the weights are the terms: the largest x, the sum of exponentials without one largest x, and the sum.
    ExponentialsBelowOwnMax,
    /// `sum(w * square(x - mean))`, the mean with the same weights: the sum of weights, the mean, and the sum of squares.
    Deviations,
}

impl Weighted {
    /// How many words a partial result has.
    pub(crate) const fn count(self) -> u32 {
        match self {
            Weighted::Exponentials => 2,
            Weighted::ExponentialsBelowMax => 4,
            Weighted::ExponentialsBelowOwnMax | Weighted::Deviations => 3,
        }
    }

    /// A term and a weight that change no partial result.
    pub(crate) const fn nothing(self) -> [f32; 2] {
        match self {
            Weighted::Exponentials => [f32::NEG_INFINITY, 0.0],
            Weighted::ExponentialsBelowMax | Weighted::ExponentialsBelowOwnMax => {
                [f32::NEG_INFINITY; 2]
            }
            Weighted::Deviations => [0.0, 0.0],
        }
    }

    /// The partial result of no terms.
    pub(crate) const fn identity(self) -> &'static [f32] {
        match self {
            Weighted::Exponentials => &[f32::NEG_INFINITY, 0.0],
            Weighted::ExponentialsBelowMax => &[f32::NEG_INFINITY, 0.0, f32::NEG_INFINITY, 0.0],
            Weighted::ExponentialsBelowOwnMax => &[f32::NEG_INFINITY, 0.0, 0.0],
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
            Weighted::ExponentialsBelowOwnMax => {
                let terms: Vec<A::Word> = terms.iter().map(|term| term[0]).collect();
                below_own_max(on, &[before], &terms).to_vec()
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
            Weighted::ExponentialsBelowOwnMax => below_own_max(on, &[first, second], &[]).to_vec(),
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
            Weighted::ExponentialsBelowOwnMax => {
                on.select_or(on.is_finite(words[0]), words[2], f32::NAN)
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

/// Some partial results and some terms as one: the largest, the exponentials of what the others are below it, and the same
/// times what they are below it. A partial result's largest term is among the others, unless it is the one that is left out.
fn below_own_max<A: Transcendental>(
    on: &A,
    partials: &[&[A::Word]],
    terms: &[A::Word],
) -> [A::Word; 3] {
    let (peak, others) = without_largest(on, partials, terms);
    let base = finite_or_zero(on, peak);
    // Minus infinity times what has vanished would be no number.
    let vanished = on.constant(VANISHED);
    let share = |word: A::Word| {
        let below = on.max(on.sub(word, base), vanished);
        (below, on.exp(below))
    };
    let (mut rest, mut total) = (on.constant(0.0), on.constant(0.0));
    for words in partials {
        let (below, share) = share(words[0]);
        rest = on.mul_add(words[1], share, rest);
        total = on.mul_add(on.mul_add(below, words[1], words[2]), share, total);
    }
    for other in others {
        let (below, share) = share(other);
        rest = on.add(rest, share);
        total = on.mul_add(below, share, total);
    }
    [peak, rest, total]
}

/// The largest of the partial results' largest terms and of terms, and all others: the smaller of each two that are
/// compared, so that of several that are as large one is left out.
fn without_largest<A: Transcendental>(
    on: &A,
    partials: &[&[A::Word]],
    terms: &[A::Word],
) -> (A::Word, Vec<A::Word>) {
    let mut others = Vec::with_capacity(partials.len() + terms.len());
    let all = partials.iter().map(|words| words[0]).chain(terms.iter().copied());
    let largest = all.reduce(|largest, word| {
        others.push(on.min(largest, word));
        on.max(largest, word)
    });
    (largest.unwrap_or(on.constant(f32::NEG_INFINITY)), others)
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
    let zero = on.constant(0.0);
    let total = on.select(on.equal(words[1], zero), words[3], moved);
    // What vanishes beside larger terms adds nothing, also where a weight was minus infinity.
    let scaled = on.select(on.equal(scale, zero), zero, on.mul(total, scale));
    [on.mul(words[1], scale), scaled]
}

#[cfg(test)]
mod tests {
    use super::Weighted;
    use crate::functions::Accuracy;
    use crate::graph::fold::F64;
    use crate::graph::{Fold, Value};

    const ALL: [Weighted; 4] = [
        Weighted::Exponentials,
        Weighted::ExponentialsBelowMax,
        Weighted::ExponentialsBelowOwnMax,
        Weighted::Deviations,
    ];

    /// Numbers below a limit, by a xorshift.
    struct Random(u64);

    impl Random {
        fn below(&mut self, limit: usize) -> usize {
            self.0 ^= self.0 << 13;
            self.0 ^= self.0 >> 7;
            self.0 ^= self.0 << 17;
            ((self.0 >> 20) % limit as u64) as usize
        }

        /// A number of moderate size, with ties; or at times one of a kind that sums lose.
        fn number(&mut self, special: bool) -> f64 {
            let odd = [
                f64::INFINITY,
                f64::NEG_INFINITY,
                f64::NAN,
                f64::from(f32::MAX),
                f64::from(-f32::MAX),
                f64::from(f32::MIN_POSITIVE),
                -0.0,
                88.0,
                -104.0,
                1e19,
            ];
            if special && self.below(4) == 0 {
                return odd[self.below(odd.len())];
            }
            f64::from((self.below(41) as f32 - 20.0) / 4.0)
        }

        fn row(&mut self, weighted: Weighted) -> Vec<[f64; 2]> {
            let special = self.below(2) == 0;
            (0..self.below(12))
                .map(|_| match weighted {
                    Weighted::Deviations => [self.number(special), 1.0],
                    Weighted::ExponentialsBelowOwnMax => [self.number(special); 2],
                    Weighted::Exponentials | Weighted::ExponentialsBelowMax => {
                        [self.number(special), self.number(special)]
                    }
                })
                .collect()
        }
    }

    fn partial(weighted: Weighted, terms: &[[f64; 2]]) -> Vec<f64> {
        let identity: Vec<f64> = weighted.identity().iter().copied().map(f64::from).collect();
        weighted.extend(&F64, &identity, terms)
    }

    /// Partial results of pieces that lie anywhere, put together in any order.
    fn in_pieces(random: &mut Random, weighted: Weighted, terms: &[[f64; 2]]) -> f64 {
        let mut pieces = Vec::new();
        let mut rest = terms;
        while !rest.is_empty() {
            let (piece, others) = rest.split_at(1 + random.below(rest.len()));
            pieces.push(partial(weighted, piece));
            rest = others;
        }
        pieces.push(partial(weighted, &[]));
        while pieces.len() > 1 {
            let first = pieces.swap_remove(random.below(pieces.len()));
            let second = pieces.swap_remove(random.below(pieces.len()));
            pieces.push(weighted.combine(&F64, &first, &second));
        }
        weighted.finish(&F64, &pieces[0])
    }

    #[test]
    fn pieces_in_any_order_give_what_the_reference_allows() {
        let mut random = Random(0x9e37_79b9_7f4a_7c15);
        for _ in 0..20_000 {
            let weighted = ALL[random.below(ALL.len())];
            let terms = random.row(weighted);
            let values: Vec<[Value; 2]> = terms.iter().map(|term| term.map(Value::exact)).collect();
            let allowed = Fold::Weighted(weighted).apply_weighted(Accuracy::Accurate, &values);
            let got = in_pieces(&mut random, weighted, &terms);
            let within = allowed.contains(f64::from(got as f32)) || allowed.nan && got.is_nan();
            assert!(within, "{weighted:?} of {terms:?}: {got}, not {allowed:?}");
        }
    }

    #[test]
    fn terms_that_are_nothing_change_nothing() {
        let mut random = Random(7);
        for _ in 0..2000 {
            let weighted = ALL[random.below(ALL.len())];
            let terms = random.row(weighted);
            let mut padded = terms.clone();
            for _ in 0..3 {
                let place = random.below(padded.len() + 1);
                padded.insert(place, weighted.nothing().map(f64::from));
            }
            let finish = |terms: &[[f64; 2]]| weighted.finish(&F64, &partial(weighted, terms));
            let (want, got) = (finish(&terms), finish(&padded));
            let same = want == got || want.is_nan() && got.is_nan();
            let close = (want - got).abs() <= 1e-12 * want.abs();
            assert!(same || close, "{weighted:?} of {terms:?}: {got}, not {want}");
        }
    }

    #[test]
    fn a_single_term_is_its_weight_or_no_deviation() {
        for x in [-1e30, -3.0, 0.0, 5.0, 3e38] {
            let of = |weighted: Weighted, weight: f64| {
                weighted.finish(&F64, &partial(weighted, &[[x, weight]]))
            };
            assert_eq!(of(Weighted::Exponentials, 7.0), 7.0);
            assert_eq!(of(Weighted::ExponentialsBelowMax, 7.0), 0.0);
            assert_eq!(of(Weighted::ExponentialsBelowOwnMax, x), 0.0);
            assert_eq!(of(Weighted::Deviations, 1.0), 0.0);
        }
    }
}
