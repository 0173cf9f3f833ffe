//! What a fold means, and what an implementation of it may be off by.

use crate::dtype::Elem;
use crate::functions::{self, Accuracy, Function};
use crate::graph::Value;
use crate::graph::ops::{Binary, Unary, binary};
use crate::graph::value::{larger, smaller};

use super::Fold;
use super::candidates::Candidates;
use super::numbers::F64;
use super::order::value_at;
use super::ranked::{Gives, Top};
use super::reduction::Arithmetic;

/// No implementation adds more than this many terms in one chain of roundings (docs/numerics.md, "Reductions").
const LONGEST_CHAIN: usize = 4096;
pub(super) const HALF_ULP: f64 = 1.0 / (1u32 << 24) as f64;

/// The longest chain of roundings in a sum of this many terms.
pub(super) fn chain(terms: usize) -> f64 {
    terms.min(LONGEST_CHAIN) as f64
}

/// Folds of enclosures, exact but for the rounding of f64.
struct Enclosures {
    elem: Elem,
    accuracy: Accuracy,
}

impl Arithmetic for Enclosures {
    type Word = Value;

    fn add(&self, a: Value, b: Value) -> Value {
        binary::add(a, b)
    }
    fn mul(&self, a: Value, b: Value) -> Value {
        binary::multiply(a, b)
    }
    fn max(&self, a: Value, b: Value) -> Value {
        extreme(a, b, larger)
    }
    fn min(&self, a: Value, b: Value) -> Value {
        extreme(a, b, smaller)
    }
    fn abs(&self, a: Value) -> Value {
        Unary::Abs.apply(self.elem, self.accuracy, a)
    }
}

fn extreme(a: Value, b: Value, pick: fn(f64, f64) -> f64) -> Value {
    if a.is_only_nan() || b.is_only_nan() {
        return Value::NAN;
    }
    // f64::max forgets nan, the fold does not.
    let nan = a.nominal.is_nan() || b.nominal.is_nan();
    Value {
        nominal: if nan { f64::NAN } else { pick(a.nominal, b.nominal) },
        low: pick(a.low, b.low),
        high: pick(a.high, b.high),
        nan: a.nan || b.nan,
    }
}

impl Fold {
    /// Reference meaning and error bound.
    pub fn apply(self, elem: Elem, accuracy: Accuracy, terms: &[Value]) -> Value {
        if !self.uses_index() && terms.iter().any(|x| x.is_only_nan()) {
            return Value::NAN;
        }
        let exact = || {
            let (on, nothing) = (Enclosures { elem, accuracy }, Value::exact(self.identity(elem)));
            let one = |total, term: &Value| self.combine_words(&on, total, self.lift(&on, *term));
            terms.iter().fold(nothing, one)
        };
        match (self, elem) {
            (Fold::Sum, Elem::I32) => sum_i32(terms),
            (Fold::Prod, Elem::I32) => terms
                .iter()
                .fold(Value::exact(1.0), |total, &x| Binary::Multiply.apply_i32(total, x)),
            (Fold::Sum, _) => rounded_sum(exact(), terms),
            (Fold::Prod, _) => rounded_product(exact(), terms),
            (Fold::Max | Fold::Min | Fold::AbsMax, _) => exact(),
            (Fold::LogSumExp, _) => log_sum_exp(terms, accuracy),
            (Fold::LogSumExpAboveMax, _) => log_sum_exp_above_max(terms, accuracy),
            (Fold::ArgMax | Fold::ArgMin | Fold::Top(Top { gives: Gives::Index, .. }), _) => {
                index(Candidates::of_fold(self, terms))
            }
            (Fold::Top(Top { place, .. }), _) if place as usize >= terms.len() => Value::NAN,
            (Fold::Top(Top { place, .. }), _) => value_at(terms, place as usize),
            (Fold::Weighted(_), _) => {
                panic!("compiler bug: terms of `{}` come with their weights", self.name())
            }
        }
    }

    /// In f64, with no bound.
    fn nominally(self, terms: impl Iterator<Item = f64>) -> f64 {
        let terms: Vec<f64> = terms.collect();
        self.finish(&F64, &self.extend(&F64, &self.identity_words(&F64), &terms))
    }
}

/// Between the lowest and the highest index that is allowed; 0 of nothing, which no call asks for.
fn index(candidates: Option<Candidates>) -> Value {
    let Some(Candidates { nominal, indices }) = candidates else { return Value::exact(0.0) };
    let [low, high] = [indices.first(), indices.last()];
    let end = |end: Option<&usize>| end.copied().unwrap_or(nominal) as f64;
    Value::between(nominal as f64, end(low), end(high), false)
}

/// Between the sum of what the terms are at least and of what they are at most; wrapping at the end is wrapping at each step.
fn sum_i32(terms: &[Value]) -> Value {
    let total = |of: fn(&Value) -> f64| terms.iter().map(|x| of(x) as i128).sum::<i128>();
    Value::wrapped(total(|x| x.nominal) as i32, total(|x| x.low), total(|x| x.high))
}

/// The exponent of the lowest bit set in any of the numbers: all are multiples of two to that.
pub(crate) fn lowest_bit(values: impl Iterator<Item = f64>) -> Option<i32> {
    let lowest = |x: f64| {
        let bits = x.to_bits();
        let fraction = bits & ((1 << 52) - 1);
        let exponent = ((bits >> 52) & 0x7ff) as i32;
        // f64 holds every f32 as a normal number, so the implicit bit is always there.
        exponent - 1075 + (fraction | (1 << 52)).trailing_zeros() as i32
    };
    values.filter(|x| *x != 0.0).map(lowest).min()
}

