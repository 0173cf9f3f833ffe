//! Work that does not vary from row to row: done once, before a sweep. Values of runs of rows have a line for each run.

use std::ops::Range;

use crate::functions::Accuracy;
use crate::graph::{Fold, Graph, IndexAxis, NodeId, Op, Over, Run};
use crate::problem::{Argument, Problem, Segments, input_tensor};

use super::buffer::{Array, Buffer, View};
use super::leaves::{Leaf, LeafAxes};
use super::partial::Partial;
use super::program::MOST_OPERANDS;
use super::{elementwise, leaves, program, rows};

/// Finished values by node; tiles are never among them. A value keeps its memory from call to call.
pub(super) type Finished = Vec<Option<Array>>;

/// What a sweep needs to know of the call.
pub(super) struct Context<'a> {
    pub(super) graph: &'a Graph,
    pub(super) problem: &'a Problem,
    /// In the order of the signature, validated.
    pub(super) inputs: &'a [Argument<'a>],
    pub(super) leaves: &'a [LeafAxes],
    pub(super) accuracies: &'a [Accuracy],
    /// How many threads share the work.
    pub(super) threads: usize,
    /// Where rows are cut into segments.
    pub(super) segments: Option<Segments>,
    /// Where the contraction is.
    pub(super) contraction: Option<Segments>,
}

impl Context<'_> {
    /// The rows of a batch: all, or those of its segment.
    pub(super) fn rows(&self, batch: usize) -> Range<usize> {
        match &self.segments {
            None => 0..self.problem.rows,
            Some(segments) if batch < segments.count() => segments.rows(batch),
            Some(_) => 0..0,
        }
    }

    /// The K of a batch's product: all, or those of its segment.
    pub(super) fn inner(&self, batch: usize) -> Range<usize> {
        let segments = self.contraction.as_ref();
        segments.map_or(0..self.problem.inner, |segments| segments.rows(batch))
    }
}

/// Memory of a value that does not vary from row to row, besides the value itself.
#[derive(Default)]
pub(super) struct ColumnMemory {
    /// One batch of it, where there are several.
    line: Option<Buffer>,
    /// Operands stretched to its width.
    wide: [Option<Array>; MOST_OPERANDS],
    partial: Option<Partial>,
}

/// Finishes values that do not vary from row to row.
pub(super) fn finish_columns(
    context: &Context<'_>,
    nodes: &[NodeId],
    memory: &mut [ColumnMemory],
    finished: &mut Finished,
) {
    for (id, memory) in nodes.iter().zip(memory) {
        let ty = context.graph.ty(*id);
        let mut array = match finished[id.index()].take() {
            Some(array) => array,
            None => Array::new(ty.elem, context.problem.extents(ty.axes)),
        };
        finish(context, *id, memory, finished, &mut array);
        finished[id.index()] = Some(array);
    }
}

fn finish(
    context: &Context<'_>,
    id: NodeId,
    memory: &mut ColumnMemory,
    finished: &Finished,
    array: &mut Array,
) {
    match &context.graph[id].op {
        Op::Constant(constant) => array.data.set_single(constant.as_f64()),
        Op::Extent(axes) if axes.row.is_some() && context.segments.is_some() => {
            let columns = context.problem.extents(*axes)[2] as f64;
            each_line(array, &mut memory.line, |batch, _, out| {
                out.set_single(context.rows(batch).len() as f64 * columns);
            });
        }
        Op::Extent(axes) => {
            let count: f64 = context.problem.extents(*axes).iter().map(|n| *n as f64).product();
            array.data.set_single(count);
        }
        Op::Size(dim) => {
            let size = context.problem.shape(std::slice::from_ref(dim))[0];
            array.data.set_single(f64::from(size as i32));
        }
        Op::Index(IndexAxis::Column) => leaves::count_from(0, &mut array.data),
        Op::Index(IndexAxis::Batch) => {
            each_line(array, &mut memory.line, |batch, _, out| leaves::count_from(batch, out));
        }
        Op::Index(IndexAxis::BatchDim(dim)) => {
            each_line(array, &mut memory.line, |batch, _, out| {
                leaves::count_from(context.problem.batch_place(batch)[*dim as usize], out);
            });
        }
        Op::Take(table, index) => {
            let (table, index) = (input_tensor(context.inputs, *table), operand(finished, *index));
            let rows = array.extents[1];
            each_line(array, &mut memory.line, |batch, row, out| {
                elementwise::take(table, index.row_of(batch, row, rows), out);
            });
        }
        Op::Entry(table, row, column) => {
            let table = input_tensor(context.inputs, *table);
            let indices = [*row, *column].map(|index| operand(finished, index));
            let rows = array.extents[1];
            each_line(array, &mut memory.line, |batch, row, out| {
                let indices = indices.map(|index| index.row_of(batch, row, rows));
                elementwise::entry(table, indices, out);
            });
        }
        Op::Input(input) => {
            if let Some(value) = leaves::host_scalar(context.graph, context.inputs, *input) {
                return array.data.set_single(value);
            }
            let axes = context.leaves[input.0 as usize];
            let leaf = Leaf::new(input_tensor(context.inputs, *input), axes, context.problem);
            each_line(array, &mut memory.line, |batch, row, out| leaf.load(batch, row, 0, out));
        }
        Op::Reduce(fold, over, of) if over.crosses_rows() => {
            fold_lines(context, id, (*fold, *over, *of, None), memory, finished, array);
        }
        Op::ReduceWeighted(fold, over, of, by) if over.crosses_rows() => {
            fold_lines(context, id, (*fold, *over, *of, Some(*by)), memory, finished, array);
        }
        op => evaluate_lines(context, (id, op), memory, finished, array),
    }
}

