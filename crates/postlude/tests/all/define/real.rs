//! Real numbers of any precision, with the operators of Rust.
//!
//! The precision is that of the innermost [`with_bits`]; every operation errs by a few units in its last bit.

use std::cell::RefCell;
use std::cmp::Ordering;
use std::ops::{Add, Div, Mul, Neg, Sub};

use astro_float_num::{BigFloat, Consts, RoundingMode, Sign};

const UNROUNDED: RoundingMode = RoundingMode::None;

struct Context {
    bits: usize,
    constants: Consts,
}

thread_local! {
    static CONTEXT: RefCell<Context> =
        RefCell::new(Context { bits: 256, constants: Consts::new().expect("memory for constants") });
}

/// Computes at this precision.
pub(crate) fn with_bits<T>(bits: usize, compute: impl FnOnce() -> T) -> T {
    let before = CONTEXT.with_borrow_mut(|context| std::mem::replace(&mut context.bits, bits));
    let result = compute();
    CONTEXT.with_borrow_mut(|context| context.bits = before);
    result
}

fn bits() -> usize {
    CONTEXT.with_borrow(|context| context.bits)
}

/// A number, an infinity or nan.
#[derive(Clone, Debug)]
pub(crate) struct Real(BigFloat);

impl From<f64> for Real {
    fn from(value: f64) -> Real {
        Real(BigFloat::from_f64(value, bits()))
    }
}

impl Real {
    pub(crate) fn from_decimal(text: &str) -> Real {
        let (digits, exponent) = match text.split_once('e') {
            Some((digits, exponent)) => (digits, exponent.parse::<i32>().expect("an exponent")),
            None => (text, 0),
        };
        let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
        let ten = Real::from(10.0);
        let integer = (whole.chars().chain(fraction.chars()))
            .filter_map(|digit| digit.to_digit(10))
            .fold(Real::from(0.0), |total, digit| total * &ten + f64::from(digit));
        let places = exponent - fraction.len() as i32;
        let scale = (0..places.unsigned_abs()).fold(Real::from(1.0), |scale, _| scale * &ten);
        if places < 0 { integer / scale } else { integer * scale }
    }

    pub(crate) fn two_to(exponent: i32) -> Real {
        let mut one = BigFloat::from_f64(1.0, bits());
        // The mantissa of 1 is 0.5, its exponent 1.
        one.set_exponent(exponent + 1);
        Real(one)
    }

    pub(crate) fn exp(&self) -> Real {
        self.with_constants(|x, bits, constants| x.exp(bits, UNROUNDED, constants))
    }

    pub(crate) fn ln(&self) -> Real {
        self.with_constants(|x, bits, constants| x.ln(bits, UNROUNDED, constants))
    }

    pub(crate) fn sin(&self) -> Real {
        self.with_constants(|x, bits, constants| x.sin(bits, UNROUNDED, constants))
    }

    pub(crate) fn cos(&self) -> Real {
        self.with_constants(|x, bits, constants| x.cos(bits, UNROUNDED, constants))
    }

    pub(crate) fn pow(&self, exponent: &Real) -> Real {
        self.with_constants(|x, bits, constants| x.pow(&exponent.0, bits, UNROUNDED, constants))
    }

    pub(crate) fn sqrt(&self) -> Real {
        Real(self.0.sqrt(bits(), UNROUNDED))
    }

    pub(crate) fn floor(&self) -> Real {
        Real(self.0.floor())
    }

    pub(crate) fn pi() -> Real {
        CONTEXT.with_borrow_mut(|context| Real(context.constants.pi(context.bits, UNROUNDED)))
    }

    /// How many binary digits lie between 1 and the leading digit of a number below it.
    fn digits_below_one(&self) -> usize {
        self.0.exponent().map_or(0, |exponent| 0.max(-exponent) as usize)
    }

    /// A function that is its argument near 0, computed with the digits that cancel there.
    fn near_zero(&self, function: impl FnOnce(&Real) -> Real) -> Real {
        let (bits, missing) = (bits(), self.digits_below_one());
        if missing > bits || self.0.is_zero() {
            return self.clone();
        }
        with_bits(bits + missing, || function(self))
    }

    pub(crate) fn exp_m1(&self) -> Real {
        self.near_zero(|x| x.exp() - 1.0)
    }

    pub(crate) fn ln_1p(&self) -> Real {
        self.near_zero(|x| (x.clone() + 1.0).ln())
    }

    /// `log(1 + e^x)`
    pub(crate) fn softplus(&self) -> Real {
        if *self > Real::from(1e6) { self.clone() } else { self.exp().ln_1p() }
    }

