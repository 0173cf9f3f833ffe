//! Values that may be one of several: what an uncertain choice leaves.
//!
//! An enclosure is one range; `0 or 7` as a range would allow 3. Alternatives are a few disjoint enclosures beside it.
//! Invariant: together they allow everything that a conforming engine may make of the value, and the nominal value lies in
//! one of them.

use crate::dtype::Elem;
use crate::graph::Value;

/// The most alternatives that are told apart; the nearest are joined beyond.
const MOST: usize = 16;
/// The same of indices that a fold gives: none between two candidates is allowed.
pub(super) const MOST_INDICES: usize = 4096;
/// The most combinations of operands' alternatives that are tried.
const MOST_COMBINATIONS: usize = 256;
/// The widest range of integers that is taken apart.
const WIDEST: f64 = 7.0;

/// Disjoint enclosures in rising order; nan alone, where there is that, is the last.
pub(super) type Alternatives = Vec<Value>;

/// A few disjoint enclosures that allow everything that the pieces allow.
pub(super) fn tidy(pieces: Vec<Value>) -> Alternatives {
    tidy_to(MOST, pieces)
}

fn tidy_to(most: usize, mut pieces: Vec<Value>) -> Alternatives {
    let only_nan = pieces.iter().any(|piece| piece.is_only_nan());
    pieces.retain(|piece| !piece.is_only_nan());
    pieces.sort_by(|a, b| a.low.total_cmp(&b.low).then(a.high.total_cmp(&b.high)));
    let mut tidied: Alternatives = Vec::with_capacity(pieces.len());
    for piece in pieces {
        match tidied.last_mut() {
            Some(last) if piece.low <= last.high => *last = last.or(piece),
            Some(_) | None => tidied.push(piece),
        }
    }
    while tidied.len() > most {
        let gap = |at: &usize| tidied[*at].low - tidied[*at - 1].high;
        let nearest = (1..tidied.len()).min_by(|a, b| gap(a).total_cmp(&gap(b))).unwrap_or(1);
        let joined = tidied.remove(nearest);
        tidied[nearest - 1] = tidied[nearest - 1].or(joined);
    }
    if only_nan {
        tidied.push(Value::NAN);
    }
    tidied
}

/// The range of all alternatives with this nominal value, and the alternatives where there are several.
pub(super) fn enclose(nominal: f64, pieces: Vec<Value>) -> (Value, Option<Alternatives>) {
    enclose_to(MOST, nominal, pieces)
}

/// The same with at most this many alternatives.
pub(super) fn enclose_to(
    most: usize,
    nominal: f64,
    mut pieces: Vec<Value>,
) -> (Value, Option<Alternatives>) {
    let inside = |piece: &Value| {
        if nominal.is_nan() { piece.nan } else { piece.contains(nominal) }
    };
    if !pieces.iter().any(inside) {
        pieces.push(Value::exact(nominal));
    }
    let mut tidied = tidy_to(most, pieces);
    let hull = hull(nominal, &tidied);
    // Each keeps a nominal value of its own, inside of it.
    for piece in &mut tidied {
        piece.nominal = if piece.is_only_nan() {
            f64::NAN
        } else if nominal.is_nan() || nominal < piece.low {
            piece.low
        } else {
            nominal.min(piece.high)
        };
    }
    (hull, (tidied.len() > 1).then_some(tidied))
}

/// One enclosure for all of them.
fn hull(nominal: f64, pieces: &[Value]) -> Value {
    let all = pieces.iter().copied().reduce(Value::or).unwrap_or(Value::NAN);
    Value { nominal, ..all }
}

/// What an enclosure of integers or truth values consists of, where that is few numbers; itself where it is not.
pub(super) fn points(elem: Elem, value: Value) -> Alternatives {
    let width = value.high - value.low;
    let narrow = (0.0..=WIDEST).contains(&width) && !value.is_exact() && !value.nan;
    if elem == Elem::F32 || !narrow {
        return vec![value];
    }
    (value.low as i64..=value.high as i64).map(|point| Value::exact(point as f64)).collect()
}

/// What a function makes of every combination of its operands' alternatives; nothing where an operand has none, as under an
/// assumption that cannot hold.
pub(super) fn combine<const N: usize>(
    mut operands: [Alternatives; N],
    f: &impl Fn([Value; N]) -> Value,
) -> Vec<Value> {
    if operands.iter().any(Vec::is_empty) {
        return Vec::new();
    }
    while operands.iter().map(Vec::len).product::<usize>() > MOST_COMBINATIONS {
        let Some(longest) = operands.iter_mut().max_by_key(|pieces| pieces.len()) else { break };
        *longest = vec![hull(longest[0].nominal, longest)];
    }
    let mut results = Vec::new();
    let mut at = [0; N];
    loop {
        results.push(f(std::array::from_fn(|operand| operands[operand][at[operand]])));
        let mut place = 0;
        while place < N {
            at[place] += 1;
            if at[place] < operands[place].len() {
                break;
            }
            at[place] = 0;
            place += 1;
        }
        if place == N {
            return results;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn alternatives_do_not_allow_what_lies_between_them() {
        let pieces = vec![Value::exact(7.0), Value::exact(0.0), Value::exact(7.0)];
        let (hull, alternatives) = enclose(0.0, pieces);
        assert_eq!((hull.low, hull.high), (0.0, 7.0));
        assert_eq!(alternatives, Some(vec![Value::exact(0.0), Value::exact(7.0)]));
    }

    #[test]
    fn too_many_alternatives_are_joined_where_they_are_nearest() {
        let pieces = (0..40).map(|at| Value::exact(f64::from(at * at))).collect();
        let (hull, alternatives) = enclose(0.0, pieces);
        let alternatives = alternatives.unwrap();
        assert_eq!((hull.low, hull.high, alternatives.len()), (0.0, 1521.0, MOST));
        let allowed = |x: f64| alternatives.iter().any(|piece| piece.contains(x));
        assert!((0..40).all(|at| allowed(f64::from(at * at))));
        assert!(!allowed(1500.0));
    }

    #[test]
    fn every_combination_is_tried() {
        let bit = || points(Elem::Bool, Value::truth(true, true, true));
        let sums = combine([bit(), bit()], &|[x, y]| Value::exact(x.low + 10.0 * y.low));
        let (_, sums) = enclose(0.0, sums);
        assert_eq!(
            sums.unwrap().iter().map(|sum| sum.low).collect::<Vec<_>>(),
            [0.0, 1.0, 10.0, 11.0]
        );
    }

    #[test]
    fn nan_is_an_alternative_of_its_own() {
        let (hull, alternatives) = enclose(1.0, vec![Value::exact(1.0), Value::NAN]);
        assert!(hull.nan && alternatives.unwrap()[1].is_only_nan());
        let (hull, alternatives) = enclose(f64::NAN, vec![Value::NAN]);
        assert!(hull.is_only_nan() && alternatives.is_none());
    }
}
