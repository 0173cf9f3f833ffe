//! Operands laid out for the microkernel.
//!
//! In: a strided matrix of any element type. Out: panels of f32, `width` rows side by side for each k, padded with zeros.
//! Invariant: a [`Matrix`] exists only if every element it names lies in its bytes; padding never reaches a result.

use super::decode::{self, Decode, decode_one, with_decoder};
use super::storage::Storage;
use super::transpose::{self, BLOCK};
use crate::dtype::DType;
use rayon::prelude::*;
use std::ops::Range;
use zerocopy::FromBytes;

/// An operand in memory. Rows run along M (or N), columns along K; offset and strides count elements and may be
/// zero or negative.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Operand<'a> {
    /// The element type.
    pub(crate) dtype: DType,
    /// The memory, elements little-endian.
    pub(crate) bytes: &'a [u8],
    /// Where element (0, 0) lies.
    pub(crate) offset: isize,
    /// From one row to the next.
    pub(crate) row_stride: isize,
    /// From one column to the next.
    pub(crate) column_stride: isize,
}

/// An operand of known extents, all of it in bounds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Matrix<'a> {
    operand: Operand<'a>,
    rows: usize,
}

impl<'a> Matrix<'a> {
    /// The operand as `rows` by `columns`, if its memory holds them.
    pub(super) fn new(operand: Operand<'a>, rows: usize, columns: usize) -> Option<Self> {
        let matrix = Matrix { operand, rows };
        if rows == 0 || columns == 0 {
            return Some(matrix);
        }
        let reach =
            |count: usize, stride: isize| isize::try_from(count - 1).ok()?.checked_mul(stride);
        let (down, across) =
            (reach(rows, operand.row_stride)?, reach(columns, operand.column_stride)?);
        let lowest = operand.offset.checked_add(down.min(0))?.checked_add(across.min(0))?;
        let highest = operand.offset.checked_add(down.max(0))?.checked_add(across.max(0))?;
        let held = isize::try_from(operand.bytes.len() * 8 / operand.dtype.bits()).ok()?;
        (0 <= lowest && highest < held).then_some(matrix)
    }

    /// Rows: the extent along M or N.
    pub(super) fn rows(&self) -> usize {
        self.rows
    }

    /// The element type.
    pub(super) fn dtype(&self) -> DType {
        self.operand.dtype
    }

    /// The matrix as lines of f32 in memory, where it is aligned and rows or columns lie without gaps.
    pub(super) fn lines(&self) -> Option<Lines<'a>> {
        let Operand { dtype, bytes, row_stride, column_stride, offset } = self.operand;
        if dtype != DType::F32 || cfg!(target_endian = "big") {
            return None;
        }
        let whole = bytes.len() / size_of::<f32>() * size_of::<f32>();
        let values = <[f32]>::ref_from_bytes(&bytes[..whole]).ok()?;
        let values = values.get(usize::try_from(offset).ok()?..)?;
        match [row_stride, column_stride].map(usize::try_from) {
            [Ok(1), Ok(step)] => Some(Lines::Columns { values, step }),
            [Ok(step), Ok(1)] => Some(Lines::Rows { values, step }),
            [_, _] => None,
        }
    }

    /// The index in memory of an element; in bounds by construction if the element exists.
    fn index(&self, row: usize, column: usize) -> usize {
        let Operand { offset, row_stride, column_stride, .. } = self.operand;
        (offset + row as isize * row_stride + column as isize * column_stride) as usize
    }

    /// `count` elements that lie next to each other, from (`row`, `column`) on.
    fn run<D: Decode>(&self, row: usize, column: usize, count: usize) -> impl Iterator<Item = f32> {
        let bytes = &self.operand.bytes[self.index(row, column) * D::SIZE..][..count * D::SIZE];
        bytes.chunks_exact(D::SIZE).map(decode_one::<D>)
    }
}

