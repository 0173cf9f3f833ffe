//! Calls of definitions, and what else the language gained: drawn into kernels that are shaped for Hopper too.

use postlude::catalogue::FUNCTIONS;
use postlude::dtype::Elem;
use postlude::graph::Type;

use super::super::definitions::{DEFINITIONS, Definition};
use super::super::sketch::{Known, ValueId, dims_of};
use super::{Draw, Fits};

impl Draw {
    /// A definition, bits, random numbers, a table, a size or a stochastic rounding.
    pub(super) fn second_edition(&mut self, fits: Fits<'_>) -> Option<ValueId> {
        match self.random.below(16) {
            0..=2 => self.call_definition(fits),
            3..=5 => {
                let value = self.take_any(fits)?;
                self.meet(value, fits)
            }
            6 => self.round_any(fits),
            7 | 8 => self.bits_of_float(fits),
            _ => {
                let names = ["philox", "uniform", "normal", "dropout", "size", "size", "float"];
                let name = *self.random.pick(&names);
                let entry = FUNCTIONS.iter().find(|entry| entry.name == name)?;
                let value = self.bits_call(entry, fits)?;
                self.meet(value, fits)
            }
        }
    }

    /// What was drawn, met with a value before it, for else an output seldom needs it.
    fn meet(&mut self, value: ValueId, fits: Fits<'_>) -> Option<ValueId> {
        let value = if self.ty(value).elem == Elem::I32 && self.about(value) > 1000.0 {
            let ty = self.ty(value);
            self.assign("{} & 15", &[value], ty, 15.0)
        } else {
            value
        };
        let other = self.float(fits)?;
        let ty = self.floats(&[other, value])?;
        let value =
            if self.ty(value).elem == Elem::F32 { self.bounded(value, 1000.0) } else { value };
        let text = *self.random.pick(&["{} + {}", "{} * {}", "{} - {}"]);
        let about = self.about(other) * self.about(value).max(1.0);
        Some(self.assign(text, &[other, value], ty, about))
    }

    /// A sign, an exponent or a mantissa by its bits.
    fn bits_of_float(&mut self, fits: Fits<'_>) -> Option<ValueId> {
        let x = self.float(fits)?;
        let integer = Type { elem: Elem::I32, axes: self.ty(x).axes };
        let bits = self.assign("bits({})", &[x], integer, 1e9);
        let (text, about) = *self.random.pick(&[
            ("lshr({}, 31)", 1.0),
            ("({} >> 23) & 255", 127.0),
            ("({} ^ 5) & 255", 127.0),
            ("~{} & 7", 7.0),
            ("({} | 3) & 1023", 512.0),
            ("({} << 9) >> 24", 60.0),
        ]);
        Some(self.assign(text, &[bits], integer, about))
    }

    /// A call of a definition with values and dims.
    fn call_definition(&mut self, fits: Fits<'_>) -> Option<ValueId> {
        let Definition { name, parameters, .. } = *self.random.pick(&DEFINITIONS);
        let along = parameters.contains(&"d");
        let x = self.float(&|known: &Known| (!along || known.ty.axes.rank() > 0) && fits(known))?;
        let x = self.bounded(x, 60.0);
        let (mut operands, mut arguments) = (vec![x], vec!["{}".to_owned()]);
        let mut ty = Type { elem: Elem::F32, axes: self.ty(x).axes };
        let mut folds = false;
        for parameter in &parameters[1..] {
            if *parameter == "d" {
                let dims = dims_of(ty.axes);
                let dim = dims[self.random.below(dims.len())].to_string();
                if name == "spread" {
                    match dim.as_bytes()[0] {
                        b'L' => ty.axes.batch = false,
                        b'M' => ty.axes.row = None,
                        _ => ty.axes = ty.axes.along(None),
                    }
                }
                folds = true;
                arguments.push(dim);
            } else {
                let other = self.float(fits)?;
                operands.push(self.bounded(other, 60.0));
                arguments.push("{}".to_owned());
            }
        }
        if !folds {
            ty = self.floats(&operands)?;
        }
        let about = operands.iter().map(|one| self.about(*one)).fold(1.0, f64::max);
        let about = if name == "gate" { about * about } else { 2.0 * about };
        let text = format!("{name}({})", arguments.join(", "));
        let value = self.assign(text, &operands, ty, about);
        if folds {
            let known = &mut self.sketch.values[value];
            known.late = true;
            known.folds += 1;
        }
        Some(value)
    }
}
