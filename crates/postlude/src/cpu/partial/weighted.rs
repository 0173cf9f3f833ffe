//! Runs of terms with weights as one partial result: exponentials in f32 and all at once, sums in f64.

use crate::functions::{self, Accuracy, Function};
use crate::graph::fold::{Arithmetic, Weighted};

use super::F32;

/// The partial result of a run; a single weight is that of every term.
pub(super) fn run_of_weighted(
    weighted: Weighted,
    values: &[f32],
    weights: &[f32],
    accuracy: Accuracy,
    terms: &mut Vec<f32>,
) -> Vec<f64> {
    let weight = |place: usize| if weights.len() == 1 { weights[0] } else { weights[place] };
    let each = || (0..values.len()).map(|place| f64::from(weight(place)));
    match weighted {
        Weighted::Exponentials => {
            let (peak, _) = relative(values, accuracy, terms);
            let total = terms.iter().zip(each()).map(|(share, weight)| weight * f64::from(*share));
            vec![peak, total.sum()]
        }
        Weighted::ExponentialsBelowMax => {
            let (peak, sum) = relative(values, accuracy, terms);
            let top =
                (0..values.len()).fold(f32::NEG_INFINITY, |top, place| F32.max(top, weight(place)));
            let level = if top.is_finite() { f64::from(top) } else { 0.0 };
            // What has vanished adds nothing, also where its weight is minus infinity.
            let below = terms.iter().zip(each()).map(|(share, weight)| match f64::from(*share) {
                0.0 => 0.0,
                share => (weight - level) * share,
            });
            vec![peak, sum, f64::from(top), below.sum()]
        }
        Weighted::ExponentialsBelowOwnMax => {
            let (peak, _) = relative(values, accuracy, terms);
            let level = if peak.is_finite() { peak } else { 0.0 };
            let shares = || values.iter().map(|x| f64::from(*x)).zip(terms.iter());
            let largest = shares().filter(|(x, _)| *x == peak).count();
            let others = shares().filter(|(x, _)| *x != peak).map(|(_, share)| f64::from(*share));
            let below = shares().map(|(x, share)| match f64::from(*share) {
                0.0 => 0.0,
                share => (x - level) * share,
            });
            let rest = others.sum::<f64>() + largest.saturating_sub(1) as f64;
            vec![peak, rest, below.sum()]
        }
        Weighted::Deviations => {
            let pairs = || values.iter().map(|x| f64::from(*x)).zip(each());
            let count: f64 = each().sum();
            let total: f64 = pairs().map(|(x, weight)| weight * x).sum();
            let mean = if count == 0.0 { 0.0 } else { total / count };
            let squares = pairs().map(|(x, weight)| weight * (x - mean) * (x - mean));
            vec![count, mean, squares.sum()]
        }
    }
}

/// The largest value, and in `terms` the exponentials of what each is below it, with their sum; where it is infinite,
/// exponentials of the values themselves.
fn relative(values: &[f32], accuracy: Accuracy, terms: &mut Vec<f32>) -> (f64, f64) {
    let peak = values.iter().fold(f32::NEG_INFINITY, |peak, x| F32.max(peak, *x));
    let base = if peak.is_finite() { peak } else { 0.0 };
    terms.clear();
    terms.extend(values.iter().map(|x| x - base));
    functions::apply_in_place(Function::Exp, accuracy, terms);
    (f64::from(peak), terms.iter().map(|share| f64::from(*share)).sum())
}
