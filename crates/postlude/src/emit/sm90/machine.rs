//! The functions' machine in PTX: the same algorithms as on the CPU, in registers.

use postlude_ptx::kernel::{Kernel, Reg};
use postlude_ptx::modifier::{Approx, Rounding};
use postlude_ptx::target::Sm90a;
use postlude_ptx::types::{F32, Pred, S32, U32};

use crate::functions::machine::Machine;

/// Registers of one thread.
#[derive(Clone, Copy)]
pub(super) struct Registers<'k>(pub(super) Kernel<'k, Sm90a>);

impl<'k> Machine for Registers<'k> {
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
    /// Good to the hardware's accuracy: planning refuses what needs a correctly rounded quotient, which would be a call.
    fn div(&self, a: Self::F, b: Self::F) -> Self::F {
        a * b.approx(Approx::Rcp)
    }
    /// Good to the hardware's accuracy, as with quotients.
    fn sqrt(&self, a: Self::F) -> Self::F {
        a.approx(Approx::Sqrt)
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
}
