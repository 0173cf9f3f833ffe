//! Random elementwise statements: operators, comparisons, selections, casts, integers.

use postlude::DType;
use postlude::dtype::Elem;
use postlude::graph::{Axes, Type};

use super::super::sketch::ValueId;
use super::{Draw, Fits};

/// Beyond it whole numbers are no longer exact, or functions overflow.
const LARGE: f64 = 4000.0;

const NUMBERS: [&str; 12] =
    ["0.5", "2.0", "-1.0", "0.1", "-0.3", "1.7", "3.0", "1.0", "0.0", "-2.0", "1e-3", "0.75"];
const WHOLE_NUMBERS: [&str; 7] = ["2.0", "-1.0", "1.0", "3.0", "0.5", "0.0", "-2.0"];
const INTEGERS: [&str; 6] = ["1", "2", "-3", "7", "0", "64"];
const COMPARISONS: [&str; 6] = ["<", "<=", ">", ">=", "==", "!="];

/// Casts whose result goes on as a float.
const FLOATS: [DType; 6] =
    [DType::BF16, DType::F16, DType::F8E4M3, DType::F8E5M2, DType::F32, DType::TF32];
const INTEGER_CASTS: [DType; 3] = [DType::I32, DType::I8, DType::U8];

impl Draw {
    /// One random elementwise statement.
    pub(super) fn step(&mut self, fits: Fits<'_>) -> Option<ValueId> {
        match self.random.below(100) {
            0..=29 => self.arithmetic(fits),
            30..=59 => self.function(fits),
            60..=67 => self.comparison(fits),
            68..=79 => self.selection(fits),
            80..=84 => self.logic(fits),
            85..=91 => self.cast(fits),
            92..=96 => self.integers(fits),
            _ => self.derivative(fits),
        }
    }

    pub(super) fn float(&mut self, fits: Fits<'_>) -> Option<ValueId> {
        self.choose(Elem::F32, fits)
    }

    pub(super) fn number(&mut self) -> &'static str {
        if self.random.one_in(60) {
            return self.random.pick::<&str>(&["inf", "-inf", "nan"]);
        }
        let numbers: &[&'static str] = if self.traits.whole { &WHOLE_NUMBERS } else { &NUMBERS };
        self.random.pick::<&str>(numbers)
    }

    /// The type of floats made of these.
    pub(super) fn floats(&self, operands: &[ValueId]) -> Option<Type> {
        Some(Type { elem: Elem::F32, axes: self.join(operands)? })
    }

    fn arithmetic(&mut self, fits: Fits<'_>) -> Option<ValueId> {
        let mut a = self.float(fits)?;
        if self.random.one_in(5) {
            return self.arithmetic_with_number(a);
        }
        let mut b = self.choose_other(a, fits)?;
        let ty = self.floats(&[a, b])?;
        let operator = *self.random.pick(&["+", "-", "*", "+", "-", "*", "/"]);
        match operator {
            "*" if self.about(a) * self.about(b) > LARGE => {
                (a, b) = (self.bounded(a, 32.0), self.bounded(b, 32.0));
            }
            "/" => b = self.away_from_zero(b),
            _ => {}
        }
        let about = match operator {
            "*" => self.about(a) * self.about(b),
            "/" => self.about(a),
            _ => self.about(a) + self.about(b),
        };
        let (positive_a, positive_b) = (self.is_positive(a), self.is_positive(b));
        let value = self.assign(format!("{{}} {operator} {{}}"), &[a, b], ty, about);
        if operator != "-" && positive_a && positive_b {
            self.mark_positive(value);
        }
        Some(value)
    }

    fn arithmetic_with_number(&mut self, a: ValueId) -> Option<ValueId> {
        let number = self.number();
        let ty = self.floats(&[a])?;
        let size = number.parse::<f64>().map_or(1.0, f64::abs);
        let size = if size.is_finite() { size } else { 1.0 };
        let (text, about) = match self.random.below(5) {
            0 => (format!("{{}} + {number}"), self.about(a) + size),
            1 => (format!("{number} - {{}}"), self.about(a) + size),
            2 => (format!("{{}} * {number}"), self.about(a) * size.max(0.1)),
            3 => (format!("{{}} / {}", if size == 0.0 { "4.0" } else { number }), self.about(a)),
            _ => ("-{}".to_owned(), self.about(a)),
        };
        Some(self.assign(text, &[a], ty, about))
    }

