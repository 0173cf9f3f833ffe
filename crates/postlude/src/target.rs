//! Targets: what a chip runs, how, and in which code.
//!
//! ```text
//! TileProgram, sizes, placements ─ plan or accept ─> Planned ─┬─ emit ──> PTX
//!                                                             └─ launch ─> launch facts
//! ```
//!
//! In: a tile program and a call. Out: a [`Planned`] for a chip, or why there is none. A target implements one trait; only
//! its own folder knows the chip.
//! Invariant: only planning makes a [`Planned`], so emitting and launching cannot fail.

mod copy_rule;
mod knob;
mod overlap;
mod price;
mod seam;
mod sm90;
mod tile;

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use postlude_ptx::entry::Entry;
use postlude_ptx::launch::Launch;

use crate::dtype::DType;
use crate::graph::Side;
use crate::graph::{Graph, Input, MathMode, OperandCopies};
use crate::lower::Lowered;
use crate::lower::{BoundProgram, LowerRefusal, TileProgram};
use crate::placement::Placements;
use crate::plan::ScheduleTextError;
use crate::problem::Problem;

pub use copy_rule::CopyRule;
pub use overlap::Overlap;
pub(crate) use price::cheapest;
pub use price::{Moved, Price};
pub use seam::ENTRY;
use seam::{PlannedFor, Target};
use sm90::{Sm90, Sm90Refusal, Sm90Schedule};
pub use tile::{Cluster, KernelSchedule, Tile};

/// A chip, as planning sees it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Chip(ChipKind);

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum ChipKind {
    Sm90(Sm90),
}

impl Chip {
    /// The chip that code is planned for where there is none to ask, and that the simulator is: an H200.
    pub const STANDARD: Chip = Chip(ChipKind::Sm90(Sm90::H200));

    /// A GPU by its compute capability, SMs and the shared memory of a CTA in bytes; `None` where no target is for it.
    pub fn new(capability: (u32, u32), processors: u32, shared_bytes: u32) -> Option<Chip> {
        match capability {
            (9, 0) => Some(Chip(ChipKind::Sm90(Sm90 { processors, shared_bytes }))),
            _ => None,
        }
    }

    /// The tiles that are tried, in the order of preference among equals.
    pub fn tiles(self) -> &'static [Tile] {
        match self.0 {
            ChipKind::Sm90(chip) => chip.tiles(),
        }
    }

    /// CTAs, one an SM, that run at a time in clusters of this many.
    pub fn together(self, blocks: u32) -> u32 {
        match self.0 {
            ChipKind::Sm90(chip) => chip.together(blocks),
        }
    }

    /// Shared memory that one CTA may ask for, in bytes.
    pub fn shared_bytes(self) -> u32 {
        match self.0 {
            ChipKind::Sm90(chip) => chip.shared_bytes,
        }
    }

    /// Bytes that memory moves in a cycle.
    fn memory_bytes(self) -> f64 {
        match self.0 {
            ChipKind::Sm90(_) => Sm90::MEMORY_BYTES,
        }
    }
}

/// How a program is run on a chip: a text of knobs, each with its value.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Schedule(ScheduleKind);

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
enum ScheduleKind {
    Sm90(Sm90Schedule),
}

impl Schedule {
    /// What the code depends on: the same schedule whatever a launch decides.
    pub fn code(&self) -> Schedule {
        match &self.0 {
            ScheduleKind::Sm90(schedule) => Schedule(ScheduleKind::Sm90(schedule.code())),
        }
    }

    /// Dynamic shared memory of a CTA, in bytes.
    pub fn shared_bytes(&self) -> u32 {
        match &self.0 {
            ScheduleKind::Sm90(schedule) => schedule.shared_bytes(),
        }
    }

    /// Whether load warps compute an operand.
    pub(crate) fn computes_operand(&self) -> bool {
        match &self.0 {
            ScheduleKind::Sm90(schedule) => schedule.is_widened(),
        }
    }

    /// The tile of a CTA.
    pub fn tile(&self) -> Tile {
        match &self.0 {
            ScheduleKind::Sm90(schedule) => schedule.tile,
        }
    }

