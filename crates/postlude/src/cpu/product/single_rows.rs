//! Products of one or two rows, as in decoding: B is read once, where it lies, and none of it is packed.
//!
//! In: rows of A, and B in f32. Out: as of the parent module, the same bits.

use super::{Accumulator, Panels, Product, Tile};
use crate::cpu::pack::Lines;
use crate::cpu::transpose::{AHEAD, BLOCK};
use crate::cpu::vector::{LINE, prefetch};
use crate::cpu::vectorise::{Loop, vectorised};
#[cfg(target_arch = "x86_64")]
use crate::{cpu::transpose::columns_avx2, functions::Level};

/// Rows of A: more are faster with panels of B.
const MOST_ROWS: usize = 2;
/// Steps of K that are added to all accumulators in one pass.
const AT_ONCE: usize = 4;
/// Steps of K for which eight columns of B stay in L1 until every row of A has met them.
const DEEP: usize = 512;
/// Accumulators between two prefetches: four cache lines.
const CHUNK: usize = 4 * LINE;
/// How far ahead of its reads B is prefetched, in elements: further than a core reads during one access to memory.
const AHEAD_ELEMENTS: usize = 4096;

/// Whether a product is one of those.
pub(super) fn takes(product: &Product<'_>) -> bool {
    product.a.rows() <= MOST_ROWS && product.b.lines().is_some()
}

/// Computes a tile whose first column is `first`; panel `r` of `a` is row `r`.
pub(super) fn multiply<T: Accumulator>(
    product: &Product<'_>,
    a: &Panels<'_>,
    tile: &mut Tile<'_, T>,
    first: usize,
) {
    let (rows, columns, depth) = (tile.rows(), tile.columns(), product.k);
    let mut sums =
        |row: usize, from: usize, to: usize, add: &mut dyn FnMut(&mut [f32])| match T::as_floats(
            &mut tile.row(row)[from..to],
        ) {
            Some(sums) => add(sums),
            None => panic!("compiler bug: f32 operands accumulate in f32"),
        };
    for row in 0..rows {
        sums(row, 0, columns, &mut |sums| sums.fill(0.0));
    }
    match product.b.lines() {
        Some(Lines::Columns { values, step }) => {
            for k in (0..depth).step_by(AT_ONCE) {
                let steps = k..depth.min(k + AT_ONCE);
                let lines = &values[k * step + first..];
                for row in 0..rows {
                    let factors = &a.panel(0, row)[steps.clone()];
                    sums(row, 0, columns, &mut |sums| add_lines(sums, factors, lines, step));
                }
            }
        }
        Some(Lines::Rows { values, step }) => {
            for column in (0..columns).step_by(BLOCK) {
                let end = columns.min(column + BLOCK);
                for k in (0..depth).step_by(DEEP) {
                    let steps = k..depth.min(k + DEEP);
                    let lines = &values[(first + column) * step + k..];
                    for row in 0..rows {
                        let factors = &a.panel(0, row)[steps.clone()];
                        sums(row, column, end, &mut |sums| dot_lines(sums, factors, lines, step));
                    }
                }
            }
        }
        None => panic!("compiler bug: B is packed"),
    }
}

/// Adds each of some lines, times its factor, to the sums: one rounding each, in order.
fn add_lines(sums: &mut [f32], factors: &[f32], lines: &[f32], step: usize) {
    let count = sums.len();
    let line = |place: usize| &lines[place * step..][..count];
    if let [a, b, c, d] = *factors {
        let lines = [line(0), line(1), line(2), line(3)];
        let ahead = AHEAD_ELEMENTS.div_ceil(count).next_multiple_of(AT_ONCE) * step;
        vectorised(AddLines { factors: [a, b, c, d], lines, ahead, sums });
    } else {
        for (place, factor) in factors.iter().enumerate() {
            let lines = [line(place)];
            vectorised(AddLines { factors: [*factor], lines, ahead: step, sums });
        }
    }
}

struct AddLines<'a, const N: usize> {
    sums: &'a mut [f32],
    factors: [f32; N],
    lines: [&'a [f32]; N],
    /// Elements from a line to the one that is asked for.
    ahead: usize,
}

impl<const N: usize> Loop for AddLines<'_, N> {
    #[inline(always)]
    fn run(self) {
        let AddLines { sums, factors, lines, ahead } = self;
        for (number, sums) in sums.chunks_mut(CHUNK).enumerate() {
            let lines = lines.map(|line| &line[number * CHUNK..][..sums.len()]);
            for line in lines {
                for place in (0..CHUNK).step_by(LINE) {
                    prefetch(line.as_ptr().wrapping_add(ahead + place));
                }
            }
            for (place, sum) in sums.iter_mut().enumerate() {
                let mut total = *sum;
                for (factor, line) in factors.iter().zip(lines) {
                    total = factor.mul_add(line[place], total);
                }
                *sum = total;
            }
        }
    }
}

/// Adds to each sum the products of the factors with its own line, in their order.
fn dot_lines(sums: &mut [f32], factors: &[f32], lines: &[f32], step: usize) {
    let mut done = 0;
    #[cfg(target_arch = "x86_64")]
    if let Ok(sums) = <&mut [f32; BLOCK]>::try_from(&mut *sums)
        && Level::best() != Level::Portable
    {
        let lines = std::array::from_fn(|place| &lines[place * step..][..factors.len()]);
        // SAFETY: every level but the portable one has AVX2 and FMA.
        done = unsafe { dot_lines_avx2(sums, factors, lines) };
    }
    for (place, sum) in sums.iter_mut().enumerate() {
        let line = &lines[place * step..][..factors.len()];
        *sum =
            factors[done..].iter().zip(&line[done..]).fold(*sum, |sum, (a, b)| a.mul_add(*b, sum));
    }
}

/// The same for the factors that fill blocks; how many they are.
///
/// Safety: the CPU has AVX2 and FMA.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
unsafe fn dot_lines_avx2(
    sums: &mut [f32; BLOCK],
    factors: &[f32],
    lines: [&[f32]; BLOCK],
) -> usize {
    use std::arch::x86_64::{_mm256_fmadd_ps, _mm256_loadu_ps, _mm256_set1_ps, _mm256_storeu_ps};
    let lines = lines.map(|line| line[..factors.len()].as_ptr());
    // SAFETY: eight sums.
    let mut totals = unsafe { _mm256_loadu_ps(sums.as_ptr()) };
    let blocks = factors.chunks_exact(BLOCK);
    let done = factors.len() - blocks.remainder().len();
    for (number, factors) in blocks.enumerate() {
        let block = lines.map(|line| line.wrapping_add(number * BLOCK));
        // A cache line holds two blocks.
        if number % 2 == 0 {
            for line in block {
                prefetch(line.wrapping_byte_add(AHEAD));
            }
        }
        // SAFETY: each line has as many elements as there are factors.
        let columns = unsafe { columns_avx2(block) };
        for (factor, column) in factors.iter().zip(columns) {
            totals = _mm256_fmadd_ps(_mm256_set1_ps(*factor), column, totals);
        }
    }
    // SAFETY: eight sums.
    unsafe { _mm256_storeu_ps(sums.as_mut_ptr(), totals) };
    done
}
