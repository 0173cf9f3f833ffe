//! Reductions.

use crate::dtype::Elem;
use crate::functions::{self, Accuracy, Function};
use crate::graph::Value;
use crate::graph::value::{larger, smaller};

use super::binary;

/// How a reduction folds its elements.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Fold {
    /// The sum.
    Sum,
    /// The product.
    Prod,
    /// The largest; nan if any is.
    Max,
    /// The smallest; nan if any is.
    Min,
    /// The largest magnitude; nan if any is.
    AbsMax,
    /// `log(sum(exp(x)))`, without overflow.
    LogSumExp,
    /// `logsumexp(x) - max(x)`: `log1p` of the sum of `exp(x - max(x))` without one maximum, accurate where that is small; nan
    /// where the maximum is infinite. It has no name in the language.
    LogSumExpAboveMax,
    /// The largest but this many, counted from 1.
    Largest(u32),
}

/// No implementation adds more than this many terms in one chain of roundings (docs/numerics.md, "Reductions").
const LONGEST_CHAIN: usize = 4096;
const HALF_ULP: f64 = 1.0 / (1u32 << 24) as f64;

impl Fold {
    /// The name in the language, or in printed graphs.
    pub const fn name(self) -> &'static str {
        match self {
            Fold::Sum => "sum",
            Fold::Prod => "prod",
            Fold::Max => "max",
            Fold::Min => "min",
            Fold::AbsMax => "absmax",
            Fold::LogSumExp => "logsumexp",
            Fold::LogSumExpAboveMax => "logsumexp_above_max",
            Fold::Largest(_) => "largest",
        }
    }

    /// The fold of that name; `largest` counts from 1.
    pub fn from_name(name: &str) -> Option<Fold> {
        let all = [
            Fold::Sum,
            Fold::Prod,
            Fold::Max,
            Fold::Min,
            Fold::AbsMax,
            Fold::LogSumExp,
            Fold::LogSumExpAboveMax,
            Fold::Largest(1),
        ];
        all.into_iter().find(|fold| fold.name() == name)
    }

    /// Type rule: what it gives for elements of this type; `None` when it does not take them.
    pub const fn gives(self, elem: Elem) -> Option<Elem> {
        match (self, elem) {
            (_, Elem::Bool)
            | (Fold::LogSumExp | Fold::LogSumExpAboveMax | Fold::Largest(_), Elem::I32) => None,
            (_, Elem::F32) => Some(Elem::F32),
            (_, Elem::I32) => Some(Elem::I32),
        }
    }

    /// What an empty reduction gives, and what a lane out of range contributes. (Nothing at all is nan above its maximum.)
    pub const fn identity(self, elem: Elem) -> f64 {
        match (self, elem) {
            (Fold::Sum | Fold::AbsMax, _) => 0.0,
            (Fold::Prod, _) => 1.0,
            (Fold::Max, Elem::I32) => i32::MIN as f64,
            (Fold::Min, Elem::I32) => i32::MAX as f64,
            (Fold::Max | Fold::LogSumExp | Fold::LogSumExpAboveMax | Fold::Largest(_), _) => {
                f64::NEG_INFINITY
            }
            (Fold::Min, _) => f64::INFINITY,
        }
    }

    /// Reference meaning and error bound.
    pub fn apply(self, elem: Elem, accuracy: Accuracy, terms: &[Value]) -> Value {
        match (self, elem) {
            (Fold::Sum, Elem::I32) => sum_i32(terms),
            (Fold::Prod, Elem::I32) => terms
                .iter()
                .fold(Value::exact(1.0), |total, &x| super::Binary::Multiply.apply_i32(total, x)),
            (Fold::Sum, _) => sum(terms),
            (Fold::Prod, _) => product(terms),
            (Fold::Max, _) => extreme(terms, self.identity(elem), larger),
            (Fold::Min, _) => extreme(terms, self.identity(elem), smaller),
            (Fold::AbsMax, _) => {
                let magnitudes: Vec<Value> =
                    terms.iter().map(|&x| super::Unary::Abs.apply(elem, accuracy, x)).collect();
                extreme(&magnitudes, 0.0, larger)
            }
            (Fold::LogSumExp, _) => log_sum_exp(terms, accuracy),
            (Fold::LogSumExpAboveMax, _) => log_sum_exp_above_max(terms, accuracy),
            (Fold::Largest(count), _) => largest(terms, count),
        }
    }
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

