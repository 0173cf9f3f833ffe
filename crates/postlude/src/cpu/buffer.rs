//! Values of the body while they are computed: runs of one element type.

use crate::dtype::Elem;

/// Owned values.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Buffer {
    F32(Vec<f32>),
    I32(Vec<i32>),
    /// Truth values, 0 or 1.
    Bool(Vec<u8>),
}

/// Borrowed values; a single one stands for as many as are wanted.
#[derive(Clone, Copy, Debug)]
pub(crate) enum View<'a> {
    F32(&'a [f32]),
    I32(&'a [i32]),
    Bool(&'a [u8]),
}

/// Calls a macro-like body with the values inside, whatever their type.
macro_rules! inside {
    ($kind:ident, $value:expr, $name:ident => $body:expr) => {
        match $value {
            $kind::F32($name) => $body,
            $kind::I32($name) => $body,
            $kind::Bool($name) => $body,
        }
    };
}

impl Buffer {
    /// Zeros.
    pub(crate) fn new(elem: Elem, len: usize) -> Buffer {
        match elem {
            Elem::F32 => Buffer::F32(vec![0.0; len]),
            Elem::I32 => Buffer::I32(vec![0; len]),
            Elem::Bool => Buffer::Bool(vec![0; len]),
        }
    }

    pub(crate) fn len(&self) -> usize {
        inside!(Buffer, self, values => values.len())
    }

    /// Makes it this long; values are unspecified. Takes memory only when it was never as long.
    pub(crate) fn set_len(&mut self, len: usize) {
        match self {
            Buffer::F32(values) => values.resize(len, 0.0),
            Buffer::I32(values) => values.resize(len, 0),
            Buffer::Bool(values) => values.resize(len, 0),
        }
    }

    /// The first value everywhere.
    pub(crate) fn repeat_first(&mut self) {
        fn repeat<T: Copy>(values: &mut [T]) {
            if let Some(first) = values.first().copied() {
                values.fill(first);
            }
        }
        inside!(Buffer, self, values => repeat(values));
    }

    /// One value in place of what was there.
    pub(crate) fn set_single(&mut self, value: f64) {
        self.set_len(1);
        match self {
            Buffer::F32(values) => values[0] = value as f32,
            Buffer::I32(values) => values[0] = value as i32,
            Buffer::Bool(values) => values[0] = u8::from(value != 0.0),
        }
    }

    pub(crate) fn view(&self) -> View<'_> {
        match self {
            Buffer::F32(values) => View::F32(values),
            Buffer::I32(values) => View::I32(values),
            Buffer::Bool(values) => View::Bool(values),
        }
    }

    /// The values, which are f32.
    pub(crate) fn f32s(&mut self) -> &mut [f32] {
        match self {
            Buffer::F32(values) => values,
            Buffer::I32(_) | Buffer::Bool(_) => panic!("compiler bug: expected f32 values"),
        }
    }

    /// The values, which are i32.
    pub(crate) fn i32s(&mut self) -> &mut [i32] {
        match self {
            Buffer::I32(values) => values,
            Buffer::F32(_) | Buffer::Bool(_) => panic!("compiler bug: expected i32 values"),
        }
    }

    /// The values, which are truth values.
    pub(crate) fn bools(&mut self) -> &mut [u8] {
        match self {
            Buffer::Bool(values) => values,
            Buffer::F32(_) | Buffer::I32(_) => panic!("compiler bug: expected truth values"),
        }
    }

    /// Copies values, or one value everywhere, to a place.
    pub(crate) fn copy_from(&mut self, at: usize, len: usize, from: View<'_>) {
        match (self, from) {
            (Buffer::F32(to), View::F32(from)) => copy(&mut to[at..at + len], from),
            (Buffer::I32(to), View::I32(from)) => copy(&mut to[at..at + len], from),
            (Buffer::Bool(to), View::Bool(from)) => copy(&mut to[at..at + len], from),
            _ => panic!("compiler bug: values of two types"),
        }
    }
}

fn copy<T: Copy>(to: &mut [T], from: &[T]) {
    if from.len() == to.len() { to.copy_from_slice(from) } else { to.fill(from[0]) }
}

impl<'a> View<'a> {
    pub(crate) fn len(self) -> usize {
        inside!(View, self, values => values.len())
    }

    /// Part of the values.
    pub(crate) fn slice(self, range: std::ops::Range<usize>) -> View<'a> {
        match self {
            View::F32(values) => View::F32(&values[range]),
            View::I32(values) => View::I32(&values[range]),
            View::Bool(values) => View::Bool(&values[range]),
        }
    }

    pub(crate) fn f32s(self) -> &'a [f32] {
        match self {
            View::F32(values) => values,
            View::I32(_) | View::Bool(_) => panic!("compiler bug: expected f32 values"),
        }
    }

    pub(crate) fn i32s(self) -> &'a [i32] {
        match self {
            View::I32(values) => values,
            View::F32(_) | View::Bool(_) => panic!("compiler bug: expected i32 values"),
        }
    }

    pub(crate) fn bools(self) -> &'a [u8] {
        match self {
            View::Bool(values) => values,
            View::F32(_) | View::I32(_) => panic!("compiler bug: expected truth values"),
        }
    }

    /// Each value `factor` times.
    pub(crate) fn stretch_into(self, factor: usize, out: &mut Buffer) {
        fn stretch<T: Copy>(from: &[T], factor: usize, to: &mut [T]) {
            for (run, value) in to.chunks_exact_mut(factor).zip(from) {
                run.fill(*value);
            }
        }
        match (self, out) {
            (View::F32(from), Buffer::F32(to)) => stretch(from, factor, to),
            (View::I32(from), Buffer::I32(to)) => stretch(from, factor, to),
            (View::Bool(from), Buffer::Bool(to)) => stretch(from, factor, to),
            _ => panic!("compiler bug: values of two types"),
        }
    }

    /// The values at these places of the view, in order.
    pub(crate) fn gather_into(self, out: &mut Buffer, place: impl Fn(usize) -> usize) {
        fn gather<T: Copy>(from: &[T], to: &mut [T], place: impl Fn(usize) -> usize) {
            for (index, value) in to.iter_mut().enumerate() {
                *value = from[place(index)];
            }
        }
        match (self, out) {
            (View::F32(from), Buffer::F32(to)) => gather(from, to, place),
            (View::I32(from), Buffer::I32(to)) => gather(from, to, place),
            (View::Bool(from), Buffer::Bool(to)) => gather(from, to, place),
            _ => panic!("compiler bug: values of two types"),
        }
    }
}

