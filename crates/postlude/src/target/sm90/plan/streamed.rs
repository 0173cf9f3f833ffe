//! Streamed rows: tiles of one row that passes through a ring in shared memory, a tile's columns at a time.
//!
//! In: what a row kernel has to hold. Out: rings of chunks that hold the part of a row that each CTA of a cluster has, or, where a
//! row is gone through once, some chunks of rows of any length; and what that costs. Invariant: where a row is gone through
//! again, its part stays in the ring until the last time.

use crate::graph::Top;
use crate::problem::Problem;
use crate::target::tile::{Cluster, KernelSchedule, Tile};

use super::chip::Sm90;
use super::row_needs::{CTA_BYTES, MOST_THREADS, RowNeeds};
use super::row_work::executed;
use super::schedule::Sm90Schedule;

/// Rows of 256 and of 512 threads, shared by as many CTAs.
pub(super) const STREAMED_TILES: [Tile; 8] = [
    streamed(8192, 2, 1),
    streamed(8192, 2, 2),
    streamed(8192, 2, 4),
    streamed(8192, 2, 8),
    streamed(16384, 4, 1),
    streamed(16384, 4, 2),
    streamed(16384, 4, 4),
    streamed(16384, 4, 8),
];

const fn streamed(columns: u32, math_warpgroups: u32, blocks: u32) -> Tile {
    let (kernel, cluster) = (KernelSchedule::StreamedRows, Cluster::tiles(1, blocks));
    Tile { rows: 1, columns, kernel, math_warpgroups, cluster }
}

/// Chunks of a ring: a copy is waited for by the number of groups behind it, which an instruction has.
pub(super) const MOST_CHUNKS: u32 = 32;
/// Elements of a row that a thread folds one after the other at most: bounds allow chains of 4096 roundings.
const MOST_FOLDED: u32 = 4000;
/// CTAs of an SM, so that some load while others compute.
const MOST_CTAS: u32 = 4;
/// Bytes that an SM's CTAs have under way where no row stays.
const UNDER_WAY: u32 = 96 * 1024;
/// Shared memory of a chip beside the ring of one CTA.
const BESIDE_RING: u32 = 4096;
/// Rows that threads hold in registers are shorter: those are loaded by more CTAs of an SM.
const LONG: u32 = 16384;
/// Elements of a row that is gone through once for which it is worth a ring.
const FOLDED: u32 = 8192;
/// Shorter ones are ranked in rounds, by tiles of many rows.
const LONG_RANKED: u32 = 2048;
/// Chunks of the longest rows that are ranked: nothing is rounded.
const MOST_RANKED: u32 = 4096;

/// Cycles from a row's last chunk to what follows from it, and more for each warp; those of a cluster's start.
const PASS: f64 = 500.0;
const PASS_WARP: f64 = 30.0;
const CLUSTER_START: f64 = 1000.0;
/// Cycles from a launch's first load to its last store.
const LATENCY: f64 = 3000.0;
/// Bytes in flight for which an SM gets its part of what memory moves.
const IN_FLIGHT: f64 = 12.0 * 1024.0;
/// Instructions of a thread for each chunk and traversal.
const CHUNK: f64 = 120.0;
/// How much of what takes less time does not overlap with what takes more, and more where a ring has no room ahead of a row.
const IN_TURN: f64 = 0.2;
const WITHOUT_ROOM: f64 = 0.05;
/// How much of a wave that is not full is lost: its CTAs have all of the memory for themselves.
const LAST_WAVE: f64 = 0.1;

impl RowNeeds {
    /// Whether a row is gone through again: passes wait for others, or its elements are stored.
    fn stays(&self) -> bool {
        self.traversals() > 1
    }

    /// Columns of the longest rows that rings of this many chunks take.
    pub(super) fn streamed_columns(&self, tile: Tile, chunks: u32) -> u32 {
        let columns = tile.columns * tile.cluster.blocks();
        columns
            * match self.ranked() {
                Some(_) => MOST_RANKED,
                None if self.stays() => chunks,
                None => MOST_FOLDED / tile.row_elements(),
            }
    }

    /// Chunks that the shared memory of a chip holds.
    fn most_chunks(&self, tile: Tile, chip: Sm90) -> u32 {
        let room = chip.shared_bytes - BESIDE_RING - self.ranked_bytes(tile);
        (room / (tile.columns * self.loaded)).min(MOST_CHUNKS)
    }

    /// Columns of the longest rows that a streamed tile takes; 0 where it takes none.
    pub(super) fn longest_streamed(&self, tile: Tile) -> u32 {
        if self.passes == 0 || self.loaded == 0 || !tile.row_elements().is_multiple_of(self.vector)
        {
            return 0;
        }
        match self.most_chunks(tile, Sm90::H200) {
            0 | 1 => 0,
            chunks => self.streamed_columns(tile, chunks),
        }
    }

