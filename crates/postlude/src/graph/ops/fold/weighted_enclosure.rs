//! What folds of weighted terms mean, and what an implementation of them may be off by.

use crate::functions::{self, Accuracy, Function};
use crate::graph::Value;
use crate::graph::ops::binary;

use super::Fold;
use super::enclosure::{HALF_ULP, chain, rounded_sum};
use super::numbers::F64;
use super::weighted::Weighted;

/// Twice the smallest number.
const SUBNORMAL: f64 = f64::from_bits((1023 - 148) << 52);

impl Fold {
    /// Reference meaning and error bound of terms with weights.
    pub fn apply_weighted(self, accuracy: Accuracy, terms: &[[Value; 2]]) -> Value {
        let Some(weighted) = self.weighted() else {
            panic!("compiler bug: `{}` takes no weights", self.name())
        };
        if terms.iter().flatten().any(|x| x.is_only_nan()) {
            return Value::NAN;
        }
        match weighted {
            Weighted::Exponentials => exponentials(accuracy, terms),
            Weighted::ExponentialsBelowMax | Weighted::ExponentialsBelowOwnMax => {
                exponentials_below_max(accuracy, terms)
            }
            Weighted::Deviations => deviations(accuracy, terms),
        }
    }
}

/// The lowest and the highest that the maximum of one of the pairs' two values may be.
fn maximum(terms: &[[Value; 2]], of_pair: usize) -> [f64; 2] {
    let largest = |of: fn(&Value) -> f64| {
        terms.iter().map(|term| of(&term[of_pair])).fold(f64::NEG_INFINITY, f64::max)
    };
    [largest(|x| x.low), largest(|x| x.high)]
}

/// In f64, with no bound, in two passes.
fn nominally(weighted: Weighted, terms: &[[Value; 2]]) -> f64 {
    let identity: Vec<f64> = weighted.identity().iter().copied().map(f64::from).collect();
    let pairs: Vec<[f64; 2]> = terms.iter().map(|term| term.map(|x| x.nominal)).collect();
    weighted.finish(&F64, &weighted.extend(&F64, &identity, &pairs))
}

/// `exp(x - max(x))` of every term with what an engine may be off by; `None` where the maximum is certain to be infinite.
/// The last says whether it may be.
fn shares(accuracy: Accuracy, terms: &[[Value; 2]]) -> Option<(Vec<Value>, bool)> {
    let [lowest, highest] = maximum(terms, 0);
    if lowest == highest && lowest.is_infinite() {
        return None;
    }
    let peak = terms.iter().map(|term| term[0].nominal).fold(f64::NEG_INFINITY, f64::max);
    let exp_error = |distance: f64| functions::bound(Function::Exp, accuracy, distance, 1.0);
    // Rescaling a running sum is one more exponential at each step of the chain.
    let common = 16.0 * (exp_error(-1.0) + HALF_ULP);
    let share = |[x, _]: &[Value; 2]| {
        let below = if lowest.is_infinite() { 0.0 } else { (x.high - lowest).min(0.0) };
        let least = if highest.is_infinite() { 0.0 } else { (x.low - highest).exp() };
        let distance = below.max(-128.0);
        let far = 2.0 * (exp_error(distance) - exp_error(0.0) - distance * HALF_ULP);
        let relative = common + far;
        // A subnormal exponential is rounded to a multiple of the smallest, and so is what rescaling makes of it.
        let high = match below.exp() {
            0.0 => 0.0,
            share => share * (1.0 + relative) + SUBNORMAL,
        };
        let low = (least * (1.0 - relative) - f64::from(f32::MIN_POSITIVE)).max(0.0);
        let nominal = if peak.is_finite() { (x.nominal - peak).exp() } else { 0.0 };
        let nominal = if nominal.is_nan() { low } else { nominal.clamp(low, high) };
        Value::between(nominal, low, high, x.nan)
    };
    Some((terms.iter().map(share).collect(), lowest.is_infinite() || highest.is_infinite()))
}

fn exponentials(accuracy: Accuracy, terms: &[[Value; 2]]) -> Value {
    let Some((shares, may_be_infinite)) = shares(accuracy, terms) else { return Value::NAN };
    let nominal = nominally(Weighted::Exponentials, terms);
    if overflows(terms.iter().map(|[_, weight]| weight.magnitude())) {
        return Value::anything(nominal);
    }
    let products =
        terms.iter().zip(&shares).map(|([_, weight], share)| binary::multiply(*weight, *share));
    summed(nominal, &products.collect::<Vec<_>>(), may_be_infinite)
}

