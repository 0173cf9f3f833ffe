//! The value of a node at one place.

use postlude_ptx::kernel::Reg;
use postlude_ptx::modifier::{LoadCache, Rounding, Saturation};
use postlude_ptx::types::{F32, Pred, U32};

use crate::graph::{Axes, Columns, IndexAxis, InputId, NodeId, Op};
use crate::target::sm90::emit::batch::Coordinate;
use crate::target::sm90::emit::chip::EpilogueChip;
use crate::target::sm90::emit::parameters::Source;
use crate::target::sm90::emit::values::{Environment, Place, Value};

use super::kernel::ElementKernel;

/// A place, in the rows and columns of some axes, and what is known there.
pub(super) struct Frame<'k> {
    axes: Axes,
    at: Coordinate<'k>,
    /// Where it may lie outside: nothing is read there.
    inside: Option<Reg<'k, Pred>>,
    /// Whether all lanes of a warp are at this place.
    pub(super) by_warp: bool,
    known: Environment<'k>,
}

impl<'k> Frame<'k> {
    /// One in a graph of this many nodes.
    pub(super) fn new(nodes: usize, axes: Axes, at: Coordinate<'k>, by_warp: bool) -> Frame<'k> {
        Frame { axes, at, inside: None, by_warp, known: vec![None; nodes] }
    }

    /// The same place, which is inside only where this frame's is, and where this is so.
    pub(super) fn within(
        mut self,
        outer: Option<Reg<'k, Pred>>,
        inside: Option<Reg<'k, Pred>>,
    ) -> Frame<'k> {
        self.inside = match (outer, inside) {
            (Some(outer), Some(inside)) => Some(outer & inside),
            (one, other) => one.or(other),
        };
        self
    }

    pub(super) fn inside(&self) -> Option<Reg<'k, Pred>> {
        self.inside
    }

    /// The place of a value with coarser axes: its batch, row and column.
    pub(super) fn at(&self, axes: Axes) -> Coordinate<'k> {
        let coarser =
            |place: Reg<'k, U32>, own: Option<u32>, wanted: Option<u32>| match (own, wanted) {
                (Some(own), Some(wanted)) if wanted > own => place / (wanted / own),
                _ => place,
            };
        let (batch, row, column) = self.at;
        let row = coarser(row, self.axes.row, axes.row);
        let divisor = |columns: Option<Columns>| columns.map(|columns| columns.divisor);
        let column = coarser(column, divisor(self.axes.columns()), divisor(axes.columns()));
        (batch, row, column)
    }
}

impl<'k, C: EpilogueChip> ElementKernel<'_, 'k, C> {
    /// The value of a node in a frame whose axes are its own or finer.
    pub(super) fn value(&self, frame: &mut Frame<'k>, id: NodeId) -> Value<'k> {
        if let Some(known) = frame.known[id.index()] {
            return known;
        }
        let value = match self.op(id) {
            Op::Input(input) => self.input(*input, frame, id),
            Op::Index(axis) => self.index(*axis, frame, id),
            Op::Extent(axes) => Value::Float(self.extent(*axes, frame)),
            Op::Part(part, of) => self.part(frame, id, *part, *of),
            Op::Merge(merge, a, b) => self.merge(frame, id, *merge, [*a, *b]),
            Op::Concat(concat, parts) => self.concat(frame, id, *concat, parts),
            Op::Reduce(..) | Op::ReduceWeighted(..) => self.reduce(frame, id),
            Op::Pick(of, index) => self.pick(frame, id, *of, *index),
            Op::Accumulator(_)
            | Op::Constant(_)
            | Op::Size(_)
            | Op::Unary(..)
            | Op::Binary(..)
            | Op::Fma(..)
            | Op::Select(..)
            | Op::Cast(..)
            | Op::Round(..)
            | Op::Philox(_)
            | Op::Take(..)
            | Op::Entry(..)
            | Op::Call(..) => {
                for operand in self.op(id).operands() {
                    self.value(frame, operand);
                }
                let place = Place { at: frame.at, inside: None };
                self.evaluator().node(id, &frame.known, &place, &[])
            }
        };
        frame.known[id.index()] = Some(value);
        value
    }

    /// A new place, in the columns of another value.
    pub(super) fn beside(
        &self,
        frame: &Frame<'k>,
        of: NodeId,
        like: NodeId,
        (column, inside): (Reg<'k, U32>, Option<Reg<'k, Pred>>),
    ) -> Frame<'k> {
        let graph = self.plan.graph;
        let axes = graph.ty(of).axes;
        let (batch, row, _) = frame.at(graph.ty(like).axes);
        // Rows are those of the value that is asked for, which has as many.
        let axes = Axes { row: graph.ty(like).axes.row, batch: true, ..axes };
        let beside = Frame::new(graph.len(), axes, (batch, row, column), frame.by_warp);
        beside.within(frame.inside, inside)
    }

    fn input(&self, input: InputId, frame: &Frame<'k>, id: NodeId) -> Value<'k> {
        let found = self.parameters.sources.iter().find(|(own, _)| *own == input);
        match found.map(|(_, source)| source) {
            Some(Source::Memory(memory)) => {
                let at = frame.at(self.plan.graph.ty(id).axes);
                let location = memory.element(self.k, at);
                self.evaluator().load(memory.dtype, location, frame.inside, LoadCache::Default)
            }
            Some(Source::Host(_)) => {
                let place = Place { at: frame.at, inside: None };
                self.evaluator().input(input, &place)
            }
            Some(Source::Map(_)) | None => {
                panic!("compiler bug: input {} is not read element by element", input.0)
            }
        }
    }

    fn index(&self, axis: IndexAxis, frame: &Frame<'k>, id: NodeId) -> Value<'k> {
        let (batch, row, column) = frame.at(self.plan.graph.ty(id).axes);
        let index = match axis {
            IndexAxis::Row => row,
            IndexAxis::Column => column,
            IndexAxis::Batch => batch.number,
            IndexAxis::BatchDim(dim) => batch.along(dim as usize),
        };
        Value::Integer(index.cast())
    }

    /// How many elements these axes have, rounded once; of rows of segments those of a frame's.
    fn extent(&self, axes: Axes, frame: &Frame<'k>) -> Reg<'k, F32> {
        let [batches, mut rows, columns] = self.extents(axes);
        if self.plan.graph.space().is_segmented() && axes.row.is_some() {
            [_, rows] = self.rows_of(frame.at.0.number);
        }
        let [batches, rows, columns] = [batches, rows, columns].map(|size| self.k.widen(size));
        self.k.convert(Rounding::Nearest, Saturation::None, batches * rows * columns)
    }
}