fn sum(terms: &[Value]) -> Value {
    if terms.iter().any(|x| x.is_only_nan()) {
        return Value::NAN;
    }
    let exact = terms.iter().fold(Value::exact(0.0), |total, &x| binary::add(total, x));
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

fn product(terms: &[Value]) -> Value {
    if terms.iter().any(|x| x.is_only_nan()) {
        return Value::NAN;
    }
    let exact = terms.iter().fold(Value::exact(1.0), |total, &x| binary::multiply(total, x));
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

fn extreme(terms: &[Value], identity: f64, pick: fn(f64, f64) -> f64) -> Value {
    if terms.iter().any(|x| x.is_only_nan()) {
        return Value::NAN;
    }
    let mut result = Value::exact(identity);
    for x in terms {
        result.low = pick(result.low, x.low);
        result.high = pick(result.high, x.high);
        result.nan |= x.nan;
        // f64::max forgets nan, the fold does not.
        result.nominal = if x.nominal.is_nan() || result.nominal.is_nan() {
            f64::NAN
        } else {
            pick(result.nominal, x.nominal)
        };
    }
    result
}

fn log_sum_exp(terms: &[Value], accuracy: Accuracy) -> Value {
    if terms.iter().any(|x| x.is_only_nan()) {
        return Value::NAN;
    }
    let exactly = |of: fn(&Value) -> f64| {
        let peak = terms.iter().map(of).fold(f64::NEG_INFINITY, f64::max);
        if peak.is_infinite() {
            peak
        } else {
            peak + terms.iter().map(|x| (of(x) - peak).exp()).sum::<f64>().ln()
        }
    };
    let nan = terms.iter().any(|x| x.nan);
    let nominal =
        if terms.iter().any(|x| x.nominal.is_nan()) { f64::NAN } else { exactly(|x| x.nominal) };
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
    if terms.iter().any(|x| x.is_only_nan()) {
        return Value::NAN;
    }
    let peak = |of: fn(&Value) -> f64| terms.iter().map(of).fold(f64::NEG_INFINITY, f64::max);
    let (lowest, highest) = (peak(|x| x.low), peak(|x| x.high));
    let nan = terms.iter().any(|x| x.nan);
    let nominal = match peak(|x| x.nominal) {
        _ if terms.iter().any(|x| x.nominal.is_nan()) => f64::NAN,
        peak if peak.is_infinite() => f64::NAN,
        peak => all_but_largest(terms.iter().map(|x| (x.nominal - peak).exp())).ln_1p(),
    };
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

fn largest(terms: &[Value], count: u32) -> Value {
    if terms.iter().any(|x| x.is_only_nan()) {
        return Value::NAN;
    }
    let place = count.max(1) as usize - 1;
    let nth = |of: fn(&Value) -> f64| {
        let mut all: Vec<f64> = terms.iter().map(of).collect();
        all.sort_by(|a, b| b.total_cmp(a));
        all.get(place).copied().unwrap_or(f64::NEG_INFINITY)
    };
    let nan = terms.iter().any(|x| x.nan);
    let nominal =
        if terms.iter().any(|x| x.nominal.is_nan()) { f64::NAN } else { nth(|x| x.nominal) };
    Value::between(nominal, nth(|x| x.low), nth(|x| x.high), nan)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn exact(values: &[f64]) -> Vec<Value> {
        values.iter().copied().map(Value::exact).collect()
    }

    #[test]
    fn empty_reductions_give_the_identity() {
        for fold in [
            Fold::Sum,
            Fold::Prod,
            Fold::Max,
            Fold::Min,
            Fold::AbsMax,
            Fold::LogSumExp,
            Fold::Largest(2),
        ] {
            assert_eq!(
                fold.apply(Elem::F32, Accuracy::Accurate, &[]),
                Value::exact(fold.identity(Elem::F32)),
                "{}",
                fold.name()
            );
        }
    }

    #[test]
    fn whole_numbers_sum_exactly() {
        assert!(
            Fold::Sum
                .apply(Elem::F32, Accuracy::Accurate, &exact(&[1.0, 2.0, -3.0, 0.5]))
                .is_exact()
        );
        assert!(
            !Fold::Sum
                .apply(Elem::F32, Accuracy::Accurate, &exact(&[0.1f32 as f64, 1e10]))
                .is_exact()
        );
    }

    #[test]
    fn nan_and_infinity_reach_the_result() {
        assert!(
            Fold::Max.apply(Elem::F32, Accuracy::Accurate, &exact(&[1.0, f64::NAN])).is_only_nan()
        );
        let infinite =
            Fold::Sum.apply(Elem::F32, Accuracy::Accurate, &exact(&[0.1, f64::INFINITY, 7.3]));
        assert_eq!((infinite.low, infinite.high), (f64::INFINITY, f64::INFINITY));
        assert!(
            Fold::Sum
                .apply(Elem::F32, Accuracy::Accurate, &exact(&[f64::NEG_INFINITY, f64::INFINITY]))
                .is_only_nan()
        );
    }

    #[test]
    fn a_sum_of_uncertain_counts_lies_between_the_sums_of_their_ends() {
        let uncertain = Value::truth(true, true, true);
        let terms = [exact(&[1.0; 5]), vec![uncertain; 3]].concat();
        let count = Fold::Sum.apply(Elem::I32, Accuracy::Accurate, &terms);
        assert_eq!((count.nominal, count.low, count.high), (8.0, 5.0, 8.0));
        let product = Fold::Prod.apply(Elem::I32, Accuracy::Accurate, &terms);
        assert_eq!((product.low, product.high), (0.0, 1.0));
    }

    #[test]
    fn integer_sums_wrap() {
        let terms = exact(&[2147483647.0, 2147483647.0, 3.0]);
        let total = Fold::Sum.apply(Elem::I32, Accuracy::Accurate, &terms);
        assert_eq!(total, Value::exact(1.0));
    }

    #[test]
    fn log_sum_exp_does_not_overflow() {
        let value = Fold::LogSumExp.apply(Elem::F32, Accuracy::Accurate, &exact(&[1e4, 1e4]));
        assert!((value.nominal - (1e4 + 2f64.ln())).abs() < 1e-2 && value.bound() < 1e-2);
    }

    #[test]
    fn the_second_largest_counts_equals() {
        assert_eq!(
            Fold::Largest(2).apply(Elem::F32, Accuracy::Accurate, &exact(&[1.0, 5.0, 5.0])).nominal,
            5.0
        );
    }
}
