//! What the functions are written in: f32 and 32-bit integer operations that every target has.
//!
//! In: operands in the machine's registers. Out: one result, correctly rounded to nearest even, denormals kept.
//! Invariant: each operation gives the same bits on every machine, hence so does each function (NaN payloads aside).

use super::exponential;

/// A target with correctly rounded f32 arithmetic, bit operations and selects.
pub trait Machine {
    /// A register that holds an f32.
    type F: Copy;
    /// A register that holds an i32.
    type I: Copy;
    /// A register that holds a condition.
    type B: Copy;

    /// The constant `value`.
    fn constant(&self, value: f32) -> Self::F;
    /// The integer constant `value`.
    fn integer(&self, value: i32) -> Self::I;

    /// `a * b + c`, rounded once.
    fn fma(&self, a: Self::F, b: Self::F, c: Self::F) -> Self::F;
    /// `a + b`; never contracted with another operation.
    fn add(&self, a: Self::F, b: Self::F) -> Self::F;
    /// `a - b`; never contracted with another operation.
    fn sub(&self, a: Self::F, b: Self::F) -> Self::F;
    /// `a * b`; never contracted with another operation.
    fn mul(&self, a: Self::F, b: Self::F) -> Self::F;
    /// `a / b`, correctly rounded.
    fn div(&self, a: Self::F, b: Self::F) -> Self::F;
    /// `a / b`, correctly rounded, where a, b and the quotient are within 2^-80 to 2^80, or a is 0.
    #[inline(always)]
    fn div_within_range(&self, a: Self::F, b: Self::F) -> Self::F {
        self.div(a, b)
    }
    /// As [`Machine::div_within_range`], to 2^-22 of itself.
    #[inline(always)]
    fn div_within_range_hardware(&self, a: Self::F, b: Self::F) -> Self::F {
        self.div(a, b)
    }
    /// The square root, correctly rounded; NaN below zero.
    fn sqrt(&self, a: Self::F) -> Self::F;
    /// The nearest integer, ties to even.
    fn round_even(&self, a: Self::F) -> Self::F;
    /// The largest integer not above `a`.
    fn floor(&self, a: Self::F) -> Self::F;
    /// The smallest integer not below `a`.
    fn ceil(&self, a: Self::F) -> Self::F;
    /// The f32 nearest to an integer.
    fn of_integer(&self, a: Self::I) -> Self::F;

    /// The bits of an f32.
    fn bits_of(&self, a: Self::F) -> Self::I;
    /// The f32 of these bits.
    fn of_bits(&self, a: Self::I) -> Self::F;
    /// `a + b`, wrapping.
    fn add_integer(&self, a: Self::I, b: Self::I) -> Self::I;
    /// `a - b`, wrapping.
    fn sub_integer(&self, a: Self::I, b: Self::I) -> Self::I;
    /// The smaller of two integers without a sign.
    fn least_unsigned(&self, a: Self::I, b: Self::I) -> Self::I;
    /// Bitwise and.
    fn and(&self, a: Self::I, b: Self::I) -> Self::I;
    /// Bitwise or.
    fn or(&self, a: Self::I, b: Self::I) -> Self::I;
    /// Bitwise exclusive or.
    fn xor(&self, a: Self::I, b: Self::I) -> Self::I;
    /// Shift towards the high bits.
    fn shift_left(&self, a: Self::I, count: u32) -> Self::I;
    /// Shift towards the low bits, keeping the sign.
    fn shift_right(&self, a: Self::I, count: u32) -> Self::I;

    /// `a < b`; false with a NaN.
    fn less(&self, a: Self::F, b: Self::F) -> Self::B;
    /// `a == b`; false with a NaN.
    fn equal(&self, a: Self::F, b: Self::F) -> Self::B;
    /// `a == b` of integers.
    fn equal_integer(&self, a: Self::I, b: Self::I) -> Self::B;
    /// Both conditions.
    fn both(&self, a: Self::B, b: Self::B) -> Self::B;
    /// Either condition.
    fn either(&self, a: Self::B, b: Self::B) -> Self::B;
    /// The opposite condition.
    fn not(&self, a: Self::B) -> Self::B;
    /// `yes` where the condition holds, `no` elsewhere; never mixes them.
    fn select(&self, condition: Self::B, yes: Self::F, no: Self::F) -> Self::F;

    /// 2^a to 2^-22 of itself; results below the normal numbers may be zero.
    #[inline(always)]
    fn exp2_hardware(&self, a: Self::F) -> Self::F
    where
        Self: Sized,
    {
        exponential::exp2_hardware(self, a)
    }

    /// The magnitude, by its bits.
    #[inline(always)]
    fn abs(&self, a: Self::F) -> Self::F {
        self.of_bits(self.and(self.bits_of(a), self.integer(i32::MAX)))
    }

    /// The opposite sign, by its bits.
    #[inline(always)]
    fn negate(&self, a: Self::F) -> Self::F {
        self.flip(a, self.integer(i32::MIN))
    }

    /// The sign bit alone.
    #[inline(always)]
    fn sign(&self, a: Self::F) -> Self::I {
        self.and(self.bits_of(a), self.integer(i32::MIN))
    }

    /// `a` with its sign flipped where `sign` has the sign bit.
    #[inline(always)]
    fn flip(&self, a: Self::F, sign: Self::I) -> Self::F {
        self.of_bits(self.xor(self.bits_of(a), sign))
    }

