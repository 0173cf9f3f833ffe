//! What a tile program needs of a schedule at the sizes and placements of a call.

use crate::graph::Kind;
use crate::lower::{Reduction, TileProgram};
use crate::placement::Placements;
use crate::problem::Problem;

use super::blocks::BlockLayout;
use super::lists::Lists;
use super::mainloop::Mainloop;
use super::needs::{Needs, SlotCounts};
use super::partials::FoldWords;
use super::row_needs::RowNeeds;
use super::{parameters, place, row_copies, work};

/// The needs of a program whose tensors lie so; the problem, the placements and the windows of columns are its own.
pub(super) fn needed(
    program: &TileProgram,
    problem: &Problem,
    placements: &Placements,
    windows: &[[u32; 2]],
) -> Needs {
    if program.by_elements {
        let lists = Lists::of(program, placements);
        let mut needs = Needs { lists, ..Needs::of_elements(program) };
        parameters::shorten(program, placements, &mut needs);
        return needs;
    }
    let of_columns = program.reductions_of(Kind::AlongColumns).map(Reduction::words);
    let of_pass = |pass: &Vec<Reduction>| pass.iter().map(|one| one.words()).sum();
    let mut needs = Needs {
        mainloop: Mainloop::of(program, problem, placements),
        swap_ab: program.swap_ab,
        epilogue_loads: place::epilogue_loads(program, problem, placements, windows),
        epilogue_stores: place::epilogue_stores(program, problem, placements, windows),
        slots: SlotCounts::default(),
        column_values: program.column_values.len() as u32,
        folds: FoldWords::of(program),
        widest_fold: of_columns.max().unwrap_or(0),
        whole_columns: whole_columns(program, problem.product_columns()),
        pass_words: program.row_passes.iter().map(of_pass).max().unwrap_or(0),
        groups: program.run_multiple(),
        block_rows: program.row_run_multiple(),
        block_words: block_words(program),
        work: work::work(program),
        lines: work::lines(program),
        shared_strides: false,
        lists: Lists::of(program, placements),
        rows: None,
        copied_bytes: 0,
        by_elements: false,
    }
    .settled();
    parameters::shorten(program, placements, &mut needs);
    needs.slots = SlotCounts::of(program, &needs);
    needs.rows = RowNeeds::of(program, problem, placements, &needs);
    needs.copied_bytes = row_copies::copied_bytes(program, problem, &needs);
    needs
}

/// Words of all reductions of blocks for 16 rows of 256 columns.
fn block_words(program: &TileProgram) -> u32 {
    let words = |one: &Reduction| {
        let layout = BlockLayout::of(program, *one);
        one.registers() * (16 / layout.unit) * 256_u32.div_ceil(layout.columns)
    };
    program.block_passes.iter().flatten().map(words).sum()
}

/// Columns of whole rows that tiles have to hold; 0 where none has to.
fn whole_columns(program: &TileProgram, columns: usize) -> u32 {
    if program.row_passes.is_empty() {
        return 0;
    }
    u32::try_from(columns.max(1)).unwrap_or(u32::MAX)
}
