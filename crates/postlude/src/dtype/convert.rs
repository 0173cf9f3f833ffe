//! Conversions between stored elements and values, one element at a time.
//!
//! In: an element's bytes, or a value as f64. Out: the exact value, or the bytes of the nearest element.
//! Invariant: `round_to` gives the value that a store followed by a load gives.

use super::narrow::{BF16, F8E4M3, F8E5M2, F16};
use super::{DType, nibble, scale, tf32};

/// The i32 that is nearest to an integer of 64 bits: what every engine reads.
pub(super) fn nearest_i32(value: i64) -> i32 {
    value.clamp(i32::MIN.into(), i32::MAX.into()) as i32
}

/// The value of element `index` of a contiguous buffer.
pub fn load(dtype: DType, bytes: &[u8], index: usize) -> f64 {
    match dtype {
        DType::F32 => f32::from_le_bytes(array(bytes, index)) as f64,
        DType::TF32 => f64::from(tf32::truncated(f32::from_le_bytes(array(bytes, index)))),
        DType::F16 => F16.decode(u16::from_le_bytes(array(bytes, index))),
        DType::BF16 => BF16.decode(u16::from_le_bytes(array(bytes, index))),
        DType::F8E4M3 => F8E4M3.decode(bytes[index] as u16),
        DType::F8E5M2 => F8E5M2.decode(bytes[index] as u16),
        DType::F8E8M0 => f64::from(scale::decode(bytes[index])),
        DType::I8 => bytes[index] as i8 as f64,
        DType::U8 => bytes[index] as f64,
        DType::I32 => i32::from_le_bytes(array(bytes, index)) as f64,
        DType::I64 => f64::from(nearest_i32(i64::from_le_bytes(array(bytes, index)))),
        DType::Bool => truth(bytes[index] != 0),
        DType::B1 => truth((bytes[index / 8] >> (index % 8)) & 1 != 0),
        DType::I4 => f64::from(nibble::signed(nibble::read(bytes, index))),
        DType::U4 => f64::from(nibble::read(bytes, index)),
    }
}

/// The number that element `index` is, where messages show it: of int64 not only the nearest i32.
pub(crate) fn load_integer(dtype: DType, bytes: &[u8], index: usize) -> i64 {
    match dtype {
        DType::I64 => i64::from_le_bytes(array(bytes, index)),
        other => load(other, bytes, index) as i64,
    }
}

/// Rounds a value to the nearest that `dtype` holds, as a store does.
pub fn round_to(dtype: DType, value: f64) -> f64 {
    match dtype {
        DType::F32 => value as f32 as f64,
        DType::TF32 => f64::from(tf32::encode(value)),
        DType::F16 => F16.decode(F16.encode(value)),
        DType::BF16 => BF16.decode(BF16.encode(value)),
        DType::F8E4M3 => F8E4M3.decode(F8E4M3.encode(value)),
        DType::F8E5M2 => F8E5M2.decode(F8E5M2.encode(value)),
        DType::F8E8M0 => f64::from(scale::decode(scale::encode(value))),
        // `as` saturates and takes NaN to 0.
        DType::I8 => value.round_ties_even() as i8 as f64,
        DType::U8 => value.round_ties_even() as u8 as f64,
        DType::I32 | DType::I64 => value.round_ties_even() as i32 as f64,
        DType::I4 => f64::from(nibble::clamp_signed(value.round_ties_even() as i32)),
        DType::U4 => f64::from(nibble::clamp_unsigned(value.round_ties_even() as i32)),
        DType::Bool | DType::B1 => truth(value != 0.0),
    }
}

/// Stores a value as element `index` of a contiguous buffer, rounding once.
pub fn store(dtype: DType, bytes: &mut [u8], index: usize, value: f64) {
    match dtype {
        DType::F32 => put(bytes, index, (value as f32).to_le_bytes()),
        DType::TF32 => put(bytes, index, tf32::encode(value).to_le_bytes()),
        DType::F16 => put(bytes, index, F16.encode(value).to_le_bytes()),
        DType::BF16 => put(bytes, index, BF16.encode(value).to_le_bytes()),
        DType::F8E4M3 => bytes[index] = F8E4M3.encode(value) as u8,
        DType::F8E5M2 => bytes[index] = F8E5M2.encode(value) as u8,
        DType::F8E8M0 => bytes[index] = scale::encode(value),
        DType::I8 => bytes[index] = value.round_ties_even() as i8 as u8,
        DType::U8 => bytes[index] = value.round_ties_even() as u8,
        DType::I32 => put(bytes, index, (value.round_ties_even() as i32).to_le_bytes()),
        DType::I64 => put(bytes, index, (value.round_ties_even() as i64).to_le_bytes()),
        DType::Bool => bytes[index] = (value != 0.0) as u8,
        DType::B1 => {
            let bit = 1 << (index % 8);
            let byte = &mut bytes[index / 8];
            *byte = if value == 0.0 { *byte & !bit } else { *byte | bit };
        }
        DType::I4 => {
            nibble::write(bytes, index, nibble::clamp_signed(value.round_ties_even() as i32));
        }
        DType::U4 => {
            nibble::write(bytes, index, nibble::clamp_unsigned(value.round_ties_even() as i32));
        }
    }
}

fn truth(value: bool) -> f64 {
    if value { 1.0 } else { 0.0 }
}

