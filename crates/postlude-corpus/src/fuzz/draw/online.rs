//! Sums relative to a row's own maximum or mean, as people write them: stable exponentials, entropies, weighted softmaxes,
//! divergences, variances.

use postlude::dtype::Elem;
use postlude::graph::{Axes, Kind, Type};

use super::super::sketch::{Known, ValueId};
use super::reductions::{columns, rows};
use super::{Draw, Fits};

/// How many terms a sum may have; a guess, for sizes are drawn later.
const TERMS: f64 = 30.0;

impl Draw {
    /// Of rows, columns or everything of a tile that is known before reductions are finished.
    pub(super) fn online(&mut self, by: u32) {
        let early = move |known: &Known| {
            !known.late
                && known.ty.axes.kind() == Kind::Tile
                && known.ty.axes.row == Some(1)
                && known.ty.axes.column == Some(by)
        };
        let Some(x) = self.float(&early) else { return };
        let axes = self.ty(x).axes;
        let (dims, left) = match self.random.below(8) {
            0 => ("M".to_owned(), Axes { row: None, ..axes }),
            1 => (format!("M, {}", columns(by)), Axes { row: None, column: None, ..axes }),
            _ => (columns(by), Axes { column: None, ..axes }),
        };
        for _ in 0..*self.random.pick(&[1, 1, 1, 2]) {
            self.online_of(x, &dims, left, &early);
        }
    }

    /// The same of anything that has dims.
    pub(super) fn online_any(&mut self, fits: Fits<'_>) -> Option<ValueId> {
        let x = self.anywhere(&|known| {
            known.ty.elem == Elem::F32 && known.ty.axes.kind() != Kind::Scalar && fits(known)
        })?;
        let axes = self.ty(x).axes;
        let along_rows = axes.row.is_some() && (axes.column.is_none() || self.random.one_in(4));
        let (dims, left) = match axes.column {
            Some(by) if !along_rows => (columns(by), Axes { column: None, ..axes }),
            Some(_) | None => (rows(axes.row.unwrap_or(1)), Axes { row: None, ..axes }),
        };
        self.online_of(x, &dims, left, fits)
    }

    fn online_of(&mut self, x: ValueId, dims: &str, left: Axes, fits: Fits<'_>) -> Option<ValueId> {
        let x = self.bounded(x, 50.0);
        let several = dims.contains(',');
        let value = match self.random.below(if several { 8 } else { 16 }) {
            0..=3 => self.stable_sum(x, dims, left, fits),
            4 | 5 => self.deviations(x, dims, left),
            6 => {
                let about = self.about(x).powi(2);
                self.folded(&format!("var({{}}, {dims})"), &[x], left, about)
            }
            7 => self.stable_logarithm(x, dims, left),
            8 | 9 => self.entropy(x, dims, left),
            10..=12 => {
                let weight = self.weight(x, fits);
                let axes = self.join(&[x, weight])?;
                let p = self.tile_of(&format!("softmax({{}}, {dims})"), &[x], 1.0);
                self.weighted_sum(p, weight, axes, dims, left)?
            }
            13 => self.divergence(x, dims, left, fits)?,
            _ => {
                let p = self.tile_of(&format!("log_softmax({{}}, {dims})"), &[x], 20.0);
                self.folded(&format!("mean({{}}, {dims})"), &[p], left, 20.0)
            }
        };
        Some(value)
    }

    /// A value of the first one's dims that is known when a reduction is finished.
    fn tile_of(&mut self, text: &str, operands: &[ValueId], about: f64) -> ValueId {
        let ty = Type { elem: Elem::F32, axes: self.ty(operands[0]).axes };
        let value = self.assign(text, operands, ty, about);
        self.mark_folded(value);
        value
    }

    fn folded(&mut self, text: &str, operands: &[ValueId], left: Axes, about: f64) -> ValueId {
        let value = self.assign(text, operands, Type { elem: Elem::F32, axes: left }, about);
        self.mark_folded(value);
        value
    }

    fn mark_folded(&mut self, value: ValueId) {
        let known = &mut self.sketch.values[value];
        known.late = true;
        known.folds += 1;
    }

