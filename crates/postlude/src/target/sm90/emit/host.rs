//! Numbers that the host passes: always 32 bits, which the kernel reads by the input's element type.

use postlude_ptx::launch::Parameter;

use crate::dtype::{self, DType, Elem};

/// A host scalar as a parameter, rounded to its declared type; integers and conditions by their bits.
pub(super) fn parameter(declared: DType, value: f64) -> Parameter {
    let value = dtype::round_to(declared, value);
    Parameter::F32(match declared.elem() {
        Elem::F32 => value as f32,
        Elem::I32 | Elem::Bool => f32::from_bits(value as i32 as u32),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bits(declared: DType, value: f64) -> u32 {
        match parameter(declared, value) {
            Parameter::F32(value) => value.to_bits(),
            other => panic!("not a float: {other:?}"),
        }
    }

    #[test]
    fn integers_keep_every_bit() {
        for value in [0, 1, -1, i32::MIN, i32::MAX, 0x7f80_0001] {
            assert_eq!(bits(DType::I32, f64::from(value)), value as u32);
        }
        assert_eq!(bits(DType::Bool, f64::NAN), 1);
    }

    #[test]
    fn floats_are_rounded_to_their_type_once() {
        assert_eq!(bits(DType::F32, 0.1), 0.1_f32.to_bits());
        assert_eq!(bits(DType::BF16, 1.00390625), 1.0_f32.to_bits());
    }
}