/// Computes the lines of a value from those of its operands.
fn evaluate_lines(
    context: &Context<'_>,
    (id, op): (NodeId, &Op),
    memory: &mut ColumnMemory,
    finished: &Finished,
    array: &mut Array,
) {
    let width = array.extents[2];
    let moves = program::moves(op);
    let ColumnMemory { line, wide, partial } = memory;
    if !moves {
        for (wide, node) in wide.iter_mut().zip(op.operands()) {
            stretch(operand(finished, node), width, wide);
        }
    }
    let rows = array.extents[1];
    each_line(array, line, |batch, row, out| {
        let mut views = [View::Bool(&[]); MOST_OPERANDS];
        let mut count = 0;
        for node in op.operands() {
            let own = operand(finished, node);
            let wide = wide.get(count).and_then(Option::as_ref);
            views[count] = wide.unwrap_or(own).row_of(batch, row, rows);
            count += 1;
        }
        let accuracy = context.accuracies[id.index()];
        let of = (context.graph, context.problem);
        rows::evaluate(of, id, accuracy, &views[..count], out, partial);
    });
}

/// Folds the lines of a finished value over batches or rows; terms may have weights.
fn fold_lines(
    context: &Context<'_>,
    id: NodeId,
    (fold, over, of, by): (Fold, Over, NodeId, Option<NodeId>),
    memory: &mut ColumnMemory,
    finished: &Finished,
    array: &mut Array,
) {
    let source = operand(finished, of);
    let slots = array.extents.iter().product();
    let partial = memory.partial.get_or_insert_with(|| {
        let accuracy = context.accuracies[id.index()];
        Partial::new(fold, context.graph.ty(of).elem, accuracy, slots)
    });
    partial.reset(slots);
    let [batches, rows, columns] = source.extents;
    let (height, width) = (Run::count(over.row, rows), Run::count(over.column, columns));
    for (batch, row) in (0..batches).flat_map(|batch| (0..rows).map(move |row| (batch, row))) {
        let result = if over.batch { 0 } else { batch } * array.extents[1];
        let at = (result + Run::result(over.row, row)) * array.extents[2];
        let terms = source.row(batch, row);
        if let Some(by) = by {
            let weights = operand(finished, by).row_of(batch, row, rows);
            rows::fold_weighted_row(partial, at, over, terms, weights);
        } else {
            let before = if over.batch { batch * height } else { 0 };
            let line = before + if over.row.is_some() { row % height } else { 0 };
            rows::fold_row(partial, at, over, terms, line * width);
        }
    }
    partial.finish_into(&mut array.data);
}

fn operand(finished: &Finished, node: NodeId) -> &Array {
    finished[node.index()].as_ref().expect("compiler bug: an operand is not finished")
}

/// The same values for wider columns in `wide`, which stays `None` when they need no stretching.
pub(super) fn stretch(array: &Array, width: usize, wide: &mut Option<Array>) {
    let own = array.extents[2];
    if own == width || own <= 1 || width == 0 {
        return;
    }
    let extents = [array.extents[0], array.extents[1], width];
    let wide = wide.get_or_insert_with(|| Array::new(array.elem(), extents));
    array.data.view().stretch_into(width / own, &mut wide.data);
}

/// Makes an array line by line, for each batch and run of rows.
fn each_line(
    array: &mut Array,
    line: &mut Option<Buffer>,
    mut f: impl FnMut(usize, usize, &mut Buffer),
) {
    let elem = array.elem();
    let [batches, rows, columns] = array.extents;
    if batches * rows == 1 {
        return f(0, 0, &mut array.data);
    }
    let line = line.get_or_insert_with(|| Buffer::new(elem, columns));
    for batch in 0..batches {
        for row in 0..rows {
            f(batch, row, line);
            array.data.copy_from((batch * rows + row) * columns, columns, line.view());
        }
    }
}
