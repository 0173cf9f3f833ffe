//! The matrix product, with the error that any order of accumulation may have.

use rayon::prelude::*;

use crate::dtype::{self, DType, Elem};
use crate::graph::fold::{lowest_bit, sums_exactly};
use crate::graph::{Accumulation, InputId, MathMode, Orientation, Product, ProductId, Value};
use crate::problem::{BodyStrides, input_tensor};

use super::array::{Frame, Places};
use super::evaluate::Call;
use super::progress::Progress;

/// Each step of a tensor core may lose a unit in the last place of the largest term, and there is at most one step a term:
/// twice the half unit of a rounded sum (docs/numerics.md, "The accumulator").
const STEP: f64 = 1.0 / (1u32 << 23) as f64;
/// The same for a product of f32 operands, which tensor cores multiply as high and low parts: three steps for eight terms,
/// each of which may lose 3.25 units, and what parts lose of a term, 12 units.
const SPLIT_STEPS: f64 = 1.25;
const SPLIT_LOSS: f64 = 12.0;
/// Subnormal numbers are multiples of this to a tensor core.
const SPLIT_UNIT: f64 = f64::from_bits((1023 - 136) << 52);
/// What an instruction of a tensor core may lose of 8-bit products, for each unit of its largest term: it truncates 32
/// products and the sum before at 13 fractional bits of the largest, and the total again (docs/numerics.md). Two more
/// units cover what the sums that this is computed from have lost themselves.
const EIGHT_BIT_STEP: f64 = 36.0 / (1u32 << 13) as f64;
/// The K of such an instruction.
const EIGHT_BIT_DEPTH: usize = 32;
/// Sums of 8-bit products are exact up to as many units in their last place.
const EIGHT_BIT_UNITS: i32 = 14;
/// Rows that are computed together, so that the right operand is brought from memory once for all of them.
const ROWS: usize = 8;
/// Chains of additions that do not wait for one another.
const LANES: usize = 8;
/// Products below this many multiply-adds are not worth another thread.
const WORTH_THREADS: usize = 1 << 16;

/// An operand as a dense matrix: rows of the contraction's length.
struct Matrix {
    values: Vec<f64>,
    inner: usize,
    /// Of each row.
    lowest_bits: Vec<Option<i32>>,
    /// Of each row, whether it has numbers that a tensor core multiplies in parts.
    split: Vec<bool>,
}

