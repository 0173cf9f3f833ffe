//! Functions of two values.

use crate::dtype::Elem;
use crate::functions::{self, Accuracy, Function, FunctionOfTwo};
use crate::graph::Value;
use crate::graph::value::{beyond, larger, smaller};

use super::bits;

/// A function of two values.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[allow(missing_docs)] // Each is named as in the language.
pub enum Binary {
    Add,
    Subtract,
    Multiply,
    Divide,
    Maximum,
    Minimum,
    Pow,
    Fmod,
    Less,
    LessEqual,
    Equal,
    NotEqual,
    And,
    Or,
    Xor,
    ShiftLeft,
    ShiftRight,
    /// Fills with zeros from the left, `lshr` in the language.
    ShiftRightLogical,
}

impl Binary {
    /// All of them.
    pub const ALL: [Binary; 18] = [
        Binary::Add,
        Binary::Subtract,
        Binary::Multiply,
        Binary::Divide,
        Binary::Maximum,
        Binary::Minimum,
        Binary::Pow,
        Binary::Fmod,
        Binary::Less,
        Binary::LessEqual,
        Binary::Equal,
        Binary::NotEqual,
        Binary::And,
        Binary::Or,
        Binary::Xor,
        Binary::ShiftLeft,
        Binary::ShiftRight,
        Binary::ShiftRightLogical,
    ];

