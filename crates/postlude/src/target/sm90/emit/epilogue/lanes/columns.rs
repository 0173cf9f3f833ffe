//! Slots of column-major tiles: a row of 128 bytes for each column, a chunk's number exclusive-ored with the column.
//!
//! The next group of 8 columns lies a whole pattern behind, so that only constant offsets tell groups apart.

use postlude_ptx::kernel::{Kernel, Reg, SharedAddress};
use postlude_ptx::modifier::Transposition;
use postlude_ptx::types::{B32, F32, Scalar, U32};

use crate::dtype::DType;
use crate::placement::Major;
use crate::target::sm90::plan::Sm90Schedule;

use super::super::super::chip::EpilogueChip;
use super::super::super::fragment::Fragment;
use super::super::super::slot::{COLUMN_BYTES, SlotLayout};
use super::access::{CHUNK, Floats, SlotAccess};

/// Bytes of a group of 8 columns.
const GROUP_BYTES: u32 = 8 * COLUMN_BYTES;
/// Bytes of a column of 8-bit elements.
const BYTE_COLUMN: u32 = 64;
/// What a thread's first element of 32 bits is exclusive-ored with to reach its second column, and its second row: the
/// first column is even, and 8 rows are two chunks whose bit is clear in the first row's.
const NEXT_COLUMN: u32 = COLUMN_BYTES | CHUNK;
const NEXT_ROW: u32 = 2 * CHUNK;

/// A thread's places, in bytes from a slot's start.
pub(super) struct ColumnLanes<'k, C> {
    k: Kernel<'k, C>,
    /// Its row of the matrices that one instruction moves.
    matrix: Reg<'k, U32>,
    /// Its first element of 32 bits.
    first: Reg<'k, U32>,
    /// Its first element of 8 bits, where such an operand is loaded.
    bytes: Option<Reg<'k, U32>>,
}

impl<'k, C: EpilogueChip> ColumnLanes<'k, C> {
    pub(super) fn new(
        k: Kernel<'k, C>,
        rank: Reg<'k, U32>,
        schedule: &Sm90Schedule,
        loads_bytes: bool,
    ) -> ColumnLanes<'k, C> {
        let (warp, lane) = (rank >> 5, rank & 31);
        let place = |column: Reg<'k, U32>, exchange: Reg<'k, U32>, chunk: Reg<'k, U32>| {
            column * COLUMN_BYTES + (chunk ^ exchange) * CHUNK
        };
        // Lane 8i + j names row j of matrix i, a column once it is transposed: matrices 0 and 1 are rows 0..8 and 8..16
        // of the tile, 2 and 3 the next 8 columns.
        let (within, matrix) = (lane & 7, lane >> 3);
        let matrix_column = (matrix >> 1).mad(8, within);
        let matrix = place(matrix_column, within, warp.mad(2, matrix & 1));
        // Warps 0 and 1 have the rows of the first box, 2 and 3 those of the second; 8 chunks of 4 rows each.
        let half = SlotLayout::new(schedule, DType::F32, Major::Column).columns() * COLUMN_BYTES;
        let column = Fragment::column(lane);
        let chunk = (warp & 1).mad(4, Fragment::four_rows(lane));
        let element = place(column, column, chunk) + Fragment::row_in_four(lane) * 4;
        // A column's 64 bytes are four chunks, a warp's rows each, exclusive-ored with half the column.
        let bytes = || {
            let chunk = (warp ^ Fragment::lane_in_row(lane)) * CHUNK;
            column * BYTE_COLUMN + chunk + Fragment::row_in_warp(lane)
        };
        let bytes = loads_bytes.then(bytes);
        ColumnLanes { k, matrix, first: (warp >> 1).mad(half, element), bytes }
    }

    /// For each group, the thread's elements of 32 bits.
    fn elements(
        &self,
        start: SharedAddress<'k>,
        groups: u32,
    ) -> impl Iterator<Item = [SharedAddress<'k>; 4]> {
        let first = start.register() + self.first;
        let four = [first, first ^ NEXT_COLUMN, first ^ NEXT_ROW, first ^ (NEXT_COLUMN ^ NEXT_ROW)];
        let four = four.map(SharedAddress::from_register);
        (0..groups).map(move |group| four.map(|element| element + group * GROUP_BYTES))
    }
}

impl<'k, C: EpilogueChip> SlotAccess<'k, C> for ColumnLanes<'k, C> {
    fn kernel(&self) -> Kernel<'k, C> {
        self.k
    }

    fn transposition(&self) -> Transposition {
        Transposition::Transposed
    }

    fn matrices(&self, start: SharedAddress<'k>, groups: u32) -> Vec<SharedAddress<'k>> {
        let first = start + self.matrix;
        (0..groups / 2).map(|access| first + access * 2 * GROUP_BYTES).collect()
    }

    fn read_floats(&self, start: SharedAddress<'k>, groups: u32) -> Vec<Floats<'k>> {
        let read = |from| self.k.load_shared::<F32, 1>(from)[0];
        self.elements(start, groups).map(|four| four.map(read)).collect()
    }

    fn write_floats(&self, start: SharedAddress<'k>, groups: &[Floats<'k>]) {
        for (places, four) in self.elements(start, groups.len() as u32).zip(groups) {
            for (to, value) in places.into_iter().zip(four) {
                self.k.store_shared(to, [*value]);
            }
        }
    }

    fn read_bytes(&self, start: SharedAddress<'k>, groups: u32) -> Vec<[Reg<'k, U32>; 2]> {
        let own = self.bytes.unwrap_or_else(|| panic!("compiler bug: no bytes are loaded"));
        let first = start + own;
        let read = |from| self.k.load_shared_narrow(Scalar::U8, from).cast::<B32>();
        let pair = |upper: SharedAddress<'k>| {
            let [even, odd] = [upper, upper + BYTE_COLUMN].map(read);
            even.permute(odd, 0x3340).cast()
        };
        let rows =
            |group: u32| [0, Fragment::SECOND_ROW].map(|row| first + group * 8 * BYTE_COLUMN + row);
        (0..groups).map(|group| rows(group).map(pair)).collect()
    }

    fn write_bytes(&self, _: SharedAddress<'k>, _: &[[Reg<'k, U32>; 2]]) {
        panic!("compiler bug: bytes leave row by row");
    }
}
