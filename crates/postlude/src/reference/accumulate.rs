//! The matrix product, with the error that any order of accumulation may have.

use rayon::prelude::*;

use crate::dtype::Elem;
use crate::graph::fold::sums_exactly;
use crate::graph::{Accumulation, InputId, MathMode, Orientation, Product, ProductId, Side, Value};

use crate::problem::Segments;
use crate::process;

use super::array::Frame;
use super::evaluate::Call;
use super::operand::{Matrix, matrices};
use super::progress::Progress;

/// Each step of a tensor core may lose a unit in the last place of the largest term, and there is at most one step a term:
/// twice the half unit of a rounded sum (docs/numerics.md, "The accumulator").
const STEP: f64 = 1.0 / (1u32 << 23) as f64;
/// The same for a product of f32 operands, which tensor cores multiply as high and low parts: three steps for eight terms,
/// each of which may lose 3.25 units, and what parts lose of a term, 12 units.
const SPLIT_STEPS: f64 = 1.25;
const SPLIT_LOSS: f64 = 12.0;
/// What the factors of a term lose where runs of K are scaled.
const SCALED_LOSS: f64 = 8.0;
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
    // Rows that are cut into segments are one batch of A, and each meets its segment's B.
    let segments = frame.segments.as_deref();
    let right_batches = segments.map_or(frame.batches, |_| call.problem.batch);
    let contraction = call.graph.contraction_ends().map(|ends| call.tensor(ends));
    let contraction = contraction.map(|ends| Segments::new(ends, inner));
    let own = |batches: usize| contraction.as_ref().map_or(batches, |_| batches.min(1));
    let mut lefts = matrices(call, product, Side::Left, &frame.rows, own(frame.batches));
    let mut rights = matrices(call, product, Side::Right, &frame.columns, own(right_batches));
    if let Some(segments) = contraction {
        // Both operands are those of all segments, and each segment has its part of K.
        let parts = |all: &[Matrix], (input, _): (InputId, Orientation)| -> Vec<Matrix> {
            let dtype = call.graph.inputs()[input.0 as usize].dtype;
            let of = |segment: usize| all.first().map(|it| it.part(segments.rows(segment), dtype));
            (0..segments.count()).filter_map(of).collect()
        };
        (lefts, rights) = (parts(&lefts, product.left), parts(&rights, product.right));
    }
    let dots = Dots { elem: product.elem, eight_bit_depth, run: product.scaled_run() };
    if let Some(segments) = segments {
        let Some(left) = lefts.first() else { return all };
        for (row, place) in frame.rows.chosen.iter().enumerate() {
            let right = &rights[segments[*place]];
            all.extend((0..columns).map(|column| dots.dot((left, row), (right, column))));
            progress.add((columns * inner) as u64);
        }
        return all;
    }
    for (left, right) in lefts.iter().zip(&rights) {
        let mut block = vec![Value::exact(0.0); frame.rows.len() * columns];
        let rows_from = |(at, out): (usize, &mut [Value])| {
            for column in 0..columns {
                for (row, out) in out.chunks_exact_mut(columns).enumerate() {
                    out[column] = dots.dot((left, at * ROWS + row), (right, column));
                }
            }
            progress.add((out.len() * inner) as u64);
        };
        let alone = block.len() * inner < WORTH_THREADS || process::is_forked();
        if columns > 0 && alone {
            block.chunks_mut(ROWS * columns).enumerate().for_each(rows_from);
        } else if columns > 0 {
            block.par_chunks_mut(ROWS * columns).enumerate().for_each(rows_from);
        }
        all.extend(block);
    }
    all
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

/// How elements of the accumulator are summed.
struct Dots {
    elem: Elem,
    eight_bit_depth: Option<usize>,
    /// K of the runs whose sums are scaled.
    run: Option<u32>,
}

/// A sum of products.
struct Sum {
    /// As a real number.
    total: f64,
    /// The sum of the magnitudes of its terms.
    magnitude: f64,
    /// What it may lose beside its roundings.
    lost: f64,
}

impl Dots {
    fn dot(&self, (left, row): (&Matrix, usize), (right, column): (&Matrix, usize)) -> Value {
        let (a, b) = (left.row(row), right.row(column));
        let spread = spread([(left, row), (right, column)]);
        if self.elem == Elem::I32 {
            let total = a.iter().zip(b).fold(0i32, |total, (a, b)| {
                total.wrapping_add((*a as i32).wrapping_mul(*b as i32))
            });
            let (low, high) = (f64::from(total) - spread, f64::from(total) + spread);
            return Value::wrapped(total, low as i128, high as i128);
        }
        let bits = left.lowest_bits[row].zip(right.lowest_bits[column]).map(|(a, b)| a + b);
        let split = left.split[row] || right.split[column];
        if let Some(run) = self.run {
            let factors = [(left, row), (right, column)].map(|(matrix, row)| {
                let runs =
                    matrix.factors.len() / (matrix.values.len() / matrix.inner.max(1)).max(1);
                &matrix.factors[row * runs..(row + 1) * runs]
            });
            return self.scaled((left, row), (right, column), factors, run as usize);
        }
        let Sum { total, magnitude, lost } = self.sum(a, b, bits);
        if total.is_nan() {
            return if spread.is_finite() { Value::NAN } else { Value::anything(f64::NAN) };
        }
        let nominal = total as f32 as f64;
        // Partial sums that overflow in one order need not in another, and may meet an infinity of the other sign.
        if magnitude > f32::MAX as f64 || !spread.is_finite() {
            return Value::anything(nominal);
        }
        if total.is_infinite() {
            return Value::exact(nominal);
        }
        let exact = lost == 0.0 && !split && spread == 0.0 && sums_exactly(bits, magnitude);
        if magnitude + spread == 0.0 || exact {
            return Value::exact(nominal);
        }
        // Terms below the smallest normal f32 may be lost whole.
        let parts = if split { 3.0 } else { 1.0 };
        let underflow = parts * left.inner as f64 * (f32::MIN_POSITIVE as f64);
        let steps = left.inner as f64;
        let steps = if split { SPLIT_STEPS * steps + SPLIT_LOSS } else { steps };
        let magnitude = magnitude + spread;
        let underflow =
            underflow.min(magnitude) + if split { SPLIT_UNIT * magnitudes(a, b) } else { 0.0 };
        let rounded = steps * STEP * magnitude + underflow;
        Value::exact(nominal).widen(rounded + lost + spread)
    }

