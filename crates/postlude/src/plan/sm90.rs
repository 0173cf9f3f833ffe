//! Schedules for Hopper: enumerate candidates, refuse with a reason, cost, pick.
//!
//! In: an optimised graph and a problem. Out: a [`Sm90Schedule`], everything the emitter needs. Code depends on it and on
//! dtypes alone; sizes and strides are parameters of the kernel.
//! Invariant: a schedule that is returned fits shared memory and registers, and the emitter can emit it.

mod candidates;
mod cost;
mod refuse;
mod text;

use crate::graph::Graph;
use crate::problem::Problem;

pub use candidates::{CANDIDATES, Tile};
pub use refuse::Sm90Refusal;

/// What the chip offers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Sm90 {
    /// Streaming multiprocessors.
    pub processors: u32,
    /// Shared memory that one CTA may ask for, in bytes.
    pub shared_bytes: u32,
}

impl Sm90 {
    /// An H200 or H100 SXM.
    pub const H200: Sm90 = Sm90 { processors: 132, shared_bytes: 232_448 };
}

/// How a product is run on Hopper.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Sm90Schedule {
    /// The tile of a CTA.
    pub tile: Tile,
    /// CTAs that share loads of B, along M.
    pub cluster: u32,
    /// Slots of the ring that A and B arrive in.
    pub stages: u32,
    /// Slots of each warpgroup's ring that tile outputs leave through.
    pub store_stages: u32,
    /// Tiles along M that are walked together, so that their B stays in L2.
    pub raster_group: u32,
    /// The most CTAs launched; `None` for as many as fit.
    pub grid_limit: Option<u32>,
}

/// Depth of one stage: 128 bytes of a 16-bit type, one swizzled row.
pub const STAGE_DEPTH: u32 = 64;
/// A store slot: 64 rows of 128 bytes.
pub const STORE_SLOT_BYTES: u32 = 64 * 128;

impl Sm90Schedule {
    /// Warpgroups that multiply; one more loads.
    pub fn consumers(&self) -> u32 {
        self.tile.consumers
    }

    /// Threads of a CTA.
    pub fn threads(&self) -> u32 {
        128 * (self.tile.consumers + 1)
    }

    /// Bytes of A and B in one stage.
    pub fn stage_bytes(&self) -> u32 {
        (self.tile.rows + self.tile.columns) * STAGE_DEPTH * 2
    }

    /// Dynamic shared memory: stages, store slots, barriers, and room to align to 1024 bytes.
    pub fn shared_bytes(&self) -> u32 {
        let barriers = 16 * self.stages;
        self.stages * self.stage_bytes()
            + self.consumers() * self.store_stages * STORE_SLOT_BYTES
            + barriers
            + 1024
    }

    /// CTAs for a problem on a chip.
    pub fn grid(&self, problem: &Problem, chip: Sm90) -> u32 {
        let rows = (problem.rows as u64).div_ceil(u64::from(self.tile.rows * self.cluster));
        let columns = (problem.product_columns() as u64).div_ceil(u64::from(self.tile.columns));
        let clusters = rows * columns * problem.batch as u64;
        let fit = u64::from(
            self.grid_limit.unwrap_or(chip.processors).min(chip.processors) / self.cluster,
        )
        .max(1);
        (clusters.clamp(1, fit) as u32) * self.cluster
    }
}

/// The schedule the model likes best, or why there is none.
pub fn plan(graph: &Graph, problem: &Problem, chip: Sm90) -> Result<Sm90Schedule, Sm90Refusal> {
    refuse::refuse(graph)?;
    let fitting = CANDIDATES.iter().filter_map(|tile| fit(*tile, chip));
    let best = fitting
        .min_by(|a, b| cost::cycles(a, problem, chip).total_cmp(&cost::cycles(b, problem, chip)));
    best.ok_or(Sm90Refusal::NoCandidate)
}

/// The schedule of a tile with as many stages as shared memory holds.
pub fn fit(tile: Tile, chip: Sm90) -> Option<Sm90Schedule> {
    let mut schedule = Sm90Schedule {
        tile,
        cluster: tile.cluster,
        stages: MOST_STAGES,
        store_stages: 2,
        raster_group: 8,
        grid_limit: None,
    };
    while schedule.shared_bytes() > chip.shared_bytes {
        schedule.stages -= 1;
        if schedule.stages < FEWEST_STAGES {
            return None;
        }
    }
    Some(schedule)
}

/// More hide nothing.
const MOST_STAGES: u32 = 8;
/// Fewer do not overlap loads with products.
const FEWEST_STAGES: u32 = 2;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_candidate_fits_a_chip() {
        for tile in CANDIDATES {
            let schedule =
                fit(*tile, Sm90::H200).expect("a candidate that fits nowhere is no candidate");
            assert!(
                schedule.shared_bytes() <= Sm90::H200.shared_bytes && schedule.stages >= 3,
                "{tile:?}"
            );
        }
    }

    #[test]
    fn the_large_tile_has_four_stages() {
        let large = CANDIDATES.iter().find(|tile| tile.rows == 128 && tile.columns == 256).copied();
        assert_eq!(
            large.and_then(|tile| fit(tile, Sm90::H200)).map(|schedule| schedule.stages),
            Some(4)
        );
    }

    #[test]
    fn a_printed_schedule_reads_back() {
        for tile in CANDIDATES {
            let schedule = fit(*tile, Sm90::H200).expect("it fits");
            assert_eq!(schedule.to_string().parse(), Ok(schedule));
        }
    }
}