    /// A value of at most about that magnitude.
    pub(super) fn bounded(&mut self, value: ValueId, limit: f64) -> ValueId {
        if self.about(value) <= limit || self.random.chance(30) {
            return self.scaled(value, limit);
        }
        // Between floats an integer becomes one.
        let ty = Type { elem: Elem::F32, ..self.ty(value) };
        let positive = self.is_positive(value);
        let text = format!("clamp({{}}, -{limit:?}, {limit:?})");
        let bounded = self.assign(text, &[value], ty, limit);
        self.sketch.values[bounded].positive = positive;
        bounded
    }

    /// The same by a factor, a power of two.
    pub(super) fn scaled(&mut self, value: ValueId, limit: f64) -> ValueId {
        if self.about(value) <= limit {
            return value;
        }
        let positive = self.is_positive(value);
        let ty = Type { elem: Elem::F32, axes: self.ty(value).axes };
        let by = (limit / self.about(value)).log2().floor().exp2();
        let scaled = self.assign(format!("{{}} * {by:?}"), &[value], ty, limit);
        self.sketch.values[scaled].positive = positive;
        scaled
    }

    /// A value that is never near zero, as a divisor has to be; seldom the value itself.
    pub(super) fn away_from_zero(&mut self, value: ValueId) -> ValueId {
        if self.random.one_in(12) {
            return value;
        }
        let (ty, about) = (self.ty(value), self.about(value) + 1.0);
        let text = if self.is_positive(value) { "{} + 1.0" } else { "abs({}) + 1.0" };
        let value = self.assign(text, &[value], ty, about);
        self.mark_positive(value)
    }

    fn comparison(&mut self, fits: Fits<'_>) -> Option<ValueId> {
        let operator = *self.random.pick(&COMPARISONS);
        if self.random.one_in(12) {
            let a = self.choose(Elem::Bool, fits)?;
            let b = self.choose(Elem::Bool, fits)?;
            let ty = Type { elem: Elem::Bool, axes: self.join(&[a, b])? };
            let operator = *self.random.pick(&["==", "!="]);
            return Some(self.assign(format!("{{}} {operator} {{}}"), &[a, b], ty, 1.0));
        }
        let a = match self.random.below(5) {
            0 => self.choose(Elem::I32, fits)?,
            _ => self.float(fits)?,
        };
        if self.random.one_in(2) {
            let number = self.limit(a);
            let ty = Type { elem: Elem::Bool, axes: self.ty(a).axes };
            return Some(self.assign(format!("{{}} {operator} {number}"), &[a], ty, 1.0));
        }
        let b = self.choose_other(a, fits)?;
        let ty = Type { elem: Elem::Bool, axes: self.join(&[a, b])? };
        Some(self.assign(format!("{{}} {operator} {{}}"), &[a, b], ty, 1.0))
    }

    /// A number that part of a value's elements is likely to be above, and part of them below.
    pub(super) fn limit(&mut self, value: ValueId) -> String {
        if self.ty(value).elem == Elem::I32 {
            return (*self.random.pick(&INTEGERS)).to_owned();
        }
        if self.random.one_in(4) {
            return self.number().to_owned();
        }
        let by = if self.is_positive(value) { &[1.0, 0.5, 0.25] } else { &[0.25, -0.5, -0.1] };
        let limit = self.about(value) * *self.random.pick::<f64>(by);
        if self.traits.whole { format!("{:.1}", limit.round()) } else { format!("{limit:.3}") }
    }

    fn selection(&mut self, fits: Fits<'_>) -> Option<ValueId> {
        let condition = match self.choose(Elem::Bool, fits) {
            Some(condition) => condition,
            None => self.comparison(fits)?,
        };
        let a = self.float(fits)?;
        let (about, positive) = (self.about(a), self.is_positive(a));
        if self.random.one_in(2) {
            let (number, ty) = (self.number(), self.floats(&[condition, a])?);
            let number = if self.random.one_in(12) { "-inf" } else { number };
            let text = if self.random.one_in(2) {
                format!("where({{}}, {{}}, {number})")
            } else {
                let value = self.assign(
                    format!("where({{}}, {number}, {{}})"),
                    &[condition, a],
                    ty,
                    about.max(1.0),
                );
                return Some(value);
            };
            return Some(self.assign(text, &[condition, a], ty, about.max(1.0)));
        }
        let b = self.choose_other(a, fits)?;
        let ty = self.floats(&[condition, a, b])?;
        let about = about.max(self.about(b));
        let positive = positive && self.is_positive(b);
        let value = self.assign("where({}, {}, {})", &[condition, a, b], ty, about);
        self.sketch.values[value].positive = positive;
        Some(value)
    }

