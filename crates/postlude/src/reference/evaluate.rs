//! The body, node by node.

use crate::functions::{Accuracy, ONE_PLUS_ERF};
use crate::graph::{
    Axes, Binary, Graph, IndexAxis, InputId, MathMode, NodeId, Op, Run, Unary, Value, accuracies,
    fma,
};
use crate::problem::{Argument, Arguments, Problem, body_strides};
use crate::{dtype, tensor};

use super::{Evaluated, accumulate, convert};

/// The elements of a node: batch, rows, columns, each 1 where it does not vary.
struct Array {
    extents: [usize; 3],
    values: Vec<Value>,
}

impl Array {
    /// The element that a place of a larger or finer array sees. Columns meet group by group.
    fn at(&self, [batch, row, column]: [usize; 3], columns: usize) -> Value {
        let [batches, rows, own] = self.extents;
        let batch = if batches == 1 { 0 } else { batch };
        let row = if rows == 1 { 0 } else { row };
        // A coarser value's columns each stand for a run of the finer one's.
        let column = if own == columns { column } else { column * own / columns.max(1) };
        self.values[(batch * rows + row) * own + column]
    }
}

struct Evaluation<'a> {
    graph: &'a Graph,
    problem: &'a Problem,
    arguments: &'a Arguments,
    accuracies: &'a [Accuracy],
    arrays: Vec<Option<Array>>,
}

pub(super) fn evaluate(
    graph: &Graph,
    problem: &Problem,
    arguments: &Arguments,
    math: MathMode,
) -> Vec<Evaluated> {
    let accuracies = &accuracies(graph, math);
    let live = graph.live();
    let last_use = last_uses(graph);
    let arrays = Vec::with_capacity(graph.len());
    let mut evaluation = Evaluation { graph, problem, arguments, accuracies, arrays };
    let mut outputs: Vec<Option<Evaluated>> = graph.outputs().iter().map(|_| None).collect();
    for (id, node) in graph.nodes() {
        let array = live[id.index()]
            .then(|| evaluation.node(&node.op, node.ty.axes, accuracies[id.index()]));
        evaluation.arrays.push(array);
        for (place, output) in
            graph.outputs().iter().enumerate().filter(|(_, output)| output.value == id)
        {
            outputs[place] = Some(evaluation.store(output));
        }
        for operand in node.op.operands().filter(|operand| last_use[operand.index()] == Some(id)) {
            evaluation.arrays[operand.index()] = None;
        }
    }
    outputs.into_iter().flatten().collect()
}

fn last_uses(graph: &Graph) -> Vec<Option<NodeId>> {
    let mut last = vec![None; graph.len()];
    for (id, node) in graph.nodes() {
        node.op.operands().for_each(|operand| last[operand.index()] = Some(id));
    }
    last
}

