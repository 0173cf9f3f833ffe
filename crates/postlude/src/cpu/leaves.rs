//! Leaves of the graph: inputs and indices.

use crate::dtype::{self, Elem};
use crate::graph::{Graph, InputId};
use crate::problem::{Argument, Arguments, body_strides};
use crate::tensor::Tensor;

use super::buffer::Buffer;
use super::elementwise;

/// An input as the body reads it.
pub(super) struct Leaf<'a> {
    tensor: &'a Tensor,
    /// Elements between neighbours along batch, rows and columns.
    strides: [isize; 3],
}

impl<'a> Leaf<'a> {
    pub(super) fn new(graph: &Graph, arguments: &'a Arguments, input: InputId) -> Option<Leaf<'a>> {
        let declared = &graph.inputs()[input.0 as usize];
        match &arguments[&declared.name] {
            Argument::Scalar(_) => None,
            Argument::Tensor(tensor) => {
                let strides = body_strides(
                    graph.product(),
                    declared.dims.as_deref().unwrap_or_default(),
                    tensor.strides(),
                );
                Some(Leaf { tensor, strides })
            }
        }
    }

    /// The columns from `column` on of a row, as many as `out` holds.
    pub(super) fn load(&self, batch: usize, row: usize, column: usize, out: &mut Buffer) {
        let [batches, rows, columns] = self.strides;
        let start = self.tensor.offset() as isize
            + batch as isize * batches
            + row as isize * rows
            + column as isize * columns;
        let (dtype, bytes) = (self.tensor.dtype(), self.tensor.bytes());
        if columns == 1 || out.len() <= 1 {
            if out.len() > 0 {
                elementwise::load(dtype, bytes, start as usize, out);
            }
            return;
        }
        let element =
            |index: usize| dtype::load(dtype, bytes, (start + index as isize * columns) as usize);
        match out {
            Buffer::F32(out) => {
                out.iter_mut().enumerate().for_each(|(index, out)| *out = element(index) as f32);
            }
            Buffer::I32(out) => {
                out.iter_mut().enumerate().for_each(|(index, out)| *out = element(index) as i32);
            }
            Buffer::Bool(out) => out
                .iter_mut()
                .enumerate()
                .for_each(|(index, out)| *out = u8::from(element(index) != 0.0)),
        }
    }
}

/// A scalar that the host passes, rounded to its declared type.
pub(super) fn host_scalar(graph: &Graph, arguments: &Arguments, input: InputId) -> Buffer {
    let declared = &graph.inputs()[input.0 as usize];
    match &arguments[&declared.name] {
        Argument::Scalar(value) => {
            Buffer::single(declared.dtype.elem(), dtype::round_to(declared.dtype, *value))
        }
        Argument::Tensor(_) => panic!("compiler bug: a tensor was bound to a scalar input"),
    }
}

/// Numbers from `start` on.
pub(super) fn count_from(start: usize, out: &mut Buffer) {
    debug_assert!(matches!(out, Buffer::I32(_)), "indices are {}", Elem::I32);
    out.i32s().iter_mut().enumerate().for_each(|(index, out)| *out = (start + index) as i32);
}
