//! The matrix product, region by region.
//!
//! In: two operands, the shape of a region, a body. Out: the body has seen every region of `A * Bᵀ` once, finished, in
//! the cache of the thread that computed it.
//! Invariant: a region's bits depend on the operands alone: not on regions, blocks, threads or the CPU (see
//! [`microkernel`](super::microkernel)).
//!
//! Both operands are packed in parallel, shared, and as a rule once. Where the packed operand would take too much
//! memory, the product is cut into chunks of columns, and those into chunks of rows. Few rows use each element of B too
//! seldom to write it to memory once more: [`few_rows`] packs a panel at a time, in cache.

mod few_rows;
mod single_rows;

use super::blocks::{Blocks, Caches};
use super::microkernel::{Accumulator, Microkernel, Start};
use super::pack::{Layout, Matrix, Operand, Panels};
use super::storage::Storage;
use super::tile::Tile;
use crate::dtype::Elem;
use crate::functions::Level;
use few_rows::Few;
use rayon::prelude::*;
use std::ops::Range;
use std::sync::{Mutex, PoisonError};

/// Multiply-adds below which handing work to other threads costs more than it saves.
pub(super) const WORTH_SHARING: usize = 1 << 20;
/// Panels of A that low regions are put together to: enough work for each panel of B that passes by.
const TALL: usize = 8;
/// Accumulators up to which regions are put together: 32 MiB.
const LARGEST: usize = 8 << 20;
/// Pieces for each thread, so that one that finishes early finds more.
const PIECES: usize = 4;

/// Which operand of the two.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Side {
    /// The left operand, whose rows are M.
    A,
    /// The right operand, whose rows are N.
    B,
}

/// Why two operands have no product.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub(crate) enum ProductError {
    /// An element would lie outside the operand's memory.
    #[error("operand {0:?} does not lie in its memory")]
    OutOfBounds(Side),
    /// The operands do not accumulate in the same type, or not at all.
    #[error("the operands' element types cannot be multiplied")]
    Types,
}

/// A product of `m` by `n` over `k`, its operands known to be in bounds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Product<'a> {
    a: Matrix<'a>,
    b: Matrix<'a>,
    k: usize,
    accumulator: Elem,
}

impl<'a> Product<'a> {
    /// The product of `a`, `m` rows of `k`, and `b`, `n` rows of `k`.
    pub(crate) fn new(
        a: Operand<'a>,
        b: Operand<'a>,
        [m, n, k]: [usize; 3],
    ) -> Result<Self, ProductError> {
        let accumulator = a.dtype.accumulator().filter(|elem| b.dtype.accumulator() == Some(*elem));
        Ok(Product {
            accumulator: accumulator.ok_or(ProductError::Types)?,
            a: Matrix::new(a, m, k).ok_or(ProductError::OutOfBounds(Side::A))?,
            b: Matrix::new(b, n, k).ok_or(ProductError::OutOfBounds(Side::B))?,
            k,
        })
    }

    /// What the product accumulates in: f32 or i32.
    #[cfg(test)]
    pub(crate) fn accumulator(&self) -> Elem {
        self.accumulator
    }
}

/// How the result is cut: regions of this shape from the upper left, cut off at the right and lower edge.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Regions {
    /// Rows of a region; `usize::MAX` is all of them.
    pub(crate) height: usize,
    /// Columns of a region; `usize::MAX` is all of them.
    pub(crate) width: usize,
}

/// A finished rectangle of the result.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Region {
    /// Rows of the result.
    pub(crate) rows: Range<usize>,
    /// Columns of the result.
    pub(crate) columns: Range<usize>,
}

/// Packed elements kept at once.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Budget {
    /// Of A, unless keeping every thread busy needs more.
    a: usize,
    /// Of B, unless one region needs more.
    b: usize,
}

impl Default for Budget {
    /// 64 MiB and 1 GiB.
    fn default() -> Self {
        Budget { a: 16 << 20, b: 256 << 20 }
    }
}

/// Memory and choices kept from one product to the next. One for each product in flight.
pub(crate) struct Scratch<T: Accumulator> {
    kernel: Microkernel<T>,
    caches: Caches,
    budget: Budget,
    packed_a: Storage<f32>,
    packed_b: Storage<f32>,
    buffers: Buffers<T>,
    /// Panels of B, each packed by the thread that uses it.
    panels: Buffers<f32>,
}

