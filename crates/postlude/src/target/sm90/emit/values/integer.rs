//! Integers of 32 bits, which wrap.

use postlude_ptx::kernel::Reg;
use postlude_ptx::types::{S32, U32};

use crate::graph::{Binary, Unary};

use super::value::Value;

pub(super) fn unary(op: Unary, a: Reg<'_, S32>) -> Reg<'_, S32> {
    match op {
        Unary::Negate => a.negate(),
        // The one without an opposite stays. ptxas 13.0 makes `max(max(a, -a), b)` one instruction, and loses the sign.
        Unary::Abs => {
            let sign = a >> 31;
            (a ^ sign) - sign
        }
        Unary::Sign => a.max(-1).min(1),
        Unary::Invert => a.complement(),
        Unary::Not
        | Unary::Floor
        | Unary::Ceil
        | Unary::Round
        | Unary::Sqrt
        | Unary::Rsqrt
        | Unary::Rcp
        | Unary::Exp
        | Unary::Exp2
        | Unary::Log
        | Unary::Log2
        | Unary::Log1p
        | Unary::Expm1
        | Unary::Sin
        | Unary::Cos
        | Unary::Tanh
        | Unary::Erf
        | Unary::IsNan
        | Unary::IsInf
        | Unary::Bits
        | Unary::Float => panic!("compiler bug: `{}` of integers", op.name()),
    }
}

pub(super) fn binary<'k>(op: Binary, a: Reg<'k, S32>, b: Reg<'k, S32>) -> Value<'k> {
    match op {
        Binary::Add => Value::Integer(a + b),
        Binary::Subtract => Value::Integer(a - b),
        Binary::Multiply => Value::Integer(a * b),
        Binary::Maximum => Value::Integer(a.max(b)),
        Binary::Minimum => Value::Integer(a.min(b)),
        Binary::Less => Value::Truth(a.lt(b)),
        Binary::LessEqual => Value::Truth(a.le(b)),
        Binary::Equal => Value::Truth(a.eq(b)),
        Binary::NotEqual => Value::Truth(a.ne(b)),
        Binary::And => Value::Integer(a & b),
        Binary::Or => Value::Integer(a | b),
        Binary::Xor => Value::Integer(a ^ b),
        // Counts are unsigned, and beyond the width all bits are shifted out (PTX ISA, "shl" and "shr").
        Binary::ShiftLeft => Value::Integer(a << b.cast::<U32>()),
        Binary::ShiftRight => Value::Integer(a >> b.cast::<U32>()),
        Binary::ShiftRightLogical => Value::Integer((a.cast::<U32>() >> b.cast::<U32>()).cast()),
        Binary::Divide | Binary::Pow | Binary::Fmod => {
            panic!("compiler bug: `{}` of integers", op.name())
        }
    }
}
