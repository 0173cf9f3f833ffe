//! The functions' machine in PTX: the same algorithms as on the CPU, in registers.

use postlude_ptx::kernel::{Kernel, Reg};
use postlude_ptx::modifier::{Approx, Rounding};
use postlude_ptx::target::Architecture;
use postlude_ptx::types::{F32, Pred, S32, U32};

use crate::functions::machine::Machine;
use crate::functions::rounded::{self, Approximations};

/// Registers of one thread.
#[derive(Clone, Copy)]
pub(super) struct Registers<'k, C>(pub(super) Kernel<'k, C>);

impl<'k, C: Architecture> Machine for Registers<'k, C> {
    type F = Reg<'k, F32>;
    type I = Reg<'k, U32>;
    type B = Reg<'k, Pred>;

    fn constant(&self, value: f32) -> Self::F {
        self.0.imm(value)
    }
    fn integer(&self, value: i32) -> Self::I {
        self.0.imm(value as u32)
    }
    fn fma(&self, a: Self::F, b: Self::F, c: Self::F) -> Self::F {
        a.fma(b, c)
    }
    fn add(&self, a: Self::F, b: Self::F) -> Self::F {
        a + b
    }
    fn sub(&self, a: Self::F, b: Self::F) -> Self::F {
        a - b
    }
    fn mul(&self, a: Self::F, b: Self::F) -> Self::F {
        a * b
    }
    fn div(&self, a: Self::F, b: Self::F) -> Self::F {
        rounded::quotient(self, self, a, b)
    }
    fn div_within_range(&self, a: Self::F, b: Self::F) -> Self::F {
        rounded::ordinary_quotient(self, self, a, b)
    }
    fn div_within_range_hardware(&self, a: Self::F, b: Self::F) -> Self::F {
        a * b.approx(Approx::RcpFlush)
    }
    fn sqrt(&self, a: Self::F) -> Self::F {
        rounded::root(self, self, a)
    }
    fn round_even(&self, a: Self::F) -> Self::F {
        self.0.whole(Rounding::NearestWhole, a)
    }
    fn floor(&self, a: Self::F) -> Self::F {
        self.0.whole(Rounding::DownWhole, a)
    }
    fn ceil(&self, a: Self::F) -> Self::F {
        self.0.whole(Rounding::UpWhole, a)
    }
    fn of_integer(&self, a: Self::I) -> Self::F {
        self.0.float_of_s32(a.cast::<S32>())
    }
    fn bits_of(&self, a: Self::F) -> Self::I {
        self.0.f32_to_bits(a).cast()
    }
    fn of_bits(&self, a: Self::I) -> Self::F {
        self.0.bits_to_f32(a.cast())
    }
    fn add_integer(&self, a: Self::I, b: Self::I) -> Self::I {
        a + b
    }
    fn sub_integer(&self, a: Self::I, b: Self::I) -> Self::I {
        a - b
    }
    fn least_unsigned(&self, a: Self::I, b: Self::I) -> Self::I {
        a.min(b)
    }
    fn and(&self, a: Self::I, b: Self::I) -> Self::I {
        a & b
    }
    fn or(&self, a: Self::I, b: Self::I) -> Self::I {
        a | b
    }
    fn xor(&self, a: Self::I, b: Self::I) -> Self::I {
        a ^ b
    }
    fn shift_left(&self, a: Self::I, count: u32) -> Self::I {
        a << count
    }
    fn shift_right(&self, a: Self::I, count: u32) -> Self::I {
        (a.cast::<S32>() >> count).cast()
    }
    fn less(&self, a: Self::F, b: Self::F) -> Self::B {
        a.lt(b)
    }
    fn equal(&self, a: Self::F, b: Self::F) -> Self::B {
        a.eq(b)
    }
    fn equal_integer(&self, a: Self::I, b: Self::I) -> Self::B {
        a.eq(b)
    }
    fn both(&self, a: Self::B, b: Self::B) -> Self::B {
        a & b
    }
    fn either(&self, a: Self::B, b: Self::B) -> Self::B {
        a | b
    }
    fn not(&self, a: Self::B) -> Self::B {
        a ^ true
    }
    fn select(&self, condition: Self::B, yes: Self::F, no: Self::F) -> Self::F {
        yes.select(no, condition)
    }
    fn exp2_hardware(&self, a: Self::F) -> Self::F {
        a.approx(Approx::Ex2Flush)
    }
    // Operands take a sign or its absence for free.
    fn abs(&self, a: Self::F) -> Self::F {
        a.abs()
    }
    fn negate(&self, a: Self::F) -> Self::F {
        a.negate()
    }
    fn at_most(&self, a: Self::F, high: f32) -> Self::F {
        a.min(high)
    }
    fn clamp(&self, a: Self::F, low: f32, high: f32) -> Self::F {
        a.min(high).max(low)
    }
}

/// The hardware's own guesses are off by less than 3 units in the last place (PTX ISA, "rcp" and "rsqrt"); neither what is asked of
/// them here nor what they answer is a denormal.
impl<'k, C: Architecture> Approximations<Registers<'k, C>> for Registers<'k, C> {
    fn reciprocal(&self, a: Reg<'k, F32>) -> Reg<'k, F32> {
        a.approx(Approx::RcpFlush)
    }
    fn reciprocal_root(&self, a: Reg<'k, F32>) -> Reg<'k, F32> {
        a.approx(Approx::RsqrtFlush)
    }
}