    /// The name in printed graphs, and in the language where it is a function there.
    pub const fn name(self) -> &'static str {
        match self {
            Binary::Add => "add",
            Binary::Subtract => "subtract",
            Binary::Multiply => "multiply",
            Binary::Divide => "divide",
            Binary::Maximum => "maximum",
            Binary::Minimum => "minimum",
            Binary::Pow => "pow",
            Binary::Fmod => "fmod",
            Binary::Less => "less",
            Binary::LessEqual => "less_equal",
            Binary::Equal => "equal",
            Binary::NotEqual => "not_equal",
            Binary::And => "and",
            Binary::Or => "or",
            Binary::Xor => "xor",
            Binary::ShiftLeft => "shift_left",
            Binary::ShiftRight => "shift_right",
            Binary::ShiftRightLogical => "lshr",
        }
    }

    /// The operation of that name.
    pub fn from_name(name: &str) -> Option<Binary> {
        Binary::ALL.into_iter().find(|op| op.name() == name)
    }

    /// The function that it is, where it is no instruction.
    pub const fn function(self) -> Option<FunctionOfTwo> {
        match self {
            Binary::Pow => Some(FunctionOfTwo::Pow),
            Binary::Fmod => Some(FunctionOfTwo::Fmod),
            Binary::Add
            | Binary::Subtract
            | Binary::Multiply
            | Binary::Divide
            | Binary::Maximum
            | Binary::Minimum
            | Binary::Less
            | Binary::LessEqual
            | Binary::Equal
            | Binary::NotEqual
            | Binary::And
            | Binary::Or
            | Binary::Xor
            | Binary::ShiftLeft
            | Binary::ShiftRight
            | Binary::ShiftRightLogical => None,
        }
    }

    /// The derivative in the first operand `x`, as an expression in `x` and `y`.
    pub const fn derivative(self) -> Option<&'static str> {
        match self {
            Binary::Add | Binary::Subtract | Binary::Fmod => Some("1.0"),
            Binary::Multiply => Some("y"),
            Binary::Divide => Some("rcp(y)"),
            // Both share the gradient where they are equal.
            Binary::Maximum => Some("where(x > y, 1.0, where(x == y, 0.5, 0.0))"),
            Binary::Minimum => Some("where(x < y, 1.0, where(x == y, 0.5, 0.0))"),
            Binary::Pow => Some("where(y == 0.0, 0.0, y * pow(x, y - 1.0))"),
            Binary::Less
            | Binary::LessEqual
            | Binary::Equal
            | Binary::NotEqual
            | Binary::And
            | Binary::Or
            | Binary::Xor
            | Binary::ShiftLeft
            | Binary::ShiftRight
            | Binary::ShiftRightLogical => None,
        }
    }

    /// Whether the operands may be swapped without changing a bit.
    pub const fn commutes(self) -> bool {
        match self {
            Binary::Add | Binary::Multiply | Binary::Maximum | Binary::Minimum => true,
            Binary::Equal | Binary::NotEqual | Binary::And | Binary::Or | Binary::Xor => true,
            Binary::Subtract | Binary::Divide | Binary::Pow | Binary::Fmod => false,
            Binary::Less | Binary::LessEqual => false,
            Binary::ShiftLeft | Binary::ShiftRight | Binary::ShiftRightLogical => false,
        }
    }

    /// Whether grouping does not change a bit for operands of this element type.
    pub const fn associates(self, elem: Elem) -> bool {
        match self {
            Binary::Maximum | Binary::Minimum | Binary::And | Binary::Or | Binary::Xor => true,
            Binary::Add | Binary::Multiply => matches!(elem, Elem::I32),
            Binary::Subtract | Binary::Divide | Binary::Pow | Binary::Fmod => false,
            Binary::Less | Binary::LessEqual | Binary::Equal | Binary::NotEqual => false,
            Binary::ShiftLeft | Binary::ShiftRight | Binary::ShiftRightLogical => false,
        }
    }

    /// Type rule: what it gives for operands that are both of this element type; `None` when it does not take them.
    pub const fn gives(self, operands: Elem) -> Option<Elem> {
        match (self, operands) {
            (Binary::And | Binary::Or, Elem::Bool) => Some(Elem::Bool),
            (Binary::And | Binary::Or | Binary::Xor, Elem::I32) => Some(Elem::I32),
            (Binary::ShiftLeft | Binary::ShiftRight | Binary::ShiftRightLogical, Elem::I32) => {
                Some(Elem::I32)
            }
            (Binary::Equal | Binary::NotEqual, _) => Some(Elem::Bool),
            (Binary::Less | Binary::LessEqual, Elem::F32 | Elem::I32) => Some(Elem::Bool),
            (
                Binary::Add
                | Binary::Subtract
                | Binary::Multiply
                | Binary::Maximum
                | Binary::Minimum,
                Elem::F32,
            ) => Some(Elem::F32),
            (
                Binary::Add
                | Binary::Subtract
                | Binary::Multiply
                | Binary::Maximum
                | Binary::Minimum,
                Elem::I32,
            ) => Some(Elem::I32),
            (Binary::Divide | Binary::Pow | Binary::Fmod, Elem::F32) => Some(Elem::F32),
            (_, Elem::F32 | Elem::I32 | Elem::Bool) => None,
        }
    }

    /// Reference meaning and error bound, for operands of this element type.
    pub fn apply(self, elem: Elem, accuracy: Accuracy, x: Value, y: Value) -> Value {
        match self {
            Binary::Less => compare(x, y, |a, b| a < b, x.high < y.low, x.low < y.high),
            Binary::LessEqual => compare(x, y, |a, b| a <= b, x.high <= y.low, x.low <= y.high),
            Binary::Equal => compare(
                x,
                y,
                |a, b| a == b,
                x.is_exact() && y.is_exact() && x.low == y.low,
                overlap(x, y),
            ),
            Binary::NotEqual => {
                let equal = Binary::Equal.apply(elem, accuracy, x, y);
                Value {
                    nominal: 1.0 - equal.nominal,
                    low: 1.0 - equal.high,
                    high: 1.0 - equal.low,
                    nan: false,
                }
            }
            Binary::And | Binary::Or if elem == Elem::I32 => bits::connect(self, x, y),
            Binary::Xor => bits::connect(self, x, y),
            Binary::ShiftLeft | Binary::ShiftRight | Binary::ShiftRightLogical => {
                bits::shift(self, x, y)
            }
            Binary::And => Value {
                nominal: x.nominal.min(y.nominal),
                low: x.low.min(y.low),
                high: x.high.min(y.high),
                nan: false,
            },
            Binary::Or => Value {
                nominal: x.nominal.max(y.nominal),
                low: x.low.max(y.low),
                high: x.high.max(y.high),
                nan: false,
            },
            Binary::Maximum => extreme(x, y, larger),
            Binary::Minimum => extreme(x, y, smaller),
            Binary::Add | Binary::Subtract | Binary::Multiply if elem == Elem::I32 => {
                self.apply_i32(x, y)
            }
            Binary::Add => add(x, y).round_f32(),
            Binary::Subtract => add(x, negate(y)).round_f32(),
            Binary::Multiply => multiply(x, y).round_f32(),
            Binary::Divide => divide(x, y, accuracy),
            Binary::Pow => pow(x, y, accuracy),
            Binary::Fmod => fmod(x, y),
        }
    }

    pub(super) fn apply_i32(self, x: Value, y: Value) -> Value {
        let exactly = |a: f64, b: f64| {
            let (a, b) = (a as i128, b as i128);
            match self {
                Binary::Add => a + b,
                Binary::Subtract => a - b,
                _ => a * b,
            }
        };
        let corners = [
            exactly(x.low, y.low),
            exactly(x.low, y.high),
            exactly(x.high, y.low),
            exactly(x.high, y.high),
        ];
        let (low, high) = corners
            .iter()
            .fold((i128::MAX, i128::MIN), |(low, high), &c| (low.min(c), high.max(c)));
        Value::wrapped(exactly(x.nominal, y.nominal) as i32, low, high)
    }
}