    /// Multiply-adds of all tiles of a problem, what lies beyond its edges counted.
    pub fn multiply_adds(&self, problem: &Problem) -> u64 {
        match &self.0 {
            ScheduleKind::Sm90(schedule) => schedule.multiply_adds(problem),
        }
    }
}

impl fmt::Display for Schedule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            ScheduleKind::Sm90(schedule) => schedule.fmt(f),
        }
    }
}

impl FromStr for Schedule {
    type Err = ScheduleTextError;

    fn from_str(text: &str) -> Result<Schedule, ScheduleTextError> {
        text.parse().map(|schedule| Schedule(ScheduleKind::Sm90(schedule)))
    }
}

/// Words of the last release in a schedule's text, each with its word of this one.
pub fn renamed_words(text: &str) -> Vec<(String, String)> {
    sm90::renamed_words(text)
}

/// Whether a target multiplies the sums of runs of K with a graph's block scales; elements are scaled where none does.
pub(crate) fn scales_sums(graph: &Graph) -> bool {
    sm90::scales_sums(graph)
}

/// Whether a target's launch computes an operand as it loads it.
pub(crate) fn widens(input: &Input) -> bool {
    sm90::widens(input)
}

/// Whether a call takes the launch that computes an operand as it loads it: a given schedule says so itself; else where that is
/// worth it, for every tile along the other side computes the operand again.
pub(crate) fn computes_in_mainloop(
    side: Side,
    problem: &Problem,
    schedule: Option<&Schedule>,
) -> bool {
    /// Beyond as many, a launch that stores the operand costs less.
    const MOST: usize = 128;
    let others = match side {
        Side::Left => problem.product_columns(),
        Side::Right => problem.rows,
    };
    schedule.map_or(others <= MOST, Schedule::computes_operand)
}

/// How a target wants the operands of a graph's own products copied at the sizes of a call, of each product A and B; `None`
/// where it reads all of them as they lie.
pub(crate) fn operand_copies(
    graph: &Graph,
    problem: &Problem,
    placements: &Placements,
    rule: CopyRule,
) -> Option<OperandCopies> {
    sm90::operand_copies(graph, problem, placements, rule)
}

/// Why an operand of these elements is copied, where it is.
pub(crate) const fn copy_reason(dtype: DType) -> &'static str {
    sm90::copy_reason(dtype)
}

/// Why a chip does not run a program.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error(transparent)]
pub struct TargetRefusal(RefusalKind);

#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
enum RefusalKind {
    #[error(transparent)]
    Sm90(#[from] Sm90Refusal),
}

impl TargetRefusal {
    /// The bytes of the statement that is refused, where it is one.
    pub(crate) fn bytes(&self) -> Option<(u32, u32)> {
        match &self.0 {
            RefusalKind::Sm90(refusal) => refusal.bytes(),
        }
    }

    /// What to do about it.
    pub fn fix(&self) -> Option<String> {
        match &self.0 {
            RefusalKind::Sm90(refusal) => Some(refusal.fix().to_owned()),
        }
    }

    /// Whether planning only leaves a tile to schedules that name it.
    pub fn is_on_request(&self) -> bool {
        match &self.0 {
            RefusalKind::Sm90(refusal) => *refusal == Sm90Refusal::OnRequest,
        }
    }

