//! Which indices a fold may give where its terms are known within bounds only.
//!
//! In: the enclosures of all terms, in the order of their indices. Out: every index whose term may be the extreme, and the
//! nominal one, which is among them. An index whose term cannot be the extreme is never allowed, however near it is.

use crate::graph::Value;

use super::Fold;
use super::order::indices_at;
use super::ranked::{Gives, Top};
use super::reduction::{Extreme, Words};

/// The indices that are allowed for an extreme.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Candidates {
    /// The index by the nominal values.
    pub(crate) nominal: usize,
    /// All of them, rising.
    pub(crate) indices: Vec<usize>,
}

impl Candidates {
    /// Of a fold that gives an index; none of another.
    pub(crate) fn of_fold(fold: Fold, terms: &[Value]) -> Option<Candidates> {
        match (fold, fold.words()) {
            (_, Words::Indexed(extreme)) => Some(Candidates::of(extreme, terms)),
            (Fold::Top(Top { place, gives: Gives::Index, .. }), _)
                if (place as usize) < terms.len() =>
            {
                Some(indices_at(terms, place as usize))
            }
            _ => None,
        }
    }

    /// Of terms, of which there is one at least.
    ///
    /// A term is the largest with the lowest index if it is above each one before it and not below any behind it. It may be
    /// so if its highest value is above, or not below, their lowest values. The first nan wins: one that is certain leaves
    /// only possible nans before it.
    pub(crate) fn of(extreme: Extreme, terms: &[Value]) -> Candidates {
        let ends = |x: &Value| match extreme {
            Extreme::Largest => [x.low, x.high],
            Extreme::Smallest => [-x.high, -x.low],
        };
        let nominal = nominal(extreme, terms);
        let nans = |until: usize| (0..until).filter(|at| terms[*at].nan);
        if let Some(certain) = terms.iter().position(|x| x.is_only_nan()) {
            return Candidates { nominal, indices: nans(certain + 1).collect() };
        }
        // What the terms behind each one are at least.
        let mut behind = vec![f64::NEG_INFINITY; terms.len()];
        for at in (1..terms.len()).rev() {
            behind[at - 1] = behind[at].max(ends(&terms[at])[0]);
        }
        let mut before = None;
        let mut indices = Vec::new();
        for (at, term) in terms.iter().enumerate() {
            let [low, high] = ends(term);
            let above = before.is_none_or(|before| high > before);
            if term.nan || (above && high >= behind[at]) {
                indices.push(at);
            }
            before = Some(before.map_or(low, |before: f64| before.max(low)));
        }
        Candidates { nominal, indices }
    }
}

/// The lowest index of the extreme of nominal values, or of nan.
fn nominal(extreme: Extreme, terms: &[Value]) -> usize {
    if let Some(first) = terms.iter().position(|x| x.nominal.is_nan()) {
        return first;
    }
    let beyond = |a: f64, b: f64| match extreme {
        Extreme::Largest => a > b,
        Extreme::Smallest => a < b,
    };
    let further = |best: usize, at: usize| {
        if beyond(terms[at].nominal, terms[best].nominal) { at } else { best }
    };
    (0..terms.len()).reduce(further).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn around(nominal: f64, error: f64) -> Value {
        Value::between(nominal, nominal - error, nominal + error, false)
    }

    fn indices(extreme: Extreme, terms: &[Value]) -> Vec<usize> {
        let found = Candidates::of(extreme, terms);
        assert!(found.indices.contains(&found.nominal), "{found:?}");
        found.indices
    }

    #[test]
    fn exact_terms_leave_the_lowest_index_of_the_extreme() {
        let terms = [1.0, 4.0, 4.0, -3.0, 0.0, -3.0].map(Value::exact);
        assert_eq!(indices(Extreme::Largest, &terms), [1]);
        assert_eq!(indices(Extreme::Smallest, &terms), [3]);
        assert_eq!(indices(Extreme::Largest, &[-0.0, 0.0].map(Value::exact)), [0]);
    }

    #[test]
    fn every_term_that_may_be_the_extreme_is_allowed_and_no_other() {
        let terms = [around(3.0, 0.1), around(2.0, 0.5), around(3.1, 0.1), around(2.9, 0.05)];
        assert_eq!(indices(Extreme::Largest, &terms), [0, 2]);
        assert_eq!(indices(Extreme::Smallest, &terms), [1]);
        // An exact term behind one that is as large at least cannot be the first.
        let terms = [around(3.0, 0.0), around(2.9, 0.2), Value::exact(3.0)];
        assert_eq!(indices(Extreme::Largest, &terms), [0, 1]);
    }

    #[test]
    fn the_first_nan_wins_and_a_possible_one_may() {
        let possible = Value { nan: true, ..around(0.0, 1.0) };
        let terms = [Value::exact(9.0), possible, Value::NAN, possible];
        assert_eq!(indices(Extreme::Largest, &terms), [1, 2]);
        assert_eq!(indices(Extreme::Smallest, &terms), [1, 2]);
        assert_eq!(indices(Extreme::Largest, &[Value::exact(9.0), possible]), [0, 1]);
    }
}
