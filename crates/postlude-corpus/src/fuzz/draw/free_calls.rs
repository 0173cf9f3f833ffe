//! Calls of everything that the catalogue lists, on values at any position.
//!
//! What a parameter takes follows from its name, so that a function that is new in the catalogue is drawn by itself.

use std::sync::LazyLock;

use postlude::DType;
use postlude::Kernel;
use postlude::catalogue::{Entry, FUNCTIONS, Group};
use postlude::dtype::Elem;
use postlude::graph::{Axes, Type};

use super::super::sketch::{Known, ValueId};
use super::reductions::{INDEX, columns, gives_index, rows};
use super::{Draw, Fits};

/// Functions that `grad` knows a derivative of.
static DIFFERENTIABLE: LazyLock<Vec<&'static Entry>> = LazyLock::new(|| {
    let knows = |entry: &&Entry| {
        let others = ", 0.5".repeat(entry.parameters.len() - 1);
        let text = format!("D = grad({})(A @ B{others})", entry.name);
        Kernel::infer(&text, &postlude::Bindings::default()).is_ok()
    };
    FUNCTIONS.iter().filter(knows).collect()
});

/// Functions that `grad` knows a derivative of.
pub(in crate::fuzz) fn differentiable() -> &'static [&'static Entry] {
    &DIFFERENTIABLE
}

/// Functions that give integers for integers.
const OF_INTEGERS: [&str; 6] = ["abs", "sign", "square", "clamp", "maximum", "minimum"];

/// How long a run of columns is; one of each length up to eight, then powers of two.
const RUNS: [u32; 14] = [1, 1, 1, 2, 2, 3, 4, 4, 5, 6, 7, 8, 16, 32];

/// How many terms a sum may have; a guess, for sizes are drawn later.
const TERMS: f64 = 30.0;

impl Draw {
    /// A call of a function of the catalogue.
    pub(super) fn free_call(&mut self, entry: &'static Entry, fits: Fits<'_>) -> Option<ValueId> {
        match entry.group {
            Group::Elementwise | Group::Activation => self.free_elementwise(entry, fits),
            Group::Bits => self.bits_call(entry, fits),
            Group::Reduction => self.reduce_any(Some(entry), fits),
            Group::Composite => self.composite_any(entry, fits),
            Group::Structure => match entry.name {
                "halves" | "pairs" => self.split_by(entry.name, fits).map(|parts| parts[0]),
                "split" => self.split_any(fits).map(|parts| parts[0]),
                "concat" | "join" => self.merge_by(entry.name, fits),
                "pick" => self.pick_any(fits),
                "take" => self.take_any(fits),
                "topk" => self.top_any(fits),
                _ => None,
            },
        }
    }

    fn free_elementwise(&mut self, entry: &'static Entry, fits: Fits<'_>) -> Option<ValueId> {
        if entry.parameters[0] == "condition" {
            return self.select_any(fits);
        }
        let x = self.number_anywhere(fits)?;
        if matches!(entry.name, "isnan" | "isinf") {
            let ty = Type { elem: Elem::Bool, axes: self.ty(x).axes };
            return Some(self.assign(format!("{}({{}})", entry.name), &[x], ty, 1.0));
        }
        if self.ty(x).elem == Elem::I32 && OF_INTEGERS.contains(&entry.name) {
            return self.integer_call(entry, x, fits);
        }
        let x = self.prepared(entry.name, x);
        self.call(entry, entry.name, x, fits)
    }

    /// `grad(f)(x)` of anything that has a derivative.
    pub(super) fn free_derivative(&mut self, fits: Fits<'_>) -> Option<ValueId> {
        let entry = DIFFERENTIABLE[self.random.below(DIFFERENTIABLE.len())];
        let x = self.number_anywhere(fits)?;
        let x = self.prepared(entry.name, x);
        self.call(entry, &format!("grad({})", entry.name), x, fits)
    }

