//! Work that does not vary over rows: done once, before a sweep.

use crate::functions::Accuracy;
use crate::graph::{Graph, IndexAxis, NodeId, Op};
use crate::plan::{Sweeps, Width, crosses_regions};
use crate::problem::{Arguments, Problem};

use super::buffer::{Array, Buffer, View};
use super::partial::Partial;
use super::{leaves, rows};

/// Finished values by node; tiles are never among them.
pub(super) type Finished = Vec<Option<Array>>;

/// What a sweep needs to know of the call.
pub(super) struct Context<'a> {
    pub(super) graph: &'a Graph,
    pub(super) problem: &'a Problem,
    pub(super) arguments: &'a Arguments,
    pub(super) accuracies: &'a [Accuracy],
    pub(super) sweeps: &'a Sweeps,
    pub(super) width: Width,
}

/// Finishes every value of this sweep that does not vary along rows.
pub(super) fn finish_columns(context: &Context<'_>, sweep: usize, finished: &mut Finished) {
    let graph = context.graph;
    let live = graph.live();
    for (id, node) in graph.nodes() {
        let mine = live[id.index()] && context.sweeps.of[id.index()] == sweep && !node.ty.axes.row;
        if mine
            && !crosses_regions(graph, &node.op, context.width)
            && finished[id.index()].is_none()
        {
            finished[id.index()] = Some(value(context, id, finished));
        }
    }
}

fn value(context: &Context<'_>, id: NodeId, finished: &Finished) -> Array {
    let node = &context.graph[id];
    let extents = context.problem.extents(node.ty.axes);
    let mut array = Array::new(node.ty.elem, extents);
    match &node.op {
        Op::Constant(constant) => array.data = Buffer::single(node.ty.elem, constant.as_f64()),
        Op::Extent(axes) => {
            let count: f64 = context.problem.extents(*axes).iter().map(|n| *n as f64).product();
            array.data = Buffer::single(node.ty.elem, count);
        }
        Op::Index(IndexAxis::Column) => leaves::count_from(0, &mut array.data),
        Op::Input(input) => match leaves::Leaf::new(context.graph, context.arguments, *input) {
            None => array.data = leaves::host_scalar(context.graph, context.arguments, *input),
            Some(leaf) => each_batch(&mut array, |batch, out| leaf.load(batch, 0, 0, out)),
        },
        Op::Reduce(fold, over, of) if over.batch => {
            let source = operand(finished, *of);
            let mut partial = Partial::new(
                *fold,
                context.graph.ty(*of).elem,
                context.accuracies[id.index()],
                extents.iter().product(),
            );
            for batch in 0..source.extents[0] {
                rows::fold_row(&mut partial, 0, *over, source.row(batch, 0));
            }
            array.data = partial.finish();
        }
        op => {
            let moves = matches!(op, Op::Part(..) | Op::Merge(..) | Op::Pick(..) | Op::Reduce(..));
            let width = extents[2];
            let operands: Vec<&Array> = op.operands().map(|node| operand(finished, node)).collect();
            let stretched: Vec<Option<Array>> = operands
                .iter()
                .map(|array| (!moves).then(|| stretch(array, width)).flatten())
                .collect();
            each_batch(&mut array, |batch, out| {
                let views: Vec<View<'_>> = operands
                    .iter()
                    .zip(&stretched)
                    .map(|(own, wide)| wide.as_ref().unwrap_or(own).row(batch, 0))
                    .collect();
                rows::evaluate(context.graph, id, context.accuracies[id.index()], &views, out);
            });
        }
    }
    array
}

fn operand(finished: &Finished, node: NodeId) -> &Array {
    finished[node.index()].as_ref().expect("compiler bug: an operand is not finished")
}

/// The same values for wider columns; `None` when they need no stretching.
pub(super) fn stretch(array: &Array, width: usize) -> Option<Array> {
    let own = array.extents[2];
    if own == width || own <= 1 || width == 0 {
        return None;
    }
    let extents = [array.extents[0], array.extents[1], width];
    let mut wide = Array { extents, data: Buffer::new(array.elem(), extents.iter().product()) };
    array.data.view().stretch_into(width / own, &mut wide.data);
    Some(wide)
}

fn each_batch(array: &mut Array, mut f: impl FnMut(usize, &mut Buffer)) {
    let elem = array.elem();
    let [batches, _, columns] = array.extents;
    for batch in 0..batches {
        let mut row = Buffer::new(elem, columns);
        f(batch, &mut row);
        array.data.copy_from(batch * columns, columns, row.view());
    }
}
