//! Where a thread's elements lie in a slot: swizzled rows, as copies by tensor map write and read them.
//!
//! A row is a power of two of 16-byte chunks, exchanged by the row's place in the pattern (PTX ISA, "Swizzling Modes"): a
//! chunk's number is exclusive-ored with the row for rows of 128 bytes, with half the row for 64. Slots start at
//! multiples of the pattern, so an address is exclusive-ored as a whole.

use postlude_ptx::kernel::{Reg, SharedAddress};
use postlude_ptx::types::U32;

use super::lattice::Lattice;

/// Bytes of two neighbouring groups of 8 columns of 16 bits, or of one of 32 bits: what one access of a warp covers.
const ACCESS_BYTES: u32 = 32;
const CHUNK: u32 = 16;

/// A thread's places in every slot, in bytes from the slot's start.
pub(super) struct Lanes<'k> {
    /// Its row of the matrices that one instruction moves.
    matrix: Reg<'k, U32>,
    /// Its own two columns of 32 bits, or its first eight of 16 bits, in each of its rows.
    own: [Reg<'k, U32>; 2],
}

/// A thread's places in one slot.
#[derive(Clone, Copy)]
pub(super) struct Places<'k> {
    matrix: Reg<'k, U32>,
    own: [Reg<'k, U32>; 2],
}

impl<'k> Lanes<'k> {
    /// For the thread of this rank in its warpgroup.
    pub(super) fn new(rank: Reg<'k, U32>, row_bytes: u32, lattice: Lattice) -> Lanes<'k> {
        let (warp, lane) = (rank >> 5, rank & 31);
        let exchange = |row: Reg<'k, U32>| match row_bytes {
            128 => row & 7,
            64 => (row >> 1) & 3,
            _ => panic!("compiler bug: rows of {row_bytes} bytes"),
        };
        let place = |row: Reg<'k, U32>, chunk: Reg<'k, U32>| {
            row * row_bytes + (chunk ^ exchange(row)) * CHUNK
        };
        // Lane 8i + j names row j of matrix i: 0 and 1 are rows 0..8 and 8..16, 2 and 3 the next 8 columns.
        let (within, matrix) = (lane & 7, lane >> 3);
        let matrix_row = lattice.row(warp.mad(2, matrix & 1), within);
        let own_row = lattice.row(warp * 2, lane >> 2);
        let own = [own_row, own_row + lattice.second_row()].map(|row| {
            if lattice.has_chunks() {
                place(row, (lane & 3) * 2)
            } else {
                place(row, (lane & 3) >> 1) + (lane & 1) * 8
            }
        });
        Lanes { matrix: place(matrix_row, matrix >> 1), own }
    }

    /// The places in the slot at `start`.
    pub(super) fn within(&self, start: SharedAddress<'k>) -> Places<'k> {
        let start = start.register();
        Places { matrix: start + self.matrix, own: self.own.map(|place| start + place) }
    }
}

impl<'k> Places<'k> {
    /// The row for a matrix instruction on 16 columns of 16 bits.
    pub(super) fn matrix(&self, access: u32) -> SharedAddress<'k> {
        SharedAddress::from_register(self.matrix ^ (access * ACCESS_BYTES))
    }

    /// Two columns of 32 bits in a group of 8, in the thread's first and second row.
    pub(super) fn pairs(&self, group: u32) -> [SharedAddress<'k>; 2] {
        self.own.map(|place| SharedAddress::from_register(place ^ (group * ACCESS_BYTES)))
    }

    /// The two chunks of 16 bytes of the thread's first row, then those of its second.
    pub(super) fn chunks(&self) -> [SharedAddress<'k>; 4] {
        let [first, second] = self.own;
        [first, first ^ CHUNK, second, second ^ CHUNK].map(SharedAddress::from_register)
    }
}
