//! Streamed rows: tiles of one row that passes through a ring in shared memory, a tile's columns at a time.
//!
//! In: what a row kernel has to hold. Out: rings of chunks that hold the part of a row that each CTA of a cluster has, or, where a
//! row is gone through once, some chunks of rows of any length; and what that costs. Invariant: where a row is gone through
//! again, its part stays in the ring until the last time.

use crate::problem::Problem;
use crate::target::tile::{Cluster, KernelSchedule, Tile};

use super::chip::Sm90;
use super::row_needs::{CTA_BYTES, MOST_THREADS, RowNeeds};
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

/// Cycles from a row's last chunk to what follows from it, in a CTA and in a cluster; and those of a cluster's start.
const PASS: f64 = 400.0;
const SHARED_PASS: f64 = 1500.0;
const CLUSTER_START: f64 = 3000.0;
/// Cycles from a launch's first load to its last store.
const LATENCY: f64 = 1500.0;
/// Bytes in flight for which an SM gets its part of what memory moves.
const IN_FLIGHT: f64 = 40.0 * 1024.0;
/// Instructions of an element beside those of its graph, and elements for which an SM issues one in a cycle.
const ELEMENT: f64 = 3.0;
const ISSUED: f64 = 100.0;

impl RowNeeds {
    /// Whether a row is gone through again: passes wait for others, or its elements are stored.
    fn stays(&self) -> bool {
        self.passes + u32::from(self.moved > self.loaded) > 1
    }

    /// Columns of the longest rows that rings of this many chunks take.
    pub(super) fn streamed_columns(&self, tile: Tile, chunks: u32) -> u32 {
        let columns = tile.columns * tile.cluster.blocks();
        columns * if self.stays() { chunks } else { MOST_FOLDED / tile.row_elements() }
    }

    /// Chunks that the shared memory of a chip holds.
    fn most_chunks(&self, tile: Tile, chip: Sm90) -> u32 {
        ((chip.shared_bytes - BESIDE_RING) / (tile.columns * self.loaded)).min(MOST_CHUNKS)
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
        self.columns > LONG
    }
}

/// CTAs of an SM, and chunks of each one's ring: as many CTAs as have rings for their parts of a row.
pub(super) fn rings(tile: Tile, rows: &RowNeeds, chip: Sm90) -> Option<[u32; 2]> {
    let most = MOST_CTAS.min(MOST_THREADS / (128 * tile.math_warpgroups) / 2).max(1);
    let chunk = tile.columns * rows.loaded;
    let ring = |ctas: u32| {
        let room = (chip.shared_bytes + CTA_BYTES) / ctas - CTA_BYTES - BESIDE_RING;
        let wanted = if rows.stays() { MOST_CHUNKS } else { (UNDER_WAY / ctas / chunk).max(2) };
        let chunks = (room / chunk).min(wanted).min(MOST_CHUNKS);
        let holds = chunks > 1 && rows.streamed_columns(tile, chunks) >= rows.columns;
        holds.then_some([ctas, chunks])
    };
    (1..=most).rev().find_map(ring)
}

/// Whether a given schedule says of its ring what it holds.
pub(super) fn is_whole(schedule: &Sm90Schedule) -> bool {
    let Some(rows) = schedule.needs.rows.filter(|_| schedule.tile.streams_rows()) else {
        return true;
    };
    let whole = rows.streamed_columns(schedule.tile, schedule.c_stages);
    rows.passes > 0
        && rows.loaded > 0
        && rows.columns == whole
        && (schedule.needs.whole_columns == 0 || schedule.needs.whole_columns == whole)
        && (2..=MOST_CHUNKS).contains(&schedule.c_stages)
}

/// Cycles of a streamed kernel for the whole problem. None of the constants is fitted.
pub(super) fn cycles(
    schedule: &Sm90Schedule,
    needs: &RowNeeds,
    problem: &Problem,
    chip: Sm90,
) -> f64 {
    let (tile, processors) = (schedule.tile, f64::from(chip.processors));
    let blocks = f64::from(tile.cluster.blocks());
    let rows = (problem.rows * problem.batch) as f64;
    let columns = problem.product_columns() as f64;
    let at_once = (schedule.most_clusters(chip) as f64).min(rows);
    let waves = (rows / at_once).ceil();
    let chunks = (columns / (f64::from(tile.columns) * blocks)).ceil();
    let chunk = f64::from(tile.columns * needs.loaded);
    let under_way = (chunks * waves).min(f64::from(schedule.c_stages)) * chunk;
    let in_flight = (at_once * blocks * under_way / (processors * IN_FLIGHT)).clamp(0.02, 1.0);
    let idle = waves * at_once / rows;
    let moved = rows * columns * f64::from(needs.moved) * idle / (Sm90::MEMORY_BYTES * in_flight);
    let ctas = (at_once * blocks / processors).max(1.0);
    let work = f64::from(schedule.needs.work) + ELEMENT;
    let computed = waves * ctas * chunks * f64::from(tile.columns) * work / ISSUED;
    let shares = blocks > 1.0;
    let pass = if shares { SHARED_PASS } else { PASS };
    let passes = waves * f64::from(needs.passes) * pass / ctas;
    let start = if shares { CLUSTER_START } else { 0.0 };
    LATENCY + start + moved.max(computed) + passes
}
