//! Random reductions: of rows that meet them again, of rows, columns and everything, and what is made of the results.

use postlude::DType;
use postlude::dtype::Elem;
use postlude::graph::{Axes, Kind, Type};

use super::super::sketch::{Known, ValueId};
use super::{Draw, Fits};

const FOLDS: [&str; 11] =
    ["sum", "sum", "mean", "max", "min", "absmax", "logsumexp", "prod", "max", "argmax", "argmin"];
const EXACT_FOLDS: [&str; 7] = ["sum", "max", "min", "absmax", "sum", "argmax", "argmin"];
/// How many terms a sum may have; a guess, for sizes are drawn later.
const TERMS: f64 = 100.0;

/// About how large an index is.
pub(super) const INDEX: f64 = 1000.0;

/// Whether a fold gives an index.
pub(super) fn gives_index(fold: &str) -> bool {
    matches!(fold, "argmax" | "argmin")
}

/// A tile that is known before reductions are finished, whose columns are N divided by this.
fn is_early_tile(known: &Known, by: u32) -> bool {
    let axes = known.ty.axes;
    !known.late && axes.kind() == Kind::Tile && axes.has_each_row() && axes.column == Some(by)
}

/// The columns' dim divided by this.
pub(super) fn columns(by: u32) -> String {
    if by == 1 { "N".to_owned() } else { format!("N/{by}") }
}

/// How a dim of this fraction of the rows is written.
pub(super) fn rows(by: u32) -> String {
    if by == 1 { "M".to_owned() } else { format!("M/{by}") }
}

impl Draw {
    /// A reduction of whole rows, and the tile met with it again.
    pub(super) fn rows_again(&mut self, by: u32) {
        let Some(x) = self.float(&|known| is_early_tile(known, by)) else { return };
        let x = self.bounded(x, 50.0);
        let (ty, n) = (self.ty(x), columns(by));
        let count = self.random.range(1, 9);
        let composites = [
            format!("softmax({{}}, {n})"),
            format!("log_softmax({{}}, {n})"),
            format!("rms_norm({{}}, {n}, 1e-3)"),
            format!("layer_norm({{}}, {n}, 1e-3)"),
            format!("topk_softmax({{}}, {count}, {n})"),
            "softmax({}, M)".to_owned(),
        ];
        let which = match self.random.below(20) {
            0..=11 => self.random.below(4),
            12 => 4,
            13 if self.random.one_in(2) => 5,
            _ => {
                self.row_meets_tile(x, &n);
                return;
            }
        };
        self.assign(composites[which].clone(), &[x], ty, 1.0);
    }

    fn row_meets_tile(&mut self, x: ValueId, n: &str) {
        let ty = self.ty(x);
        let vector = self.fold(x, n, Axes { column: None, ..ty.axes });
        // Known within the tile.
        self.sketch.values[vector].late = false;
        let text = *self.random.pick(&["{} - {}", "{} * {}", "{} + {}", "maximum({}, {})"]);
        let vector = self.bounded(vector, 100.0);
        let about = self.about(x) * self.about(vector);
        self.assign(text, &[x, vector], ty, about);
    }

    /// Up to three reductions and what is made of them.
    pub(super) fn reductions(&mut self, by: u32) {
        for _ in 0..self.random.range(1, 3) {
            self.reduction(by);
        }
    }

    fn reduction(&mut self, by: u32) {
        if self.random.one_in(30) {
            self.early_vector();
        }
        let elem = if self.random.one_in(12) { Elem::I32 } else { Elem::F32 };
        let Some(x) = self.choose(elem, &|known| is_early_tile(known, by)) else { return };
        let axes = self.ty(x).axes;
        if self.random.one_in(8) && elem == Elem::F32 {
            self.pick(x);
            return;
        }
        if self.random.one_in(12) {
            if let Some(folded) = self.top(x) {
                self.finishing(folded);
            }
            return;
        }
        let n = columns(by);
        let by_batch = Axes { batch: axes.batch, ..Axes::SCALAR };
        let (dims, left) = match self.random.below(16) {
            0..=5 => ("M".to_owned(), Axes { row: None, ..axes }),
            6..=9 => (n, Axes { column: None, ..axes }),
            10 | 11 if axes.batch => self.all_batches(&n, axes),
            _ => (format!("M, {n}"), by_batch),
        };
        let folded = self.fold(x, &dims, left);
        self.finishing(folded);
    }

