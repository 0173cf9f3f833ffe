//! Where results go.
//!
//! Tile outputs that lie row after row are written by the regions themselves; everything else is written at the end.

use std::marker::PhantomData;

use crate::dtype::{self, DType};
use crate::graph::{Graph, Output};
use crate::problem::{Problem, body_strides};
use crate::tensor::Tensor;

use super::buffer::{Array, Buffer, View};
use super::elementwise;

/// A tile output that regions write in parallel, each its own rows and columns.
pub(super) struct Tile<'a> {
    dtype: DType,
    start: *mut u8,
    bytes: usize,
    rows: usize,
    columns: usize,
    lifetime: PhantomData<&'a mut [u8]>,
}

// SAFETY: regions write disjoint bytes (`Tile::store`), and nothing reads before all are done.
unsafe impl Sync for Tile<'_> {}

impl<'a> Tile<'a> {
    /// A contiguous tile of `rows` by `columns` for each batch.
    pub(super) fn new(dtype: DType, bytes: &'a mut [u8], rows: usize, columns: usize) -> Tile<'a> {
        Tile {
            dtype,
            start: bytes.as_mut_ptr(),
            bytes: bytes.len(),
            rows,
            columns,
            lifetime: PhantomData,
        }
    }

    /// Stores part of a row.
    ///
    /// # Safety
    /// No two calls that may run at the same time store the same element. Of packed bits, a part starts and ends at a
    /// whole byte.
    pub(super) unsafe fn store(
        &self,
        batch: usize,
        row: usize,
        column: usize,
        count: usize,
        values: View<'_>,
    ) {
        let first = (batch * self.rows + row) * self.columns + column;
        let (from, to) =
            (first * self.dtype.bits() / 8, ((first + count) * self.dtype.bits()).div_ceil(8));
        assert!(
            row < self.rows && column + count <= self.columns && to <= self.bytes,
            "compiler bug: a store outside its output"
        );
        // SAFETY: inside the buffer, as just checked; disjoint from every other store, as the caller promises.
        let bytes = unsafe { std::slice::from_raw_parts_mut(self.start.add(from), to - from) };
        if values.len() == count {
            elementwise::store(self.dtype, bytes, 0, values);
        } else {
            let mut wide = match values {
                View::F32(_) => Buffer::F32(vec![0.0; count]),
                View::I32(_) => Buffer::I32(vec![0; count]),
                View::Bool(_) => Buffer::Bool(vec![0; count]),
            };
            wide.copy_from(0, count, values);
            elementwise::store(self.dtype, bytes, 0, wide.view());
        }
    }
}

/// Whether a tensor's memory is the tile row after row.
pub(super) fn is_natural(
    graph: &Graph,
    problem: &Problem,
    output: &Output,
    tensor: &Tensor,
) -> bool {
    let Some(axes) = graph.product().axes(&output.dims) else { return false };
    let [_, rows, columns] = problem.extents(axes);
    let strides = body_strides(graph.product(), &output.dims, tensor.strides());
    tensor.is_contiguous()
        && strides[2] == 1
        && strides[1] == columns as isize
        && (strides[0] == (rows * columns) as isize || strides[0] == 0)
}

/// Writes any finished value to a tensor of any layout.
pub(super) fn scatter(
    graph: &Graph,
    problem: &Problem,
    output: &Output,
    array: &Array,
    tensor: &mut Tensor,
) {
    write_each(graph, problem, output, tensor, |[batch, row, column], [_, _, columns]| {
        let values = array.row(batch, row);
        let own = values.len();
        element(values, if own == columns { column } else { column * own / columns })
    });
}

/// Writes every element of an output; `value` is given its place and the output's extents along batch, rows and columns.
fn write_each(
    graph: &Graph,
    problem: &Problem,
    output: &Output,
    tensor: &mut Tensor,
    value: impl Fn([usize; 3], [usize; 3]) -> f64,
) {
    let Some(axes) = graph.product().axes(&output.dims) else {
        panic!("compiler bug: output `{}` has foreign dims", output.name)
    };
    let extents = problem.extents(axes);
    let strides = body_strides(graph.product(), &output.dims, tensor.strides());
    let offset = tensor.offset() as isize;
    for batch in 0..extents[0] {
        for row in 0..extents[1] {
            for column in 0..extents[2] {
                let place = [batch, row, column];
                let steps: isize =
                    place.iter().zip(strides).map(|(at, stride)| *at as isize * stride).sum();
                let value = value(place, extents);
                dtype::store(output.dtype, tensor.bytes_mut(), (offset + steps) as usize, value);
            }
        }
    }
}

fn element(values: View<'_>, index: usize) -> f64 {
    match values {
        View::F32(values) => f64::from(values[index]),
        View::I32(values) => f64::from(values[index]),
        View::Bool(values) => f64::from(values[index]),
    }
}

/// How a spare tile holds an output: its rows need not be whole bytes of bits, and regions write them in parallel.
pub(super) fn spare_dtype(dtype: DType) -> DType {
    if dtype == DType::B1 { DType::Bool } else { dtype }
}

/// Copies a spare tile to a tensor of any layout.
pub(super) fn copy_natural(
    graph: &Graph,
    problem: &Problem,
    output: &Output,
    natural: &[u8],
    tensor: &mut Tensor,
) {
    write_each(graph, problem, output, tensor, |[batch, row, column], [_, rows, columns]| {
        let from = (batch * rows + row) * columns + column;
        dtype::load(spare_dtype(output.dtype), natural, from)
    });
}
