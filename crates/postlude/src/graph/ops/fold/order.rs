//! What a place among the largest terms may hold where terms are known within bounds only.
//!
//! In: the enclosures of all terms, in the order of their indices. Out: the enclosure of the value at a place, or every
//! index that may be there. Values are ordered with nan above all; of equal ones the lower index comes first.

use std::cmp::Ordering;

use crate::graph::Value;

use super::candidates::Candidates;

/// A value in the order of places: nan, which is above all, or a number.
#[derive(Clone, Copy, Debug)]
struct Key {
    nan: bool,
    number: f64,
}

impl Key {
    fn of(number: f64) -> Key {
        let nan = number.is_nan();
        // Zeros of either sign are equal.
        Key { nan, number: if nan { 0.0 } else { number + 0.0 } }
    }

    /// The lowest that a value may be.
    fn low(x: &Value) -> Key {
        if x.is_only_nan() { Key::of(f64::NAN) } else { Key::of(x.low) }
    }

    /// The highest that a value may be.
    fn high(x: &Value) -> Key {
        if x.nan { Key::of(f64::NAN) } else { Key::of(x.high) }
    }

    fn order(self, other: Key) -> Ordering {
        self.nan.cmp(&other.nan).then(self.number.total_cmp(&other.number))
    }
}

/// The key at a place, counted from 0 and from the largest.
fn at_place(mut keys: Vec<Key>, place: usize) -> Key {
    *keys.select_nth_unstable_by(place, |a, b| b.order(*a)).1
}

/// The value at a place, of which there is one: places are monotone in every term.
pub(super) fn value_at(terms: &[Value], place: usize) -> Value {
    let place_of = |key: fn(&Value) -> Key| at_place(terms.iter().map(key).collect(), place);
    let nominal = place_of(|x| Key::of(x.nominal));
    let nominal = if nominal.nan { f64::NAN } else { nominal.number };
    let low = place_of(Key::low);
    if low.nan {
        return Value::NAN;
    }
    // A term that may be nan may stand above the place, and leave it to a larger one.
    let high = place_of(Key::high);
    let numbers = terms.iter().filter(|x| !x.is_only_nan()).map(|x| x.high + 0.0);
    let highest = if high.nan { numbers.fold(low.number, f64::max) } else { high.number };
    Value { nominal, low: low.number, high: highest, nan: high.nan }
}

/// The indices that may be at a place: as many others may come before the term as there are places before it, and no more
/// have to.
pub(super) fn indices_at(terms: &[Value], place: usize) -> Candidates {
    let nominal = nominal_at(terms, place);
    let least = at_place(terms.iter().map(Key::low).collect(), place);
    // A term that cannot reach the lowest value of the place is never there, and comes before none that can.
    let near: Vec<usize> = (0..terms.len())
        .filter(|at| Key::high(&terms[*at]).order(least) != Ordering::Less)
        .collect();
    let in_order = |key: fn(&Value) -> Key| {
        let mut all: Vec<(Key, usize)> = near.iter().map(|at| (key(&terms[*at]), *at)).collect();
        all.sort_unstable_by(before);
        all
    };
    let (lows, highs) = (in_order(Key::low), in_order(Key::high));
    let is_possible = |at: &&usize| {
        let (low, high) = (Key::low(&terms[**at]), Key::high(&terms[**at]));
        let ahead = |all: &[(Key, usize)], of: Key| {
            all.partition_point(|other| before(other, &(of, **at)) == Ordering::Less)
        };
        // Its own highest value may come before its lowest.
        let own = usize::from(high.order(low) == Ordering::Greater);
        ahead(&lows, high) <= place && place <= ahead(&highs, low) - own
    };
    Candidates { nominal, indices: near.iter().filter(is_possible).copied().collect() }
}

/// The larger of two terms comes before the other, and of equal ones that of the lower index.
fn before(one: &(Key, usize), other: &(Key, usize)) -> Ordering {
    other.0.order(one.0).then(one.1.cmp(&other.1))
}

/// The index at a place by the nominal values.
fn nominal_at(terms: &[Value], place: usize) -> usize {
    let keys = terms.iter().enumerate();
    let mut keys: Vec<(Key, usize)> = keys.map(|(at, x)| (Key::of(x.nominal), at)).collect();
    keys.select_nth_unstable_by(place, before).1.1
}

#[cfg(test)]
mod tests {
    use super::*;

    fn around(nominal: f64, error: f64) -> Value {
        Value::between(nominal, nominal - error, nominal + error, false)
    }

    #[test]
    fn exact_terms_have_one_order() {
        let terms = [1.0, 5.0, f64::NAN, 5.0, -0.0, 0.0].map(Value::exact);
        let indices: Vec<Vec<usize>> =
            (0..6).map(|place| indices_at(&terms, place).indices).collect();
        assert_eq!(indices, [[2], [1], [3], [0], [4], [5]]);
        assert!(value_at(&terms, 0).is_only_nan());
        assert_eq!(value_at(&terms, 3), Value::exact(1.0));
    }

    #[test]
    fn terms_that_overlap_may_change_places() {
        let terms = [around(3.0, 0.1), around(1.0, 0.1), around(3.1, 0.1), around(2.0, 0.1)];
        let indices: Vec<Vec<usize>> =
            (0..4).map(|place| indices_at(&terms, place).indices).collect();
        assert_eq!(indices, [vec![0, 2], vec![0, 2], vec![3], vec![1]]);
        let second = value_at(&terms, 1);
        assert_eq!((second.nominal, second.low, second.high), (3.0, 2.9, 3.1));
    }

    #[test]
    fn a_possible_nan_may_be_first() {
        let possible = Value { nan: true, ..around(0.0, 1.0) };
        let terms = [Value::exact(9.0), possible, Value::exact(-5.0)];
        assert_eq!(indices_at(&terms, 0).indices, [0, 1]);
        assert_eq!(indices_at(&terms, 1).indices, [0, 1]);
        assert_eq!(indices_at(&terms, 2).indices, [2]);
        assert!(value_at(&terms, 0).nan && !value_at(&terms, 1).nan);
        // If it is nan, 9 is second.
        assert_eq!((value_at(&terms, 1).low, value_at(&terms, 1).high), (-1.0, 9.0));
    }
}
