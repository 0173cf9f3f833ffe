//! Instructions that compute each lane by itself, as functions of lanes.
//!
//! In: an instruction. Out: its function, made once when the text is read, or why there is none. Registers hold their bits
//! with zeros above their class's width; functions may leave anything above it, which the write cuts off.

mod compare;
mod convert;
mod float;
mod half;
mod integer;

use postlude_ptx::inst::Inst;
use postlude_ptx::operand::{Operand, Register};
use postlude_ptx::types::Scalar;

use crate::warp::Lanes;

/// One operand to a result.
pub(crate) type Unary = Box<dyn Fn(&Lanes) -> Lanes>;
/// Two operands to a result.
pub(crate) type Binary = Box<dyn Fn(&Lanes, &Lanes) -> Lanes>;
/// Three operands to a result.
pub(crate) type Ternary = Box<dyn Fn(&Lanes, &Lanes, &Lanes) -> Lanes>;

/// What one lane's instruction computes.
pub(crate) enum Compute {
    One(Unary, [Operand; 1]),
    Two(Binary, [Operand; 2]),
    Three(Ternary, [Operand; 3]),
}

impl std::fmt::Debug for Compute {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Compute::One(_, operands) => f.debug_tuple("One").field(operands).finish(),
            Compute::Two(_, operands) => f.debug_tuple("Two").field(operands).finish(),
            Compute::Three(_, operands) => f.debug_tuple("Three").field(operands).finish(),
        }
    }
}

/// A known instruction with a type that it does not have.
const NO_SUCH_TYPE: &str = "no such type";

pub(crate) fn one(f: impl Fn(u64) -> u64 + 'static) -> Unary {
    Box::new(move |a| std::array::from_fn(|lane| f(a[lane])))
}

pub(crate) fn two(f: impl Fn(u64, u64) -> u64 + 'static) -> Binary {
    Box::new(move |a, b| std::array::from_fn(|lane| f(a[lane], b[lane])))
}

pub(crate) fn three(f: impl Fn(u64, u64, u64) -> u64 + 'static) -> Ternary {
    Box::new(move |a, b, c| std::array::from_fn(|lane| f(a[lane], b[lane], c[lane])))
}

/// The register that a lane's instruction writes and its function; nothing for instructions of other kinds.
pub(crate) fn compute(inst: &Inst) -> Result<Option<(Register, Compute)>, &'static str> {
    if let Some((d, made, operands)) = unary(inst) {
        return made.map(|f| Some((d, Compute::One(f, operands)))).ok_or(NO_SUCH_TYPE);
    }
    if let Some((d, made, operands)) = binary(inst) {
        return made.map(|f| Some((d, Compute::Two(f, operands)))).ok_or(NO_SUCH_TYPE);
    }
    if let Some((d, made, operands)) = ternary(inst) {
        return made.map(|f| Some((d, Compute::Three(f, operands)))).ok_or(NO_SUCH_TYPE);
    }
    Ok(None)
}

type Made<F, const N: usize> = Option<(Register, Option<F>, [Operand; N])>;

fn unary(inst: &Inst) -> Made<Unary, 1> {
    use float::Function;
    let (d, a, f) = match inst {
        Inst::Neg { ty, d, a } => (d, a, negate(*ty)),
        Inst::Abs { ty, d, a } => (d, a, absolute(*ty)),
        Inst::Not { d, a, .. } => (d, a, Some(one(|a| !a))),
        Inst::PopulationCount { ty, d, a } => (d, a, integer::population(*ty)),
        Inst::Mov { d, a, .. } => (d, a, Some(one(|a| a))),
        Inst::CvtaToGlobal { d, a } => (d, a, Some(one(|a| a))),
        Inst::CvtaParameter { d, a } => {
            (d, a, Some(one(|a| a.wrapping_add(crate::memory::PARAMETER_BASE))))
        }
        Inst::Convert { rounding, saturation, to, from, d, a } => {
            (d, a, convert::single(*rounding, *saturation, *to, *from))
        }
        Inst::ApproxEx2 { ty, d, a } => (d, a, float::approximate(Function::Ex2, *ty, false)),
        Inst::ApproxEx2Flush { ty, d, a } => (d, a, float::approximate(Function::Ex2, *ty, true)),
        Inst::ApproxLg2 { ty, d, a } => (d, a, float::approximate(Function::Lg2, *ty, false)),
        Inst::ApproxRcp { ty, d, a } => (d, a, float::approximate(Function::Rcp, *ty, false)),
        Inst::ApproxRcpFlush { ty, d, a } => (d, a, float::approximate(Function::Rcp, *ty, true)),
        Inst::ApproxRsqrt { ty, d, a } => (d, a, float::approximate(Function::Rsqrt, *ty, false)),
        Inst::ApproxRsqrtFlush { ty, d, a } => {
            (d, a, float::approximate(Function::Rsqrt, *ty, true))
        }
        Inst::ApproxSqrt { ty, d, a } => (d, a, float::approximate(Function::Sqrt, *ty, false)),
        Inst::ApproxTanh { ty, d, a } => (d, a, float::approximate(Function::Tanh, *ty, false)),
        Inst::ApproxSin { ty, d, a } => (d, a, float::approximate(Function::Sin, *ty, false)),
        Inst::ApproxCos { ty, d, a } => (d, a, float::approximate(Function::Cos, *ty, false)),
        _ => return None,
    };
    Some((d.0, f, [a.0]))
}

