//! The body, node by node.

mod tables;

use std::sync::Arc;

use crate::dtype;
use crate::functions::{self, Accuracy, Function, ONE_PLUS_ERF};
use crate::graph::{
    Axes, Binary, Fold, Graph, IndexAxis, Input, InputId, MathMode, NodeId, Op, Unary, Value, fma,
    least_accuracies, philox_of, rounded_by,
};
use crate::problem::{Argument, BodyStrides, Problem, Segments, input_tensor};
use crate::tensor::TensorView;

use super::alternatives::{self, Alternatives};
use super::array::{Array, Assumed, Frame, View, each, each_row};
use super::demand::{self, Wanted};
use super::extremes::Certainty;
use super::operand::{self, Computed, Memo};
use super::progress::{BODY_UNITS, Progress};
use super::{Evaluated, accumulate, convert, extremes, reduce, store};

/// Everything that one evaluation is given.
#[derive(Clone, Copy)]
pub(super) struct Call<'a> {
    /// The graph that is evaluated: the kernel's, or one that computes inputs of it.
    pub(super) graph: &'a Graph,
    pub(super) kernel: &'a Graph,
    pub(super) memo: &'a Memo,
    pub(super) problem: &'a Problem,
    /// What is declared, in the order of the signature, validated.
    pub(super) inputs: &'a [Argument<'a>],
    pub(super) math: MathMode,
}

impl<'a> Call<'a> {
    /// The kernel's input that one of the graph's is.
    pub(super) fn input(self, input: InputId) -> &'a Input {
        &self.kernel.inputs()[self.place(input)]
    }

    fn place(self, input: InputId) -> usize {
        if std::ptr::eq(self.graph, self.kernel) {
            return input.0 as usize;
        }
        self.kernel.place_of(&self.graph.inputs()[input.0 as usize].name)
    }

    /// The argument of a declared input.
    fn argument(self, input: InputId) -> &'a Argument<'a> {
        &self.inputs[self.place(input)]
    }

    /// The tensor of a declared input.
    pub(super) fn tensor(self, input: InputId) -> TensorView<'a> {
        input_tensor(self.inputs, InputId(self.place(input) as u32))
    }
}

/// Rows that are cut into segments.
#[derive(Clone)]
pub(super) struct CutRows {
    pub(super) segments: Segments,
    /// The segment of every row.
    pub(super) of_rows: Arc<Vec<usize>>,
}

impl Call<'_> {
    /// The segments of the rows, where they are cut.
    pub(super) fn cut_rows(self) -> Option<CutRows> {
        let segments = Segments::new(self.tensor(self.graph.ends()?), self.problem.rows);
        let of_rows = Arc::new(segments.of_rows(self.problem.rows));
        Some(CutRows { segments, of_rows })
    }

    /// What a kernel writes of what is wanted: no rows behind the last segment.
    pub(super) fn written(self, wanted: &[Wanted]) -> Vec<Wanted> {
        let mut wanted = wanted.to_vec();
        let Some(cut) = self.cut_rows() else { return wanted };
        for one in &mut wanted {
            let axes = self.graph.output_axes(&self.graph.outputs()[one.output]);
            if axes.is_some_and(|axes| axes.row.is_some()) {
                one.rows.chosen.retain(|row| *row < cut.segments.written());
            }
        }
        wanted
    }
}

struct Evaluation<'a> {
    call: Call<'a>,
    cut: Option<CutRows>,
    accuracies: &'a [Accuracy],
    arrays: Vec<Option<Array>>,
    progress: &'a Progress<'a>,
}

