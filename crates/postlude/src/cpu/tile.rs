//! A rectangle of a row-major buffer that one thread may write while others write its neighbours.
//!
//! In: a mutable slice and its shape. Out: disjoint rectangles of it.
//! Invariant: no two live tiles share an element, and every element of a tile lies in the slice it was cut from.

use std::marker::PhantomData;

/// A mutable rectangle, `leading` elements from one row to the next.
pub(super) struct Tile<'a, T> {
    pointer: *mut T,
    leading: usize,
    rows: usize,
    columns: usize,
    owner: PhantomData<&'a mut [T]>,
}

// SAFETY: a tile is a mutable borrow of its elements, which no other tile reaches.
unsafe impl<T: Send> Send for Tile<'_, T> {}

impl<'a, T> Tile<'a, T> {
    /// The whole of `buffer` as `rows` rows of `columns` elements.
    pub(super) fn new(buffer: &'a mut [T], rows: usize, columns: usize) -> Self {
        let needed = rows.checked_mul(columns).expect("compiler bug: region overflows");
        assert!(needed <= buffer.len(), "compiler bug: region larger than its buffer");
        Tile { pointer: buffer.as_mut_ptr(), leading: columns, rows, columns, owner: PhantomData }
    }

    /// Rows in the tile.
    pub(super) fn rows(&self) -> usize {
        self.rows
    }

    /// Columns in the tile.
    pub(super) fn columns(&self) -> usize {
        self.columns
    }

    /// Elements from one row to the next.
    pub(super) fn leading(&self) -> usize {
        self.leading
    }

    /// The first element; valid for the tile's rectangle.
    pub(super) fn pointer(&mut self) -> *mut T {
        self.pointer
    }

    /// Row `index`.
    pub(super) fn row(&mut self, index: usize) -> &mut [T] {
        assert!(index < self.rows, "compiler bug: row outside the tile");
        // SAFETY: the row lies inside the tile, which this borrow holds exclusively.
        unsafe {
            std::slice::from_raw_parts_mut(self.pointer.add(index * self.leading), self.columns)
        }
    }

    /// The rectangle of at most `rows` by `columns` at (`row`, `column`), cut off at the tile's edge.
    pub(super) fn part(
        &mut self,
        row: usize,
        column: usize,
        rows: usize,
        columns: usize,
    ) -> Tile<'_, T> {
        assert!(row < self.rows && column < self.columns, "compiler bug: part outside the tile");
        // SAFETY: (`row`, `column`) is an element of the tile, so the offset stays in its slice.
        let pointer = unsafe { self.pointer.add(row * self.leading + column) };
        let (rows, columns) = (rows.min(self.rows - row), columns.min(self.columns - column));
        Tile { pointer, leading: self.leading, rows, columns, owner: PhantomData }
    }

    /// The rows above `row` and those from it on.
    pub(super) fn split_rows(self, row: usize) -> (Tile<'a, T>, Tile<'a, T>) {
        assert!(0 < row && row < self.rows, "compiler bug: split outside the tile");
        // SAFETY: `row` is a row of the tile, so the offset stays in its slice; the halves share no row.
        let below = unsafe { self.pointer.add(row * self.leading) };
        let rows = self.rows - row;
        (Tile { rows: row, ..self }, Tile { pointer: below, rows, ..self })
    }

    /// The columns left of `column` and those from it on.
    pub(super) fn split_columns(self, column: usize) -> (Tile<'a, T>, Tile<'a, T>) {
        assert!(0 < column && column < self.columns, "compiler bug: split outside the tile");
        // SAFETY: `column` is a column of the tile, so the offset stays in its slice; the halves share no column.
        let right = unsafe { self.pointer.add(column) };
        let columns = self.columns - column;
        (Tile { columns: column, ..self }, Tile { pointer: right, columns, ..self })
    }
}
