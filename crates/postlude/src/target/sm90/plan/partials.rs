//! Partial results: their words in the workspace, and their bytes in shared memory.

use crate::graph::Kind;
use crate::lower::{Reduction, TileProgram};

/// Words of the workspace for all partial results: of those along rows, along columns, and of scalars.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub(crate) struct FoldWords {
    /// For each row.
    pub(crate) rows: u32,
    /// For each column.
    pub(crate) columns: u32,
    /// For a tile.
    pub(crate) scalars: u32,
}

impl FoldWords {
    pub(crate) fn of(program: &TileProgram) -> FoldWords {
        let words = |kind| program.reductions_of(kind).map(Reduction::workspace_words).sum();
        FoldWords {
            rows: words(Kind::AlongRows),
            columns: words(Kind::AlongColumns),
            scalars: words(Kind::Scalar),
        }
    }

    /// Whether strips are folded, where threads hold rows: to columns or to scalars.
    pub(crate) fn of_strips(self) -> bool {
        self.columns + self.scalars > 0
    }

    /// Whether anything is folded.
    pub(crate) fn any(self) -> bool {
        self != FoldWords::default()
    }

    /// Shared memory of one warpgroup, in bytes: four warps' results along columns, their scalars, and the flags of the
    /// last arrival.
    pub(crate) fn shared_bytes(self, columns: u32) -> u32 {
        if self.any() { 16 * (self.columns * columns + self.scalars + 1) } else { 0 }
    }
}
