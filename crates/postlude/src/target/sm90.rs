//! Hopper.

mod emit;
mod plan;

use postlude_ptx::entry::Entry;
use postlude_ptx::launch::Launch;

use crate::graph::MathMode;
use crate::lower::BoundProgram;

use super::seam::{CandidateOf, PlannedFor, Target};
use super::tile::Tile;
pub(crate) use plan::{
    Sm90, Sm90Refusal, Sm90Schedule, copy_reason, operand_copies, renamed_words, scales_sums,
    widens,
};

impl Target for Sm90 {
    type Schedule = Sm90Schedule;
    type Refusal = Sm90Refusal;

    fn candidates(self, bound: &BoundProgram) -> Result<Vec<CandidateOf<Sm90>>, Sm90Refusal> {
        let judged = |candidate: plan::Candidate| {
            let verdict = candidate.verdict.map(|ranked| (ranked.schedule, ranked.cycles));
            (candidate.tile, verdict)
        };
        Ok(plan::candidates(bound, self)?.into_iter().map(judged).collect())
    }

    fn schedules(self, bound: &BoundProgram) -> Result<Vec<Sm90Schedule>, Sm90Refusal> {
        plan::schedules(bound, self)
    }

    fn contenders(self, bound: &BoundProgram) -> Result<Vec<Sm90Schedule>, Sm90Refusal> {
        plan::contenders(bound, self)
    }

    fn variations(schedule: &Sm90Schedule) -> Vec<Sm90Schedule> {
        let multiplies = schedule.needs.mainloop.is_some();
        let of = |raster| Sm90Schedule { raster, ..schedule.clone() };
        schedule.raster.others().into_iter().filter(|_| multiplies).map(of).collect()
    }

    fn tiles(self) -> &'static [Tile] {
        plan::CANDIDATES
    }

    fn fit(self, tile: Tile, bound: &BoundProgram) -> Result<Option<Sm90Schedule>, Sm90Refusal> {
        plan::fitted(tile, bound, self)
    }

    fn like(
        self,
        schedule: &Sm90Schedule,
        bound: &BoundProgram,
    ) -> Result<Option<Sm90Schedule>, Sm90Refusal> {
        plan::like(schedule, bound, self)
    }

    fn accept(self, schedule: &Sm90Schedule, bound: &BoundProgram) -> Result<(), Sm90Refusal> {
        plan::accept(schedule, bound, self)
    }

    fn cycles(self, schedule: &Sm90Schedule, bound: &BoundProgram, spilled: u32) -> f64 {
        plan::cycles(schedule, own(schedule, bound).problem(), self, spilled)
    }

    fn limited(schedule: Sm90Schedule, grid_limit: u32) -> Sm90Schedule {
        Sm90Schedule { grid_limit: Some(grid_limit), ..schedule }
    }

    fn emit(planned: &PlannedFor<Sm90>, math: MathMode, overlaps: bool) -> Entry {
        let bound = own(planned.schedule(), planned.bound());
        emit::emit(bound.program(), planned.schedule(), math, overlaps)
    }

    fn launch(planned: &PlannedFor<Sm90>, scalars: &[Option<f64>]) -> Launch {
        let bound = own(planned.schedule(), planned.bound());
        emit::launch(bound, planned.schedule(), planned.chip(), scalars)
    }
}

/// The program that an accepted schedule runs of a call.
fn own<'a>(schedule: &Sm90Schedule, bound: &'a BoundProgram) -> &'a BoundProgram {
    schedule.own(bound).unwrap_or_else(|| panic!("compiler bug: no program with A and B swapped"))
}
