//! Random kernels whose values have fewer columns than the product: halves, pairs, runs, and back.

use postlude::dtype::Elem;
use postlude::graph::{Axes, Kind, Type};

use super::super::sketch::{Known, Statement, ValueId};
use super::Draw;

impl Draw {
    /// Splits the columns in two, goes on with the halves, and at times puts them together again.
    pub(super) fn halves(&mut self) {
        let whole =
            |known: &Known| !known.late && known.ty.axes.column == Some(1) && known.ty.axes.row;
        let Some(x) = self.float(&whole) else { return };
        let axes = Axes { column: Some(2), ..self.ty(x).axes };
        let ty = Type { elem: Elem::F32, axes };
        let about = self.about(x);
        let targets = [self.known(&[x], ty, about), self.known(&[x], ty, about)];
        let split = *self.random.pick(&["halves", "pairs"]);
        let text = format!("{split}({{}})");
        self.sketch.statements.push(Statement {
            targets: targets.to_vec(),
            text,
            operands: vec![x],
        });
        let half = |known: &Known| !known.late && known.ty.axes.column.is_none_or(|by| by == 2);
        let both = *self.random.pick(&["{} * {}", "{} + {}", "silu({}) * {}", "maximum({}, {})"]);
        let about = about * about.min(30.0);
        let mut result = self.assign(both, &targets, ty, about);
        for _ in 0..self.random.range(0, 3) {
            let of_halves = |known: &Known| half(known) && known.ty.elem == Elem::F32;
            if let Some(value) = self.step(&half)
                && of_halves(&self.sketch.values[value])
                && self.ty(value).axes == axes
            {
                result = value;
            }
        }
        if self.random.one_in(2) {
            self.merge(targets, result, about);
        }
    }

    fn merge(&mut self, targets: [ValueId; 2], result: ValueId, about: f64) {
        let axes = self.ty(result).axes;
        let merge = *self.random.pick(&["concat", "join"]);
        let other = targets[self.random.below(2)];
        let Some(axes) = axes.join(self.ty(other).axes) else { return };
        let ty = Type { elem: Elem::F32, axes: Axes { column: Some(1), ..axes } };
        self.assign(format!("{merge}({{}}, {{}})"), &[result, other], ty, about);
        let early = |known: &Known| !known.late && known.ty.axes.column.is_none_or(|by| by == 1);
        self.step(&early);
    }

    /// Reduces runs of columns, and at times meets the tile with the results.
    pub(super) fn groups(&mut self) {
        let whole = |known: &Known| {
            !known.late && known.ty.axes.column == Some(1) && known.ty.axes.kind() == Kind::Tile
        };
        let Some(x) = self.float(&whole) else { return };
        let x = self.bounded(x, 60.0);
        let width = *self.random.pick(&[2u32, 4, 8, 16, 32, 64, 128]);
        let axes = Axes { column: Some(width), ..self.ty(x).axes };
        let ty = Type { elem: Elem::F32, axes };
        let fold = *self.random.pick(&["absmax", "mean", "max", "sum", "min"]);
        let about = self.about(x) * if fold == "sum" { f64::from(width) } else { 1.0 };
        let runs = self.assign(format!("{fold}({{}}, N, {width})"), &[x], ty, about);
        if self.random.chance(70) {
            let divisor = self.away_from_zero(runs);
            let (ty, about) = (self.ty(x), self.about(x));
            let text = *self.random.pick(&["{} / {}", "{} - {}", "{} * {}"]);
            self.assign(text, &[x, divisor], ty, about);
        }
    }
}