    /// The argument in the function's domain; a small integer may be given as it is.
    fn prepared(&mut self, name: &str, x: ValueId) -> ValueId {
        if self.ty(x).elem == Elem::I32 {
            if self.about(x) <= 4.0 && self.random.one_in(2) {
                return x;
            }
            let ty = Type { elem: Elem::F32, axes: self.ty(x).axes };
            let about = self.about(x);
            let x = self.assign("f32({})", &[x], ty, about);
            return self.in_domain(name, x);
        }
        self.in_domain(name, x)
    }

    pub(super) fn integer_call(
        &mut self,
        entry: &Entry,
        x: ValueId,
        fits: Fits<'_>,
    ) -> Option<ValueId> {
        let (mut operands, mut arguments) = (vec![x], vec!["{}"]);
        for _ in 1..entry.parameters.len() {
            let other = self.anywhere(&|known| known.ty.elem == Elem::I32 && fits(known));
            match other.filter(|_| self.random.one_in(3)) {
                Some(other) => {
                    operands.push(other);
                    arguments.push("{}");
                }
                None => arguments.push(*self.random.pick(&["-3", "0", "5", "40"])),
            }
        }
        let ty = Type { elem: Elem::I32, axes: self.join(&operands)? };
        let about = if entry.name == "lshr" { 1e9 } else { self.about(x) };
        let about = about.powi(if entry.name == "square" { 2 } else { 1 }).max(40.0);
        let text = format!("{}({})", entry.name, arguments.join(", "));
        Some(self.assign(text, &operands, ty, about.min(1e9)))
    }

    /// A reduction along any of a value's dims, or of runs of its columns.
    pub(super) fn reduce_any(
        &mut self,
        entry: Option<&'static Entry>,
        fits: Fits<'_>,
    ) -> Option<ValueId> {
        let entry = entry.unwrap_or_else(|| {
            let all = FUNCTIONS.iter().filter(|entry| entry.group == Group::Reduction);
            let all: Vec<&'static Entry> = all.collect();
            all[self.random.below(all.len())]
        });
        let number = |known: &Known| known.ty.axes.rank() > 0 && fits(known);
        let x = self.number_anywhere(&number)?;
        let x = self.reducible(entry.name, x);
        let (dims, left) = self.any_dims(self.ty(x).axes);
        let elem = match entry.name {
            "mean" | "logsumexp" | "var" => Elem::F32,
            name if gives_index(name) => Elem::I32,
            _ => self.ty(x).elem,
        };
        let terms = match entry.name {
            "sum" => TERMS,
            "var" => self.about(x),
            _ => 1.0,
        };
        let indexed = gives_index(entry.name);
        let about = if indexed { INDEX } else { (self.about(x) * terms).min(1e9) };
        let positive = self.is_positive(x) || indexed || entry.name == "absmax";
        let ty = Type { elem, axes: left };
        let folded = self.assign(format!("{}({{}}{dims})", entry.name), &[x], ty, about);
        let known = &mut self.sketch.values[folded];
        (known.late, known.positive) = (true, positive);
        known.folds += 1;
        Some(folded)
    }

    /// An argument of which a product neither overflows nor vanishes, and a sum of exponentials neither.
    fn reducible(&mut self, name: &str, x: ValueId) -> ValueId {
        let ty = self.ty(x);
        match (name, ty.elem) {
            ("prod", Elem::I32) => self.assign("sign({})", &[x], ty, 1.0),
            ("prod", _) => {
                let near = self.assign("tanh({}) * 0.01 + 1.0", &[x], ty, 1.0);
                self.mark_positive(near)
            }
            ("logsumexp", Elem::F32) => self.bounded(x, 80.0),
            _ => x,
        }
    }

