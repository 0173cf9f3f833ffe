//! Medians, spreads and means of samples.

use serde::Serialize;

/// The middle of some numbers and how far they spread.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Spread {
    /// Half of them are at most this.
    pub median: f64,
    /// A tenth of them are at most this.
    pub low: f64,
    /// A tenth of them are at least this.
    pub high: f64,
}

impl Spread {
    /// Of some numbers; not a number where there are none.
    pub fn of(numbers: &[f64]) -> Spread {
        let sorted = sorted(numbers);
        let [low, median, high] = [0.1, 0.5, 0.9].map(|part| quantile(&sorted, part));
        Spread { median, low, high }
    }
}

/// The middle of some numbers.
pub fn median(numbers: &[f64]) -> f64 {
    quantile(&sorted(numbers), 0.5)
}

/// The geometric mean of some positive numbers.
pub fn geometric_mean(numbers: &[f64]) -> f64 {
    let sum: f64 = numbers.iter().map(|number| number.ln()).sum();
    (sum / numbers.len() as f64).exp()
}

fn sorted(numbers: &[f64]) -> Vec<f64> {
    let mut sorted = numbers.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted
}

/// The number below which that part of sorted numbers lies, between neighbours in proportion.
fn quantile(sorted: &[f64], part: f64) -> f64 {
    let Some(last) = sorted.len().checked_sub(1) else { return f64::NAN };
    let place = part * last as f64;
    let below = sorted[place.floor() as usize];
    let above = sorted[place.ceil() as usize];
    below + (above - below) * place.fract()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_the_middle_or_between_the_two_middle_ones() {
        assert_eq!(median(&[3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), 2.5);
        assert!(median(&[]).is_nan());
    }

    #[test]
    fn a_spread_leaves_a_tenth_out_on_either_side() {
        let numbers: Vec<f64> = (0..=100).rev().map(f64::from).collect();
        assert_eq!(Spread::of(&numbers), Spread { median: 50.0, low: 10.0, high: 90.0 });
    }

    #[test]
    fn the_geometric_mean_of_inverse_ratios_is_one() {
        assert!((geometric_mean(&[0.5, 2.0, 1.0]) - 1.0).abs() < 1e-15);
    }
}
