//! Operations on one row of values, whatever the kind of row.

use crate::functions::Accuracy;
use crate::graph::{Concat, Graph, Merge, NodeId, Op, Over, Run};
use crate::problem::Problem;

use super::buffer::{Buffer, View};
use super::elementwise;
use super::partial::Partial;

/// Computes a node that is not a leaf from its operands' values in the same row. A reduction keeps its memory in `partial`.
pub(super) fn evaluate(
    (graph, problem): (&Graph, &Problem),
    node: NodeId,
    accuracy: Accuracy,
    operands: &[View<'_>],
    out: &mut Buffer,
    partial: &mut Option<Partial>,
) {
    match (&graph[node].op, operands) {
        (Op::Unary(op, _), &[a]) => elementwise::unary(*op, accuracy, a, out),
        (Op::Binary(op, ..), &[a, b]) => elementwise::binary(*op, accuracy, a, b, out),
        (Op::Fma(..), &[a, b, c]) => elementwise::fma(a, b, c, out),
        (Op::Select(..), &[condition, a, b]) => elementwise::select(condition, a, b, out),
        (Op::Cast(to, _), &[a]) => elementwise::cast(*to, a, out),
        (Op::Round(to, ..), &[a, bits]) => elementwise::round(*to, a, bits, out),
        (Op::Philox(_), &[a, b, c, d, e, f]) => elementwise::philox([a, b, c, d, e, f], out),
        (Op::Part(part, of), &[a]) => {
            let width = problem.extents(graph.ty(*of).axes)[2];
            if a.len() == width {
                let start = problem.start(graph.space(), *part);
                a.gather_into(out, |index| part.source(index, width, start));
            } else {
                a.gather_into(out, |_| 0);
            }
        }
        (Op::Concat(concat, parts), values) => {
            let width = |part: &NodeId| problem.extents(graph.ty(*part).axes)[2];
            let widths: Vec<usize> = parts.iter().map(width).collect();
            put_parts(*concat, &widths, values, out);
        }
        (Op::Merge(merge, ..), &[a, b]) => put_together(*merge, a, b, out),
        (Op::Pick(..), &[of, index]) => out.f32s()[0] = pick(of.f32s(), index.i32s()[0]),
        (Op::Reduce(fold, over, of), &[terms]) => {
            let slots = out.len();
            let partial = partial
                .get_or_insert_with(|| Partial::new(*fold, graph.ty(*of).elem, accuracy, slots));
            partial.reset(slots);
            fold_row(partial, 0, *over, terms, 0);
            partial.finish_into(out);
        }
        (Op::ReduceWeighted(fold, over, of, _), &[terms, weights]) => {
            let slots = out.len();
            let partial = partial
                .get_or_insert_with(|| Partial::new(*fold, graph.ty(*of).elem, accuracy, slots));
            partial.reset(slots);
            fold_weighted_row(partial, 0, *over, terms, weights);
            partial.finish_into(out);
        }
        (op, _) => panic!("compiler bug: {op:?} is not an operation on rows"),
    }
}

/// Folds a row of terms into the slots from `at` on. The first term has this index among all that are folded into its slot.
pub(super) fn fold_row(
    partial: &mut Partial,
    at: usize,
    over: Over,
    terms: View<'_>,
    index: usize,
) {
    match over.column {
        None => partial.fold_each(at, terms, index),
        Some(Run::All) => partial.fold_into(at, terms, index),
        Some(Run::Group(width)) => {
            let width = width as usize;
            for group in 0..terms.len() / width {
                let run = terms.slice(group * width..(group + 1) * width);
                partial.fold_into(at + group, run, index);
            }
        }
    }
}

/// Folds a row of terms with weights into the slots from `at` on.
pub(super) fn fold_weighted_row(
    partial: &mut Partial,
    at: usize,
    over: Over,
    terms: View<'_>,
    weights: View<'_>,
) {
    match over.column {
        None => partial.fold_weighted_each(at, terms, weights),
        Some(Run::All) => partial.fold_weighted_into(at, terms, weights),
        Some(Run::Group(width)) => {
            let width = width as usize;
            for group in 0..terms.len() / width {
                let run = group * width..(group + 1) * width;
                let own = if weights.len() == 1 { weights } else { weights.slice(run.clone()) };
                partial.fold_weighted_into(at + group, terms.slice(run), own);
            }
        }
    }
}

fn put_together(merge: Merge, a: View<'_>, b: View<'_>, out: &mut Buffer) {
    fn put<T: Copy>(merge: Merge, a: &[T], b: &[T], out: &mut [T]) {
        let width = out.len();
        let at =
            |values: &[T], index: usize| if values.len() == 1 { values[0] } else { values[index] };
        for (index, value) in out.iter_mut().enumerate() {
            let (which, place) = merge.source(index, width);
            *value = at(if which == 0 { a } else { b }, place);
        }
    }
    match (a, b, out) {
        (View::F32(a), View::F32(b), Buffer::F32(out)) => put(merge, a, b, out),
        (View::I32(a), View::I32(b), Buffer::I32(out)) => put(merge, a, b, out),
        (View::Bool(a), View::Bool(b), Buffer::Bool(out)) => put(merge, a, b, out),
        _ => panic!("compiler bug: `{}` of two types", merge.name()),
    }
}

/// Puts the parts of a split together.
fn put_parts(concat: Concat, widths: &[usize], parts: &[View<'_>], out: &mut Buffer) {
    fn put<'v, T: Copy + 'v>(
        concat: Concat,
        widths: &[usize],
        out: &mut [T],
        part: impl Fn(usize) -> &'v [T],
    ) {
        let width = out.len();
        for (index, value) in out.iter_mut().enumerate() {
            let (which, place) = concat.source(index, width, widths.iter().copied());
            let values = part(which);
            *value = if values.len() == 1 { values[0] } else { values[place] };
        }
    }
    match out {
        Buffer::F32(out) => put(concat, widths, out, |part| parts[part].f32s()),
        Buffer::I32(out) => put(concat, widths, out, |part| parts[part].i32s()),
        Buffer::Bool(out) => put(concat, widths, out, |part| parts[part].bools()),
    }
}

fn pick(of: &[f32], index: i32) -> f32 {
    usize::try_from(index).ok().and_then(|index| of.get(index)).copied().unwrap_or(f32::NAN)
}
