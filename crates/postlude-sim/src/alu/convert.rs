//! Conversions.

use postlude_ptx::modifier::{Rounding, Saturation};
use postlude_ptx::types::Scalar;

use crate::stand_in::convert as narrow;

use super::float::{bits, read};
use super::{Binary, Unary, one, two};

/// How an integer type reads a register: bits, and whether it has a sign.
fn integer(ty: Scalar) -> Option<(u32, bool)> {
    match ty {
        Scalar::U8 | Scalar::B8 => Some((8, false)),
        Scalar::U16 | Scalar::B16 => Some((16, false)),
        Scalar::U32 | Scalar::B32 => Some((32, false)),
        Scalar::U64 | Scalar::B64 => Some((64, false)),
        Scalar::S8 => Some((8, true)),
        Scalar::S16 => Some((16, true)),
        Scalar::S32 => Some((32, true)),
        Scalar::S64 => Some((64, true)),
        Scalar::F16
        | Scalar::BF16
        | Scalar::F32
        | Scalar::TF32
        | Scalar::E4M3
        | Scalar::E5M2
        | Scalar::F16x2
        | Scalar::BF16x2
        | Scalar::E4M3x2
        | Scalar::E5M2x2
        | Scalar::Pred => None,
    }
}

/// The number in a register of an integer type.
pub(crate) fn read_integer(value: u64, (width, signed): (u32, bool)) -> i128 {
    let unused = 64 - width;
    if signed {
        i128::from((value << unused) as i64 >> unused)
    } else {
        i128::from(value << unused >> unused)
    }
}

fn range((width, signed): (u32, bool)) -> (i128, i128) {
    if signed { (-(1 << (width - 1)), (1 << (width - 1)) - 1) } else { (0, (1 << width) - 1) }
}

/// A conversion of one value.
pub(super) fn single(
    rounding: Rounding,
    saturation: Saturation,
    to: Scalar,
    from: Scalar,
) -> Option<Unary> {
    match (integer(from), integer(to)) {
        (Some(from), Some(to)) => Some(between_integers(from, to, saturation)),
        (Some(from), None) => {
            (to == Scalar::F32 && rounding == Rounding::Nearest && saturation == Saturation::None)
                .then(|| one(move |a| bits(read_integer(a, from) as f32)))
        }
        (None, Some(to)) => to_integer(rounding, from, to),
        (None, None) => between_floats(rounding, saturation, to, from),
    }
}

/// Sign or zero extension to whatever the register holds, after the range where one is asked for.
fn between_integers(from: (u32, bool), to: (u32, bool), saturation: Saturation) -> Unary {
    let (low, high) = range(to);
    let limited = saturation != Saturation::None;
    one(move |a| {
        let value = read_integer(a, from);
        let value = if limited { value.clamp(low, high) } else { value };
        read_integer(value as u64, to) as u64
    })
}

fn round_whole(rounding: Rounding) -> Option<fn(f32) -> f32> {
    match rounding {
        Rounding::NearestWhole => Some(f32::round_ties_even),
        Rounding::ZeroWhole => Some(f32::trunc),
        Rounding::DownWhole => Some(f32::floor),
        Rounding::UpWhole => Some(f32::ceil),
        Rounding::None
        | Rounding::Nearest
        | Rounding::Zero
        | Rounding::Down
        | Rounding::Up
        | Rounding::NearestAway => None,
    }
}

/// Out of range the limit; NaN is 0, and for 64 bits the upper bit.
fn to_integer(rounding: Rounding, from: Scalar, to: (u32, bool)) -> Option<Unary> {
    let round = round_whole(rounding)?;
    let (low, high) = range(to);
    let nan = if to.0 == 64 { 1 << 63 } else { 0 };
    (from == Scalar::F32).then(|| {
        one(move |a| {
            let value = round(read(a));
            if value.is_nan() { nan } else { (value as i128).clamp(low, high) as u64 }
        })
    })
}

fn between_floats(
    rounding: Rounding,
    saturation: Saturation,
    to: Scalar,
    from: Scalar,
) -> Option<Unary> {
    let plain = saturation == Saturation::None;
    match (from, to, rounding) {
        (Scalar::F32, Scalar::F32, _) => {
            let round = match rounding {
                Rounding::None => |x| x,
                _ => round_whole(rounding)?,
            };
            Some(one(move |a| {
                let value = round(read(a));
                // NaN saturates to 0.
                bits(if plain { value } else { value.max(0.0).min(1.0) })
            }))
        }
        (Scalar::F16, Scalar::F32, Rounding::None) if plain => {
            Some(one(|a| bits(narrow::of_f16(a as u16))))
        }
        (Scalar::BF16, Scalar::F32, Rounding::None) if plain => {
            Some(one(|a| bits(narrow::of_bf16(a as u16))))
        }
        (Scalar::F32, Scalar::F16, Rounding::Nearest) if plain => {
            Some(one(|a| narrow::f16_of(read(a)).into()))
        }
        (Scalar::F32, Scalar::BF16, Rounding::Nearest) if plain => {
            Some(one(|a| narrow::bf16_of(read(a)).into()))
        }
        (Scalar::F32, Scalar::TF32, Rounding::NearestAway) if plain => {
            Some(one(|a| narrow::tf32_of(read(a)).into()))
        }
        (Scalar::E4M3x2, Scalar::F16x2, Rounding::Nearest) if plain => {
            Some(unpack(narrow::of_e4m3))
        }
        (Scalar::E5M2x2, Scalar::F16x2, Rounding::Nearest) if plain => {
            Some(unpack(narrow::of_e5m2))
        }
        _ => None,
    }
}

fn unpack(format: fn(u8) -> f32) -> Unary {
    one(move |a| {
        let half = |byte: u64| u64::from(narrow::f16_of(format(byte as u8)));
        half(a) | half(a >> 8) << 16
    })
}

/// A conversion of two values: `a` the upper, `b` the lower half.
pub(super) fn pair(
    rounding: Rounding,
    saturation: Saturation,
    to: Scalar,
    from: Scalar,
) -> Option<Binary> {
    if from != Scalar::F32 || rounding != Rounding::Nearest {
        return None;
    }
    let wide =
        |f: fn(f32) -> u16| two(move |a, b| u64::from(f(read(b))) | u64::from(f(read(a))) << 16);
    let slim =
        |f: fn(f32) -> u8| two(move |a, b| u64::from(f(read(b))) | u64::from(f(read(a))) << 8);
    match (to, saturation) {
        (Scalar::F16x2, Saturation::None) => Some(wide(narrow::f16_of)),
        (Scalar::BF16x2, Saturation::None) => Some(wide(narrow::bf16_of)),
        (Scalar::E4M3x2, Saturation::Finite) => Some(slim(narrow::e4m3_of)),
        (Scalar::E5M2x2, Saturation::Finite) => Some(slim(narrow::e5m2_of)),
        _ => None,
    }
}
