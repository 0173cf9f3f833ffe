//! Operands of a product as dense matrices, and the inputs that graphs compute.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use crate::dtype::{self, DType};
use crate::graph::fold::lowest_bit;
use crate::graph::{BlockScale, Graph, Input, InputId, Product, Side, Value};
use crate::problem::{BodyStrides, Problem};
use crate::shape::Dim;
use crate::tensor;

use super::array::Places;
use super::demand::Wanted;
use super::evaluate::{self, Call};
use super::progress::Progress;

/// An operand as a dense matrix: rows of the contraction's length.
pub(super) struct Matrix {
    pub(super) values: Vec<f64>,
    /// How far each of them may be from its value; empty where all are exact.
    pub(super) spreads: Vec<f64>,
    pub(super) inner: usize,
    /// Of each row.
    pub(super) lowest_bits: Vec<Option<i32>>,
    /// Of each row, whether it has numbers that a tensor core multiplies in parts.
    pub(super) split: Vec<bool>,
    /// Of each row, the factors of its runs of K; empty without factors.
    pub(super) factors: Vec<Value>,
}

/// A computed input: every element in the order of a contiguous tensor.
pub(super) struct Computed {
    pub(super) values: Arc<Vec<Value>>,
    pub(super) strides: Vec<isize>,
}

/// What computed inputs were found to be, by their names and the rows that were wanted.
#[derive(Default)]
pub(super) struct Memo(Mutex<HashMap<MemoKey, Arc<Vec<Value>>>>);

/// An input's name, and some of its rows or columns; all where there are none.
type MemoKey = (String, Option<(Dim, Vec<usize>)>);

/// Evaluates a computed input, some of it along a dim.
fn evaluate_some(call: Call<'_>, input: &Input, some: Option<(&Dim, &Places)>) -> Arc<Vec<Value>> {
    let Some(graph) = &input.computed else { return Arc::default() };
    let chosen = some.map(|(dim, places)| (dim.clone(), places.chosen.clone()));
    let key = (input.name.clone(), chosen);
    let memo = || call.memo.0.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(known) = memo().get(&key) {
        return known.clone();
    }
    let output = input.computed_output();
    let problem = sizes_of(call.problem, graph);
    let own = Call { graph, problem: &problem, ..call };
    let axes = graph.output_axes(&graph.outputs()[output]);
    let Some(axes) = axes else { panic!("compiler bug: a computed input has foreign dims") };
    let [_, rows, columns] = problem.extents(axes);
    let mut wanted = Wanted { output, rows: Places::all(rows), columns: Places::all(columns) };
    if let Some((dim, places)) = some {
        let is_row = graph.space().row_run(dim).is_some();
        *(if is_row { &mut wanted.rows } else { &mut wanted.columns }) = places.clone();
    }
    let mut evaluated = evaluate::evaluate(own, &[wanted], &Progress::silent());
    let values = Arc::new(evaluated.swap_remove(0).values);
    memo().insert(key, values.clone());
    values
}

/// The sizes of a graph that computes an input of a call.
pub(super) fn sizes_of(problem: &Problem, graph: &Graph) -> Problem {
    problem.of_computing(graph).unwrap_or_else(|error| panic!("compiler bug: {error}"))
}

/// A computed input, all of it.
pub(super) fn computed(call: Call<'_>, input: InputId) -> Option<Computed> {
    let declared = call.input(input);
    declared.computed.as_ref()?;
    let shape = call.problem.shape(declared.dims.as_deref().unwrap_or_default());
    Some(Computed {
        values: evaluate_some(call, declared, None),
        strides: tensor::contiguous(&shape),
    })
}

