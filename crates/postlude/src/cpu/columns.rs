//! Work that does not vary over rows: done once, before a sweep.

use crate::functions::Accuracy;
use crate::graph::{Graph, IndexAxis, NodeId, Op, Over, Run};
use crate::plan::{Sweeps, Width, crosses_regions};
use crate::problem::{Argument, Problem, input_tensor};

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
}

/// The values of a sweep that do not vary along rows, in the order in which they are finished.
pub(super) fn column_nodes(
    graph: &Graph,
    sweeps: &Sweeps,
    sweep: usize,
    width: Width,
) -> Vec<NodeId> {
    let live = graph.live();
    let mine = |id: NodeId, op: &Op, row: bool| {
        live[id.index()]
            && sweeps.of[id.index()] == sweep
            && !row
            && !crosses_regions(graph, op, width)
    };
    let nodes = graph.nodes().filter(|(id, node)| mine(*id, &node.op, node.ty.axes.row));
    nodes.map(|(id, _)| id).collect()
}

/// Memory of one such value besides the value itself.
#[derive(Default)]
pub(super) struct ColumnMemory {
    /// One batch of it, where there are several.
    line: Option<Buffer>,
    /// Operands stretched to its width.
    wide: [Option<Array>; MOST_OPERANDS],
    partial: Option<Partial>,
}

/// Finishes values that do not vary along rows.
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
            each_batch(array, &mut memory.line, leaves::count_from);
        }
        Op::Take(table, index) => {
            let (table, index) = (input_tensor(context.inputs, *table), operand(finished, *index));
            each_batch(array, &mut memory.line, |batch, out| {
                elementwise::take(table, index.row(batch, 0), out);
            });
        }
        Op::Input(input) => {
            if let Some(value) = leaves::host_scalar(context.graph, context.inputs, *input) {
                return array.data.set_single(value);
            }
            let axes = context.leaves[input.0 as usize];
            let leaf = Leaf::new(input_tensor(context.inputs, *input), axes);
            each_batch(array, &mut memory.line, |batch, out| leaf.load(batch, 0, 0, out));
        }
        Op::Reduce(_, over, _) | Op::ReduceWeighted(_, over, ..) if over.batch => {
            fold_batches(context, id, &mut memory.partial, finished, array);
        }
        op => {
            let width = array.extents[2];
            let moves = program::moves(op);
            let ColumnMemory { line, wide, partial } = memory;
            if !moves {
                for (wide, node) in wide.iter_mut().zip(op.operands()) {
                    stretch(operand(finished, node), width, wide);
                }
            }
            each_batch(array, line, |batch, out| {
                let mut views = [View::Bool(&[]); MOST_OPERANDS];
                let mut count = 0;
                for node in op.operands() {
                    let own = operand(finished, node);
                    let wide = wide.get(count).and_then(Option::as_ref);
                    views[count] = wide.unwrap_or(own).row(batch, 0);
                    count += 1;
                }
                let accuracy = context.accuracies[id.index()];
                let of = (context.graph, context.problem);
                rows::evaluate(of, id, accuracy, &views[..count], out, partial);
            });
        }
    }
}

/// A reduction that also folds the batches of a finished value.
fn fold_batches(
    context: &Context<'_>,
    id: NodeId,
    partial: &mut Option<Partial>,
    finished: &Finished,
    array: &mut Array,
) {
    let (fold, over, of, by) = match context.graph[id].op {
        Op::Reduce(fold, over, of) => (fold, over, of, None),
        Op::ReduceWeighted(fold, over, of, by) => (fold, over, of, Some(by)),
        ref op => panic!("compiler bug: {op:?} folds no batches"),
    };
    let source = operand(finished, of);
    let slots = array.extents.iter().product();
    let partial = partial.get_or_insert_with(|| {
        let accuracy = context.accuracies[id.index()];
        Partial::new(fold, context.graph.ty(of).elem, accuracy, slots)
    });
    partial.reset(slots);
    let width = folded_width(over, source.extents[2]);
    for batch in 0..source.extents[0] {
        let terms = source.row(batch, 0);
        match by {
            None => rows::fold_row(partial, 0, over, terms, batch * width),
            Some(by) => {
                let weights = operand(finished, by).row(batch, 0);
                rows::fold_weighted_row(partial, 0, over, terms, weights);
            }
        }
    }
    partial.finish_into(&mut array.data);
}

/// How many neighbouring terms of a row of this width are folded together.
pub(super) fn folded_width(over: Over, width: usize) -> usize {
    match over.column {
        None => 1,
        Some(Run::All) => width,
        Some(Run::Group(run)) => run as usize,
    }
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

fn each_batch(array: &mut Array, line: &mut Option<Buffer>, mut f: impl FnMut(usize, &mut Buffer)) {
    let elem = array.elem();
    let [batches, _, columns] = array.extents;
    if batches == 1 {
        return f(0, &mut array.data);
    }
    let line = line.get_or_insert_with(|| Buffer::new(elem, columns));
    for batch in 0..batches {
        f(batch, line);
        array.data.copy_from(batch * columns, columns, line.view());
    }
}
