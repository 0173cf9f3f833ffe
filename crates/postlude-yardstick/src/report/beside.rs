//! Ours beside everyone who does the same as a row: cuBLASLt in one call, and peers.

use std::collections::BTreeMap;

use serde::Serialize;

use super::{RowReport, Spread};
use crate::statistics;

/// Everyone who computes what the row does.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Beside {
    /// Competitor after competitor.
    pub others: Vec<Other>,
    /// The fastest of them, by the median.
    pub best: Option<String>,
}

/// One competitor.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Other {
    /// What it is called.
    pub name: String,
    /// Why it did not take part, where it did not.
    pub absent: Option<String>,
    /// How far its results are from ours, output by output: the norm of the difference over the norm of ours. Empty where
    /// they were compared element by element.
    pub errors: BTreeMap<String, f64>,
    /// Seconds of a launch.
    pub seconds: Option<Spread>,
    /// How many times as fast ours is.
    pub ours_over_this: Option<Spread>,
}

impl Beside {
    /// Of competitors.
    pub fn of(others: Vec<Other>) -> Beside {
        let timed = |other: &Other| Some((other.name.clone(), other.seconds?.median));
        let fastest = others.iter().filter_map(timed).min_by(|a, b| a.1.total_cmp(&b.1));
        Beside { others, best: fastest.map(|(name, _)| name) }
    }

    /// How many times as fast as a competitor ours is.
    pub fn ratio(&self, name: &str) -> Option<Spread> {
        self.others.iter().find(|other| other.name == name)?.ours_over_this
    }

    /// How many times as fast as the best of them ours is.
    pub fn of_best(&self) -> Option<Spread> {
        self.ratio(self.best.as_ref()?)
    }
}

/// Ours beside one competitor, over all rows where both were.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Mean {
    /// The competitor, or `best`, the best of each row.
    pub name: String,
    /// The geometric mean of how many times as fast ours is.
    pub geometric_mean: f64,
    /// The rows that it is over.
    pub rows: usize,
    /// The row where ours is slowest beside it.
    pub worst: (String, f64),
}

/// The means over right rows: competitor after competitor, then the best of each row.
pub fn means(rows: &[RowReport]) -> Vec<Mean> {
    let mut ratios: Vec<(String, Vec<(String, f64)>)> = Vec::new();
    let mut add = |name: &str, row: &str, ratio: Spread| {
        let known = ratios.iter().position(|(known, _)| known == name);
        let place = known.unwrap_or_else(|| {
            ratios.push((name.to_owned(), Vec::new()));
            ratios.len() - 1
        });
        ratios[place].1.push((row.to_owned(), ratio.median));
    };
    let right: Vec<&RowReport> = rows.iter().filter(|row| row.is_right() == Some(true)).collect();
    let beside = |row: &RowReport| row.measured.as_ref()?.beside.clone();
    for row in &right {
        for other in beside(row).iter().flat_map(|beside| &beside.others) {
            if let Some(ratio) = other.ours_over_this {
                add(&other.name, &row.row, ratio);
            }
        }
    }
    for row in &right {
        if let Some(ratio) = beside(row).and_then(|beside| beside.of_best()) {
            add("best", &row.row, ratio);
        }
    }
    let mean = |(name, ratios): (String, Vec<(String, f64)>)| {
        let numbers: Vec<f64> = ratios.iter().map(|(_, ratio)| *ratio).collect();
        let worst = ratios.iter().min_by(|a, b| a.1.total_cmp(&b.1)).cloned();
        let geometric_mean = statistics::geometric_mean(&numbers);
        Some(Mean { name, geometric_mean, rows: numbers.len(), worst: worst? })
    };
    ratios.into_iter().filter_map(mean).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn other(name: &str, seconds: f64, ratio: f64) -> Other {
        let spread = |value| Spread { median: value, low: value, high: value };
        Other {
            name: name.to_owned(),
            absent: None,
            errors: BTreeMap::new(),
            seconds: Some(spread(seconds)),
            ours_over_this: Some(spread(ratio)),
        }
    }

    #[test]
    fn the_best_is_the_fastest_of_those_that_took_part() {
        let absent = Other {
            absent: Some("no room".to_owned()),
            seconds: None,
            ours_over_this: None,
            ..other("compiled", 0.0, 0.0)
        };
        let beside = Beside::of(vec![other("eager", 3.0, 1.5), absent, other("library", 2.5, 1.2)]);
        assert_eq!(beside.best.as_deref(), Some("library"));
        assert_eq!(beside.of_best().map(|ratio| ratio.median), Some(1.2));
        assert_eq!(beside.ratio("compiled"), None);
        assert_eq!(Beside::of(Vec::new()).best, None);
    }
}
