//! A matrix product: its operands, and how its sums become an accumulator.

use crate::dtype::{DType, Elem};
use crate::shape::Dim;

use super::{InputId, Orientation};

/// A matrix product.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Product {
    /// The left operand.
    pub left: (InputId, Orientation),
    /// The right operand.
    pub right: (InputId, Orientation),
    /// The dim that is summed over.
    pub inner: Dim,
    /// What it accumulates in.
    pub elem: Elem,
    /// How sums of a tensor core become that.
    pub accumulation: Accumulation,
}

/// How a tensor core's sums become the accumulator.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Accumulation {
    /// They are the accumulator.
    Native,
    /// Sums of 8-bit floats keep 13 fractional bits: those of every [`Accumulation::PROMOTED_DEPTH`] of K are added in f32.
    Promoted,
}

impl Accumulation {
    /// The K of a sum that is promoted.
    pub const PROMOTED_DEPTH: u32 = 128;

    /// That of operands of these dtypes, unless fast math is asked for.
    pub(crate) const fn of(dtypes: [DType; 2]) -> Accumulation {
        match dtypes {
            [left, right] if left.is_fp8() && right.is_fp8() => Accumulation::Promoted,
            _ => Accumulation::Native,
        }
    }
}