/// `a * b + c` rounded once.
pub(crate) fn fma(a: Value, b: Value, c: Value) -> Value {
    let exact = add(multiply(a, b), c).round_f32();
    let nominal = (a.nominal as f32).mul_add(b.nominal as f32, c.nominal as f32) as f64;
    if a.is_exact() && b.is_exact() && c.is_exact() {
        return Value::exact(nominal);
    }
    // The enclosure was rounded to f64 in between, which can move an end by one f32 step at a tie.
    let step = functions::accuracy::ulp(exact.magnitude());
    let wider = exact.widen(step);
    Value {
        nominal,
        low: wider.low.min(nominal),
        high: wider.high.max(nominal),
        nan: wider.nan || nominal.is_nan(),
    }
}

fn overlap(x: Value, y: Value) -> bool {
    x.low <= y.high && y.low <= x.high
}

fn compare(x: Value, y: Value, holds: fn(f64, f64) -> bool, must: bool, may: bool) -> Value {
    let nominal = holds(x.nominal, y.nominal);
    if x.is_only_nan() || y.is_only_nan() {
        return Value::truth(false, true, false);
    }
    Value::truth(nominal, !must || x.nan || y.nan, may)
}

fn extreme(x: Value, y: Value, pick: fn(f64, f64) -> f64) -> Value {
    if x.is_only_nan() || y.is_only_nan() {
        return Value::NAN;
    }
    let nominal = if x.nominal.is_nan() || y.nominal.is_nan() {
        f64::NAN
    } else {
        pick(x.nominal, y.nominal)
    };
    Value { nominal, low: pick(x.low, y.low), high: pick(x.high, y.high), nan: x.nan || y.nan }
}

fn negate(x: Value) -> Value {
    if x.is_only_nan() {
        x
    } else {
        Value { nominal: -x.nominal, low: -x.high, high: -x.low, nan: x.nan }
    }
}

pub(super) fn add(x: Value, y: Value) -> Value {
    if x.is_only_nan() || y.is_only_nan() {
        return Value::NAN;
    }
    let infinities_meet = (x.high == f64::INFINITY && y.low == f64::NEG_INFINITY)
        || (x.low == f64::NEG_INFINITY && y.high == f64::INFINITY);
    let (low, high) = (x.low + y.low, x.high + y.high);
    let nominal = x.nominal + y.nominal;
    if low.is_nan() && high.is_nan() {
        return Value::NAN;
    }
    let low = if low.is_nan() { f64::NEG_INFINITY } else { low };
    let high = if high.is_nan() { f64::INFINITY } else { high };
    Value { nominal, low, high, nan: x.nan || y.nan || infinities_meet || nominal.is_nan() }
}

pub(super) fn multiply(x: Value, y: Value) -> Value {
    if x.is_only_nan() || y.is_only_nan() {
        return Value::NAN;
    }
    corners(x, y, x.nominal * y.nominal, |a, b| a * b)
}

