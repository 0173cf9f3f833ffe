//! A matrix product: its operands, and how its sums become an accumulator.

use crate::dtype::{DType, Elem};
use crate::shape::Dim;

use super::{InputId, Orientation, Space};

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
    /// Factors of the sums of runs of K, in f32 and in this order.
    pub scales: Vec<BlockScale>,
    /// Where the contraction is cut into segments, which the one batch dim numbers: the input whose elements are the places
    /// that each ends before.
    pub segments: Option<String>,
    /// Where the rows of each batch from a count on are not used: the input whose elements are the counts.
    pub masked: Option<String>,
}

/// A factor that is constant along runs of K: it multiplies each run's sum.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BlockScale {
    /// The operand whose rows of A, or columns of B, it varies along.
    pub side: Side,
    /// Its values: f32 of that operand's batches, of its rows or runs of them, and of runs of K.
    pub input: InputId,
    /// The K of a run.
    pub run: u32,
}

/// How an operand of a product is stored once more by a launch before the product's own.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum OperandCopy {
    /// The same elements, K-major.
    KMajor,
    /// K-major parts of f32 elements that TF32 holds, [`OperandCopy::PARTS`] times as many along K.
    Parts,
}

/// How operands are copied, of each product A and B.
pub type OperandCopies = Vec<[Option<OperandCopy>; 2]>;

impl OperandCopy {
    /// Products of parts that make a product of f32 elements.
    pub const PARTS: u32 = 3;
}

/// An operand of a product.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Side {
    /// A.
    Left,
    /// B.
    Right,
}

impl Side {
    /// The word in the text of a graph.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Side::Left => "left",
            Side::Right => "right",
        }
    }

    /// The orientation of an operand whose last dim is the contraction.
    pub(crate) const fn k_major(self) -> Orientation {
        match self {
            Side::Left => Orientation::Plain,
            Side::Right => Orientation::Transposed,
        }
    }
}

impl Product {
    /// An operand.
    pub fn operand(&self, side: Side) -> (InputId, Orientation) {
        match side {
            Side::Left => self.left,
            Side::Right => self.right,
        }
    }

    /// The same product whose sums of runs of K are scaled.
    pub(crate) fn scaled(mut self, scale: BlockScale) -> Product {
        self.scales.push(scale);
        self.elem = Elem::F32;
        self
    }

    /// The rows of A, or columns of B, that one factor of a block scale stands for, given its dims; `None` where it stands
    /// for all of them.
    pub(crate) fn scaled_rows(
        &self,
        space: &Space,
        scale: &BlockScale,
        dims: &[Dim],
    ) -> Option<u32> {
        space.of_operand(self, scale.side).axes(dims).and_then(|axes| axes.row)
    }

    /// K of the longest runs along which every factor is constant; `None` without factors.
    pub(crate) fn scaled_run(&self) -> Option<u32> {
        self.scales.iter().map(|scale| scale.run).reduce(greatest_divisor)
    }
}

/// The greatest common divisor.
pub(crate) fn greatest_divisor(a: u32, b: u32) -> u32 {
    if b == 0 { a } else { greatest_divisor(b, a % b) }
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
