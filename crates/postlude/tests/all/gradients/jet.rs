//! Numbers with their derivatives along two directions: exact, without differences.
//!
//! A jet is `value + first * d + second * e + both * d * e` with `d * d = e * e = 0`. The first direction is that of a
//! kernel's inputs; the second one is taken inside of `grad(f)`, which is the derivative of f along it.

use std::cmp::Ordering;
use std::ops::{Add, Div, Mul, Neg, Sub};

/// A number with its derivatives.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Jet {
    pub(super) value: f64,
    pub(super) first: f64,
    pub(super) second: f64,
    both: f64,
}

impl From<f64> for Jet {
    fn from(value: f64) -> Jet {
        Jet { value, first: 0.0, second: 0.0, both: 0.0 }
    }
}

impl From<bool> for Jet {
    fn from(truth: bool) -> Jet {
        Jet::from(f64::from(u8::from(truth)))
    }
}

impl Jet {
    /// A number that changes along the first direction.
    pub(super) fn along(value: f64, first: f64) -> Jet {
        Jet { first, ..Jet::from(value) }
    }

    /// A function of which the value and two derivatives are known.
    fn chain(self, f: f64, slope: f64, curvature: f64) -> Jet {
        Jet {
            value: f,
            first: slope * self.first,
            second: slope * self.second,
            both: slope * self.both + curvature * self.first * self.second,
        }
    }

    /// The derivative of a function at this number.
    pub(super) fn derivative(self, function: impl Fn(Jet) -> Jet) -> Jet {
        let of = function(Jet { second: 1.0, both: 0.0, ..self });
        Jet { value: of.second, first: of.both, second: 0.0, both: 0.0 }
    }

    /// Every part rounded to f32.
    pub(super) fn rounded(self) -> Jet {
        let round = |value: f64| f64::from(value as f32);
        let Jet { value, first, second, both } = self;
        Jet { value: round(value), first: round(first), second: round(second), both: round(both) }
    }

    pub(super) fn is_true(self) -> bool {
        self.value != 0.0
    }

    pub(super) fn exp(self) -> Jet {
        let exp = self.value.exp();
        self.chain(exp, exp, exp)
    }

    pub(super) fn expm1(self) -> Jet {
        let exp = self.value.exp();
        self.chain(self.value.exp_m1(), exp, exp)
    }

    pub(super) fn ln(self) -> Jet {
        let x = self.value;
        self.chain(x.ln(), 1.0 / x, -1.0 / (x * x))
    }

    pub(super) fn ln_1p(self) -> Jet {
        let x = self.value;
        self.chain(x.ln_1p(), 1.0 / (1.0 + x), -1.0 / ((1.0 + x) * (1.0 + x)))
    }

    pub(super) fn sin(self) -> Jet {
        let (sin, cos) = self.value.sin_cos();
        self.chain(sin, cos, -sin)
    }

    pub(super) fn cos(self) -> Jet {
        let (sin, cos) = self.value.sin_cos();
        self.chain(cos, -sin, -cos)
    }

    pub(super) fn atan(self) -> Jet {
        let x = self.value;
        let slope = 1.0 / (1.0 + x * x);
        self.chain(x.atan(), slope, -2.0 * x * slope * slope)
    }

    pub(super) fn asinh(self) -> Jet {
        let x = self.value;
        let slope = 1.0 / (1.0 + x * x).sqrt();
        self.chain(x.asinh(), slope, -x * slope * slope * slope)
    }

    pub(super) fn tanh(self) -> Jet {
        let tanh = self.value.tanh();
        let slope = 1.0 - tanh * tanh;
        self.chain(tanh, slope, -2.0 * tanh * slope)
    }

    pub(super) fn erf(self) -> Jet {
        let x = self.value;
        let slope = std::f64::consts::FRAC_2_SQRT_PI * (-x * x).exp();
        self.chain(libm::erf(x), slope, -2.0 * x * slope)
    }

    pub(super) fn sqrt(self) -> Jet {
        let root = self.value.sqrt();
        self.chain(root, 0.5 / root, -0.25 / (root * self.value))
    }

    pub(super) fn abs(self) -> Jet {
        if self.value < 0.0 { -self } else { self }
    }

    /// A step: its derivative is 0.
    pub(super) fn step(self, function: impl Fn(f64) -> f64) -> Jet {
        Jet::from(function(self.value))
    }

    /// The derivative is shared where both are equal.
    pub(super) fn max(self, other: Jet) -> Jet {
        match self.value.total_cmp(&other.value) {
            Ordering::Greater => self,
            Ordering::Less => other,
            Ordering::Equal => (self + other) * Jet::from(0.5),
        }
    }

    pub(super) fn min(self, other: Jet) -> Jet {
        -(-self).max(-other)
    }

    /// Of a whole exponent also where the base is negative.
    pub(super) fn pow(self, other: Jet) -> Jet {
        let y = other.value;
        if other == Jet::from(y) {
            let x = self.value;
            return self.chain(x.powf(y), y * x.powf(y - 1.0), y * (y - 1.0) * x.powf(y - 2.0));
        }
        (other * self.ln()).exp()
    }
}

impl Neg for Jet {
    type Output = Jet;

    fn neg(self) -> Jet {
        self * Jet::from(-1.0)
    }
}

impl Add for Jet {
    type Output = Jet;

    fn add(self, other: Jet) -> Jet {
        Jet {
            value: self.value + other.value,
            first: self.first + other.first,
            second: self.second + other.second,
            both: self.both + other.both,
        }
    }
}

impl Sub for Jet {
    type Output = Jet;

    fn sub(self, other: Jet) -> Jet {
        self + -other
    }
}

impl Mul for Jet {
    type Output = Jet;

    fn mul(self, other: Jet) -> Jet {
        Jet {
            value: self.value * other.value,
            first: self.value * other.first + self.first * other.value,
            second: self.value * other.second + self.second * other.value,
            both: self.value * other.both
                + self.first * other.second
                + self.second * other.first
                + self.both * other.value,
        }
    }
}

impl Div for Jet {
    type Output = Jet;

    fn div(self, other: Jet) -> Jet {
        let x = other.value;
        let inverse = other.chain(1.0 / x, -1.0 / (x * x), 2.0 / (x * x * x));
        Jet { value: self.value / x, ..self * inverse }
    }
}

impl std::iter::Sum for Jet {
    fn sum<I: Iterator<Item = Jet>>(jets: I) -> Jet {
        jets.fold(Jet::from(0.0), |total, jet| total + jet)
    }
}
