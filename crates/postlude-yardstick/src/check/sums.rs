//! How far two right products of the same operands may be apart.

use postlude::graph::Accumulation;
use postlude::{DType, MathMode};

use crate::suite::Row;

/// No number of even 10^12 normal ones is as many deviations away.
const DEVIATIONS: f64 = 8.0;
/// What an instruction sums of 8-bit floats, and the fractional bits that its terms keep.
const EIGHT_BIT_DEPTH: f64 = 32.0;
const EIGHT_BIT_FRACTION: f64 = 13.0;

/// How far two right products of a row, multiplied by `alpha`, may be apart, and the largest magnitude that there may be.
///
/// A sum of k products of normal numbers has a deviation of `sqrt(k)`. Integers are uniform, a byte's deviation is below 74,
/// and their sums are exact.
pub(crate) fn sums(row: &Row, alpha: f64) -> (f64, f64) {
    let k = row.sizes[2] as f64;
    let largest = DEVIATIONS * k.sqrt() * alpha.abs();
    match row.dtype {
        DType::F8E4M3 | DType::F8E5M2 => (eight_bit(k, row.math) * alpha.abs(), largest),
        DType::I8 | DType::U8 => (0.0, 74.0 * 74.0 * largest),
        DType::TF32 => (wide(k, 8.0) * largest, largest),
        DType::F16
        | DType::BF16
        | DType::F32
        | DType::F8E8M0
        | DType::I32
        | DType::I64
        | DType::Bool
        | DType::B1
        | DType::I4
        | DType::U4 => (wide(k, 16.0) * largest, largest),
    }
}

/// Of two kernels, in units of the largest magnitude, where an instruction sums this many products.
///
/// The tensor cores align these and the sum before to the largest and cut each off 25 bits below it, and the total at 24
/// bits.
fn wide(k: f64, depth: f64) -> f64 {
    let step = (depth + 1.0) * f64::exp2(-25.0) + f64::exp2(-23.0);
    2.0 * (k / depth).ceil() * step
}

/// Of two kernels that multiply 8-bit floats (docs/numerics.md, "The accumulator").
///
/// An instruction cuts 32 products, the sum before and the total off 13 bits below the largest. If every error had its
/// bound and the same sign, the sum of a long contraction would mean nothing; but terms have either sign, and so have their
/// errors: 34 that are uniform within a unit have a deviation of 3.4 units. A unit is in proportion to the sum before,
/// whose deviation grows with the K that stays in the tensor core. A sum `s` of its deviations away whose error is `c` of
/// its own away has `s^2 + c^2 < 8^2`, so `s * c` is below 32. Errors of two kernels are independent. Only the cut of the
/// total is always towards zero, on the mean by half a unit: for as long as a sum keeps its sign, these add up.
fn eight_bit(k: f64, math: MathMode) -> f64 {
    let (depth, drift) = match math {
        MathMode::Fast => (k, 0.5 * (k / EIGHT_BIT_DEPTH).ceil()),
        // The sums of one stage after the other have either sign.
        MathMode::Default | MathMode::Accurate => (f64::from(Accumulation::PROMOTED_DEPTH), 0.0),
    };
    let unit = depth.min(k).sqrt() * f64::exp2(-EIGHT_BIT_FRACTION);
    let joint = DEVIATIONS * DEVIATIONS / 2.0;
    let instructions = (k / EIGHT_BIT_DEPTH).ceil();
    let cut = joint * std::f64::consts::SQRT_2 * 3.4 * instructions.sqrt() * unit;
    let added = 2.0 * (k / depth).ceil() * f64::exp2(-24.0) * DEVIATIONS * k.sqrt();
    cut + DEVIATIONS * drift * unit + added
}
