//! Functions that the hardware approximates.
//!
//! In: a float. Out: a float near the true value: the f64 result, rounded. **Inexact by construction**: the hardware's
//! tables are not published, so a result may differ from a GPU's, and between two machines where their f64 functions
//! differ, by no more than [`allowed`]. Special cases are exact (PTX ISA, the tables of "ex2", "lg2", "rcp", "rsqrt",
//! "sqrt", "tanh", "sin", "cos" and "div"). Invariant: NaN is the one of all ones.

use std::hint::black_box;

use postlude_ptx::modifier::Approx;

const NAN: f32 = f32::from_bits(0x7fff_ffff);

/// The number, or the one NaN. A compiler that saw which bits are chosen could take the NaN that is there for it: to LLVM
/// any NaN is as good as another.
pub(crate) fn with_one_nan(value: f32) -> f32 {
    if value.is_nan() { f32::from_bits(black_box(NAN.to_bits())) } else { value }
}

/// Whether subnormal operands and results are zeros of their sign (`.ftz`).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Subnormals {
    /// They count.
    Keep,
    /// They are zeros.
    Flush,
}

/// A function by its name.
pub fn approx(function: Approx, x: f32) -> f32 {
    match function {
        Approx::Ex2 => ex2(x, Subnormals::Keep),
        Approx::Ex2Flush => ex2(x, Subnormals::Flush),
        Approx::Lg2 => lg2(x, Subnormals::Keep),
        Approx::Rcp => rcp(x, Subnormals::Keep),
        Approx::RcpFlush => rcp(x, Subnormals::Flush),
        Approx::Rsqrt => rsqrt(x, Subnormals::Keep),
        Approx::RsqrtFlush => rsqrt(x, Subnormals::Flush),
        Approx::Sqrt => sqrt(x, Subnormals::Keep),
        Approx::Tanh => tanh(x),
        Approx::Sin => sin(x, Subnormals::Keep),
        Approx::Cos => cos(x, Subnormals::Keep),
    }
}

fn flushed(x: f32, subnormals: Subnormals) -> f32 {
    match subnormals {
        Subnormals::Flush if x.is_subnormal() => 0f32.copysign(x),
        Subnormals::Flush | Subnormals::Keep => x,
    }
}

/// The function in f64, with both ends flushed where asked, and one NaN.
fn through(x: f32, subnormals: Subnormals, function: impl Fn(f64) -> f64) -> f32 {
    let result = function(f64::from(flushed(x, subnormals))) as f32;
    with_one_nan(flushed(result, subnormals))
}

/// 2 to the power of x: at -Inf +0, at +Inf +Inf.
pub fn ex2(x: f32, subnormals: Subnormals) -> f32 {
    through(x, subnormals, f64::exp2)
}

/// Logarithm to base 2: -Inf at zeros of either sign, NaN below.
pub fn lg2(x: f32, subnormals: Subnormals) -> f32 {
    through(x, subnormals, f64::log2)
}

/// 1 / x: infinite at zeros, zero at infinities, with the sign of x.
pub fn rcp(x: f32, subnormals: Subnormals) -> f32 {
    through(x, subnormals, f64::recip)
}

/// 1 / sqrt(x): infinite at zeros with their sign, NaN below.
pub fn rsqrt(x: f32, subnormals: Subnormals) -> f32 {
    through(x, subnormals, |x| x.sqrt().recip())
}

/// Square root: zeros keep their sign, NaN below.
pub fn sqrt(x: f32, subnormals: Subnormals) -> f32 {
    through(x, subnormals, f64::sqrt)
}

/// Hyperbolic tangent; it has no flushing form, and subnormal numbers stay as they are.
pub fn tanh(x: f32) -> f32 {
    through(x, Subnormals::Keep, f64::tanh)
}

/// Sine; NaN at infinities.
pub fn sin(x: f32, subnormals: Subnormals) -> f32 {
    through(x, subnormals, f64::sin)
}

/// Cosine; NaN at infinities.
pub fn cos(x: f32, subnormals: Subnormals) -> f32 {
    through(x, subnormals, f64::cos)
}

/// `div.full`: here the quotient rounded to nearest; off by at most 2 units in the last place (PTX ISA, "div").
pub fn divide_full(a: f32, b: f32) -> f32 {
    with_one_nan(a / b)
}

/// Units in the last place that `div.full` may be off.
pub const DIVIDE_FULL_ULPS: f64 = 2.0;

/// How far a result may be from the true one at `x`, as the PTX ISA states it; infinite where it states nothing.
pub fn allowed(function: Approx, x: f32) -> f64 {
    let x = f64::from(x);
    let ulps = |count: f64, value: f64| count * unit(value);
    match function {
        Approx::Ex2 | Approx::Ex2Flush => ulps(2.0, x.exp2()),
        // Absolute near one, relative elsewhere.
        Approx::Lg2 if x > 0.5 && x < 2.0 => 2f64.powi(-22),
        Approx::Lg2 => 2f64.powi(-22) * x.log2().abs(),
        Approx::Rcp | Approx::RcpFlush => ulps(1.0, x.recip()),
        Approx::Rsqrt | Approx::RsqrtFlush => 2f64.powf(-22.9) / x.sqrt(),
        Approx::Sqrt => 2f64.powi(-23) * x.sqrt(),
        Approx::Tanh => 2f64.powi(-11) * x.tanh().abs(),
        Approx::Sin | Approx::Cos => {
            let turns = x.abs() / std::f64::consts::PI;
            if turns <= 2.0 {
                2f64.powf(-20.5)
            } else if turns <= 100.0 {
                2f64.powf(-14.7)
            } else {
                f64::INFINITY
            }
        }
    }
}

