//! Narrow elements as floats, without conversions: those are slow.

use postlude_ptx::kernel::{Half, Kernel, Packed8, Reg};
use postlude_ptx::target::Sm90a;
use postlude_ptx::types::{B32, F32, U32};

use crate::dtype::DType;

/// The bits of 2^23: a small integer in the lowest bits of the fraction is added to it.
const LARGE_BITS: u32 = 0x4b00_0000;
const LARGE: f32 = 8_388_608.0;
/// `(a & b) | c` of three bits.
const AND_OR: u8 = 0xea;
/// Of two words, a byte of the first, two bytes of zeros and the highest byte of the second; the byte is added.
const BYTE_OF_LARGE: u32 = 0x7440;

/// A kind of narrow elements.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Narrow {
    /// Integers of 4 bits, and what signed ones have been moved up by.
    Nibbles { offset: u32 },
    /// The same of 8 bits.
    Bytes { offset: u32 },
    /// 8-bit floats.
    Floats(Packed8),
}

impl Narrow {
    pub(super) fn of(dtype: DType) -> Narrow {
        match dtype {
            DType::U4 => Narrow::Nibbles { offset: 0 },
            DType::I4 => Narrow::Nibbles { offset: 8 },
            DType::U8 => Narrow::Bytes { offset: 0 },
            DType::I8 => Narrow::Bytes { offset: 128 },
            DType::F8E4M3 => Narrow::Floats(Packed8::E4M3),
            DType::F8E5M2 => Narrow::Floats(Packed8::E5M2),
            DType::F32
            | DType::TF32
            | DType::F16
            | DType::BF16
            | DType::F8E8M0
            | DType::I32
            | DType::Bool
            | DType::B1 => panic!("compiler bug: {dtype} is not widened"),
        }
    }

    pub(super) fn is_integer(self) -> bool {
        match self {
            Narrow::Nibbles { .. } | Narrow::Bytes { .. } => true,
            Narrow::Floats(_) => false,
        }
    }

    /// Eight elements, of integers less a small one.
    pub(super) fn decode<'k>(
        self,
        k: Kernel<'k, Sm90a>,
        words: &[Reg<'k, B32>],
        less: Option<Reg<'k, F32>>,
    ) -> Vec<Reg<'k, F32>> {
        match self {
            Narrow::Nibbles { offset } => {
                nibbles(k, moved(words[0], offset * 0x1111_1111), (offset, less))
            }
            Narrow::Bytes { offset } => {
                let words = words.iter().map(|word| moved(*word, offset * 0x0101_0101));
                words.flat_map(|word| bytes(k, word, (offset, less))).collect()
            }
            Narrow::Floats(format) => {
                let halves = words.iter().flat_map(|word| k.unpack16(*word));
                halves
                    .flat_map(|pair| k.unpack_halves(Half::F16, k.unpack_float8(format, pair)))
                    .collect()
            }
        }
    }
}

/// Signed integers as unsigned ones that are larger by an offset.
fn moved(word: Reg<'_, B32>, offsets: u32) -> Reg<'_, B32> {
    if offsets == 0 { word } else { word ^ offsets }
}

/// What has to be subtracted of an integer that was added to `large`; exact, for both are whole and small.
fn rest<'k>(
    k: Kernel<'k, Sm90a>,
    large: f32,
    (offset, less): (u32, Option<Reg<'k, F32>>),
) -> Reg<'k, F32> {
    let known = -(large + offset as f32);
    less.map_or_else(|| k.imm(known), |less| k.imm(known) - less)
}

/// Eight integers of 4 bits. Each stays where it is in the fraction, and a power of 16 brings it down.
fn nibbles<'k>(
    k: Kernel<'k, Sm90a>,
    word: Reg<'k, B32>,
    (offset, less): (u32, Option<Reg<'k, F32>>),
) -> Vec<Reg<'k, F32>> {
    let scales = [1.0, 1.0 / 16.0, 1.0 / 256.0, 1.0 / 4096.0_f32];
    let rests = scales.map(|scale| rest(k, LARGE * scale, (offset, less)));
    let halves = [word, (word.cast::<U32>() >> 16).cast()];
    let mut all = Vec::new();
    for half in halves {
        for (place, (scale, rest)) in (0..).zip(scales.into_iter().zip(rests)) {
            let large = k.bits_to_f32(half.lop3(0xf_u32 << (4 * place), LARGE_BITS, AND_OR));
            all.push(if place == 0 { large + rest } else { large.fma(scale, rest) });
        }
    }
    all
}

/// Four integers of 8 bits.
fn bytes<'k>(
    k: Kernel<'k, Sm90a>,
    word: Reg<'k, B32>,
    shift: (u32, Option<Reg<'k, F32>>),
) -> Vec<Reg<'k, F32>> {
    let rest = rest(k, LARGE, shift);
    let byte = |place: u32| {
        k.bits_to_f32(word.permute(LARGE_BITS, k.imm::<B32>(BYTE_OF_LARGE + place))) + rest
    };
    (0..4).map(byte).collect()
}
