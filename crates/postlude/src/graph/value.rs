//! A value with everything that a conforming implementation may make of it.
//!
//! The reference computes `nominal`, rounded where the contract rounds; `low..=high` encloses every result that the
//! contract allows. Rounding is monotone, so operations that round correctly keep an exact value exact, and data on
//! which every operation is exact has to come out bit for bit.

/// A number and its enclosure. Truth values are 0 and 1, integers are whole.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Value {
    /// What the reference says.
    pub nominal: f64,
    /// The smallest allowed result; above `high` when only nan is allowed.
    pub low: f64,
    /// The largest allowed result.
    pub high: f64,
    /// Whether nan is allowed.
    pub nan: bool,
}

impl Value {
    /// Only nan.
    pub const NAN: Value =
        Value { nominal: f64::NAN, low: f64::INFINITY, high: f64::NEG_INFINITY, nan: true };

    /// A value known to the bit.
    pub fn exact(value: f64) -> Value {
        if value.is_nan() {
            Value::NAN
        } else {
            Value { nominal: value, low: value, high: value, nan: false }
        }
    }

    /// A truth value.
    pub fn truth(nominal: bool, may_be_false: bool, may_be_true: bool) -> Value {
        let nominal = f64::from(u8::from(nominal));
        Value {
            nominal,
            low: if may_be_false { 0.0 } else { 1.0 },
            high: if may_be_true { 1.0 } else { 0.0 },
            nan: false,
        }
    }

    /// A nominal value and the ends of its enclosure, in any order; an end that is nan opens that side.
    pub fn between(nominal: f64, a: f64, b: f64, nan: bool) -> Value {
        let low = if a.is_nan() || b.is_nan() { f64::NEG_INFINITY } else { smaller(a, b) };
        let high = if a.is_nan() || b.is_nan() { f64::INFINITY } else { larger(a, b) };
        if nominal.is_nan() {
            Value { nominal, low, high, nan: true }
        } else {
            Value { nominal, low: smaller(low, nominal), high: larger(high, nominal), nan }
        }
    }

    /// An integer as i32 arithmetic leaves it, from the ends of what it may be before it wraps. A range that wraps as a
    /// whole is moved; one that only a part of wraps allows every integer.
    pub fn wrapped(nominal: i32, low: i128, high: i128) -> Value {
        const HALF: i128 = 1 << 31;
        let turns = |end: i128| (end + HALF) >> 32;
        let nominal = f64::from(nominal);
        if turns(low) != turns(high) {
            let (low, high) = (f64::from(i32::MIN), f64::from(i32::MAX));
            return Value { nominal, low, high, nan: false };
        }
        let back = turns(low) << 32;
        Value { nominal, low: (low - back) as f64, high: (high - back) as f64, nan: false }
    }

    /// The same without what lies above.
    pub fn at_most(self, most: f64) -> Value {
        if self.is_only_nan() || self.high <= most {
            return self;
        }
        // Nan is kept as it is: `f64::min` would forget it.
        let nominal = if self.nominal > most { most } else { self.nominal };
        Value { nominal, low: self.low.min(most), high: most, nan: self.nan }
    }

    /// Any number at all, nan too.
    pub fn anything(nominal: f64) -> Value {
        Value { nominal, low: f64::NEG_INFINITY, high: f64::INFINITY, nan: true }
    }

    /// Whether one result alone is allowed.
    pub fn is_exact(self) -> bool {
        (self.low == self.high && !self.nan) || self.is_only_nan()
    }

    /// Whether nan alone is allowed.
    pub fn is_only_nan(self) -> bool {
        self.low > self.high
    }

    /// Whether a number `x` (not nan) is allowed.
    pub fn contains(self, x: f64) -> bool {
        self.low <= x && x <= self.high
    }

    /// The largest magnitude that is allowed.
    pub fn magnitude(self) -> f64 {
        if self.is_only_nan() { 0.0 } else { self.low.abs().max(self.high.abs()) }
    }

    /// Whatever either allows; nominal from `self`.
    pub fn or(self, other: Value) -> Value {
        Value {
            nominal: self.nominal,
            low: smaller(self.low, other.low),
            high: larger(self.high, other.high),
            nan: self.nan || other.nan,
        }
    }

    /// The enclosure widened on both sides.
    pub fn widen(self, by: f64) -> Value {
        if self.is_only_nan() || by == 0.0 {
            return self;
        }
        // A little more, for what f64 itself rounds away.
        let by = beyond(by);
        // An infinite end stays: widening it by an infinite amount must not make nan.
        let low = if self.low.is_infinite() { self.low } else { self.low - by };
        let high = if self.high.is_infinite() { self.high } else { self.high + by };
        // What lies beyond the largest f32 may come out infinite, and must where it rounds to that.
        let largest = f32::MAX as f64;
        let may = |end: f64| if end > largest { f64::INFINITY } else { end };
        let must = |end: f64| if end >= OVERFLOW { f64::INFINITY } else { end.min(largest) };
        Value { low: must(-may(-low)), high: -must(-may(high)), ..self }
    }