/// The needed rows or columns of an operand, for every batch; their dim first.
pub(super) fn matrices(
    call: Call<'_>,
    product: &Product,
    side: Side,
    places: &Places,
    batches: usize,
) -> Vec<Matrix> {
    let (input, orientation) = product.operand(side);
    let declared = call.input(input);
    let scales: Vec<Scale<'_>> = product
        .scales
        .iter()
        .filter(|scale| scale.side == side)
        .map(|scale| Scale::new(call, product, scale))
        .collect();
    let is_k_major = orientation == side.k_major();
    let dims = call.graph.inputs()[input.0 as usize].dims.as_deref().unwrap_or_default();
    let outer = &dims[dims.len() - if is_k_major { 2 } else { 1 }];
    let computed =
        declared.computed.as_ref().map(|_| evaluate_some(call, declared, Some((outer, places))));
    let elements = places.len() * call.problem.inner;
    let one = |batch: usize| {
        let (values, spreads) = match &computed {
            Some(all) => {
                let own = own_batch(call, declared, batch) * elements;
                let own = &all[own..own + elements];
                if is_k_major || own.is_empty() {
                    spread(own)
                } else {
                    let rows =
                        (0..places.len()).flat_map(|row| own[row..].iter().step_by(places.len()));
                    spread(&rows.copied().collect::<Vec<_>>())
                }
            }
            None => (stored(call, product, side, batch, places), Vec::new()),
        };
        let factors = factors(call, product, &scales, batch, places);
        Matrix::new(values, spreads, declared.dtype, call.problem.inner, places.len(), factors)
    };
    (0..batches).map(one).collect()
}

/// Which of a tensor's own batches is one of the product's.
fn own_batch(call: Call<'_>, input: &Input, batch: usize) -> usize {
    let place = call.problem.batch_place(batch);
    let dims = input.dims.as_deref().unwrap_or_default();
    let batches = call.graph.space().batch.iter().zip(place).zip(&call.problem.batch_sizes);
    let own = batches.filter(|((dim, _), _)| dims.contains(dim));
    own.fold(0, |number, ((_, at), size)| number * size + at)
}

/// Values, and how far each may be from its own; nothing where all are exact.
fn spread(values: &[Value]) -> (Vec<f64>, Vec<f64>) {
    let nominal = values.iter().map(|value| value.nominal).collect();
    let exact = |value: &Value| value.is_exact() || value.is_only_nan();
    if values.iter().all(exact) {
        return (nominal, Vec::new());
    }
    let far = |value: &Value| {
        if exact(value) {
            0.0
        } else if value.nan {
            f64::INFINITY
        } else {
            (value.high - value.nominal).max(value.nominal - value.low)
        }
    };
    (nominal, values.iter().map(far).collect())
}

/// The elements of an operand that a call passes.
fn stored(
    call: Call<'_>,
    product: &Product,
    side: Side,
    batch: usize,
    places: &Places,
) -> Vec<f64> {
    let operand = product.operand(side);
    let inner = call.problem.inner;
    let tensor = call.tensor(operand.0);
    let rank = tensor.shape().len();
    let (first, second) = (rank - 2, rank - 1);
    let (outer_dim, inner_dim) =
        if operand.1 == side.k_major() { (first, second) } else { (second, first) };
    let dims = call.graph.inputs()[operand.0.0 as usize].dims.as_deref().unwrap_or_default();
    let strides = BodyStrides::of_operand(call.graph.space(), dims, tensor.strides());
    let start = tensor.offset() as isize + strides.to_batch(call.problem.batch_place(batch));
    let (outer_stride, inner_stride) = (tensor.strides()[outer_dim], tensor.strides()[inner_dim]);
    let mut values = Vec::with_capacity(places.len() * inner);
    for row in &places.chosen {
        for k in 0..inner as isize {
            let place = start + *row as isize * outer_stride + k * inner_stride;
            values.push(dtype::load(tensor.dtype(), tensor.bytes(), place as usize));
        }
    }
    values
}

impl Matrix {
    fn new(
        values: Vec<f64>,
        spreads: Vec<f64>,
        dtype: DType,
        inner: usize,
        rows: usize,
        factors: Vec<Value>,
    ) -> Matrix {
        let of_row = |row: &[f64]| lowest_bit(row.iter().copied().filter(|x| x.is_finite()));
        let is_split = |row: &[f64]| {
            let inexact = |x: &f64| dtype::round_to(DType::TF32, *x) != *x && x.is_finite();
            dtype == DType::F32 && row.iter().any(inexact)
        };
        let (lowest_bits, split) = if inner == 0 {
            (vec![None; rows], vec![false; rows])
        } else {
            let rows = || values.chunks_exact(inner);
            (rows().map(of_row).collect(), rows().map(is_split).collect())
        };
        Matrix { values, spreads, inner, lowest_bits, split, factors }
    }