    fn logic(&mut self, fits: Fits<'_>) -> Option<ValueId> {
        let a = match self.choose(Elem::Bool, fits) {
            Some(a) => a,
            None => self.comparison(fits)?,
        };
        if self.random.one_in(3) {
            let ty = self.ty(a);
            return Some(self.assign("!{}", &[a], ty, 1.0));
        }
        let b = self.choose(Elem::Bool, fits)?;
        let ty = Type { elem: Elem::Bool, axes: self.join(&[a, b])? };
        let operator = *self.random.pick(&["&", "|"]);
        Some(self.assign(format!("{{}} {operator} {{}}"), &[a, b], ty, 1.0))
    }

    fn cast(&mut self, fits: Fits<'_>) -> Option<ValueId> {
        let elem = *self.random.pick(&[Elem::F32, Elem::F32, Elem::I32, Elem::Bool]);
        let a = self.choose(elem, fits)?;
        let axes = self.ty(a).axes;
        let to = match self.random.below(8) {
            0 => *self.random.pick(&INTEGER_CASTS),
            1 => DType::Bool,
            _ => *self.random.pick(&FLOATS),
        };
        let ty = Type { elem: to.elem(), axes };
        let about = match to {
            DType::I8 | DType::U8 => self.about(a).min(127.0),
            DType::Bool => 1.0,
            _ => self.about(a),
        };
        let positive = self.is_positive(a);
        let value = self.assign(format!("{to}({{}})"), &[a], ty, about);
        self.sketch.values[value].positive = positive || to == DType::U8;
        Some(value)
    }

    /// Integers with integers, and their way back to floats.
    fn integers(&mut self, fits: Fits<'_>) -> Option<ValueId> {
        let a = self.choose(Elem::I32, fits)?;
        let ty = |axes: Axes| Type { elem: Elem::I32, axes };
        let (axes, about) = (self.ty(a).axes, self.about(a));
        match self.random.below(8) {
            6 | 7 => self.bits(a, fits),
            0 => {
                let function = *self.random.pick(&["abs", "sign", "square", "-"]);
                Some(self.assign(format!("{function}({{}})"), &[a], ty(axes), about * 4.0))
            }
            1 | 2 => {
                let b = self.choose_other(a, fits)?;
                let axes = self.join(&[a, b])?;
                let text = *self.random.pick(&[
                    "{} + {}",
                    "{} - {}",
                    "{} * {}",
                    "maximum({}, {})",
                    "minimum({}, {})",
                ]);
                let about = (about * self.about(b)).min(1e9);
                Some(self.assign(text, &[a, b], ty(axes), about))
            }
            3 => {
                let number = *self.random.pick(&INTEGERS);
                let text = *self.random.pick(&["{} + ", "{} - ", "{} * "]);
                Some(self.assign(format!("{text}{number}"), &[a], ty(axes), about * 4.0))
            }
            _ => {
                let b = self.float(fits)?;
                let ty = self.floats(&[a, b])?;
                let a = self.bounded_integer(a);
                let about = self.about(a) + self.about(b);
                Some(self.assign("{} + {}", &[a, b], ty, about))
            }
        }
    }

    /// Bits of integers, with counts of shifts inside and outside of 0 to 31.
    fn bits(&mut self, a: ValueId, fits: Fits<'_>) -> Option<ValueId> {
        let ty = |axes: Axes| Type { elem: Elem::I32, axes };
        let (axes, about) = (self.ty(a).axes, self.about(a));
        if self.random.one_in(4) {
            return Some(self.assign("~{}", &[a], ty(axes), about + 1.0));
        }
        let operator = *self.random.pick(&["&", "|", "^", "<<", ">>"]);
        let shifts = matches!(operator, "<<" | ">>");
        let other = if shifts { None } else { self.choose_other(a, fits) };
        match other.filter(|_| self.random.one_in(2)) {
            Some(b) => {
                let axes = self.join(&[a, b])?;
                let about = 2.0 * about.max(self.about(b));
                Some(self.assign(format!("{{}} {operator} {{}}"), &[a, b], ty(axes), about))
            }
            None if shifts => {
                let count = *self.random.pick(&["0", "1", "3", "31", "32", "-1"]);
                let about = if operator == "<<" { 1e9 } else { about };
                Some(self.assign(format!("{{}} {operator} {count}"), &[a], ty(axes), about))
            }
            None => {
                let number = *self.random.pick(&INTEGERS);
                let text = format!("{{}} {operator} {number}");
                Some(self.assign(text, &[a], ty(axes), about + 128.0))
            }
        }
    }

    fn bounded_integer(&mut self, value: ValueId) -> ValueId {
        if self.about(value) <= 1000.0 {
            return value;
        }
        let ty = self.ty(value);
        self.assign("clamp({}, -100, 100)", &[value], ty, 100.0)
    }
}
