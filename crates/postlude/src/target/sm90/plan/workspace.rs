//! Where partial results lie in the launch's workspace.

use crate::problem::Problem;

use super::schedule::Sm90Schedule;
use super::slots::SLOT_ROWS;

/// Where partial results lie in bytes, behind the counters. All of it is zero whenever no kernel runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Workspace {
    /// Partial results along rows, along columns and of scalars.
    pub(crate) starts: [u64; 3],
    pub(crate) bytes: u64,
}

impl Workspace {
    pub(crate) fn of(schedule: &Sm90Schedule, problem: &Problem) -> Workspace {
        let words = schedule.needs.folds;
        if !words.any() {
            return Workspace { starts: [0; 3], bytes: 0 };
        }
        let tile = schedule.tile;
        let [rows, columns] = schedule.clusters(problem).map(|count| count.max(1));
        // How many tiles segments have is data: the last one of each may be almost empty, or all of it.
        let rows = match u64::from(tile.rows * tile.cluster.rows()) {
            each if problem.segmented => problem.rows as u64 / each + problem.batch as u64,
            _ => rows,
        };
        let (rows, columns) = (
            rows * u64::from(tile.cluster.rows() * tile.partials_per_tile()),
            columns * u64::from(tile.cluster.columns()),
        );
        let width = u64::from(schedule.width());
        let unit = match u64::from(tile.blocks() * SLOT_ROWS) {
            // Every row has a partial result of each strip.
            _ if tile.folds_strips() => (problem.rows as u64).div_ceil(rows),
            unit => unit,
        };
        // Partial results of segments lie one behind the other, and there are none along their rows.
        let (batch, rows_counted) =
            if problem.segmented { (1, 0) } else { (problem.batch as u64, rows) };
        // Of each batch, and of all.
        let counters = (problem.batch as u64 + 1) * (rows_counted + columns + 1);
        let sizes = [
            counters,
            u64::from(words.rows) * batch * columns * rows * unit,
            u64::from(words.columns) * batch * rows * columns * width,
            u64::from(words.scalars) * batch * rows * columns,
        ];
        let ends: Vec<u64> = sizes
            .iter()
            .scan(0, |end, size| {
                *end = (*end + size * 4).next_multiple_of(16);
                Some(*end)
            })
            .collect();
        Workspace { starts: [ends[0], ends[1], ends[2]], bytes: ends[3] }
    }
}
