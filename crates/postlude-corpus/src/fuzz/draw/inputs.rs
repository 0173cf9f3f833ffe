//! Random inputs beside the factors: tiles, vectors, scalars, of any dtype.

use postlude::DType;
use postlude::dtype::Elem;
use postlude::graph::{Axes, Type};

use super::super::sketch::{Declared, Form, Known, ValueId, dims_of};
use super::Draw;

const FLOATS: [DType; 7] =
    [DType::F32, DType::TF32, DType::BF16, DType::F16, DType::F16, DType::F8E4M3, DType::F8E5M2];
const INTEGERS: [DType; 5] = [DType::I32, DType::I8, DType::U8, DType::I4, DType::U4];
const TRUTHS: [DType; 2] = [DType::Bool, DType::B1];

impl Draw {
    pub(super) fn declare_inputs(&mut self) {
        let count = *self.random.pick(&[0, 1, 1, 2, 2, 3, 4]);
        for _ in 0..count {
            self.declare();
        }
        self.index("row", Axes::ROWS);
        self.index("col", Axes { column: Some(self.sketch.base), ..Axes::SCALAR });
    }

    pub(super) fn index(&mut self, name: &str, axes: Axes) {
        let ty = Type { elem: Elem::I32, axes };
        let (name, about) = (name.to_owned(), 60.0);
        self.sketch.values.push(Known::given(name, ty, about, true));
    }

    fn declare(&mut self) {
        let batch = self.traits.batched && self.random.chance(60);
        let mut axes = match self.random.below(10) {
            0..=3 => Axes { batch, ..self.tile() },
            4 | 5 => Axes { batch, column: Some(self.sketch.base), ..Axes::SCALAR },
            6 | 7 => Axes { batch, ..Axes::ROWS },
            8 => Axes { batch, ..Axes::SCALAR },
            _ => {
                self.declare_host_scalar();
                return;
            }
        };
        if self.traits.grouped && axes.row.is_some() && self.random.one_in(4) {
            axes.row = Some(self.traits.height);
        }
        if self.traits.grouped && axes.column.is_some() && self.random.one_in(2) {
            // One for each run of columns: the scales of blocks.
            axes.column = Some(self.width() * self.sketch.base);
        } else if self.sketch.base == 2 && axes.column.is_some() && self.random.one_in(2) {
            axes.column = Some(1);
        }
        let dtype = self.any_dtype();
        // Packed elements lie along a dim.
        let dtype = if axes.rank() == 0 { dtype.unpacked() } else { dtype };
        self.declare_tensor(dtype, axes);
    }

    pub(super) fn any_dtype(&mut self) -> DType {
        match self.random.below(10) {
            0 => *self.random.pick(&INTEGERS),
            1 | 2 => *self.random.pick(&TRUTHS),
            _ => *self.random.pick(&FLOATS),
        }
    }

    /// A tensor; its dims in any order.
    pub(super) fn declare_tensor(&mut self, dtype: DType, axes: Axes) -> ValueId {
        let mut dims = dims_of(axes);
        if dims.len() > 1 && self.random.one_in(4) {
            let last = dims.len() - 1;
            // Elements of several batches in one byte are rare.
            let other =
                if dtype.is_packed() && dims.len() == 3 { 1 } else { self.random.below(last) };
            dims.swap(other, last);
        }
        self.declare_value(dtype, Some(dims), axes)
    }

    /// A table of this many elements, of a dim that the product does not have.
    pub(super) fn declare_table(&mut self, dtype: DType, size: u32) -> Option<ValueId> {
        // A one-liner has no signature to declare it in.
        if self.sketch.form == Form::OneLiner {
            return None;
        }
        let dims = vec![postlude::shape::Dim::Size(size)];
        let table = self.declare_value(dtype, Some(dims), Axes::SCALAR);
        self.sketch.values[table].stack = Some(size);
        Some(table)
    }

    pub(super) fn declare_host_scalar(&mut self) {
        let dtype = *self.random.pick(&[DType::F32, DType::F32, DType::I32]);
        self.declare_value(dtype, None, Axes::SCALAR);
    }

    fn declare_value(
        &mut self,
        dtype: DType,
        dims: Option<Vec<postlude::shape::Dim>>,
        axes: Axes,
    ) -> ValueId {
        let ty = Type { elem: dtype.elem(), axes };
        let about = if self.traits.whole || ty.elem == Elem::I32 { 3.0 } else { 1.0 };
        let name = format!("x{}", self.sketch.inputs.len());
        let positive = matches!(dtype, DType::U8 | DType::U4);
        self.sketch.values.push(Known::given(name, ty, about, positive));
        let value = self.sketch.values.len() - 1;
        self.sketch.inputs.push(Declared { value, dtype, dims });
        value
    }
}