/// The hull of the four corners. A corner that is nan allows nan, and 0 for what lies beside it: 0 times a number, a number
/// over infinity.
fn corners(x: Value, y: Value, nominal: f64, f: fn(f64, f64) -> f64) -> Value {
    let all = [f(x.low, y.low), f(x.low, y.high), f(x.high, y.low), f(x.high, y.high)];
    let one_point = x.is_exact() && y.is_exact();
    let beside = all.map(|corner| if corner.is_nan() && !one_point { 0.0 } else { corner });
    let low = beside.iter().copied().fold(f64::INFINITY, smaller);
    let high = beside.iter().copied().fold(f64::NEG_INFINITY, larger);
    let contains_zero = |v: Value| v.low <= 0.0 && v.high >= 0.0;
    let contains_infinity = |v: Value| v.low == f64::NEG_INFINITY || v.high == f64::INFINITY;
    let undefined =
        (contains_zero(x) && contains_infinity(y)) || (contains_infinity(x) && contains_zero(y));
    let nan = x.nan || y.nan || nominal.is_nan() || undefined || all.iter().any(|c| c.is_nan());
    Value { nominal, low, high, nan }
}

fn divide(x: Value, y: Value, accuracy: Accuracy) -> Value {
    if x.is_only_nan() || y.is_only_nan() {
        return Value::NAN;
    }
    let nominal = ((x.nominal / y.nominal) as f32) as f64;
    let image = if y.is_exact() && x.is_exact() && y.knows_its_sign() {
        Value::exact(nominal)
    } else if y.low > 0.0 || y.high < 0.0 {
        let nan = (x.low.is_infinite() || x.high.is_infinite())
            && (y.low.is_infinite() || y.high.is_infinite());
        let quotient = corners(x, y, x.nominal / y.nominal, |a, b| a / b);
        // Zero times infinity is what `corners` guards against; for quotients it is infinity over infinity.
        // A number over infinity is zero, which no corner shows when the number may be infinite too.
        let quotient = if nan { quotient.or(Value::exact(0.0)) } else { quotient };
        Value { nan: x.nan || y.nan || nan || nominal.is_nan(), ..quotient }.round_f32()
    } else {
        let undefined = (x.low <= 0.0 && x.high >= 0.0) || x.magnitude().is_infinite();
        Value { nan: x.nan || y.nan || undefined, ..Value::anything(nominal) }
    };
    match accuracy {
        Accuracy::Accurate => image,
        Accuracy::Hardware | Accuracy::Fast => {
            let wide =
                image.widen(functions::bound(Function::Rcp, accuracy, 1.0, image.magnitude()));
            // A product with a reciprocal has the sign of the quotient, however wide its error.
            let never_negative = !wide.is_only_nan() && x.low >= 0.0 && y.low > 0.0;
            if never_negative { Value { low: wide.low.max(0.0), ..wide } } else { wide }
        }
    }
}

/// Exact: with a known divisor it grows with x as long as the quotient stays the same.
fn fmod(x: Value, y: Value) -> Value {
    let nominal = x.nominal % y.nominal;
    if x.is_only_nan() || y.is_only_nan() {
        return Value::NAN;
    }
    let nan = x.nan || y.nan || y.contains(0.0) || x.magnitude().is_infinite();
    let least = if y.contains(0.0) { 0.0 } else { y.low.abs().min(y.high.abs()) };
    if x.magnitude() < least {
        return Value { nan, ..x };
    }
    let same = y.is_exact() && (x.low / y.low).trunc() == (x.high / y.low).trunc();
    if same && !nan && (x.is_exact() || (x.high - x.low).abs() < least) {
        let (low, high) = (x.low % y.low, x.high % y.low);
        if low <= high {
            return Value::between(nominal, low, high, false);
        }
    }
    let most = x.magnitude().min(y.magnitude());
    let (low, high) =
        (if x.low >= 0.0 { 0.0 } else { -most }, if x.high <= 0.0 { 0.0 } else { most });
    Value::between(nominal, low, high, nan)
}

