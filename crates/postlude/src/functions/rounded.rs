//! Correctly rounded quotients and square roots for machines whose hardware only approximates reciprocals.
//!
//! In: any f32. Out: the bits that IEEE division and square root give, NaN payloads aside.
//! How: operands are scaled by powers of two to where nothing overflows or is lost, an approximate reciprocal is refined by
//! fused multiply-adds, and the last step starts from an exact remainder (P. Markstein, "Computation of elementary functions
//! on the IBM RISC System/6000 processor"). No branches, no tables, no calls.
//! Invariant: the result does not depend on the approximations, as long as they are within 3 units in the last place.

use super::machine::Machine;

/// Quick guesses in the registers of a machine.
pub trait Approximations<M: Machine> {
    /// 1 / a, off by at most 3 units in the last place, for magnitudes of 2^-100 to 2^100; of 0 infinity, of infinity 0.
    fn reciprocal(&self, a: M::F) -> M::F;
    /// 1 / sqrt(a), as good, for 2^-100 to 2^128.
    fn reciprocal_root(&self, a: M::F) -> M::F;
}

/// 2^exponent.
const fn power(exponent: i32) -> f32 {
    f32::from_bits(((exponent + 127) as u32) << 23)
}

/// Dividends from here on are scaled down, those below its inverse up; then they are within 2^-49 to 2^54.
const LARGE_DIVIDEND: f32 = power(46);
const SCALE_OF_LARGE: f32 = power(-80);
const SMALL_DIVIDEND: f32 = power(-46);
const SCALE_OF_SMALL: f32 = power(100);
/// Divisors below this are scaled up, the others down; then they are within 2^-69 to 2^70.
const SMALL_DIVISOR: f32 = power(-11);
const SCALE_OF_SMALL_DIVISOR: f32 = power(80);
const SCALE_OF_DIVISOR: f32 = power(-58);

const INFINITY: i32 = 0x7f80_0000;
const SMALLEST_NORMAL: i32 = 0x0080_0000;
/// More than the error of a Newton step, and less than any reciprocal is below a tie near y = 2.
const UPWARDS: f32 = power(-40);
/// One less half a unit in its last place from below.
const JUST_BELOW_ONE: f32 = 1.0 - power(-24);

/// The hardware's guess at a quotient, and the nearest f32.
struct Division<F> {
    guess: F,
    nearest: F,
}

/// a / b, correctly rounded.
#[inline(always)]
pub fn quotient<M: Machine>(m: &M, guesses: &impl Approximations<M>, a: M::F, b: M::F) -> M::F {
    let (x, y) = (m.abs(a), m.abs(b));
    let small = m.less(x, m.constant(SMALL_DIVIDEND));
    let unscaled = m.less(x, m.constant(LARGE_DIVIDEND));
    let scale = m.select(unscaled, m.constant(1.0), m.constant(SCALE_OF_LARGE));
    let x_scale = m.select(small, m.constant(SCALE_OF_SMALL), scale);
    let y_scale = m.select(
        m.less(y, m.constant(SMALL_DIVISOR)),
        m.constant(SCALE_OF_SMALL_DIVISOR),
        m.constant(SCALE_OF_DIVISOR),
    );
    let (x, y) = (m.mul(x, x_scale), m.mul(y, y_scale));
    let Division { guess, nearest } = divide(m, guesses, x, y);

    // The quotient's exponent is too small by this, in place.
    let shift = m.sub_integer(m.bits_of(y_scale), m.bits_of(x_scale));
    let shifted = m.least_unsigned(m.add_integer(m.bits_of(nearest), shift), m.integer(INFINITY));
    let smallest_normal = m.sub_integer(m.integer(SMALLEST_NORMAL), shift);
    let denormal = rounded_to_multiple(m, [x, y], nearest, smallest_normal);
    let is_denormal = m.less(nearest, m.of_bits(smallest_normal));
    let result = m.select(is_denormal, denormal, m.of_bits(shifted));

    // Where an operand is zero, infinite or NaN the guess is right.
    let (zero, infinity) = (m.constant(0.0), m.constant(f32::INFINITY));
    let ordinary = m.both(m.less(zero, guess), m.less(guess, infinity));
    let result = m.select(ordinary, result, guess);
    m.flip(result, m.and(m.xor(m.bits_of(a), m.bits_of(b)), m.integer(i32::MIN)))
}

