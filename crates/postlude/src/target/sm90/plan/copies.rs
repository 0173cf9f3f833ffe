//! Which operands are worth a launch that stores them once more, so that TMA loads them.
//!
//! In: a graph at the sizes of a call. Out: how each operand of its products is copied. wgmma reads 8-bit and TF32 elements
//! K-major alone, and f32 elements as parts: what does not lie so in memory is read by threads of the load warpgroup, at a
//! tenth of the rate of TMA or less. 16-bit rows that do not begin at multiples of 16 bytes are moved by load warps, at less
//! than half of it. A copy costs a launch and the bytes that it moves.

use crate::dtype::DType;
use crate::graph::{Graph, OperandCopies, OperandCopy};
use crate::placement::Placements;
use crate::problem::Problem;
use crate::target::copy_rule::CopyRule;

use super::operand::{Operand, OperandElement, OperandLoad, operand_load, operands};
use super::place::fits_map;

/// Rows or columns of a tile: for each, the operand of the other side is read once more.
const TILE: usize = 128;
/// Columns and rows of the tile whose operands load warps move.
const MOVED_TILE: [usize; 2] = [128, 256];
/// Elements that load warpgroups read one by one in the time of a launch that copies a small operand: 2 ps an element on an
/// H200, whatever its bytes.
const READ_IN_A_LAUNCH: u128 = 1 << 22;
/// Picoseconds of a multiply-add of f32 elements that threads split, beyond those of three TF32 products: 28 TFLOP/s beside
/// a third of 400.
const SPLITTING: f64 = 0.057;
/// Picoseconds of an f32 element whose parts are stored and read once more: 28 bytes at 3 TB/s.
const STORING_PARTS: f64 = 9.3;
/// Picoseconds of the two launches that store them.
const LAUNCHES: f64 = 8e6;
/// Picoseconds in which an SM's load warps move 128 bytes of a row to its stage, and those of a thousand multiply-adds of all
/// SMs, which wait for them.
const MOVING_ROW: f64 = 3800.0;
const PRODUCTS: f64 = 2.8;
/// Elements of such a row, and SMs that move them.
const ROW_ELEMENTS: usize = 64;
const SMS: f64 = 132.0;
/// Picoseconds of a copy's launch, and of a 16-bit element that is read and stored once more.
const LAUNCH: f64 = 4e6;
const COPYING: f64 = 1.5;
/// Bytes of a call's copies: beyond, memory is worth more than time.
const MOST_BYTES: f64 = 16.0 * (1_u64 << 30) as f64;
/// Elements along K that tensor maps count with room for a tile.
const MOST_INNER: usize = i32::MAX as usize - 1024;

/// How operands are copied, of each product A and B; `None` where none is.
pub(crate) fn operand_copies(
    graph: &Graph,
    problem: &Problem,
    placements: &Placements,
    rule: CopyRule,
) -> Option<OperandCopies> {
    let first = graph.products().first()?;
    let shares = graph.products().iter().all(|product| product.left == first.left);
    let sizes = [problem.batch, problem.rows, problem.product_columns(), problem.inner];
    // Segments begin anywhere along K, where no copy helps, and rows of few segments are read once.
    let segmented = graph.ends().or(graph.contraction_ends()).is_some();
    if rule == CopyRule::Never || !shares || segmented || sizes.contains(&0) {
        return None;
    }
    let all = operands(graph, problem, placements);
    if all.iter().any(|operand| OperandElement::of(operand.dtype).is_none()) {
        return None;
    }
    let copies: Vec<Option<OperandCopy>> = if all.iter().all(|operand| operand.dtype == DType::F32)
    {
        let parts = rule == CopyRule::Always || parts_pay(&all, problem);
        let fits = problem.inner <= MOST_INNER / OperandCopy::PARTS as usize
            && fits_map(problem.inner as isize, DType::F32);
        vec![(parts && fits && !graph.has_scales()).then_some(OperandCopy::Parts); all.len()]
    } else {
        let others = [problem.product_columns(), problem.rows];
        let moved = rule == CopyRule::Always || moving_pays(&all, others, problem);
        let of = |(place, operand): (usize, &Operand<'_>)| {
            let other = others[place.min(1)];
            let pays = rule == CopyRule::Always || k_major_pays(operand, other, problem);
            let copied = (pays && is_by_elements(operand, problem))
                || (moved && is_staggered(operand, problem));
            copied.then_some(OperandCopy::KMajor)
        };
        all.iter().enumerate().map(of).collect()
    };
    let bytes = all.iter().zip(&copies).map(|(operand, copy)| {
        let each = operand.dtype.bits() as f64 / 8.0 * elements(operand, problem);
        match copy {
            Some(OperandCopy::Parts) => f64::from(OperandCopy::PARTS) * each,
            Some(OperandCopy::KMajor) => each,
            None => 0.0,
        }
    });
    let pays = copies.iter().any(Option::is_some) && bytes.sum::<f64>() <= MOST_BYTES;
    pays.then(|| copies[1..].iter().map(|right| [copies[0], *right]).collect())
}

