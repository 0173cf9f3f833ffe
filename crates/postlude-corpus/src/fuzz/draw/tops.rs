//! The largest of rows with their indices, and what is computed from them.

use postlude::DType;
use postlude::dtype::Elem;
use postlude::graph::{Axes, Type};
use postlude::shape::Dim;

use super::super::sketch::{Known, Statement, Stored, ValueId, dims_of};
use super::reductions::{INDEX, columns};
use super::{Draw, Fits};

/// Most lists are short.
const FEW: usize = 4;
/// One more than a launch keeps on a GPU.
const MORE: usize = 9;
/// The most that are kept.
const MOST: usize = 64;

impl Draw {
    /// `topk` of anything that has columns; what is left is a value without the dim of its results.
    pub(super) fn top_any(&mut self, fits: Fits<'_>) -> Option<ValueId> {
        let x = self.number_anywhere(&|known| known.ty.axes.column.is_some() && fits(known))?;
        self.top(x)
    }

    /// The same of this value.
    pub(super) fn top(&mut self, x: ValueId) -> Option<ValueId> {
        let axes = self.ty(x).axes;
        let most = match self.random.below(24) {
            0 => MOST,
            1..4 => MORE,
            _ => FEW,
        };
        let count = self.random.range(1, most);
        let left = Axes { column: None, ..axes };
        let [values, indices] =
            [(Elem::F32, self.about(x)), (Elem::I32, INDEX)].map(|(elem, about)| {
                let stack = self.known(&[x], Type { elem, axes: left }, about);
                self.mark_stack(stack, count);
                stack
            });
        let text = format!("topk({{}}, {count}, {})", columns(axes.column?));
        let targets = vec![values, indices];
        self.sketch.statements.push(Statement::new(targets, text, vec![x]));
        let further = self.random.one_in(3).then(|| self.of_stack(values, count));
        for stack in [Some(values), Some(indices), further].into_iter().flatten() {
            if self.random.chance(60) {
                self.store_stack(stack, count);
            }
        }
        let of = if self.random.one_in(4) { indices } else { values };
        let fold = *self.random.pick(&["sum", "max", "min", "mean", "absmax"]);
        let elem = if fold == "mean" { Elem::F32 } else { self.ty(of).elem };
        let about = self.about(of) * if fold == "sum" { count as f64 } else { 1.0 };
        let text = format!("{fold}({{}}, {count})");
        let folded = self.assign(text, &[of], Type { elem, axes: left }, about);
        self.sketch.values[folded].late = true;
        Some(folded)
    }

    fn mark_stack(&mut self, value: ValueId, count: usize) {
        let known: &mut Known = &mut self.sketch.values[value];
        (known.stack, known.late) = (Some(count as u32), true);
        known.folds += 1;
    }

    /// Something of each of the largest.
    fn of_stack(&mut self, values: ValueId, count: usize) -> ValueId {
        let ty = self.ty(values);
        let bounded = self.about(values) <= 50.0;
        let softmax = format!("softmax({{}}, {count})");
        let text = match self.random.below(4) {
            0 if bounded => softmax.as_str(),
            1 => "{} * 0.5 - 1.0",
            2 => "relu({})",
            _ => "-{}",
        };
        let about = self.about(values);
        let made = self.assign(text.to_owned(), &[values], ty, about);
        self.mark_stack(made, count);
        made
    }

    /// An output of its own, whose last dim, or another one, the largest are along.
    fn store_stack(&mut self, value: ValueId, count: usize) {
        let Type { elem, axes } = self.ty(value);
        let dtype = match elem {
            Elem::F32 => *self.random.pick(&[DType::F32, DType::BF16, DType::F16]),
            Elem::I32 | Elem::Bool => *self.random.pick(&[DType::I32, DType::I32, DType::F32]),
        };
        let mut dims = dims_of(axes);
        dims.push(Dim::Size(count as u32));
        if self.random.one_in(4) {
            dims.rotate_right(1);
        }
        let name = format!("d{}", self.sketch.outputs.len());
        self.sketch.outputs.push(Stored { name, dtype, dims, value });
    }
}