    /// Every refusal of a schedule or a tile, with an example of what causes it.
    #[doc(hidden)]
    pub fn examples() -> Vec<(&'static str, TargetRefusal)> {
        let all = Sm90Refusal::examples().into_iter();
        all.map(|(cause, refusal)| (cause, refusal.into())).collect()
    }
}

impl From<Sm90Refusal> for TargetRefusal {
    fn from(refusal: Sm90Refusal) -> TargetRefusal {
        TargetRefusal(refusal.into())
    }
}

impl From<LowerRefusal> for TargetRefusal {
    fn from(refusal: LowerRefusal) -> TargetRefusal {
        Sm90Refusal::from(refusal).into()
    }
}

/// A tile that was tried, and what became of it.
#[derive(Clone, PartialEq, Debug)]
pub struct Candidate {
    /// The tile.
    pub tile: Tile,
    /// How it would be run and its cycles, as the model sees them, or why it is not taken.
    pub verdict: Result<(Schedule, f64), TargetRefusal>,
}

/// Cycles from the end of a launch to the first instruction of the next one.
const BETWEEN_LAUNCHES: f64 = 4500.0;

/// What a kernel costs on tensors that lie without gaps, each of its graphs as one launch; `None` where one of them is refused.
/// A launch takes no less than its bytes take from memory.
pub(crate) fn price(
    graph: &Graph,
    lowered: &Lowered,
    problem: &Problem,
    chip: Chip,
) -> Option<Price> {
    let placements = Placements::packed(graph, problem);
    let program = lowered.program().ok()?;
    let planning = Planning { program, problem, placements: &placements, chip };
    let bytes = Moved::of(graph, problem).bytes();
    let from_memory = |bytes: u64| bytes as f64 / chip.memory_bytes();
    let beside = from_memory(Moved::beyond_results(graph, problem));
    let cycles = (planning.best().ok()?.cycles(0) + beside).max(from_memory(bytes));
    let mut all = Price { launches: 1, bytes, cycles };
    for earlier in graph.earlier() {
        let problem = problem.of_computing(earlier.graph).ok()?;
        let before = price(earlier.graph, &Lowered::new(earlier.graph), &problem, chip)?;
        all.launches += before.launches;
        all.bytes += before.bytes;
        all.cycles += before.cycles + BETWEEN_LAUNCHES;
    }
    Some(all)
}

/// A call as planning sees it: a program, its sizes and where its tensors lie, on a chip.
#[derive(Clone, Copy, Debug)]
pub struct Planning<'a> {
    /// What is computed.
    pub program: &'a Arc<TileProgram>,
    /// Sizes.
    pub problem: &'a Problem,
    /// Where tensors lie.
    pub placements: &'a Placements,
    /// What it is run on.
    pub chip: Chip,
}

/// As many of the model's best schedules are timed beside those of all tiles.
const BEST: usize = 40;

impl Planning<'_> {
    fn bound(&self) -> Result<BoundProgram, LowerRefusal> {
        BoundProgram::new(self.program, self.problem, self.placements)
    }

    /// Every tile that is tried, or why the problem is refused whatever the tile.
    pub fn candidates(&self) -> Result<Vec<Candidate>, TargetRefusal> {
        match self.chip.0 {
            ChipKind::Sm90(chip) => {
                let candidate = |(tile, verdict): seam::CandidateOf<Sm90>| Candidate {
                    tile,
                    verdict: match verdict {
                        Ok((schedule, cycles)) => {
                            Ok((Schedule(ScheduleKind::Sm90(schedule)), cycles))
                        }
                        Err(refusal) => Err(refusal.into()),
                    },
                };
                Ok(chip.candidates(&self.bound()?)?.into_iter().map(candidate).collect())
            }
        }
    }

    /// The schedule of a tile, whether planning would take it by itself or not; `None` where it does not fit.
    pub fn fit(&self, tile: Tile) -> Result<Option<Schedule>, TargetRefusal> {
        match self.chip.0 {
            ChipKind::Sm90(chip) => {
                let schedule = chip.fit(tile, &self.bound()?)?;
                Ok(schedule.map(|schedule| Schedule(ScheduleKind::Sm90(schedule))))
            }
        }
    }

    /// The schedules of all tiles that fit, and the best of those with slices of their K as the model sees them.
    pub fn every(&self) -> Result<Vec<Schedule>, TargetRefusal> {
        match self.chip.0 {
            ChipKind::Sm90(chip) => {
                let all = chip.contenders(&self.bound()?)?.into_iter().enumerate();
                let taken = all.filter(|(place, it)| it.split_k_slices == 1 || *place < BEST);
                Ok(taken.map(|(_, it)| Schedule(ScheduleKind::Sm90(it))).collect())
            }
        }
    }

    /// The program with the planner's schedules, best first and at least one.
    pub fn all(&self) -> Result<Vec<Planned>, TargetRefusal> {
        match self.chip.0 {
            ChipKind::Sm90(chip) => {
                let all = PlannedFor::plan(&self.bound()?, chip)?.into_iter();
                Ok(all.map(|planned| Planned(PlannedKind::Sm90(planned))).collect())
            }
        }
    }

    /// The program with the schedule that the model likes best, or why there is none.
    pub fn best(&self) -> Result<Planned, TargetRefusal> {
        let best = self.all()?.into_iter().next();
        best.ok_or_else(|| Sm90Refusal::NoCandidate.into())
    }

    /// The program with a given schedule, or why it does not fit.
    pub fn accept(&self, schedule: &Schedule) -> Result<Planned, TargetRefusal> {
        match (self.chip.0, &schedule.0) {
            (ChipKind::Sm90(chip), ScheduleKind::Sm90(schedule)) => {
                let planned = PlannedFor::accept(schedule, &self.bound()?, chip)?;
                Ok(Planned(PlannedKind::Sm90(planned)))
            }
        }
    }

    /// The program with the tile and the launch parameters of another one's schedule; `None` where an epilogue that is not light
    /// may want others.
    pub fn like(&self, schedule: &Schedule) -> Result<Option<Planned>, TargetRefusal> {
        match (self.chip.0, &schedule.0) {
            (ChipKind::Sm90(chip), ScheduleKind::Sm90(schedule)) => {
                let bound = self.bound()?;
                let Some(schedule) = chip.like(schedule, &bound)? else { return Ok(None) };
                let planned = PlannedFor::accept(&schedule, &bound, chip)?;
                Ok(Some(Planned(PlannedKind::Sm90(planned))))
            }
        }
    }

    /// The given schedule alone if there is one, or else the planner's.
    pub fn all_or(&self, given: Option<&Schedule>) -> Result<Vec<Planned>, TargetRefusal> {
        match given {
            Some(schedule) => Ok(vec![self.accept(schedule)?]),
            None => self.all(),
        }
    }
}