/// A finished value: its elements along batch, rows and columns, each 1 where it does not vary.
#[derive(Clone, Debug)]
pub(crate) struct Array {
    pub(crate) extents: [usize; 3],
    pub(crate) data: Buffer,
}

impl Array {
    pub(crate) fn new(elem: Elem, extents: [usize; 3]) -> Array {
        Array { extents, data: Buffer::new(elem, extents.iter().product()) }
    }

    /// Where the columns of a row start.
    pub(crate) fn row_start(&self, batch: usize, row: usize) -> usize {
        let [batches, rows, columns] = self.extents;
        ((if batches == 1 { 0 } else { batch }) * rows + if rows == 1 { 0 } else { row }) * columns
    }

    /// The columns that one of this many rows sees, where runs of them share a row.
    pub(crate) fn row_of(&self, batch: usize, row: usize, rows: usize) -> View<'_> {
        let own = self.extents[1];
        self.row(batch, if own == rows { row } else { row * own / rows.max(1) })
    }

    /// The columns of a row.
    pub(crate) fn row(&self, batch: usize, row: usize) -> View<'_> {
        let start = self.row_start(batch, row);
        self.data.view().slice(start..start + self.extents[2])
    }
}

impl Array {
    /// The element type of the values.
    pub(crate) fn elem(&self) -> Elem {
        match self.data {
            Buffer::F32(_) => Elem::F32,
            Buffer::I32(_) => Elem::I32,
            Buffer::Bool(_) => Elem::Bool,
        }
    }
}
