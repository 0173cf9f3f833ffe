//! Narrow elements as floats, without conversions: those are slow.

use postlude_ptx::kernel::{Half, Kernel, Packed8, Reg};
use postlude_ptx::target::Sm90a;
use postlude_ptx::types::{B32, BF16x2, F16x2, F32, U32};

use crate::dtype::DType;
use crate::target::sm90::emit::fragment::Fragment;

/// The bits of 2^23: a small integer in the lowest bits of the fraction is added to it.
const LARGE_BITS: u32 = 0x4b00_0000;
const LARGE: f32 = 8_388_608.0;
/// `(a & b) ^ c` of three bits.
const AND_XOR: u8 = 0x6a;
/// `c ? a : b` of three bits.
const SELECT: u8 = 0xe4;
/// 1 and 1/16 of half precision.
const ONE_AND_SIXTEENTH: u32 = 0x2c00_3c00;
/// What narrow integers are multiplied by where sums are scaled: 16-bit arithmetic holds all of 8 bits as the fraction of a
/// subnormal bf16, and no power of two of that type makes whole numbers of those.
pub(crate) const SIXTY_FOURTH: f32 = 1.0 / 64.0;
/// 2^127 and 2^123 of bf16: 64ths of the lowest bit of a word, and of the fifth.
const TO_64THS: [u32; 2] = [0x7f00_7f00, 0x7d00_7f00];
/// Of a word and zeros, two neighbouring bytes, each in its half; their place is added to both.
const BYTES_OF_HALVES: u32 = 0x4140;
/// Of two words, a byte of the first, two bytes of zeros and the highest byte of the second; the byte is added.
const BYTE_OF_LARGE: u32 = 0x7440;

/// A kind of narrow elements.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Narrow {
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
            | DType::I64
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

    /// What signed integers have been moved up by.
    pub(super) fn offset(self) -> u32 {
        match self {
            Narrow::Nibbles { offset } | Narrow::Bytes { offset } => offset,
            Narrow::Floats(_) => 0,
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
                let halves = [words[0], (words[0].cast::<U32>() >> 16).cast()];
                halves.into_iter().flat_map(|half| nibbles(k, half, (offset, less))).collect()
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

/// Four integers of 4 bits, the lowest of a word. Each stays where it is in the fraction, and a power of 16 brings it down.
fn nibbles<'k>(
    k: Kernel<'k, Sm90a>,
    word: Reg<'k, B32>,
    (offset, less): (u32, Option<Reg<'k, F32>>),
) -> [Reg<'k, F32>; 4] {
    std::array::from_fn(|place| {
        let bits = 4 * place as u32;
        let scale = 1.0 / (1_u32 << bits) as f32;
        let rest = rest(k, LARGE * scale, (offset, less));
        let large = word.lop3(0xf_u32 << bits, LARGE_BITS ^ (offset << bits), AND_XOR);
        let large = k.bits_to_f32(large);
        if place == 0 { large + rest } else { large.fma(scale, rest) }
    })
}

/// Four integers of 8 bits.
fn bytes<'k>(
    k: Kernel<'k, Sm90a>,
    word: Reg<'k, B32>,
    shift: (u32, Option<Reg<'k, F32>>),
) -> [Reg<'k, F32>; 4] {
    std::array::from_fn(|place| byte(k, word, k.imm(BYTE_OF_LARGE + place as u32), shift))
}

/// The integer of 8 bits that a selector puts into the lowest byte of 2^23.
fn byte<'k>(
    k: Kernel<'k, Sm90a>,
    word: Reg<'k, B32>,
    selector: Reg<'k, U32>,
    shift: (u32, Option<Reg<'k, F32>>),
) -> Reg<'k, F32> {
    k.bits_to_f32(word.permute(LARGE_BITS, selector.cast::<B32>())) + rest(k, LARGE, shift)
}

/// Which elements a lane has of 16 of a row, where the lanes of a quad hold those of wgmma's A: its pair of the first eight,
/// and the same of the others.
pub(crate) struct Picks<'k> {
    k: Kernel<'k, Sm90a>,
    /// Of 4-bit elements, picks the pair's byte of one word, and of another.
    pair: Reg<'k, U32>,
    /// Of 8-bit elements, the first of the pair in its word: its place.
    first: Reg<'k, U32>,
}

impl<'k> Picks<'k> {
    /// For the lane of this number.
    pub(crate) fn new(k: Kernel<'k, Sm90a>, lane: Reg<'k, U32>) -> Self {
        let pair = Fragment::lane_in_row(lane).mad(0x1111, k.imm(0x4040));
        Picks { k, pair, first: Fragment::pair_of_half(lane) * 2 }
    }

