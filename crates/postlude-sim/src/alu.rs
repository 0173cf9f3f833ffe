//! Instructions that compute each lane by itself, as functions of lanes.
//!
//! In: an instruction. Out: its function, made once when the text is read, or why there is none. Registers hold their bits
//! with zeros above their class's width; functions may leave anything above it, which the write cuts off.

use postlude_ptx::inst::Inst;
use postlude_ptx::modifier::Approx;
use postlude_ptx::operand::{Operand, Register};
use postlude_ptx::types::Scalar;

use crate::memory::PARAMETER_BASE;
use crate::numerics::approx::{approx, divide_full};
use crate::numerics::arithmetic::{
    Fault, FloatOp, IntegerOp, absolute, compare, complement, float_binary, fused, integer_binary,
    lop3, mad_low, mad_wide, negate, permute, population_count,
};
use crate::numerics::convert::{convert, convert_pair};
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

/// What a division by zero gives, which PTX leaves open.
const DIVIDED_BY_ZERO: u64 = u64::MAX;

/// Whether there is such an instruction at all, by what it makes of some operands.
fn exists(attempt: Result<u64, Fault>) -> bool {
    match attempt {
        Ok(_) | Err(Fault::DivisionByZero) => true,
        Err(Fault::Unsupported) => false,
    }
}

fn result(attempt: Result<u64, Fault>) -> u64 {
    attempt.unwrap_or(DIVIDED_BY_ZERO)
}

fn one(f: impl Fn(u64) -> Result<u64, Fault> + 'static) -> Option<Unary> {
    if !exists(f(0)) {
        return None;
    }
    Some(Box::new(move |a| std::array::from_fn(|lane| result(f(a[lane])))))
}

fn two(f: impl Fn(u64, u64) -> Result<u64, Fault> + 'static) -> Option<Binary> {
    if !exists(f(0, 0)) {
        return None;
    }
    Some(Box::new(move |a, b| std::array::from_fn(|lane| result(f(a[lane], b[lane])))))
}

fn three(f: impl Fn(u64, u64, u64) -> Result<u64, Fault> + 'static) -> Option<Ternary> {
    if !exists(f(0, 0, 0)) {
        return None;
    }
    let lanes = move |a: &Lanes, b: &Lanes, c: &Lanes| {
        std::array::from_fn(|lane| result(f(a[lane], b[lane], c[lane])))
    };
    Some(Box::new(lanes))
}

/// The register that a lane's instruction writes and its function; nothing for instructions of other kinds.
pub(crate) fn compute(inst: &Inst) -> Result<Option<(Register, Compute)>, &'static str> {
    const MISSING: &str = "no such type";
    if let Some((d, made, operands)) = unary(inst) {
        return made.map(|f| Some((d, Compute::One(f, operands)))).ok_or(MISSING);
    }
    if let Some((d, made, operands)) = binary(inst) {
        return made.map(|f| Some((d, Compute::Two(f, operands)))).ok_or(MISSING);
    }
    if let Some((d, made, operands)) = ternary(inst) {
        return made.map(|f| Some((d, Compute::Three(f, operands)))).ok_or(MISSING);
    }
    Ok(None)
}

type Made<F, const N: usize> = Option<(Register, Option<F>, [Operand; N])>;

