//! Leaves of the graph: inputs and indices.

use crate::dtype::{self, Elem};
use crate::graph::{Graph, InputId};
use crate::problem::{Argument, body_strides};
use crate::tensor::TensorView;

use super::buffer::Buffer;
use super::elementwise;

/// Which dim of an input's tensor runs along the batch, the rows and the columns of the body.
#[derive(Clone, Copy, Debug)]
pub(super) struct LeafAxes([Option<u8>; 3]);

impl LeafAxes {
    pub(super) fn new(graph: &Graph, input: InputId) -> LeafAxes {
        let dims = graph.inputs()[input.0 as usize].dims.as_deref().unwrap_or_default();
        let numbers: Vec<isize> = (1..=dims.len() as isize).collect();
        let places = body_strides(graph.space(), dims, &numbers);
        LeafAxes(places.map(|place| (place > 0).then(|| place as u8 - 1)))
    }
}

/// An input as the body reads it.
pub(super) struct Leaf<'a> {
    tensor: TensorView<'a>,
    /// Elements between neighbours along batch, rows and columns.
    strides: [isize; 3],
}

impl<'a> Leaf<'a> {
    pub(super) fn new(tensor: TensorView<'a>, axes: LeafAxes) -> Leaf<'a> {
        let strides = axes.0.map(|dim| dim.map_or(0, |dim| tensor.strides()[dim as usize]));
        Leaf { tensor, strides }
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
pub(super) fn host_scalar(graph: &Graph, inputs: &[Argument<'_>], input: InputId) -> Option<f64> {
    let declared = &graph.inputs()[input.0 as usize];
    match &inputs[input.0 as usize] {
        Argument::Scalar(value) => Some(dtype::round_to(declared.dtype, *value)),
        Argument::Tensor(_) | Argument::View(_) => None,
    }
}

/// Numbers from `start` on.
pub(super) fn count_from(start: usize, out: &mut Buffer) {
    debug_assert!(matches!(out, Buffer::I32(_)), "indices are {}", Elem::I32);
    out.i32s().iter_mut().enumerate().for_each(|(index, out)| *out = (start + index) as i32);
}