fn binary(inst: &Inst) -> Made<Binary, 2> {
    use integer::Op;
    let (d, a, b, f) = match inst {
        Inst::Add { ty, d, a, b } => (d, a, b, integer::binary(Op::Add, *ty)),
        Inst::Sub { ty, d, a, b } => (d, a, b, integer::binary(Op::Sub, *ty)),
        Inst::MulLow { ty, d, a, b } => (d, a, b, integer::binary(Op::Mul, *ty)),
        Inst::MulHigh { ty, d, a, b } => (d, a, b, integer::high(*ty)),
        Inst::MulWide { ty, d, a, b } => (d, a, b, integer::wide(*ty)),
        Inst::Div { ty, d, a, b } => (d, a, b, integer::binary(Op::Div, *ty)),
        Inst::Rem { ty, d, a, b } => (d, a, b, integer::binary(Op::Rem, *ty)),
        Inst::And { d, a, b, .. } => (d, a, b, Some(two(|a, b| a & b))),
        Inst::Or { d, a, b, .. } => (d, a, b, Some(two(|a, b| a | b))),
        Inst::Xor { d, a, b, .. } => (d, a, b, Some(two(|a, b| a ^ b))),
        Inst::Shl { ty, d, a, b } => (d, a, b, integer::left(*ty)),
        Inst::Shr { ty, d, a, b } => (d, a, b, integer::right(*ty)),
        Inst::AddFloat { ty, d, a, b } => (d, a, b, sums(float::Op::Add, *ty)),
        Inst::SubFloat { ty, d, a, b } => (d, a, b, sums(float::Op::Sub, *ty)),
        Inst::MulFloat { ty, d, a, b } => (d, a, b, sums(float::Op::Mul, *ty)),
        Inst::DivFull { ty, d, a, b } => (d, a, b, float::divide(*ty)),
        Inst::Min { ty, d, a, b } => (d, a, b, extreme(Op::Min, *ty, false)),
        Inst::MinNan { ty, d, a, b } => (d, a, b, extreme(Op::Min, *ty, true)),
        Inst::Max { ty, d, a, b } => (d, a, b, extreme(Op::Max, *ty, false)),
        Inst::MaxNan { ty, d, a, b } => (d, a, b, extreme(Op::Max, *ty, true)),
        Inst::Setp { compare, ty, d, a, b } => (d, a, b, compare::compare(*compare, *ty)),
        Inst::ConvertPair { rounding, saturation, to, from, d, a, b } => {
            (d, a, b, convert::pair(*rounding, *saturation, *to, *from))
        }
        _ => return None,
    };
    Some((d.0, f, [a.0, b.0]))
}

fn ternary(inst: &Inst) -> Made<Ternary, 3> {
    let (d, a, b, c, f) = match inst {
        Inst::MadLow { ty, d, a, b, c } => (d, a, b, c, integer::mad(*ty)),
        Inst::MadWide { ty, d, a, b, c } => (d, a, b, c, integer::mad_wide(*ty)),
        Inst::Fma { ty, d, a, b, c } => {
            (d, a, b, c, if *ty == Scalar::F32 { Some(float::fma()) } else { half::fma(*ty) })
        }
        Inst::Permute { d, a, b, c } => (d, a, b, c, Some(three(integer::permute))),
        Inst::Lop3 { d, a, b, c, table } => {
            let Operand::Integer(table) = table.0 else {
                return Some((d.0, None, [a.0, b.0, c.0]));
            };
            (d, a, b, c, Some(integer::lop3(table as u8)))
        }
        Inst::Select { d, a, b, p, .. } => {
            (d, a, b, p, Some(three(|a, b, p| if p & 1 == 1 { a } else { b })))
        }
        _ => return None,
    };
    Some((d.0, f, [a.0, b.0, c.0]))
}

fn negate(ty: Scalar) -> Option<Unary> {
    match half::signs(ty) {
        Some(signs) => Some(one(move |a| a ^ signs)),
        None => integer::negate(ty),
    }
}

fn absolute(ty: Scalar) -> Option<Unary> {
    match half::signs(ty) {
        Some(signs) => Some(one(move |a| a & !signs)),
        None => integer::absolute(ty),
    }
}

fn sums(op: float::Op, ty: Scalar) -> Option<Binary> {
    if ty == Scalar::F32 { Some(float::binary(op)) } else { half::binary(op, ty) }
}

fn extreme(op: integer::Op, ty: Scalar, nan: bool) -> Option<Binary> {
    let smaller = matches!(op, integer::Op::Min);
    if ty == Scalar::F32 {
        Some(float::extreme(smaller, nan))
    } else if half::signs(ty).is_some() {
        half::extreme(smaller, nan, ty)
    } else if nan {
        None
    } else {
        integer::binary(op, ty)
    }
}