impl<T: Accumulator> Scratch<T> {
    /// Empty scratch for this CPU.
    pub(crate) fn new() -> Self {
        Scratch::with(Level::best(), Caches::default())
    }

    /// Empty scratch for an instruction set and cache sizes.
    pub(crate) fn with(level: Level, caches: Caches) -> Self {
        Scratch {
            kernel: Microkernel::at(level),
            caches,
            budget: Budget::default(),
            packed_a: Storage::default(),
            packed_b: Storage::default(),
            buffers: Buffers(Mutex::default()),
            panels: Buffers(Mutex::default()),
        }
    }
}

/// Accumulator buffers no thread uses at the moment.
struct Buffers<T>(Mutex<Vec<Storage<T>>>);

impl<T: Copy + Default> Buffers<T> {
    /// Calls `body` on `count` elements of unspecified value.
    fn with<R>(&self, count: usize, body: impl FnOnce(&mut [T]) -> R) -> R {
        let free = || self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut buffer = free().pop().unwrap_or_default();
        let result = body(buffer.take(count));
        free().push(buffer);
        result
    }
}

/// Computes the product with `threads` threads of the current pool and calls `body` on each region: its accumulators
/// row-major, rows as far apart as the region is wide. The body may overwrite them.
///
/// Panics if `T` is not [`Product::accumulator`].
pub(crate) fn for_each_region<T, F>(
    product: &Product<'_>,
    regions: Regions,
    threads: usize,
    scratch: &mut Scratch<T>,
    body: F,
) where
    T: Accumulator,
    F: Fn(Region, &mut [T]) + Sync,
{
    assert!(T::ELEM == product.accumulator, "compiler bug: wrong accumulator");
    let (m, n, k) = (product.a.rows(), product.b.rows(), product.k);
    if m == 0 || n == 0 {
        return;
    }
    let Scratch { kernel, caches, budget, packed_a, packed_b, buffers, panels } = scratch;
    let blocks = Blocks::pick((kernel.mr, kernel.nr), [m, n, k], T::LONGEST, *caches);
    let (height, width) = (regions.height.clamp(1, m), regions.width.clamp(1, n));
    // Low regions are computed several at a time: B passes by once for all of them.
    let together =
        (TALL * kernel.mr).div_ceil(height).min(LARGEST / height.saturating_mul(width)).max(1);
    let tall = height.saturating_mul(together).min(m);
    let worth_sharing = m.saturating_mul(n).saturating_mul(k) >= WORTH_SHARING;
    let threads = if worth_sharing { threads } else { 1 };
    if m <= tall {
        let few = Few { kernel, blocks, threads, buffers, panels };
        return few.run(product, (height, width), packed_a, &body);
    }
    let padded = [tall.next_multiple_of(kernel.mr), width.next_multiple_of(kernel.nr)]
        .map(|rows| rows.saturating_mul(k.max(1)));
    let rows_at_once = (budget.a / padded[0]).max(PIECES * threads).saturating_mul(tall);
    let columns_at_once = (budget.b / padded[1]).max(1).saturating_mul(width);
    for columns in steps(0..n, columns_at_once) {
        let layout = Layout {
            first: columns.start,
            rows: columns.len(),
            group: width,
            width: kernel.nr,
            k,
            kc: blocks.kc,
        };
        let b = Panels::pack(&product.b, layout, packed_b, threads > 1);
        for rows in steps(0..m, rows_at_once) {
            let layout = Layout {
                first: rows.start,
                rows: rows.len(),
                group: tall,
                width: kernel.mr,
                ..layout
            };
            let a = Panels::pack(&product.a, layout, packed_a, threads > 1);
            Chunk { kernel, blocks, a, b: &b, height, threads, buffers }.run(&body);
        }
    }
}

/// A range in steps, the last one shorter.
fn steps(range: Range<usize>, step: usize) -> impl Iterator<Item = Range<usize>> {
    range.clone().step_by(step).map(move |start| start..range.end.min(start.saturating_add(step)))
}

