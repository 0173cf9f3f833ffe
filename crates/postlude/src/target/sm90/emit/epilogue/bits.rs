//! Tile outputs of packed bits.
//!
//! Several lanes hold the eight elements of a byte, so they put it together and one of them stores it. From two groups
//! of 8 columns every lane gets one byte, whichever way bits are packed. Packed dims are multiples of 8 and tiles begin
//! at such, so a byte is inside the problem when its first element is.

use postlude_ptx::kernel::{Kernel, Reg};
use postlude_ptx::modifier::ShuffleMode;
use postlude_ptx::types::{Pred, Scalar, U32};

use crate::placement::Major;
use crate::target::sm90::plan::EpilogueTransfer;

use super::super::chip::EpilogueChip;
use super::super::fragment::Fragment;
use super::super::memory::Memory;
use super::super::parameters::Parameters;
use super::thread::{ByteTarget, EpilogueTile, ThreadCoordinate};

/// A lane of a warp that stores bits.
pub(super) struct BitLane<'k, C> {
    k: Kernel<'k, C>,
    /// The place among the four lanes that hold a row's columns, and among the eight that hold a column's rows.
    across: Reg<'k, U32>,
    down: Reg<'k, U32>,
}

impl<'k, C: EpilogueChip> BitLane<'k, C> {
    /// For the thread of this rank in its warpgroup.
    pub(super) fn new(k: Kernel<'k, C>, rank: Reg<'k, U32>) -> BitLane<'k, C> {
        BitLane { k, across: Fragment::lane_in_row(rank), down: Fragment::row_in_warp(rank & 31) }
    }

    /// Where the byte goes that this lane will have.
    pub(super) fn target(
        &self,
        major: Major,
        memory: &Memory<'k>,
        parameters: &Parameters<'k>,
        thread: &ThreadCoordinate<'k>,
    ) -> ByteTarget<'k> {
        let (row, column) = match major {
            Major::Row => {
                let row = thread.rows[0] + (self.across & 1) * 8;
                (row, thread.tile_column + (self.across >> 1) * 8)
            }
            Major::Column => {
                let row = thread.rows[0] - self.down + (self.down & 2) * 4;
                (row, thread.column + (self.down & 1) + (self.down >> 2) * 8)
            }
        };
        ByteTarget {
            location: memory.element(self.k, (thread.batch, row, column)),
            inside_rows: row.lt(thread.row_end),
            remaining: parameters.columns.max(column) - column,
        }
    }

    /// A thread's four elements of a group, each where it will be in its byte. Row by row there are two bytes, one for
    /// each of the thread's rows; column by column four, one for each of its columns in the upper eight rows and in the
    /// lower.
    pub(super) fn spread(&self, major: Major, truths: [Reg<'k, Pred>; 4]) -> Reg<'k, U32> {
        let (places, shift) = match major {
            Major::Row => ([0, 1, 8, 9], self.across * 2),
            Major::Column => ([0, 8, 16, 24], self.down),
        };
        let bit = |element: usize| self.k.imm(1 << places[element]).select(0, truths[element]);
        (bit(0) | bit(1) | bit(2) | bit(3)) << shift
    }

    /// The byte of two groups that this lane stores, in the lowest bits.
    fn gather(&self, major: Major, two: [Reg<'k, U32>; 2]) -> Reg<'k, U32> {
        let united = |word: Reg<'k, U32>, distances: &[u32]| {
            distances.iter().fold(word, |word, distance| {
                word | self.k.shuffle(ShuffleMode::Butterfly, word, *distance)
            })
        };
        match major {
            Major::Row => united(two[0] | (two[1] << 16), Fragment::ROW_BITS) >> (self.across * 8),
            Major::Column => {
                let [first, second] = two.map(|word| united(word, Fragment::COLUMN_BITS));
                first.select(second, self.down.lt(4)) >> ((self.down & 3) * 8)
            }
        }
    }

    /// Stores an epilogue tile, group by group as they were spread.
    pub(super) fn store(
        &self,
        major: Major,
        memory: &Memory<'k>,
        transfer: EpilogueTransfer,
        target: &ByteTarget<'k>,
        epilogue_tile: EpilogueTile,
        groups: &[Reg<'k, U32>],
    ) {
        let k = self.k;
        // An operand of bits may lie in the same memory: every lane has read its own before a byte is stored.
        k.warp_sync();
        for (place, two) in groups.chunks_exact(2).enumerate() {
            let byte = self.gather(major, [two[0], two[1]]);
            let column = epilogue_tile.offset + 16 * place as u32;
            let (to, _) = memory.along(target.location, transfer, column).byte(k);
            let inside = target.inside_rows & target.remaining.gt(column);
            k.when(inside, || k.store_global_narrow(Scalar::U8, to, byte));
        }
    }
}
