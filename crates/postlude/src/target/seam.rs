//! What a target implements: candidates, refusals, acceptance, code and launch facts.

use std::error::Error;
use std::fmt::{Debug, Display};
use std::str::FromStr;

use postlude_ptx::entry::Entry;
use postlude_ptx::launch::Launch;

use crate::graph::MathMode;
use crate::lower::BoundProgram;
use crate::plan::ScheduleTextError;

use super::tile::Tile;

/// The kernel's name in the PTX.
pub const ENTRY: &str = "postlude";

/// A chip, as planning sees it: what it offers, which of its schedules run a program, and their code.
pub(super) trait Target: Copy + Debug {
    /// How a program is run: plain data that prints and reads back.
    type Schedule: Clone + PartialEq + Display + FromStr<Err = ScheduleTextError>;
    /// Why a program is not run.
    type Refusal: Error;

    /// Every tile that is tried, in the order of preference among equals, with its cost or why it is not taken.
    fn candidates(self, bound: &BoundProgram) -> Result<Vec<CandidateOf<Self>>, Self::Refusal>;

    /// The schedules to try, best first and at least one.
    fn schedules(self, bound: &BoundProgram) -> Result<Vec<Self::Schedule>, Self::Refusal>;

    /// Schedules of every kind that may run a program, whether planning takes them by itself or not, best first.
    fn contenders(self, bound: &BoundProgram) -> Result<Vec<Self::Schedule>, Self::Refusal>;

    /// The same schedule with other launch parameters that tuning tries: none changes code.
    fn variations(schedule: &Self::Schedule) -> Vec<Self::Schedule>;

    /// The tiles that are tried, in the order of preference among equals.
    fn tiles(self) -> &'static [Tile];

    /// The schedule of a tile, whether planning would take it by itself or not; `None` where it does not fit.
    fn fit(self, tile: Tile, bound: &BoundProgram)
    -> Result<Option<Self::Schedule>, Self::Refusal>;

    /// The schedule of a program with a light epilogue that has the tile and the launch parameters of another one's.
    fn like(
        self,
        schedule: &Self::Schedule,
        bound: &BoundProgram,
    ) -> Result<Option<Self::Schedule>, Self::Refusal>;

    /// Whether a given schedule can run a program, or why not.
    fn accept(self, schedule: &Self::Schedule, bound: &BoundProgram) -> Result<(), Self::Refusal>;

    /// Cycles of a schedule as the model counts them, where a thread has this many bytes that its registers do not hold.
    fn cycles(self, schedule: &Self::Schedule, bound: &BoundProgram, spilled: u32) -> f64;

    /// The same schedule with at most this many CTAs.
    fn limited(schedule: Self::Schedule, grid_limit: u32) -> Self::Schedule;

    /// The code of a program; that of a launch which overlaps with its neighbours waits for the one before.
    fn emit(planned: &PlannedFor<Self>, math: MathMode, overlaps: bool) -> Entry;

    /// The facts of its launch; `scalars` are what the host passes, by place in the signature.
    fn launch(planned: &PlannedFor<Self>, scalars: &[Option<f64>]) -> Launch;
}

/// A tile that was tried, and what became of it: a schedule and its cycles, or why it is not taken.
pub(super) type CandidateOf<T> =
    (Tile, Result<(<T as Target>::Schedule, f64), <T as Target>::Refusal>);

/// The best schedules that tuning varies, and as many as come before what it varies.
const VARIED: usize = 6;
const BEFORE_VARIED: usize = 24;

/// A program and a schedule that runs it on a chip. Only planning makes one, so emitting cannot fail.
#[derive(Clone, Debug)]
pub(super) struct PlannedFor<T: Target> {
    bound: BoundProgram,
    schedule: T::Schedule,
    chip: T,
}

impl<T: Target> PlannedFor<T> {
    /// The program with the planner's schedules, best first and at least one.
    pub(super) fn plan(bound: &BoundProgram, chip: T) -> Result<Vec<PlannedFor<T>>, T::Refusal> {
        let with = |schedule| PlannedFor { bound: bound.clone(), schedule, chip };
        Ok(chip.schedules(bound)?.into_iter().map(with).collect())
    }

    /// The program with a given schedule, or why it does not fit.
    pub(super) fn accept(
        schedule: &T::Schedule,
        bound: &BoundProgram,
        chip: T,
    ) -> Result<PlannedFor<T>, T::Refusal> {
        chip.accept(schedule, bound)?;
        Ok(PlannedFor { bound: bound.clone(), schedule: schedule.clone(), chip })
    }

    /// The same program with every other schedule that runs it, best first as the model sees them; behind the first of them,
    /// the best with other launch parameters.
    pub(super) fn contenders(&self) -> Result<Vec<PlannedFor<T>>, T::Refusal> {
        let mut others = self.chip.contenders(&self.bound)?;
        others.retain(|schedule| *schedule != self.schedule);
        let best = std::iter::once(&self.schedule).chain(&others).take(VARIED);
        let varied: Vec<T::Schedule> = best.flat_map(T::variations).collect();
        let behind = others.len().min(BEFORE_VARIED);
        others.splice(behind..behind, varied);
        // Two of the best may be each other's variations.
        let mut seen = vec![self.schedule.clone()];
        others.retain(|schedule| {
            let is_new = !seen.contains(schedule);
            seen.extend(is_new.then(|| schedule.clone()));
            is_new
        });
        let accepted = |schedule| PlannedFor::accept(&schedule, &self.bound, self.chip).ok();
        Ok(others.into_iter().filter_map(accepted).collect())
    }

    /// The same with at most this many CTAs, where there is a limit.
    pub(super) fn limited(self, grid_limit: Option<u32>) -> PlannedFor<T> {
        match grid_limit {
            Some(limit) => PlannedFor { schedule: T::limited(self.schedule, limit), ..self },
            None => self,
        }
    }

    /// Cycles as the model counts them, where a thread has this many bytes that its registers do not hold.
    pub(super) fn cycles(&self, spilled: u32) -> f64 {
        self.chip.cycles(&self.schedule, &self.bound, spilled)
    }

    /// The program at the sizes of the call.
    pub(super) fn bound(&self) -> &BoundProgram {
        &self.bound
    }

    /// How it is run.
    pub(super) fn schedule(&self) -> &T::Schedule {
        &self.schedule
    }

    /// What it is run on.
    pub(super) fn chip(&self) -> T {
        self.chip
    }
}
