//! Random numbers in random kernels: words of Philox, dropout, stochastic rounding, sizes, indices and tables.

use postlude::DType;
use postlude::catalogue::Entry;
use postlude::dtype::Elem;
use postlude::graph::{Axes, Type};

use super::super::sketch::{Known, ValueId};
use super::{Draw, Fits};

/// Seeds and offsets, of either sign.
const SEEDS: [&str; 6] = ["0", "1", "-1", "12345", "2147483647", "77"];

const NARROW: [DType; 4] = [DType::BF16, DType::F16, DType::F8E4M3, DType::F8E5M2];

impl Draw {
    /// A call of a function of bits or of random numbers.
    pub(super) fn bits_call(&mut self, entry: &'static Entry, fits: Fits<'_>) -> Option<ValueId> {
        let whole = self.whole_axes();
        match entry.name {
            "philox" | "uniform" | "normal" => {
                let (text, seeds) = self.seeds();
                let (elem, about) =
                    if entry.name == "philox" { (Elem::I32, 1e9) } else { (Elem::F32, 1.0) };
                let text = format!("{}({text})", entry.name);
                Some(self.assign(text, &seeds, Type { elem, axes: whole }, about))
            }
            "dropout" => {
                let base = self.sketch.base;
                let x = self.anywhere(&|known| is_numbered(known, base) && fits(known))?;
                let (text, seeds) = self.seeds();
                let share = *self.random.pick(&["0.5", "0.1", "0.0", "1.0", "0.25"]);
                let operands = [vec![x], seeds].concat();
                let axes = self.join(&operands)?;
                let about = 2.0 * self.about(x);
                let ty = Type { elem: Elem::F32, axes };
                Some(self.assign(format!("dropout({{}}, {share}, {text})"), &operands, ty, about))
            }
            "bits" => {
                let x = self.anywhere(&|known| known.ty.elem == Elem::F32 && fits(known))?;
                let ty = Type { elem: Elem::I32, axes: self.ty(x).axes };
                Some(self.assign("bits({})", &[x], ty, 1e9))
            }
            "float" => {
                let x = self.anywhere(&|known| known.ty.elem == Elem::I32 && fits(known))?;
                let ty = Type { elem: Elem::F32, axes: self.ty(x).axes };
                Some(self.assign("float({} & 1073741823)", &[x], ty, 2.0))
            }
            "size" => {
                let dim = *self.random.pick(&["M", "K", "N"]);
                let x = self.number_anywhere(fits)?;
                let ty = self.ty(x);
                let operator = *self.random.pick(&["+", "-", "*"]);
                let about = (self.about(x) * 64.0).min(1e9);
                Some(self.assign(format!("{{}} {operator} size({dim})"), &[x], ty, about))
            }
            "index" => {
                let (dim, axes) = match self.random.below(3) {
                    0 if self.traits.batched => ("L", Axes { batch: true, ..Axes::SCALAR }),
                    1 if whole.column == Some(1) => {
                        ("N", Axes { column: whole.column, ..Axes::SCALAR })
                    }
                    _ => ("M", Axes::ROWS),
                };
                let ty = Type { elem: Elem::I32, axes };
                Some(self.assign(format!("index({dim})"), &[], ty, 30.0))
            }
            _ => {
                let x = self.anywhere(&|known| known.ty.elem == Elem::I32 && fits(known))?;
                self.integer_call(entry, x, fits)
            }
        }
    }

    /// A float rounded by random bits.
    pub(super) fn round_any(&mut self, fits: Fits<'_>) -> Option<ValueId> {
        let base = self.sketch.base;
        let x = self.anywhere(&|known| is_numbered(known, base) && fits(known))?;
        let to = *self.random.pick(&NARROW);
        let (text, seeds) = self.seeds();
        let operands = [vec![x], seeds].concat();
        let ty = Type { elem: Elem::F32, axes: self.join(&operands)? };
        let about = self.about(x);
        Some(self.assign(format!("{to}({{}}, {text})"), &operands, ty, about))
    }

    /// An element of an input with one dim, by an index anywhere.
    pub(super) fn take_any(&mut self, fits: Fits<'_>) -> Option<ValueId> {
        let tables = self.sketch.inputs.iter().filter(|input| {
            input.dtype.elem() != Elem::Bool && input.dims.as_ref().is_some_and(|d| d.len() == 1)
        });
        let tables: Vec<ValueId> = tables.map(|input| input.value).collect();
        let table = if tables.is_empty() || self.random.one_in(3) {
            let dtype = *self.random.pick(&[DType::F32, DType::BF16, DType::I32, DType::U8]);
            let size = *self.random.pick(&[1, 5, 64]);
            self.declare_table(dtype, size)?
        } else {
            tables[self.random.below(tables.len())]
        };
        let index = self.anywhere(&|known| known.ty.elem == Elem::I32 && fits(known))?;
        let ty = Type { elem: Elem::F32, axes: self.ty(index).axes };
        let about = self.about(table);
        Some(self.assign("take({}, {})", &[table, index], ty, about))
    }

    /// Every dim of the product.
    fn whole_axes(&self) -> Axes {
        Axes {
            batch: self.traits.batched,
            row: Some(1),
            column: Some(self.sketch.base),
            ..Axes::SCALAR
        }
    }

    /// A seed and an offset as they stand in a call, and the values among them.
    fn seeds(&mut self) -> (String, Vec<ValueId>) {
        let (seed, offset) = (*self.random.pick(&SEEDS), *self.random.pick(&SEEDS));
        let scalar = |known: &Known| known.ty.elem == Elem::I32 && known.ty.axes == Axes::SCALAR;
        // Both words of a seed in memory.
        if self.random.one_in(3)
            && let Some(value) = self.declare_table(DType::I32, 2)
        {
            return (format!("{{}}, {offset}"), vec![value]);
        }
        match self.anywhere(&scalar).filter(|_| self.random.one_in(2)) {
            Some(value) => (format!("{{}}, {offset}"), vec![value]),
            None => (format!("{seed}, {offset}"), Vec::new()),
        }
    }
}

/// Whether a value is a float whose columns have numbers: all of them, or halves of halves.
fn is_numbered(known: &Known, base: u32) -> bool {
    let fewer = known.ty.axes.column.map_or(1, |by| by / base);
    let even = known.ty.axes.column.is_none_or(|by| by % base == 0);
    let each_row = known.ty.axes.row.is_none_or(|run| run == 1);
    each_row && known.ty.elem == Elem::F32 && even && fewer.is_power_of_two()
}
