//! Functions of one value.

use crate::dtype::Elem;
use crate::functions::{self, Accuracy, Function};
use crate::graph::Value;
use crate::graph::value::beyond;

use super::bits;

/// A function of one value.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[allow(missing_docs)] // Each is named as in the language.
pub enum Unary {
    Negate,
    Not,
    Invert,
    Abs,
    Sign,
    Floor,
    Ceil,
    Round,
    Sqrt,
    Rsqrt,
    Rcp,
    Exp,
    Exp2,
    Log,
    Log2,
    Log1p,
    Expm1,
    Sin,
    Cos,
    Tanh,
    Erf,
    IsNan,
    IsInf,
    Bits,
    Float,
}

/// How the function runs between two points of its domain, for enclosures.
#[derive(Clone, Copy)]
enum Curve {
    /// Monotone, up or down.
    Monotone,
    /// Falls to 0 at 0, then rises.
    Valley,
    /// Monotone on each side of a pole at 0.
    Pole,
    /// Slope at most 1, between -1 and 1.
    Wave,
}

/// Everything there is to say about a function.
struct Facts {
    name: &'static str,
    meaning: fn(f64) -> f64,
    curve: Curve,
    /// Nothing below this has a result.
    domain: f64,
    function: Option<Function>,
    /// In the language, of `x`.
    derivative: Option<&'static str>,
}

const EVERYWHERE: f64 = f64::NEG_INFINITY;

impl Unary {
    /// All of them.
    pub const ALL: [Unary; 25] = [
        Unary::Negate,
        Unary::Not,
        Unary::Invert,
        Unary::Abs,
        Unary::Sign,
        Unary::Floor,
        Unary::Ceil,
        Unary::Round,
        Unary::Sqrt,
        Unary::Rsqrt,
        Unary::Rcp,
        Unary::Exp,
        Unary::Exp2,
        Unary::Log,
        Unary::Log2,
        Unary::Log1p,
        Unary::Expm1,
        Unary::Sin,
        Unary::Cos,
        Unary::Tanh,
        Unary::Erf,
        Unary::IsNan,
        Unary::IsInf,
        Unary::Bits,
        Unary::Float,
    ];