/// A matrix in the caller's memory, read where it lies; `step` elements from one line to the next.
#[derive(Clone, Copy, Debug)]
pub(super) enum Lines<'a> {
    /// Each row lies without gaps.
    Rows { values: &'a [f32], step: usize },
    /// Each column lies without gaps.
    Columns { values: &'a [f32], step: usize },
}

/// Which rows become panels: `rows` of the matrix from `first` on, in groups that begin a new panel.
#[derive(Clone, Copy, Debug)]
pub(super) struct Layout {
    /// The first row.
    pub(super) first: usize,
    /// How many rows.
    pub(super) rows: usize,
    /// Rows in a group; the last may be shorter.
    pub(super) group: usize,
    /// Rows in a panel: the microkernel's mr or nr.
    pub(super) width: usize,
    /// The extent along K.
    pub(super) k: usize,
    /// The longest block of K.
    pub(super) kc: usize,
}

impl Layout {
    /// Panels of a full group.
    pub(super) fn panels_in_group(&self) -> usize {
        self.group.div_ceil(self.width)
    }

    /// All panels.
    fn panels(&self) -> usize {
        let whole = self.rows / self.group;
        whole * self.panels_in_group() + (self.rows % self.group).div_ceil(self.width)
    }

    /// The rows of the matrix in a panel: the first, and how many.
    fn rows_of(&self, panel: usize) -> (usize, usize) {
        let (group, within) =
            (panel / self.panels_in_group(), panel % self.panels_in_group() * self.width);
        let start = group * self.group + within;
        (self.first + start, self.width.min(self.group - within).min(self.rows - start))
    }

    /// All groups.
    pub(super) fn groups(&self) -> usize {
        self.rows.div_ceil(self.group)
    }

    /// The rows of the matrix in a group.
    pub(super) fn rows_of_group(&self, group: usize) -> Range<usize> {
        let start = group * self.group;
        self.first + start..self.first + self.rows.min(start + self.group)
    }

    /// Blocks of K.
    pub(super) fn blocks(&self) -> usize {
        self.k.div_ceil(self.kc)
    }

    /// The extent of a block of K.
    fn depth(&self, block: usize) -> usize {
        self.kc.min(self.k - block * self.kc)
    }
}

/// Packed rows, blocks of K outermost: a block's panels lie next to each other.
pub(super) struct Panels<'a> {
    data: &'a [f32],
    layout: Layout,
}

impl<'a> Panels<'a> {
    /// Packs the layout's rows of `matrix`; `parallel` over the current thread pool.
    pub(super) fn pack(
        matrix: &Matrix<'_>,
        layout: Layout,
        storage: &'a mut Storage<f32>,
        parallel: bool,
    ) -> Self {
        let per_k = layout.panels() * layout.width;
        let data = storage.take(per_k * layout.k);
        for (block, data) in data.chunks_mut((per_k * layout.kc).max(1)).enumerate() {
            let (from, depth) = (block * layout.kc, layout.depth(block));
            let size = depth * layout.width;
            let pack = |(some, out): (usize, &mut [f32])| {
                let part = Part { layout, panel: some * TOGETHER, from, size };
                with_decoder!(matrix.dtype(), pack_panels, (matrix, part, out));
            };
            if parallel {
                data.par_chunks_mut(size * TOGETHER).enumerate().for_each(pack);
            } else {
                data.chunks_mut(size * TOGETHER).enumerate().for_each(pack);
            }
        }
        Panels { data, layout }
    }

    /// The layout it was packed by.
    pub(super) fn layout(&self) -> &Layout {
        &self.layout
    }

    /// A panel's block of K, as `[k][width]`.
    pub(super) fn panel(&self, block: usize, panel: usize) -> &[f32] {
        let Layout { width, kc, .. } = self.layout;
        let size = self.layout.depth(block) * width;
        &self.data[block * kc * width * self.layout.panels() + panel * size..][..size]
    }
}

/// Packs columns `from` on of one panel of `width` rows, as `[k][width]`, into `out`.
pub(super) fn pack_panel(
    matrix: &Matrix<'_>,
    (first, rows): (usize, usize),
    width: usize,
    from: usize,
    out: &mut [f32],
) {
    let k = out.len() / width;
    let layout = Layout { first, rows, group: rows, width, k: from + k, kc: from + k };
    let part = Part { layout, panel: 0, from, size: out.len() };
    with_decoder!(matrix.dtype(), pack_panels, (matrix, part, out));
}

/// Panels packed together, so that memory with rows next to each other is read in long runs.
const TOGETHER: usize = 16;
/// Columns transposed at a time, so that the panel's lines stay in L1 until all their rows are written.
const TRANSPOSED: usize = 16;

/// Some panels of a layout: from number `panel` on, columns from `from` on, `size` elements each.
#[derive(Clone, Copy)]
struct Part {
    layout: Layout,
    panel: usize,
    from: usize,
    size: usize,
}

