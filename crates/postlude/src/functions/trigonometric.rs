//! `sin` and `cos`.
//!
//! In: any f32. Out: the function, accurate for |x| <= 2^16; beyond, something within [-1, 1]; NaN for infinities.
//! How: x = n pi/2 + r with |r| <= 0.79, pi/2 in parts of 24 bits, and a polynomial for each of sin r and cos r.

use super::machine::Machine;

const TWO_OVER_PI: f32 = std::f32::consts::FRAC_2_PI;
/// pi/2 = the sum of these, to 2^-74.
const PI_2: [f32; 3] = [1.570796371e0, -4.371138829e-8, -1.715124510e-15];
/// Somewhat above pi/4, as 2/pi is rounded; where n cannot be exact any more, r must still not run away.
const LARGEST_REDUCED: f32 = 0.79;

/// (sin r - r) / r^3 in r^2; sin r to 2^-27.9.
const SIN: [f32; 3] = [-1.666665524e-1, 8.332187310e-3, -1.951790618e-4];
/// (cos r - 1 + r^2 / 2) / r^4 in r^2; cos r to 2^-33.
const COS: [f32; 3] = [4.166664556e-2, -1.388730947e-3, 2.443232734e-5];
/// As `COS`, to 2^-23.5.
const COS_HARDWARE: [f32; 2] = [4.166105017e-2, -1.364825759e-3];

/// The sine of an angle in radians.
#[inline(always)]
pub fn sin<M: Machine>(m: &M, x: M::F) -> M::F {
    let (r, n) = reduce(m, x, PI_2);
    m.select(m.equal(x, m.constant(0.0)), x, in_quadrant(m, r, n, COS))
}

/// The cosine of an angle in radians.
#[inline(always)]
pub fn cos<M: Machine>(m: &M, x: M::F) -> M::F {
    let (r, n) = reduce(m, x, PI_2);
    in_quadrant(m, r, m.add_integer(n, m.integer(1)), COS)
}

/// The sine to 2^-21, absolute.
#[inline(always)]
pub fn sin_hardware<M: Machine>(m: &M, x: M::F) -> M::F {
    let (r, n) = reduce(m, x, [PI_2[0], PI_2[1]]);
    m.select(m.equal(x, m.constant(0.0)), x, in_quadrant(m, r, n, COS_HARDWARE))
}

/// The cosine to 2^-21, absolute.
#[inline(always)]
pub fn cos_hardware<M: Machine>(m: &M, x: M::F) -> M::F {
    let (r, n) = reduce(m, x, [PI_2[0], PI_2[1]]);
    in_quadrant(m, r, m.add_integer(n, m.integer(1)), COS_HARDWARE)
}

/// x = n pi/2 + r. With |n| < 2^17 the first step is exact; the others round to a part of r's last place.
#[inline(always)]
fn reduce<M: Machine, const N: usize>(m: &M, x: M::F, parts: [f32; N]) -> (M::F, M::I) {
    let (whole, n) = m.nearest(x, TWO_OVER_PI);
    let mut r = x;
    for part in parts {
        r = m.fma(whole, m.constant(-part), r);
    }
    (m.clamp(r, -LARGEST_REDUCED, LARGEST_REDUCED), n)
}

/// sin(n pi/2 + r).
#[inline(always)]
fn in_quadrant<M: Machine, const N: usize>(m: &M, r: M::F, n: M::I, cosine: [f32; N]) -> M::F {
    let square = m.mul(r, r);
    let sine = m.fma(m.mul(m.polynomial(square, SIN), square), r, r);
    let cosine = m.fma(m.polynomial(square, cosine), square, m.constant(-0.5));
    let cosine = m.fma(cosine, square, m.constant(1.0));
    let even = m.equal_integer(m.and(n, m.integer(1)), m.integer(0));
    let negative = m.shift_left(m.and(n, m.integer(2)), 30);
    m.flip(m.select(even, sine, cosine), negative)
}
