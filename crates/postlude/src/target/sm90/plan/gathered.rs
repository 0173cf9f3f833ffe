//! Rows of tables that a row kernel reads by vectors, as it reads its tile operands.
//!
//! In: a tile program whose elements are entries of tables, each at a row that an index says and at its own column. Out: the
//! tables whose rows threads load 16 bytes at a time. Invariant: all of them lie so, or none is read by vectors.

use crate::graph::{IndexAxis, InputId, Kind, NodeId, Op};
use crate::lower::{TileProgram, table_dims};
use crate::placement::{Placement, Placements};

use super::place::MAP_ALIGNMENT;

/// Elements that are entries of a table's rows.
#[derive(Clone, Copy)]
pub(crate) struct GatheredRows {
    /// The entry.
    pub(crate) node: NodeId,
    pub(crate) table: InputId,
    /// The table's row, which is the same for all elements of a row and waits for no pass over them.
    pub(crate) index: NodeId,
}

/// The entries whose columns are those of the elements.
pub(crate) fn gathered_rows(program: &TileProgram) -> Vec<GatheredRows> {
    let graph = program.graph();
    let column = [graph.space().column.clone()];
    let gathered = |node: NodeId| {
        let Op::Entry(table, index, at) = graph[node].op else { return None };
        let of_row = matches!(graph.ty(index).axes.kind(), Kind::AlongRows | Kind::Scalar)
            && program.passes[index.index()] == 0
            && !program.after_reductions[index.index()];
        let own = graph[at].op == Op::Index(IndexAxis::Column)
            && table_dims(graph, table).get(1..) == Some(&column)
            && graph.ty(node).axes.kind() == Kind::Tile
            && graph.ty(at).axes.column == Some(column[0].divisor());
        (of_row && own).then_some(GatheredRows { node, table, index })
    };
    let live = graph.nodes().map(|(id, _)| id).filter(|id| program.live[id.index()]);
    live.filter_map(gathered).collect()
}

/// Bytes of an element of all of them, where their tables lie so that threads load vectors; 0 where one does not.
pub(super) fn gathered_bytes(program: &TileProgram, placements: &Placements) -> u32 {
    let bytes = |rows: &GatheredRows| {
        let dtype = program.graph().inputs()[rows.table.0 as usize].dtype;
        let bits = dtype.bits() as u32;
        let whole = matches!(bits, 8 | 16 | 32) && lies_by_rows(placements.input(rows.table), bits);
        whole.then_some(bits / 8)
    };
    gathered_rows(program).iter().map(bytes).sum::<Option<u32>>().unwrap_or(0)
}

/// Whether every row of a table begins at a multiple of 16 bytes, and its elements lie side by side.
fn lies_by_rows(placement: &Placement, bits: u32) -> bool {
    let whole = |stride: isize| {
        (stride.unsigned_abs() as u64 * u64::from(bits)).is_multiple_of(8 * MAP_ALIGNMENT)
    };
    matches!(placement.strides[..], [row, 1] if whole(row))
        && placement.alignment().is_multiple_of(MAP_ALIGNMENT)
}