/// A program and a schedule that runs it on a chip.
#[derive(Clone, Debug)]
pub struct Planned(PlannedKind);

#[derive(Clone, Debug)]
enum PlannedKind {
    Sm90(PlannedFor<Sm90>),
}

impl Planned {
    /// How it is run.
    pub fn schedule(&self) -> Schedule {
        match &self.0 {
            PlannedKind::Sm90(planned) => Schedule(ScheduleKind::Sm90(planned.schedule().clone())),
        }
    }

    /// Where the tensors of its call lie.
    #[cfg(feature = "cuda")]
    pub(crate) fn placements(&self) -> &Placements {
        match &self.0 {
            PlannedKind::Sm90(planned) => planned.bound().call(),
        }
    }

    /// The same program with every other schedule that runs it, best first as the model sees them.
    pub fn contenders(&self) -> Result<Vec<Planned>, TargetRefusal> {
        match &self.0 {
            PlannedKind::Sm90(planned) => {
                let others = planned.contenders()?.into_iter();
                Ok(others.map(|planned| Planned(PlannedKind::Sm90(planned))).collect())
            }
        }
    }

    /// Its code.
    pub fn emit(&self, math: MathMode) -> Entry {
        self.emit_overlapping(math, false)
    }

    /// Its code where it may overlap with the launches before and behind it: see [`Overlap`].
    pub fn emit_overlapping(&self, math: MathMode, overlaps: bool) -> Entry {
        match &self.0 {
            PlannedKind::Sm90(planned) => Sm90::emit(planned, math, overlaps),
        }
    }

    /// Cycles as the model counts them, where a thread has this many bytes that its registers do not hold.
    pub fn cycles(&self, spilled: u32) -> f64 {
        match &self.0 {
            PlannedKind::Sm90(planned) => planned.cycles(spilled),
        }
    }

    /// The same with at most this many CTAs, where there is a limit.
    #[must_use]
    pub fn limited(self, grid_limit: Option<u32>) -> Planned {
        match self.0 {
            PlannedKind::Sm90(planned) => Planned(PlannedKind::Sm90(planned.limited(grid_limit))),
        }
    }

    /// The facts of its launch. Buffers are the inputs in the order of the
    /// signature, then the outputs; each begins with its tensor's first element. `scalars` are what the host passes, by
    /// place in the signature.
    pub fn launch(&self, scalars: &[Option<f64>]) -> Launch {
        match &self.0 {
            PlannedKind::Sm90(planned) => Sm90::launch(planned, scalars),
        }
    }
}
