//! An operand that no tensor map describes: the load warpgroup's threads read it, whatever its strides.
//!
//! A thread brings in chunks of eight elements along the contraction, 16 bytes of a swizzled row. Its warp reads along
//! whichever side lies without gaps.

use postlude_ptx::kernel::{Kernel, Reg, SharedAddress};
use postlude_ptx::modifier::LoadCache;
use postlude_ptx::target::Sm90a;
use postlude_ptx::types::{B16, B32, U32};

use crate::target::sm90::plan::{MOVED_DEPTH, OperandLoad};

use super::super::memory::Memory;
use super::part::{LINE_BYTES, Part, Piece};

/// Elements of a chunk.
const CHUNK: u32 = 8;
/// Chunks of a row.
const CHUNKS: u32 = MOVED_DEPTH / CHUNK;
/// Chunks that a thread asks for before it stores the first.
const AT_ONCE: u32 = 2;
/// Threads of the load warpgroup, and warps.
const THREADS: u32 = 128;
const WARPS: u32 = 4;

pub(crate) struct Elements<'a, 'k> {
    k: Kernel<'k, Sm90a>,
    part: Part,
    memory: &'a Memory<'k>,
    /// Rows of A or columns of B, and the contraction.
    limits: [Reg<'k, U32>; 2],
    warp: Reg<'k, U32>,
    lane: Reg<'k, U32>,
}

impl<'a, 'k> Elements<'a, 'k> {
    /// Of memory; `thread` counts in the load warpgroup.
    pub(super) fn new(
        k: Kernel<'k, Sm90a>,
        (part, memory): (Part, &'a Memory<'k>),
        limits: [Reg<'k, U32>; 2],
        thread: Reg<'k, U32>,
    ) -> Self {
        let (warp, lane) = (thread >> 5, thread & 31);
        Elements { k, part, memory, limits, warp, lane }
    }

    /// Brings in this thread's chunks of a stage.
    pub(crate) fn bring(&self, stage: SharedAddress<'k>, at: Piece<'k>) {
        let turns = self.part.size * CHUNKS / THREADS;
        let k = self.k;
        k.for_(0, turns, AT_ONCE, |turn| {
            let chunks: Vec<_> =
                (0..AT_ONCE).map(|next| self.read(self.place(turn + next), at)).collect();
            for ([row, chunk], values) in chunks {
                let swizzled = (chunk ^ (row & (CHUNKS - 1))) * (2 * CHUNK);
                let to = stage + self.part.offset + row.mad(LINE_BYTES, swizzled);
                k.store_shared(to, values);
            }
        });
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
        let (row, depth) = (at.first + row, chunk.mad(CHUNK, at.depth));
        let [rows, inner] = self.limits;
        let left = inner.max(depth) - depth;
        let left = left.select(0, row.lt(rows));
        let first = self.memory.element(k, (at.batch, row, depth));
        let values: Vec<Reg<'k, B16>> = (0..CHUNK)
            .map(|element| {
                let from = self.memory.beyond(first, element).pointer();
                let inside = left.gt(element);
                let [value] = k.load_global_if(inside, from, LoadCache::ReadOnly, 0_u16);
                value
            })
            .collect();
        let pairs: Vec<Reg<'k, B32>> =
            values.chunks_exact(2).map(|pair| k.pack16(pair[0], pair[1])).collect();
        (place, [pairs[0], pairs[1], pairs[2], pairs[3]])
    }
}
