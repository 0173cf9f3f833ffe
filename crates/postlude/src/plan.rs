//! Decides how a problem is run.
//!
//! In: an optimised graph and a problem. Out: a [`Schedule`]: plain data, everything an engine needs, printable and
//! parsable. What cannot be run is refused here, with a reason.

pub mod sm90;
mod sweeps;
mod text;

use crate::graph::{Graph, Op};
use crate::problem::Problem;

pub use sweeps::{Sweeps, sweeps};
pub(crate) use sweeps::{crosses_regions, is_recomputed, row_nodes};
pub use text::ScheduleTextError;

/// Why a problem is not run.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Refusal {
    /// More memory than an address space has, or than was said to be free.
    #[error("this problem needs {need} bytes for {what}; {have} are available")]
    Memory {
        /// What the memory is for.
        what: &'static str,
        /// Bytes needed.
        need: usize,
        /// Bytes there are.
        have: usize,
    },
    /// More threads than the system gives.
    #[error("the system does not give {threads} threads")]
    Threads {
        /// How many were asked for.
        threads: usize,
    },
}

impl Refusal {
    /// What to do about it, where that is known.
    pub fn fix(&self) -> Option<String> {
        match self {
            Refusal::Memory { .. } => Some("make the problem smaller".to_owned()),
            Refusal::Threads { .. } => Some("ask for fewer threads".to_owned()),
        }
    }
}

/// How the columns of a region are chosen.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Width {
    /// Part of a row: the math needs no other columns.
    Part,
    /// A whole row: a value meets other columns of its row.
    Row,
}

/// Whether accumulators outlive their region.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Accumulators {
    /// Each region's are used while they are hot and then forgotten.
    Streamed,
    /// All are kept: a finished reduction meets the tile again.
    Retained,
}

/// How a problem is run on the CPU.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Schedule {
    /// Rows of a region.
    pub rows: usize,
    /// Columns of a region, of the product's own.
    pub columns: usize,
    /// Why the columns are as many as they are.
    pub width: Width,
    /// How often the epilogue passes over the tile: once more for each reduction that meets it again.
    pub sweeps: usize,
    /// Whether accumulators are kept between sweeps.
    pub accumulators: Accumulators,
    /// How many threads share the regions.
    pub threads: usize,
}

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
    let own = graph.product().column.divisor();
    // Values that depend on a reduction along columns alone.
    let mut after_row = vec![false; graph.len()];
    for (id, node) in graph.nodes() {
        let columns_differ =
            node.ty.axes.row && node.ty.axes.column.is_some_and(|divisor| divisor != own);
        let moves = matches!(node.op, Op::Part(..) | Op::Merge(..) | Op::Pick(..))
            && (node.ty.axes.row || columns_differ);
        let inherits = node.op.operands().any(|operand| after_row[operand.index()]);
        let along = match &node.op {
            Op::Reduce(_, over, of) => {
                over.column.is_some() && !over.crosses_rows() && graph.ty(*of).axes.row
            }
            _ => false,
        };
        after_row[id.index()] = along || inherits;
        if columns_differ
            || moves
            || (inherits && node.ty.axes.row && node.ty.axes.column.is_some())
        {
            return true;
        }
    }
    graph.outputs().iter().any(|output| {
        let axes = graph.product().axes(&output.dims);
        axes.is_some_and(|axes| axes.row && axes.column.is_some_and(|divisor| divisor != own))
    })
}