/// The distance of neighbouring floats at a value.
fn unit(value: f64) -> f64 {
    let exponent = ((value.abs().to_bits() >> 52) as i32 - 1023).clamp(-126, 127);
    2f64.powi(exponent - 23)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::numerics::random::Random;

    const INF: f32 = f32::INFINITY;
    const TINY: f32 = f32::from_bits(1);

    fn bits(function: Approx, x: f32) -> u32 {
        approx(function, x).to_bits()
    }

    /// The tables of the PTX ISA, row by row.
    #[test]
    fn special_cases_are_those_of_the_tables() {
        let nan = NAN.to_bits();
        let rows: &[(Approx, &[(f32, f32)])] = &[
            (
                Approx::Ex2,
                &[(-INF, 0.0), (-0.0, 1.0), (0.0, 1.0), (TINY, 1.0), (-TINY, 1.0), (INF, INF)],
            ),
            (
                Approx::Ex2Flush,
                &[(-INF, 0.0), (-126.5, 0.0), (-126.0, f32::MIN_POSITIVE), (128.0, INF)],
            ),
            (Approx::Lg2, &[(-0.0, -INF), (0.0, -INF), (TINY, -149.0), (INF, INF), (1.0, 0.0)]),
            (Approx::Rcp, &[(-INF, -0.0), (-0.0, -INF), (0.0, INF), (INF, 0.0)]),
            (Approx::RcpFlush, &[(TINY, INF), (-TINY, -INF), (f32::MAX, 0.0), (-f32::MAX, -0.0)]),
            (Approx::Rsqrt, &[(-0.0, -INF), (0.0, INF), (INF, 0.0), (4.0, 0.5)]),
            (Approx::RsqrtFlush, &[(TINY, INF), (-TINY, -INF)]),
            (Approx::Sqrt, &[(-0.0, -0.0), (0.0, 0.0), (INF, INF)]),
            (Approx::Tanh, &[(-INF, -1.0), (-0.0, -0.0), (0.0, 0.0), (INF, 1.0), (TINY, TINY)]),
            (Approx::Sin, &[(-0.0, -0.0), (0.0, 0.0), (TINY, TINY)]),
            (Approx::Cos, &[(-0.0, 1.0), (0.0, 1.0), (TINY, 1.0)]),
        ];
        for (function, cases) in rows {
            for (x, want) in *cases {
                assert_eq!(bits(*function, *x), want.to_bits(), "{function} of {x:e}");
            }
            assert_eq!(bits(*function, f32::from_bits(0xffc0_0001)), nan, "{function}");
        }
        for function in [Approx::Lg2, Approx::Rsqrt, Approx::Sqrt] {
            for x in [-INF, -1.0, -TINY] {
                assert_eq!(bits(function, x), nan, "{function} of {x:e}");
            }
        }
        for x in [-INF, INF] {
            assert_eq!((bits(Approx::Sin, x), bits(Approx::Cos, x)), (nan, nan));
        }
    }

    #[test]
    fn values_are_within_what_is_stated() {
        let mut random = Random::new(15);
        for _ in 0..100_000 {
            let x = f32::from_bits(random.bits());
            let small = (random.bits() as i32) as f32 / 2f32.powi(25);
            for x in [x, small, small.abs() + 1e-3] {
                for function in Approx::ALL {
                    let wide = f64::from(x);
                    let want = match function {
                        Approx::Ex2 => wide.exp2(),
                        Approx::Lg2 => wide.log2(),
                        Approx::Rcp => 1.0 / wide,
                        Approx::Rsqrt => 1.0 / wide.sqrt(),
                        Approx::Sqrt => wide.sqrt(),
                        Approx::Tanh => wide.tanh(),
                        Approx::Sin => wide.sin(),
                        Approx::Cos => wide.cos(),
                        Approx::Ex2Flush | Approx::RcpFlush | Approx::RsqrtFlush => continue,
                    };
                    let got = f64::from(approx(*function, x));
                    if want.is_finite() && got.is_finite() {
                        // Subnormal results have an absolute half unit of their own.
                        let allowed = allowed(*function, x).max(2f64.powi(-150));
                        assert!((got - want).abs() <= allowed, "{function} of {x:e}: {got:e}");
                    }
                }
            }
        }
    }

    #[test]
    fn quotients_are_the_nearest() {
        assert_eq!(divide_full(1.0, 3.0), 1.0 / 3.0);
        assert_eq!(divide_full(1.0, -0.0), -INF);
        assert_eq!(divide_full(0.0, 0.0).to_bits(), NAN.to_bits());
        assert_eq!(divide_full(f32::MAX, 2f32.powi(127)), f32::MAX / 2f32.powi(127));
        assert_eq!(divide_full(INF, INF).to_bits(), NAN.to_bits());
    }
}
