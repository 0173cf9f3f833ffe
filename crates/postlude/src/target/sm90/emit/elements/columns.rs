//! Parts of columns, and what is put together of parts: which element of an operand is asked for. The meaning is that of
//! [`Part::source`], [`Merge::source`] and [`Concat::source`].

use postlude_ptx::kernel::Reg;
use postlude_ptx::types::{Pred, U32};

use crate::graph::{Columns, Concat, Merge, NodeId, Part};
use crate::target::sm90::emit::chip::EpilogueChip;
use crate::target::sm90::emit::values::{Value, select};

use super::evaluate::Frame;
use super::kernel::ElementKernel;

impl<'k, C: EpilogueChip> ElementKernel<'_, 'k, C> {
    /// The column of a node in a frame.
    fn column(&self, frame: &Frame<'k>, id: NodeId) -> Reg<'k, U32> {
        frame.at(self.plan.graph.ty(id).axes).2
    }

    /// How many columns a node has; 1 where it does not vary along them.
    fn width(&self, id: NodeId) -> Reg<'k, U32> {
        let columns = self.plan.graph.ty(id).axes.columns();
        columns.map_or_else(|| self.k.imm(1), |columns| self.columns(columns))
    }

    /// The columns before a part that a split names.
    fn start(&self, parts: &[Columns]) -> Reg<'k, U32> {
        parts.iter().fold(self.k.imm(0), |all, part| all + self.columns(*part))
    }

    pub(super) fn part(&self, frame: &Frame<'k>, id: NodeId, part: Part, of: NodeId) -> Value<'k> {
        let column = self.column(frame, id);
        let of_runs = |index: u16, own: Reg<'k, U32>, run: Reg<'k, U32>| {
            let runs = column / own;
            (runs * run) + (own * u32::from(index)) + (column - runs * own)
        };
        let source = match part {
            Part::First => column,
            Part::Second => (self.width(of) >> 1) + column,
            Part::Even => column * 2,
            Part::Odd => column * 2 + 1,
            Part::Equal { index, count, run: None } => {
                self.width(of) / u32::from(count) * u32::from(index) + column
            }
            Part::Equal { index, count, run: Some(run) } => {
                of_runs(index, self.k.imm(run / u32::from(count)), self.k.imm(run))
            }
            Part::Repeated { index, count, run } => {
                let own = run / u32::from(count);
                column / run * run + u32::from(index) * own + column % own
            }
            Part::Listed { split, index } => {
                let split = &self.plan.graph.space().splits[usize::from(split)];
                self.start(&split.parts[..usize::from(index)]) + column
            }
        };
        let mut frame = self.beside(frame, of, id, (source, None));
        self.value(&mut frame, of)
    }

    pub(super) fn merge(
        &self,
        frame: &Frame<'k>,
        id: NodeId,
        merge: Merge,
        [a, b]: [NodeId; 2],
    ) -> Value<'k> {
        let column = self.column(frame, id);
        match merge {
            Merge::Join => {
                let mut frame = self.beside(frame, a, id, (column >> 1, None));
                let [a, b] = [a, b].map(|half| self.value(&mut frame, half));
                select((column & 1).eq(0), a, b)
            }
            Merge::Concat => {
                let half = self.width(id) >> 1;
                let first = column.lt(half);
                let of = |node: NodeId, column: Reg<'k, U32>, inside: Reg<'k, Pred>| {
                    let mut frame = self.beside(frame, node, id, (column, Some(inside)));
                    self.value(&mut frame, node)
                };
                select(first, of(a, column, first), of(b, column - half, column.ge(half)))
            }
        }
    }

    pub(super) fn concat(
        &self,
        frame: &Frame<'k>,
        id: NodeId,
        concat: Concat,
        parts: &[NodeId],
    ) -> Value<'k> {
        let (column, count) = (self.column(frame, id), parts.len() as u32);
        let in_order = |which: Reg<'k, U32>, source: Reg<'k, U32>| {
            let mut frame = self.beside(frame, parts[0], id, (source, None));
            let values = parts.iter().map(|part| self.value(&mut frame, *part)).collect();
            let conditions = (1..count).map(|place| which.lt(place)).collect();
            chosen(values, conditions)
        };
        match concat {
            Concat::Equal(run) => {
                let run = run.map_or_else(|| self.width(id), |run| self.k.imm(run));
                let own = run / count;
                let which = column % run / own;
                in_order(which, column / run * own + column % own)
            }
            Concat::Repeated(run) => in_order(column % run / (run / count), column),
            Concat::Listed(split) => {
                let split = &self.plan.graph.space().splits[usize::from(split)];
                let ends = (1..=split.parts.len()).map(|count| self.start(&split.parts[..count]));
                let ends: Vec<Reg<'k, U32>> = ends.collect();
                let mut values = Vec::new();
                for (place, part) in parts.iter().enumerate() {
                    let start = place.checked_sub(1).map_or_else(|| self.k.imm(0), |it| ends[it]);
                    // What another part has is not read of this one.
                    let inside = (column - start).lt(ends[place] - start);
                    let at = (column - start, Some(inside));
                    let mut frame = self.beside(frame, *part, id, at);
                    values.push(self.value(&mut frame, *part));
                }
                let conditions = ends.iter().take(parts.len() - 1).map(|end| column.lt(*end));
                chosen(values, conditions.collect())
            }
        }
    }
}

/// The first value whose condition holds; the last without one.
fn chosen<'k>(values: Vec<Value<'k>>, conditions: Vec<Reg<'k, Pred>>) -> Value<'k> {
    let mut values = values.into_iter().rev();
    let Some(last) = values.next() else { panic!("compiler bug: nothing is put together") };
    values
        .zip(conditions.into_iter().rev())
        .fold(last, |rest, (value, first)| select(first, value, rest))
}