fn exponentials_below_max(accuracy: Accuracy, terms: &[[Value; 2]]) -> Value {
    let Some((shares, may_be_infinite)) = shares(accuracy, terms) else { return Value::NAN };
    let [lowest, highest] = maximum(terms, 1);
    if lowest == highest && lowest.is_infinite() {
        return Value::NAN;
    }
    let nominal = nominally(Weighted::ExponentialsBelowMax, terms);
    if overflows(terms.iter().map(|[_, weight]| highest - weight.low)) {
        return Value::anything(nominal);
    }
    let product = |([_, weight], share): (&[Value; 2], &Value)| {
        // Differences are rounded once for every level that they are relative to.
        let spread = 1.0 + 16.0 * HALF_ULP;
        let least = if highest.is_infinite() { f64::NEG_INFINITY } else { weight.low - highest };
        let most = if lowest.is_infinite() { 0.0 } else { (weight.high - lowest).min(0.0) };
        // What has vanished adds nothing, also where its weight is minus infinity.
        let low = if share.high == 0.0 { 0.0 } else { least * spread * share.high };
        let high = if share.low == 0.0 { 0.0 } else { most / spread * share.low };
        Value::between(low.midpoint(high), low, high, weight.nan || share.nan)
    };
    let may_be_infinite = may_be_infinite || lowest.is_infinite() || highest.is_infinite();
    let products: Vec<Value> = terms.iter().zip(&shares).map(product).collect();
    summed(nominal, &products, may_be_infinite)
}

/// Whether partial sums of weights may overflow: they are relative to the largest of their own terms, whose exponential is 1.
fn overflows(weights: impl Iterator<Item = f64>) -> bool {
    weights.filter(|weight| weight.is_finite()).sum::<f64>() > f64::from(f32::MAX)
}

/// The sum of enclosures, around a value that was computed otherwise.
fn summed(nominal: f64, terms: &[Value], may_be_infinite: bool) -> Value {
    let exact = terms.iter().fold(Value::exact(0.0), |sum, term| binary::add(sum, *term));
    let sum = rounded_sum(exact, terms);
    let nan = sum.nan || may_be_infinite;
    if sum.is_only_nan() {
        return sum;
    }
    // Products and what rescaling makes of a running sum are rounded to multiples of the smallest number.
    let terms = terms.iter().filter(|term| term.magnitude() > 0.0).count();
    let sum = sum.widen(terms as f64 * SUBNORMAL);
    let nominal = if nominal.is_nan() && !nan { sum.nominal } else { nominal };
    let inside = if nominal.is_nan() { nominal } else { nominal.clamp(sum.low, sum.high) };
    Value { nominal: inside, nan, ..sum }.round_f32()
}

/// A sum of squares about the mean is a quadratic form: terms that are off by e change it by twice the deviations times e,
/// and by the squares of e at most.
fn deviations(accuracy: Accuracy, terms: &[[Value; 2]]) -> Value {
    let nominal = nominally(Weighted::Deviations, terms);
    let nan = terms.iter().flatten().any(|x| x.nan);
    let infinite = |x: &Value| x.low.is_infinite() || x.high.is_infinite();
    if terms.iter().any(|[x, _]| x.low == x.high && x.low.is_infinite()) {
        return Value::NAN;
    }
    if terms.iter().flatten().any(infinite) {
        return Value::anything(nominal);
    }
    let count: f64 = terms.iter().map(|[_, weight]| weight.nominal).sum();
    let total: f64 = terms.iter().map(|[x, weight]| x.nominal * weight.nominal).sum();
    let mean = if count > 0.0 { total / count } else { 0.0 };
    let largest = terms.iter().map(|[x, _]| x.magnitude()).fold(0.0, f64::max);
    // Means are rounded at every step of the chain, and what they are apart is off by as much.
    let rounded = (chain(terms.len()) + 16.0) * HALF_ULP * largest;
    let mut error = 0.0;
    for [x, weight] in terms {
        let radius = (x.high - x.nominal).max(x.nominal - x.low) + rounded;
        let apart = (x.nominal - mean).abs();
        error += weight.magnitude() * (2.0 * apart + radius) * radius;
        error += (weight.high - weight.low) * (apart + radius).powi(2);
    }
    let rcp = functions::bound(Function::Rcp, accuracy, 1.0, 1.0);
    let relative = chain(terms.len()) * HALF_ULP + 16.0 * (rcp + HALF_ULP);
    let value = Value::between(nominal, nominal, nominal, nan).round_f32();
    let vanished = terms.len() as f64 * f64::from(f32::MIN_POSITIVE);
    let widened = value.widen(error + relative * nominal.abs() + vanished);
    if largest * largest * count > f64::from(f32::MAX) {
        return Value::anything(widened.nominal);
    }
    Value { low: widened.low.max(0.0), ..widened }
}