    /// The same rows with a part of their K.
    pub(super) fn part(&self, inner: Range<usize>, dtype: DType) -> Matrix {
        let rows = self.lowest_bits.len();
        let cut = |values: &[f64]| -> Vec<f64> {
            let starts = (0..rows).filter(|_| !values.is_empty()).map(|row| row * self.inner);
            starts.flat_map(|at| values[at + inner.start..at + inner.end].iter().copied()).collect()
        };
        let (values, spreads) = (cut(&self.values), cut(&self.spreads));
        Matrix::new(values, spreads, dtype, inner.len(), rows, Vec::new())
    }

    /// A run of a row of the matrix.
    pub(super) fn row(&self, row: usize) -> &[f64] {
        &self.values[row * self.inner..(row + 1) * self.inner]
    }

    /// How far its elements may be from their values; nothing where all are exact.
    pub(super) fn row_spreads(&self, row: usize) -> Option<&[f64]> {
        let range = row * self.inner..(row + 1) * self.inner;
        (!self.spreads.is_empty()).then(|| &self.spreads[range])
    }
}

/// A factor of runs of K with its place in memory.
struct Scale<'a> {
    run: usize,
    /// Rows of the operand that one of its rows stands for.
    row_run: usize,
    strides: BodyStrides,
    values: ScaleValues<'a>,
}

enum ScaleValues<'a> {
    Stored(crate::tensor::TensorView<'a>),
    Computed(Arc<Vec<Value>>),
}

impl<'a> Scale<'a> {
    fn new(call: Call<'a>, product: &Product, scale: &BlockScale) -> Scale<'a> {
        let declared = &call.graph.inputs()[scale.input.0 as usize];
        let dims = declared.dims.as_deref().unwrap_or_default();
        let space = call.graph.space().of_operand(product, scale.side);
        let (values, strides) =
            if let Some(Computed { values, strides }) = computed(call, scale.input) {
                (ScaleValues::Computed(values), strides)
            } else {
                let tensor = call.tensor(scale.input);
                (ScaleValues::Stored(tensor), tensor.strides().to_vec())
            };
        let axes = space.axes(dims);
        let Some(axes) = axes else { panic!("compiler bug: a scale has foreign dims") };
        Scale {
            run: scale.run as usize,
            row_run: axes.row.unwrap_or(1) as usize,
            strides: BodyStrides::new(&space, dims, &strides),
            values,
        }
    }

    fn at(&self, problem: &Problem, batch: usize, row: usize, k: usize) -> Value {
        let place = [batch, row / self.row_run, k / self.run];
        let at = self.strides.to_element(problem, place);
        match &self.values {
            ScaleValues::Stored(tensor) => {
                let at = (tensor.offset() as isize + at) as usize;
                Value::exact(dtype::load(tensor.dtype(), tensor.bytes(), at))
            }
            ScaleValues::Computed(values) => values[at as usize],
        }
    }
}

/// The factors of the runs of K of some rows of an operand.
fn factors(
    call: Call<'_>,
    product: &Product,
    scales: &[Scale<'_>],
    batch: usize,
    places: &Places,
) -> Vec<Value> {
    let Some(run) = product.scaled_run() else { return Vec::new() };
    let runs = call.problem.inner.div_ceil(run as usize);
    let mut factors = Vec::with_capacity(places.len() * runs);
    for row in &places.chosen {
        for at in 0..runs {
            let each = scales.iter().map(|it| it.at(call.problem, batch, *row, at * run as usize));
            factors.push(each.reduce(times).unwrap_or(Value::exact(1.0)));
        }
    }
    factors
}

/// The product of two factors as a real number; what its rounding loses is a part of the sum's bound.
fn times(a: Value, b: Value) -> Value {
    let nominal = a.nominal * b.nominal;
    let ends = [a.low * b.low, a.low * b.high, a.high * b.low, a.high * b.high];
    let low = ends.into_iter().fold(f64::INFINITY, f64::min);
    let high = ends.into_iter().fold(f64::NEG_INFINITY, f64::max);
    Value::between(nominal, low, high, a.nan || b.nan)
}
