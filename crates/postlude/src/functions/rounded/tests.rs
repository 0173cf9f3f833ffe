//! Every class of operands, against the processor's own division and root, with guesses that are wrong on purpose.

use super::{Approximations, ordinary_quotient, quotient, root};
use crate::functions::machine::Scalar;

/// Guesses that are off by this many units in the last place; `None` for a number that depends on the operand.
#[derive(Clone, Copy, Debug)]
struct Off(Option<i32>);

const ALL: [Off; 6] =
    [Off(Some(0)), Off(Some(-1)), Off(Some(1)), Off(Some(-2)), Off(Some(2)), Off(None)];

impl Off {
    fn nudge(self, guess: f32) -> f32 {
        if guess == 0.0 || !guess.is_finite() {
            return guess;
        }
        let scattered = (guess.to_bits().wrapping_mul(2_654_435_761) >> 16) % 7;
        let units = self.0.unwrap_or(scattered as i32 - 3);
        f32::from_bits(guess.to_bits().wrapping_add_signed(units))
    }
}

impl Approximations<Scalar> for Off {
    fn reciprocal(&self, a: f32) -> f32 {
        self.nudge(1.0 / a)
    }
    fn reciprocal_root(&self, a: f32) -> f32 {
        self.nudge((1.0 / f64::from(a).sqrt()) as f32)
    }
}

fn same(a: f32, b: f32) -> bool {
    a.to_bits() == b.to_bits() || (a.is_nan() && b.is_nan())
}

fn check_quotient(a: f32, b: f32) {
    for off in ALL {
        let (got, want) = (quotient(&Scalar, &off, a, b), a / b);
        assert!(same(got, want), "{off:?}: {a:e} / {b:e} is {want:e}, not {got:e}");
    }
}

fn check_root(a: f32) {
    for off in ALL {
        let (got, want) = (root(&Scalar, &off, a), a.sqrt());
        assert!(same(got, want), "{off:?}: the root of {a:e} is {want:e}, not {got:e}");
    }
}

/// A sequence of 64 bits that looks random (Marsaglia, "Xorshift RNGs").
fn random(seed: u64) -> impl Iterator<Item = u64> {
    std::iter::successors(Some(seed), |state| {
        let state = state ^ (state << 13);
        let state = state ^ (state >> 7);
        Some(state ^ (state << 17))
    })
    .skip(8)
    .map(|state| state.wrapping_mul(0x2545_f491_4f6c_dd1d))
}

fn float(bits: u64) -> f32 {
    f32::from_bits(bits as u32)
}

/// A number in 1..2.
fn mantissa(bits: u64) -> f32 {
    f32::from_bits(0x3f80_0000 | (bits as u32 & 0x007f_ffff))
}

/// Every exponent with mantissas at their ends: zeros, denormals, infinities and NaN among them.
fn edges() -> Vec<f32> {
    let mantissas = [0, 1, 0x2a_aaaa, 0x3f_ffff, 0x40_0000, 0x7f_fffe, 0x7f_ffff];
    (0..256_u32).flat_map(|e| mantissas.map(|m| f32::from_bits((e << 23) | m))).collect()
}

#[test]
fn quotients_at_the_edges_are_rounded_correctly() {
    let edges = edges();
    for (place, a) in edges.iter().enumerate() {
        for b in &edges {
            // Signs take part in one place only.
            if place % 8 == 0 {
                check_quotient(-a, *b);
                check_quotient(-a, -b);
            }
            check_quotient(*a, *b);
        }
    }
}

#[test]
fn random_quotients_are_rounded_correctly() {
    for bits in random(1).take(1_000_000) {
        check_quotient(float(bits), float(bits >> 32));
        check_quotient(mantissa(bits), mantissa(bits >> 32));
    }
}

#[test]
fn quotients_by_almost_two_are_rounded_correctly() {
    for below in 1..64 {
        let b = f32::from_bits(0x4000_0000 - below);
        for a in (0x3f80_0000..0x4000_0000).step_by(1021) {
            check_quotient(f32::from_bits(a + below), b);
        }
    }
}

/// b m = 2^shift a + excess, with m odd and of 25 bits: nothing is nearer to the middle of two floats.
#[test]
fn quotients_next_to_the_middle_of_two_floats_are_rounded_correctly() {
    for bits in random(2).take(200_000) {
        let b = 0x0080_0001 | (bits & 0x007f_ffff);
        let inverse = (0..5).fold(b, |x, _| x.wrapping_mul(2_u64.wrapping_sub(b.wrapping_mul(x))));
        for shift in [24, 25] {
            for excess in [-1_i64, 1] {
                let low = inverse.wrapping_mul(excess as u64) & ((1 << shift) - 1);
                let middle = low | (1 << 24);
                let a = ((b * middle).wrapping_sub(excess as u64)) >> shift;
                if middle < 1 << 25 && (1 << 23..1 << 24).contains(&a) {
                    check_quotient(mantissa(a), mantissa(b));
                }
            }
        }
    }
}

#[test]
fn denormal_quotients_are_rounded_once() {
    for bits in random(3).take(300_000) {
        // Odd multiples of half the smallest denormal, and their neighbours.
        let b = ((bits & 0xfff) | 1) as f64 * 2_f64.powi((bits >> 32) as i32 % 100);
        let middle = (2 * ((bits >> 12) & 0xfff) + 1) as f64 * 2_f64.powi(-150);
        let a = (b * middle) as f32;
        for a in [a.next_down(), a, a.next_up()] {
            check_quotient(a, b as f32);
        }
        // And anything below the normal numbers.
        let tiny = f32::from_bits(bits as u32 & 0x00ff_ffff);
        let b = f32::from_bits((bits >> 32) as u32 % 0x7f00_0000);
        check_quotient((f64::from(tiny) * f64::from(b)) as f32, b);
    }
}

#[test]
fn ordinary_quotients_need_no_scaling() {
    for bits in random(4).take(1_000_000) {
        let scale = 2_f32.powi((bits >> 56) as i32 % 40 - 20);
        let (a, b) = (mantissa(bits) * scale, mantissa(bits >> 24) / scale);
        for off in ALL {
            assert!(same(ordinary_quotient(&Scalar, &off, a, b), a / b), "{a:e} / {b:e}");
            assert!(same(ordinary_quotient(&Scalar, &off, 0.0, b), 0.0 / b), "0 / {b:e}");
        }
    }
}

#[test]
fn roots_are_rounded_correctly() {
    for bits in (0..=u32::MAX).step_by(1021) {
        check_root(f32::from_bits(bits));
    }
    for edge in edges() {
        check_root(edge);
        check_root(-edge);
    }
    // Two binades are all there is: the exponents of others are halved exactly.
    for bits in (0x3f80_0000..0x4080_0000).step_by(7) {
        check_root(f32::from_bits(bits));
    }
}
