//! The elements of 8 columns and the groups of columns that they belong to.

use postlude_ptx::kernel::Reg;
use postlude_ptx::types::{F32, Pred, U32};

use crate::graph::{Axes, Kind, NodeId, Output};
use crate::target::sm90::emit::fragment::Fragment;
use crate::target::sm90::emit::plan::Plan;
use crate::target::sm90::emit::values::{Environment, Place, Value, fill};

use super::loads::LoadedOperands;
use super::thread::EpilogueTile;

/// An epilogue tile with the accumulators of its products.
pub(super) type SpanTile<'e, 'k> = (EpilogueTile, Vec<&'e [Reg<'k, F32>]>);
/// Epilogue tiles whose groups are computed together.
pub(super) type Span<'e, 'k> = Vec<SpanTile<'e, 'k>>;

/// Columns that the lanes of a row hold together.
pub(super) const CHUNK: u32 = Fragment::GROUP_COLUMNS;

/// The elements of a group of 8 columns.
pub(super) struct Elements<'e, 'k> {
    /// Where it begins in the tile.
    pub(super) offset: u32,
    /// The thread's accumulators, of each product four.
    pub(super) products: &'e [&'e [Reg<'k, F32>]],
    /// The values of the groups that they belong to.
    pub(super) groups: &'e Groups<'k>,
    /// The values that are wanted, and the nodes that are computed for them.
    pub(super) wanted: &'e [NodeId],
    pub(super) only: &'e [bool],
    /// The epilogue tiles around them, and what was loaded of each.
    pub(super) span: &'e [SpanTile<'e, 'k>],
    pub(super) loaded: &'e [LoadedOperands<'k>],
}

/// A value that is made of other columns' values, in a group of 8 columns.
pub(super) enum Exchanged<'k> {
    /// The value of a node in the same column.
    Own(NodeId),
    /// A thread's four elements.
    Other([Value<'k>; 4]),
}

/// The thread's four accumulators of each product in a group of 8 columns.
pub(super) fn of_group<'e, 'k>(
    part: &[&'e [Reg<'k, F32>]],
    group: usize,
) -> Vec<&'e [Reg<'k, F32>]> {
    part.iter()
        .map(|all| &all[Fragment::GROUP_ELEMENTS * group..][..Fragment::GROUP_ELEMENTS])
        .collect()
}

/// What a thread knows of its groups in a span.
pub(super) struct Groups<'k> {
    /// Where the span begins in the tile.
    pub(super) offset: u32,
    /// For each length of a run, longest first, the groups of the thread's two rows.
    pub(super) runs: Vec<(u32, Vec<Group<'k>>)>,
}

pub(super) struct Group<'k> {
    /// Its place for each of the two rows; the column is the group's number.
    pub(super) places: [Place<'k>; 2],
    pub(super) environment: [Environment<'k>; 2],
}

impl<'k> Groups<'k> {
    /// Those of this length.
    pub(super) fn of(&self, run: u32) -> &[Group<'k>] {
        let found = self.runs.iter().find(|(length, _)| *length == run);
        found.map_or_else(|| panic!("compiler bug: no groups of {run}"), |(_, groups)| groups)
    }

    /// Adds a value that is known of one of them.
    pub(super) fn set(
        &mut self,
        run: u32,
        group: usize,
        row: usize,
        node: NodeId,
        value: Value<'k>,
    ) {
        let found = self.runs.iter_mut().find(|(length, _)| *length == run);
        let Some((_, groups)) = found else { panic!("compiler bug: no groups of {run}") };
        groups[group].environment[row][node.index()] = Some(value);
    }

    /// Adds what is known of the groups that a chunk of 8 columns belongs to.
    pub(super) fn fill(&self, environment: &mut Environment<'k>, offset: u32, row: usize) {
        for (run, groups) in &self.runs {
            let place = (offset - self.offset) / run.max(&CHUNK);
            fill(environment, &groups[place as usize].environment[row]);
        }
    }
}

/// Whether a value counts: one of a group of columns does in the first of them.
#[derive(Clone, Copy)]
pub(super) enum Counts<'k> {
    Always,
    Never,
    Where(Reg<'k, Pred>),
}

impl<'k> Counts<'k> {
    /// If this is so, too.
    pub(super) fn and(self, also: Option<Reg<'k, Pred>>) -> Counts<'k> {
        match (self, also) {
            (counts, None) => counts,
            (Counts::Always, Some(also)) => Counts::Where(also),
            (Counts::Where(first), Some(also)) => Counts::Where(first & also),
            (Counts::Never, Some(_)) => Counts::Never,
        }
    }

    /// The value, or nothing.
    pub(super) fn choose(self, value: Reg<'k, F32>, nothing: Reg<'k, F32>) -> Reg<'k, F32> {
        match self {
            Counts::Always => value,
            Counts::Never => nothing,
            Counts::Where(counts) => value.select(nothing, counts),
        }
    }
}

/// For a column of a chunk that begins this many columns from the tile's first.
pub(super) fn counts(run: u32, own: Reg<'_, U32>, offset: u32, column: u32) -> Counts<'_> {
    match run {
        1 => Counts::Always,
        _ if column > 0 || !offset.is_multiple_of(run.max(CHUNK)) => Counts::Never,
        2 => Counts::Always,
        4 => Counts::Where((own & 2).eq(0)),
        _ => Counts::Where(own.eq(0)),
    }
}

/// Outputs that have one value for each row and group of columns, with the group's length.
pub(super) fn grouped_outputs(plan: &Plan<'_>) -> impl Iterator<Item = (usize, u32)> {
    let graph = plan.graph;
    let kind = |output: &Output| graph.space().axes(&output.dims).map(Axes::kind);
    let outputs = graph.outputs().iter().enumerate();
    let tiles = outputs.filter(move |(_, output)| kind(output) == Some(Kind::Tile));
    let run = |output: &Output| plan.program.output_run(output);
    tiles.map(move |(place, output)| (place, run(output))).filter(|(_, run)| *run > 1)
}