    /// The smaller of `a` and a number; a NaN stays.
    #[inline(always)]
    fn at_most(&self, a: Self::F, high: f32) -> Self::F {
        let high = self.constant(high);
        self.select(self.less(high, a), high, a)
    }

    /// `a` limited to `low..=high`; a NaN stays.
    #[inline(always)]
    fn clamp(&self, a: Self::F, low: f32, high: f32) -> Self::F {
        let (low, high) = (self.constant(low), self.constant(high));
        let a = self.select(self.less(high, a), high, a);
        self.select(self.less(a, low), low, a)
    }

    /// The polynomial with these coefficients, lowest power first, by Horner's rule.
    #[inline(always)]
    fn polynomial<const N: usize>(&self, x: Self::F, coefficients: [f32; N]) -> Self::F {
        let mut sum = self.constant(coefficients[N - 1]);
        for coefficient in coefficients[..N - 1].iter().rev() {
            sum = self.fma(sum, x, self.constant(*coefficient));
        }
        sum
    }

    /// The integer nearest to `a * scale`, as a float and as an integer; |a * scale| is below 2^22.
    #[inline(always)]
    fn nearest(&self, a: Self::F, scale: f32) -> (Self::F, Self::I) {
        // Adding 1.5 * 2^23 leaves the integer in the low bits.
        let magic = self.constant(12582912.0);
        let shifted = self.fma(a, self.constant(scale), magic);
        let integer = self.sub_integer(self.bits_of(shifted), self.bits_of(magic));
        (self.sub(shifted, magic), integer)
    }

    /// 2^exponent, for exponents of normal numbers.
    #[inline(always)]
    fn power_of_two(&self, exponent: Self::I) -> Self::F {
        self.of_bits(self.shift_left(self.add_integer(exponent, self.integer(127)), 23))
    }
}

/// The processor that runs this code, one element at a time. Loops over it vectorise.
#[derive(Clone, Copy, Debug)]
pub struct Scalar;

impl Machine for Scalar {
    type F = f32;
    type I = i32;
    type B = bool;

    #[inline(always)]
    fn constant(&self, value: f32) -> f32 {
        value
    }
    #[inline(always)]
    fn integer(&self, value: i32) -> i32 {
        value
    }
    #[inline(always)]
    fn fma(&self, a: f32, b: f32, c: f32) -> f32 {
        a.mul_add(b, c)
    }
    #[inline(always)]
    fn add(&self, a: f32, b: f32) -> f32 {
        a + b
    }
    #[inline(always)]
    fn sub(&self, a: f32, b: f32) -> f32 {
        a - b
    }
    #[inline(always)]
    fn mul(&self, a: f32, b: f32) -> f32 {
        a * b
    }
    #[inline(always)]
    fn div(&self, a: f32, b: f32) -> f32 {
        a / b
    }
    #[inline(always)]
    fn sqrt(&self, a: f32) -> f32 {
        a.sqrt()
    }
    #[inline(always)]
    fn round_even(&self, a: f32) -> f32 {
        a.round_ties_even()
    }
    #[inline(always)]
    fn floor(&self, a: f32) -> f32 {
        a.floor()
    }
    #[inline(always)]
    fn ceil(&self, a: f32) -> f32 {
        a.ceil()
    }
    #[inline(always)]
    fn of_integer(&self, a: i32) -> f32 {
        a as f32
    }
    #[inline(always)]
    fn bits_of(&self, a: f32) -> i32 {
        a.to_bits() as i32
    }
    #[inline(always)]
    fn of_bits(&self, a: i32) -> f32 {
        f32::from_bits(a as u32)
    }
    #[inline(always)]
    fn add_integer(&self, a: i32, b: i32) -> i32 {
        a.wrapping_add(b)
    }
    #[inline(always)]
    fn sub_integer(&self, a: i32, b: i32) -> i32 {
        a.wrapping_sub(b)
    }
    #[inline(always)]
    fn least_unsigned(&self, a: i32, b: i32) -> i32 {
        (a as u32).min(b as u32) as i32
    }
    #[inline(always)]
    fn and(&self, a: i32, b: i32) -> i32 {
        a & b
    }
    #[inline(always)]
    fn or(&self, a: i32, b: i32) -> i32 {
        a | b
    }
    #[inline(always)]
    fn xor(&self, a: i32, b: i32) -> i32 {
        a ^ b
    }
    #[inline(always)]
    fn shift_left(&self, a: i32, count: u32) -> i32 {
        a << count
    }
    #[inline(always)]
    fn shift_right(&self, a: i32, count: u32) -> i32 {
        a >> count
    }
    #[inline(always)]
    fn less(&self, a: f32, b: f32) -> bool {
        a < b
    }
    #[inline(always)]
    fn equal(&self, a: f32, b: f32) -> bool {
        a == b
    }
    #[inline(always)]
    fn equal_integer(&self, a: i32, b: i32) -> bool {
        a == b
    }
    #[inline(always)]
    fn both(&self, a: bool, b: bool) -> bool {
        a & b
    }
    #[inline(always)]
    fn either(&self, a: bool, b: bool) -> bool {
        a | b
    }
    #[inline(always)]
    fn not(&self, a: bool) -> bool {
        !a
    }
    #[inline(always)]
    fn select(&self, condition: bool, yes: f32, no: f32) -> f32 {
        if condition { yes } else { no }
    }
}
