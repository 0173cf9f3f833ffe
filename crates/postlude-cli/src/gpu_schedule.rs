//! Schedules for a GPU, from a file or from the planner.
//!
//! In: a kernel and sizes. Out: the kernel planned for a chip. No GPU is needed: the chip is the standard one, and tensors
//! lie as `run` would lay them out.

use std::path::Path;

use postlude::plan::ScheduleTextError;
use postlude::target::{Chip, Planned, Planning, Schedule, renamed_words};
use postlude::{Error, KernelLaunch, Options};

use crate::bindings::Loaded;
use crate::diagnose;
use crate::failure::{Failure, Mistake};
use crate::source::read_text;

/// Reads a printed schedule; a bad line is named with its number. Words of the last release are read with a warning.
pub(crate) fn read_schedule(path: &Path) -> Result<Schedule, Failure> {
    let text = read_text(path)?;
    let schedule = text.parse::<Schedule>().map_err(|error: ScheduleTextError| {
        let line = error.line().map_or(String::new(), |line| format!(":{line}"));
        let mistake = Mistake::new(format!("{}{line}: {error}", path.display()));
        let fix = "print one: `postlude explain SRC --size ... --target sm90 --stage schedule`";
        mistake.fix(fix)
    })?;
    if let [(old, new), ..] = &renamed_words(&text)[..] {
        let message = format!(
            "{}: this schedule is in words of the last release, which the next one will not read",
            path.display()
        );
        let fix = format!(
            "write `{new}` for `{old}`, or print it: `postlude explain SRC ... --target sm90 --stage schedule --schedule FILE`"
        );
        diagnose::warn_without_place(&message, &fix);
    }
    Ok(schedule)
}

/// A problem for a GPU.
pub(crate) struct GpuProblem<'a> {
    loaded: &'a Loaded,
    options: &'a Options,
    pub(crate) launch: &'a KernelLaunch,
    /// Whether a schedule of the caller's is for it.
    takes_schedule: bool,
}

impl<'a> GpuProblem<'a> {
    /// One launch of a kernel.
    pub(crate) fn of_launch(
        loaded: &'a Loaded,
        options: &'a Options,
        launch: &'a KernelLaunch,
        takes_schedule: bool,
    ) -> GpuProblem<'a> {
        GpuProblem { loaded, options, launch, takes_schedule }
    }

    /// The problem with the given schedule if it fits, or with the planner's.
    pub(crate) fn planned(&self) -> Result<Planned, Failure> {
        let planning = self.planning()?;
        let planned = match self.given_schedule() {
            Some(schedule) => planning.accept(schedule),
            None => planning.best(),
        };
        planned.map_err(|refusal| self.failure(refusal))
    }

    /// The caller's schedule, if it is for this launch.
    pub(crate) fn given_schedule(&self) -> Option<&Schedule> {
        self.options.hooks.schedule.as_ref().filter(|_| self.takes_schedule)
    }

    /// How the kernel is compiled.
    pub(crate) fn options(&self) -> &Options {
        self.options
    }

    /// The call as planning sees it.
    pub(crate) fn planning(&self) -> Result<Planning<'_>, Failure> {
        self.launch.planning(Chip::STANDARD).map_err(|error| self.failure(error))
    }

    fn failure(&self, error: impl Into<Error>) -> Failure {
        self.loaded.failure(error)
    }

    /// A line for each tile of the table: what it costs, or why it is refused.
    pub(crate) fn candidates(&self, taken: &Schedule) -> Result<String, Failure> {
        let candidates = self.planning()?.candidates().map_err(|refusal| self.failure(refusal))?;
        let mut text = "# candidates, with cycles as the model counts them\n".to_owned();
        let mut on_request = Vec::new();
        for candidate in candidates {
            let tile = candidate.tile;
            let size = format!("{} x {}", tile.rows, tile.columns);
            let mut swap = "";
            let verdict = match candidate.verdict {
                Ok((schedule, cycles)) => {
                    swap =
                        if schedule.knob("swap_ab").is_some() { ", A and B swapped" } else { "" };
                    let mark = if schedule == *taken { ", taken" } else { "" };
                    let stages = schedule.number("stages");
                    format!("{stages} stages, {cycles:.0} cycles{mark}")
                }
                Err(refusal) if refusal.is_on_request() => {
                    on_request.push(refusal);
                    continue;
                }
                Err(refusal) => format!("refused: {refusal}"),
            };
            let (kernel, cluster) = (tile.kernel.name(), tile.cluster);
            text.push_str(&format!("# {size:<9} cluster {cluster}, {kernel}{swap}: {verdict}\n"));
        }
        if let [refusal, ..] = &on_request[..] {
            text.push_str(&format!("# {} others, each {refusal}\n", on_request.len()));
        }
        Ok(text)
    }
}