    /// Whether a zero in the enclosure, if it is all there is, has one sign.
    pub fn knows_its_sign(self) -> bool {
        let negative = self.nominal.is_sign_negative();
        self.low.is_sign_negative() == negative && self.high.is_sign_negative() == negative
    }

    /// Every part mapped by a monotone function that keeps nan.
    pub fn map_monotone(self, f: impl Fn(f64) -> f64) -> Value {
        if self.is_only_nan() {
            return Value::NAN;
        }
        let nominal = if self.nominal.is_nan() { f64::NAN } else { f(self.nominal) };
        Value { nominal, low: f(self.low), high: f(self.high), nan: self.nan }
    }

    /// Rounded to f32 as arithmetic rounds.
    pub fn round_f32(self) -> Value {
        self.map_monotone(|x| x as f32 as f64)
    }

    /// How far `got` lies from the nominal value, in units of what is allowed on that side: at most 1 when it is allowed.
    pub fn distance(self, got: f64) -> f64 {
        if got.is_nan() {
            return if self.nan { 0.0 } else { f64::INFINITY };
        }
        if self.is_only_nan() {
            return f64::INFINITY;
        }
        if got == self.nominal {
            return 0.0;
        }
        if self.nominal.is_nan() || self.nominal.is_infinite() || got.is_infinite() {
            return if self.contains(got) { 1.0 } else { f64::INFINITY };
        }
        let room =
            if got > self.nominal { self.high - self.nominal } else { self.nominal - self.low };
        let off = (got - self.nominal).abs();
        if room.is_infinite() { 0.0 } else { off / room }
    }

    /// Whether it allows numbers without limit, or both nan and numbers: a result then proves little.
    pub fn is_open(self) -> bool {
        let is_mixed = self.nan && !self.is_only_nan();
        let is_unbounded = self.low.is_infinite() || self.high.is_infinite();
        !self.is_exact() && !self.is_only_nan() && (is_mixed || is_unbounded)
    }

    /// The largest error that is allowed.
    pub fn bound(self) -> f64 {
        if self.nominal.is_nan() || self.is_exact() {
            0.0
        } else {
            (self.high - self.nominal).max(self.nominal - self.low)
        }
    }
}

/// Half a step above the largest f32: rounds to infinity.
const OVERFLOW: f64 = 3.4028235677973366e38;

/// The value as large as it may be, given that f64 rounded it: errors in units of the last place double at powers of 2.
pub(crate) fn beyond(value: f64) -> f64 {
    value * (1.0 + 1e-12)
}

/// The larger of two numbers; 0 is above -0, whichever comes first.
pub(crate) fn larger(x: f64, y: f64) -> f64 {
    if x == y && x.is_sign_negative() {
        y
    } else if x == y {
        x
    } else {
        x.max(y)
    }
}

/// The smaller of two numbers; -0 is below 0, whichever comes first.
pub(crate) fn smaller(x: f64, y: f64) -> f64 {
    -larger(-x, -y)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_exact_value_allows_itself_alone() {
        let one = Value::exact(1.0);
        assert_eq!(one.distance(1.0), 0.0);
        assert!(one.distance(1.0 + f64::EPSILON) > 1.0);
        assert!(one.distance(f64::NAN) > 1.0);
    }

    #[test]
    fn nan_allows_nan_alone() {
        assert_eq!(Value::NAN.distance(f64::NAN), 0.0);
        assert!(Value::NAN.distance(0.0) > 1.0);
        assert!(Value::exact(f64::INFINITY).distance(f64::NEG_INFINITY) > 1.0);
    }

    #[test]
    fn integers_that_all_wrap_stay_a_range() {
        let most = i128::from(i32::MAX);
        let moved = Value::wrapped(i32::MIN, most + 1, most + 3);
        assert_eq!((moved.low, moved.high), (f64::from(i32::MIN), f64::from(i32::MIN + 2)));
        let torn = Value::wrapped(0, most, most + 1);
        assert_eq!((torn.low, torn.high), (f64::from(i32::MIN), f64::from(i32::MAX)));
    }

    #[test]
    fn rounding_keeps_the_order_of_the_ends() {
        let value = Value::between(0.1, 0.0999, 0.1001, false).round_f32();
        assert!(value.low <= value.nominal && value.nominal <= value.high);
    }
}
