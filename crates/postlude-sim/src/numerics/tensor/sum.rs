//! The fused sum: aligned, cut off, added exactly, and cut off again.
//!
//! Invariant: nothing here sees infinities or NaN, and no step rounds but those that say so.

use super::prepare::{ZERO, fraction_bits};
use super::{Core, Operand};

/// `K` elements of a row.
#[derive(Clone, Copy)]
pub(super) struct Lanes<const K: usize> {
    pub(super) significands: [i32; K],
    pub(super) exponents: [i32; K],
}

/// A number that is no product: `significand * 2^(exponent - fraction)`.
#[derive(Clone, Copy)]
pub(super) struct Term {
    significand: i32,
    exponent: i32,
    fraction: u32,
}

impl Term {
    pub(super) fn of_f32(bits: u32) -> Term {
        Term::of_fields(bits >> 31, (bits >> 23 & 0xff) as i32, bits & 0x7f_ffff, 23, 127)
    }

    pub(super) fn of_f16(bits: u16) -> Term {
        let bits = u32::from(bits);
        Term::of_fields(bits >> 15, (bits >> 10 & 0x1f) as i32, bits & 0x3ff, 10, 15)
    }

    #[inline(always)]
    fn of_fields(sign: u32, field: i32, part: u32, fraction: u32, bias: i32) -> Term {
        let (magnitude, exponent) = match (field, part) {
            (0, 0) => (0, ZERO),
            (0, _) => (part, 1 - bias),
            (_, _) => (part | 1 << fraction, field - bias),
        };
        let significand = if sign == 0 { magnitude as i32 } else { -(magnitude as i32) };
        Term { significand, exponent, fraction }
    }

    /// In units of `2^(largest - fraction)`, cut off.
    #[inline(always)]
    fn aligned(self, largest: i32, fraction: u32) -> i64 {
        let left = fraction as i32 - self.fraction as i32 - (largest - self.exponent);
        let magnitude = u64::from(self.significand.unsigned_abs());
        let aligned = if left >= 0 { magnitude << left } else { magnitude >> (-left).min(63) };
        if self.significand < 0 { -(aligned as i64) } else { aligned as i64 }
    }
}

/// How far terms are aligned, and what is kept of the sum.
#[derive(Clone, Copy)]
pub(super) struct Alignment {
    /// Fractional bits of aligned terms.
    fraction: u32,
    /// Bits that a product's own fraction lacks to that.
    product_shift: u32,
    /// Significant bits of a sum in single precision.
    pub(super) kept: u32,
}

impl Alignment {
    pub(super) fn new(core: Core, a: Operand, b: Operand) -> Alignment {
        let narrow = match (a, b) {
            (Operand::E4M3 | Operand::E5M2, Operand::E4M3 | Operand::E5M2) => true,
            (Operand::F16, Operand::F16)
            | (Operand::BF16, Operand::BF16)
            | (Operand::TF32, Operand::TF32) => false,
            (
                Operand::F16
                | Operand::BF16
                | Operand::TF32
                | Operand::E4M3
                | Operand::E5M2
                | Operand::S8
                | Operand::U8,
                _,
            ) => panic!("no unit sums products of {a:?} and {b:?} as floats"),
        };
        let (fraction, kept) = match (core, narrow) {
            (Core::Warpgroup, true) => (13, 14),
            (Core::Warpgroup | Core::HopperWarp, _) => (25, 24),
            (Core::AmpereWarp, _) => (24, 24),
        };
        let product_shift = fraction - fraction_bits(a) - fraction_bits(b);
        Alignment { fraction, product_shift, kept }
    }
}

/// A sum before it is cut off: `total * 2^unit`.
#[derive(Clone, Copy)]
pub(super) struct Sum {
    total: i64,
    unit: i32,
}

/// Products and the old accumulator in one step.
#[inline(always)]
pub(super) fn fused<const K: usize>(
    a: &Lanes<K>,
    b: &Lanes<K>,
    old: Term,
    alignment: Alignment,
) -> Sum {
    let exponents: [i32; K] = std::array::from_fn(|k| a.exponents[k] + b.exponents[k]);
    let largest = exponents.into_iter().fold(old.exponent, i32::max);
    let mut total = 0;
    for (k, exponent) in exponents.into_iter().enumerate() {
        let product = a.significands[k] * b.significands[k];
        // At most 22 bits, and 5 more for the alignment.
        let magnitude = product.unsigned_abs() << alignment.product_shift;
        let aligned = (magnitude >> (largest - exponent).min(31)) as i32;
        total += i64::from(if product < 0 { -aligned } else { aligned });
    }
    total += old.aligned(largest, alignment.fraction);
    Sum { total, unit: largest - alignment.fraction as i32 }
}

impl Sum {
    /// The exponent of the leading bit; the sum is not zero.
    fn top(self) -> i32 {
        63 - self.total.unsigned_abs().leading_zeros() as i32 + self.unit
    }

    /// Single precision with this many significant bits, cut off toward zero.
    #[inline(always)]
    pub(super) fn truncated(self, kept: u32) -> u32 {
        if self.total == 0 {
            return 0;
        }
        let sign = u32::from(self.total < 0) << 31;
        let top = self.top();
        if top > 127 {
            return sign | 0x7f80_0000;
        }
        let exponent = top.max(-126);
        let dropped = exponent - (kept as i32 - 1) - self.unit;
        let magnitude = self.total.unsigned_abs();
        let significand =
            if dropped >= 0 { magnitude >> dropped.min(63) } else { magnitude << -dropped } as u32;
        let significand = significand << (24 - kept);
        if significand == 0 {
            return 0;
        }
        // A leading bit adds one to the exponent field; subnormal numbers have none.
        sign | ((((exponent + 126) as u32) << 23) + significand)
    }

    /// Half precision, to nearest even.
    pub(super) fn nearest_half(self) -> u16 {
        if self.total == 0 {
            return 0;
        }
        let sign = u16::from(self.total < 0) << 15;
        let exponent = self.top().max(-14);
        if exponent > 15 {
            return sign | 0x7c00;
        }
        let dropped = exponent - 10 - self.unit;
        let magnitude = u128::from(self.total.unsigned_abs()) << 64;
        // 64 bits lie below the unit, so that every shift is to the right; what falls off even so is below half.
        let shift = (64 + dropped).clamp(1, 127);
        let whole = magnitude >> shift;
        let rest = magnitude - (whole << shift);
        let half = 1 << (shift - 1);
        let up = rest > half || rest == half && whole & 1 == 1;
        let significand = whole as u32 + u32::from(up);
        if significand == 0 {
            return 0;
        }
        // A carry out of the significand adds to the exponent field, up to infinity.
        sign | ((((exponent + 14) as u32) << 10) + significand) as u16
    }
}
