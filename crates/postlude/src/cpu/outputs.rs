//! Where results go.
//!
//! Tile outputs that lie row after row are written by the regions themselves; everything else is written at the end.

use crate::dtype::{self, DType};
use crate::graph::Axes;
use crate::lower::SweepProgram;
use crate::problem::Problem;
use crate::tensor::{TensorView, TensorViewMut};

use super::buffer::{Array, View};
use super::elementwise;
use super::leaves::LeafAxes;

/// A tile output that regions write in parallel, each its own rows and columns.
///
/// It is a pointer into an output's memory without its lifetime, so that a workspace keeps the list of them; it is used
/// during the call that made it, and never after.
pub(super) struct Tile {
    dtype: DType,
    start: *mut u8,
    bytes: usize,
    rows: usize,
    columns: usize,
}

// SAFETY: regions write disjoint bytes (`Tile::store`), and nothing reads before all are done.
unsafe impl Sync for Tile {}
// SAFETY: as above: which thread writes does not matter.
unsafe impl Send for Tile {}

impl Tile {
    /// A contiguous tile of `rows` by `columns` for each batch.
    pub(super) fn new(dtype: DType, bytes: &mut [u8], rows: usize, columns: usize) -> Tile {
        Tile { dtype, start: bytes.as_mut_ptr(), bytes: bytes.len(), rows, columns }
    }

    /// Stores part of a row.
    ///
    /// # Safety
    /// The memory of [`Tile::new`] is still borrowed for writing and used by nothing else. No two calls that may run at the same time store the same element. Of packed bits, a part starts and ends at a
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
            store_repeated(self.dtype, bytes, count, values);
        }
    }
}

/// Stores one value in every element.
fn store_repeated(dtype: DType, bytes: &mut [u8], count: usize, value: View<'_>) {
    // Whole bytes of packed bits.
    const AT_ONCE: usize = 64;
    for first in (0..count).step_by(AT_ONCE) {
        let some = AT_ONCE.min(count - first);
        match value {
            View::F32(value) => {
                elementwise::store(dtype, bytes, first, View::F32(&[value[0]; AT_ONCE][..some]));
            }
            View::I32(value) => {
                elementwise::store(dtype, bytes, first, View::I32(&[value[0]; AT_ONCE][..some]));
            }
            View::Bool(value) => {
                elementwise::store(dtype, bytes, first, View::Bool(&[value[0]; AT_ONCE][..some]));
            }
        }
    }
}

/// How an output is stored in every call of one problem.
pub(super) struct Destination {
    /// What it varies along.
    pub(super) axes: Axes,
    /// Its sizes along batch, rows and columns.
    pub(super) extents: [usize; 3],
    /// Whether regions store it.
    pub(super) is_tile: bool,
    /// The sizes of the call.
    problem: Problem,
    /// Which dim of its tensor runs along each of the body's.
    dims: LeafAxes,
    /// Which one its values are stacked along.
    stacked: Option<usize>,
}

impl Destination {
    pub(super) fn new(program: &SweepProgram, problem: &Problem, place: usize) -> Destination {
        let graph = program.graph();
        let output = &graph.outputs()[place];
        let Some(axes) = graph.output_axes(output) else {
            panic!("compiler bug: output `{}` has foreign dims", output.name)
        };
        let numbers: Vec<isize> = (1..=output.dims.len() as isize).collect();
        let dims = output.without_stack(&output.dims);
        let numbers = output.without_stack(&numbers);
        Destination {
            axes,
            extents: problem.extents(axes),
            is_tile: program.is_stored(place),
            problem: problem.clone(),
            dims: LeafAxes::of_dims(graph, &dims, &numbers),
            stacked: output.stack.as_ref().map(|stack| stack.dim),
        }
    }

    /// Whether a tensor's memory is the tile row after row.
    pub(super) fn is_natural(&self, tensor: TensorView<'_>) -> bool {
        let [_, rows, columns] = self.extents;
        let strides = self.dims.strides(tensor);
        // Batches follow one another, the last dim of them fastest.
        let sizes = &self.problem.batch_sizes;
        let apart = |place: usize| sizes[place + 1..].iter().product::<usize>() * rows * columns;
        let in_order =
            |place: usize| sizes[place] == 1 || strides.batch[place] == apart(place) as isize;
        tensor.is_contiguous()
            && strides.column == 1
            && strides.row == columns as isize
            && (!self.axes.batch || (0..sizes.len()).all(in_order))
    }

    /// Writes any finished value to a tensor of any layout: of several it is that of this number.
    pub(super) fn scatter(
        &self,
        number: usize,
        segments: Option<&[usize]>,
        array: &Array,
        tensor: &mut TensorViewMut<'_>,
    ) {
        let [_, rows, columns] = self.extents;
        self.write_each(number, segments, tensor, |[batch, row, column]| {
            let values = array.row_of(batch, row, rows);
            let own = values.len();
            element(values, if own == columns { column } else { column * own / columns })
        });
    }

    /// Copies a spare tile to a tensor of any layout.
    pub(super) fn copy_natural(
        &self,
        segments: Option<&[usize]>,
        natural: &[u8],
        tensor: &mut TensorViewMut<'_>,
    ) {
        let [_, rows, columns] = self.extents;
        let dtype = spare_dtype(tensor.dtype());
        self.write_each(0, segments, tensor, |[batch, row, column]| {
            let batch = if self.extents[0] == 1 { 0 } else { batch };
            dtype::load(dtype, natural, (batch * rows + row) * columns + column)
        });
    }

    /// Writes every element of one of an output's values; `value` is given its place along batch, rows and columns. Of
    /// rows that are cut into segments, rows of a segment are written, and the segment is their batch.
    fn write_each(
        &self,
        number: usize,
        segments: Option<&[usize]>,
        tensor: &mut TensorViewMut<'_>,
        value: impl Fn([usize; 3]) -> f64,
    ) {
        let strides = self.dims.strides(tensor.view());
        let apart = self.stacked.map_or(0, |dim| tensor.strides()[dim]);
        let (dtype, offset) = (tensor.dtype(), tensor.offset() as isize + number as isize * apart);
        let [batches, rows, columns] = self.extents;
        let segments = segments.filter(|_| self.axes.row.is_some());
        let rows = segments.map_or(rows, <[usize]>::len);
        for batch in 0..batches {
            for row in 0..rows {
                let batch = segments.map_or(batch, |segments| segments[row]);
                for column in 0..columns {
                    let place = [batch, row, column];
                    let steps = strides.to_element(&self.problem, place);
                    let value = value(place);
                    dtype::store(dtype, tensor.bytes_mut(), (offset + steps) as usize, value);
                }
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