/// The wanted elements, output by output in the order that they are wanted.
pub(super) fn evaluate(
    call: Call<'_>,
    wanted: &[Wanted],
    progress: &Progress<'_>,
) -> Vec<Evaluated> {
    let graph = call.graph;
    // All outputs count, wanted or not: how accurate a function is does not depend on what is looked at.
    let accuracies = &least_accuracies(graph, call.math);
    let cut = call.cut_rows();
    let of_rows = cut.as_ref().map(|cut| &cut.of_rows);
    let mut frames = demand::frames(graph, call.problem, wanted, of_rows);
    let last_use = last_uses(graph);
    let arrays = Vec::with_capacity(graph.len());
    let mut evaluation = Evaluation { call, cut, accuracies, arrays, progress };
    let mut outputs: Vec<Option<Evaluated>> = wanted.iter().map(|_| None).collect();
    for (id, node) in graph.nodes() {
        let array = frames[id.index()].take().map(|frame| {
            let elements = frame.len() as u64;
            let array = evaluation.node(id, &node.op, frame);
            progress.add(elements * BODY_UNITS);
            array
        });
        evaluation.arrays.push(array);
        for (output, wanted) in outputs.iter_mut().zip(wanted) {
            let declared = &graph.outputs()[wanted.output];
            if declared.values().max() == Some(id) {
                let arrays: Vec<&Array> =
                    declared.values().map(|value| evaluation.array(value)).collect();
                *output = Some(store::store(call, evaluation.cut.as_ref(), wanted, &arrays));
            }
        }
        for operand in node.op.operands().filter(|operand| last_use[operand.index()] == Some(id)) {
            evaluation.arrays[operand.index()] = None;
        }
    }
    outputs.into_iter().flatten().collect()
}

/// The number of an element along an axis.
fn index(axis: IndexAxis, problem: &Problem, [batch, row, column]: [usize; 3]) -> usize {
    match axis {
        IndexAxis::Row => row,
        IndexAxis::Column => column,
        IndexAxis::Batch => batch,
        IndexAxis::BatchDim(dim) => problem.batch_place(batch)[dim as usize],
    }
}

fn last_uses(graph: &Graph) -> Vec<Option<NodeId>> {
    let mut last = vec![None; graph.len()];
    for (id, node) in graph.nodes() {
        node.op.operands().for_each(|operand| last[operand.index()] = Some(id));
    }
    // An output of several values is stored with the last of them.
    for output in graph.outputs().iter().filter(|output| output.stack.is_some()) {
        output.values().for_each(|value| last[value.index()] = None);
    }
    last
}

