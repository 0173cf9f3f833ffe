//! Operands by seed: ordinary numbers, wide ranges, and everything special.

use postlude_corpus::Random;
use postlude_ptx::kernel::MatrixType;

use super::kernel::{COLUMNS, ROW_BYTES, ROWS};

/// What the elements of a CTA are like.
#[derive(Clone, Copy)]
enum Manner {
    /// Exponents close together, so that bits cancel.
    Close,
    /// Any finite pattern.
    Wide,
    /// Small exponents: subnormal operands.
    Tiny,
    /// Any pattern at all, infinities and NaN among them.
    Any,
}

/// The buffers A, B and the accumulators before.
pub(crate) struct Data {
    pub(crate) a: Vec<u8>,
    pub(crate) b: Vec<u8>,
    pub(crate) before: Vec<u8>,
}

/// Bits of the exponent and of the mantissa.
fn format(of: MatrixType) -> (u32, u32) {
    match of {
        MatrixType::F16 => (5, 10),
        MatrixType::BF16 => (8, 7),
        MatrixType::TF32 => (8, 23),
        MatrixType::E4M3 => (4, 3),
        MatrixType::E5M2 => (5, 2),
        MatrixType::S8 | MatrixType::U8 => (0, 7),
    }
}

fn float(random: &mut Random, exponent_bits: u32, mantissa_bits: u32, manner: Manner) -> u32 {
    let bits = 1 + exponent_bits + mantissa_bits;
    let any = random.bits() as u32 & (((1u64 << bits) - 1) as u32);
    let (bias, top) = ((1 << (exponent_bits - 1)) - 1, (1 << exponent_bits) - 1);
    let exponent = match manner {
        Manner::Close => bias - 2 + random.below(4) as u32,
        Manner::Wide => 1 + random.below(top as usize - 1) as u32,
        Manner::Tiny => random.below(3) as u32,
        Manner::Any => match random.below(64) {
            0 => top,
            1 => 0,
            _ => return any,
        },
    };
    any & !(top << mantissa_bits) | exponent << mantissa_bits
}

fn element(random: &mut Random, of: MatrixType, manner: Manner) -> u32 {
    match of {
        MatrixType::S8 | MatrixType::U8 => random.bits() as u32 & 0xff,
        MatrixType::F16
        | MatrixType::BF16
        | MatrixType::TF32
        | MatrixType::E4M3
        | MatrixType::E5M2 => {
            let (exponent, mantissa) = format(of);
            float(random, exponent, mantissa, manner)
        }
    }
}

/// Operands of this many CTAs: mostly ordinary, some of every other manner.
pub(crate) fn data(a: MatrixType, b: MatrixType, blocks: u32, seed: u64) -> Data {
    let random = &mut Random::new(seed);
    let mut data = Data { a: Vec::new(), b: Vec::new(), before: Vec::new() };
    for block in 0..blocks {
        let manner = [Manner::Close, Manner::Wide, Manner::Tiny, Manner::Any][block as usize % 4];
        for (rows, of, bytes) in [(ROWS, a, &mut data.a), (COLUMNS, b, &mut data.b)] {
            for _ in 0..rows * ROW_BYTES / of.bytes() {
                let bits = element(random, of, manner);
                bytes.extend(&bits.to_le_bytes()[..of.bytes() as usize]);
            }
        }
        let integers = matches!(a, MatrixType::S8 | MatrixType::U8);
        for _ in 0..ROWS * COLUMNS {
            let before = match (integers, random.below(4)) {
                (true, _) => random.bits() as u32,
                (false, 0) => 0,
                (false, 1) => float(random, 8, 23, Manner::Close),
                (false, _) => float(random, 8, 23, manner),
            };
            data.before.extend(before.to_le_bytes());
        }
    }
    data
}
