//! Slots of row-major tiles: a chunk's number is exclusive-ored with the row for rows of 128 bytes, with half the row
//! for 64, with a quarter for 32.

use postlude_ptx::kernel::{Kernel, Reg, SharedAddress};
use postlude_ptx::modifier::Transposition;
use postlude_ptx::types::{F32, Scalar, U32};

use crate::target::sm90::plan::Sm90Schedule;

use super::super::super::chip::EpilogueChip;
use super::super::super::fragment::Fragment;
use super::access::{CHUNK, Floats, SlotAccess};

/// Bytes of two neighbouring groups of 8 columns of 16 bits, or of one of 32 bits: what one access of a warp covers.
const ACCESS_BYTES: u32 = 32;

/// What the number of a chunk is exclusive-ored with: bits of the row's number.
#[derive(Clone, Copy)]
pub(crate) struct Exchange {
    shift: u32,
    mask: u32,
}

impl Exchange {
    /// In rows of so many bytes.
    pub(crate) const fn of(row_bytes: u32) -> Exchange {
        match row_bytes {
            128 => Exchange { shift: 0, mask: 7 },
            64 => Exchange { shift: 1, mask: 3 },
            32 => Exchange { shift: 2, mask: 1 },
            16 => Exchange { shift: 0, mask: 0 },
            _ => panic!("compiler bug: rows of other bytes than chunks are exchanged in"),
        }
    }

    /// In this row.
    pub(crate) fn with<'k, C: EpilogueChip>(
        self,
        k: Kernel<'k, C>,
        row: Reg<'k, U32>,
    ) -> Reg<'k, U32> {
        match (self.shift, self.mask) {
            (_, 0) => k.imm(0),
            (0, mask) => row & mask,
            (shift, mask) => (row >> shift) & mask,
        }
    }

    /// In a row that is known.
    pub(crate) const fn at(self, row: u32) -> u32 {
        (row >> self.shift) & self.mask
    }
}

/// A thread's places, in bytes from a slot's start.
pub(super) struct RowLanes<'k, C> {
    k: Kernel<'k, C>,
    /// Its row of the matrices that one instruction moves.
    matrix: Reg<'k, U32>,
    /// Its own two columns of 32 bits, in the first of its rows.
    pair: Reg<'k, U32>,
    row_bytes: u32,
    /// Its own two columns of 8 bits, in the first of its rows, which have half as many bytes.
    bytes: Reg<'k, U32>,
    /// The same where TMA has filled a slot of an operand.
    loaded_bytes: Option<Reg<'k, U32>>,
}

