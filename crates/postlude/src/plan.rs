//! Decides how a problem is run on the CPU.
//!
//! In: an optimised graph and a problem. Out: a [`Schedule`]: plain data, everything an engine needs, printable and
//! parsable. What cannot be run is refused here, with a reason.

mod schedule;
mod sweeps;
mod text;

use crate::graph::{Axes, Graph, Op, Run};
use crate::problem::Problem;

pub use schedule::{Accumulators, Refusal, Schedule, Width};
pub use sweeps::{Sweeps, sweeps};
pub(crate) use sweeps::{crosses_regions, is_recomputed, row_nodes};
pub use text::ScheduleTextError;
pub(crate) use text::knobs;

impl Schedule {
    /// Whether regions that are run side by side write different bytes, of packed bits too.
    pub(crate) fn suits(&self, graph: &Graph, problem: &Problem) -> bool {
        let whole = self.columns >= problem.product_columns();
        let apart = match self.width {
            Width::Row => whole,
            Width::Part => !needs_whole_rows(graph) && (whole || self.columns.is_multiple_of(8)),
        };
        self.rows > 0 && self.columns > 0 && apart
    }
}

/// Accumulators of a region that stay in a core's second-level cache, beside what the epilogue makes of them.
const REGION_ELEMENTS: usize = 64 * 1024;
/// Rows of a region when the cache does not say otherwise.
const REGION_ROWS: usize = 64;

/// Picks a schedule.
pub fn plan(graph: &Graph, problem: &Problem, threads: Option<usize>) -> Result<Schedule, Refusal> {
    let width = if needs_whole_rows(graph) { Width::Row } else { Width::Part };
    let sweeps = sweeps(graph, width);
    let all = problem.product_columns();
    let (rows, columns) = match width {
        Width::Part => {
            let columns = all.min(REGION_ELEMENTS / REGION_ROWS);
            (REGION_ROWS, columns)
        }
        Width::Row => ((REGION_ELEMENTS / all.max(1)).clamp(1, REGION_ROWS), all),
    };
    let accumulators = if sweeps.retains { Accumulators::Retained } else { Accumulators::Streamed };
    if sweeps.retains {
        let need = problem.batch.saturating_mul(problem.rows).saturating_mul(all).saturating_mul(4);
        let have = isize::MAX as usize;
        if need > have {
            return Err(Refusal::Memory { what: "retained accumulators", need, have });
        }
    }
    let threads = threads
        .unwrap_or_else(|| std::thread::available_parallelism().map_or(1, usize::from))
        .max(1);
    Ok(Schedule {
        rows: rows.min(problem.rows.max(1)),
        columns: columns.max(1),
        width,
        sweeps: sweeps.count,
        accumulators,
        threads,
    })
}

/// Whether some value meets other columns of its row before the row is finished.
fn needs_whole_rows(graph: &Graph) -> bool {
    let own = graph.space().accumulator_axes().columns();
    let is_row_of_tile = |axes: Axes| axes.has_each_row() && axes.column.is_some();
    // Values that depend on a reduction along columns alone.
    let mut after_row = vec![false; graph.len()];
    for (id, node) in graph.nodes() {
        let columns_differ = is_row_of_tile(node.ty.axes) && node.ty.axes.columns() != own;
        let moves = matches!(node.op, Op::Part(..) | Op::Merge(..) | Op::Concat(..) | Op::Pick(..))
            && (node.ty.axes.has_each_row() || columns_differ);
        let inherits = node.op.operands().any(|operand| after_row[operand.index()]);
        let along = node.op.reduction().is_some_and(|(_, over, of)| {
            over.column.is_some() && !over.crosses_rows() && graph.ty(of).axes.has_each_row()
        });
        // A region folds the runs that begin in it.
        let torn = node.op.reduction().is_some_and(|(_, over, of)| {
            matches!(over.column, Some(Run::Group(_))) && graph.ty(of).axes.has_each_row()
        });
        after_row[id.index()] = along || inherits;
        if columns_differ || moves || torn || (inherits && is_row_of_tile(node.ty.axes)) {
            return true;
        }
    }
    graph.outputs().iter().any(|output| {
        let axes = graph.space().axes(&output.dims);
        axes.is_some_and(|axes| is_row_of_tile(axes) && axes.columns() != own)
    })
}
