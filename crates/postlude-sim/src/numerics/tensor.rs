//! The sum of one matrix instruction, to the bit.
//!
//! In: rows of A and of B as bits (K elements each, 32 bytes), and the old accumulators. Out: the new ones.
//!
//! Invariant: floats follow the published model of the hardware (MMA-Sim, arXiv 2511.10909, and its code): products
//! are exact, all of them and the old accumulator are aligned to the largest exponent, each is cut off (toward zero)
//! at a number of fractional bits, and the exact sum of what is left is cut off to the accumulator, once. A product's
//! exponent is the sum of its operands', without normalising; zero has exponent -126 as an operand and as an
//! accumulator. Results that are zero are +0. One NaN, or infinity by zero, or infinities of both signs give the NaN
//! of all ones; sums beyond the largest float give infinity. Accumulators of half precision are rounded to nearest.
//!
//! Checked on an H200: `wgmma` with sums in single precision on random normal data, every float type. The model's word
//! only: its corners (zeros beside tiny terms, special values, subnormal sums), half sums, and `mma.sync`.

mod prepare;
mod sum;
#[cfg(test)]
mod tests;

pub use postlude_ptx::kernel::{MatrixType as Operand, Sign};
use postlude_ptx::modifier::SumOverflow;

use super::approx::with_one_nan;

pub use prepare::Prepared;
use sum::{Alignment, Lanes, Term};

/// Which unit multiplies: they differ in how far they align.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Core {
    /// `wgmma` of Hopper.
    Warpgroup,
    /// `mma.sync` on Hopper.
    HopperWarp,
    /// `mma.sync` on Ampere: the two halves of K one after the other.
    AmpereWarp,
}

/// A type of accumulator.
trait Accumulator: Copy {
    fn zero() -> Self;
    /// As a term of the sum, when it is not special.
    fn term(self) -> Term;
    /// The infinity or NaN that it is.
    fn special(self) -> Option<f32>;
    fn of_sum(sum: sum::Sum, kept: u32) -> Self;
    fn of_special(value: f32) -> Self;
}

impl Accumulator for f32 {
    fn zero() -> Self {
        0.0
    }
    fn term(self) -> Term {
        Term::of_f32(self.to_bits())
    }
    fn special(self) -> Option<f32> {
        (!self.is_finite()).then_some(self)
    }
    fn of_sum(sum: sum::Sum, kept: u32) -> Self {
        f32::from_bits(sum.truncated(kept))
    }
    fn of_special(value: f32) -> Self {
        with_one_nan(value)
    }
}

impl Accumulator for u16 {
    fn zero() -> Self {
        0
    }
    fn term(self) -> Term {
        Term::of_f16(self)
    }
    fn special(self) -> Option<f32> {
        let magnitude = self & 0x7fff;
        let sign = if self >> 15 == 0 { 1.0 } else { -1.0 };
        (magnitude >= 0x7c00).then_some(if magnitude == 0x7c00 {
            sign * f32::INFINITY
        } else {
            f32::NAN
        })
    }
    fn of_sum(sum: sum::Sum, _kept: u32) -> Self {
        sum.nearest_half()
    }
    fn of_special(value: f32) -> Self {
        if value.is_nan() {
            0x7fff
        } else if value > 0.0 {
            0x7c00
        } else {
            0xfc00
        }
    }
}

/// `d = a * b^T + (keep ? d : 0)` in single precision: `d[i][j]` belongs to row `i` of A and row `j` of B (a column of
/// the matrix B).
pub fn multiply_accumulate(core: Core, a: &Prepared, b: &Prepared, d: &mut [Vec<f32>], keep: bool) {
    accumulate(core, a, b, d, keep);
}

/// The same with accumulators of half precision, as bits.
pub fn multiply_accumulate_half(
    core: Core,
    a: &Prepared,
    b: &Prepared,
    d: &mut [Vec<u16>],
    keep: bool,
) {
    accumulate(core, a, b, d, keep);
}

/// The same of integers: exact, and then wrapped or held at the limits of 32 bits.
pub fn multiply_accumulate_integer(
    a: &Prepared,
    b: &Prepared,
    d: &mut [Vec<i32>],
    overflow: SumOverflow,
    keep: bool,
) {
    check_shapes(a, b, d);
    for (i, row) in d.iter_mut().enumerate() {
        for (j, d) in row.iter_mut().enumerate() {
            let products = a.significands(i).iter().zip(b.significands(j));
            let dot: i32 = products.map(|(a, b)| a * b).sum();
            let old = if keep { *d } else { 0 };
            *d = match overflow {
                SumOverflow::Wrap => old.wrapping_add(dot),
                SumOverflow::Saturate => old.saturating_add(dot),
            };
        }
    }
}

fn check_shapes<T>(a: &Prepared, b: &Prepared, d: &[Vec<T>]) {
    assert_eq!(a.length(), b.length(), "A and B differ in K");
    assert_eq!(d.len(), a.rows(), "accumulators do not have the rows of A");
    for row in d {
        assert_eq!(row.len(), b.rows(), "accumulators do not have the columns of B");
    }
}

fn accumulate<T: Accumulator>(
    core: Core,
    a: &Prepared,
    b: &Prepared,
    d: &mut [Vec<T>],
    keep: bool,
) {
    check_shapes(a, b, d);
    let alignment = Alignment::new(core, a.operand(), b.operand());
    let steps = match core {
        Core::Warpgroup | Core::HopperWarp => 1,
        Core::AmpereWarp => 2,
    };
    if !keep {
        for row in &mut *d {
            row.fill(T::zero());
        }
    }
    let length = a.length() / steps;
    for step in 0..steps {
        let from = step * length;
        match length {
            4 => accumulate_step::<T, 4>(a, b, d, from, alignment),
            8 => accumulate_step::<T, 8>(a, b, d, from, alignment),
            16 => accumulate_step::<T, 16>(a, b, d, from, alignment),
            32 => accumulate_step::<T, 32>(a, b, d, from, alignment),
            other => unreachable!("rows of 32 bytes do not have {other} elements"),
        }
    }
}

/// One fused sum over K elements from `from`, for all of D.
fn accumulate_step<T: Accumulator, const K: usize>(
    a: &Prepared,
    b: &Prepared,
    d: &mut [Vec<T>],
    from: usize,
    alignment: Alignment,
) {
    let columns: Vec<Lanes<K>> = (0..b.rows()).map(|j| b.lanes(j, from)).collect();
    for (i, row) in d.iter_mut().enumerate() {
        let lanes = a.lanes::<K>(i, from);
        let plain_row = !a.has_specials(i);
        for (j, (d, column)) in row.iter_mut().zip(&columns).enumerate() {
            let special = if plain_row && !b.has_specials(j) && d.special().is_none() {
                None
            } else {
                prepare::special(&lanes, column, d.special())
            };
            *d = if let Some(value) = special {
                T::of_special(value)
            } else {
                T::of_sum(sum::fused(&lanes, column, d.term(), alignment), alignment.kept)
            };
        }
    }
}