    #[rustfmt::skip] // A table: one line an operation.
    const fn facts(self) -> Facts {
        use Curve::{Monotone, Pole, Valley, Wave};
        const fn row(name: &'static str, meaning: fn(f64) -> f64, curve: Curve, domain: f64, function: Option<Function>, derivative: Option<&'static str>) -> Facts {
            Facts { name, meaning, curve, domain, function, derivative }
        }
        match self {
            Unary::Negate => row("negate", |x| -x, Monotone, EVERYWHERE, None, Some("-1.0")),
            Unary::Not => row("not", |x| 1.0 - x, Monotone, EVERYWHERE, None, None),
            Unary::Invert => row("invert", |x| -1.0 - x, Monotone, EVERYWHERE, None, None),
            Unary::Abs => row("abs", f64::abs, Valley, EVERYWHERE, None, Some("sign(x)")),
            Unary::Sign => row("sign", |x| if x == 0.0 { 0.0 } else { x.signum() }, Monotone, EVERYWHERE, None, Some("0.0")),
            Unary::Floor => row("floor", f64::floor, Monotone, EVERYWHERE, None, Some("0.0")),
            Unary::Ceil => row("ceil", f64::ceil, Monotone, EVERYWHERE, None, Some("0.0")),
            Unary::Round => row("round", f64::round_ties_even, Monotone, EVERYWHERE, None, Some("0.0")),
            Unary::Sqrt => row("sqrt", f64::sqrt, Monotone, 0.0, Some(Function::Sqrt), Some("0.5 * rsqrt(x)")),
            Unary::Rsqrt => row("rsqrt", |x| 1.0 / x.sqrt(), Monotone, 0.0, Some(Function::Rsqrt), Some("-0.5 * rsqrt(x) / x")),
            Unary::Rcp => row("rcp", |x| 1.0 / x, Pole, EVERYWHERE, Some(Function::Rcp), Some("-square(rcp(x))")),
            Unary::Exp => row("exp", f64::exp, Monotone, EVERYWHERE, Some(Function::Exp), Some("exp(x)")),
            Unary::Exp2 => row("exp2", f64::exp2, Monotone, EVERYWHERE, Some(Function::Exp2), Some("0.6931471805599453 * exp2(x)")),
            Unary::Log => row("log", f64::ln, Monotone, 0.0, Some(Function::Log), Some("rcp(x)")),
            Unary::Log2 => row("log2", f64::log2, Monotone, 0.0, Some(Function::Log2), Some("1.4426950408889634 / x")),
            Unary::Log1p => row("log1p", f64::ln_1p, Monotone, -1.0, Some(Function::Log1p), Some("rcp(1.0 + x)")),
            Unary::Expm1 => row("expm1", f64::exp_m1, Monotone, EVERYWHERE, Some(Function::Expm1), Some("exp(x)")),
            Unary::Sin => row("sin", f64::sin, Wave, EVERYWHERE, Some(Function::Sin), Some("cos(x)")),
            Unary::Cos => row("cos", f64::cos, Wave, EVERYWHERE, Some(Function::Cos), Some("-sin(x)")),
            Unary::Tanh => row("tanh", f64::tanh, Monotone, EVERYWHERE, Some(Function::Tanh), Some("1.0 - square(tanh(x))")),
            Unary::Erf => row("erf", libm::erf, Monotone, EVERYWHERE, Some(Function::Erf), Some("1.1283791670955126 * exp(-square(x))")),
            Unary::Bits => row("bits", |x| f64::from(bits::bits_of(x as f32)), Monotone, EVERYWHERE, None, None),
            Unary::Float => row("float", |x| f64::from(f32::from_bits(x as i32 as u32)), Monotone, EVERYWHERE, None, None),
            Unary::IsNan => row("isnan", |x| f64::from(u8::from(x.is_nan())), Monotone, EVERYWHERE, None, None),
            Unary::IsInf => row("isinf", |x| f64::from(u8::from(x.is_infinite())), Monotone, EVERYWHERE, None, None),
        }
    }

