//! What atomics and reducing copies make of two values.

use postlude_ptx::modifier::Reduction;
use postlude_ptx::types::Scalar;

use crate::numerics::arithmetic::{FloatOp, IntegerOp, float_binary, integer_binary};

/// The value after a reduction; nothing where the type has no such reduction.
pub(crate) fn combine(reduction: Reduction, ty: Scalar, held: u64, a: u64) -> Option<u64> {
    match reduction {
        Reduction::Exchange => return Some(a),
        Reduction::And => return Some(held & a),
        Reduction::Or => return Some(held | a),
        Reduction::Xor => return Some(held ^ a),
        Reduction::Increment => {
            let (held, a) = (held as u32, a as u32);
            let value = if held >= a { 0 } else { held + 1 };
            return (ty == Scalar::U32).then_some(value.into());
        }
        Reduction::Decrement => {
            let (held, a) = (held as u32, a as u32);
            let value = if held == 0 || held > a { a } else { held - 1 };
            return (ty == Scalar::U32).then_some(value.into());
        }
        Reduction::Add | Reduction::Min | Reduction::Max => {}
    }
    let (integer, float) = match reduction {
        Reduction::Min => (IntegerOp::Min, FloatOp::Min),
        Reduction::Max => (IntegerOp::Max, FloatOp::Max),
        Reduction::Add
        | Reduction::And
        | Reduction::Or
        | Reduction::Xor
        | Reduction::Exchange
        | Reduction::Increment
        | Reduction::Decrement => (IntegerOp::Add, FloatOp::Add),
    };
    let whole = integer_binary(integer, ty, held, a).ok();
    whole.or_else(|| float_binary(float, ty, held as u32, a as u32).ok().map(u64::from))
}
