//! TF32: an f32 of which the tensor core reads the sign, the exponent and ten bits of the fraction.
//!
//! In memory it is a whole f32. A load drops the other thirteen bits; a store rounds to nearest even and leaves them zero.

/// Bits of the fraction that are not read.
const DROPPED: u32 = 13;
/// The bits that are read.
pub(crate) const MASK: u32 = !((1 << DROPPED) - 1);

/// An f32 as it is read.
#[inline(always)]
pub(crate) fn truncated(value: f32) -> f32 {
    if value.is_nan() { value } else { f32::from_bits(value.to_bits() & MASK) }
}

/// The nearest value.
#[inline(always)]
pub(super) fn rounded(value: f32) -> f32 {
    if value.is_nan() {
        return value;
    }
    let bits = value.to_bits();
    let half = (1 << (DROPPED - 1)) - 1 + ((bits >> DROPPED) & 1);
    f32::from_bits((bits + half) & MASK)
}

/// The nearest value, rounded once.
pub(super) fn encode(value: f64) -> f32 {
    rounded(odd(value))
}

/// As f32, rounded to odd: rounding that again to fewer bits is as good as rounding once.
fn odd(value: f64) -> f32 {
    let nearest = value as f32;
    if value.is_nan() || f64::from(nearest) == value {
        return nearest;
    }
    let above = f64::from(nearest).abs() > value.abs();
    f32::from_bits((nearest.to_bits() - u32::from(above)) | 1)
}

#[cfg(test)]
mod tests {
    use super::{encode, rounded, truncated};

    #[test]
    fn the_nearest_of_ten_bits_ties_to_even() {
        let step = f64::exp2(-10.0);
        for (value, nearest) in [
            (1.0 + 0.5 * step, 1.0),
            (1.0 + 1.5 * step, 1.0 + 2.0 * step),
            (1.0 + 0.5 * step + f64::exp2(-40.0), 1.0 + step),
            (-(1.0 + 0.75 * step), -(1.0 + step)),
            (1e300, f64::INFINITY),
            (f64::from(f32::MAX), f64::INFINITY),
            (f64::exp2(-136.0), f64::exp2(-136.0)),
            (0.5 * f64::exp2(-136.0), 0.0),
        ] {
            assert_eq!(f64::from(encode(value)), nearest, "{value:e}");
        }
        assert!(encode(f64::NAN).is_nan() && rounded(f32::NAN).is_nan());
        assert_eq!(truncated(1.0 + f32::EPSILON), 1.0);
        assert_eq!(truncated(f32::NEG_INFINITY), f32::NEG_INFINITY);
    }
}
