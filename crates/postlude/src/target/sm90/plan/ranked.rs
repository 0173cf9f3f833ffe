//! Rows whose largest elements are ranked: the shared memory of a CTA, what it costs, and lists that no other kernel gives.
//!
//! In: what a row kernel has to hold. Out: how many candidates wait in shared memory. Invariant: a chunk adds at most
//! [`MOST_RAISING`] candidates, and a row ends with the elements of as many threads, so that they never overflow.

use crate::graph::Top;
use crate::lower::{TileProgram, refuse_many_top};
use crate::problem::Problem;
use crate::target::tile::Tile;

use super::chip::Sm90;
use super::needs::Needs;
use super::refusal::Sm90Refusal;
use super::row_needs::RowNeeds;
use super::schedule::Sm90Schedule;

/// Threads of a CTA that are added as they are for what they have of a chunk; of more, a bound is searched first. At least as
/// many as a list has.
pub(crate) const MOST_RAISING: u32 = 64;
/// Candidates that wait for more; if there are others, the best are kept.
pub(crate) const KEPT: u32 = 1024;
/// Bytes of a candidate: a key and an index.
pub(crate) const CANDIDATE_BYTES: u32 = 8;
/// Bytes of counters.
pub(crate) const COUNTER_BYTES: u32 = 32;

impl RowNeeds {
    /// Bytes of candidates and their counters.
    pub(super) fn ranked_bytes(&self, tile: Tile) -> u32 {
        let most = (MOST_RAISING * tile.row_elements()).max(KEPT + MOST_RAISING);
        self.ranked().map_or(0, |_| most * CANDIDATE_BYTES + COUNTER_BYTES)
    }
}

/// Cycles from a launch's first load to its last store, and of a cluster's start.
const LATENCY: f64 = 1500.0;
const CLUSTER_START: f64 = 3000.0;
/// Cycles of a chunk that is there, and from a load to its data.
const CHUNK: f64 = 500.0;
const ROUND_TRIP: f64 = 1200.0;
/// Cycles of a row beside its chunks, and of candidates that CTAs bring together.
const ROW: f64 = 4000.0;
const TOGETHER: f64 = 2500.0;
/// Instructions of an element beside those of its term, and elements for which an SM issues one in a cycle.
const ELEMENT: f64 = 5.0;
const ISSUED: f64 = 100.0;
/// What is counted for an element and each word of a list that threads keep.
const KEPT_WORD: u32 = 5;

/// Cycles of a kernel that ranks rows, for the whole problem. None of the constants is fitted.
pub(super) fn cycles(
    schedule: &Sm90Schedule,
    needs: &RowNeeds,
    problem: &Problem,
    chip: Sm90,
) -> f64 {
    let (tile, shares) = (schedule.tile, schedule.tile.cluster.blocks() > 1);
    let blocks = f64::from(tile.cluster.blocks());
    let (rows, columns) = ((problem.rows * problem.batch) as f64, problem.product_columns() as f64);
    let at_once = (schedule.most_clusters(chip) as f64).min(rows);
    let waves = (rows / at_once).ceil();
    let chunks = (columns / (f64::from(tile.columns) * blocks)).ceil();
    let moved = waves * at_once * columns * f64::from(needs.moved) / Sm90::MEMORY_BYTES;
    let short = needs.ranked().is_some_and(|count| count <= Top::MOST_IN_LAUNCH);
    let kept = if short { KEPT_WORD * needs.words } else { 0 };
    let work = f64::from(schedule.needs.work.saturating_sub(kept)) + ELEMENT;
    let ctas = (at_once * blocks / f64::from(chip.processors)).max(1.0);
    let computed = waves * ctas * chunks * f64::from(tile.columns) * work / ISSUED;
    let (start, together) = if shares { (CLUSTER_START, TOGETHER) } else { (0.0, 0.0) };
    let of_chunk = CHUNK + ROUND_TRIP / f64::from(schedule.c_stages);
    let waited = waves * (chunks * of_chunk + ROW + together);
    LATENCY + start + moved.max(computed).max(waited)
}

impl Needs {
    /// Whether planning ranks rows by itself.
    pub(super) fn ranks_long_rows(&self) -> bool {
        self.rows.is_some_and(|rows| rows.ranked().is_some() && rows.are_long())
    }

    /// Whether rows have lists that no other kernel gives.
    pub(super) fn has_long_lists(&self) -> bool {
        let is_long = |count: u32| count > Top::MOST_IN_LAUNCH;
        self.rows.is_some_and(|rows| rows.ranked().is_some_and(is_long))
    }
}

impl Sm90Schedule {
    /// Bytes of candidates and their counters.
    pub(super) fn ranked_bytes(&self) -> u32 {
        self.needs.rows.map_or(0, |rows| rows.ranked_bytes(self.tile))
    }

    /// Whether a row's largest elements are ranked by this kernel.
    pub(crate) fn ranks_rows(&self) -> bool {
        self.tile.streams_rows() && self.ranked_bytes() > 0
    }
}

/// Refuses lists that only this kernel gives, where it does not run or does not pay.
pub(super) fn refuse(program: &TileProgram, needs: &Needs) -> Result<(), Sm90Refusal> {
    if is_long(program) && !needs.is_held() { Ok(refuse_many_top(program)?) } else { Ok(()) }
}

/// Whether a program gives lists that only this kernel does.
pub(super) fn is_long(program: &TileProgram) -> bool {
    program.ranked().is_some_and(|ranked| ranked.is_long())
}
