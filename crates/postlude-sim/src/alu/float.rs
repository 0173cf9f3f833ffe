//! Single precision: every operation rounds to nearest once, and NaN has the hardware's bits.

use postlude_ptx::types::Scalar;

use crate::stand_in::approx;

use super::{Binary, Ternary, Unary, one, three, two};

/// What every operation gives that gives NaN.
pub(super) const NAN: u32 = 0x7fff_ffff;

/// Operations on two floats.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Op {
    Add,
    Sub,
    Mul,
}

/// Functions that the hardware approximates.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Function {
    Ex2,
    Lg2,
    Rcp,
    Rsqrt,
    Sqrt,
    Tanh,
    Sin,
    Cos,
}

pub(super) fn read(bits: u64) -> f32 {
    f32::from_bits(bits as u32)
}

pub(super) fn bits(value: f32) -> u64 {
    u64::from(if value.is_nan() { NAN } else { value.to_bits() })
}

pub(super) fn apply(op: Op, a: f32, b: f32) -> f32 {
    match op {
        Op::Add => a + b,
        Op::Sub => a - b,
        Op::Mul => a * b,
    }
}

pub(super) fn binary(op: Op) -> Binary {
    match op {
        Op::Add => two(|a, b| bits(read(a) + read(b))),
        Op::Sub => two(|a, b| bits(read(a) - read(b))),
        Op::Mul => two(|a, b| bits(read(a) * read(b))),
    }
}

pub(super) fn fma() -> Ternary {
    three(|a, b, c| bits(read(a).mul_add(read(b), read(c))))
}

/// The smaller or larger of two floats, -0 below +0; with a NaN the other, or with `nan` NaN.
pub(super) fn choose(smaller: bool, nan: bool, a: f32, b: f32) -> f32 {
    if a.is_nan() || b.is_nan() {
        let other = if a.is_nan() { b } else { a };
        return if nan { f32::NAN } else { other };
    }
    if a.total_cmp(&b).is_lt() == smaller { a } else { b }
}

pub(super) fn extreme(smaller: bool, nan: bool) -> Binary {
    two(move |a, b| bits(choose(smaller, nan, read(a), read(b))))
}

pub(super) fn divide(ty: Scalar) -> Option<Binary> {
    (ty == Scalar::F32).then(|| two(|a, b| bits(approx::div_full(read(a), read(b)))))
}

pub(super) fn approximate(function: Function, ty: Scalar, flush: bool) -> Option<Unary> {
    let f: fn(f32, bool) -> f32 = match function {
        Function::Ex2 => approx::ex2,
        Function::Lg2 => approx::lg2,
        Function::Rcp => approx::rcp,
        Function::Rsqrt => approx::rsqrt,
        Function::Sqrt => approx::sqrt,
        Function::Tanh => approx::tanh,
        Function::Sin => approx::sin,
        Function::Cos => approx::cos,
    };
    (ty == Scalar::F32).then(|| one(move |a| bits(f(read(a), flush))))
}
