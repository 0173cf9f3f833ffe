//! Random words and what rounds by them: meaning and enclosures.

use crate::dtype::{DType, round_randomly, round_to};
use crate::functions::philox::{element, philox};
use crate::graph::Value;

/// The word of an element: two words of key, then column, row, batch and offset.
pub(crate) fn random_word([key0, key1, column, row, batch, offset]: [i32; 6]) -> i32 {
    let (counter, word) = element(column, row, batch, offset);
    philox([key0 as u32, key1 as u32], counter)[word] as i32
}

/// The word of an element; any integer where its place or key is not certain.
pub(crate) fn philox_of(operands: [Value; 6]) -> Value {
    let nominal = f64::from(random_word(operands.map(|operand| operand.nominal as i32)));
    if operands.iter().all(|operand| operand.is_exact()) {
        return Value::exact(nominal);
    }
    let (low, high) = (f64::from(i32::MIN), f64::from(i32::MAX));
    Value { nominal, low, high, nan: false }
}

/// A value rounded by random bits. For certain bits the rounding is monotone, so the ends are rounded as the value is;
/// otherwise either neighbour is allowed.
pub(crate) fn rounded_by(to: DType, value: Value, bits: Value) -> Value {
    let by = |bits: u32| move |point: f64| round_randomly(to, point, bits);
    let word = |end: f64| end as i32 as u32;
    let nominal = value.map_monotone(by(word(bits.nominal)));
    if bits.is_exact() || value.is_only_nan() {
        return nominal;
    }
    let (down, up) = (value.map_monotone(by(0)), value.map_monotone(by(u32::MAX)));
    let ends = [down.low, up.low, down.high, up.high, round_to(to, value.nominal)];
    let low = ends.iter().copied().fold(nominal.low, f64::min);
    let high = ends.iter().copied().fold(nominal.high, f64::max);
    Value { low, high, ..nominal }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn certain_bits_round_a_certain_value_exactly() {
        let rounded = rounded_by(DType::BF16, Value::exact(1.001953125), Value::exact(-1.0));
        assert_eq!(rounded, Value::exact(1.0078125));
    }

    #[test]
    fn uncertain_bits_allow_both_neighbours() {
        let bits = Value { nominal: 0.0, low: -5.0, high: 5.0, nan: false };
        for (value, low, high) in [(1.001953125, 1.0, 1.0078125), (-1.001953125, -1.0078125, -1.0)]
        {
            let rounded = rounded_by(DType::BF16, Value::exact(value), bits);
            assert_eq!((rounded.low, rounded.high), (low, high));
        }
    }
}