    /// `(e^2x - 1) / (e^2x + 1)`
    pub(crate) fn tanh(&self) -> Real {
        let one = Real::from(1.0);
        if self.abs() > Real::from(1e6) {
            return if *self > Real::from(0.0) { one } else { -one };
        }
        let above = (self.clone() * 2.0).exp_m1();
        above.clone() / (above + 2.0)
    }

    /// `(e^x - e^-x) / 2`
    pub(crate) fn sinh(&self) -> Real {
        let above = self.exp_m1();
        (above.clone() + above.clone() / (above + 1.0)) / 2.0
    }

    /// `2 / sqrt(pi) * e^(-x^2) * sum of 2^n x^(2n+1) / (1 * 3 * ... * (2n+1))`, whose terms have one sign.
    pub(crate) fn erf(&self) -> Real {
        if self.0.is_zero() {
            return Real::from(0.0);
        }
        // The complement is below 10^-690.
        if self.abs() > Real::from(40.0) {
            return if *self > Real::from(0.0) { Real::from(1.0) } else { Real::from(-1.0) };
        }
        let square = self.clone() * self;
        let (mut term, mut total) = (self.clone(), self.clone());
        let mut divisor = 3.0;
        let done = Real::two_to(-(bits() as i32));
        while term.abs() > total.abs() * &done {
            term = term * &square * 2.0 / divisor;
            total = total + &term;
            divisor += 2.0;
        }
        total * (-square).exp() * 2.0 / Real::pi().sqrt()
    }

    pub(crate) fn is_finite(&self) -> bool {
        !self.0.is_nan() && !self.0.is_inf()
    }

    pub(crate) fn abs(&self) -> Real {
        Real(self.0.abs())
    }

    /// The nearest f64, or next to it.
    pub(crate) fn to_f64(&self) -> f64 {
        if self.0.is_nan() {
            return f64::NAN;
        }
        if self.0.is_inf() {
            return if self.0.is_inf_pos() { f64::INFINITY } else { f64::NEG_INFINITY };
        }
        let Some((words, _, sign, exponent, _)) = self.0.as_raw_parts() else { return f64::NAN };
        let leading = words.last().copied().unwrap_or_default() as f64 * 2f64.powi(-64);
        // In two steps, since the scale itself may be out of range.
        let exponent = exponent.clamp(-2200, 2200);
        let size = leading * 2f64.powi(exponent / 2) * 2f64.powi(exponent - exponent / 2);
        if sign == Sign::Neg { -size } else { size }
    }

    fn with_constants(&self, f: impl Fn(&BigFloat, usize, &mut Consts) -> BigFloat) -> Real {
        CONTEXT.with_borrow_mut(|context| Real(f(&self.0, context.bits, &mut context.constants)))
    }
}

impl PartialEq for Real {
    fn eq(&self, other: &Real) -> bool {
        self.0.cmp(&other.0) == Some(0)
    }
}

impl PartialOrd for Real {
    fn partial_cmp(&self, other: &Real) -> Option<Ordering> {
        self.0.cmp(&other.0).map(|order| order.cmp(&0))
    }
}

impl Neg for Real {
    type Output = Real;

    fn neg(self) -> Real {
        Real(self.0.neg())
    }
}

macro_rules! operator {
    ($trait:ident, $method:ident) => {
        impl $trait<&Real> for Real {
            type Output = Real;

            fn $method(self, other: &Real) -> Real {
                Real(self.0.$method(&other.0, bits(), UNROUNDED))
            }
        }

        impl $trait<Real> for Real {
            type Output = Real;

            fn $method(self, other: Real) -> Real {
                $trait::$method(self, &other)
            }
        }

        impl $trait<f64> for Real {
            type Output = Real;

            fn $method(self, other: f64) -> Real {
                $trait::$method(self, &Real::from(other))
            }
        }
    };
}

operator!(Add, add);
operator!(Sub, sub);
operator!(Mul, mul);
operator!(Div, div);

#[test]
fn reals_agree_with_f64() {
    let near = |real: Real, value: f64| {
        assert!((real.to_f64() / value - 1.0).abs() < 4e-16, "{} {value}", real.to_f64());
    };
    for x in [0.3, 1.0, 2.5, 7.0] {
        let real = Real::from(x);
        near(real.exp(), x.exp());
        near(real.tanh(), x.tanh());
        near(real.erf(), libm::erf(x));
        near(real.sin(), x.sin());
        near(-real.clone(), -x);
        near(real.sqrt() * 3.0, x.sqrt() * 3.0);
    }
    near(Real::from_decimal("0.044715"), 0.044715);
    near(Real::from_decimal("2.5e-5"), 2.5e-5);
    near(Real::two_to(-60), 2f64.powi(-60));
    assert_eq!((-Real::from(1e4)).exp().to_f64(), 0.0);
    assert_eq!(Real::from(1e4).exp().to_f64(), f64::INFINITY);
}
