//! The rings of a CTA's warps: chunks of K that lanes copy into shared memory, whole lines at a time.
//!
//! In: rows of A and columns of B whose elements along K lie without gaps. Out: chunks of a part of K in their order. The warps
//! of a part copy its rows of A together, and meet at every chunk; each copies its own columns of B.
//! Columns lie swizzled, pieces of 16 bytes at their number xor the column's in its eight; rows of A lie as lanes read them.
//! Invariant: behind the end of K there are zeros, and nothing is read.

use postlude_ptx::kernel::{GlobalPointer, Kernel, Reg, SharedAddress, Var};
use postlude_ptx::target::Sm90a;
use postlude_ptx::types::{B32, Pred, U32, U64};

use crate::target::sm90::emit::fragment::Fragment;
use crate::target::sm90::emit::operand::Given;
use crate::target::sm90::emit::parameters::Parameters;
use crate::target::sm90::emit::plan::Plan;
use crate::target::sm90::emit::tile_scheduler::{WorkTile, up};
use crate::target::sm90::plan::{
    CHUNK_BYTES, MMA_COLUMNS, MMA_ROWS, PIECE_BYTES, PIECES_BYTES, Skinny, WARP_COLUMNS,
};

/// Pieces of a column in a chunk, and columns that a warp copies at a time.
const PIECES: u32 = CHUNK_BYTES / PIECE_BYTES;
const COLUMNS_AT_ONCE: u32 = PIECES_BYTES / CHUNK_BYTES;
/// The first named barrier of those of the parts of K.
const BARRIER: u32 = 11;

/// A warp's place among those of its CTA.
#[derive(Clone, Copy)]
pub(super) struct WarpPlace<'k> {
    /// Its part of K, and its columns' place in the tile, in warps.
    pub(super) part: Reg<'k, U32>,
    pub(super) beside: Reg<'k, U32>,
    pub(super) lane: Reg<'k, U32>,
}

impl<'k> WarpPlace<'k> {
    pub(super) fn new(shape: Skinny, warp: Reg<'k, U32>, lane: Reg<'k, U32>) -> Self {
        let part = warp >> shape.across.trailing_zeros();
        WarpPlace { part, beside: warp & (shape.across - 1), lane }
    }

    /// The first of its columns in the tile.
    pub(super) fn column(&self) -> Reg<'k, U32> {
        self.beside * WARP_COLUMNS
    }

    /// A lane's column among eight: lanes that read at a time have columns whose pieces lie in different banks.
    pub(super) fn column_in_eight(&self) -> Reg<'k, U32> {
        let row = Fragment::row_in_warp(self.lane);
        (row & 1).mad(MMA_ROWS / 2, row >> 1)
    }
}

/// A warp's ring.
pub(super) struct WarpRing<'a, 'k> {
    k: Kernel<'k, Sm90a>,
    plan: &'a Plan<'a>,
    parameters: &'a Parameters<'k>,
    shape: Skinny,
    /// Units of a chunk's K, one behind the other, of each of which a lane has elements side by side.
    units: u32,
    warp: WarpPlace<'k>,
    /// Where the part's rows and the warp's columns begin in the first stage.
    rows: SharedAddress<'k>,
    columns: SharedAddress<'k>,
    /// Where the lane puts its piece of every other four columns that the warp copies, and where it finds its piece of each unit.
    to_columns: [SharedAddress<'k>; 2],
    from_columns: Vec<SharedAddress<'k>>,
    from_rows: SharedAddress<'k>,
}

/// A chunk in the ring: bytes from the first stage to its.
pub(super) struct Chunk<'k> {
    stage: Reg<'k, U32>,
    columns: SharedAddress<'k>,
}

impl<'k> Chunk<'k> {
    /// What lies behind the warp's columns.
    pub(super) fn words(&self) -> SharedAddress<'k> {
        self.columns + self.stage + WARP_COLUMNS * CHUNK_BYTES
    }
}

/// A lane's copy of a piece of a row of A: from where, and to where in the first stage.
struct RowCopy<'k> {
    from: Var<'k, U64>,
    to: SharedAddress<'k>,
}

