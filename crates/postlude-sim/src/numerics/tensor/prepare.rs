//! Rows of a matrix, decoded once.
//!
//! In: bits. Out: whole significands with their signs, and exponents. Invariant: an element is
//! `significand * 2^(exponent - fraction)` with its type's number of fractional bits; subnormal ones keep the least
//! exponent of their type and a small significand; infinities and NaN have the exponent [`SPECIAL`].

use super::sum::Lanes;
use super::{Operand, Sign};
use crate::numerics::float::{Format, Number};

/// The exponent that marks an infinity (significand 1 or -1) or NaN (significand 0).
const SPECIAL: i32 = 1 << 12;
/// The exponent of zero, of any type.
pub(super) const ZERO: i32 = -126;

fn format(operand: Operand) -> Option<Format> {
    match operand {
        Operand::F16 => Some(Format::F16),
        Operand::BF16 => Some(Format::BF16),
        Operand::TF32 => Some(Format::TF32),
        Operand::E5M2 => Some(Format::E5M2),
        Operand::E4M3 => Some(Format::E4M3),
        Operand::S8 | Operand::U8 => None,
    }
}

/// Fractional bits of a significand; integers have none.
pub(super) fn fraction_bits(operand: Operand) -> u32 {
    format(operand).map_or(0, |format| format.fraction_bits)
}

/// The rows of one operand, ready to be multiplied many times.
#[derive(Clone, PartialEq, Debug)]
pub struct Prepared {
    operand: Operand,
    significands: Vec<i32>,
    exponents: Vec<i32>,
    specials: Vec<bool>,
}

impl Prepared {
    /// Decodes rows of 32 bytes: each element is the lowest bits of a word.
    pub fn new(operand: Operand, sign: Sign, rows: &[Vec<u32>]) -> Prepared {
        let length = operand.k() as usize;
        let mut significands = Vec::with_capacity(rows.len() * length);
        let mut exponents = Vec::with_capacity(rows.len() * length);
        for row in rows {
            assert_eq!(row.len(), length, "a row of {operand:?} has {length} elements");
            for &bits in row {
                let (significand, exponent) = decode(operand, bits);
                significands.push(match sign {
                    Sign::Plus => significand,
                    Sign::Minus => -significand,
                });
                exponents.push(exponent);
            }
        }
        let special = |row: &[i32]| row.contains(&SPECIAL);
        let specials = exponents.chunks(length).map(special).collect();
        Prepared { operand, significands, exponents, specials }
    }

    /// What the elements are.
    pub fn operand(&self) -> Operand {
        self.operand
    }

    /// How many rows there are.
    pub fn rows(&self) -> usize {
        self.specials.len()
    }

    /// Elements of a row.
    pub(super) fn length(&self) -> usize {
        self.operand.k() as usize
    }

    pub(super) fn has_specials(&self, row: usize) -> bool {
        self.specials[row]
    }

    pub(super) fn significands(&self, row: usize) -> &[i32] {
        &self.significands[row * self.length()..][..self.length()]
    }

    /// `K` elements of a row.
    pub(super) fn lanes<const K: usize>(&self, row: usize, from: usize) -> Lanes<K> {
        let start = row * self.length() + from;
        let part = |all: &[i32]| all[start..start + K].try_into().expect("a part of a row");
        Lanes { significands: part(&self.significands), exponents: part(&self.exponents) }
    }
}

fn decode(operand: Operand, bits: u32) -> (i32, i32) {
    let Some(format) = format(operand) else {
        let byte = bits as u8;
        let value = if operand == Operand::S8 { i32::from(byte as i8) } else { i32::from(byte) };
        return (value, 0);
    };
    // Single precision is cut off to its upper 19 bits.
    let bits = if operand == Operand::TF32 { bits >> 13 } else { bits };
    let signed = |negative, magnitude: i32| if negative { -magnitude } else { magnitude };
    match format.decode(bits.into()) {
        Number::Nan => (0, SPECIAL),
        Number::Infinite { negative } => (signed(negative, 1), SPECIAL),
        Number::Finite { significand: 0, .. } => (0, ZERO),
        Number::Finite { negative, significand, exponent } => {
            (signed(negative, significand as i32), exponent + format.fraction_bits as i32)
        }
    }
}

/// The infinity or NaN that a sum with these terms is; none when all are finite.
pub(super) fn special<const K: usize>(
    a: &Lanes<K>,
    b: &Lanes<K>,
    accumulator: Option<f32>,
) -> Option<f32> {
    let product = |k: usize| {
        let (left, right) = (a.significands[k], b.significands[k]);
        // A NaN has significand 0, so that NaN by anything and infinity by zero are alike.
        let special = a.exponents[k] == SPECIAL || b.exponents[k] == SPECIAL;
        let sign = left.signum() * right.signum();
        special.then_some(if sign == 0 { f32::NAN } else { sign as f32 * f32::INFINITY })
    };
    (0..K).filter_map(product).chain(accumulator).reduce(|sum, term| sum + term)
}
