//! The matrix product, with the error that any order of accumulation may have.

use rayon::prelude::*;

use crate::dtype::{self, Elem};
use crate::graph::{Graph, InputId, Orientation, Value, lowest_bit, sums_exactly};
use crate::problem::{Arguments, Problem};
use crate::tensor::Tensor;

/// Each step of a tensor core may lose a unit in the last place of the largest term, and there is at most one step a term:
/// twice the half unit of a rounded sum (docs/numerics.md, "The accumulator").
const STEP: f64 = 1.0 / (1u32 << 23) as f64;

/// An operand as a dense matrix: rows of the contraction's length.
struct Matrix {
    values: Vec<f64>,
    inner: usize,
    /// Of each row.
    lowest_bits: Vec<Option<i32>>,
}

/// The accumulator of every batch, row and column, with this right operand.
pub(super) fn accumulate(
    graph: &Graph,
    problem: &Problem,
    arguments: &Arguments,
    right: InputId,
) -> Vec<Value> {
    let product = graph.product();
    let right_operand = (right, product.right.1);
    let columns = problem.product_columns();
    let mut all = Vec::with_capacity(problem.batch * problem.rows * columns);
    for batch in 0..problem.batch {
        let left = matrix(graph, arguments, product.left, batch, problem.inner, Side::Left);
        let right = matrix(graph, arguments, right_operand, batch, problem.inner, Side::Right);
        let mut block = vec![Value::exact(0.0); problem.rows * columns];
        if columns > 0 {
            block.par_chunks_mut(columns).enumerate().for_each(|(row, out)| {
                for (column, value) in out.iter_mut().enumerate() {
                    *value = dot(&left, row, &right, column, product.elem);
                }
            });
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

/// The operand of one batch, its outer dim first.
fn matrix(
    graph: &Graph,
    arguments: &Arguments,
    operand: (InputId, Orientation),
    batch: usize,
    inner: usize,
    side: Side,
) -> Matrix {
    let tensor: &Tensor = graph.tensor(arguments, operand.0);
    let rank = tensor.shape().len();
    let (first, second) = (rank - 2, rank - 1);
    let outer_first = (side == Side::Left) == (operand.1 == Orientation::Plain);
    let (outer_dim, inner_dim) = if outer_first { (first, second) } else { (second, first) };
    let outer = tensor.shape()[outer_dim];
    let start =
        tensor.offset() as isize + if rank == 3 { batch as isize * tensor.strides()[0] } else { 0 };
    let (outer_stride, inner_stride) = (tensor.strides()[outer_dim], tensor.strides()[inner_dim]);
    let mut values = Vec::with_capacity(outer * inner);
    for row in 0..outer as isize {
        for k in 0..inner as isize {
            let place = start + row * outer_stride + k * inner_stride;
            values.push(dtype::load(tensor.dtype(), tensor.bytes(), place as usize));
        }
    }
    let of_row = |row: &[f64]| lowest_bit(row.iter().copied().filter(|x| x.is_finite()));
    let lowest_bits = if inner == 0 {
        vec![None; outer]
    } else {
        values.chunks_exact(inner).map(of_row).collect()
    };
    Matrix { values, inner, lowest_bits }
}

fn dot(left: &Matrix, row: usize, right: &Matrix, column: usize, elem: Elem) -> Value {
    let a = &left.values[row * left.inner..(row + 1) * left.inner];
    let b = &right.values[column * right.inner..(column + 1) * right.inner];
    if elem == Elem::I32 {
        let total = a
            .iter()
            .zip(b)
            .fold(0i32, |total, (a, b)| total.wrapping_add((*a as i32).wrapping_mul(*b as i32)));
        return Value::exact(f64::from(total));
    }
    let (mut total, mut magnitude) = (0.0, 0.0);
    for (a, b) in a.iter().zip(b) {
        let term = a * b;
        total += term;
        magnitude += if term.is_finite() { term.abs() } else { 0.0 };
    }
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
    if magnitude == 0.0 || sums_exactly(bits, magnitude) {
        return Value::exact(nominal);
    }
    // Terms below the smallest normal f32 may be lost whole.
    let lost = left.inner as f64 * (f32::MIN_POSITIVE as f64);
    Value::exact(nominal).widen(left.inner as f64 * STEP * magnitude + lost.min(magnitude))
}
