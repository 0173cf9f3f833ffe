//! Reductions of an element: a loop over its terms, which the lanes of a warp share where all of them have the same element.

use postlude_ptx::kernel::Reg;
use postlude_ptx::types::{F32, U32};

use crate::graph::{NodeId, Run};
use crate::lower::Reduction;
use crate::target::sm90::emit::chip::EpilogueChip;
use crate::target::sm90::emit::values::{State, Term, Value};

use super::evaluate::Frame;
use super::kernel::ElementKernel;

/// The bits of a lane's number.
const LANE_BITS: [u32; 5] = [1, 2, 4, 8, 16];

impl<'k, C: EpilogueChip> ElementKernel<'_, 'k, C> {
    pub(super) fn reduce(&self, frame: &Frame<'k>, id: NodeId) -> Value<'k> {
        let (k, graph) = (self.k, self.plan.graph);
        let Some(reduction) = Reduction::by_itself(graph, id) else {
            panic!("compiler bug: {id} reduces nothing")
        };
        let Reduction { over, terms, .. } = reduction;
        let axes = graph.ty(terms).axes;
        let [batches, rows, columns] = self.extents(axes);
        let (batch, row, column) = frame.at(graph.ty(id).axes);
        let terms_along = |run: Option<Run>, place: Reg<'k, U32>, all: Reg<'k, U32>| match run {
            None => (place, k.imm(1)),
            Some(Run::All) => (k.imm(0), all),
            Some(Run::Group(length)) => (place * length, k.imm(length)),
        };
        let batch_count = if over.batch { batches } else { k.imm(1) };
        let (first_row, row_count) = match over.row {
            Some(Run::All) if graph.space().is_segmented() => {
                let [first, count] = self.rows_of(batch.number);
                (first, count)
            }
            run => terms_along(run, row, rows),
        };
        let (first_column, column_count) = terms_along(over.column, column, columns);
        let evaluator = self.evaluator();
        let state = evaluator.fold_begin(reduction);
        let state: Vec<_> = state.into_iter().map(|word| k.var(word)).collect();
        let (first, step) = if frame.by_warp { (self.lane, 32) } else { (k.imm(0), 1) };
        let extents = [batch_count * row_count, column_count];
        self.for_places(extents, [first, k.imm(step)], |line, column| {
            let of_batch = line / row_count;
            let batch = if over.batch { self.parameters.batch_dims.batch(of_batch) } else { batch };
            let at = (batch, first_row + (line - of_batch * row_count), first_column + column);
            let inner = Frame::new(graph.len(), axes, at, false);
            let mut inner = inner.within(frame.inside(), None);
            let term = self.term(&mut inner, reduction, || line * column_count + column);
            let before: State<'k> = state.iter().map(|word| word.copy()).collect();
            let after = evaluator.fold_more(reduction, &before, &[term]);
            for (word, after) in state.iter().zip(after) {
                word.set(after);
            }
        });
        let state: State<'k> = state.iter().map(|word| word.copy()).collect();
        let bits: &[u32] = if frame.by_warp { &LANE_BITS } else { &[] };
        let state = evaluator.fold_lanes(reduction, state, bits);
        evaluator.fold_end(reduction, &state)
    }

    /// A term, by its number among all that are folded together.
    fn term(
        &self,
        frame: &mut Frame<'k>,
        reduction: Reduction,
        number: impl FnOnce() -> Reg<'k, U32>,
    ) -> Term<'k> {
        let evaluator = self.evaluator();
        let mut of =
            |node: NodeId| -> Reg<'k, F32> { evaluator.fold_term(self.value(frame, node)) };
        let value = of(reduction.terms);
        let weight = reduction.weights.map(of);
        let index = || self.k.bits_to_f32(number().cast());
        Term { value, index: reduction.uses_index().then(index), weight }
    }

    /// The element of a row whose column an index names; nan where there is none.
    pub(super) fn pick(
        &self,
        frame: &mut Frame<'k>,
        id: NodeId,
        of: NodeId,
        index: NodeId,
    ) -> Value<'k> {
        let column = self.value(frame, index).integer().cast::<U32>();
        let [_, _, columns] = self.extents(self.plan.graph.ty(of).axes);
        let exists = column.lt(columns);
        let mut inner = self.beside(frame, of, id, (column, Some(exists)));
        let value = self.value(&mut inner, of).float();
        Value::Float(value.select(f32::NAN, exists))
    }
}
