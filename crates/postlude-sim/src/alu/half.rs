//! Pairs of 16-bit floats, computed half by half and rounded once.

use postlude_ptx::types::Scalar;

use crate::stand_in::convert::{bf16_of, f16_of, of_bf16, of_f16};

use super::float::{Op, apply, choose};
use super::{Binary, Ternary, three, two};

/// How one half is read and rounded.
#[derive(Clone, Copy)]
struct Format {
    read: fn(u16) -> f32,
    round: fn(f32) -> u16,
}

const F16: Format = Format { read: of_f16, round: f16_of };
const BF16: Format = Format { read: of_bf16, round: bf16_of };
/// NaN as the hardware writes it, in either format.
const NAN: u16 = 0x7fff;

/// The format, and how many halves there are.
fn format(ty: Scalar) -> Option<(Format, u32)> {
    match ty {
        Scalar::F16 => Some((F16, 1)),
        Scalar::BF16 => Some((BF16, 1)),
        Scalar::F16x2 => Some((F16, 2)),
        Scalar::BF16x2 => Some((BF16, 2)),
        _ => None,
    }
}

/// Bits of the signs of a float type.
pub(super) fn signs(ty: Scalar) -> Option<u64> {
    match ty {
        Scalar::F32 => Some(0x8000_0000),
        Scalar::F16 | Scalar::BF16 => Some(0x8000),
        Scalar::F16x2 | Scalar::BF16x2 => Some(0x8000_8000),
        _ => None,
    }
}

fn each(halves: u32, f: impl Fn(u32) -> u16) -> u64 {
    (0..halves).fold(0, |result, half| result | u64::from(f(16 * half)) << (16 * half))
}

fn finish(format: Format, value: f32) -> u16 {
    if value.is_nan() { NAN } else { (format.round)(value) }
}

/// Single precision has more than twice the bits and two more, so that rounding twice is rounding once.
pub(super) fn binary(op: Op, ty: Scalar) -> Option<Binary> {
    let (format, halves) = format(ty)?;
    Some(two(move |a, b| {
        each(halves, |shift| {
            let half = |value: u64| (format.read)((value >> shift) as u16);
            finish(format, apply(op, half(a), half(b)))
        })
    }))
}

pub(super) fn extreme(smaller: bool, nan: bool, ty: Scalar) -> Option<Binary> {
    let (format, halves) = format(ty)?;
    Some(two(move |a, b| {
        each(halves, |shift| {
            let half = |value: u64| (format.read)((value >> shift) as u16);
            finish(format, choose(smaller, nan, half(a), half(b)))
        })
    }))
}

pub(super) fn fma(ty: Scalar) -> Option<Ternary> {
    let (format, halves) = format(ty)?;
    Some(three(move |a, b, c| {
        each(halves, |shift| {
            let half = |value: u64| f64::from((format.read)((value >> shift) as u16));
            let sum = odd_sum(half(a) * half(b), half(c));
            finish(format, narrow_odd(sum))
        })
    }))
}

/// A sum rounded to odd: what is lost still shows in the last bit, so that a later rounding to fewer bits is right.
fn odd_sum(a: f64, b: f64) -> f64 {
    let sum = a + b;
    if !sum.is_finite() {
        return sum;
    }
    let back = sum - a;
    let lost = (a - (sum - back)) + (b - back);
    toward_odd(sum, lost)
}

/// Moves to the neighbour with an odd last bit, in the direction of what was lost.
fn toward_odd(value: f64, lost: f64) -> f64 {
    if lost == 0.0 || value.to_bits() & 1 == 1 {
        value
    } else if (lost > 0.0) == (value > 0.0) {
        f64::from_bits(value.to_bits() + 1)
    } else {
        f64::from_bits(value.to_bits() - 1)
    }
}

/// Single precision, rounded to odd.
fn narrow_odd(value: f64) -> f32 {
    let near = value as f32;
    let lost = value - f64::from(near);
    if !near.is_finite() || lost == 0.0 || near.to_bits() & 1 == 1 {
        near
    } else if (lost > 0.0) == (value > 0.0) {
        f32::from_bits(near.to_bits() + 1)
    } else {
        f32::from_bits(near.to_bits().wrapping_sub(1))
    }
}
