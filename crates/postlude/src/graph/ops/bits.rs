//! Bits of integers: their meaning, and what enclosures of integers become.
//!
//! In: whole numbers in the range of i32. Out: whole numbers in the range of i32. Exact operands give an exact result; of
//! a range of integers the result is a range that holds every possible result.

use crate::graph::Value;

use super::Binary;

/// `x << count`; 0 for a count outside of 0 to 31.
pub(crate) fn shift_left(x: i32, count: i32) -> i32 {
    if (0..32).contains(&count) { x << count } else { 0 }
}

/// `x >> count`, filled with the sign; the sign alone for a count outside of 0 to 31.
pub(crate) fn shift_right(x: i32, count: i32) -> i32 {
    if (0..32).contains(&count) { x >> count } else { x >> 31 }
}

/// `x >> count`, filled with zeros; 0 for a count outside of 0 to 31.
pub(crate) fn shift_right_logical(x: i32, count: i32) -> i32 {
    if (0..32).contains(&count) { (x as u32 >> count) as i32 } else { 0 }
}

/// The bits of a float; a nan has the same ones whatever its payload.
pub(crate) fn bits_of(x: f32) -> i32 {
    if x.is_nan() { NAN_BITS } else { x.to_bits() as i32 }
}

/// The bits of a nan that has no payload.
pub(crate) const NAN_BITS: i32 = 0x7fc0_0000;

/// Bits of floats rise with them from 0 up, and fall with them below.
pub(super) fn bits(x: Value) -> Value {
    let nominal = bits_of(x.nominal as f32);
    let nan = Value::exact(f64::from(NAN_BITS));
    if x.is_only_nan() {
        return nan;
    }
    let (low, high) = (bits_of(x.low as f32), bits_of(x.high as f32));
    let known = x.low < 0.0 && x.high < 0.0 || x.low > 0.0 || x.knows_its_sign() && x.low == x.high;
    if !known {
        return any(nominal);
    }
    let image = Value::between(
        f64::from(if x.nominal.is_nan() { low } else { nominal }),
        f64::from(low),
        f64::from(high),
        false,
    );
    if x.nan { Value { nominal: f64::from(nominal), ..image.or(nan) } } else { image }
}

/// The float of certain bits; anything of others.
pub(super) fn float(x: Value) -> Value {
    let nominal = f64::from(f32::from_bits(x.nominal as i32 as u32));
    if x.is_exact() { Value::exact(nominal) } else { Value::anything(nominal) }
}

/// Every integer.
fn any(nominal: i32) -> Value {
    Value {
        nominal: f64::from(nominal),
        low: f64::from(i32::MIN),
        high: f64::from(i32::MAX),
        nan: false,
    }
}

/// `&`, `|` and `^` of integers.
pub(super) fn connect(op: Binary, x: Value, y: Value) -> Value {
    let exactly = |a: f64, b: f64| {
        let (a, b) = (a as i32, b as i32);
        match op {
            Binary::And => a & b,
            Binary::Or => a | b,
            _ => a ^ b,
        }
    };
    let nominal = exactly(x.nominal, y.nominal);
    if x.is_exact() && y.is_exact() {
        return Value::exact(f64::from(nominal));
    }
    // A mask without a sign bounds what it leaves, whatever the other side is.
    let least = if op == Binary::And {
        let masks = [x, y].into_iter().filter(|value| value.low >= 0.0).map(|value| value.high);
        masks.reduce(f64::min)
    } else if x.low >= 0.0 && y.low >= 0.0 {
        let largest = x.high.max(y.high) as u32;
        Some(f64::from(u32::MAX.checked_shr(largest.leading_zeros()).unwrap_or(0)))
    } else {
        None
    };
    match least {
        Some(high) => Value { nominal: f64::from(nominal), low: 0.0, high, nan: false },
        None => any(nominal),
    }
}

