//! Conversions between stored elements and values.

use super::DType;

/// The value of element `index` of a contiguous buffer.
pub fn load(_dtype: DType, _bytes: &[u8], _index: usize) -> f64 {
    todo!()
}

/// Rounds a value to the nearest that `dtype` holds, as a store does.
pub fn round_to(_dtype: DType, _value: f64) -> f64 {
    todo!()
}

/// Stores a value as element `index` of a contiguous buffer, rounding once.
pub fn store(_dtype: DType, _bytes: &mut [u8], _index: usize, _value: f64) {
    todo!()
}
