//! Slots of row-major 16-bit tiles where a thread has whole chunks of its rows: two of 16 bytes in each, in 64 columns.
//!
//! A group holds an element of each of the two chunks, so pairs are taken apart and put together on the way. The rows of
//! a warp's accesses meet the same chunks two by two: twice the fewest bank conflicts there could be.

use postlude_ptx::kernel::{Kernel, Reg, SharedAddress};
use postlude_ptx::modifier::Transposition;
use postlude_ptx::target::Sm90a;
use postlude_ptx::types::{B32, U32};

use super::super::lattice::Lattice;
use super::{CHUNK, Floats, Packed, SlotAccess};

/// Bytes of a row: 64 columns.
const ROW_BYTES: u32 = 128;
/// Which bytes of two registers, lowest first: both lower halves, or both upper ones.
const LOWER: u32 = 0x5410;
const UPPER: u32 = 0x7632;

/// A thread's places, in bytes from a slot's start.
pub(super) struct ChunkLanes<'k> {
    k: Kernel<'k, Sm90a>,
    /// The first chunk of each of its rows; the other is its neighbour.
    rows: [Reg<'k, U32>; 2],
}

impl<'k> ChunkLanes<'k> {
    pub(super) fn new(
        k: Kernel<'k, Sm90a>,
        rank: Reg<'k, U32>,
        lattice: Lattice,
    ) -> ChunkLanes<'k> {
        let (warp, lane) = (rank >> 5, rank & 31);
        let first = lattice.row(warp * 2, lane >> 2);
        let rows = lattice.rows().map(|offset| {
            let row = first + offset;
            row * ROW_BYTES + (((lane & 3) * 2) ^ (row & 7)) * CHUNK
        });
        ChunkLanes { k, rows }
    }

    /// For each row, its two chunks.
    fn chunks(&self, start: SharedAddress<'k>) -> [[SharedAddress<'k>; 2]; 2] {
        self.rows.map(|row| {
            let first = start.register() + row;
            [first, first ^ CHUNK].map(SharedAddress::from_register)
        })
    }
}

impl<'k> SlotAccess<'k> for ChunkLanes<'k> {
    fn kernel(&self) -> Kernel<'k, Sm90a> {
        self.k
    }

    fn transposition(&self) -> Transposition {
        Transposition::None
    }

    fn matrices(&self, _: SharedAddress<'k>, _: u32) -> Vec<SharedAddress<'k>> {
        panic!("compiler bug: chunks are no matrices")
    }

    fn read_floats(&self, _: SharedAddress<'k>, _: u32) -> Vec<Floats<'k>> {
        panic!("compiler bug: chunks are of 16-bit elements")
    }

    fn write_floats(&self, _: SharedAddress<'k>, _: &[Floats<'k>]) {
        panic!("compiler bug: chunks are of 16-bit elements")
    }

    fn read_packed(&self, start: SharedAddress<'k>, groups: u32) -> Vec<Packed<'k>> {
        let rows = self.chunks(start).map(|row| row.map(|from| self.k.load_shared::<B32, 4>(from)));
        let group = |group: u32| {
            let (pair, half) =
                (group as usize / 2, if group.is_multiple_of(2) { LOWER } else { UPPER });
            rows.map(|[first, second]| first[pair].permute(second[pair], half))
        };
        (0..groups).map(group).collect()
    }

    fn write_packed(&self, start: SharedAddress<'k>, groups: &[Packed<'k>]) {
        for (row, chunks) in self.chunks(start).into_iter().enumerate() {
            for (to, half) in chunks.into_iter().zip([LOWER, UPPER]) {
                let pair =
                    |pair: usize| groups[2 * pair][row].permute(groups[2 * pair + 1][row], half);
                self.k.store_shared(to, [pair(0), pair(1), pair(2), pair(3)]);
            }
        }
    }
}
