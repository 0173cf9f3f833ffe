//! Products of few rows: every element of B is read once, from where the caller keeps it.
//!
//! In: a product whose rows fit one group. Out: as of the parent module, the same bits.
//! Each thread packs one panel of one block of K into its own cache, multiplies all rows by it, and forgets it.

use super::{
    Accumulator, Blocks, Buffers, Layout, Microkernel, PIECES, Panels, Product, Region, Start,
    Storage, Tile, single_rows,
};
use crate::cpu::pack::{Lines, pack_panel};
use crate::cpu::vector::{LINE, prefetch};
use rayon::prelude::*;

/// Rows of K that pass over the columns together.
const DEEP: usize = 16;
/// Rows of A up to which B is read where it lies: more read it too often from there.
const MOST_IN_PLACE: usize = 32;

/// What products of few rows share.
pub(super) struct Few<'a, T: Accumulator> {
    pub(super) kernel: &'a Microkernel<T>,
    pub(super) blocks: Blocks,
    pub(super) threads: usize,
    pub(super) buffers: &'a Buffers<T>,
    pub(super) panels: &'a Buffers<f32>,
}

impl<T: Accumulator> Few<'_, T> {
    /// Computes every region of `height` by `width`, and calls `body` on it.
    pub(super) fn run<F: Fn(Region, &mut [T]) + Sync>(
        &self,
        product: &Product<'_>,
        (height, width): (usize, usize),
        packed_a: &mut Storage<f32>,
        body: &F,
    ) {
        let (m, n) = (product.a.rows(), product.b.rows());
        // Panels of as many rows each: 14 and 2 rows take longer than 8 and 8. A single row is its own panel.
        let is_single = single_rows::takes(product);
        let (group, panel, kc) = if is_single {
            (1, 1, product.k.max(1))
        } else {
            (m.div_ceil(m.div_ceil(self.kernel.mr)), self.kernel.mr, self.blocks.kc)
        };
        let layout = Layout { first: 0, rows: m, group, width: panel, k: product.k, kc };
        let a = Panels::pack(&product.a, layout, packed_a, false);
        let stripes = n.div_ceil(width);
        // Too few regions to keep every thread busy are divided further. Lines of B along N stay as long as they can.
        let for_each =
            if matches!(product.b.lines(), Some(Lines::Columns { .. })) { 1 } else { PIECES };
        let pieces =
            if self.threads == 1 { 1 } else { (self.threads * for_each).div_ceil(stripes) };
        let stripe = |number: usize| {
            let columns = number * width..n.min((number + 1) * width);
            self.buffers.with(m * columns.len(), |buffer| {
                if product.k == 0 {
                    buffer.fill(T::default());
                } else {
                    let tile = Tile::new(buffer, m, columns.len());
                    self.split(product, &a, tile, columns.start, pieces);
                }
                for (index, accumulators) in buffer.chunks_mut(height * columns.len()).enumerate() {
                    let rows = index * height..m.min((index + 1) * height);
                    body(Region { rows, columns: columns.clone() }, accumulators);
                }
            });
        };
        if self.threads == 1 {
            (0..stripes).for_each(stripe);
        } else {
            (0..stripes).into_par_iter().with_max_len(1).for_each(stripe);
        }
    }

    /// Computes a tile in about `pieces` parallel pieces, each of whole panels of B.
    fn split(
        &self,
        product: &Product<'_>,
        a: &Panels<'_>,
        tile: Tile<'_, T>,
        first: usize,
        pieces: usize,
    ) {
        let across = tile.columns().div_ceil(self.kernel.nr);
        if pieces <= 1 || across == 1 {
            return self.compute(product, a, tile, first);
        }
        let middle = across / 2 * self.kernel.nr;
        let (left, right) = tile.split_columns(middle);
        let half = pieces.div_ceil(2);
        rayon::join(
            || self.split(product, a, left, first, half),
            || self.split(product, a, right, first + middle, half),
        );
    }

    /// Computes the columns of a tile that fill panels from B as it lies, where its rows of K are contiguous; how many.
    ///
    /// A few rows of K at a time pass over all columns, so that B is read in long runs and accumulators stay in cache.
    fn compute_in_place(
        &self,
        product: &Product<'_>,
        a: &Panels<'_>,
        tile: &mut Tile<'_, T>,
        first: usize,
    ) -> usize {
        let (nr, kc, mr) = (self.kernel.nr, self.blocks.kc, self.kernel.mr);
        let (rows, columns) = (tile.rows(), tile.columns() / self.kernel.nr * self.kernel.nr);
        if rows > MOST_IN_PLACE || columns == 0 {
            return 0;
        }
        let Some(Lines::Columns { values, step }) = product.b.lines() else { return 0 };
        let b = &values[first..];
        let at_once = a.layout().group;
        for block in 0..a.layout().blocks() {
            let from = block * kc;
            let depth = kc.min(product.k - from);
            for above in (0..depth).step_by(DEEP) {
                let deep = above..depth.min(above + DEEP);
                let start = if from + above == 0 { Start::Zero } else { Start::Continue };
                for column in (0..columns).step_by(nr) {
                    let b = (&b[(from + above) * step + column..], step);
                    for next in DEEP..2 * DEEP {
                        let line = b.0.as_ptr().wrapping_add(next * step);
                        (0..nr).step_by(LINE).for_each(|place| prefetch(line.wrapping_add(place)));
                    }
                    for (number, row) in (0..rows).step_by(at_once).enumerate() {
                        let a = &a.panel(block, number)[deep.start * mr..deep.end * mr];
                        let mut part = tile.part(row, column, at_once, nr);
                        self.kernel.run_in_place(a, b, &mut part, start);
                    }
                }
            }
        }
        columns
    }

    /// Computes a tile whose first column is `first`.
    fn compute(&self, product: &Product<'_>, a: &Panels<'_>, mut tile: Tile<'_, T>, first: usize) {
        if single_rows::takes(product) {
            return single_rows::multiply(product, a, &mut tile, first);
        }
        let (nr, kc) = (self.kernel.nr, self.blocks.kc);
        let (rows, columns) = (tile.rows(), tile.columns());
        let at_once = a.layout().group;
        let done = self.compute_in_place(product, a, &mut tile, first);
        self.panels.with(nr * kc, |panel| {
            for column in (done..columns).step_by(nr) {
                let width = nr.min(columns - column);
                for block in 0..a.layout().blocks() {
                    let from = block * kc;
                    let panel = &mut panel[..nr * kc.min(product.k - from)];
                    pack_panel(&product.b, (first + column, width), nr, from, panel);
                    let start = if block == 0 { Start::Zero } else { Start::Continue };
                    for (number, row) in (0..rows).step_by(at_once).enumerate() {
                        let a = a.panel(block, number);
                        let mut part = tile.part(row, column, at_once, nr);
                        self.kernel.run(a, panel, &mut part, start);
                    }
                }
            }
        });
    }
}