    fn sum(&self, a: &[f64], b: &[f64], bits: Option<i32>) -> Sum {
        let (total, magnitude) = sum_products(a, b);
        let lost = self.eight_bit_depth.map_or(0.0, |depth| eight_bit_loss(a, b, bits, depth));
        Sum { total, magnitude, lost }
    }

    /// The sum of the scaled sums of runs. Engines scale sums, or elements before they multiply them as f32.
    fn scaled(
        &self,
        (left, row): (&Matrix, usize),
        (right, column): (&Matrix, usize),
        factors: [&[Value]; 2],
        run: usize,
    ) -> Value {
        let (a, b) = (left.row(row), right.row(column));
        let bits = left.lowest_bits[row].zip(right.lowest_bits[column]).map(|(a, b)| a + b);
        let uncertain = |spreads: Option<&[f64]>, at: usize| spreads.map_or(0.0, |all| all[at]);
        let spreads = [left.row_spreads(row), right.row_spreads(column)];
        let (mut total, mut magnitude, mut lost, mut largest) = (0.0, 0.0, 0.0, 0.0f64);
        for at in 0..a.len().div_ceil(run.max(1)) {
            let range = at * run..a.len().min((at + 1) * run);
            let (a, b) = (&a[range.clone()], &b[range.clone()]);
            let sum = self.sum(a, b, bits);
            let [f, g] = factors.map(|factors| factors[at]);
            let factor = f.nominal * g.nominal;
            let most = f.magnitude() * g.magnitude();
            let spread: f64 = range
                .map(|k| (uncertain(spreads[0], k), uncertain(spreads[1], k)))
                .zip(a.iter().zip(b))
                .map(|((da, db), (a, b))| da * (b.abs() + db) + a.abs() * db)
                .sum();
            total += sum.total * factor;
            magnitude += (sum.magnitude + spread) * most;
            // Narrow integers may be multiplied as 64ths, whose products are lost sooner.
            lost += 64.0 * f32::MIN_POSITIVE as f64 * a.len() as f64 * most;
            lost += sum.lost * most + spread * most;
            lost += sum.magnitude * (most - factor.abs()).abs().max(factor_spread(f, g));
            let of = |x: &[f64], f: Value| {
                x.iter().map(|x| (x * f.magnitude()).abs()).fold(0.0, f64::max)
            };
            largest = largest.max(of(a, f)).max(of(b, g)).max(sum.magnitude);
            // An engine may multiply factors with one another first.
            largest = largest.max(f.magnitude()).max(g.magnitude()).max(most);
        }
        if total.is_nan() {
            let certain = spreads.iter().all(Option::is_none)
                && factors
                    .iter()
                    .flat_map(|all| all.iter())
                    .all(|it| it.is_exact() || it.is_only_nan());
            return if certain && largest <= f32::MAX as f64 {
                Value::NAN
            } else {
                Value::anything(f64::NAN)
            };
        }
        let nominal = total as f32 as f64;
        let finite = magnitude.is_finite() && lost.is_finite();
        if !finite || magnitude > f32::MAX as f64 || largest > f32::MAX as f64 {
            return Value::anything(nominal);
        }
        if magnitude == 0.0 {
            return Value::exact(nominal);
        }
        let steps = SPLIT_STEPS * left.inner as f64 + SPLIT_LOSS + SCALED_LOSS;
        let every = magnitudes(a, b)
            + factors.iter().flat_map(|all| all.iter()).map(|it| it.magnitude()).sum::<f64>();
        let underflow = f32::MIN_POSITIVE as f64 * (3.0 * left.inner as f64 + every * every)
            + SPLIT_UNIT * every;
        Value::exact(nominal).widen(steps * STEP * magnitude + lost + underflow)
    }
}

/// How far a product of two factors may be from its value.
fn factor_spread(f: Value, g: Value) -> f64 {
    let far = |value: Value| (value.high - value.nominal).max(value.nominal - value.low);
    far(f) * g.magnitude() + far(g) * f.magnitude()
}

/// How far a sum of products may be from its value because its elements may be.
fn spread([(left, row), (right, column)]: [(&Matrix, usize); 2]) -> f64 {
    let (a, b) = (left.row(row), right.row(column));
    let spreads = [left.row_spreads(row), right.row_spreads(column)];
    if spreads == [None, None] {
        return 0.0;
    }
    let of = |spreads: Option<&[f64]>, at: usize| spreads.map_or(0.0, |all| all[at]);
    let terms = a.iter().zip(b).enumerate().map(|(at, (a, b))| {
        let (da, db) = (of(spreads[0], at), of(spreads[1], at));
        let from_left = if da == 0.0 { 0.0 } else { da * (b.abs() + db) };
        from_left + if db == 0.0 { 0.0 } else { a.abs() * db }
    });
    let all: f64 = terms.sum();
    if all.is_nan() { f64::INFINITY } else { all }
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
