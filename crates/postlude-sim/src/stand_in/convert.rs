//! Conversions between narrow and single precision.

/// The float of half precision.
pub(crate) fn of_f16(bits: u16) -> f32 {
    let (exponent, fraction) = (i32::from(bits >> 10 & 31), f32::from(bits & 0x3ff));
    let magnitude = match exponent {
        0 => fraction * 2f32.powi(-24),
        31 if fraction == 0.0 => f32::INFINITY,
        31 => f32::NAN,
        _ => (1024.0 + fraction) * 2f32.powi(exponent - 25),
    };
    if bits >> 15 == 1 { -magnitude } else { magnitude }
}

/// The float of the upper half.
pub(crate) fn of_bf16(bits: u16) -> f32 {
    f32::from_bits(u32::from(bits) << 16)
}

/// The nearest of half precision, ties to even; NaN is 0x7fff.
pub(crate) fn f16_of(value: f32) -> u16 {
    narrow(value, 10, 15)
}

/// The nearest upper half, ties to even; NaN is 0x7fff.
pub(crate) fn bf16_of(value: f32) -> u16 {
    if value.is_nan() {
        return 0x7fff;
    }
    let bits = value.to_bits();
    ((bits + 0x7fff + (bits >> 16 & 1)) >> 16) as u16
}

/// The nearest in 16 bits with so many bits of fraction, ties to even.
fn narrow(value: f32, fraction: u32, bias: i32) -> u16 {
    if value.is_nan() {
        return 0x7fff;
    }
    let sign = (value.to_bits() >> 16 & 0x8000) as u16;
    let infinity = (2 * bias as u16 + 1) << fraction;
    let magnitude = f64::from(value.abs());
    if magnitude.is_infinite() {
        return sign | infinity;
    }
    let exponent = (i32::from((value.to_bits() >> 23) as u8) - 127).max(1 - bias);
    let scaled = (magnitude * 2f64.powi(fraction as i32 - exponent)).round_ties_even() as u32;
    // A significand that rounds up to the next power carries into the exponent by itself.
    let bits = ((exponent + bias - 1) as u32) * (1 << fraction) + scaled;
    sign | (bits.min(u32::from(infinity)) as u16)
}

/// The float of an 8-bit one with so many bits of fraction; `finite` without infinities.
fn of_8(bits: u8, fraction: u32, bias: i32, finite: bool) -> f32 {
    let exponent = i32::from(bits >> fraction & ((1 << (7 - fraction)) - 1));
    let rest = bits & ((1 << fraction) - 1);
    let top = (1 << (7 - fraction)) - 1;
    let scale = |significand: i32, exponent: i32| significand as f32 * 2f32.powi(exponent);
    let magnitude = if exponent == 0 {
        scale(rest.into(), 1 - bias - fraction as i32)
    } else if finite && bits & 0x7f == 0x7f {
        f32::NAN
    } else if !finite && exponent == top {
        if rest == 0 { f32::INFINITY } else { f32::NAN }
    } else {
        scale(i32::from(rest) + (1 << fraction), exponent - bias - fraction as i32)
    };
    if bits >> 7 == 1 { -magnitude } else { magnitude }
}

pub(crate) fn of_e4m3(bits: u8) -> f32 {
    of_8(bits, 3, 7, true)
}

pub(crate) fn of_e5m2(bits: u8) -> f32 {
    of_8(bits, 2, 15, false)
}

/// The nearest finite 8-bit float.
fn to_8(value: f32, largest: u8, read: fn(u8) -> f32) -> u8 {
    if value.is_nan() {
        return 0x7f;
    }
    let sign = if value.is_sign_negative() { 0x80 } else { 0 };
    let magnitude = f64::from(value.abs());
    let near = (0..=largest).min_by(|one, other| {
        let far = |bits: u8| (f64::from(read(bits)) - magnitude).abs();
        far(*one).total_cmp(&far(*other)).then((one & 1).cmp(&(other & 1)))
    });
    sign | near.unwrap_or(0)
}

pub(crate) fn e4m3_of(value: f32) -> u8 {
    to_8(value, 0x7e, of_e4m3)
}

pub(crate) fn e5m2_of(value: f32) -> u8 {
    to_8(value, 0x7b, of_e5m2)
}

/// 10 bits of fraction, ties away from zero.
pub(crate) fn tf32_of(value: f32) -> u32 {
    if value.is_nan() {
        return 0x7fff_ffff;
    }
    let bits = value.to_bits();
    if value.is_infinite() { bits } else { bits.wrapping_add(0x1000) & !0x1fff }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn narrow_floats_are_read_back() {
        for bits in 0..=u16::MAX {
            let value = of_f16(bits);
            let want = if value.is_nan() { 0x7fff } else { bits };
            assert_eq!(f16_of(value), want, "{bits:#x}");
        }
        assert_eq!(f16_of(65520.0), 0x7c00);
        assert_eq!(f16_of(65519.0), 0x7bff);
        assert_eq!(bf16_of(1.0 + 2f32.powi(-8)), 0x3f80);
        assert_eq!((e4m3_of(448.0), e4m3_of(1000.0), e4m3_of(-1.0)), (0x7e, 0x7e, 0xb8));
    }
}
