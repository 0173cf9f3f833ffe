//! Outputs of free kernels: any value, of any dtype that it may be stored as, with any dims that it fits.

use postlude::DType;
use postlude::dtype::Elem;
use postlude::graph::Axes;

use super::super::sketch::{Form, Stored, ValueId, dims_of};
use super::{Draw, Fits};

const FLOATS: [DType; 6] =
    [DType::F32, DType::TF32, DType::F16, DType::BF16, DType::F8E4M3, DType::F8E5M2];
const NUMBERS: [DType; 10] = [
    DType::F32,
    DType::TF32,
    DType::F16,
    DType::BF16,
    DType::F8E4M3,
    DType::F8E5M2,
    DType::F8E8M0,
    DType::I8,
    DType::U8,
    DType::I32,
];

impl Draw {
    /// One to four outputs, and at times values that nothing reads.
    pub(super) fn free_outputs(&mut self, fits: Fits<'_>) {
        let first_statement = self.sketch.values[self.product].name.clone();
        let computed = |known: &super::Known| known.name.starts_with('v') && known.stack.is_none();
        for place in 0..*self.random.pick(&[1, 1, 2, 2, 3, 4]) {
            // The last value is the deepest; inputs leave as they came only now and then.
            let last = self.sketch.values.iter().rposition(|known| computed(known) && fits(known));
            let value = match last.filter(|_| place == 0) {
                Some(last) => Some(last),
                None if self.random.one_in(6) => self.anywhere(fits),
                None => self.anywhere(&|known| {
                    computed(known) && known.name != first_statement && fits(known)
                }),
            };
            let value = value.or_else(|| self.anywhere(fits));
            if let Some(value) = value {
                self.store_any(value);
            }
        }
        if self.sketch.form == Form::Kernel && self.random.one_in(4) {
            self.keep_unused();
        }
    }

    /// Keeps statements that no output needs.
    fn keep_unused(&mut self) {
        let live = self.sketch.live();
        let dead =
            self.sketch.statements.iter().filter(|one| !one.targets.iter().any(|id| live[*id]));
        let dead: Vec<ValueId> = dead.map(|one| one.targets[0]).collect();
        for value in dead.iter().rev().take(2) {
            self.sketch.unused.push(*value);
        }
    }

    fn store_any(&mut self, value: ValueId) {
        let known = &self.sketch.values[value];
        let (elem, axes) = (known.ty.elem, known.ty.axes);
        let coarse = known.about < 3.0 || !known.positive;
        let dtype = match elem {
            Elem::F32 if coarse && self.random.chance(80) => *self.random.pick(&FLOATS),
            Elem::F32 | Elem::I32 => *self.random.pick(&NUMBERS),
            Elem::Bool => *self.random.pick(&[DType::Bool, DType::B1]),
        };
        let axes = self.repeated(axes);
        let dtype = if dtype == DType::B1 && !self.holds_bits(axes) { DType::Bool } else { dtype };
        let mut dims = dims_of(axes);
        if dims.len() > 1 && self.random.one_in(4) {
            let last = dims.len() - 1;
            let other = self.random.below(last);
            dims.swap(other, last);
        }
        let tile = axes.row.is_some() && axes.column.is_some();
        let name = format!("{}{}", if tile { "D" } else { "d" }, self.sketch.outputs.len());
        self.sketch.outputs.push(Stored { name, dtype, dims, value });
    }

    /// The dims of an output: the value's own, or now and then more.
    fn repeated(&mut self, axes: Axes) -> Axes {
        let whole = self.tile();
        if self.random.one_in(6) {
            let columns = axes.columns().or(whole.columns());
            Axes { row: axes.row.or(whole.row), ..whole.along(columns) }
        } else if self.random.one_in(12) {
            Axes { row: axes.row.or(Some(1)), ..axes }
        } else {
            axes
        }
    }

    fn holds_bits(&self, axes: Axes) -> bool {
        axes.rank() > 0 && axes.part == 0 && self.stays_small(axes.column.unwrap_or(1) * 8)
    }
}
