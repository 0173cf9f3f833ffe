//! Sums, products and extremes of floats.
//!
//! Invariant: one rounding, to nearest even. Narrow floats are computed in f64 with a last bit that remembers what was
//! lost (rounding to odd), so that the rounding to 16 bits is the only one.

use postlude_ptx::types::Scalar;

use super::{Fault, lanes, ones};
use crate::numerics::approx::with_one_nan;
use crate::numerics::float::{Format, Number, Overflow, Rounding};

/// What two floats become.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum FloatOp {
    /// `add.rn`
    Add,
    /// `sub.rn`
    Sub,
    /// `mul.rn`
    Mul,
    /// `min`: of a number and NaN the number. -0 is less than +0.
    Min,
    /// `min.NaN`
    MinNan,
    /// `max`: of a number and NaN the number. -0 is less than +0.
    Max,
    /// `max.NaN`
    MaxNan,
}

/// An operation on each lane.
pub fn float_binary(op: FloatOp, ty: Scalar, a: u32, b: u32) -> Result<u32, Fault> {
    each_lane(ty, |format, shift| one(op, format, a >> shift, b >> shift))
}

/// `fma.rn` on each lane.
pub fn fused(ty: Scalar, a: u32, b: u32, c: u32) -> Result<u32, Fault> {
    each_lane(ty, |format, shift| {
        if format == Format::F32 {
            return single(f32::from_bits(a).mul_add(f32::from_bits(b), f32::from_bits(c)));
        }
        let value = |bits: u32| value(format, u64::from(bits >> shift));
        // A product of two narrow significands is exact in f64.
        rounded(format, add_to_odd(value(a) * value(b), value(c)))
    })
}

fn each_lane(ty: Scalar, lane: impl Fn(Format, u32) -> u32) -> Result<u32, Fault> {
    let (format, count) = lanes(ty).ok_or(Fault::Unsupported)?;
    Ok((0..count).map(|at| lane(format, at * format.width()) << (at * format.width())).sum())
}

fn one(op: FloatOp, format: Format, a: u32, b: u32) -> u32 {
    match op {
        FloatOp::Add => sum(format, a, b),
        FloatOp::Sub => sum(format, a, b ^ 1 << (format.width() - 1)),
        FloatOp::Mul => product(format, a, b),
        FloatOp::Min => extreme(format, (a, b), true, false),
        FloatOp::MinNan => extreme(format, (a, b), true, true),
        FloatOp::Max => extreme(format, (a, b), false, false),
        FloatOp::MaxNan => extreme(format, (a, b), false, true),
    }
}

fn sum(format: Format, a: u32, b: u32) -> u32 {
    if format == Format::F32 {
        return single(f32::from_bits(a) + f32::from_bits(b));
    }
    rounded(format, add_to_odd(value(format, a.into()), value(format, b.into())))
}

fn product(format: Format, a: u32, b: u32) -> u32 {
    if format == Format::F32 {
        return single(f32::from_bits(a) * f32::from_bits(b));
    }
    rounded(format, value(format, a.into()) * value(format, b.into()))
}

/// The smaller or larger; with a NaN the other, or NaN.
fn extreme(format: Format, bits: (u32, u32), least: bool, keep_nan: bool) -> u32 {
    let (a, b) = (value(format, bits.0.into()), value(format, bits.1.into()));
    let first = match (a.is_nan(), b.is_nan()) {
        (true, true) => return format.nan() as u32,
        (true, false) | (false, true) if keep_nan => return format.nan() as u32,
        (true, false) => false,
        (false, true) => true,
        // The total order has -0 before +0.
        (false, false) => a.total_cmp(&b).is_lt() == least,
    };
    (if first { bits.0 } else { bits.1 }) & ones(format.width()) as u32
}

fn single(value: f32) -> u32 {
    with_one_nan(value).to_bits()
}

/// The value of a float of at most 32 bits, exactly.
pub(super) fn value(format: Format, bits: u64) -> f64 {
    if format == Format::F32 {
        return f32::from_bits(bits as u32).into();
    }
    match format.decode(bits) {
        Number::Nan => f64::NAN,
        Number::Infinite { negative: false } => f64::INFINITY,
        Number::Infinite { negative: true } => f64::NEG_INFINITY,
        Number::Finite { negative, significand, exponent } => {
            let magnitude = significand as f64 * 2f64.powi(exponent);
            if negative { -magnitude } else { magnitude }
        }
    }
}