impl Evaluation<'_> {
    fn array(&self, node: NodeId) -> &Array {
        self.arrays[node.index()]
            .as_ref()
            .expect("compiler bug: a value was dropped before its last use")
    }

    fn node(&self, op: &Op, axes: Axes, accuracy: Accuracy) -> Array {
        let extents = self.problem.extents(axes);
        let elem = |node: &NodeId| self.graph.ty(*node).elem;
        let values = match op {
            Op::Accumulator | Op::FurtherAccumulator(_) => {
                let product = self.graph.product();
                let right = match op {
                    Op::FurtherAccumulator(number) => product.further[*number as usize],
                    _ => product.right.0,
                };
                accumulate::accumulate(self.graph, self.problem, self.arguments, right)
            }
            Op::Input(input) => self.input(*input, extents),
            Op::Constant(constant) => vec![Value::exact(constant.as_f64())],
            Op::Extent(axes) => vec![
                Value::exact(self.problem.extents(*axes).iter().map(|n| *n as f64).product())
                    .round_f32(),
            ],
            Op::Index(axis) => each(extents, |[_, row, column]| match axis {
                IndexAxis::Row => Value::exact(row as f64),
                IndexAxis::Column => Value::exact(column as f64),
            }),
            Op::Unary(op, a) => self.map(extents, [*a], |[x]| op.apply(elem(a), accuracy, x)),
            // A value times itself is never negative, which its enclosure alone does not know.
            Op::Binary(Binary::Multiply, a, b) if a == b && elem(a) == dtype::Elem::F32 => {
                self.map(extents, [*a], |[x]| square(x))
            }
            Op::Binary(Binary::Add, a, b) if self.is_coarse_erf(*a) || self.is_coarse_erf(*b) => {
                let add = |x: Value, y: Value| Binary::Add.apply(elem(a), accuracy, x, y);
                let one = Value::exact(1.0);
                self.map(extents, [*a, *b], |[x, y]| match add(x, y) {
                    sum if x == one || y == one => sum.widen(ONE_PLUS_ERF),
                    sum => sum,
                })
            }
            Op::Binary(op, a, b) => {
                self.map(extents, [*a, *b], |[x, y]| op.apply(elem(a), accuracy, x, y))
            }
            Op::Fma(a, b, c) => self.map(extents, [*a, *b, *c], |[x, y, z]| fma(x, y, z)),
            Op::Select(condition, a, b) => {
                self.map(extents, [*condition, *a, *b], |[condition, x, y]| select(condition, x, y))
            }
            Op::Cast(to, a) => self.map(extents, [*a], |[x]| convert(*to, elem(a), x)),
            Op::Reduce(fold, over, a) => {
                self.reduce(extents, *a, |terms| fold.apply(elem(a), accuracy, terms), over)
            }
            Op::Pick(of, index) => self.pick(extents, *of, *index),
            Op::Part(part, a) => {
                let whole = self.array(*a);
                let width = whole.extents[2];
                each(extents, |[batch, row, column]| {
                    whole.at([batch, row, part.source(column, width)], width)
                })
            }
            Op::Merge(merge, a, b) => {
                let halves = [self.array(*a), self.array(*b)];
                each(extents, |[batch, row, column]| {
                    let (which, column) = merge.source(column, extents[2]);
                    halves[which].at([batch, row, column], extents[2] / 2)
                })
            }
            Op::Call(call, _) => {
                panic!("compiler bug: a call to `{}` reached the reference", call.function)
            }
        };
        Array { extents, values }
    }

    /// Whether a node is erf as the hardware's functions make it: together with 1 it may be one function.
    fn is_coarse_erf(&self, node: NodeId) -> bool {
        matches!(self.graph[node].op, Op::Unary(Unary::Erf, _))
            && self.accuracies[node.index()] != Accuracy::Accurate
    }

    fn input(&self, input: InputId, extents: [usize; 3]) -> Vec<Value> {
        let declared = &self.graph.inputs()[input.0 as usize];
        match &self.arguments[&declared.name] {
            Argument::Scalar(value) => vec![Value::exact(dtype::round_to(declared.dtype, *value))],
            Argument::Tensor(tensor) => {
                let dims = declared.dims.as_deref().unwrap_or_default();
                let strides = body_strides(self.graph.product(), dims, tensor.strides());
                each(extents, |place| {
                    let steps: isize =
                        place.iter().zip(strides).map(|(at, stride)| *at as isize * stride).sum();
                    Value::exact(dtype::load(
                        tensor.dtype(),
                        tensor.bytes(),
                        (tensor.offset() as isize + steps) as usize,
                    ))
                })
            }
        }
    }

    fn map<const N: usize>(
        &self,
        extents: [usize; 3],
        operands: [NodeId; N],
        f: impl Fn([Value; N]) -> Value,
    ) -> Vec<Value> {
        let arrays = operands.map(|operand| self.array(operand));
        let finest = |array: &Array| array.extents[2] == 1 || array.extents[2] == extents[2];
        let columns =
            if arrays.iter().all(|array| finest(array)) { extents[2] } else { extents[2].max(1) };
        each(extents, |place| f(arrays.map(|array| array.at(place, columns))))
    }

    fn reduce(
        &self,
        extents: [usize; 3],
        of: NodeId,
        fold: impl Fn(&[Value]) -> Value,
        over: &crate::graph::Over,
    ) -> Vec<Value> {
        let source = self.array(of);
        let [batches, rows, columns] = source.extents;
        let mut terms = Vec::new();
        each(extents, |[batch, row, column]| {
            let batches = if over.batch { 0..batches } else { batch..batch + 1 };
            let rows = if over.row { 0..rows } else { row..row + 1 };
            let columns = match over.column {
                None => column..column + 1,
                Some(Run::All) => 0..columns,
                Some(Run::Group(width)) => column * width as usize..(column + 1) * width as usize,
            };
            terms.clear();
            for batch in batches {
                for row in rows.clone() {
                    terms.extend(
                        columns
                            .clone()
                            .map(|column| source.at([batch, row, column], source.extents[2])),
                    );
                }
            }
            fold(&terms)
        })
    }

    fn pick(&self, extents: [usize; 3], of: NodeId, index: NodeId) -> Vec<Value> {
        let (of, index) = (self.array(of), self.array(index));
        let width = of.extents[2];
        each(extents, |[batch, row, _]| {
            let place = index.at([batch, row, 0], 1);
            let at = |column: f64| {
                let inside = column >= 0.0 && column < width as f64;
                if inside { of.at([batch, row, column as usize], width) } else { Value::NAN }
            };
            if place.is_exact() {
                return at(place.nominal);
            }
            let mut value = at(place.nominal);
            let (low, high) = (place.low.max(-1.0) as i64, place.high.min(width as f64) as i64);
            for column in low..=high {
                value = value.or(at(column as f64));
            }
            value
        })
    }

    fn store(&self, output: &crate::graph::Output) -> Evaluated {
        let array = self.array(output.value);
        let shape = self.problem.shape(&output.dims);
        let strides = body_strides(self.graph.product(), &output.dims, &tensor::contiguous(&shape));
        let Some(axes) = self.graph.product().axes(&output.dims) else {
            panic!("compiler bug: output `{}` has foreign dims", output.name)
        };
        let extents = self.problem.extents(axes);
        let elem = self.graph.ty(output.value).elem;
        let mut values = vec![Value::exact(0.0); shape.iter().product()];
        for_each(extents, |place| {
            let steps: isize =
                place.iter().zip(strides).map(|(at, stride)| *at as isize * stride).sum();
            values[steps as usize] = convert(output.dtype, elem, array.at(place, extents[2]));
        });
        Evaluated { name: output.name.clone(), dtype: output.dtype, shape, values }
    }
}

fn square(x: Value) -> Value {
    let root = crate::graph::Unary::Abs.apply(dtype::Elem::F32, Accuracy::Accurate, x);
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

fn each(extents: [usize; 3], mut f: impl FnMut([usize; 3]) -> Value) -> Vec<Value> {
    let mut values = Vec::with_capacity(extents.iter().product());
    for_each(extents, |place| values.push(f(place)));
    values
}

fn for_each([batches, rows, columns]: [usize; 3], mut f: impl FnMut([usize; 3])) {
    for batch in 0..batches {
        for row in 0..rows {
            for column in 0..columns {
                f([batch, row, column]);
            }
        }
    }
}