    /// `exp(x - max(x))`, at times at a temperature.
    fn stable(&mut self, x: ValueId, dims: &str, left: Axes) -> (ValueId, ValueId) {
        let about = self.about(x);
        let peak = self.folded(&format!("max({{}}, {dims})"), &[x], left, about);
        let text = *self.random.pick(&["{} - {}", "{} - {}", "0.5 * ({} - {})", "({} - {}) / 2.0"]);
        let below = self.tile_of(text, &[x, peak], about);
        (peak, self.tile_of("exp({})", &[below], 1.0))
    }

    fn stable_logarithm(&mut self, x: ValueId, dims: &str, left: Axes) -> ValueId {
        let (peak, p) = self.stable(x, dims, left);
        let sum = self.folded(&format!("sum({{}}, {dims})"), &[p], left, TERMS);
        let about = self.about(x);
        self.folded("{} + log({})", &[peak, sum], left, about)
    }

    fn stable_sum(&mut self, x: ValueId, dims: &str, left: Axes, fits: Fits<'_>) -> ValueId {
        let (_, p) = self.stable(x, dims, left);
        if self.random.one_in(3) {
            return self.folded(&format!("sum({{}}, {dims})"), &[p], left, TERMS);
        }
        let weight = self.weight(x, fits);
        let sum =
            self.join(&[x, weight]).and_then(|axes| self.weighted_sum(p, weight, axes, dims, left));
        sum.unwrap_or(p)
    }

    /// What exponentials are multiplied by: the value itself or another that meets it.
    fn weight(&mut self, x: ValueId, fits: Fits<'_>) -> ValueId {
        let axes = self.ty(x).axes;
        let alike = |known: &Known| known.ty.axes.fits(axes) && fits(known);
        let other = self.float(&alike).filter(|_| !self.random.one_in(3));
        let weight = other.unwrap_or(x);
        self.bounded(weight, 100.0)
    }

    fn weighted_sum(
        &mut self,
        p: ValueId,
        weight: ValueId,
        axes: Axes,
        dims: &str,
        left: Axes,
    ) -> Option<ValueId> {
        // Nothing but what the sum leaves is left.
        if axes != self.ty(p).axes {
            return None;
        }
        let about = self.about(weight);
        let operands = if self.random.one_in(2) { [p, weight] } else { [weight, p] };
        let ty = Type { elem: Elem::F32, axes };
        let terms = self.assign("{} * {}", &operands, ty, about);
        self.mark_folded(terms);
        Some(self.folded(&format!("sum({{}}, {dims})"), &[terms], left, about * TERMS))
    }

    fn deviations(&mut self, x: ValueId, dims: &str, left: Axes) -> ValueId {
        let about = self.about(x);
        let mean = self.folded(&format!("mean({{}}, {dims})"), &[x], left, about);
        let below = self.tile_of("{} - {}", &[x, mean], about);
        let square = self.tile_of("square({})", &[below], about * about);
        let fold = *self.random.pick(&["mean", "sum"]);
        self.folded(&format!("{fold}({{}}, {dims})"), &[square], left, about * about * TERMS)
    }

    fn entropy(&mut self, x: ValueId, dims: &str, left: Axes) -> ValueId {
        let p = self.tile_of(&format!("softmax({{}}, {dims})"), &[x], 1.0);
        let logarithm = if self.random.one_in(3) {
            self.tile_of("log({})", &[p], 10.0)
        } else {
            self.tile_of(&format!("log_softmax({{}}, {dims})"), &[x], 20.0)
        };
        let terms = self.tile_of("{} * {}", &[p, logarithm], 1.0);
        self.folded(&format!("-sum({{}}, {dims})"), &[terms], left, 3.0)
    }

    fn divergence(
        &mut self,
        x: ValueId,
        dims: &str,
        left: Axes,
        fits: Fits<'_>,
    ) -> Option<ValueId> {
        let axes = self.ty(x).axes;
        let teacher = self.float(&|known| known.ty.axes == axes && fits(known))?;
        let teacher = self.bounded(teacher, 50.0);
        let p = self.tile_of(&format!("softmax({{}}, {dims})"), &[teacher], 1.0);
        let own = self.tile_of(&format!("log_softmax({{}}, {dims})"), &[teacher], 20.0);
        let other = self.tile_of(&format!("log_softmax({{}}, {dims})"), &[x], 20.0);
        let apart = self.tile_of("{} - {}", &[own, other], 20.0);
        let terms = self.tile_of("{} * {}", &[p, apart], 5.0);
        Some(self.folded(&format!("sum({{}}, {dims})"), &[terms], left, 20.0))
    }
}
