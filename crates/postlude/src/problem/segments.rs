//! Where the segments of rows begin and end in a call whose tensors are on the host.

use std::ops::Range;

use crate::dtype;
use crate::graph::Graph;
use crate::tensor::TensorView;

use super::{Argument, BindError, Problem};

/// The segments of a call's rows.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Segments {
    /// The row that each begins with, and the last one's end.
    bounds: Vec<usize>,
}

impl Segments {
    /// Those of this many rows that end where a tensor says. Ends that decrease or pass the rows are clamped, as a kernel
    /// on a GPU clamps them.
    pub(crate) fn new(ends: TensorView<'_>, rows: usize) -> Segments {
        let mut bounds = vec![0];
        for end in read(ends) {
            let before = bounds[bounds.len() - 1];
            let end = usize::try_from(end).unwrap_or(0);
            bounds.push(end.clamp(before, rows));
        }
        Segments { bounds }
    }

    /// How many there are.
    pub(crate) fn count(&self) -> usize {
        self.bounds.len() - 1
    }

    /// The rows of a segment.
    pub(crate) fn rows(&self, segment: usize) -> Range<usize> {
        self.bounds[segment]..self.bounds[segment + 1]
    }

    /// The rows of all segments: those behind them are not written.
    pub(crate) fn written(&self) -> usize {
        self.bounds[self.count()]
    }

    /// The segment of every row; the last one for rows behind all ends.
    pub(crate) fn of_rows(&self, rows: usize) -> Vec<usize> {
        let last = self.count().saturating_sub(1);
        let mut all: Vec<usize> = Vec::with_capacity(rows);
        for segment in 0..self.count() {
            all.extend(self.rows(segment).map(|_| segment));
        }
        all.resize(rows, last);
        all
    }
}

fn read(ends: TensorView<'_>) -> impl Iterator<Item = i64> + '_ {
    let count = ends.shape().first().copied().unwrap_or(0) as isize;
    let stride = ends.strides().first().copied().unwrap_or(0);
    (0..count).map(move |place| {
        let at = ends.offset() as isize + place * stride;
        dtype::load_integer(ends.dtype(), ends.bytes(), at as usize)
    })
}

impl Problem {
    /// Whether segments end where rows are, each behind the one before.
    pub(crate) fn check_segments(
        &self,
        graph: &Graph,
        inputs: &[Argument<'_>],
    ) -> Result<(), BindError> {
        let earlier = graph.earlier();
        let all = earlier.iter().map(|earlier| &**earlier.graph).chain([graph]);
        let ends = all.flat_map(|graph| {
            let (space, products) = (graph.space(), graph.products().iter());
            let rows = space.segments.as_ref().map(|name| (name, &space.row));
            let contracted =
                products.filter_map(|it| it.segments.as_ref().map(|name| (name, &it.inner)));
            rows.into_iter().chain(contracted)
        });
        for (name, dim) in ends {
            let tensor = inputs.get(graph.place_of(name)).and_then(Argument::tensor);
            let Some(tensor) = tensor else { continue };
            let rows = self.shape(std::slice::from_ref(dim))[0] as i64;
            let mut before = 0;
            for (place, end) in read(tensor).enumerate() {
                if !(before..=rows).contains(&end) {
                    let name = name.clone();
                    return Err(BindError::SegmentEnd { name, place, end, before, rows });
                }
                before = end;
            }
        }
        Ok(())
    }
}
