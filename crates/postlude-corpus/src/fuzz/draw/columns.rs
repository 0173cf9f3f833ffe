//! Random kernels whose values have fewer columns than the product: halves, pairs, runs, and back.

use postlude::dtype::Elem;
use postlude::graph::{Axes, Kind, Type};

use super::super::sketch::{Known, Statement, ValueId};
use super::Draw;
use super::reductions::columns;

impl Draw {
    /// Splits the columns in two, goes on with the halves, and at times puts them together again.
    pub(super) fn halves(&mut self) {
        let whole = |known: &Known| {
            !known.late && known.ty.axes.column == Some(1) && known.ty.axes.row.is_some()
        };
        let Some(x) = self.float(&whole) else {
            self.join_halves();
            return;
        };
        let axes = Axes { column: Some(2), ..self.ty(x).axes };
        let ty = Type { elem: Elem::F32, axes };
        let about = self.about(x);
        let targets = [self.known(&[x], ty, about), self.known(&[x], ty, about)];
        for target in targets {
            self.sketch.values[target].splits.push(2);
        }
        let split = *self.random.pick(&["halves", "pairs"]);
        let text = format!("{split}({{}})");
        self.sketch.statements.push(Statement::new(targets.to_vec(), text, vec![x]));
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
        if self.random.one_in(8) {
            self.rows_again(2);
        }
        if self.random.one_in(2) {
            self.merge(targets, result, about);
        }
    }

    /// Puts two values together that have half the columns anyway.
    fn join_halves(&mut self) {
        let half = |known: &Known| !known.late && known.ty.axes.column == Some(2);
        if let (Some(a), Some(b)) = (self.float(&half), self.float(&half)) {
            let about = self.about(a).max(self.about(b));
            self.merge([b, b], a, about);
        }
    }

    fn merge(&mut self, targets: [ValueId; 2], result: ValueId, about: f64) {
        let merge = *self.random.pick(&["concat", "join"]);
        let other = targets[self.random.below(2)];
        let Some(axes) = self.join(&[result, other]) else { return };
        let ty = Type { elem: Elem::F32, axes: Axes { column: Some(1), ..axes } };
        self.assign(format!("{merge}({{}}, {{}})"), &[result, other], ty, about);
        let early = |known: &Known| !known.late && known.ty.axes.column.is_none_or(|by| by == 1);
        self.step(&early);
    }

    /// Reduces runs of columns, and at times meets the tile with the results.
    pub(super) fn groups(&mut self) {
        for _ in 0..*self.random.pick(&[1, 1, 2]) {
            self.runs();
        }
    }

    fn runs(&mut self) {
        let base = self.sketch.base;
        let whole = |known: &Known| {
            !known.late && known.ty.axes.column == Some(base) && known.ty.axes.kind() == Kind::Tile
        };
        let Some(x) = self.float(&whole) else { return };
        let x = self.bounded(x, 60.0);
        let run = self.width();
        let (width, n) = (run * base, columns(base));
        // Runs of columns, blocks, or runs of rows.
        let of = self.random.below(4);
        let height = Some(self.traits.height).filter(|_| of > 1 && self.ty(x).axes.has_each_row());
        let columns = Some(run).filter(|_| of < 3 || height.is_none());
        let mut axes = self.ty(x).axes;
        axes.row = height.or(axes.row);
        axes.column = columns.map(|_| width).or(axes.column);
        let rows = height.map_or(String::new(), |height| format!(", M, {height}"));
        let columns = columns.map_or(String::new(), |run| format!(", {n}, {run}"));
        let width = axes.column.unwrap_or(width);
        let ty = Type { elem: Elem::F32, axes };
        let folds = ["absmax", "mean", "max", "sum", "min", "logsumexp"];
        let fold = *self.random.pick(&folds);
        let terms = run * height.unwrap_or(1);
        let about = self.about(x) * if fold == "sum" { f64::from(terms) } else { 1.0 };
        let mut runs = self.assign(format!("{fold}({{}}{rows}{columns})"), &[x], ty, about);
        let of_runs =
            move |known: &Known| !known.late && known.ty.axes.column.is_none_or(|by| by == width);
        for _ in 0..*self.random.pick(&[0, 0, 1, 2]) {
            if let Some(value) = self.step(&of_runs)
                && self.ty(value) == ty
            {
                runs = value;
            }
        }
        if self.random.chance(70) {
            let divisor = self.away_from_zero(runs);
            let divisor = self.bounded(divisor, 100.0);
            let (ty, about) = (self.ty(x), self.about(x) * self.about(divisor));
            let text = *self.random.pick(&["{} / {}", "{} - {}", "{} * {}"]);
            if self.join(&[x, divisor]).is_some() {
                self.assign(text, &[x, divisor], ty, about);
            }
        }
        if self.random.one_in(6) {
            self.reductions(width);
        }
    }
}
