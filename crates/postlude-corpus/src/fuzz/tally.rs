//! How much was compared, and how sharply: a bound that allows everything proves nothing.

use postlude::graph::Value;
use postlude::reference::Evaluated;
use postlude::{DType, dtype};

/// Elements by how much the reference allows of each.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Tally {
    /// One result alone.
    pub exact: u64,
    /// A bound of at most 1/32 of its magnitude or of the output's usual one, or two neighbours of the dtype.
    pub sharp: u64,
    /// A finite bound that is wider.
    pub loose: u64,
    /// Any large number, both nan and numbers, or both truths.
    pub open: u64,
    /// Those of which nan alone is right.
    pub nan: u64,
    /// Those that would not pass for an element elsewhere in the output.
    pub apart: u64,
    /// Those that are equal to the one elsewhere.
    pub alike: u64,
}

/// What a bound may be of a magnitude and still be sharp: an element that belongs elsewhere is nearly always outside.
const SHARP: f64 = 1.0 / 32.0;

/// How far another element is that must not pass for this one: no multiple of a usual row.
const ELSEWHERE: usize = 37;

impl Tally {
    /// What the reference allows of an output.
    pub(super) fn of(evaluated: &Evaluated) -> Tally {
        let finite = evaluated.values.iter().map(|value| value.nominal.abs());
        let finite: Vec<f64> = finite.filter(|value| value.is_finite()).collect();
        let usual = finite.iter().sum::<f64>() / finite.len().max(1) as f64;
        let mut tally = Tally::default();
        for value in &evaluated.values {
            *tally.kind(evaluated.dtype, *value, usual) += 1;
            tally.nan += u64::from(value.is_only_nan());
        }
        tally.tell_apart(evaluated);
        tally
    }

    fn kind(&mut self, dtype: DType, value: Value, usual: f64) -> &mut u64 {
        if value.is_exact() {
            &mut self.exact
        } else if value.is_open() || dtype.elem() == dtype::Elem::Bool {
            &mut self.open
        } else if value.bound() <= SHARP * usual.max(value.nominal.abs())
            || are_neighbours(dtype, value.low, value.high)
        {
            &mut self.sharp
        } else {
            &mut self.loose
        }
    }

    /// Whether elements of other places would pass.
    fn tell_apart(&mut self, evaluated: &Evaluated) {
        let values = &evaluated.values;
        for (place, value) in values.iter().enumerate() {
            let other = values[(place + ELSEWHERE) % values.len()];
            let (own, other) = (value.nominal, other.nominal);
            if own == other || own.is_nan() && other.is_nan() {
                self.alike += 1;
            } else if evaluated.distance(place, other) > 1.0 {
                self.apart += 1;
            }
        }
    }

    /// All elements.
    pub fn all(&self) -> u64 {
        self.exact + self.sharp + self.loose + self.open
    }

    /// The part of them that a wrong value would hardly pass.
    pub fn meaningful(&self) -> f64 {
        (self.exact + self.sharp) as f64 / self.all().max(1) as f64
    }

    /// Both together.
    pub fn add(&mut self, other: Tally) {
        self.exact += other.exact;
        self.sharp += other.sharp;
        self.loose += other.loose;
        self.open += other.open;
        self.nan += other.nan;
        self.apart += other.apart;
        self.alike += other.alike;
    }
}

/// Whether a dtype has no value between these two of its own.
fn are_neighbours(dtype: DType, low: f64, high: f64) -> bool {
    let middle = dtype::round_to(dtype, low / 2.0 + high / 2.0);
    middle == low || middle == high
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_have_nothing_between_them() {
        assert!(are_neighbours(DType::F8E5M2, 1.0, 1.25));
        assert!(!are_neighbours(DType::F8E5M2, 1.0, 1.5));
        assert!(are_neighbours(DType::I8, 3.0, 4.0));
    }
}