/// Why an operand of these elements is copied, where it is.
pub(crate) const fn copy_reason(dtype: DType) -> &'static str {
    match dtype.bits() {
        16 => "its rows do not begin at multiples of 16 bytes, as tensor maps want them",
        32 if !matches!(dtype, DType::TF32) => "threads would split its f32 elements in every tile",
        _ => "it is not K-major in aligned rows, so that threads would read each element",
    }
}

/// Whether threads would read an operand element by element.
fn is_by_elements(operand: &Operand<'_>, problem: &Problem) -> bool {
    operand.dtype != DType::F32 && operand_load(operand, problem).is_by_elements()
}

/// Whether load warps would move an operand's rows to their stages.
fn is_staggered(operand: &Operand<'_>, problem: &Problem) -> bool {
    operand_load(operand, problem) == OperandLoad::Staggered
}

/// Whether products whose operands load warps move take longer than copies of these operands and products of them.
fn moving_pays(operands: &[Operand<'_>], others: [usize; 2], problem: &Problem) -> bool {
    let (mut moving, mut copying) = (0.0, 0.0);
    for (place, operand) in operands.iter().enumerate() {
        if is_staggered(operand, problem) {
            let (other, tile) = (others[place.min(1)], MOVED_TILE[place.min(1)]);
            let tiles = problem.batch as f64 * other.div_ceil(tile) as f64;
            let rows = operand.size as f64 * problem.inner.div_ceil(ROW_ELEMENTS) as f64;
            moving += tiles * rows * MOVING_ROW / SMS;
            copying += LAUNCH + elements(operand, problem) * COPYING;
        }
    }
    let tile = problem.rows as f64 * problem.product_columns() as f64;
    let products = (operands.len() - 1) as f64 * problem.batch as f64;
    moving - products * tile * problem.inner as f64 * PRODUCTS / 1000.0 > copying
}

/// Whether tiles that read an operand element by element take longer than its copy.
fn k_major_pays(operand: &Operand<'_>, other: usize, problem: &Problem) -> bool {
    let tiles = problem.batch as u128 * other.div_ceil(TILE) as u128;
    tiles * operand.size as u128 * problem.inner as u128 >= READ_IN_A_LAUNCH
}

/// Whether products whose operands threads split take longer than those of stored parts.
fn parts_pay(operands: &[Operand<'_>], problem: &Problem) -> bool {
    let stored = operands.iter().map(|operand| elements(operand, problem)).sum::<f64>();
    let products = (operands.len() - 1) as f64 * problem.batch as f64;
    let tile = problem.rows as f64 * problem.product_columns() as f64;
    products * tile * problem.inner as f64 * SPLITTING > LAUNCHES + stored * STORING_PARTS
}

/// Elements of an operand, those of all batches that differ.
fn elements(operand: &Operand<'_>, problem: &Problem) -> f64 {
    let batches = problem.batch_sizes.iter().zip(operand.strides.batch);
    let own = batches.filter(|(_, stride)| *stride != 0).map(|(size, _)| *size as f64);
    own.product::<f64>() * operand.size as f64 * problem.inner as f64
}
