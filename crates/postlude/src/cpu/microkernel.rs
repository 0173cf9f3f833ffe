//! The innermost product: one register-blocked tile of accumulators over one block of K.
//!
//! In: a packed panel of A, a packed panel of B, both f32, and a tile of accumulators. Out: the tile, advanced.
//! Invariant: each f32 accumulator is `fma(a[k], b[k], acc)` for k ascending from where it was left, whatever the tile
//! sizes and the CPU; so the bits of a product depend on its operands alone. An i32 accumulator is the exact sum,
//! wrapped to 32 bits.
//!
//! Integers are multiplied in f32 too: a product of two bytes is below 2^16, so the sum of up to
//! [`Accumulator::LONGEST`] of them is exact in f32's 24 bits, and is added to the i32 accumulator once per block.

use super::tile::Tile;
use super::vector::{Portable, Vector, prefetch};
use crate::dtype::Elem;
use crate::functions::Level;

/// Most elements in any kernel's tile.
const MAX_TILE: usize = 512;

/// Whether a tile begins at zero or goes on from the accumulators in memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Start {
    /// The first block of K; memory is not read.
    Zero,
    /// A later block of K.
    Continue,
}

/// One call: pointers that [`Microkernel::run`] has checked.
pub(super) struct Call<T> {
    k: usize,
    a: *const f32,
    b: *const f32,
    /// Elements from one row of B to the next.
    step: usize,
    c: *mut T,
    leading: usize,
    start: Start,
}

/// Advances a tile of a fixed number of rows and the kernel's full width.
type Run<T> = unsafe fn(&Call<T>);

/// A kernel for one accumulator type and instruction set.
pub(super) struct Microkernel<T: 'static> {
    /// Rows of a full tile: the width of A's panels.
    pub(super) mr: usize,
    /// Columns of a full tile: the width of B's panels.
    pub(super) nr: usize,
    /// `run[r - 1]` computes `r` rows; there are `mr`.
    run: &'static [Run<T>],
}

/// What a product may accumulate in: f32 or i32. The unsafe methods ask of the caller what [`Vector`] asks.
pub(crate) trait Accumulator: Copy + Default + PartialEq + Send + Sync + 'static {
    /// The accumulator in the language's words.
    const ELEM: Elem;
    /// The longest block of K one kernel call may take.
    const LONGEST: usize;
    /// The register to begin with.
    unsafe fn begin<V: Vector>(from: *const Self, start: Start) -> V;
    /// One step of K.
    unsafe fn step<V: Vector>(acc: V, a: V, b: V) -> V;
    /// Writes the register back.
    unsafe fn finish<V: Vector>(acc: V, to: *mut Self, start: Start);
    /// The same accumulators as numbers, if they are f32: those of f32 operands.
    fn as_floats(accumulators: &mut [Self]) -> Option<&mut [f32]>;
}

impl Accumulator for f32 {
    const ELEM: Elem = Elem::F32;
    const LONGEST: usize = usize::MAX;

    #[inline(always)]
    unsafe fn begin<V: Vector>(from: *const f32, start: Start) -> V {
        // SAFETY: the caller's promise is that of `Vector`.
        unsafe {
            match start {
                Start::Zero => V::zero(),
                Start::Continue => V::load(from),
            }
        }
    }

    #[inline(always)]
    unsafe fn step<V: Vector>(acc: V, a: V, b: V) -> V {
        // SAFETY: the caller's promise is that of `Vector`.
        unsafe { acc.mul_add(a, b) }
    }

    #[inline(always)]
    unsafe fn finish<V: Vector>(acc: V, to: *mut f32, _start: Start) {
        // SAFETY: the caller's promise is that of `Vector`.
        unsafe { acc.store(to) }
    }

    fn as_floats(accumulators: &mut [f32]) -> Option<&mut [f32]> {
        Some(accumulators)
    }
}

impl Accumulator for i32 {
    const ELEM: Elem = Elem::I32;
    /// 256 * 255 * 255 < 2^24.
    const LONGEST: usize = 256;

    #[inline(always)]
    unsafe fn begin<V: Vector>(_from: *const i32, _start: Start) -> V {
        // SAFETY: the caller's promise is that of `Vector`.
        unsafe { V::zero() }
    }

    #[inline(always)]
    unsafe fn step<V: Vector>(acc: V, a: V, b: V) -> V {
        // SAFETY: the caller's promise is that of `Vector`.
        unsafe { acc.mul_add_exact(a, b) }
    }

    #[inline(always)]
    unsafe fn finish<V: Vector>(acc: V, to: *mut i32, start: Start) {
        // SAFETY: the caller's promise is that of `Vector`.
        unsafe {
            match start {
                Start::Zero => acc.store_integers(to),
                Start::Continue => acc.add_integers(to),
            }
        }
    }

    fn as_floats(_accumulators: &mut [i32]) -> Option<&mut [f32]> {
        None
    }
}

