//! The largest terms with their indices, in order: what `topk` folds.
//!
//! A partial result is as many pairs of a key and an index. Keys are ordered as values are, nan above all, and the keys of
//! no terms are below all. Invariant: pairs are in order; of equal keys the lower index comes first.

use super::reduction::Selection;

/// What a fold of `topk` gives.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Gives {
    /// The value at its place.
    Value,
    /// The index of that value.
    Index,
}

/// One result of `topk`: the value or the index at a place among the largest.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Top {
    /// The place, counted from 0.
    pub place: u32,
    /// How many are kept; results of the same terms that agree in it have one partial result.
    pub of: u32,
    /// Which of the two it is.
    pub gives: Gives,
}

impl Top {
    /// The most that one launch keeps: each takes two registers of a row.
    pub(crate) const MOST_IN_LAUNCH: u32 = 8;
}

/// What folds of the largest terms take.
pub(crate) trait Ranking: Selection {
    /// A value as a key.
    fn key(&self, value: Self::Word) -> Self::Word;
    /// The value of a key.
    fn value(&self, key: Self::Word) -> Self::Word;
    /// The key and index of no term.
    fn nothing(&self) -> [Self::Word; 2];
    /// Whether a pair comes before another in any order of their indices.
    fn precedes(&self, a: [Self::Word; 2], b: [Self::Word; 2]) -> Self::Truth;
    /// The same where the first one's index is higher than the other's.
    fn exceeds(&self, a: [Self::Word; 2], b: [Self::Word; 2]) -> Self::Truth;
}

/// In which order terms come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Arrival {
    /// Each has a higher index than all before it.
    Ascending,
    /// Any.
    Any,
}

/// Pairs in order, with one more; the last one goes.
#[inline(always)]
pub(crate) fn insert_ranked<A: Ranking>(
    on: &A,
    arrival: Arrival,
    kept: &mut [[A::Word; 2]],
    term: [A::Word; 2],
) {
    let mut before: Option<([A::Word; 2], A::Truth)> = None;
    for slot in kept {
        let own = *slot;
        let above = match arrival {
            Arrival::Ascending => on.exceeds(term, own),
            Arrival::Any => on.precedes(term, own),
        };
        // Once the term is above a pair it is above all behind: they move by one.
        let moved = match before {
            Some((pair, was_above)) => {
                [0, 1].map(|word| on.select(was_above, pair[word], term[word]))
            }
            None => term,
        };
        *slot = [0, 1].map(|word| on.select(above, moved[word], own[word]));
        before = Some((own, above));
    }
}

/// Two partial results as one.
pub(crate) fn combine_ranked<A: Ranking>(
    on: &A,
    first: &[[A::Word; 2]],
    second: &[[A::Word; 2]],
) -> Vec<[A::Word; 2]> {
    let mut kept = first.to_vec();
    for (place, pair) in second.iter().enumerate() {
        // As many as come before it in its own are above it.
        insert_ranked(on, Arrival::Any, &mut kept[place..], *pair);
    }
    kept
}

/// The words of a partial result as pairs.
pub(crate) fn pairs<W: Copy>(words: &[W]) -> Vec<[W; 2]> {
    words.chunks_exact(2).map(|pair| [pair[0], pair[1]]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::fold::F64;

    fn top(terms: &[f64], first: usize, count: usize) -> Vec<[f64; 2]> {
        let mut kept = vec![F64.nothing(); count];
        for (at, term) in terms.iter().enumerate() {
            let pair = [F64.key(*term), (first + at) as f64];
            insert_ranked(&F64, Arrival::Any, &mut kept, pair);
        }
        kept
    }

    #[test]
    fn the_largest_come_in_order_wherever_terms_are_split() {
        let (nan, infinity) = (f64::NAN, f64::INFINITY);
        let rows: [(&[f64], [f64; 3]); 6] = [
            (&[1.0, 5.0, 3.0, 5.0, 2.0], [1.0, 3.0, 2.0]),
            (&[2.0, 2.0, 2.0, 2.0], [0.0, 1.0, 2.0]),
            (&[-infinity, -infinity, 4.0, -infinity], [2.0, 0.0, 1.0]),
            (&[1.0, nan, infinity, nan], [1.0, 3.0, 2.0]),
            (&[0.0, -0.0, 0.0], [0.0, 1.0, 2.0]),
            (&[-1.0, 7.0, -3.0], [1.0, 0.0, 2.0]),
        ];
        for (terms, indices) in rows {
            for place in 0..=terms.len() {
                let (first, second) = terms.split_at(place);
                let (first, second) = (top(first, 0, 3), top(second, place, 3));
                for both in [[&first, &second], [&second, &first]] {
                    let kept = combine_ranked(&F64, both[0], both[1]);
                    assert_eq!(kept.iter().map(|pair| pair[1]).collect::<Vec<_>>(), indices);
                    let values = kept.iter().map(|pair| F64.value(pair[0]));
                    for (value, index) in values.zip(indices) {
                        let term = terms[index as usize];
                        assert!(value == term || (value.is_nan() && term.is_nan()), "{terms:?}");
                    }
                }
            }
        }
    }
}