/// A part of the product whose operands are packed.
struct Chunk<'a, T: Accumulator> {
    kernel: &'a Microkernel<T>,
    blocks: Blocks,
    a: Panels<'a>,
    b: &'a Panels<'a>,
    height: usize,
    threads: usize,
    buffers: &'a Buffers<T>,
}

/// Some panels of A and of B, by number.
#[derive(Clone, Copy)]
struct Corner {
    a: usize,
    b: usize,
}

impl<T: Accumulator> Chunk<'_, T> {
    /// Computes every group of rows by every group of columns.
    fn run<F: Fn(Region, &mut [T]) + Sync>(&self, body: &F) {
        let across = self.b.layout().groups();
        let count = self.a.layout().groups() * across;
        if self.threads == 1 {
            (0..count)
                .for_each(|index| self.compute_group(index / across, index % across, 1, body));
            return;
        }
        // Too few groups to keep every thread busy are divided further.
        let pieces = (self.threads * PIECES).div_ceil(count);
        let compute = |index| self.compute_group(index / across, index % across, pieces, body);
        (0..count).into_par_iter().with_max_len(1).for_each(compute);
    }

    /// Computes one group of rows by one of columns, in about `pieces` parallel pieces, and calls `body` on its regions.
    fn compute_group<F>(&self, down: usize, across: usize, pieces: usize, body: &F)
    where
        F: Fn(Region, &mut [T]) + Sync,
    {
        let (rows, columns) =
            (self.a.layout().rows_of_group(down), self.b.layout().rows_of_group(across));
        self.buffers.with(rows.len() * columns.len(), |buffer| {
            if self.a.layout().k == 0 {
                buffer.fill(T::default());
            } else {
                let corner = Corner {
                    a: down * self.a.layout().panels_in_group(),
                    b: across * self.b.layout().panels_in_group(),
                };
                self.split(Tile::new(buffer, rows.len(), columns.len()), corner, pieces);
            }
            let call = |(index, accumulators): (usize, &mut [T])| {
                let first = rows.start + index * self.height;
                let rows = first..rows.end.min(first + self.height);
                body(Region { rows, columns: columns.clone() }, accumulators);
            };
            let size = self.height * columns.len();
            if pieces > 1 {
                buffer.par_chunks_mut(size).enumerate().for_each(call);
            } else {
                buffer.chunks_mut(size).enumerate().for_each(call);
            }
        });
    }

    /// Computes a tile in about `pieces` parallel pieces, each of whole panels.
    fn split(&self, tile: Tile<'_, T>, corner: Corner, pieces: usize) {
        let Blocks { mr, nr, .. } = self.blocks;
        let (down, across) = (tile.rows().div_ceil(mr), tile.columns().div_ceil(nr));
        if pieces <= 1 || down * across == 1 {
            self.compute(tile, corner);
            return;
        }
        let (one, other, beyond) = if across > 1 && across * nr >= down * mr {
            let (left, right) = tile.split_columns(across / 2 * nr);
            (left, right, Corner { b: corner.b + across / 2, ..corner })
        } else if down > 1 {
            let (above, below) = tile.split_rows(down / 2 * mr);
            (above, below, Corner { a: corner.a + down / 2, ..corner })
        } else {
            let (left, right) = tile.split_columns(across / 2 * nr);
            (left, right, Corner { b: corner.b + across / 2, ..corner })
        };
        let half = pieces.div_ceil(2);
        rayon::join(|| self.split(one, corner, half), || self.split(other, beyond, half));
    }

    /// Computes a tile: the loops around the microkernel.
    fn compute(&self, mut tile: Tile<'_, T>, corner: Corner) {
        let Blocks { mr, nr, mc, nc, .. } = self.blocks;
        let (rows, columns) = (tile.rows(), tile.columns());
        for block in 0..self.a.layout().blocks() {
            let start = if block == 0 { Start::Zero } else { Start::Continue };
            for columns in steps(0..columns, nc) {
                for rows in steps(0..rows, mc) {
                    for column in columns.clone().step_by(nr) {
                        let b = self.b.panel(block, corner.b + column / nr);
                        for row in rows.clone().step_by(mr) {
                            let a = self.a.panel(block, corner.a + row / mr);
                            self.kernel.run(a, b, &mut tile.part(row, column, mr, nr), start);
                        }
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests;