impl<'k, C: EpilogueChip> RowLanes<'k, C> {
    pub(super) fn new(
        k: Kernel<'k, C>,
        rank: Reg<'k, U32>,
        schedule: &Sm90Schedule,
        loads_bytes: bool,
    ) -> RowLanes<'k, C> {
        let row_bytes = schedule.epilogue_tile * 2;
        let (warp, lane) = (rank >> 5, rank & 31);
        let exchange = |row: Reg<'k, U32>, row_bytes: u32| Exchange::of(row_bytes).with(k, row);
        let place = |row: Reg<'k, U32>, chunk: Reg<'k, U32>| {
            row * row_bytes + (chunk ^ exchange(row, row_bytes)) * CHUNK
        };
        // Lane 8i + j names row j of matrix i: 0 and 1 are rows 0..8 and 8..16, 2 and 3 the next 8 columns.
        let (within, matrix) = (lane & 7, lane >> 3);
        let matrix_row = warp.mad(Fragment::WARP_ROWS, (matrix & 1).mad(8, within));
        let own_row = Fragment::row(warp, lane);
        let pair = place(own_row, Fragment::half_of_group(lane)) + Fragment::pair_of_half(lane) * 8;
        let narrow = row_bytes / 2;
        // Where warps send their rows by themselves, each has the same part of a slot whatever lies in it.
        let part = if schedule.needs.stores_by_warps() { row_bytes } else { narrow };
        let own_bytes = warp.mad(Fragment::WARP_ROWS * part, Fragment::row_in_warp(lane) * narrow);
        let bytes = own_bytes + exchange(own_row, narrow) * CHUNK + Fragment::column(lane);
        let loaded = || {
            let chunk = exchange(own_row, narrow) * CHUNK;
            own_row * narrow + chunk + Fragment::column(lane)
        };
        RowLanes {
            k,
            matrix: place(matrix_row, matrix >> 1),
            pair,
            row_bytes,
            bytes,
            loaded_bytes: loads_bytes.then(loaded),
        }
    }

    /// For each group, the pairs of bytes of the thread's two rows, the first one's this far from the slot's start.
    fn byte_pairs(
        &self,
        start: SharedAddress<'k>,
        own: Reg<'k, U32>,
        groups: u32,
    ) -> impl Iterator<Item = [SharedAddress<'k>; 2]> {
        let (first, row_bytes) = (start.register() + own, self.row_bytes / 2);
        (0..groups).map(move |group| {
            // Two groups are a chunk.
            let upper = SharedAddress::from_register(first ^ (group / 2 * CHUNK)) + group % 2 * 8;
            [upper, upper + Fragment::SECOND_ROW * row_bytes]
        })
    }

    /// For each group, the two columns of the thread's first and second row.
    fn pairs(
        &self,
        start: SharedAddress<'k>,
        groups: u32,
    ) -> impl Iterator<Item = [SharedAddress<'k>; 2]> {
        let (first, row_bytes) = (start.register() + self.pair, self.row_bytes);
        (0..groups).map(move |group| {
            let upper = SharedAddress::from_register(first ^ (group * ACCESS_BYTES));
            [upper, upper + Fragment::SECOND_ROW * row_bytes]
        })
    }
}

impl<'k, C: EpilogueChip> SlotAccess<'k, C> for RowLanes<'k, C> {
    fn kernel(&self) -> Kernel<'k, C> {
        self.k
    }

    fn transposition(&self) -> Transposition {
        Transposition::None
    }

    fn matrices(&self, start: SharedAddress<'k>, groups: u32) -> Vec<SharedAddress<'k>> {
        let first = start.register() + self.matrix;
        let access = |access| SharedAddress::from_register(first ^ (access * ACCESS_BYTES));
        (0..groups / 2).map(access).collect()
    }

    fn read_floats(&self, start: SharedAddress<'k>, groups: u32) -> Vec<Floats<'k>> {
        let read = |rows: [SharedAddress<'k>; 2]| {
            let [upper, lower] = rows.map(|from| self.k.load_shared::<F32, 2>(from));
            [upper[0], upper[1], lower[0], lower[1]]
        };
        self.pairs(start, groups).map(read).collect()
    }

    fn write_floats(&self, start: SharedAddress<'k>, groups: &[Floats<'k>]) {
        let places = self.pairs(start, groups.len() as u32);
        for ([upper, lower], four) in places.zip(groups) {
            self.k.store_shared(upper, [four[0], four[1]]);
            self.k.store_shared(lower, [four[2], four[3]]);
        }
    }

    fn read_bytes(&self, start: SharedAddress<'k>, groups: u32) -> Vec<[Reg<'k, U32>; 2]> {
        let own = self.loaded_bytes.unwrap_or_else(|| panic!("compiler bug: no bytes are loaded"));
        let read = |from| self.k.load_shared_narrow(Scalar::U16, from);
        self.byte_pairs(start, own, groups).map(|rows| rows.map(read)).collect()
    }

    fn write_bytes(&self, start: SharedAddress<'k>, groups: &[[Reg<'k, U32>; 2]]) {
        let places = self.byte_pairs(start, self.bytes, groups.len() as u32);
        for (rows, pairs) in places.zip(groups) {
            for (to, pair) in rows.into_iter().zip(pairs) {
                self.k.store_shared_narrow(Scalar::U16, to, *pair);
            }
        }
    }
}