/// A tile's chunks of a warp.
pub(super) struct Stream<'r, 'a, 'k> {
    ring: &'r WarpRing<'a, 'k>,
    columns: Vec<Var<'k, U64>>,
    rows: Vec<RowCopy<'k>>,
    /// The warp's first chunk, and the one behind the last of the tile's or its slice's.
    first: Reg<'k, U32>,
    end: Reg<'k, U32>,
}

impl<'a, 'k> WarpRing<'a, 'k> {
    pub(super) fn new(
        (k, plan, parameters): (Kernel<'k, Sm90a>, &'a Plan<'a>, &'a Parameters<'k>),
        shape: Skinny,
        units: u32,
        (number, warp): (Reg<'k, U32>, WarpPlace<'k>),
    ) -> Self {
        let lane = warp.lane;
        let region = k.region(&plan.stages);
        let rows = region + warp.part * shape.rows_bytes();
        let columns = region + number.mad(shape.warp_bytes(), k.imm(shape.parts() * shape.rows_bytes()));
        let (line, piece) = (lane / PIECES, lane & (PIECES - 1));
        let four = COLUMNS_AT_ONCE;
        let to_columns = [0, four].map(|more| {
            columns + line.mad(CHUNK_BYTES, (piece ^ (line + more)) * PIECE_BYTES)
        });
        // A unit has a piece of each of four lanes, or half of one.
        let quarter = Fragment::lane_in_row(lane);
        let own = warp.column_in_eight();
        let (lanes, within) = match units {
            2 => (quarter, k.imm(0)),
            _ => (quarter >> 1, (quarter & 1) * (PIECE_BYTES / 2)),
        };
        let unit = |unit: u32| {
            let piece = lanes + unit * (PIECES / units);
            columns + own.mad(CHUNK_BYTES, (piece ^ own).mad(PIECE_BYTES, within))
        };
        let from_columns = (0..units).map(unit).collect();
        let from_rows = rows + lane * PIECE_BYTES;
        WarpRing { k, plan, parameters, shape, units, warp, rows, columns, to_columns, from_columns, from_rows }
    }

    /// Pieces of a row of A in a chunk, and those of them that a lane reads of a unit.
    fn row_pieces(&self) -> u32 {
        self.shape.row_bytes() / PIECE_BYTES
    }

    fn unit_pieces(&self) -> u32 {
        self.row_pieces() / self.units / Fragment::LANES_OF_ROW as u32
    }

    /// Begins a tile: its first chunks are on their way.
    pub(super) fn begin<'r>(&'r self, work_tile: &WorkTile<'k>) -> Stream<'r, 'a, 'k> {
        let (k, shape) = (self.k, self.shape);
        let chunks = up(self.parameters.inner, shape.depth());
        let range = self.parameters.slices.as_ref().zip(work_tile.slice).map(|(cut, slice)| {
            let each = cut.by_count.divide(chunks + (cut.count - 1));
            let each = chunks.select(each, slice.others.eq(0));
            let first = slice.number * each;
            (first, (first + each).min(chunks))
        });
        let (first, end) = range.unwrap_or_else(|| (k.imm(0), chunks));
        let first = first + self.warp.part;
        let stream = Stream {
            ring: self,
            columns: self.column_pointers(work_tile, first),
            rows: self.row_copies(work_tile, first),
            first,
            end,
        };
        for (stage, number) in (0..).zip(stream.numbers(0)) {
            stream.copy(number, stream.stage(stage).stage);
        }
        stream
    }

    /// Where an operand's row begins in a batch.
    fn row(&self, operand: usize, work_tile: &WorkTile<'k>, row: Reg<'k, U32>) -> Reg<'k, U64> {
        let Given::Memory(memory) = &self.parameters.operands[operand].given else {
            panic!("compiler bug: warps load what lies in memory")
        };
        memory.element(self.k, (work_tile.batch, row, self.k.imm(0))).pointer().register()
    }

