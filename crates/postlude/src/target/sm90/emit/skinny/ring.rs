//! A warp's ring: chunks of K that its lanes copy into shared memory, each what it needs itself.
//!
//! In: rows of A and columns of B whose elements along K lie without gaps. Out: chunks in the order of K, every eighth of which
//! is this warp's. A lane reads what it copied, so that nothing is waited for but the copies.
//! Invariant: behind the end of K there are zeros, and nothing is read.

use postlude_ptx::kernel::{GlobalPointer, Kernel, Reg, SharedAddress, Var};
use postlude_ptx::target::Sm90a;
use postlude_ptx::types::{B32, U32, U64};

use crate::target::sm90::emit::fragment::Fragment;
use crate::target::sm90::emit::operand::Given;
use crate::target::sm90::emit::parameters::Parameters;
use crate::target::sm90::emit::plan::Plan;
use crate::target::sm90::emit::tile_scheduler::{WorkTile, up};
use crate::target::sm90::plan::{
    CHUNK_BYTES, MMA_COLUMNS, MMA_ROWS, PIECE_BYTES, PIECES_BYTES, SKINNY_WARPS, Skinny,
};

/// A warp's ring.
pub(super) struct WarpRing<'a, 'k> {
    k: Kernel<'k, Sm90a>,
    plan: &'a Plan<'a>,
    parameters: &'a Parameters<'k>,
    shape: Skinny,
    /// Parts of a chunk's K, one behind the other, of each of which a lane has elements side by side.
    parts: u32,
    /// The warp's number, and the lane's place in a column: a row of the fragment, and one of its four lanes.
    warp: Reg<'k, U32>,
    row: Reg<'k, U32>,
    quarter: Reg<'k, U32>,
    /// The lane's first piece of the first chunk, and the warp's first byte.
    lane_first: SharedAddress<'k>,
    first: SharedAddress<'k>,
}

/// A chunk in the ring: bytes from the ring's first to its.
pub(super) struct Chunk<'k> {
    bytes: Reg<'k, U32>,
    first: SharedAddress<'k>,
}

impl<'k> Chunk<'k> {
    /// What lies behind the lanes' pieces.
    pub(super) fn words(&self, shape: Skinny) -> SharedAddress<'k> {
        self.first + self.bytes + shape.pieces() * PIECES_BYTES
    }
}

/// A tile's chunks of a warp.
pub(super) struct Stream<'r, 'a, 'k> {
    ring: &'r WarpRing<'a, 'k>,
    /// The next piece of each of the lane's columns and rows.
    columns: Vec<Var<'k, U64>>,
    rows: Vec<Var<'k, U64>>,
    /// Chunks of all warps.
    pub(super) chunks: Reg<'k, U32>,
}

impl<'a, 'k> WarpRing<'a, 'k> {
    pub(super) fn new(
        (k, plan, parameters): (Kernel<'k, Sm90a>, &'a Plan<'a>, &'a Parameters<'k>),
        shape: Skinny,
        parts: u32,
        [warp, lane]: [Reg<'k, U32>; 2],
    ) -> Self {
        let bytes = plan.schedule.stages * shape.chunk_bytes();
        let first = k.region(&plan.stages) + warp * bytes;
        let (row, quarter) = (Fragment::row_in_warp(lane), Fragment::lane_in_row(lane));
        let lane_first = first + lane * PIECE_BYTES;
        WarpRing { k, plan, parameters, shape, parts, warp, row, quarter, lane_first, first }
    }

    /// Elements of a lane in a part of a chunk.
    fn elements(&self) -> u32 {
        self.shape.depth() / self.parts / Fragment::LANES_OF_ROW as u32
    }

    /// Begins a tile: its first chunks are on their way.
    pub(super) fn begin<'r>(&'r self, work_tile: &WorkTile<'k>) -> Stream<'r, 'a, 'k> {
        let (k, shape) = (self.k, self.shape);
        let first = |operand: usize, row: Reg<'k, U32>, bytes: [u32; 2]| {
            let Given::Memory(memory) = &self.parameters.operands[operand].given else {
                panic!("compiler bug: warps load what lies in memory")
            };
            let from = memory.element(k, (work_tile.batch, row, k.imm(0))).pointer();
            let beyond = self.warp.mad(bytes[0], self.quarter * bytes[1]);
            k.var(from.register() + k.widen(beyond))
        };
        // Beyond the edge the last one is read again.
        let of_product = 2 * self.plan.schedule.width() / MMA_COLUMNS;
        let column = |number: u32| {
            let (product, number) = (number / of_product, number % of_product);
            let column = work_tile.column + self.row + number * (MMA_COLUMNS / 2);
            let column = column.min(self.parameters.columns.max(1) - 1);
            first(1 + product as usize, column, [CHUNK_BYTES, PIECE_BYTES / self.parts])
        };
        let row = |group: u32| {
            let row = work_tile.row + self.row + group * MMA_ROWS;
            let row = row.min(self.parameters.rows.max(1) - 1);
            first(0, row, [shape.row_bytes(), self.elements() * shape.row_bits / 8])
        };
        let stream = Stream {
            ring: self,
            columns: (0..2 * shape.blocks).map(column).collect(),
            rows: (0..shape.groups).map(row).collect(),
            chunks: up(self.parameters.inner, shape.depth()),
        };
        for (stage, number) in (0..).zip(stream.numbers(0)) {
            stream.copy(number, &stream.stage(stage));
        }
        stream
    }

    /// The lane's words of both columns of a block, in a part of a chunk.
    pub(super) fn column(
        &self,
        chunk: &Chunk<'k>,
        block: u32,
        part: u32,
    ) -> [Vec<Reg<'k, B32>>; 2] {
        let at = |half: u32| {
            let piece = (2 * block + half) * PIECES_BYTES + part * (PIECE_BYTES / self.parts);
            self.lane_first + chunk.bytes + piece
        };
        [0, 1].map(|half| match self.parts {
            1 => self.k.load_shared::<B32, 4>(at(half)).to_vec(),
            _ => self.k.load_shared::<B32, 2>(at(half)).to_vec(),
        })
    }

    /// The lane's words of the row of a group, in a part of a chunk.
    pub(super) fn row(&self, chunk: &Chunk<'k>, group: u32, part: u32) -> Vec<Reg<'k, B32>> {
        let each = self.shape.row_pieces() / self.parts;
        let pieces = part * each..(part + 1) * each;
        let words = pieces.flat_map(|piece| {
            let place = 2 * self.shape.blocks + group * self.shape.row_pieces() + piece;
            self.k.load_shared::<B32, 4>(self.lane_first + chunk.bytes + place * PIECES_BYTES)
        });
        words.collect()
    }
}

impl<'k> Stream<'_, '_, 'k> {
    /// The numbers of the first chunks, as many as the ring holds and some more.
    pub(super) fn numbers(&self, more: u32) -> impl Iterator<Item = Reg<'k, U32>> {
        let (stages, warp) = (self.ring.plan.schedule.stages, self.ring.warp);
        (0..stages + more).map(move |stage| warp + stage * SKINNY_WARPS)
    }

    /// Where a stage's chunk lies.
    pub(super) fn stage(&self, stage: u32) -> Chunk<'k> {
        let WarpRing { k, shape, first, .. } = *self.ring;
        Chunk { bytes: k.imm(stage * shape.chunk_bytes()), first }
    }

