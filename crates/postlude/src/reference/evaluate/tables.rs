//! Elements of tables: by one index, and by two.

use crate::dtype;
use crate::graph::{InputId, NodeId, Value};

use super::super::array::{Array, Frame};
use super::super::operand::{self, Computed};
use super::Evaluation;

impl Evaluation<'_> {
    /// Elements of a table; of an uncertain index every element that it may name.
    pub(super) fn take(&self, frame: Frame, table: InputId, index: NodeId) -> Array {
        let tensor = self.call.tensor(table);
        let (count, stride) = (tensor.shape()[0] as i64, tensor.strides()[0]);
        let outside = match self.call.graph.inputs()[table.0 as usize].dtype.elem() {
            dtype::Elem::I32 => Value::exact(0.0),
            dtype::Elem::F32 | dtype::Elem::Bool => Value::NAN,
        };
        let at = |place: i64| {
            if !(0..count).contains(&place) {
                return outside;
            }
            let at = (tensor.offset() as isize + place as isize * stride) as usize;
            Value::exact(dtype::load(tensor.dtype(), tensor.bytes(), at))
        };
        self.map(frame, [index], |[place]| {
            // Whatever lies further out is one and the same.
            let ends = (place.low.max(-1.0) as i64, place.high.min(count as f64) as i64);
            let found = (ends.0..=ends.1).map(at).reduce(Value::or).unwrap_or(outside);
            Value { nominal: at(place.nominal as i64).nominal, ..found }
        })
    }

    /// Elements of a table with two dims; of an uncertain row every element of its column that it may name.
    pub(super) fn entry(&self, frame: Frame, table: InputId, indices: [NodeId; 2]) -> Array {
        let declared = &self.call.graph.inputs()[table.0 as usize];
        let shape = self.call.problem.shape(declared.dims.as_deref().unwrap_or_default());
        let outside = match declared.dtype.elem() {
            dtype::Elem::I32 => Value::exact(0.0),
            dtype::Elem::F32 | dtype::Elem::Bool => Value::NAN,
        };
        let computed = operand::computed(self.call, table);
        let element = |place: [i64; 2]| {
            let steps =
                |strides: &[isize]| place[0] as isize * strides[0] + place[1] as isize * strides[1];
            if let Some(Computed { values, strides }) = &computed {
                return values[steps(strides) as usize];
            }
            let tensor = self.call.tensor(table);
            let at = (tensor.offset() as isize + steps(tensor.strides())) as usize;
            Value::exact(dtype::load(tensor.dtype(), tensor.bytes(), at))
        };
        let at = |place: [i64; 2]| {
            if !(0..2).all(|dim| (0..shape[dim] as i64).contains(&place[dim])) {
                return outside;
            }
            element(place)
        };
        self.map(frame, indices, |[row, column]| {
            // Columns are the body's own, which are certain.
            let column = column.nominal as i64;
            let ends = (row.low.max(-1.0) as i64, row.high.min(shape[0] as f64) as i64);
            let rows = (ends.0..=ends.1).map(|row| at([row, column]));
            let found = rows.reduce(Value::or).unwrap_or(outside);
            Value { nominal: at([row.nominal as i64, column]).nominal, ..found }
        })
    }
}