    /// The name in printed graphs, and in the language where it is a function there.
    pub const fn name(self) -> &'static str {
        self.facts().name
    }

    /// The operation of that name.
    pub fn from_name(name: &str) -> Option<Unary> {
        Unary::ALL.into_iter().find(|op| op.name() == name)
    }

    /// The implementation it calls, when it is more than an instruction.
    pub const fn function(self) -> Option<Function> {
        self.facts().function
    }

    /// The derivative, as an expression in `x`; `None` where a function of truth values has none.
    pub const fn derivative(self) -> Option<&'static str> {
        self.facts().derivative
    }

    /// Type rule: what it gives for an operand of this element type; `None` when it does not take one.
    pub const fn gives(self, operand: Elem) -> Option<Elem> {
        match (self, operand) {
            (Unary::Not, Elem::Bool) => Some(Elem::Bool),
            (Unary::Invert, Elem::I32) => Some(Elem::I32),
            (Unary::Float, Elem::I32) => Some(Elem::F32),
            (Unary::Bits, Elem::F32) => Some(Elem::I32),
            (Unary::Float | Unary::Bits, _) => None,
            (Unary::Not | Unary::Invert, _) | (_, Elem::Bool) => None,
            (Unary::Negate | Unary::Abs | Unary::Sign, elem) => Some(elem),
            (Unary::IsNan | Unary::IsInf, Elem::F32) => Some(Elem::Bool),
            (_, Elem::F32) => Some(Elem::F32),
            (_, Elem::I32) => None,
        }
    }

    /// Reference meaning and error bound.
    pub fn apply(self, elem: Elem, accuracy: Accuracy, x: Value) -> Value {
        match (self, elem) {
            (Unary::IsNan, _) => Value::truth(x.nominal.is_nan(), !x.is_only_nan(), x.nan),
            (Unary::IsInf, _) => {
                let may = x.low == f64::NEG_INFINITY || x.high == f64::INFINITY;
                let must = !x.nan && x.low == x.high && x.low.is_infinite();
                Value::truth(x.nominal.is_infinite(), !must, may && !x.is_only_nan())
            }
            (Unary::Bits, _) => bits::bits(x),
            (Unary::Float, _) => bits::float(x),
            (Unary::Negate | Unary::Abs, Elem::I32) => self.apply_i32(x),
            // No integer is beyond the range of its complement.
            (Unary::Invert, _) => Value {
                nominal: -1.0 - x.nominal,
                low: -1.0 - x.high,
                high: -1.0 - x.low,
                nan: false,
            },
            (_, Elem::F32 | Elem::I32 | Elem::Bool) => self.apply_f32(accuracy, x),
        }
    }

    /// Signs of integers, which f32 does not hold; the one without an opposite wraps.
    fn apply_i32(self, x: Value) -> Value {
        const LEAST: f64 = i32::MIN as f64;
        let at = |value: f64| match self {
            _ if value == LEAST => LEAST,
            Unary::Abs => value.abs(),
            // Not `-value`: integers have one zero.
            _ => 0.0 - value,
        };
        let nominal = at(x.nominal);
        if x.is_exact() {
            return Value::exact(nominal);
        }
        if x.low == LEAST {
            return Value { nominal, low: LEAST, high: i32::MAX as f64, nan: false };
        }
        let zero = if self == Unary::Abs && x.contains(0.0) { 0.0 } else { nominal };
        Value::between(nominal, at(x.low), at(x.high), false).or(Value::exact(zero))
    }

    fn apply_f32(self, accuracy: Accuracy, x: Value) -> Value {
        let facts = self.facts();
        if x.is_only_nan() || x.high < facts.domain {
            return Value::NAN;
        }
        let nan = x.nan || x.low < facts.domain;
        let low = x.low.max(facts.domain);
        let rounded = |point: f64| ((facts.meaning)(point) as f32) as f64;
        // Where the result is correctly rounded, and at infinity itself, there is nothing to allow for.
        let function = facts.function.filter(|_| !self.rounds_correctly(accuracy));
        let error = |point: f64| match function {
            Some(function) if point.is_finite() || low != x.high => {
                let finite = point.clamp(-(f32::MAX as f64), f32::MAX as f64);
                functions::bound(function, accuracy, finite, beyond((facts.meaning)(point)))
            }
            Some(_) | None => 0.0,
        };
        // Stated errors count from the exact result, not from the rounded one.
        let at =
            |point: f64| if function.is_some() { (facts.meaning)(point) } else { rounded(point) };
        let nominal = rounded(x.nominal);
        let image = match facts.curve {
            Curve::Monotone => Value::between(nominal, at(low), at(x.high), nan)
                .widen(error(low).max(error(x.high))),
            Curve::Valley if low <= 0.0 && x.high >= 0.0 => {
                Value::between(nominal, 0.0, at(low).max(at(x.high)), nan)
            }
            Curve::Valley => Value::between(nominal, at(low), at(x.high), nan),
            Curve::Pole if low == x.high && x.knows_its_sign() => {
                Value::between(nominal, at(low), at(low), nan).widen(error(low))
            }
            Curve::Pole if low <= 0.0 && x.high >= 0.0 => Value { nan, ..Value::anything(nominal) },
            Curve::Pole => Value::between(nominal, at(low), at(x.high), nan)
                .widen(error(low).max(error(x.high))),
            Curve::Wave => wave(nominal, at(x.nominal), x, nan, |point, result| {
                function.map_or(0.0, |function| {
                    functions::bound(function, accuracy, point, beyond(result))
                })
            }),
        };
        if matches!(self, Unary::Rsqrt) && x.low.is_sign_negative() && x.high >= 0.0 {
            return root_of_zero(image, x);
        }
        if self.never_negative() && image.low < 0.0 { Value { low: 0.0, ..image } } else { image }
    }

    /// Whether every implementation gives the nearest f32.
    const fn rounds_correctly(self, accuracy: Accuracy) -> bool {
        matches!(self, Unary::Sqrt | Unary::Rcp) && matches!(accuracy, Accuracy::Accurate)
    }

    /// Functions that no implementation makes negative, however wide their error.
    const fn never_negative(self) -> bool {
        matches!(self, Unary::Exp | Unary::Exp2 | Unary::Sqrt | Unary::Rsqrt | Unary::Abs)
    }
}

