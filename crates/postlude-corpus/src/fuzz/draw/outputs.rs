//! Random outputs: of any dtype, tiles or not.

use postlude::DType;
use postlude::dtype::Elem;
use postlude::graph::Axes;

use super::super::sketch::{Stored, ValueId, dims_of};
use super::Draw;

const FLOATS: [DType; 12] = [
    DType::F32,
    DType::F32,
    DType::TF32,
    DType::BF16,
    DType::BF16,
    DType::F16,
    DType::F16,
    DType::F8E4M3,
    DType::F8E5M2,
    DType::F8E8M0,
    DType::I8,
    DType::U8,
];
const NARROW: [DType; 3] = [DType::F32, DType::F16, DType::BF16];

impl Draw {
    /// One output at least: tiles, most of the reductions, and seldom something else.
    pub(super) fn draw_outputs(&mut self) {
        let values = self.sketch.values.iter().enumerate();
        let assigned: Vec<ValueId> =
            self.sketch.statements.iter().flat_map(|one| one.targets.clone()).collect();
        let fits = |id: ValueId| assigned.contains(&id) && self.sketch.values[id].stack.is_none();
        let is_tile = |axes: Axes| axes.row.is_some() && axes.column.is_some();
        let (mut tiles, mut finished) = (Vec::new(), Vec::new());
        for (id, known) in values.filter(|(id, _)| fits(*id)) {
            if is_tile(known.ty.axes) {
                tiles.push(id);
            } else if known.late {
                finished.push(id);
            }
        }
        for id in finished.iter().rev().take(3) {
            let float = self.sketch.values[*id].ty.elem == Elem::F32;
            if self.random.chance(if float { 75 } else { 10 }) {
                self.store(*id);
            }
        }
        let none = !self.sketch.outputs.is_empty() && self.random.chance(30);
        let count = if none { 0 } else { *self.random.pick(&[1, 1, 1, 2, 2, 3]) };
        for place in 0..count {
            let recent = tiles.len().min(if place == 0 { 2 } else { 6 });
            let id = tiles[tiles.len() - 1 - self.random.below(recent)];
            let again = self.sketch.outputs.iter().any(|output| output.value == id);
            // Conditions and integers say less about where an element belongs.
            let plain = self.sketch.values[id].ty.elem != Elem::F32 && self.random.chance(40);
            let repeated = again && self.random.chance(70);
            if !repeated && !plain {
                self.store(id);
            }
        }
        if self.random.one_in(60) {
            let id = self.random.below(self.sketch.values.len());
            if self.sketch.values[id].stack.is_none() {
                self.store(id);
            }
        }
        if self.sketch.outputs.is_empty() {
            let float = |id: &&ValueId| self.sketch.values[**id].ty.elem == Elem::F32;
            let last = tiles.iter().rev().find(float).copied();
            self.store(last.unwrap_or(self.product));
        }
    }

    fn store(&mut self, value: ValueId) {
        let known = &self.sketch.values[value];
        let (ty, late) = (known.ty, known.late);
        // What is near zero, or below it, says nothing as an integer.
        let coarse = known.about < 3.0 || !known.positive;
        let tile = ty.axes.row.is_some() && ty.axes.column.is_some();
        // Results of reductions leave as floats of 16 or 32 bits; others are seldom.
        let narrow = !tile && late && !self.random.one_in(20);
        let mut axes = ty.axes;
        if !tile && (!late || self.random.one_in(40)) {
            // Columns are not repeated: a value of fewer keeps them.
            let whole = self.tile();
            let columns = axes.columns().or(whole.columns());
            axes = Axes { row: axes.row.or(whole.row), ..whole.along(columns) };
        }
        let dtype = match ty.elem {
            Elem::F32 if narrow => *self.random.pick(&NARROW),
            Elem::F32 if coarse && self.random.chance(90) => *self.random.pick(&FLOATS[..11]),
            Elem::F32 => *self.random.pick(&FLOATS),
            Elem::I32 => *self.random.pick(&[DType::I32, DType::I32, DType::F32, DType::I8]),
            Elem::Bool if axes.rank() > 0 && axes.part == 0 => {
                *self.random.pick(&[DType::Bool, DType::B1])
            }
            Elem::Bool => DType::Bool,
        };
        let mut dims = dims_of(axes);
        if dims.len() > 1 && self.random.one_in(5) {
            let last = dims.len() - 1;
            let other =
                if dtype == DType::B1 && dims.len() == 3 { 1 } else { self.random.below(last) };
            dims.swap(other, last);
        }
        let name = format!("{}{}", if tile { "D" } else { "d" }, self.sketch.outputs.len());
        self.sketch.outputs.push(Stored { name, dtype, dims, value });
    }
}