/// Packs the panels that fill `out`, each `[k][width]`.
fn pack_panels<D: Decode>(matrix: &Matrix<'_>, part: Part, out: &mut [f32]) {
    let Part { layout, panel, from, size } = part;
    if matrix.operand.row_stride == 1 {
        for k in 0..size / layout.width {
            for (index, out) in out.chunks_exact_mut(size).enumerate() {
                let (row, rows) = layout.rows_of(panel + index);
                let line = &mut out[k * layout.width..][..layout.width];
                copy_line::<D>(matrix, (row, from + k), rows, line);
            }
        }
        return;
    }
    for (index, out) in out.chunks_exact_mut(size).enumerate() {
        let (row, rows) = layout.rows_of(panel + index);
        if rows < layout.width {
            out.fill(0.0);
        }
        for (block, lines) in out.chunks_mut(layout.width * TRANSPOSED).enumerate() {
            let place = (row, from + block * TRANSPOSED);
            copy_columns::<D>(matrix, place, (rows, layout.width), lines);
        }
    }
}

/// Copies `rows` rows that lie next to each other into a line, and pads it.
fn copy_line<D: Decode>(
    matrix: &Matrix<'_>,
    (row, column): (usize, usize),
    rows: usize,
    line: &mut [f32],
) {
    let (filled, padding) = line.split_at_mut(rows);
    for (slot, value) in filled.iter_mut().zip(matrix.run::<D>(row, column, rows)) {
        *slot = value;
    }
    padding.fill(0.0);
}

/// Copies `rows` rows from (`row`, `column`) on into lines of `width`, one line for each column.
fn copy_columns<D: Decode>(
    matrix: &Matrix<'_>,
    (row, column): (usize, usize),
    (rows, width): (usize, usize),
    lines: &mut [f32],
) {
    let depth = lines.len() / width;
    let mut done = 0;
    if matrix.operand.column_stride == 1 && depth.is_multiple_of(BLOCK) {
        done = rows / BLOCK * BLOCK;
        let stride = usize::try_from(matrix.operand.row_stride).ok().filter(|_| D::IS_F32);
        for r in (0..done).step_by(BLOCK) {
            if let Some(stride) = stride {
                let bytes = &matrix.operand.bytes[matrix.index(row + r, column) * D::SIZE..];
                transpose::transpose_stored(bytes, stride, depth, &mut lines[r..], width);
                continue;
            }
            for (number, lines) in lines.chunks_mut(width * BLOCK).enumerate() {
                let mut block = [[0.0; BLOCK]; BLOCK];
                for (place, values) in block.iter_mut().enumerate() {
                    let run = matrix.run::<D>(row + r + place, column + number * BLOCK, BLOCK);
                    values.iter_mut().zip(run).for_each(|(slot, value)| *slot = value);
                }
                transpose::transpose(&block, &mut lines[r..], width);
            }
        }
    }
    for r in done..rows {
        let slots = lines[r..].iter_mut().step_by(width);
        if matrix.operand.column_stride == 1 {
            slots
                .zip(matrix.run::<D>(row + r, column, depth))
                .for_each(|(slot, value)| *slot = value);
        } else {
            let values =
                (column..column + depth).flat_map(|column| matrix.run::<D>(row + r, column, 1));
            slots.zip(values).for_each(|(slot, value)| *slot = value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn operand(
        bytes: &[u8],
        offset: isize,
        row_stride: isize,
        column_stride: isize,
    ) -> Operand<'_> {
        Operand { dtype: DType::F16, bytes, offset, row_stride, column_stride }
    }

    #[test]
    fn a_matrix_outside_its_bytes_does_not_exist() {
        let bytes = [0; 24];
        assert!(Matrix::new(operand(&bytes, 0, 4, 1), 3, 4).is_some());
        assert!(Matrix::new(operand(&bytes, 0, 4, 1), 3, 5).is_none());
        assert!(Matrix::new(operand(&bytes, 1, 4, 1), 3, 4).is_none());
        assert!(Matrix::new(operand(&bytes, 11, -4, -1), 3, 4).is_some());
        assert!(Matrix::new(operand(&bytes, 10, -4, -1), 3, 4).is_none());
        assert!(Matrix::new(operand(&bytes, 11, 0, 0), usize::MAX >> 1, 9).is_some());
        assert!(Matrix::new(operand(&bytes, 0, isize::MAX, 1), 3, 1).is_none());
        assert!(Matrix::new(operand(&bytes, isize::MAX, 1, 1), 2, 2).is_none());
        assert!(Matrix::new(operand(&bytes, 99, 1, 1), 0, 2).is_some());
        assert!(Matrix::new(operand(&bytes[..23], 0, 4, 1), 3, 4).is_none());
    }
}
