//! What tuning is asked for, what it tells, and what it gives.

use std::path::PathBuf;
use std::time::Duration;

use crate::target::Schedule;

/// How long to tune, and who hears of it.
pub struct TuneOptions<'a> {
    /// What compiling and measuring may take together.
    pub budget: Duration,
    /// Hears what is being done.
    pub tell: &'a (dyn Fn(TuneStep) + Sync),
    /// Asked often; when it says so, tuning ends and keeps what it measured.
    pub stop: &'a (dyn Fn() -> bool + Sync),
    /// The kernel that is tuned as text, for people who read the records.
    pub note: Option<String>,
}

impl TuneOptions<'_> {
    /// What a budget is unless it is given.
    pub const BUDGET: Duration = Duration::from_secs(4);
}

impl Default for TuneOptions<'_> {
    fn default() -> Self {
        TuneOptions { budget: Self::BUDGET, tell: &|_| {}, stop: &|| false, note: None }
    }
}

/// What tuning is doing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TuneStep {
    /// Candidates are compiled and their results compared.
    Compiling {
        /// The launch, counted from 1.
        launch: usize,
        /// All launches that have a choice.
        launches: usize,
        /// Candidates.
        candidates: usize,
    },
    /// Candidates are timed.
    Measuring {
        /// The launch, counted from 1.
        launch: usize,
        /// All launches that have a choice.
        launches: usize,
        /// Candidates that are left.
        candidates: usize,
    },
}

/// What tuning a kernel came to.
#[derive(Clone, PartialEq, Debug)]
pub struct Tuned {
    /// Every launch with what was measured of it, in the order in which they run.
    pub launches: Vec<TunedLaunch>,
    /// Whether it was stopped before it knew the best schedule of every launch.
    pub stopped: bool,
    /// The file that has the records.
    pub file: Option<PathBuf>,
    /// Why no file has them, where one should.
    pub not_kept: Option<String>,
}

/// What was measured of a launch.
#[derive(Clone, PartialEq, Debug)]
pub struct TunedLaunch {
    /// The graph that it computes, by name.
    pub name: String,
    /// Its sizes, as the command line takes them.
    pub sizes: String,
    /// Schedules that were timed, fastest first; the one that later runs take is [`Measured::chosen`].
    pub measured: Vec<Measured>,
    /// Schedules that were not timed, and why: their code did not compile, or their results were wrong.
    pub refused: Vec<(Schedule, String)>,
}

impl TunedLaunch {
    /// The schedule that later runs take.
    pub fn chosen(&self) -> Option<&Measured> {
        self.measured.iter().find(|measured| measured.chosen)
    }

    /// The planner's own choice.
    pub fn planned(&self) -> Option<&Measured> {
        self.measured.iter().find(|measured| measured.planned)
    }
}

/// What a schedule was measured to take.
#[derive(Clone, PartialEq, Debug)]
pub struct Measured {
    /// The schedule.
    pub schedule: Schedule,
    /// Seconds of a launch in turn with other candidates.
    pub interleaved: f64,
    /// Seconds of a launch behind itself, for schedules that were left at the end.
    pub alone: Option<f64>,
    /// Rounds that were measured.
    pub rounds: usize,
    /// Whether the planner takes it by itself.
    pub planned: bool,
    /// Whether later runs take it.
    pub chosen: bool,
}