/// Rounds an f64 that is exact, or odd and off by less than its last bit.
fn rounded(format: Format, value: f64) -> u32 {
    let number = Format::F64.decode(value.to_bits());
    format.encode(number, Rounding::Nearest, Overflow::Round) as u32
}

/// `x + y` if f64 has it, else the odd one of the two neighbours.
fn add_to_odd(x: f64, y: f64) -> f64 {
    let sum = x + y;
    if !sum.is_finite() {
        return sum;
    }
    // The error of the sum, exactly (Knuth).
    let part = sum - x;
    let error = (x - (sum - part)) + (y - part);
    if error == 0.0 || sum.to_bits() & 1 == 1 {
        return sum;
    }
    let outward = (error > 0.0) == (sum > 0.0);
    f64::from_bits(if outward { sum.to_bits() + 1 } else { sum.to_bits() - 1 })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::numerics::random::Random;

    const OPS: [FloatOp; 7] = [
        FloatOp::Add,
        FloatOp::Sub,
        FloatOp::Mul,
        FloatOp::Min,
        FloatOp::MinNan,
        FloatOp::Max,
        FloatOp::MaxNan,
    ];

    /// Significands as integers over a common exponent: exact where the exponents are at most 100 apart.
    fn exact_sum(x: Number, y: Number, format: Format) -> Option<u64> {
        let (
            Number::Finite { negative: p, significand: s, exponent: e },
            Number::Finite { negative: q, significand: t, exponent: f },
        ) = (x, y)
        else {
            return None;
        };
        let low = e.min(f);
        if e.max(f) - low > 60 {
            return None;
        }
        let term = |negative, s: u64, e: i32| {
            let magnitude = i128::from(s) << (e - low);
            if negative { -magnitude } else { magnitude }
        };
        let total = term(p, s, e) + term(q, t, f);
        let mut magnitude = total.unsigned_abs();
        let mut exponent = low;
        // To 64 bits, with a sticky last one.
        while magnitude >> 64 != 0 {
            magnitude = magnitude >> 1 | magnitude & 1;
            exponent += 1;
        }
        let negative = total < 0 || total == 0 && p && q;
        let number = Number::Finite { negative, significand: magnitude as u64, exponent };
        Some(format.encode(number, Rounding::Nearest, Overflow::Round))
    }

    fn exact_product(x: Number, y: Number) -> Option<Number> {
        match (x, y) {
            (
                Number::Finite { negative: p, significand: s, exponent: e },
                Number::Finite { negative: q, significand: t, exponent: f },
            ) => Some(Number::Finite { negative: p != q, significand: s * t, exponent: e + f }),
            _ => None,
        }
    }

    #[test]
    fn lanes_equal_exact_integer_arithmetic() {
        let mut random = Random::new(10);
        let mut checked = 0;
        for (ty, format) in
            [(Scalar::F16, Format::F16), (Scalar::BF16, Format::BF16), (Scalar::F32, Format::F32)]
        {
            for _ in 0..300_000 {
                let [a, b, c] = [(); 3].map(|()| random.bits() >> (32 - format.width()));
                // Exponents close to each other, so that sums cancel.
                let c = if random.below(8) == 0 {
                    c & format.nan() as u32 >> 3 | b & !(format.nan() as u32 >> 3)
                } else {
                    c
                };
                let [x, y, z] = [a, b, c].map(|bits| format.decode(bits.into()));
                if let Some(want) = exact_sum(y, z, format) {
                    assert_eq!(float_binary(FloatOp::Add, ty, b, c), Ok(want as u32));
                    let minus = c ^ 1 << (format.width() - 1);
                    assert_eq!(float_binary(FloatOp::Sub, ty, b, minus), Ok(want as u32));
                    checked += 1;
                }
                let Some(product) = exact_product(x, y) else { continue };
                let want = format.encode(product, Rounding::Nearest, Overflow::Round);
                assert_eq!(float_binary(FloatOp::Mul, ty, a, b), Ok(want as u32));
                if let Some(want) = exact_sum(product, z, format) {
                    assert_eq!(fused(ty, a, b, c), Ok(want as u32), "{a:x} {b:x} {c:x} {ty}");
                    checked += 1;
                }
            }
        }
        assert!(checked > 500_000, "{checked}");
    }

    /// Terms so far apart that the smaller only decides ties.
    #[test]
    fn distant_terms_break_ties() {
        // 1 + 2^-8 is a tie in bf16; 2^-100 decides it.
        let (one, tie, tiny) = (0x3f80, 0x3b80, 0x0d80_u32);
        assert_eq!(float_binary(FloatOp::Add, Scalar::BF16, one, tie), Ok(one));
        let sum = |c| fused(Scalar::BF16, 0x3f81, 0x3f80, c);
        assert_eq!(sum(tie), Ok(0x3f82));
        assert_eq!(sum(tie | 0x8000), Ok(0x3f80));
        // (1 + 2^-7)(1 + 2^-1) = 1.5 + 3 * 2^-8 is a tie; +-2^-100 decides it.
        let with = |c| fused(Scalar::BF16, 0x3f81, 0x3fc0, c);
        assert_eq!(
            [with(tiny), with(0), with(tiny | 0x8000)],
            [Ok(0x3fc2), Ok(0x3fc2), Ok(0x3fc1)]
        );
    }

    #[test]
    fn single_precision_fuses_as_exact_f64_does() {
        let mut random = Random::new(11);
        for _ in 0..300_000 {
            let [a, b, c] = [random.bits(), random.bits(), random.bits()];
            let [x, y, z] = [a, b, c].map(|bits| f64::from(f32::from_bits(bits)));
            let want = rounded(Format::F32, add_to_odd(x * y, z));
            assert_eq!(fused(Scalar::F32, a, b, c), Ok(want), "{a:x} {b:x} {c:x}");
        }
    }

    #[test]
    fn infinities_and_nan() {
        let (infinite, minus, nan) = (0x7f80_0000, 0xff80_0000, 0x7fff_ffff);
        let with = |op, a, b| float_binary(op, Scalar::F32, a, b).unwrap();
        assert_eq!(with(FloatOp::Add, infinite, minus), nan);
        assert_eq!(with(FloatOp::Mul, infinite, 0x8000_0000), nan);
        assert_eq!(with(FloatOp::Sub, 0xffc0_0001, 0), nan);
        assert_eq!(fused(Scalar::F32, infinite, 0, 0), Ok(nan));
        assert_eq!(fused(Scalar::F16x2, 0x7c00_7c00, 0x0000_3c00, 0xfc00_fc00), Ok(0x7fff_7fff));
        assert_eq!(fused(Scalar::BF16x2, 0x7f80_3f80, 0x3f80_3f80, 0x3f80_3f80), Ok(0x7f80_4000));
        for op in OPS {
            assert_eq!(with(op, 0xffc1_0000, 0x7f81_0000), nan, "{op:?}");
            assert_eq!(float_binary(op, Scalar::U32, 0, 0), Err(Fault::Unsupported));
        }
    }

    #[test]
    fn extremes_order_zeros_and_drop_or_keep_nan() {
        let with = |op, ty, a, b| float_binary(op, ty, a, b).unwrap();
        let (minus, nan, one) = (0x8000_0000, 0xffc0_0000, 0x3f80_0000);
        for (a, b) in [(0, minus), (minus, 0)] {
            assert_eq!(with(FloatOp::Min, Scalar::F32, a, b), minus);
            assert_eq!(with(FloatOp::MaxNan, Scalar::F32, a, b), 0);
        }
        for (a, b) in [(nan, one), (one, nan)] {
            assert_eq!(with(FloatOp::Min, Scalar::F32, a, b), one);
            assert_eq!(with(FloatOp::Max, Scalar::F32, a, b), one);
            assert_eq!(with(FloatOp::MinNan, Scalar::F32, a, b), 0x7fff_ffff);
            assert_eq!(with(FloatOp::MaxNan, Scalar::F32, a, b), 0x7fff_ffff);
        }
        assert_eq!(with(FloatOp::Max, Scalar::F16x2, 0x7e00_3c00, 0xc000_4000), 0xc000_4000);
        assert_eq!(with(FloatOp::MaxNan, Scalar::BF16x2, 0x7fc0_3f80, 0xc000_bf80), 0x7fff_3f80);
        assert_eq!(with(FloatOp::Min, Scalar::F32, 1, 2), 1, "subnormal numbers count");
    }

    #[test]
    fn subnormal_results_are_kept() {
        let with = |op, ty, a, b| float_binary(op, ty, a, b).unwrap();
        assert_eq!(with(FloatOp::Mul, Scalar::F32, 0x0080_0000, 0x3f00_0000), 0x0040_0000);
        assert_eq!(with(FloatOp::Add, Scalar::F16, 1, 1), 2);
        assert_eq!(with(FloatOp::Mul, Scalar::BF16, 0x0080, 0x3f00), 0x0040);
        assert_eq!(with(FloatOp::Mul, Scalar::BF16, 1, 0xbf00), 0x8000, "ties to even zero");
    }
}