impl Evaluation<'_> {
    fn array(&self, node: NodeId) -> &Array {
        self.arrays[node.index()]
            .as_ref()
            .expect("compiler bug: a value was dropped before its last use")
    }

    fn node(&self, id: NodeId, op: &Op, frame: Frame) -> Array {
        let Call { graph, problem, .. } = self.call;
        let accuracy = self.accuracies[id.index()];
        let elem = |node: &NodeId| graph.ty(*node).elem;
        let values = match op {
            Op::Accumulator(product) => {
                accumulate::accumulate(self.call, *product, &frame, self.progress)
            }
            Op::Input(input) => self.input(*input, &frame),
            Op::Constant(constant) => vec![Value::exact(constant.as_f64()); frame.len()],
            Op::Extent(axes) => self.extent(*axes, &frame),
            Op::Size(dim) => {
                let size = problem.shape(std::slice::from_ref(dim))[0];
                vec![Value::exact(size as i32 as f64); frame.len()]
            }
            Op::Index(axis) => {
                each(&frame, |place| Value::exact(index(*axis, problem, place) as f64))
            }
            Op::Unary(op, a) => {
                return self.map(frame, [*a], |[x]| op.apply(elem(a), accuracy, x));
            }
            Op::Binary(op, a, b) => return self.binary(id, (*op, *a, *b), frame),
            Op::Fma(a, b, c) => {
                let array = self.map(frame, [*a, *b, *c], |[x, y, z]| fma(x, y, z));
                return self.shifted(id, op, array);
            }
            Op::Select(condition, a, b) => return self.select(frame, [*condition, *a, *b]),
            Op::Cast(to, a) => return self.map(frame, [*a], |[x]| convert(*to, elem(a), x)),
            Op::Round(to, a, bits) => {
                return self.map(frame, [*a, *bits], |[x, bits]| rounded_by(*to, x, bits));
            }
            Op::Philox(words) => return self.map(frame, *words, philox_of),
            Op::Take(table, index) => return self.take(frame, *table, *index),
            Op::Entry(table, row, column) => return self.entry(frame, *table, [*row, *column]),
            Op::Reduce(fold, over, a) => {
                let cut = self.cut.as_ref().map(|cut| &cut.segments);
                let how =
                    reduce::Reduction { fold: *fold, over: *over, elem: elem(a), accuracy, cut };
                return reduce::reduce(self.array(*a), frame, &how);
            }
            Op::ReduceWeighted(fold, over, a, weights) => {
                let cut = self.cut.as_ref().map(|cut| &cut.segments);
                let how =
                    reduce::Reduction { fold: *fold, over: *over, elem: elem(a), accuracy, cut };
                let weights = self.array(*weights);
                return reduce::reduce_weighted(self.array(*a), weights, frame, &how);
            }
            Op::Pick(of, index) => return self.pick(frame, *of, *index),
            Op::Part(part, a) => {
                let whole = self.array(*a);
                let width = whole.frame.columns.of;
                let start = problem.start(graph.space(), *part);
                return gather(frame, |[batch, row, column]| {
                    (whole, [batch, row, part.source(column, width, start)])
                });
            }
            Op::Concat(concat, parts) => {
                let parts: Vec<&Array> = parts.iter().map(|part| self.array(*part)).collect();
                let width = frame.columns.of;
                return gather(frame, |[batch, row, column]| {
                    let widths = parts.iter().map(|part| part.frame.columns.of);
                    let (which, column) = concat.source(column, width, widths);
                    (parts[which], [batch, row, column])
                });
            }
            Op::Merge(merge, a, b) => {
                let halves = [self.array(*a), self.array(*b)];
                let width = frame.columns.of;
                return gather(frame, |[batch, row, column]| {
                    let (which, column) = merge.source(column, width);
                    (halves[which], [batch, row, column])
                });
            }
            Op::Call(call, _) => {
                panic!("compiler bug: a call to `{}` reached the reference", call.function)
            }
        };
        Array::plain(frame, values)
    }

    /// How many elements these axes have: of rows, as many as a segment has.
    fn extent(&self, axes: Axes, frame: &Frame) -> Vec<Value> {
        let problem = self.call.problem;
        match &self.cut {
            Some(cut) if axes.row.is_some() => {
                let columns = problem.extents(Axes { row: None, ..axes })[2] as f64;
                each(frame, |[batch, ..]| {
                    let rows = cut.segments.rows(batch).len();
                    Value::exact(rows as f64 * columns).round_f32()
                })
            }
            Some(_) | None => {
                let size = problem.extents(axes).iter().map(|n| *n as f64).product();
                vec![Value::exact(size).round_f32(); frame.len()]
            }
        }
    }

    fn binary(&self, id: NodeId, (op, a, b): (Binary, NodeId, NodeId), frame: Frame) -> Array {
        let graph = self.call.graph;
        let accuracy = self.accuracies[id.index()];
        let elem = graph.ty(a).elem;
        let apply = |x: Value, y: Value| op.apply(elem, accuracy, x, y);
        match op {
            // A value times itself is never negative, which its enclosure alone does not know.
            Binary::Multiply if a == b && elem == dtype::Elem::F32 => {
                self.map(frame, [a], |[x]| square(x))
            }
            Binary::Add if self.is_coarse_erf(a) || self.is_coarse_erf(b) => {
                let one = Value::exact(1.0);
                self.map(frame, [a, b], |[x, y]| match apply(x, y) {
                    sum if x == one || y == one => sum.widen(ONE_PLUS_ERF),
                    sum => sum,
                })
            }
            Binary::Subtract => {
                let array = self.map(frame, [a, b], |[x, y]| apply(x, y));
                self.shifted(id, &graph[id].op, array)
            }
            // No part exceeds the sum of all, if none is negative.
            Binary::Divide if is_fold(graph, Fold::Sum, b, a) => {
                let none_negative = self.array(a).values.iter().all(|x| x.low >= 0.0 && !x.nan);
                let most = Value::exact(1.0).widen(share_error(accuracy)).high;
                self.map(frame, [a, b], |[x, y]| match apply(x, y) {
                    share if none_negative && y.low > 0.0 => share.at_most(most),
                    share => share,
                })
            }
            Binary::Add
            | Binary::Multiply
            | Binary::Divide
            | Binary::Maximum
            | Binary::Minimum
            | Binary::Pow
            | Binary::Fmod
            | Binary::Less
            | Binary::LessEqual
            | Binary::Equal
            | Binary::NotEqual
            | Binary::And
            | Binary::Or
            | Binary::Xor
            | Binary::ShiftLeft
            | Binary::ShiftRight
            | Binary::ShiftRightLogical => {
                let mut array = self.map(frame, [a, b], |[x, y]| apply(x, y));
                let certain = extremes::certainty(graph, &graph[id].op);
                // Under relaxed algebra an extreme may be rounded differently from its terms.
                let certain = certain.filter(|_| self.call.math != MathMode::Fast);
                if let Some((over, answer)) = certain {
                    let views = [a, b].map(|operand| self.array(operand).view(&array.frame));
                    let answer = Value::truth(answer, !answer, answer);
                    let certainty = Certainty { node: id, over };
                    extremes::settle(&mut array, &views, certainty, |_| answer);
                }
                array
            }
        }
    }

    /// What a value shifted by its own maximum may be: nothing exceeds that, and one element is it. Differences are rounded,
    /// and rounding is monotone.
    fn shifted(&self, id: NodeId, op: &Op, mut array: Array) -> Array {
        let Some(shift) = extremes::shift(self.call.graph, op) else { return array };
        // The maximum itself is gone where its opposite was all that was needed.
        let by = self.arrays[shift.by.index()].as_ref();
        let negated = op.operands().last().and_then(|last| self.arrays[last.index()].as_ref());
        let Some(by) = by.or(negated) else { return array };
        let by = by.view(&array.frame);
        let slack = |place: [usize; 3]| {
            let largest = by.array.values[by.index(place)].magnitude();
            let ulp = functions::accuracy::ulp(largest);
            match (self.call.math, shift.fused) {
                // Under relaxed algebra the maximum may be rounded differently from its terms.
                (MathMode::Fast, _) => 8.0 * ulp,
                (MathMode::Default | MathMode::Accurate, true) => ulp / 2.0,
                (MathMode::Default | MathMode::Accurate, false) => 0.0,
            }
        };
        let (rows, columns) = (array.frame.rows.len(), array.frame.columns.len());
        for at in 0..array.values.len() {
            let most = slack([at / columns / rows, at / columns % rows, at % columns]);
            array.values[at] = array.values[at].at_most(most);
            if let Some(pieces) = array.alternatives.get_mut(&at) {
                pieces.retain(|piece| piece.is_only_nan() || piece.low <= most);
                for piece in pieces {
                    *piece = piece.at_most(most);
                }
            }
        }
        let certainty = Certainty { node: id, over: shift.over };
        let around = |place| Value::exact(0.0).widen(slack(place));
        extremes::settle(&mut array, std::slice::from_ref(&by), certainty, around);
        array
    }

    /// Whether a node is erf as the hardware's functions make it: together with 1 it may be one function.
    fn is_coarse_erf(&self, node: NodeId) -> bool {
        matches!(self.call.graph[node].op, Op::Unary(Unary::Erf, _))
            && self.accuracies[node.index()] != Accuracy::Accurate
    }

    fn input(&self, input: InputId, frame: &Frame) -> Vec<Value> {
        let Call { graph, problem, .. } = self.call;
        let declared = &graph.inputs()[input.0 as usize];
        if declared.dims.is_none()
            && let Argument::Scalar(value) = self.call.argument(input)
        {
            return vec![Value::exact(dtype::round_to(declared.dtype, *value)); frame.len()];
        }
        let dims = declared.dims.as_deref().unwrap_or_default();
        if let Some(Computed { values, strides }) = operand::computed(self.call, input) {
            let strides = BodyStrides::new(graph.space(), dims, &strides);
            return each(frame, |place| values[strides.to_element(problem, place) as usize]);
        }
        let tensor = self.call.tensor(input);
        let strides = BodyStrides::new(graph.space(), dims, tensor.strides());
        each(frame, |place| {
            let at = tensor.offset() as isize + strides.to_element(problem, place);
            let at = at as usize;
            Value::exact(dtype::load(tensor.dtype(), tensor.bytes(), at))
        })
    }

    /// A function of elements, of their alternatives where they have some, and under what is assumed of them.
    fn map<const N: usize>(
        &self,
        frame: Frame,
        operands: [NodeId; N],
        f: impl Fn([Value; N]) -> Value + Sync,
    ) -> Array {
        let several = |pieces: [Alternatives; N]| alternatives::combine(pieces, &f);
        self.map_alternatives(frame, operands, &f, &several)
    }

    fn select(&self, frame: Frame, operands: [NodeId; 3]) -> Array {
        let several = |[conditions, x, y]: [Alternatives; 3]| {
            let mut pieces = Vec::new();
            if conditions.iter().any(|condition| condition.high == 1.0) {
                pieces.extend(x);
            }
            if conditions.iter().any(|condition| condition.low == 0.0) {
                pieces.extend(y);
            }
            pieces
        };
        let one = |[condition, x, y]: [Value; 3]| select(condition, x, y);
        self.map_alternatives(frame, operands, &one, &several)
    }

    fn map_alternatives<const N: usize>(
        &self,
        frame: Frame,
        operands: [NodeId; N],
        one: &(impl Fn([Value; N]) -> Value + Sync),
        several: &(impl Fn([Alternatives; N]) -> Vec<Value> + Sync),
    ) -> Array {
        let views: [View<'_>; N] = operands.map(|operand| self.array(operand).view(&frame));
        let elems = operands.map(|operand| self.call.graph.ty(operand).elem);
        let pieces_of = |operand: usize, index: usize| {
            let array = views[operand].array;
            let known = array.alternatives.get(&index).filter(|known| !known.is_empty());
            known
                .cloned()
                .unwrap_or_else(|| alternatives::points(elems[operand], array.values[index]))
        };
        let is_several = |operand: usize, index: usize| {
            let array = views[operand].array;
            let uncertain = elems[operand] != dtype::Elem::F32 && !array.values[index].is_exact();
            uncertain || (!array.alternatives.is_empty() && array.alternatives.contains_key(&index))
        };
        let (values, beside) = each_row(&frame, |[batch, row], start, out| {
            let mut beside = Vec::new();
            for (column, value) in out.iter_mut().enumerate() {
                let at: [usize; N] =
                    std::array::from_fn(|operand| views[operand].index([batch, row, column]));
                let operands =
                    std::array::from_fn(|operand| views[operand].array.values[at[operand]]);
                *value = one(operands);
                if (0..N).any(|operand| is_several(operand, at[operand])) {
                    let pieces = std::array::from_fn(|operand| pieces_of(operand, at[operand]));
                    let (hull, found) = alternatives::enclose(value.nominal, several(pieces));
                    *value = hull;
                    beside.extend(found.map(|found| (start + column, found)));
                }
            }
            beside
        });
        let assumed = assume(&frame, &views, &pieces_of, several);
        Array { frame, values, alternatives: beside.into_iter().collect(), assumed }
    }

    fn pick(&self, frame: Frame, of: NodeId, index: NodeId) -> Array {
        let (of, index) = (self.array(of), self.array(index).view(&frame));
        let width = of.frame.columns.of;
        let (values, beside) = each_row(&frame, |[batch, row], start, out| {
            let mut beside = Vec::new();
            for (column, value) in out.iter_mut().enumerate() {
                let index_at = index.index([batch, row, column]);
                let place = index.array.values[index_at];
                let position = |column: f64| {
                    let own = frame.batch_of(batch, frame.rows.chosen[row]);
                    let batch = if of.frame.batches == 1 { 0 } else { own };
                    let row = of.frame.rows.seen_from(frame.rows.chosen[row], frame.rows.of);
                    let inside = column >= 0.0 && column < width as f64;
                    inside.then(|| of.position([batch, row, column as usize]))
                };
                let at = |column: i64| match position(column as f64) {
                    None => vec![Value::NAN],
                    Some(position) => {
                        let known = of.alternatives.get(&position);
                        known.cloned().unwrap_or_else(|| vec![of.values[position]])
                    }
                };
                let known = index.array.alternatives.get(&index_at);
                let places = known.cloned().unwrap_or_else(|| vec![place]);
                let ends = |place: &Value| {
                    (place.low.max(-1.0) as i64, place.high.min(width as f64) as i64)
                };
                let columns = places.iter().map(ends).flat_map(|(low, high)| low..=high);
                let pieces = columns.flat_map(at).collect();
                let nominal = position(place.nominal).map_or(f64::NAN, |at| of.values[at].nominal);
                let (hull, found) = alternatives::enclose(nominal, pieces);
                *value = hull;
                beside.extend(found.map(|found| (start + column, found)));
            }
            beside
        });
        let alternatives = beside.into_iter().collect();
        Array { frame, values, alternatives, assumed: None }
    }
}