/// The accumulator of a product at the needed rows and columns of every batch.
pub(super) fn accumulate(
    call: Call<'_>,
    product: ProductId,
    frame: &Frame,
    progress: &Progress<'_>,
) -> Vec<Value> {
    let product = call.graph.product(product);
    let (columns, inner) = (frame.columns.len(), call.problem.inner);
    let eight_bit_depth = eight_bit_depth(call, product);
    let mut all = Vec::with_capacity(frame.len());
    for batch in 0..frame.batches {
        let left = matrix(call, product.left, batch, &frame.rows, Side::Left);
        let right = matrix(call, product.right, batch, &frame.columns, Side::Right);
        let mut block = vec![Value::exact(0.0); frame.rows.len() * columns];
        let rows_from = |(at, out): (usize, &mut [Value])| {
            for column in 0..columns {
                for (row, out) in out.chunks_exact_mut(columns).enumerate() {
                    let (left, right) = ((&left, at * ROWS + row), (&right, column));
                    out[column] = dot(left, right, product.elem, eight_bit_depth);
                }
            }
            progress.add((out.len() * inner) as u64);
        };
        if columns > 0 && block.len() * inner < WORTH_THREADS {
            block.chunks_mut(ROWS * columns).enumerate().for_each(rows_from);
        } else if columns > 0 {
            block.par_chunks_mut(ROWS * columns).enumerate().for_each(rows_from);
        }
        all.extend(block);
    }
    all
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Side {
    Left,
    Right,
}

/// The needed rows or columns of the operand of one batch, their dim first.
fn matrix(
    call: Call<'_>,
    operand: (InputId, Orientation),
    batch: usize,
    places: &Places,
    side: Side,
) -> Matrix {
    let inner = call.problem.inner;
    let tensor = input_tensor(call.inputs, operand.0);
    let rank = tensor.shape().len();
    let (first, second) = (rank - 2, rank - 1);
    let outer_first = (side == Side::Left) == (operand.1 == Orientation::Plain);
    let (outer_dim, inner_dim) = if outer_first { (first, second) } else { (second, first) };
    let outer = places.len();
    let dims = call.graph.inputs()[operand.0.0 as usize].dims.as_deref().unwrap_or_default();
    let strides = BodyStrides::of_operand(call.graph.space(), dims, tensor.strides());
    let start = tensor.offset() as isize + strides.to_batch(call.problem.batch_place(batch));
    let (outer_stride, inner_stride) = (tensor.strides()[outer_dim], tensor.strides()[inner_dim]);
    let mut values = Vec::with_capacity(outer * inner);
    for row in &places.chosen {
        for k in 0..inner as isize {
            let place = start + *row as isize * outer_stride + k * inner_stride;
            values.push(dtype::load(tensor.dtype(), tensor.bytes(), place as usize));
        }
    }
    let of_row = |row: &[f64]| lowest_bit(row.iter().copied().filter(|x| x.is_finite()));
    let is_split = |row: &[f64]| {
        let f32s = tensor.dtype() == DType::F32;
        f32s && row.iter().any(|x| dtype::round_to(DType::TF32, *x) != *x && x.is_finite())
    };
    let split = if inner == 0 {
        vec![false; outer]
    } else {
        values.chunks_exact(inner).map(is_split).collect()
    };
    let lowest_bits = if inner == 0 {
        vec![None; outer]
    } else {
        values.chunks_exact(inner).map(of_row).collect()
    };
    Matrix { values, inner, lowest_bits, split }
}

/// The K of the sums that a tensor core makes of 8-bit floats; `None` for other operands.
fn eight_bit_depth(call: Call<'_>, product: &Product) -> Option<usize> {
    let is_fp8 =
        |(input, _): (InputId, Orientation)| call.graph.inputs()[input.0 as usize].dtype.is_fp8();
    if !is_fp8(product.left) || !is_fp8(product.right) {
        return None;
    }
    match (call.math, product.accumulation) {
        (MathMode::Fast, _) | (_, Accumulation::Native) => Some(call.problem.inner.max(1)),
        (MathMode::Default | MathMode::Accurate, Accumulation::Promoted) => {
            Some(Accumulation::PROMOTED_DEPTH as usize)
        }
    }
}

fn dot(
    (left, row): (&Matrix, usize),
    (right, column): (&Matrix, usize),
    elem: Elem,
    eight_bit_depth: Option<usize>,
) -> Value {
    let a = &left.values[row * left.inner..(row + 1) * left.inner];
    let b = &right.values[column * right.inner..(column + 1) * right.inner];
    if elem == Elem::I32 {
        let total = a
            .iter()
            .zip(b)
            .fold(0i32, |total, (a, b)| total.wrapping_add((*a as i32).wrapping_mul(*b as i32)));
        return Value::exact(f64::from(total));
    }
    let (total, magnitude) = sum_products(a, b);
    if total.is_nan() {
        return Value::NAN;
    }
    let nominal = total as f32 as f64;
    // Partial sums that overflow in one order need not in another, and may meet an infinity of the other sign.
    if magnitude > f32::MAX as f64 {
        return Value::anything(nominal);
    }
    if total.is_infinite() {
        return Value::exact(nominal);
    }
    let bits = left.lowest_bits[row].zip(right.lowest_bits[column]).map(|(a, b)| a + b);
    let truncated = eight_bit_depth.map_or(0.0, |depth| eight_bit_loss(a, b, bits, depth));
    let split = left.split[row] || right.split[column];
    if magnitude == 0.0 || (truncated == 0.0 && !split && sums_exactly(bits, magnitude)) {
        return Value::exact(nominal);
    }
    // Terms below the smallest normal f32 may be lost whole.
    let parts = if split { 3.0 } else { 1.0 };
    let lost = parts * left.inner as f64 * (f32::MIN_POSITIVE as f64);
    let steps = left.inner as f64;
    let steps = if split { SPLIT_STEPS * steps + SPLIT_LOSS } else { steps };
    let lost = lost.min(magnitude) + if split { SPLIT_UNIT * magnitudes(a, b) } else { 0.0 };
    let rounded = steps * STEP * magnitude + lost;
    Value::exact(nominal).widen(rounded + truncated)
}

/// The magnitudes of all finite elements of both.
fn magnitudes(a: &[f64], b: &[f64]) -> f64 {
    a.iter().chain(b).map(|x| x.abs()).filter(|x| x.is_finite()).sum()
}

/// What sums of 8-bit products over as much of K may lose before they are added in f32. All products are multiples of the
/// unit in this place.
fn eight_bit_loss(a: &[f64], b: &[f64], unit: Option<i32>, depth: usize) -> f64 {
    let of_sum = |(a, b): (&[f64], &[f64])| {
        let magnitude: f64 = a.iter().zip(b).map(|(a, b)| (a * b).abs()).sum();
        if unit.is_none_or(|unit| magnitude < 2f64.powi(unit + EIGHT_BIT_UNITS)) {
            return 0.0;
        }
        let (mut sum, mut lost) = (0.0f64, 0.0f64);
        for (a, b) in a.chunks(EIGHT_BIT_DEPTH).zip(b.chunks(EIGHT_BIT_DEPTH)) {
            let products = || a.iter().zip(b).map(|(a, b)| a * b);
            let after = sum + products().sum::<f64>();
            let largest = products().fold(0.0f64, |largest, term| largest.max(term.abs()));
            lost += EIGHT_BIT_STEP * largest.max(sum.abs() + lost).max(after.abs() + lost);
            sum = after;
        }
        lost
    };
    a.chunks(depth).zip(b.chunks(depth)).map(of_sum).sum()
}

/// The sum of products, and the sum of the magnitudes of the finite ones.
fn sum_products(a: &[f64], b: &[f64]) -> (f64, f64) {
    let (mut totals, mut magnitudes) = ([0.0; LANES], [0.0; LANES]);
    let (a_chunks, b_chunks) = (a.chunks_exact(LANES), b.chunks_exact(LANES));
    let rest = a_chunks.remainder().iter().zip(b_chunks.remainder());
    for (a, b) in a_chunks.zip(b_chunks) {
        for lane in 0..LANES {
            let term = a[lane] * b[lane];
            totals[lane] += term;
            magnitudes[lane] += term.abs();
        }
    }
    let (mut total, mut magnitude): (f64, f64) = (totals.iter().sum(), magnitudes.iter().sum());
    for (a, b) in rest {
        total += a * b;
        magnitude += (a * b).abs();
    }
    if !magnitude.is_finite() {
        let terms = a.iter().zip(b).map(|(a, b)| (a * b).abs());
        magnitude = terms.filter(|term| term.is_finite()).sum();
    }
    (total, magnitude)
}