/// a / b, correctly rounded, where the magnitudes of a, b and the quotient are within 2^-80 to 2^80, or a is 0.
#[inline(always)]
pub fn ordinary_quotient<M: Machine>(
    m: &M,
    guesses: &impl Approximations<M>,
    a: M::F,
    b: M::F,
) -> M::F {
    divide(m, guesses, a, b).nearest
}

/// The square root, correctly rounded.
#[inline(always)]
pub fn root<M: Machine>(m: &M, guesses: &impl Approximations<M>, a: M::F) -> M::F {
    let small = m.less(a, m.constant(power(-64)));
    let x = m.mul(a, m.select(small, m.constant(power(64)), m.constant(1.0)));
    let reciprocal = guesses.reciprocal_root(x);
    let half = m.mul(reciprocal, m.constant(0.5));
    let guess = m.mul(x, reciprocal);
    let error = m.fma(m.negate(half), guess, m.constant(0.5));
    let guess = m.fma(guess, error, guess);
    let half = m.fma(half, error, half);
    let remainder = m.fma(m.negate(guess), guess, x);
    let root = m.fma(remainder, half, guess);
    let root = m.mul(root, m.select(small, m.constant(power(-32)), m.constant(1.0)));
    let itself = m.either(m.equal(a, m.constant(0.0)), m.equal(a, m.constant(f32::INFINITY)));
    m.select(itself, a, root)
}

/// The last step is right when the reciprocal is within 2^-23 / y^2 of 1 / y, for y in 1..2: as near to y = 2 as there are
/// numbers that takes the nearer of two neighbours, and it is always the upper one (the reciprocals lie just above ties).
#[inline(always)]
fn divide<M: Machine>(m: &M, guesses: &impl Approximations<M>, x: M::F, y: M::F) -> Division<M::F> {
    let negative = m.negate(y);
    let reciprocal = guesses.reciprocal(y);
    let guess = m.mul(x, reciprocal);
    let error = m.fma(negative, reciprocal, m.constant(1.0));
    let reciprocal = m.fma(reciprocal, m.add(error, m.constant(UPWARDS)), reciprocal);
    let closer = m.fma(m.fma(negative, guess, x), reciprocal, guess);
    let nearest = m.fma(m.fma(negative, closer, x), reciprocal, closer);
    Division { guess, nearest }
}

/// x / y rounded to a multiple of 2^-23 of the power of two `unit`, given the nearest f32, when it is less than `unit`: the
/// bits of a denormal. Rounding `nearest` again could go the wrong way at a tie, which the sign of its remainder decides.
#[inline(always)]
fn rounded_to_multiple<M: Machine>(m: &M, [x, y]: [M::F; 2], nearest: M::F, unit: M::I) -> M::F {
    let zero = m.constant(0.0);
    let remainder = m.fma(m.negate(y), nearest, x);
    let next = m.of_bits(m.add_integer(m.bits_of(nearest), m.integer(1)));
    let above = m.select(m.less(zero, remainder), next, nearest);
    // Times this it is strictly between `above` and its lower neighbour, like the quotient: no tie lies between them.
    let exact = m.equal(remainder, zero);
    let nudge = m.select(exact, m.constant(1.0), m.constant(JUST_BELOW_ONE));
    let sum = m.fma(above, nudge, m.of_bits(unit));
    m.of_bits(m.sub_integer(m.bits_of(sum), unit))
}

#[cfg(test)]
mod tests;