fn unary(inst: &Inst) -> Made<Unary, 1> {
    let (d, a, f) = match inst {
        Inst::Neg { ty, d, a } => (d, a, typed(*ty, negate)),
        Inst::Abs { ty, d, a } => (d, a, typed(*ty, absolute)),
        Inst::Not { ty, d, a } => (d, a, typed(*ty, complement)),
        Inst::PopulationCount { ty, d, a } => (d, a, typed(*ty, population_count)),
        Inst::Mov { d, a, .. } | Inst::CvtaToGlobal { d, a } => (d, a, one(Ok)),
        Inst::CvtaParameter { d, a } => (d, a, one(|a| Ok(a.wrapping_add(PARAMETER_BASE)))),
        Inst::Convert { rounding, saturation, to, from, d, a } => {
            let (rounding, saturation, to, from) = (*rounding, *saturation, *to, *from);
            let f = move |a| convert(rounding, saturation, to, from, a).ok_or(Fault::Unsupported);
            (d, a, one(f))
        }
        Inst::ApproxEx2 { ty, d, a } => (d, a, function(Approx::Ex2, *ty)),
        Inst::ApproxEx2Flush { ty, d, a } => (d, a, function(Approx::Ex2Flush, *ty)),
        Inst::ApproxLg2 { ty, d, a } => (d, a, function(Approx::Lg2, *ty)),
        Inst::ApproxRcp { ty, d, a } => (d, a, function(Approx::Rcp, *ty)),
        Inst::ApproxRcpFlush { ty, d, a } => (d, a, function(Approx::RcpFlush, *ty)),
        Inst::ApproxRsqrt { ty, d, a } => (d, a, function(Approx::Rsqrt, *ty)),
        Inst::ApproxRsqrtFlush { ty, d, a } => (d, a, function(Approx::RsqrtFlush, *ty)),
        Inst::ApproxSqrt { ty, d, a } => (d, a, function(Approx::Sqrt, *ty)),
        Inst::ApproxTanh { ty, d, a } => (d, a, function(Approx::Tanh, *ty)),
        Inst::ApproxSin { ty, d, a } => (d, a, function(Approx::Sin, *ty)),
        Inst::ApproxCos { ty, d, a } => (d, a, function(Approx::Cos, *ty)),
        _ => return None,
    };
    Some((d.0, f, [a.0]))
}

fn binary(inst: &Inst) -> Made<Binary, 2> {
    let (d, a, b, f) = match inst {
        Inst::Add { ty, d, a, b } => (d, a, b, integers(IntegerOp::Add, *ty)),
        Inst::Sub { ty, d, a, b } => (d, a, b, integers(IntegerOp::Sub, *ty)),
        Inst::MulLow { ty, d, a, b } => (d, a, b, integers(IntegerOp::MulLow, *ty)),
        Inst::MulHigh { ty, d, a, b } => (d, a, b, integers(IntegerOp::MulHigh, *ty)),
        Inst::MulWide { ty, d, a, b } => (d, a, b, integers(IntegerOp::MulWide, *ty)),
        Inst::Div { ty, d, a, b } => (d, a, b, integers(IntegerOp::Div, *ty)),
        Inst::Rem { ty, d, a, b } => (d, a, b, integers(IntegerOp::Rem, *ty)),
        Inst::And { ty, d, a, b } => (d, a, b, integers(IntegerOp::And, *ty)),
        Inst::Or { ty, d, a, b } => (d, a, b, integers(IntegerOp::Or, *ty)),
        Inst::Xor { ty, d, a, b } => (d, a, b, integers(IntegerOp::Xor, *ty)),
        Inst::Shl { ty, d, a, b } => (d, a, b, integers(IntegerOp::ShiftLeft, *ty)),
        Inst::Shr { ty, d, a, b } => (d, a, b, integers(IntegerOp::ShiftRight, *ty)),
        Inst::AddFloat { ty, d, a, b } => (d, a, b, floats(FloatOp::Add, *ty)),
        Inst::SubFloat { ty, d, a, b } => (d, a, b, floats(FloatOp::Sub, *ty)),
        Inst::MulFloat { ty, d, a, b } => (d, a, b, floats(FloatOp::Mul, *ty)),
        Inst::Min { ty, d, a, b } => {
            (d, a, b, integers(IntegerOp::Min, *ty).or_else(|| floats(FloatOp::Min, *ty)))
        }
        Inst::Max { ty, d, a, b } => {
            (d, a, b, integers(IntegerOp::Max, *ty).or_else(|| floats(FloatOp::Max, *ty)))
        }
        Inst::MinNan { ty, d, a, b } => (d, a, b, floats(FloatOp::MinNan, *ty)),
        Inst::MaxNan { ty, d, a, b } => (d, a, b, floats(FloatOp::MaxNan, *ty)),
        Inst::DivFull { ty, d, a, b } => {
            let f = |a, b| Ok(divide_full(float(a), float(b)).to_bits().into());
            (d, a, b, two(f).filter(|_| *ty == Scalar::F32))
        }
        Inst::Setp { compare: by, ty, d, a, b } => {
            let (by, ty) = (*by, *ty);
            (d, a, b, two(move |a, b| compare(by, ty, a, b).map(u64::from)))
        }
        Inst::ConvertPair { rounding, saturation, to, from, d, a, b } => {
            let (rounding, saturation, to, from) = (*rounding, *saturation, *to, *from);
            let f = move |a: u64, b: u64| {
                let made = convert_pair(rounding, saturation, to, from, a as u32, b as u32);
                made.map(u64::from).ok_or(Fault::Unsupported)
            };
            (d, a, b, two(f))
        }
        _ => return None,
    };
    Some((d.0, f, [a.0, b.0]))
}

