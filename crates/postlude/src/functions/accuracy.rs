//! The stated error of every function at every level.
//!
//! In: a function, a level, the argument and the exact result. Out: how far from it an implementation may be.
//! Invariant: both the forms in this crate and forms built on the GPU's approximations (PTX ISA, "Floating Point
//! Instructions": ex2, lg2, rcp, rsqrt, sqrt, sin, cos, tanh with `.approx`) are within it.

use super::{Accuracy, Function};

/// An error in up to three measures, which add up.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Bound {
    /// In units of the last place of the result as an f32.
    pub ulps: f64,
    /// Relative to the result.
    pub relative: f64,
    /// As it is.
    pub absolute: f64,
}

/// 2^-20 and its neighbours, the currency of hardware approximations.
const fn two_to_minus(exponent: u64) -> f64 {
    f64::from_bits((1023 - exponent) << 52)
}

/// How far from 1 + erf(x) an implementation may be that makes one function of both, where it has no accurate erf.
pub const ONE_PLUS_ERF: f64 = two_to_minus(20);

/// Sine and cosine are accurate up to here.
const LARGEST_ANGLE: f64 = 65536.0;

impl Bound {
    /// No error at all.
    pub const EXACT: Bound = Bound { ulps: 0.0, relative: 0.0, absolute: 0.0 };

    const fn ulps(ulps: f64) -> Bound {
        Bound { ulps, ..Bound::EXACT }
    }

    /// A relative error, or a result below the normal numbers flushed to zero.
    const fn relative(relative: f64) -> Bound {
        Bound { ulps: 0.0, relative, absolute: two_to_minus(126) }
    }

    const fn or_absolute(self, absolute: f64) -> Bound {
        Bound { absolute, ..self }
    }

    /// The largest |got - result|. A result within this of the largest f32 may come out infinite.
    pub fn at(self, result: f64) -> f64 {
        if result.is_finite() {
            self.ulps * ulp(result) + self.relative * result.abs() + self.absolute
        } else {
            0.0
        }
    }
}

/// The spacing of f32 at a value, as if the exponent had no upper limit.
pub fn ulp(value: f64) -> f64 {
    let exponent = ((value.abs().to_bits() >> 52) as i32 - 1023).max(-126);
    f64::from_bits(((exponent - 23 + 1023) as u64) << 52)
}

/// How far from the exact result `y` of a function at `x` an implementation may be.
pub fn bound(function: Function, accuracy: Accuracy, x: f64, y: f64) -> f64 {
    match accuracy {
        Accuracy::Accurate => accurate(function, x),
        Accuracy::Hardware => hardware(function, x),
        Accuracy::Fast => fast(function, x),
    }
    .at(y)
}

/// How far from the exact result `y` of x^exponent an implementation may be.
pub fn pow_bound(accuracy: Accuracy, x: f64, exponent: f64, y: f64) -> f64 {
    match accuracy {
        Accuracy::Accurate => Bound::ulps(2.0).at(y),
        Accuracy::Hardware | Accuracy::Fast => {
            // 2^(exponent * log2 x): the errors of log2 and of the product, through the exponential.
            let product = (exponent * x.abs().log2()).abs();
            let inner = product * two_to_minus(22) + exponent.abs() * two_to_minus(23);
            let inner = if y == 0.0 || x.abs() == 1.0 || !inner.is_finite() { 0.0 } else { inner };
            Bound::relative(two_to_minus(21) + inner.exp_m1()).at(y)
        }
    }
}

/// The accurate forms.
pub fn accurate(function: Function, x: f64) -> Bound {
    match function {
        Function::Exp
        | Function::Exp2
        | Function::Expm1
        | Function::Log
        | Function::Log2
        | Function::Log1p
        | Function::Tanh
        | Function::Erf
        | Function::Rsqrt => Bound::ulps(2.0),
        Function::Sin | Function::Cos => angle(x, Bound::ulps(2.0)),
        // Correctly rounded; the excess is for an exact result that is itself an f64.
        Function::Sqrt | Function::Rcp => Bound::ulps(0.501),
        Function::Floor | Function::Ceil | Function::Round => Bound::EXACT,
    }
}

/// The forms built on the hardware's 2^x, log2, reciprocal and reciprocal root.
pub fn hardware(function: Function, x: f64) -> Bound {
    match function {
        // The argument times log2 e rounds to 2^-24 of itself; a constant factor that is folded in, together with what
        // was not rounded before, makes it three times that. Past 128 the result is 0 or infinite.
        Function::Exp => Bound::relative(two_to_minus(22) + x.abs().min(128.0) * two_to_minus(22)),
        Function::Exp2 => Bound::relative(two_to_minus(22)),
        Function::Expm1 => {
            Bound::relative(two_to_minus(19) + x.abs().min(128.0) * two_to_minus(23))
        }
        // Near 1 the hardware's logarithm is good in absolute terms only.
        Function::Log | Function::Log2 => {
            Bound::relative(two_to_minus(21)).or_absolute(two_to_minus(22))
        }
        Function::Log1p => Bound::relative(two_to_minus(19)),
        Function::Sin | Function::Cos => {
            let absolute = two_to_minus(20) + x.abs() * two_to_minus(22);
            angle(x, Bound::EXACT.or_absolute(absolute))
        }
        Function::Tanh | Function::Erf => Bound::relative(two_to_minus(20)),
        Function::Sqrt | Function::Rsqrt | Function::Rcp => Bound::relative(two_to_minus(22)),
        Function::Floor | Function::Ceil | Function::Round => Bound::EXACT,
    }
}

/// Anything the hardware has.
pub fn fast(function: Function, x: f64) -> Bound {
    match function {
        Function::Tanh => Bound::relative(two_to_minus(10)),
        Function::Exp
        | Function::Exp2
        | Function::Expm1
        | Function::Log
        | Function::Log2
        | Function::Log1p
        | Function::Sin
        | Function::Cos
        | Function::Erf
        | Function::Sqrt
        | Function::Rsqrt
        | Function::Rcp
        | Function::Floor
        | Function::Ceil
        | Function::Round => hardware(function, x),
    }
}

/// Past the largest angle sine and cosine are only known to be within [-1, 1].
fn angle(x: f64, bound: Bound) -> Bound {
    if x.abs() <= LARGEST_ANGLE { bound } else { Bound::EXACT.or_absolute(2.0) }
}
