//! Decides how a problem is run on the CPU.
//!
//! In: the sweeps of a kernel and a problem. Out: a [`Schedule`]: plain data, everything an engine needs, printable and
//! parsable. What cannot be run is refused here, with a reason.

mod schedule;
mod text;

use crate::lower::{SweepProgram, Width};
use crate::problem::Problem;

pub use schedule::{Accumulators, Refusal, Schedule};
pub use text::ScheduleTextError;
pub(crate) use text::knobs;

impl Schedule {
    /// Whether it is one of these sweeps, and regions that are run side by side write different bytes, of packed bits too.
    pub(crate) fn suits(&self, program: &SweepProgram, problem: &Problem) -> bool {
        let whole = self.columns >= problem.product_columns();
        let apart = whole || self.width == Width::Part && self.columns.is_multiple_of(8);
        let own = (self.width, self.sweeps) == (program.width, program.sweeps.len());
        self.rows > 0 && self.columns > 0 && apart && own
    }
}

/// Accumulators of a region that stay in a core's second-level cache, beside what the epilogue makes of them.
const REGION_ELEMENTS: usize = 64 * 1024;
/// Rows of a region when the cache does not say otherwise.
const REGION_ROWS: usize = 64;

/// Picks a schedule.
pub fn plan(
    program: &SweepProgram,
    problem: &Problem,
    threads: Option<usize>,
) -> Result<Schedule, Refusal> {
    let SweepProgram { width, retains, .. } = *program;
    let all = problem.product_columns();
    let (rows, columns) = match width {
        Width::Part => {
            let columns = all.min(REGION_ELEMENTS / REGION_ROWS);
            (REGION_ROWS, columns)
        }
        Width::Row => ((REGION_ELEMENTS / all.max(1)).clamp(1, REGION_ROWS), all),
    };
    let accumulators = if retains { Accumulators::Retained } else { Accumulators::Streamed };
    if retains {
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
        sweeps: program.sweeps.len(),
        accumulators,
        threads,
    })
}