fn ternary(inst: &Inst) -> Made<Ternary, 3> {
    let (d, a, b, c, f) = match inst {
        Inst::MadLow { ty, d, a, b, c } => {
            let ty = *ty;
            (d, a, b, c, three(move |a, b, c| mad_low(ty, a, b, c)))
        }
        Inst::MadWide { ty, d, a, b, c } => {
            let ty = *ty;
            (d, a, b, c, three(move |a, b, c| mad_wide(ty, a, b, c)))
        }
        Inst::Fma { ty, d, a, b, c } => {
            let ty = *ty;
            let f = move |a, b, c| fused(ty, a as u32, b as u32, c as u32).map(u64::from);
            (d, a, b, c, three(f))
        }
        Inst::Permute { d, a, b, c } => {
            let f = |a, b, c| Ok(permute(a as u32, b as u32, c as u32).into());
            (d, a, b, c, three(f))
        }
        Inst::Lop3 { d, a, b, c, table } => {
            let f = match table.0 {
                Operand::Integer(table) => {
                    three(move |a, b, c| Ok(lop3(a as u32, b as u32, c as u32, table as u8).into()))
                }
                Operand::Register(_) | Operand::Float(_) => None,
            };
            (d, a, b, c, f)
        }
        Inst::Select { d, a, b, p, .. } => {
            (d, a, b, p, three(|a, b, p| Ok(if p & 1 == 1 { a } else { b })))
        }
        _ => return None,
    };
    Some((d.0, f, [a.0, b.0, c.0]))
}

fn float(bits: u64) -> f32 {
    f32::from_bits(bits as u32)
}

fn typed(ty: Scalar, f: fn(Scalar, u64) -> Result<u64, Fault>) -> Option<Unary> {
    one(move |a| f(ty, a))
}

fn function(function: Approx, ty: Scalar) -> Option<Unary> {
    one(move |a| Ok(approx(function, float(a)).to_bits().into())).filter(|_| ty == Scalar::F32)
}

fn integers(op: IntegerOp, ty: Scalar) -> Option<Binary> {
    two(move |a, b| integer_binary(op, ty, a, b))
}

fn floats(op: FloatOp, ty: Scalar) -> Option<Binary> {
    two(move |a, b| float_binary(op, ty, a as u32, b as u32).map(u64::from))
}

#[cfg(test)]
mod tests {
    use postlude_ptx::text::{StatementKind, read};

    use super::*;

    fn made(text: &str) -> Result<Option<(Register, Compute)>, &'static str> {
        let statements = read(text).unwrap();
        let StatementKind::Instruction(instruction) = &statements[0].kind else { panic!("{text}") };
        compute(&Inst::read(instruction).unwrap())
    }

    #[test]
    fn lanes_compute_by_themselves() {
        let Ok(Some((_, Compute::Two(f, _)))) = made("min.f32 %f0, %f1, %f2;") else {
            panic!("it has two operands")
        };
        let bits = |x: f32| u64::from(x.to_bits());
        let a: Lanes = std::array::from_fn(|lane| bits(lane as f32));
        let smaller = f(&a, &[bits(3.0); 32]);
        assert_eq!((smaller[1], smaller[9]), (bits(1.0), bits(3.0)));
    }

    #[test]
    fn types_that_an_instruction_lacks_are_refused_when_read() {
        assert!(made("mul.wide.u64 %rd0, %rd1, %rd2;").is_err());
        assert!(made("ex2.approx.f16 %h0, %h1;").is_err());
        assert!(matches!(made("bar.warp.sync 1;"), Ok(None)));
    }
}
