//! Kernels whose threads compute one element of an output after the other: what they need of a schedule, and their tile.
//!
//! In: a program that is computed element by element. Out: its needs and its schedule, of which there is one. Such a kernel
//! reads every tensor where it lies, and needs no shared memory. Programs of tiles that copy rows (`row_copies`) take the same
//! tile.

use crate::lower::TileProgram;
use crate::problem::Problem;
use crate::target::tile::{Cluster, KernelSchedule, Tile};

use super::fit::without_blocks;
use super::lists::Lists;
use super::needs::{Needs, SlotCounts};
use super::partials::FoldWords;
use super::place::EpilogueTransfer;
use super::schedule::Sm90Schedule;

/// The tile: the elements that a CTA's threads compute at a time.
pub(super) const ELEMENTS: Tile = Tile {
    rows: 1,
    columns: 256,
    kernel: KernelSchedule::Elements,
    math_warpgroups: 2,
    cluster: Cluster::ONE,
};
/// CTAs of an SM: each thread has up to 128 registers, and up to 64 where it copies rows, of which 16 hold what it loads: an SM
/// then waits for 32 KiB at a time.
const CTAS: u32 = 2;
const COPYING_CTAS: u32 = 4;
/// Lines of elements, and columns of a line, that threads number in 32 bits.
const MOST_NUMBERED: u64 = i32::MAX as u64;

impl Needs {
    /// Those of a program that is computed element by element.
    pub(super) fn of_elements(program: &TileProgram) -> Needs {
        Needs {
            mainloop: None,
            swap_ab: false,
            epilogue_loads: Vec::new(),
            epilogue_stores: vec![EpilogueTransfer::Strided; program.graph().outputs().len()],
            slots: SlotCounts::default(),
            column_values: 0,
            folds: FoldWords::default(),
            widest_fold: 0,
            whole_columns: 0,
            pass_words: 0,
            groups: 1,
            block_rows: 1,
            block_words: 0,
            work: 0,
            lines: 0,
            shared_strides: false,
            lists: Lists::default(),
            rows: None,
            copied_bytes: 0,
            by_elements: true,
        }
    }
}

impl Sm90Schedule {
    /// The schedule of a program that is computed, or copied, element by element.
    pub(super) fn of_elements(needs: &Needs) -> Sm90Schedule {
        let ctas = if needs.copied_bytes > 0 { COPYING_CTAS } else { CTAS };
        without_blocks(ELEMENTS, needs, ctas, 1)
    }
}

/// Whether threads can number a problem's lines, which are the rows of all batches, and columns, split or not.
pub(super) fn are_numbered(program: &TileProgram, problem: &Problem) -> bool {
    let graph = program.graph();
    let nodes = graph.nodes().filter(|(id, _)| program.live[id.index()]);
    let of_outputs = graph.outputs().iter().filter_map(|output| graph.space().axes(&output.dims));
    let all = nodes.map(|(_, node)| node.ty.axes).chain(of_outputs);
    let mut extents = all.map(|axes| problem.extents(axes).map(|size| size as u64));
    extents.all(|[batches, rows, columns]| {
        batches.saturating_mul(rows) <= MOST_NUMBERED && columns <= MOST_NUMBERED
    })
}