/// The bytes of element `index`, for elements of `N` bytes.
fn array<const N: usize>(bytes: &[u8], index: usize) -> [u8; N] {
    *bytes[index * N..].first_chunk().expect("compiler bug: element outside its buffer")
}

fn put<const N: usize>(bytes: &mut [u8], index: usize, element: [u8; N]) {
    bytes[index * N..(index + 1) * N].copy_from_slice(&element);
}

#[cfg(test)]
mod tests {
    use super::{load, round_to, store};
    use crate::dtype::DType;

    /// Values around every place where some type rounds, saturates or changes meaning.
    fn probes() -> Vec<f64> {
        let mut values =
            vec![f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 0.0, -0.0, 1e300, -1e300, 5e-324];
        for exponent in -160..160 {
            for mantissa in [1.0, 1.0625, 1.1, 1.25, 1.4999, 1.5, 1.9375, 1.996, 1.9999999] {
                let value = mantissa * 2f64.powi(exponent);
                values.extend([value, -value]);
            }
        }
        values.extend((-600..600).map(|n| f64::from(n) / 2.0));
        values.extend([2147483647.0, 2147483646.5, 2147483648.0, -2147483648.0, -2147483649.5]);
        values
    }

    #[test]
    fn rounding_is_a_store_followed_by_a_load() {
        for dtype in DType::ALL {
            for value in probes() {
                let mut bytes = [0xa5; 16];
                store(dtype, &mut bytes, 3, value);
                let (got, want) = (load(dtype, &bytes, 3), round_to(dtype, value));
                assert!(
                    got.to_bits() == want.to_bits()
                        || (got.is_nan() && want.is_nan())
                        || (got == 0.0 && want == 0.0),
                    "{dtype} {value}: {got} {want}"
                );
            }
        }
    }

    #[test]
    fn rounding_twice_changes_nothing() {
        for dtype in DType::ALL {
            for value in probes() {
                let once = round_to(dtype, value);
                let twice = round_to(dtype, once);
                assert!(once == twice || (once.is_nan() && twice.is_nan()), "{dtype} {value}");
            }
        }
    }

    #[test]
    fn integers_round_to_even_saturate_and_take_nan_to_zero() {
        for (value, want) in [(0.5, 0.0), (1.5, 2.0), (2.5, 2.0), (-0.5, 0.0), (-1.5, -2.0)] {
            assert_eq!(round_to(DType::I8, value), want);
            assert_eq!(round_to(DType::I32, value), want);
        }
        assert_eq!(round_to(DType::I8, 1e9), 127.0);
        assert_eq!(round_to(DType::I8, f64::NEG_INFINITY), -128.0);
        assert_eq!(round_to(DType::U8, -3.0), 0.0);
        assert_eq!(round_to(DType::U8, 255.5), 255.0);
        assert_eq!(round_to(DType::I32, 1e10), 2147483647.0);
        assert_eq!([-1e9, -8.5, 6.5, 7.5].map(|x| round_to(DType::I4, x)), [-8.0, -8.0, 6.0, 7.0]);
        assert_eq!([-0.6, 0.5, 14.5, 16.0].map(|x| round_to(DType::U4, x)), [0.0, 0.0, 14.0, 15.0]);
        for dtype in [DType::I8, DType::U8, DType::I4, DType::U4, DType::I32] {
            assert_eq!(round_to(dtype, f64::NAN), 0.0);
        }
    }

    #[test]
    fn conditions_are_true_when_not_zero() {
        for dtype in [DType::Bool, DType::B1] {
            for value in [f64::NAN, 1.0, -2.0, 5e-324] {
                assert_eq!(round_to(dtype, value), 1.0);
            }
            assert_eq!(round_to(dtype, -0.0), 0.0);
        }
    }

    #[test]
    fn packed_bits_start_at_the_lowest() {
        let mut bytes = [0u8; 2];
        store(DType::B1, &mut bytes, 0, 1.0);
        store(DType::B1, &mut bytes, 9, 1.0);
        assert_eq!(bytes, [0b1, 0b10]);
        store(DType::B1, &mut bytes, 0, 0.0);
        assert_eq!(bytes, [0, 0b10]);
        assert_eq!(load(DType::B1, &bytes, 9), 1.0);
        assert_eq!(load(DType::B1, &bytes, 8), 0.0);
    }

    #[test]
    fn halves_of_bytes_start_at_the_lower_one() {
        let mut bytes = [0xff; 2];
        store(DType::I4, &mut bytes, 0, -8.0);
        store(DType::U4, &mut bytes, 3, 9.0);
        assert_eq!(bytes, [0xf8, 0x9f]);
        assert_eq!(
            [0, 1, 2, 3].map(|index| load(DType::I4, &bytes, index)),
            [-8.0, -1.0, -1.0, -7.0]
        );
        assert_eq!(
            [0, 1, 2, 3].map(|index| load(DType::U4, &bytes, index)),
            [8.0, 15.0, 15.0, 9.0]
        );
    }

    #[test]
    fn a_store_touches_no_other_element() {
        for dtype in DType::ALL {
            let mut bytes = [0x55; 32];
            let before: Vec<f64> = (0..8).map(|index| load(dtype, &bytes, index)).collect();
            store(dtype, &mut bytes, 4, 0.0);
            for (index, value) in before.iter().enumerate() {
                if index != 4 {
                    assert_eq!(load(dtype, &bytes, index).to_bits(), value.to_bits());
                }
            }
        }
    }
}