    /// The lane's piece of each column that it copies. Beyond the edge the last column is read again.
    fn column_pointers(&self, work_tile: &WorkTile<'k>, first: Reg<'k, U32>) -> Vec<Var<'k, U64>> {
        let (k, lane) = (self.k, self.warp.lane);
        let (width, products) = (self.plan.schedule.width(), self.shape.columns() / self.plan.schedule.width());
        let beyond = k.widen(first.mad(CHUNK_BYTES, (lane & (PIECES - 1)) * PIECE_BYTES));
        let last = self.parameters.columns.max(1) - 1;
        let pointer = |step: u32| {
            let in_tile = self.warp.column() + lane / PIECES + step * COLUMNS_AT_ONCE;
            let of_product = |product: u32| {
                let column = work_tile.column + (in_tile - product * width);
                self.row(1 + product as usize, work_tile, column.min(last))
            };
            let begins = (1..products).fold(of_product(0), |all, product| {
                of_product(product).select(all, in_tile.ge(product * width))
            });
            k.var(begins + beyond)
        };
        (0..WARP_COLUMNS / COLUMNS_AT_ONCE).map(pointer).collect()
    }

    /// The lane's copies of rows of A, of which the warps of a part of K have as many each. Rows that A does not have are its
    /// last one again.
    fn row_copies(&self, work_tile: &WorkTile<'k>, first: Reg<'k, U32>) -> Vec<RowCopy<'k>> {
        let (k, shape) = (self.k, self.shape);
        let (pieces, each) = (self.row_pieces(), self.unit_pieces());
        let number = self.warp.beside.mad(32, self.warp.lane);
        let (row, piece) = (number / pieces, number & (pieces - 1));
        let (unit, of_unit) = (piece / (4 * each), piece & (4 * each - 1));
        let (quarter, within) = (of_unit / each, of_unit & (each - 1));
        let group_pieces = self.units * each;
        let last = self.parameters.rows.max(1) - 1;
        let at_once = 32 * shape.across / pieces;
        let copy = |step: u32| {
            let row = row + step * at_once;
            let (group, in_group) = (row / MMA_ROWS, row & (MMA_ROWS - 1));
            let pieces = group.mad(group_pieces, unit.mad(each, within));
            let lane = in_group.mad(Fragment::LANES_OF_ROW as u32, quarter);
            let to = self.rows + pieces.mad(PIECES_BYTES, lane * PIECE_BYTES);
            let begins = self.row(0, work_tile, (work_tile.row + row).min(last));
            let from = begins + k.widen(first.mad(shape.row_bytes(), piece * PIECE_BYTES));
            RowCopy { from: k.var(from), to }
        };
        (0..shape.rows().div_ceil(at_once)).map(copy).collect()
    }

    /// The lane's words of both columns of a block, in a unit of a chunk.
    pub(super) fn column(
        &self,
        chunk: &Chunk<'k>,
        block: u32,
        unit: u32,
    ) -> [Vec<Reg<'k, B32>>; 2] {
        let first = self.from_columns[unit as usize];
        [0, 1].map(|half| {
            let column = block * MMA_COLUMNS + half * (MMA_COLUMNS / 2);
            let at = first + chunk.stage + column * CHUNK_BYTES;
            match self.units {
                2 => self.k.load_shared::<B32, 4>(at).to_vec(),
                _ => self.k.load_shared::<B32, 2>(at).to_vec(),
            }
        })
    }

    /// The lane's words of the row of a group, in a unit of a chunk.
    pub(super) fn row_words(&self, chunk: &Chunk<'k>, group: u32, unit: u32) -> Vec<Reg<'k, B32>> {
        let each = self.unit_pieces();
        let first = (group * self.units + unit) * each;
        let words = (first..first + each).flat_map(|piece| {
            self.k.load_shared::<B32, 4>(self.from_rows + chunk.stage + piece * PIECES_BYTES)
        });
        words.collect()
    }

    /// The warps that have the same part of K meet.
    fn sync(&self) {
        match self.shape.across {
            1 => self.k.warp_sync(),
            warps => self.k.sync_named(self.warp.part + BARRIER, 32 * warps),
        }
    }
}

