//! The elements of a node that an evaluation needs.
//!
//! A node has batches, rows and columns, each 1 where it does not vary. An evaluation may need some rows and columns only:
//! [`Places`] says which, and a [`View`] finds the element that a place of a larger or finer array sees.

use std::collections::HashMap;
use std::sync::Arc;

use rayon::prelude::*;

use crate::graph::{NodeId, Over, Value};
use crate::process;

use super::alternatives::Alternatives;

/// Arrays below this size are not worth another thread.
const WORTH_THREADS: usize = 1 << 13;

/// Some of the places along an axis, rising.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Places {
    /// The size of the axis.
    pub(super) of: usize,
    /// The chosen places.
    pub(super) chosen: Vec<usize>,
}

impl Places {
    pub(super) fn all(of: usize) -> Places {
        Places { of, chosen: (0..of).collect() }
    }

    pub(super) fn len(&self) -> usize {
        self.chosen.len()
    }

    pub(super) fn is_all(&self) -> bool {
        self.chosen.len() == self.of
    }

    /// Where a place is among the chosen.
    pub(super) fn position(&self, place: usize) -> usize {
        if self.is_all() {
            return place;
        }
        self.chosen
            .binary_search(&place)
            .expect("compiler bug: an element is read that was not asked for")
    }

    /// The place that one of a larger or finer axis sees: places of a coarser axis each stand for a run.
    pub(super) fn seen_from(&self, place: usize, of: usize) -> usize {
        if self.of == of { place } else { place * self.of / of.max(1) }
    }
}

/// Which elements of a node there are.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Frame {
    pub(super) batches: usize,
    pub(super) rows: Places,
    pub(super) columns: Places,
    /// Of rows that are cut into segments, the segment of each row of the problem: the batch of values without rows.
    pub(super) segments: Option<Arc<Vec<usize>>>,
}

impl Frame {
    pub(super) fn len(&self) -> usize {
        self.batches * self.rows.len() * self.columns.len()
    }

    /// The batch that an element is of, given its place along batches and its row of the problem.
    pub(super) fn batch_of(&self, batch: usize, row: usize) -> usize {
        self.segments.as_ref().map_or(batch, |segments| segments[row])
    }
}

/// What is known of elements under the assumption that a condition holds there. In every group of the reduction that has
/// any, it holds for at least one of them.
#[derive(Debug)]
pub(super) struct Assumed {
    /// The condition, by the node that compares.
    pub(super) condition: NodeId,
    /// What the elements of a group are folded along.
    pub(super) over: Over,
    /// What each element may be where its condition holds.
    pub(super) values: HashMap<usize, Alternatives>,
}

/// The elements of a node.
#[derive(Debug)]
pub(super) struct Array {
    pub(super) frame: Frame,
    pub(super) values: Vec<Value>,
    /// Of elements that may be one of several.
    pub(super) alternatives: HashMap<usize, Alternatives>,
    pub(super) assumed: Option<Assumed>,
}

impl Array {
    /// Elements that each have one enclosure.
    pub(super) fn plain(frame: Frame, values: Vec<Value>) -> Array {
        Array { frame, values, alternatives: HashMap::new(), assumed: None }
    }

    /// This array as the places of a frame see it.
    pub(super) fn view(&self, frame: &Frame) -> View<'_> {
        let positions = |own: &Places, seen: &Places| -> Vec<usize> {
            let position = |place: &usize| own.position(own.seen_from(*place, seen.of));
            seen.chosen.iter().map(position).collect()
        };
        View {
            array: self,
            one_batch: self.frame.batches == 1,
            batches: frame
                .segments
                .as_ref()
                .map(|segments| frame.rows.chosen.iter().map(|row| segments[*row]).collect()),
            rows: positions(&self.frame.rows, &frame.rows),
            columns: positions(&self.frame.columns, &frame.columns),
        }
    }

    /// Where an element is, by its places along the axes.
    pub(super) fn position(&self, [batch, row, column]: [usize; 3]) -> usize {
        let Frame { rows, columns, .. } = &self.frame;
        (batch * rows.len() + rows.position(row)) * columns.len() + columns.position(column)
    }

    /// Where the element is that one of another array sees, given by its positions there; others need not be here.
    pub(super) fn seen(&self, from: &Frame, [batch, row, column]: [usize; 3]) -> usize {
        let (row, column) = (from.rows.chosen[row], from.columns.chosen[column]);
        let batch = if self.frame.batches == 1 { 0 } else { from.batch_of(batch, row) };
        let Frame { rows, columns, .. } = &self.frame;
        let (of_rows, of_columns) = (from.rows.of, from.columns.of);
        self.position([batch, rows.seen_from(row, of_rows), columns.seen_from(column, of_columns)])
    }
}

/// An array as the places of a larger or finer one see it.
pub(super) struct View<'a> {
    pub(super) array: &'a Array,
    one_batch: bool,
    /// The batch of each row, where rows are cut into segments.
    batches: Option<Vec<usize>>,
    rows: Vec<usize>,
    columns: Vec<usize>,
}

impl View<'_> {
    /// Where the element is that a position of the frame sees.
    pub(super) fn index(&self, [batch, row, column]: [usize; 3]) -> usize {
        let Frame { rows, columns, .. } = &self.array.frame;
        let batch = match &self.batches {
            _ if self.one_batch => 0,
            Some(batches) => batches[row],
            None => batch,
        };
        (batch * rows.len() + self.rows[row]) * columns.len() + self.columns[column]
    }
}

/// One value for every position of a frame, made row by row on all cores; what a row has to say beside is gathered.
pub(super) fn each_row<T: Send>(
    frame: &Frame,
    make: impl Fn([usize; 2], usize, &mut [Value]) -> Vec<T> + Sync,
) -> (Vec<Value>, Vec<T>) {
    let (rows, columns) = (frame.rows.len(), frame.columns.len());
    let mut values = vec![Value::exact(0.0); frame.len()];
    if values.is_empty() {
        return (values, Vec::new());
    }
    let work = |(at, out): (usize, &mut [Value])| make([at / rows, at % rows], at * columns, out);
    let beside = if values.len() < WORTH_THREADS || process::is_forked() {
        values.chunks_mut(columns).enumerate().flat_map(work).collect()
    } else {
        values.par_chunks_mut(columns).enumerate().flat_map_iter(work).collect()
    };
    (values, beside)
}

/// The same for a function of the places along the axes.
pub(super) fn each(frame: &Frame, f: impl Fn([usize; 3]) -> Value + Sync) -> Vec<Value> {
    let make = |[batch, row]: [usize; 2], _, out: &mut [Value]| {
        for (column, value) in out.iter_mut().enumerate() {
            *value = f([batch, frame.rows.chosen[row], frame.columns.chosen[column]]);
        }
        Vec::<()>::new()
    };
    each_row(frame, make).0
}