/// The kernel: `R` rows of `W` registers, from an A panel of width `MR`. Asks for the tile below meanwhile, which is
/// the next as a rule.
///
/// Safety: the CPU has `V`'s instructions; `a` is valid for `k * MR`, `b` for `k` rows of `W * LANES` elements that are
/// `step` apart, and `c` for `R` rows of `W * LANES` elements that are `leading` apart.
#[inline(always)]
unsafe fn multiply<T: Accumulator, V: Vector, const MR: usize, const R: usize, const W: usize>(
    call: &Call<T>,
) {
    let (mut a, mut b) = (call.a, call.b);
    // SAFETY: every pointer below stays in the ranges the caller vouches for.
    unsafe {
        let mut acc = [[V::zero(); W]; R];
        for (r, row) in acc.iter_mut().enumerate() {
            for (w, register) in row.iter_mut().enumerate() {
                prefetch(call.c.wrapping_add((R + r) * call.leading + w * V::LANES));
                *register = T::begin(call.c.add(r * call.leading + w * V::LANES), call.start);
            }
        }
        for _ in 0..call.k {
            let mut right = [V::zero(); W];
            for (w, register) in right.iter_mut().enumerate() {
                *register = V::load(b.add(w * V::LANES));
            }
            for (r, row) in acc.iter_mut().enumerate() {
                let left = V::splat(a.add(r));
                for (register, right) in row.iter_mut().zip(right) {
                    *register = T::step(*register, left, right);
                }
            }
            a = a.add(MR);
            // The last step may lead behind the memory, where nothing is read.
            b = b.wrapping_add(call.step);
        }
        for (r, row) in acc.iter().enumerate() {
            for (w, register) in row.iter().enumerate() {
                T::finish(*register, call.c.add(r * call.leading + w * V::LANES), call.start);
            }
        }
    }
}

/// The kernel for 1 to 14 rows, as a table over the rows.
macro_rules! by_rows {
    ($kernel:ident, $($rows:literal)*) => {
        const { &[$($kernel::<T, $rows>),*] }
    };
}

/// Safety: as for [`multiply`].
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f")]
unsafe fn multiply_avx512<T: Accumulator, const R: usize>(call: &Call<T>) {
    // SAFETY: the caller's promise is that of `multiply`.
    unsafe { multiply::<T, std::arch::x86_64::__m512, 14, R, 2>(call) }
}

/// Safety: as for [`multiply`].
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
unsafe fn multiply_avx2<T: Accumulator, const R: usize>(call: &Call<T>) {
    // SAFETY: the caller's promise is that of `multiply`.
    unsafe { multiply::<T, std::arch::x86_64::__m256, 6, R, 2>(call) }
}

/// Safety: as for [`multiply`].
unsafe fn multiply_portable<T: Accumulator, const R: usize>(call: &Call<T>) {
    // SAFETY: the caller's promise is that of `multiply`.
    unsafe { multiply::<T, Portable, 4, R, 2>(call) }
}

impl<T: Accumulator> Microkernel<T> {
    /// The kernel of a level, or the portable one where this CPU lacks the level.
    pub(super) fn at(level: Level) -> Self {
        match level {
            #[cfg(target_arch = "x86_64")]
            Level::Avx512 if level.is_available() => {
                let run = by_rows!(multiply_avx512, 1 2 3 4 5 6 7 8 9 10 11 12 13 14);
                Microkernel { mr: 14, nr: 32, run }
            }
            #[cfg(target_arch = "x86_64")]
            Level::Avx2 if level.is_available() => {
                Microkernel { mr: 6, nr: 16, run: by_rows!(multiply_avx2, 1 2 3 4 5 6) }
            }
            Level::Avx512 | Level::Avx2 | Level::Portable => {
                Microkernel { mr: 4, nr: 8, run: by_rows!(multiply_portable, 1 2 3 4) }
            }
        }
    }

    /// Advances `tile` by the product of two panels: `a` is `[k][mr]`, `b` is `[k][nr]`.
    pub(super) fn run(&self, a: &[f32], b: &[f32], tile: &mut Tile<'_, T>, start: Start) {
        let (rows, columns) = (tile.rows(), tile.columns());
        let k = a.len() / self.mr;
        let fits = k <= T::LONGEST && a.len() == k * self.mr && b.len() == k * self.nr;
        assert!(fits, "compiler bug: panels do not match");
        assert!(
            0 < rows && rows <= self.run.len() && columns <= self.nr,
            "compiler bug: tile does not match"
        );
        let run = self.run[rows - 1];
        if columns == self.nr {
            let (leading, c) = (tile.leading(), tile.pointer());
            // SAFETY: `at` found the instructions present; the lengths were checked above; the tile is full width.
            let (a, b, step) = (a.as_ptr(), b.as_ptr(), self.nr);
            unsafe { run(&Call { k, a, b, step, c, leading, start }) };
            return;
        }
        let mut full = [T::default(); MAX_TILE];
        if start == Start::Continue {
            for row in 0..rows {
                full[row * self.nr..][..columns].copy_from_slice(tile.row(row));
            }
        }
        let c = full[..rows * self.nr].as_mut_ptr();
        // SAFETY: as above; `full` holds `rows` rows of `nr` elements.
        let (a, b, step) = (a.as_ptr(), b.as_ptr(), self.nr);
        unsafe { run(&Call { k, a, b, step, c, leading: self.nr, start }) };
        for row in 0..rows {
            tile.row(row).copy_from_slice(&full[row * self.nr..][..columns]);
        }
    }

    /// Advances a tile of full width by a panel of A and rows of B as the caller keeps them, each row `step` elements behind
    /// the one before.
    pub(super) fn run_in_place(
        &self,
        a: &[f32],
        (b, step): (&[f32], usize),
        tile: &mut Tile<'_, T>,
        start: Start,
    ) {
        let k = a.len() / self.mr;
        let fits = 0 < k && k <= T::LONGEST && a.len() == k * self.mr;
        assert!(fits && (k - 1) * step + self.nr <= b.len(), "compiler bug: panels do not match");
        let (rows, columns) = (tile.rows(), tile.columns());
        assert!(
            0 < rows && rows <= self.run.len() && columns == self.nr,
            "compiler bug: tile does not match"
        );
        let (leading, c) = (tile.leading(), tile.pointer());
        let (a, b) = (a.as_ptr(), b.as_ptr());
        // SAFETY: `at` found the instructions present; the lengths were checked above; the tile is full width.
        unsafe { (self.run[rows - 1])(&Call { k, a, b, step, c, leading, start }) };
    }
}