    /// Dims of a tile that are reduced, batches among them, and what is left.
    fn all_batches(&mut self, n: &str, axes: Axes) -> (String, Axes) {
        match self.random.below(10) {
            0..=2 => (String::new(), Axes::SCALAR),
            3..=5 => ("L, M".to_owned(), Axes { column: axes.column, ..Axes::SCALAR }),
            6..=8 => (format!("L, {n}"), Axes::ROWS),
            _ => ("L".to_owned(), Axes { batch: false, ..axes }),
        }
    }

    /// The same of a vector.
    fn further(&mut self, dim: String, axes: Axes) -> (String, Axes) {
        match self.random.below(4) {
            0 if axes.batch => (format!("L, {dim}"), Axes::SCALAR),
            1 if axes.batch => ("L".to_owned(), Axes { batch: false, ..axes }),
            _ => (dim, Axes { batch: axes.batch, ..Axes::SCALAR }),
        }
    }

    /// A reduction of a value along dims.
    fn fold(&mut self, x: ValueId, dims: &str, left: Axes) -> ValueId {
        let integers = self.ty(x).elem == Elem::I32;
        let exact = integers || self.traits.whole && self.random.chance(85);
        let fold = if exact { *self.random.pick(&EXACT_FOLDS) } else { *self.random.pick(&FOLDS) };
        let x = match fold {
            // Products of many grow beyond everything unless factors are near 1.
            "prod" => {
                let ty = self.ty(x);
                let near = self.assign("tanh({}) * 0.01 + 1.0", &[x], ty, 1.0);
                self.mark_positive(near)
            }
            "logsumexp" => self.bounded(x, 80.0),
            _ => x,
        };
        let about = match fold {
            "sum" => self.about(x) * TERMS,
            "argmax" | "argmin" => INDEX,
            _ => self.about(x) * 2.0,
        };
        let separator = if dims.is_empty() { "" } else { ", " };
        let elem = if gives_index(fold) { Elem::I32 } else { self.ty(x).elem };
        let ty = Type { elem, axes: left };
        let folded = self.assign(format!("{fold}({{}}{separator}{dims})"), &[x], ty, about);
        self.sketch.values[folded].late = true;
        folded
    }

    /// A reduction of a vector that is known before the product is.
    fn early_vector(&mut self) {
        let vector = |known: &Known| {
            let kind = known.ty.axes.kind();
            !known.late && matches!(kind, Kind::AlongRows | Kind::AlongColumns)
        };
        let Some(x) = self.float(&vector) else { return };
        let axes = self.ty(x).axes;
        let dim = axes.column.map_or_else(|| rows(axes.row.unwrap_or(1)), columns);
        let (dims, left) = self.further(dim, axes);
        self.fold(x, &dims, left);
    }

    fn pick(&mut self, x: ValueId) {
        let axes = self.ty(x).axes;
        let batch = self.traits.batched && self.random.one_in(2);
        let index = Axes { batch, row: self.random.chance(85).then_some(1), ..Axes::SCALAR };
        let index = self.declare_tensor(DType::I32, index);
        let Some(left) = Axes { column: None, ..axes }.join(self.ty(index).axes) else { return };
        let ty = Type { elem: Elem::F32, axes: left };
        let about = self.about(x);
        let picked = self.assign("pick({}, {})", &[x, index], ty, about);
        self.sketch.values[picked].late = true;
        self.finishing(picked);
    }

    /// Arithmetic on finished reductions that vary along the same dims, and at times a reduction of those.
    fn finishing(&mut self, folded: ValueId) {
        let axes = self.ty(folded).axes;
        let same = move |known: &Known| {
            let own = known.ty.axes;
            known.late && own == axes || !known.late && own.kind() == axes.kind() && own.fits(axes)
        };
        let steps = *self.random.pick(&[0, 0, 1, 2, 3]);
        for _ in 0..steps {
            self.finishing_step(&same);
        }
        let vector = matches!(axes.kind(), Kind::AlongRows | Kind::AlongColumns);
        if vector && self.random.one_in(8) {
            let dim = match axes.column {
                Some(by) => columns(by),
                None => rows(axes.row.unwrap_or(1)),
            };
            let late = |known: &Known| known.late && known.ty.axes == axes;
            if let Some(vector) = self.float(&late) {
                let vector = self.bounded(vector, 1000.0);
                let (dims, left) = self.further(dim, axes);
                self.fold(vector, &dims, left);
            }
        }
    }

    fn finishing_step(&mut self, same: Fits<'_>) {
        let before = self.sketch.values.len();
        self.step(same);
        // What is made of vectors that are known anyway is left to the tiles.
        let late = self.sketch.values[before..].iter().any(|known| known.late);
        if !late && self.random.one_in(2) {
            self.step(same);
        }
    }
}
