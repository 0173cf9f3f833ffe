//! An operand that no tensor map describes: the load warpgroup's threads read it, whatever its strides.
//!
//! A thread brings in chunks of elements along the contraction, 16 bytes of a swizzled row. Its warp reads along whichever
//! side lies without gaps.

use postlude_ptx::kernel::{GlobalPointer, Kernel, Reg, SharedAddress};
use postlude_ptx::modifier::LoadCache;
use postlude_ptx::target::Sm90a;
use postlude_ptx::types::{B16, B32, Pred, Scalar, U32};

use crate::dtype::TF32_BITS;
use crate::target::sm90::plan::OperandLoad;

use super::super::memory::Memory;
use super::part::{LINE_BYTES, Part, Piece};

/// Bytes of a chunk.
const CHUNK_BYTES: u32 = 16;
/// Chunks of a row.
const CHUNKS: u32 = LINE_BYTES / CHUNK_BYTES;
/// Elements that a thread asks for before it stores the first chunk.
const AT_ONCE: u32 = 16;
/// Half of the last bit of an f32 that a tensor core reads.
const TF32_HALF: u32 = 0x1000;
/// What numbers are multiplied by that have no low part, from this one on and below.
const SCALED: f32 = f32::from_bits((127 - 100) << 23);
const LEAST_SCALED: f32 = f32::from_bits((127 - 36) << 23);
const SLIGHTLY_SCALED: f32 = f32::from_bits((127 - 24) << 23);
/// Of two words, the lowest byte of each as the two lowest; and the two lowest bytes of each.
const BYTE_OF_EACH: u32 = 0x0040;
const TWO_OF_EACH: u32 = 0x5410;
/// Threads of the load warpgroup, and warps.
const THREADS: u32 = 128;
const WARPS: u32 = 4;

pub(crate) struct Elements<'a, 'k> {
    k: Kernel<'k, Sm90a>,
    part: Part,
    memory: &'a Memory<'k>,
    /// Rows of A or columns of B.
    size: Reg<'k, U32>,
    warp: Reg<'k, U32>,
    lane: Reg<'k, U32>,
}

impl<'a, 'k> Elements<'a, 'k> {
    /// Of memory; `thread` counts in the load warpgroup.
    pub(super) fn new(
        k: Kernel<'k, Sm90a>,
        (part, memory): (Part, &'a Memory<'k>),
        size: Reg<'k, U32>,
        thread: Reg<'k, U32>,
    ) -> Self {
        let (warp, lane) = (thread >> 5, thread & 31);
        Elements { k, part, memory, size, warp, lane }
    }

    /// Brings in this thread's chunks of a stage.
    pub(crate) fn bring(&self, stage: SharedAddress<'k>, at: Piece<'k>) {
        let turns = self.part.size * CHUNKS / THREADS;
        let (k, at_once) = (self.k, AT_ONCE / self.chunk());
        k.for_(0, turns, at_once, |turn| {
            let chunks: Vec<_> =
                (0..at_once).map(|next| self.read(self.place(turn + next), at)).collect();
            for ([row, chunk], values) in chunks {
                let swizzled = (chunk ^ (row & (CHUNKS - 1))) * CHUNK_BYTES;
                let to = stage + self.part.offset + row.mad(LINE_BYTES, swizzled);
                k.store_shared(to, values);
                if let Some(low) = self.part.low {
                    k.store_shared(to + low, values.map(|value| self.low_part(value)));
                }
            }
        });
    }

    /// Elements of a chunk.
    fn chunk(&self) -> u32 {
        self.part.depth / CHUNKS
    }

    /// The row and the chunk that this thread brings in at a turn.
    fn place(&self, turn: Reg<'k, U32>) -> [Reg<'k, U32>; 2] {
        let unit = turn.mad(WARPS, self.warp);
        match self.part.load {
            OperandLoad::ElementsMnMajor => {
                [(unit / CHUNKS).mad(32, self.lane), unit & (CHUNKS - 1)]
            }
            _ => [unit.mad(32 / CHUNKS, self.lane / CHUNKS), self.lane & (CHUNKS - 1)],
        }
    }

