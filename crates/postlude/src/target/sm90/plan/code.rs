//! How long the code of a tile's epilogue is.

use crate::target::tile::Tile;

use super::needs::Needs;
use super::strips::STRIP_ROWS;

/// Lines of code for all elements of a thread from which on they are loops: longer kernels take minutes to assemble.
pub(super) const MOST_LINES: u32 = 9000;

/// About how many lines of code a kernel has for this many columns of a tile without a loop.
pub(super) fn code_lines(tile: Tile, needs: &Needs, columns: u32) -> u32 {
    let elements =
        if tile.holds_rows() { held_elements(tile) } else { tile.blocks() * columns / 2 };
    needs.lines.saturating_mul(elements)
}

/// Elements that a thread which loads rows by itself has code for.
pub(super) fn held_elements(tile: Tile) -> u32 {
    tile.row_elements() * if tile.folds_strips() { STRIP_ROWS } else { 1 }
}