impl<'k> Stream<'_, '_, 'k> {
    /// Whether there is a chunk.
    pub(super) fn exists(&self) -> Reg<'k, Pred> {
        self.first.lt(self.end)
    }

    /// The numbers of the first chunks, one less than the ring holds and some more.
    pub(super) fn numbers(&self, more: u32) -> impl Iterator<Item = Reg<'k, U32>> {
        let (stages, parts) = (self.ring.plan.schedule.stages, self.ring.shape.parts());
        (0..stages - 1 + more).map(move |stage| self.first + stage * parts)
    }

    /// Where a stage's chunk lies.
    pub(super) fn stage(&self, stage: u32) -> Chunk<'k> {
        let &WarpRing { k, shape, columns, .. } = self.ring;
        Chunk { stage: k.imm(stage * shape.stage_bytes()), columns }
    }

    /// Runs `body` for every chunk of this warp, after `before` for the number and the place of the one that is copied behind
    /// it.
    pub(super) fn for_each(
        &self,
        before: impl FnOnce(Reg<'k, U32>, &Chunk<'k>),
        body: impl FnOnce(&Chunk<'k>),
    ) {
        let &WarpRing { k, plan, shape, columns, .. } = self.ring;
        let (ahead, stage) = (plan.schedule.stages - 1, shape.stage_bytes());
        let [now, filled] = [0, ahead].map(|number| k.var(number * stage));
        let turn = |at: &Var<'k, U32>| {
            let next = at.get() + stage;
            at.set(k.imm(0).select(next, next.eq(plan.schedule.stages * stage)));
        };
        k.for_(self.first, self.end, shape.parts(), |number| {
            k.copy_async_wait(ahead - 1);
            // What other lanes copied is seen, and what all have read may be overwritten.
            self.ring.sync();
            let next = Chunk { stage: filled.copy(), columns };
            let behind = number + ahead * shape.parts();
            self.copy(behind, next.stage);
            before(behind, &next);
            body(&Chunk { stage: now.copy(), columns });
            turn(&now);
            turn(&filled);
        });
        // Zeros behind the last chunk are written, too.
        k.copy_async_wait(0);
    }

    /// Copies this lane's pieces of a chunk, a group of copies of its own.
    fn copy(&self, number: Reg<'k, U32>, stage: Reg<'k, U32>) {
        let &WarpRing { k, shape, .. } = self.ring;
        let inner = self.ring.parameters.inner;
        let behind = number * shape.depth();
        // Sizes that are known take a third of the instructions.
        k.if_else(
            number.lt(self.end) & (behind + shape.depth()).le(inner),
            || self.copy_pieces(stage, &|_| None),
            || {
                k.if_(number.lt(self.end), || {
                    let lane = self.ring.warp.lane;
                    let left = |pieces: u32, bits: u32| {
                        let elements = shape.depth() / pieces;
                        let before = (lane & (pieces - 1)).mad(elements, behind);
                        let left = (inner.max(before) - before).min(elements);
                        // An element's bits are a power of two.
                        Some((left << bits.trailing_zeros()) >> 3)
                    };
                    self.copy_pieces(stage, &|is_row| match is_row {
                        true => left(self.ring.row_pieces(), shape.row_bits),
                        false => left(PIECES, shape.bits),
                    });
                });
            },
        );
        let parts = shape.parts();
        for from in &self.columns {
            from.set(from.get() + u64::from(parts * CHUNK_BYTES));
        }
        for RowCopy { from, .. } in &self.rows {
            from.set(from.get() + u64::from(parts * shape.row_bytes()));
        }
        k.copy_async_commit();
    }

    /// The same of as many bytes as `read` says for a piece of a row, or of a column.
    fn copy_pieces(&self, stage: Reg<'k, U32>, read: &dyn Fn(bool) -> Option<Reg<'k, U32>>) {
        let &WarpRing { k, shape, warp, to_columns, .. } = self.ring;
        let pointer = |from: &Var<'k, U64>| GlobalPointer::from_register(from.get());
        let to = to_columns.map(|to| to + stage);
        let size = read(false);
        for (step, from) in (0..).zip(&self.columns) {
            let to = to[step as usize % 2] + step * PIECES_BYTES;
            k.copy_async(to, pointer(from), PIECE_BYTES, size);
        }
        let (size, at_once) = (read(true), 32 * shape.across / self.ring.row_pieces());
        let rows = warp.beside.mad(32, warp.lane) / self.ring.row_pieces();
        for RowCopy { from, to } in &self.rows {
            let copy = || k.copy_async(*to + stage, pointer(from), PIECE_BYTES, size);
            // More lanes than pieces of all rows.
            if at_once > shape.rows() { k.if_(rows.lt(shape.rows()), copy) } else { copy() }
        }
    }
}