/// Shifts of integers.
pub(super) fn shift(op: Binary, x: Value, count: Value) -> Value {
    let exactly = |a: f64, b: f64| {
        let (a, b) = (a as i32, b as i32);
        match op {
            Binary::ShiftLeft => shift_left(a, b),
            Binary::ShiftRight => shift_right(a, b),
            _ => shift_right_logical(a, b),
        }
    };
    let nominal = exactly(x.nominal, count.nominal);
    if x.is_exact() && count.is_exact() {
        return Value::exact(f64::from(nominal));
    }
    if !count.is_exact() {
        return any(nominal);
    }
    let by = count.nominal;
    let inside = (0.0..32.0).contains(&by);
    let ends = (exactly(x.low, by), exactly(x.high, by));
    match op {
        Binary::ShiftLeft if inside => {
            let factor = 1_i128 << by as u32;
            Value::wrapped(nominal, x.low as i128 * factor, x.high as i128 * factor)
        }
        // Unsigned order is the order of integers on either side of zero.
        Binary::ShiftRightLogical if inside && x.low < 0.0 && x.high >= 0.0 => {
            let most = f64::from(shift_right_logical(-1, by as i32));
            if by == 0.0 {
                x
            } else {
                Value { nominal: f64::from(nominal), low: 0.0, high: most, nan: false }
            }
        }
        _ => Value::between(f64::from(nominal), f64::from(ends.0), f64::from(ends.1), false),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dtype::Elem;
    use crate::functions::Accuracy;

    const OPS: [Binary; 6] = [
        Binary::And,
        Binary::Or,
        Binary::Xor,
        Binary::ShiftLeft,
        Binary::ShiftRight,
        Binary::ShiftRightLogical,
    ];

    #[test]
    fn counts_out_of_range_leave_zero_or_the_sign() {
        for count in [-1, 32, 33, i32::MIN, i32::MAX] {
            assert_eq!(shift_left(5, count), 0);
            assert_eq!(shift_right_logical(-5, count), 0);
            assert_eq!(shift_right(-5, count), -1);
            assert_eq!(shift_right(5, count), 0);
        }
        assert_eq!(shift_right(-5, 1), -3);
        assert_eq!(shift_right_logical(-1, 28), 15);
        assert_eq!(shift_left(1, 31), i32::MIN);
    }

    #[test]
    fn bits_of_ranges_hold_the_bits_inside() {
        for (low, high) in [(1.0, 2.5), (-3.0, -0.5), (1e-40, 1e-38)] {
            let image = bits(Value::between(low, low, high, false));
            for step in 0..=20 {
                let point = (low + (high - low) * f64::from(step) / 20.0) as f32;
                assert!(image.contains(f64::from(bits_of(point))), "{point}");
            }
        }
        assert_eq!(bits(Value::exact(-0.0)), Value::exact(f64::from(i32::MIN)));
        assert_eq!(bits(Value::NAN), Value::exact(f64::from(NAN_BITS)));
        assert!(float(Value::exact(f64::from(NAN_BITS))).is_only_nan());
    }

    #[test]
    fn ranges_hold_every_result() {
        let ranges = [(-5, 9), (0, 12), (3, 3), (-20, -7), (i32::MAX - 3, i32::MAX)];
        for op in OPS {
            for (low, high) in ranges {
                for (from, to) in [(0, 3), (2, 2), (-3, 1), (31, 33), (7, 7)] {
                    check(op, (low, high), (from, to));
                }
            }
        }
    }

    fn check(op: Binary, (low, high): (i32, i32), (from, to): (i32, i32)) {
        let range =
            |a: i32, b: i32| Value::between(f64::from(a), f64::from(a), f64::from(b), false);
        let apply = |x, y| op.apply(Elem::I32, Accuracy::Accurate, x, y);
        let image = apply(range(low, high), range(from, to));
        for x in low..=high {
            for y in from..=to {
                let one = apply(Value::exact(f64::from(x)), Value::exact(f64::from(y)));
                assert!(one.is_exact() && image.contains(one.nominal), "{} {x} {y}", op.name());
            }
        }
    }
}
