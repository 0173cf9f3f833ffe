//! Leaves of the graph: inputs and indices.

use crate::dtype::{self, Elem};
use crate::graph::{Graph, InputId};
use crate::problem::{Argument, BodyStrides, Problem};
use crate::shape::Dim;
use crate::tensor::TensorView;

use super::buffer::Buffer;
use super::elementwise;

/// Which dim of an input's tensor runs along each of the body's, counted from 1; 0 for none.
#[derive(Clone, Copy, Debug)]
pub(super) struct LeafAxes(BodyStrides);

impl LeafAxes {
    pub(super) fn new(graph: &Graph, input: InputId) -> LeafAxes {
        let dims = graph.inputs()[input.0 as usize].dims.as_deref().unwrap_or_default();
        let numbers: Vec<isize> = (1..=dims.len() as isize).collect();
        LeafAxes::of_dims(graph, dims, &numbers)
    }

    /// Those of a tensor with these dims, each of which has a number.
    pub(super) fn of_dims(graph: &Graph, dims: &[Dim], numbers: &[isize]) -> LeafAxes {
        LeafAxes(BodyStrides::new(graph.space(), dims, numbers))
    }

    /// A tensor's strides along the body's dims; 0 where it has none.
    pub(super) fn strides(self, tensor: TensorView<'_>) -> BodyStrides {
        self.0.map(|dim| if dim == 0 { 0 } else { tensor.strides()[dim as usize - 1] })
    }
}

/// An input as the body reads it.
pub(super) struct Leaf<'a> {
    tensor: TensorView<'a>,
    strides: BodyStrides,
    problem: &'a Problem,
}

impl<'a> Leaf<'a> {
    pub(super) fn new(tensor: TensorView<'a>, axes: LeafAxes, problem: &'a Problem) -> Leaf<'a> {
        Leaf { tensor, strides: axes.strides(tensor), problem }
    }

    /// The columns from `column` on of a row, as many as `out` holds.
    pub(super) fn load(&self, batch: usize, row: usize, column: usize, out: &mut Buffer) {
        let columns = self.strides.column;
        let start = self.tensor.offset() as isize
            + self.strides.to_element(self.problem, [batch, row, column]);
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
