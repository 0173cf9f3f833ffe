//! Random calls of the language's functions, all that its catalogue lists.

use postlude::catalogue::{Entry, FUNCTIONS, Group};
use postlude::dtype::Elem;
use postlude::graph::Type;

use super::super::sketch::ValueId;
use super::{Draw, Fits};

/// Functions that give whole numbers for whole numbers.
const EXACT: [&str; 12] = [
    "abs",
    "sign",
    "floor",
    "ceil",
    "round",
    "maximum",
    "minimum",
    "clamp",
    "relu",
    "relu2",
    "fma",
    "threshold",
];

impl Draw {
    /// A call of an elementwise function.
    pub(super) fn function(&mut self, fits: Fits<'_>) -> Option<ValueId> {
        let entry = self.entry(|_| true);
        match entry.name {
            "where" => return None,
            // Nearly always false.
            "isnan" | "isinf" if !self.random.one_in(6) => return None,
            "isnan" | "isinf" => {
                let a = self.float(fits)?;
                let ty = Type { elem: Elem::Bool, axes: self.ty(a).axes };
                return Some(self.assign(format!("{}({{}})", entry.name), &[a], ty, 1.0));
            }
            "pow" => return self.power(fits),
            _ => {}
        }
        let x = self.float(fits)?;
        let x = self.in_domain(entry.name, x);
        self.call(entry, entry.name, x, fits)
    }

    /// `grad(f)(x)`.
    pub(super) fn derivative(&mut self, fits: Fits<'_>) -> Option<ValueId> {
        let known = |entry: &Entry| !entry.derivative.is_empty() && entry.name != "pow";
        let entry = self.entry(known);
        let x = self.float(fits)?;
        let x = self.in_domain(entry.name, x);
        self.call(entry, &format!("grad({})", entry.name), x, fits)
    }

    fn entry(&mut self, known: impl Fn(&Entry) -> bool) -> &'static Entry {
        let exact = self.traits.whole && self.random.chance(85);
        let groups = FUNCTIONS
            .iter()
            .filter(|entry| matches!(entry.group, Group::Elementwise | Group::Activation));
        let fit = groups.filter(|entry| known(entry) && (!exact || EXACT.contains(&entry.name)));
        let fit: Vec<&'static Entry> = fit.collect();
        fit[self.random.below(fit.len())]
    }

    /// The call with its other arguments: numbers, or now and then values.
    pub(super) fn call(
        &mut self,
        entry: &Entry,
        name: &str,
        x: ValueId,
        fits: Fits<'_>,
    ) -> Option<ValueId> {
        let (mut operands, mut arguments) = (vec![x], vec!["{}".to_owned()]);
        let ends = entry.parameters.len();
        let count = if self.random.one_in(2) { entry.required() } else { ends };
        for place in 1..count {
            let as_value = matches!(entry.name, "maximum" | "minimum" | "fma");
            if (as_value && !self.random.one_in(3)) || self.random.one_in(6) {
                let other = self.float(fits)?;
                let other = self.bounded(other, 64.0);
                operands.push(other);
                arguments.push("{}".to_owned());
            } else {
                arguments.push(self.argument(entry, place, x));
            }
        }
        let ty = self.floats(&operands)?;
        let about = self.about_after(entry.name, &operands);
        let value = self.assign(format!("{name}({})", arguments.join(", ")), &operands, ty, about);
        let positive =
            ["abs", "exp", "exp2", "sqrt", "relu", "relu6", "square", "sigmoid", "relu2"];
        if positive.contains(&name) {
            self.mark_positive(value);
        }
        Some(value)
    }

    /// A number for a parameter.
    fn argument(&mut self, entry: &Entry, place: usize, x: ValueId) -> String {
        let about = self.about(x);
        let choices: &[&str] = match (entry.name, entry.parameter(place)) {
            (_, "lo") => return format!("{:.1}", -about * *self.random.pick(&[0.5, 1.0])),
            (_, "hi") => return format!("{:.1}", about * *self.random.pick(&[0.25, 1.0])),
            ("maximum" | "minimum" | "threshold", _) => return self.limit(x),
            ("fmod", _) => &["0.75", "2.0", "-3.0", "10.0"],
            (_, "alpha" | "beta") => &["1.0", "0.5", "2.0"],
            (_, "slope") => &["0.01", "0.2", "0.5", "-1.0"],
            (_, "a") => &["1.0", "0.5", "2.0"],
            ("pow", _) => &["2.0", "3.0", "0.5", "-1.0", "1.5", "0.0"],
            _ => return self.number().to_owned(),
        };
        (*self.random.pick(choices)).to_owned()
    }

    /// The argument, most often made such that the function neither overflows nor is undefined.
    pub(super) fn in_domain(&mut self, name: &str, x: ValueId) -> ValueId {
        if self.random.one_in(12) {
            return x;
        }
        match name {
            "sqrt" | "log1p" if self.is_positive(x) => x,
            "sqrt" | "log1p" => {
                let (ty, about) = (self.ty(x), self.about(x));
                let value = self.assign("abs({})", &[x], ty, about);
                self.mark_positive(value)
            }
            "log" | "log2" | "rsqrt" | "rcp" => self.away_from_zero(x),
            "tanh" | "erf" | "sigmoid" | "hardsigmoid" | "relu6" => self.scaled(x, 2.0),
            "exp" | "exp2" | "expm1" | "selu" | "elu" | "sinh" | "cosh" => self.bounded(x, 8.0),
            "sin" | "cos" | "tan" | "snake" => self.bounded(x, 100.0),
            "square" | "relu2" | "fma" => self.bounded(x, 60.0),
            "pow" => {
                let x = self.bounded(x, 8.0);
                let (ty, about) = (self.ty(x), self.about(x) + 0.5);
                let value = self.assign("abs({}) + 0.5", &[x], ty, about);
                self.mark_positive(value)
            }
            _ => self.bounded(x, 1000.0),
        }
    }

    fn about_after(&self, name: &str, operands: &[ValueId]) -> f64 {
        let about = self.about(operands[0]);
        match name {
            "tanh" | "sigmoid" | "erf" | "sin" | "cos" | "sign" | "hardsigmoid" | "rsqrt" => 1.0,
            "exp" | "exp2" | "expm1" => 20.0 + about.min(8.0).exp(),
            "square" | "relu2" => about * about,
            "sqrt" | "log" | "log2" | "log1p" | "rcp" => about.sqrt().min(10.0),
            "clamp" => about,
            "pow" => about.powi(3),
            "relu6" => about.min(6.0),
            "fma" => {
                let others = operands[1..].iter().map(|other| self.about(*other));
                about * 3.0 + others.fold(0.0, |sum, other| sum + other * about.max(1.0))
            }
            _ => operands.iter().map(|operand| self.about(*operand)).fold(1.0, f64::max),
        }
    }

    fn power(&mut self, fits: Fits<'_>) -> Option<ValueId> {
        let x = self.float(fits)?;
        let x = self.bounded(x, 8.0);
        let (ty, about) = (self.ty(x), self.about(x));
        let number = *self.random.pick(&["2.0", "3.0", "0.5", "-1.0", "1.5", "0.0"]);
        let text = if self.random.one_in(8) {
            format!("pow({{}}, {number})")
        } else {
            format!("pow(abs({{}}) + 0.5, {number})")
        };
        Some(self.assign(text, &[x], ty, (about + 0.5).powf(3.0)))
    }
}