    /// Whether planning streams such rows by itself.
    pub(super) fn are_long(&self) -> bool {
        let least = match self.ranked() {
            Some(count) if count > Top::MOST_IN_LAUNCH => LONG_RANKED,
            None if !self.stays() => FOLDED,
            Some(_) | None => LONG,
        };
        self.columns > least
    }
}

/// CTAs of an SM, and chunks of each one's ring: as many CTAs as have rings for their parts of a row.
pub(super) fn rings(tile: Tile, rows: &RowNeeds, chip: Sm90) -> Option<[u32; 2]> {
    let most = MOST_CTAS.min(MOST_THREADS / (128 * tile.math_warpgroups) / 2).max(1);
    let chunk = tile.columns * rows.loaded;
    let ring = |ctas: u32| {
        let room = (chip.shared_bytes + CTA_BYTES) / ctas - CTA_BYTES - BESIDE_RING;
        let room = room.saturating_sub(rows.ranked_bytes(tile));
        let wanted = if rows.stays() { MOST_CHUNKS } else { (UNDER_WAY / ctas / chunk).max(2) };
        let chunks = (room / chunk).min(wanted).min(MOST_CHUNKS);
        let holds = chunks > 1 && rows.streamed_columns(tile, chunks) >= rows.columns;
        holds.then_some([ctas, chunks])
    };
    (1..=most).rev().find_map(ring)
}

/// Whether a given schedule says of its ring what it holds, and has one only where rows are streamed.
pub(super) fn is_whole(schedule: &Sm90Schedule) -> bool {
    let tile = schedule.tile;
    let Some(rows) = schedule.needs.rows else { return true };
    if rows.multiple != 1 && rows.multiple != RowNeeds::side_by_side(tile) {
        return false;
    }
    if !tile.streams_rows() {
        return schedule.c_stages == 1;
    }
    let whole = rows.streamed_columns(schedule.tile, schedule.c_stages);
    rows.passes > 0
        && rows.loaded > 0
        && rows.columns == whole
        && (schedule.needs.whole_columns == 0 || schedule.needs.whole_columns == whole)
        && (2..=MOST_CHUNKS).contains(&schedule.c_stages)
}

/// Cycles of a streamed kernel for the whole problem. The constants are fitted to times on an H200 of norms, softmax and losses
/// whose rows have 16384 to 128256 columns.
pub(super) fn cycles(
    schedule: &Sm90Schedule,
    needs: &RowNeeds,
    problem: &Problem,
    chip: Sm90,
) -> f64 {
    let (tile, blocks) = (schedule.tile, schedule.tile.cluster.blocks());
    // A row's CTAs may not be on all SMs.
    let processors = f64::from(chip.together(blocks));
    let rows = (problem.rows * problem.batch) as f64;
    let columns = problem.product_columns() as f64;
    let at_once = (schedule.most_clusters(chip) as f64).min(rows);
    let full = rows / at_once;
    let waves = full + LAST_WAVE * (full.ceil() - full);
    let chunks = (columns / f64::from(tile.columns * blocks)).ceil();
    let slots = f64::from(schedule.c_stages);
    let running = at_once * f64::from(blocks);
    let chunk = f64::from(tile.columns * needs.loaded);
    let under_way = running * (chunks * full.ceil()).min(slots) * chunk;
    let in_flight =
        (under_way / (f64::from(chip.processors) * IN_FLIGHT)).clamp(0.02, 1.0) * processors;
    let bytes = rows * columns * f64::from(needs.moved) * waves / full;
    let moved = bytes / (Sm90::MEMORY_BYTES * in_flight / f64::from(chip.processors));
    let ctas = (running / processors).max(1.0);
    let threads = f64::from(schedule.threads());
    let each = f64::from(tile.row_elements() * schedule.needs.work)
        + CHUNK * f64::from(needs.traversals());
    let per_thread = chunks * each + needs.pass_instructions(tile.threads_per_row());
    let l1 = needs.l1_cycles(waves * ctas * chunks * f64::from(tile.columns), needs.traversals());
    let instructions = waves * ctas * threads * per_thread;
    let computed = executed(instructions, ctas * threads / 32.0, l1);
    let pass = PASS + PASS_WARP * threads / 32.0;
    let passes = f64::from(needs.passes) * pass;
    let ahead = if needs.stays() { slots - chunks } else { slots };
    let without = WITHOUT_ROOM * (1.0 - (ahead / chunks).min(1.0)) / ctas;
    // Nothing hides what follows from the last row.
    let waiting = passes * (1.0 + waves / ctas);
    let start = if blocks > 1 { CLUSTER_START } else { 0.0 };
    LATENCY + start + moved.max(computed) + (IN_TURN + without) * moved.min(computed) + waiting
}
