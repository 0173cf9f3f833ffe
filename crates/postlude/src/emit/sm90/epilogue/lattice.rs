//! Which rows and columns of a tile a thread's accumulators are.
//!
//! Thread t of a warpgroup holds, for each 8-column group j of the instruction, columns 8j + 2(t mod 4) + {0, 1} of rows
//! 16(t / 32) + (t mod 32) / 4 and that row + 8 (PTX ISA, "Register Fragments for wgmma.mma_async.m64nNk16"). A staggered
//! operand's rows lie in another order in shared memory: first every eighth, then every eighth but one further, and so on.
//!
//! Then of A's 64 rows the instruction's row s is row 8(s mod 8) + s / 8, so a thread's two rows are neighbours. And of
//! B's C columns its column s is column 8(s mod C/8) + s / (C/8), so a thread has eight neighbours of a row, two times in
//! 64 columns.

use postlude_ptx::kernel::Reg;
use postlude_ptx::types::U32;

use crate::plan::sm90::{Feed, Sm90Schedule};

/// How accumulators lie in a tile.
#[derive(Clone, Copy)]
pub(super) struct Lattice {
    staggered_rows: bool,
    staggered_columns: bool,
    columns: u32,
}

impl Lattice {
    pub(super) fn new(schedule: &Sm90Schedule) -> Lattice {
        let [rows, columns] = schedule.needs.operands.map(|feed| feed == Feed::Staggered);
        let tile_columns = schedule.tile.columns;
        Lattice { staggered_rows: rows, staggered_columns: columns, columns: tile_columns }
    }

    /// Whether a thread has eight neighbours of a row.
    pub(super) fn has_chunks(self) -> bool {
        self.staggered_columns
    }

    /// Row `within` of the 8-row group `group` of a 64-row block, as the instruction counts.
    pub(super) fn row<'k>(self, group: Reg<'k, U32>, within: Reg<'k, U32>) -> Reg<'k, U32> {
        if self.staggered_rows { within.mad(8, group) } else { group.mad(8, within) }
    }

    /// A thread's rows of a block, from its first.
    pub(super) fn rows(self) -> [u32; 2] {
        [0, if self.staggered_rows { 1 } else { 8 }]
    }

    /// The first column of the thread that is number `quarter` of its row's four.
    pub(super) fn first_column(self, quarter: Reg<'_, U32>) -> Reg<'_, U32> {
        quarter * if self.staggered_columns { 16 } else { 2 }
    }

    /// From a thread's first column to its element `element` of the group `group` of a subtile.
    pub(super) fn column(self, subtile: u32, group: u32, element: u32) -> u32 {
        subtile + if self.staggered_columns { 8 * element + group } else { 8 * group + element }
    }

    /// The accumulators of the subtile number `number`, four for each of its groups.
    pub(super) fn groups<T: Copy>(self, all: &[T], number: u32, subtile: u32) -> Vec<[T; 4]> {
        let four = |group: u32| std::array::from_fn(|place| all[(4 * group) as usize + place]);
        let groups = subtile / 8;
        if self.staggered_columns {
            (0..groups).map(|group| four(group * (self.columns / subtile) + number)).collect()
        } else {
            (0..groups).map(|group| four(number * groups + group)).collect()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every column of a tile is some thread's, once, whichever way the tile was loaded.
    #[test]
    fn every_column_comes_once() {
        for (staggered, tile) in [(false, 256), (true, 256), (true, 128), (true, 64)] {
            let lattice =
                Lattice { staggered_rows: false, staggered_columns: staggered, columns: tile };
            let mut seen = vec![0; tile as usize];
            for quarter in 0..4 {
                // The accumulators of one row, by the instruction's column, as a thread has them.
                let own: Vec<u32> = (0..tile / 8)
                    .flat_map(|group| [0, 1, 0, 1].map(|element| 8 * group + 2 * quarter + element))
                    .collect();
                for number in 0..tile / 64 {
                    let groups = lattice.groups(&own, number, 64);
                    for (group, four) in (0..).zip(groups) {
                        for element in 0..2 {
                            let first = quarter * if staggered { 16 } else { 2 };
                            let column = first + lattice.column(64 * number, group, element);
                            let by_instruction = four[element as usize];
                            let eighth = tile / 8;
                            let wanted = if staggered {
                                8 * (by_instruction % eighth) + by_instruction / eighth
                            } else {
                                by_instruction
                            };
                            assert_eq!(column, wanted);
                            seen[column as usize] += 1;
                        }
                    }
                }
            }
            assert!(seen.iter().all(|count| *count == 1), "{tile}: {seen:?}");
        }
    }
}
