//! How a thread's share of a tile moves between registers and a slot.

use postlude_ptx::kernel::{Kernel, Reg, SharedAddress};
use postlude_ptx::modifier::Transposition;
use postlude_ptx::target::Tma;
use postlude_ptx::types::{B32, F32, U32};

/// Bytes of a chunk, which swizzles move as a whole.
pub(crate) const CHUNK: u32 = 16;

/// A 16-bit pair of neighbouring columns for each of a thread's two rows: its share of a group of 8 columns.
pub(crate) type Packed<'k> = [Reg<'k, B32>; 2];
/// The same as four floats, the first row's before the second's.
pub(crate) type Floats<'k> = [Reg<'k, F32>; 4];

/// Moves a thread's share between registers and the slot at `start`, groups of 8 columns from left to right. The number of
/// groups is even.
pub(crate) trait SlotAccess<'k, C: Tma> {
    fn kernel(&self) -> Kernel<'k, C>;

    /// Whether matrix instructions exchange rows and columns.
    fn transposition(&self) -> Transposition;

    /// For each two groups, the thread's row for a matrix instruction.
    fn matrices(&self, start: SharedAddress<'k>, groups: u32) -> Vec<SharedAddress<'k>>;

    fn read_floats(&self, start: SharedAddress<'k>, groups: u32) -> Vec<Floats<'k>>;

    fn write_floats(&self, start: SharedAddress<'k>, groups: &[Floats<'k>]);

    /// Pairs of bytes, one for each of the thread's two rows, from a slot that TMA has filled.
    fn read_bytes(&self, start: SharedAddress<'k>, groups: u32) -> Vec<[Reg<'k, U32>; 2]>;

    /// The same to the threads' own parts of a slot.
    fn write_bytes(&self, start: SharedAddress<'k>, groups: &[[Reg<'k, U32>; 2]]);

    fn read_packed(&self, start: SharedAddress<'k>, groups: u32) -> Vec<Packed<'k>> {
        let read = |from| {
            let [a, b, c, d] = self.kernel().load_matrices::<4>(from, self.transposition());
            [[a, b], [c, d]]
        };
        self.matrices(start, groups).into_iter().flat_map(read).collect()
    }

    fn write_packed(&self, start: SharedAddress<'k>, groups: &[Packed<'k>]) {
        let places = self.matrices(start, groups.len() as u32);
        for (to, two) in places.into_iter().zip(groups.chunks_exact(2)) {
            let four = [two[0][0], two[0][1], two[1][0], two[1][1]];
            self.kernel().store_matrices(to, four, self.transposition());
        }
    }
}