/// Beyond this many radians sines are not specified.
const SPECIFIED_TURNS: f64 = 65536.0;

/// `1 / sqrt(-0)` is minus infinity.
fn root_of_zero(image: Value, x: Value) -> Value {
    let only = x.knows_its_sign() && x.high == 0.0;
    let high = if only { f64::NEG_INFINITY } else { f64::INFINITY };
    Value { low: f64::NEG_INFINITY, high, ..image }
}

/// A sine or cosine: `centre` exactly, `nominal` rounded.
fn wave(nominal: f64, centre: f64, x: Value, nan: bool, error: impl Fn(f64, f64) -> f64) -> Value {
    let nan = nan || x.magnitude().is_infinite();
    if nominal.is_nan() || x.magnitude() > SPECIFIED_TURNS {
        return Value { nominal, low: -1.0, high: 1.0, nan };
    }
    let reach = (x.high - x.nominal).max(x.nominal - x.low);
    // The error where it is largest: at the largest argument and the largest result.
    let error = beyond(error(x.magnitude(), (centre.abs() + reach).min(1.0)));
    let low = (centre - reach - error).max(-1.0 - error);
    let high = (centre + reach + error).min(1.0 + error);
    Value::between(nominal, low, high, nan)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_beyond_two_to_24_stay_whole() {
        let x = Value::exact(-16777217.0);
        for op in [Unary::Negate, Unary::Abs] {
            let got = op.apply(Elem::I32, Accuracy::Accurate, x);
            assert_eq!(got, Value::exact(16777217.0));
        }
        let around = Value::between(0.0, -3.0, 2.0, false);
        let got = Unary::Abs.apply(Elem::I32, Accuracy::Accurate, around);
        assert_eq!((got.low, got.high), (0.0, 3.0));
    }

    #[test]
    fn exact_functions_keep_exact_values_exact() {
        for op in [Unary::Negate, Unary::Abs, Unary::Sign, Unary::Floor, Unary::Ceil, Unary::Round]
        {
            assert!(
                op.apply(Elem::F32, Accuracy::Accurate, Value::exact(-2.5)).is_exact(),
                "{}",
                op.name()
            );
        }
    }

    #[test]
    fn enclosures_contain_the_image_of_the_enclosed() {
        let x = Value::between(0.5, 0.25, 0.75, false);
        for op in Unary::ALL.into_iter().filter(|op| op.gives(Elem::F32) == Some(Elem::F32)) {
            let image = op.apply(Elem::F32, Accuracy::Accurate, x);
            for step in 0..=10 {
                let point = 0.25 + 0.05 * f64::from(step);
                let y = (op.facts().meaning)(point) as f32 as f64;
                assert!(image.contains(y), "{} at {point}: {y} not in {image:?}", op.name());
            }
        }
    }

    #[test]
    fn below_the_domain_is_nan() {
        assert!(Unary::Log.apply(Elem::F32, Accuracy::Accurate, Value::exact(-1.0)).is_only_nan());
        let around = Value::between(0.0, -0.1, 0.1, false);
        assert!(Unary::Sqrt.apply(Elem::F32, Accuracy::Accurate, around).nan);
    }

    #[test]
    fn the_least_integer_negates_to_itself() {
        let least = Value::exact(i32::MIN as f64);
        assert_eq!(Unary::Negate.apply(Elem::I32, Accuracy::Accurate, least), least);
    }

    #[test]
    fn signs_of_integers_are_exact() {
        for op in [Unary::Negate, Unary::Abs] {
            let largest = Value::exact(i32::MAX as f64);
            assert_eq!(
                op.apply(Elem::I32, Accuracy::Accurate, largest).nominal.abs(),
                largest.nominal
            );
        }
        let zero = Unary::Negate.apply(Elem::I32, Accuracy::Accurate, Value::exact(0.0));
        assert!(zero.nominal.is_sign_positive());
    }

    #[test]
    fn names_are_read_back() {
        for op in Unary::ALL {
            assert_eq!(Unary::from_name(op.name()), Some(op));
        }
    }
}