    fn read(
        &self,
        place: [Reg<'k, U32>; 2],
        at: Piece<'k>,
    ) -> ([Reg<'k, U32>; 2], [Reg<'k, B32>; 4]) {
        let (k, [row, chunk]) = (self.k, place);
        let (row, depth) = (at.first + row, chunk.mad(self.chunk(), at.depth));
        let left = at.end.max(depth) - depth;
        let left = left.select(0, row.lt(self.size));
        let first = self.memory.element(k, (at.batch, row, depth));
        if self.part.load == OperandLoad::VectorsKMajor {
            let from = first.pointer();
            return (place, k.load_global_if(left.gt(0), from, LoadCache::ReadOnly, 0_u32));
        }
        let place_of = |element: u32| {
            let from = self.memory.beyond(first, element).pointer();
            (from, left.gt(element))
        };
        let words = match self.chunk() {
            4 => self.words(place_of),
            8 => self.halves(place_of),
            16 => self.bytes(place_of),
            elements => panic!("compiler bug: {elements} elements in 16 bytes"),
        };
        (place, words)
    }

    /// What the tensor core does not read of an f32: TF32 too, and never zero but for zero.
    ///
    /// A part that was zero would make infinity beside it no number. Where there is nothing to add, it is what nothing
    /// would show beside a sum: the number times 2^-100. It has the number's sign: the tensor core reads numbers toward
    /// zero.
    fn low_part(&self, value: Reg<'k, B32>) -> Reg<'k, B32> {
        let k = self.k;
        let number = k.bits_to_f32(value);
        let high = k.bits_to_f32(value & TF32_BITS);
        let rest = number - high;
        let large = number.abs().ge(LEAST_SCALED);
        let nothing = number * k.imm(SCALED).select(SLIGHTLY_SCALED, large);
        let rest = nothing.select(rest, rest.eq(0.0));
        // To nearest: the tensor core drops what is behind.
        let low = k.f32_to_bits(rest).cast::<U32>() + TF32_HALF;
        let finite = number.abs().lt(f32::INFINITY);
        low.cast::<B32>().select(value, finite)
    }

    /// Four elements of 32 bits.
    fn words(
        &self,
        place: impl Fn(u32) -> (GlobalPointer<'k>, Reg<'k, Pred>),
    ) -> [Reg<'k, B32>; 4] {
        [0, 1, 2, 3].map(|element| {
            let (from, inside) = place(element);
            let [value] = self.k.load_global_if(inside, from, LoadCache::ReadOnly, 0_u32);
            value
        })
    }

    /// Eight elements of 16 bits.
    fn halves(
        &self,
        place: impl Fn(u32) -> (GlobalPointer<'k>, Reg<'k, Pred>),
    ) -> [Reg<'k, B32>; 4] {
        let element = |element: u32| {
            let (from, inside) = place(element);
            let [value] = self.k.load_global_if(inside, from, LoadCache::ReadOnly, 0_u16);
            value
        };
        let values: Vec<Reg<'k, B16>> = (0..8).map(element).collect();
        [0, 2, 4, 6].map(|first| self.k.pack16(values[first], values[first + 1]))
    }

    /// Sixteen elements of 8 bits.
    fn bytes(
        &self,
        place: impl Fn(u32) -> (GlobalPointer<'k>, Reg<'k, Pred>),
    ) -> [Reg<'k, B32>; 4] {
        let element = |element: u32| {
            let (from, inside) = place(element);
            self.k.load_global_narrow_if(inside, Scalar::U8, from, LoadCache::ReadOnly)
        };
        let values: Vec<Reg<'k, B32>> = (0..16).map(|place| element(place).cast()).collect();
        [0, 4, 8, 12].map(|first| {
            let selector = self.k.imm::<B32>(BYTE_OF_EACH);
            let pair = |first: usize| values[first].permute(values[first + 1], selector);
            pair(first).permute(pair(first + 2), self.k.imm::<B32>(TWO_OF_EACH))
        })
    }
}