/// Whether f32 holds every partial sum exactly, whatever the order: all are multiples of a power of two that stays within 24 bits.
pub(crate) fn sums_exactly(lowest_bit: Option<i32>, total_magnitude: f64) -> bool {
    match lowest_bit {
        None => true,
        Some(bit) => {
            bit >= -149
                && total_magnitude <= 2f64.powi(bit + 24)
                && total_magnitude <= f32::MAX as f64
        }
    }
}

pub(super) fn rounded_sum(exact: Value, terms: &[Value]) -> Value {
    let finite: f64 = terms.iter().map(|x| x.magnitude()).filter(|x| x.is_finite()).sum();
    let all_exact = terms.iter().all(|x| x.is_exact());
    if all_exact
        && sums_exactly(
            lowest_bit(terms.iter().map(|x| x.nominal).filter(|x| x.is_finite())),
            finite,
        )
    {
        return exact.round_f32();
    }
    // Partial sums that overflow in one order need not in another.
    let overflow = finite > f32::MAX as f64;
    let chain = terms.len().min(LONGEST_CHAIN) as f64;
    let widened = exact.round_f32().widen(chain * HALF_ULP * finite);
    if overflow && !exact.is_only_nan() {
        return Value::anything(widened.nominal);
    }
    widened
}

fn rounded_product(exact: Value, terms: &[Value]) -> Value {
    let logs = || terms.iter().map(|x| x.magnitude().log2()).filter(|x| x.is_finite());
    let up: f64 = logs().filter(|x| *x > 0.0).sum();
    let down: f64 = logs().filter(|x| *x < 0.0).sum();
    let nominal = exact.nominal as f32 as f64;
    if up > 127.0 || down < -126.0 {
        // Partial products that overflow or vanish in one order need not in another.
        return Value::anything(nominal);
    }
    if terms.iter().all(|x| x.is_exact() && x.nominal.fract() == 0.0) && up <= 24.0 {
        return exact.round_f32();
    }
    exact.round_f32().widen(terms.len() as f64 * HALF_ULP * exact.magnitude())
}

fn log_sum_exp(terms: &[Value], accuracy: Accuracy) -> Value {
    let exactly = |of: fn(&Value) -> f64| Fold::LogSumExp.nominally(terms.iter().map(of));
    let nan = terms.iter().any(|x| x.nan);
    let nominal = exactly(|x| x.nominal);
    let image = Value::between(nominal, exactly(|x| x.low), exactly(|x| x.high), nan).round_f32();
    if image.low == image.high && image.low.is_infinite() {
        return image;
    }
    // Each term is an exponential of a rounded difference; those far below the peak err more and weigh less:
    // d * exp(-d) is at most 0.37. Rescaling a running sum is one more of the same at each step of the chain.
    let one = functions::bound(Function::Exp, accuracy, -1.0, 1.0) + HALF_ULP;
    let chain = terms.len().min(LONGEST_CHAIN) as f64;
    let relative = chain * HALF_ULP + 16.0 * one;
    let log = functions::bound(
        Function::Log,
        accuracy,
        1.0 + terms.len() as f64,
        (1.0 + terms.len() as f64).ln(),
    );
    image.widen(relative + log + functions::accuracy::ulp(image.magnitude()))
}

/// The image of intervals is enclosed from both sides: whichever term is the maximum, what is beside it is at least what the
/// lowest terms are below the highest maximum, and at most what the highest terms are below the lowest one.
fn log_sum_exp_above_max(terms: &[Value], accuracy: Accuracy) -> Value {
    let peak = |of: fn(&Value) -> f64| terms.iter().map(of).fold(f64::NEG_INFINITY, f64::max);
    let (lowest, highest) = (peak(|x| x.low), peak(|x| x.high));
    let nan = terms.iter().any(|x| x.nan);
    let nominal = Fold::LogSumExpAboveMax.nominally(terms.iter().map(|x| x.nominal));
    if lowest == highest && lowest.is_infinite() {
        return Value::NAN;
    }
    let nan = nan || lowest.is_infinite() || highest.is_infinite();
    let least = if highest.is_infinite() {
        0.0
    } else {
        all_but_largest(terms.iter().map(|x| (x.low - highest).exp()))
    };
    let below = |x: &Value| if lowest.is_infinite() { 0.0 } else { (x.high - lowest).min(0.0) };
    let most = all_but_largest(terms.iter().map(|x| below(x).exp()));
    // What every term may be off by, relative to itself; and those far below the maximum by the rounding of the distance.
    let exp_error = |distance: f64| functions::bound(Function::Exp, accuracy, distance, 1.0);
    let chain = terms.len().min(LONGEST_CHAIN) as f64;
    let common = chain * HALF_ULP + 16.0 * (exp_error(-1.0) + HALF_ULP);
    let far = |x: &Value| {
        let distance = below(x).max(-128.0);
        below(x).exp() * 2.0 * (exp_error(distance) - exp_error(0.0) - distance * HALF_ULP)
    };
    let vanished = terms.len() as f64 * f64::from(f32::MIN_POSITIVE);
    let error = common * most + terms.iter().map(far).sum::<f64>() + vanished;
    let (low, high) = ((least - error).max(0.0).ln_1p(), (most + error).ln_1p());
    let rounded = Value::between(nominal, low, high, nan).round_f32();
    rounded.widen(functions::bound(Function::Log1p, accuracy, most, high))
}

/// The sum of all terms, none of which is negative, but one that is the largest.
fn all_but_largest(terms: impl Iterator<Item = f64>) -> f64 {
    let add =
        |(total, largest): (f64, f64), term: f64| (total + term.min(largest), largest.max(term));
    terms.fold((0.0, 0.0), add).0
}