fn pow(x: Value, y: Value, accuracy: Accuracy) -> Value {
    let nominal = (x.nominal.powf(y.nominal) as f32) as f64;
    // pow(1, nan) and pow(nan, 0) are 1: nan does not simply propagate.
    if x.is_only_nan() || y.is_only_nan() {
        let one = if x.is_only_nan() { y.contains(0.0) } else { x.contains(1.0) };
        let exact = x.is_exact() && y.is_exact();
        return match (one, exact) {
            (true, true) => Value::exact(1.0),
            (true, false) => Value { nominal, low: 1.0, high: 1.0, nan: true },
            (false, _) => Value::NAN,
        };
    }
    // Stated errors count from the exact result, not from the rounded one.
    let exact = x.nominal.powf(y.nominal);
    let error = functions::pow_bound(accuracy, x.nominal, y.nominal, beyond(exact));
    if x.is_exact() && y.is_exact() && (x.low != 0.0 || x.knows_its_sign()) {
        return if nominal.is_nan() {
            Value::NAN
        } else {
            Value::between(nominal, exact, exact, false).widen(error)
        };
    }
    let positive = x.low > 0.0;
    let whole_power = y.is_exact() && y.low.fract() == 0.0 && y.low > 0.0;
    if !positive && !whole_power {
        return Value::anything(nominal);
    }
    let image = corners(x, y, nominal, f64::powf);
    let low = if !positive && x.high >= 0.0 { image.low.min(0.0) } else { image.low };
    let nan = x.nan || y.nan || nominal.is_nan();
    let hull = Value::between(nominal, low, image.high, nan);
    let error = |end: f64| {
        let at = |base: f64| functions::pow_bound(accuracy, base, y.magnitude(), beyond(end));
        at(x.low).max(at(x.high))
    };
    // Twice, for results at the next power of 2, whose last place is worth more.
    let low = hull.widen(2.0 * error(hull.low)).low;
    // No power of a positive number is negative, however wide the error.
    let low = if positive { low.max(0.0) } else { low };
    Value { low, high: hull.widen(error(hull.high)).high, ..hull }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn f32_of(op: Binary, x: f64, y: f64) -> Value {
        op.apply(Elem::F32, Accuracy::Accurate, Value::exact(x), Value::exact(y))
    }

    #[test]
    fn arithmetic_on_exact_values_is_exact() {
        for op in [Binary::Add, Binary::Subtract, Binary::Multiply, Binary::Divide, Binary::Maximum]
        {
            assert!(f32_of(op, 3.0, 7.0).is_exact(), "{}", op.name());
        }
        assert_eq!(f32_of(Binary::Divide, 1.0, 0.0).nominal, f64::INFINITY);
        assert_eq!(f32_of(Binary::Divide, 1.0, -0.0).nominal, f64::NEG_INFINITY);
        assert!(f32_of(Binary::Divide, 0.0, 0.0).is_only_nan());
        assert!(f32_of(Binary::Multiply, 0.0, f64::INFINITY).is_only_nan());
    }

    #[test]
    fn integers_wrap() {
        let sum = Binary::Add.apply(
            Elem::I32,
            Accuracy::Accurate,
            Value::exact(2147483647.0),
            Value::exact(1.0),
        );
        assert_eq!(sum, Value::exact(-2147483648.0));
    }

    #[test]
    fn comparisons_within_the_bound_allow_both() {
        let x = Value::between(1.0, 0.9, 1.1, false);
        let less = Binary::Less.apply(Elem::F32, Accuracy::Accurate, x, Value::exact(1.05));
        assert_eq!((less.low, less.high), (0.0, 1.0));
        let nan =
            Binary::NotEqual.apply(Elem::F32, Accuracy::Accurate, Value::NAN, Value::exact(1.0));
        assert_eq!(nan, Value::exact(1.0));
    }

    #[test]
    fn maximum_propagates_nan() {
        assert!(
            Binary::Maximum
                .apply(Elem::F32, Accuracy::Accurate, Value::NAN, Value::exact(1.0))
                .is_only_nan()
        );
    }

    #[test]
    fn zero_times_anything_may_be_zero() {
        let image = f32_of_values(Binary::Multiply, Value::exact(0.0), Value::anything(1.0));
        assert!(image.nan && image.contains(0.0));
    }

    fn f32_of_values(op: Binary, x: Value, y: Value) -> Value {
        op.apply(Elem::F32, Accuracy::Accurate, x, y)
    }

    #[test]
    fn products_of_intervals_contain_the_products() {
        let x = Value::between(-0.5, -1.0, 2.0, false);
        let y = Value::between(1.0, -3.0, 4.0, false);
        let image = Binary::Multiply.apply(Elem::F32, Accuracy::Accurate, x, y);
        assert_eq!((image.low, image.high), (-6.0, 8.0));
    }
}