    /// Runs `body` for every chunk of this warp, and `beside` for the number and the place of the one that is copied behind it.
    pub(super) fn for_each(
        &self,
        body: impl FnOnce(&Chunk<'k>),
        beside: impl FnOnce(Reg<'k, U32>, &Chunk<'k>),
    ) {
        let WarpRing { k, plan, shape, warp, first, .. } = *self.ring;
        let stages = plan.schedule.stages;
        let bytes = k.var(0);
        k.for_(warp, self.chunks, SKINNY_WARPS, |number| {
            let chunk = Chunk { bytes: bytes.copy(), first };
            k.copy_async_wait(stages - 1);
            // What other lanes left beside their pieces is seen, and what all have read may be overwritten.
            k.warp_sync();
            body(&chunk);
            k.warp_sync();
            let next = number + stages * SKINNY_WARPS;
            self.copy(next, &chunk);
            beside(next, &chunk);
            let behind = chunk.bytes + shape.chunk_bytes();
            bytes.set(k.imm(0).select(behind, behind.eq(stages * shape.chunk_bytes())));
        });
        // Zeros behind the last chunk are written, too.
        k.copy_async_wait(0);
    }

    /// Copies this lane's pieces of a chunk, a group of copies of its own.
    fn copy(&self, number: Reg<'k, U32>, to: &Chunk<'k>) {
        let WarpRing { k, shape, parts, quarter, .. } = *self.ring;
        let inner = self.ring.parameters.inner;
        let elements = self.ring.elements();
        let behind = number * shape.depth();
        // Sizes that are known take a third of the instructions.
        k.if_else(
            (behind + shape.depth()).le(inner),
            || self.copy_pieces(to, &|_, _| None),
            || {
                k.if_(number.lt(self.chunks), || {
                    let before = quarter.mad(elements, behind);
                    let left = |part: u32| {
                        let before = before + part * (shape.depth() / parts);
                        (inner.max(before) - before).min(elements)
                    };
                    let left: Vec<Reg<'k, U32>> = (0..parts).map(left).collect();
                    // A lane's bytes, an element's bits being a power of two. Beside narrow columns, which end with all elements
                    // of a lane, so does each piece of a row.
                    self.copy_pieces(to, &|part, bits| {
                        Some((left[part as usize] << bits.trailing_zeros()) >> 3)
                    });
                });
            },
        );
        for (all, bytes) in [(&self.columns, CHUNK_BYTES), (&self.rows, shape.row_bytes())] {
            for from in all {
                from.set(from.get() + u64::from(SKINNY_WARPS * bytes));
            }
        }
        k.copy_async_commit();
    }

    /// The same of as many bytes as `read` says for a part of the chunk and the bits that a piece has of each of its elements.
    fn copy_pieces(&self, to: &Chunk<'k>, read: &dyn Fn(u32, u32) -> Option<Reg<'k, U32>>) {
        let WarpRing { k, shape, parts, lane_first, .. } = *self.ring;
        let lane_to = lane_first + to.bytes;
        let pointer = |from: &Var<'k, U64>| GlobalPointer::from_register(from.get());
        let each = PIECE_BYTES / parts;
        for (place, from) in (0..).zip(&self.columns) {
            for part in 0..parts {
                let from = pointer(from).offset(i64::from(part * CHUNK_BYTES / parts));
                let to = lane_to + (place * PIECES_BYTES + part * each);
                k.copy_async(to, from, each, read(part, shape.bits));
            }
        }
        let pieces = shape.row_pieces();
        for (group, from) in (0..).zip(&self.rows) {
            for piece in 0..pieces {
                let part = piece * parts / pieces;
                let within = piece - part * pieces / parts;
                let behind = part * shape.row_bytes() / parts + within * PIECE_BYTES;
                let to = lane_to + (2 * shape.blocks + group * pieces + piece) * PIECES_BYTES;
                let from = pointer(from).offset(behind.into());
                k.copy_async(to, from, PIECE_BYTES, read(part, shape.row_bits * parts / pieces));
            }
        }
    }
}
