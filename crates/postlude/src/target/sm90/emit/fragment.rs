//! The fragment map: which elements of a 64-row block of accumulators a thread of the warpgroup holds.
//!
//! Lane l of warp w holds, for each group of 8 columns, two neighbouring columns of two rows:
//!
//! ```text
//! rows     16 w + l / 4         and that row + 8
//! columns   2 (l mod 4) + {0, 1} of the group
//! registers 4 a group: the first row's two columns, then the second row's
//!
//! group        columns 0 1   2 3   4 5   6 7
//! row  0, 8     lane    0     1     2     3
//! row  1, 9     lane    4     5     6     7
//! ...
//! row  7, 15    lane   28    29    30    31
//! ```
//!
//! That is the accumulator of wgmma m64nNk16 (PTX ISA, "Register Fragments for wgmma.mma_async.m64nNk16"); on Blackwell
//! `tcgen05.ld` gives a warp the same of 16 lanes of tensor memory (PTX ISA, "Matrix fragments for shape .16x256b").
//!
//! In: a lane's number, or its rank in the warpgroup where a function says so. Out: places and lanes. Each call emits its
//! instructions where it is made. Invariant: no other file of the epilogue computes places from a lane's bits, but for
//! the addresses that `ldmatrix` and `stmatrix` take.

use postlude_ptx::kernel::Reg;
use postlude_ptx::types::{Pred, U32};

/// The fragment map.
pub(crate) enum Fragment {}

impl Fragment {
    /// Rows of a block that one warp has.
    pub(crate) const WARP_ROWS: u32 = 16;
    /// How far a thread's second row is from its first.
    pub(crate) const SECOND_ROW: u32 = 8;
    /// Columns of a group, which the lanes of a row hold together.
    pub(crate) const GROUP_COLUMNS: u32 = 8;
    /// A thread's accumulators of a group.
    pub(crate) const GROUP_ELEMENTS: usize = 4;
    /// Lanes of a warp that hold columns of the same row.
    pub(crate) const LANES_OF_ROW: usize = 4;
    /// Lanes of a warp that hold rows of the same columns.
    pub(crate) const LANES_OF_COLUMN: usize = 8;
    /// The bits in which the numbers of lanes differ that hold columns of the same row.
    pub(crate) const ROW_BITS: &[u32] = &[1, 2];
    /// The bits in which the numbers of lanes differ that hold rows of the same columns.
    pub(crate) const COLUMN_BITS: &[u32] = &[4, 8, 16];
    /// The bits of a lane's number: lanes of a row first.
    pub(crate) const WARP_BITS: &[u32] = &[1, 2, 4, 8, 16];

    /// A lane's first row among those of its warp.
    pub(crate) fn row_in_warp(lane: Reg<'_, U32>) -> Reg<'_, U32> {
        lane >> 2
    }

    /// A thread's first row of a block.
    pub(crate) fn row<'k>(warp: Reg<'k, U32>, lane: Reg<'k, U32>) -> Reg<'k, U32> {
        warp.mad(Fragment::WARP_ROWS, Fragment::row_in_warp(lane))
    }

    /// Which four of its warp's rows have a lane's first row; the second row is two fours behind.
    pub(crate) fn four_rows(lane: Reg<'_, U32>) -> Reg<'_, U32> {
        lane >> 4
    }

    /// The place of a lane's first row among those four.
    pub(crate) fn row_in_four(lane: Reg<'_, U32>) -> Reg<'_, U32> {
        Fragment::row_in_warp(lane) & 3
    }

    /// A lane's place among the four that hold a row; of its number or its rank.
    pub(crate) fn lane_in_row(lane: Reg<'_, U32>) -> Reg<'_, U32> {
        lane & 3
    }

    /// Whether a lane is the first of the four that hold a row; of its number or its rank.
    pub(crate) fn is_first_of_row(lane: Reg<'_, U32>) -> Reg<'_, Pred> {
        Fragment::lane_in_row(lane).eq(0)
    }

    /// A lane's first column of a group; of its number or its rank.
    pub(crate) fn column(lane: Reg<'_, U32>) -> Reg<'_, U32> {
        Fragment::lane_in_row(lane) * 2
    }

    /// Which half of a group has a lane's columns; of its number or its rank.
    pub(crate) fn half_of_group(lane: Reg<'_, U32>) -> Reg<'_, U32> {
        Fragment::lane_in_row(lane) >> 1
    }

    /// The place of a lane's columns among the two pairs of that half; of its number or its rank.
    pub(crate) fn pair_of_half(lane: Reg<'_, U32>) -> Reg<'_, U32> {
        lane & 1
    }

    /// The bits in which the numbers of lanes differ that hold rows of the same unit of this many: of 16, both of a thread's
    /// rows; of fewer, each of them is of another unit.
    pub(crate) fn unit_bits(rows: u32) -> &'static [u32] {
        match rows {
            1 => &[],
            2 => &Fragment::COLUMN_BITS[..1],
            4 => &Fragment::COLUMN_BITS[..2],
            _ => Fragment::COLUMN_BITS,
        }
    }

    /// The bits in which the numbers of lanes differ that hold parts of the same run of this many columns of a row.
    pub(crate) fn run_bits(run: u32) -> &'static [u32] {
        match run {
            2 => &[],
            4 => &Fragment::ROW_BITS[..1],
            _ => Fragment::ROW_BITS,
        }
    }
}