    /// Some of the dims of a value, as arguments of a reduction, and what is left.
    fn any_dims(&mut self, axes: Axes) -> (String, Axes) {
        if self.random.one_in(6) {
            return (String::new(), Axes::SCALAR);
        }
        let mut left = axes;
        let mut dims: Vec<String> = Vec::new();
        let one = self.random.below(axes.rank());
        let has = [axes.batch, axes.row.is_some(), axes.column.is_some()];
        for (place, which) in (0..3).filter(|which| has[*which]).enumerate() {
            if place != one && !self.random.one_in(3) {
                continue;
            }
            match (which, axes.column) {
                (0, _) => {
                    left.batch = false;
                    dims.push("L".to_owned());
                }
                (1, _) => {
                    let by = axes.row.unwrap_or(1);
                    let run = *self.random.pick(&RUNS);
                    if self.random.one_in(3) && self.rows_stay_few(by * run) {
                        left.row = Some(by * run);
                        dims.push(format!("{}, {run}", rows(by)));
                    } else {
                        left.row = None;
                        dims.push(rows(by));
                    }
                }
                (_, by) => {
                    let by = by.unwrap_or(1);
                    let run = *self.random.pick(&RUNS);
                    if self.random.one_in(3) && self.stays_small(by * run) {
                        left.column = Some(by * run);
                        dims.push(format!("{}, {run}", columns(by)));
                    } else {
                        left.column = None;
                        dims.push(columns(by));
                    }
                }
            }
        }
        if self.random.one_in(3) {
            dims.reverse();
        }
        (dims.iter().flat_map(|dim| [", ", dim.as_str()]).collect(), left)
    }

    /// A composite along any dim that a value has.
    fn composite_any(&mut self, entry: &'static Entry, fits: Fits<'_>) -> Option<ValueId> {
        let number = |known: &Known| known.ty.axes.rank() > 0 && fits(known);
        let mut x = self.number_anywhere(&number)?;
        let axes = self.ty(x).axes;
        let ty = Type { elem: Elem::F32, axes };
        if self.ty(x).elem == Elem::F32 {
            x = self.bounded(x, 50.0);
        }
        let mut dims: Vec<String> = axes.column.map(columns).into_iter().collect();
        dims.extend(axes.row.map(rows));
        // Along batches alone where there is nothing else.
        if axes.batch && (dims.is_empty() || self.random.one_in(12)) {
            dims = vec!["L".to_owned()];
        }
        let dim = dims[self.random.below(dims.len())].clone();
        let arguments = (1..entry.parameters.len()).map(|place| match entry.parameter(place) {
            "dim" => dim.clone(),
            "k" => self.random.range(1, 9).to_string(),
            _ => "1e-3".to_owned(),
        });
        let arguments: Vec<String> = std::iter::once("{}".to_owned()).chain(arguments).collect();
        let text = format!("{}({})", entry.name, arguments.join(", "));
        let value = self.assign(text, &[x], ty, 1.0);
        let known = &mut self.sketch.values[value];
        known.late = true;
        known.folds += 1;
        Some(value)
    }

    /// One column of anything that has columns, by an index that may be computed.
    fn pick_any(&mut self, fits: Fits<'_>) -> Option<ValueId> {
        let x = self.number_anywhere(&|known| known.ty.axes.column.is_some() && fits(known))?;
        let index = |known: &Known| {
            known.ty.elem == Elem::I32 && known.ty.axes.column.is_none() && fits(known)
        };
        let index = if let Some(index) = self.anywhere(&index).filter(|_| self.random.one_in(3)) {
            index
        } else {
            let batch = self.traits.batched && self.random.one_in(2);
            let axes = Axes { batch, row: self.random.chance(75).then_some(1), ..Axes::SCALAR };
            self.declare_tensor(DType::I32, axes)
        };
        let axes = Axes { column: None, ..self.ty(x).axes }.join(self.ty(index).axes)?;
        let ty = Type { elem: Elem::F32, axes };
        let about = self.about(x);
        let picked = self.assign("pick({}, {})", &[x, index], ty, about);
        let known = &mut self.sketch.values[picked];
        known.late = true;
        known.folds += 1;
        Some(picked)
    }
}