    /// The same of 4 bits, less a small integer, times a scale that the type holds: pairs, in 16-bit arithmetic.
    pub(crate) fn scaled_nibbles(
        &self,
        (offset, half): (u32, Half),
        words: [Reg<'k, B32>; 2],
        less: Option<Reg<'k, F32>>,
        scale: Option<Reg<'k, F32>>,
    ) -> [Reg<'k, B32>; 2] {
        let k = self.k;
        // Both bytes, twice: the upper half of a pair is made of the upper copy.
        let both = words[0].permute(words[1], self.pair.cast::<B32>());
        let scale = scale.map(|scale| k.pack_halves(half, scale, scale));
        let rests = |large: [f32; 2]| {
            let [low, high] = large.map(|large| rest(k, large, (offset, less)));
            k.pack_halves(half, low, high)
        };
        let shifted = |word: Reg<'k, B32>, bits: u32| (word.cast::<U32>() >> bits).cast::<B32>();
        match half {
            Half::F16 => {
                // The second of a pair stays where it is in the fraction of 2^10.
                let (mask, large) = (0x00f0_000f, 0x6400_6400 ^ (offset * 0x0010_0001));
                let rest = rests([1024.0, 64.0]).cast::<F16x2>();
                [both, shifted(both, 8)].map(|word| {
                    let large = word.lop3(mask, large, AND_XOR).cast::<F16x2>();
                    let whole = large.fma(k.imm::<B32>(ONE_AND_SIXTEENTH).cast::<F16x2>(), rest);
                    scale.map_or(whole, |scale| whole * scale.cast::<F16x2>()).cast()
                })
            }
            Half::BF16 => {
                let (mask, large) = (0x000f_000f, 0x4300_4300 ^ (offset * 0x0001_0001));
                let rest = rests([128.0; 2]).cast::<BF16x2>();
                let both = both.lop3(shifted(both, 4), 0xffff_u32, SELECT);
                [both, shifted(both, 8)].map(|word| {
                    let whole = word.lop3(mask, large, AND_XOR).cast::<BF16x2>() + rest;
                    scale.map_or(whole, |scale| whole * scale.cast::<BF16x2>()).cast()
                })
            }
        }
    }

    /// Integers in bf16, less a small one, as 64ths: pairs.
    pub(crate) fn sixty_fourths(
        &self,
        narrow: Narrow,
        words: [Reg<'k, B32>; 2],
        less: Option<Reg<'k, F32>>,
    ) -> [Reg<'k, B32>; 2] {
        let k = self.k;
        let rest = |offset: u32| {
            let rest = rest(k, 0.0, (offset, less)) * SIXTY_FOURTH;
            k.pack_halves(Half::BF16, rest, rest).cast::<BF16x2>()
        };
        let whole = |bits: Reg<'k, B32>, scales: u32, rest: Reg<'k, BF16x2>| {
            bits.cast::<BF16x2>().fma(k.imm::<B32>(scales).cast::<BF16x2>(), rest).cast()
        };
        match narrow {
            Narrow::Nibbles { offset } => {
                let (both, rest) =
                    (words[0].permute(words[1], self.pair.cast::<B32>()), rest(offset));
                // The second of a pair stays where it is in the upper copy.
                let (mask, moved) = (0x00f0_000f_u32, offset * 0x0010_0001);
                [both, (both.cast::<U32>() >> 8).cast::<B32>()]
                    .map(|both| whole(both.lop3(mask, moved, AND_XOR), TO_64THS[1], rest))
            }
            Narrow::Bytes { offset } => {
                let (selector, rest) =
                    (self.first.mad(0x0101, k.imm(BYTES_OF_HALVES)), rest(offset));
                words.map(|word| {
                    let pair = moved(word, offset * 0x0101_0101).permute(0, selector.cast::<B32>());
                    whole(pair, TO_64THS[0], rest)
                })
            }
            Narrow::Floats(_) => panic!("compiler bug: floats are no 64ths"),
        }
    }

    /// The four elements: of 4 bits, from eight and the next eight; of 8 bits, from the lane's four of the first eight, and of the
    /// others.
    pub(crate) fn decode(
        &self,
        narrow: Narrow,
        words: [Reg<'k, B32>; 2],
        less: Option<Reg<'k, F32>>,
    ) -> Vec<Reg<'k, F32>> {
        let k = self.k;
        match narrow {
            Narrow::Nibbles { offset } => {
                let word = words[0].permute(words[1], self.pair.cast::<B32>());
                nibbles(k, word, (offset, less)).to_vec()
            }
            Narrow::Bytes { offset } => {
                let selectors = [0, 1].map(|place| self.first + (BYTE_OF_LARGE + place));
                let of_word = |word: Reg<'k, B32>| {
                    let word = moved(word, offset * 0x0101_0101);
                    selectors.map(|selector| byte(k, word, selector, (offset, less)))
                };
                words.into_iter().flat_map(of_word).collect()
            }
            Narrow::Floats(format) => {
                let of_word = |word: Reg<'k, B32>| {
                    let pair = k.truncate_u16(word.cast::<U32>() >> (self.first * 8));
                    k.unpack_halves(Half::F16, k.unpack_float8(format, pair.cast()))
                };
                words.into_iter().flat_map(of_word).collect()
            }
        }
    }
}