/// What the result may be where a condition holds that is assumed of one of the operands, place by place.
fn assume<const N: usize>(
    frame: &Frame,
    views: &[View<'_>; N],
    pieces_of: &impl Fn(usize, usize) -> Alternatives,
    several: &impl Fn([Alternatives; N]) -> Vec<Value>,
) -> Option<Assumed> {
    // Of an array of other places it would be about other elements.
    let own = |view: &View<'_>| view.array.assumed.is_some() && view.array.frame == *frame;
    let first = views.iter().find(|view| own(view))?.array.assumed.as_ref()?;
    let of = |operand: usize| {
        let assumed = views[operand].array.assumed.as_ref().filter(|_| own(&views[operand]));
        assumed.filter(|assumed| assumed.condition == first.condition)
    };
    let (rows, columns) = (frame.rows.len(), frame.columns.len());
    let values = first.values.keys().map(|&at| {
        let place = [at / columns / rows, at / columns % rows, at % columns];
        let pieces = std::array::from_fn(|operand| {
            let assumed = of(operand).and_then(|assumed| assumed.values.get(&at));
            assumed.cloned().unwrap_or_else(|| pieces_of(operand, views[operand].index(place)))
        });
        (at, alternatives::tidy(several(pieces)))
    });
    let (condition, over) = (first.condition, first.over);
    Some(Assumed { condition, over, values: values.collect() })
}

/// Elements of other arrays, as they are.
fn gather<'a>(
    frame: Frame,
    source: impl Fn([usize; 3]) -> (&'a Array, [usize; 3]) + Sync,
) -> Array {
    let (values, beside) = each_row(&frame, |[batch, row], start, out| {
        let mut beside = Vec::new();
        for (column, value) in out.iter_mut().enumerate() {
            let place = [batch, frame.rows.chosen[row], frame.columns.chosen[column]];
            let (array, [batch, row, column_there]) = source(place);
            let own = frame.batch_of(batch, row);
            let batch = if array.frame.batches == 1 { 0 } else { own };
            let row = array.frame.rows.seen_from(row, frame.rows.of);
            let position = array.position([batch, row, column_there]);
            *value = array.values[position];
            if let Some(found) = array.alternatives.get(&position) {
                beside.push((start + column, found.clone()));
            }
        }
        beside
    });
    Array { frame, values, alternatives: beside.into_iter().collect(), assumed: None }
}

/// Whether a node folds another one this way.
fn is_fold(graph: &Graph, fold: Fold, node: NodeId, of: NodeId) -> bool {
    matches!(graph[node].op, Op::Reduce(found, _, folded) if found == fold && folded == of)
}

/// How far above 1 a part of a sum of positive numbers may come out. Engines rescale running sums, and each rescaling may
/// err as the exponentials do.
fn share_error(accuracy: Accuracy) -> f64 {
    8.0 * (functions::bound(Function::Rcp, accuracy, 1.0, 1.0)
        + functions::bound(Function::Exp, accuracy, 0.0, 1.0))
}

fn square(x: Value) -> Value {
    let root = Unary::Abs.apply(dtype::Elem::F32, Accuracy::Accurate, x);
    root.map_monotone(|x| x * x).round_f32()
}

fn select(condition: Value, x: Value, y: Value) -> Value {
    match (condition.low == 1.0, condition.high == 0.0) {
        (true, _) => x,
        (_, true) => y,
        _ if condition.nominal == 1.0 => x.or(y),
        _ => y.or(x),
    }
}
