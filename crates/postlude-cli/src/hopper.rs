//! Schedules for Hopper, from a file or from the planner.
//!
//! In: a kernel and sizes. Out: a schedule that its emitter takes. No GPU is needed: the chip is an H200, and tensors
//! lie as `run` would lay them out.

use std::path::Path;

use postlude::plan::ScheduleTextError;
use postlude::plan::sm90::{self, Placements, Sm90, Sm90Refusal, Sm90Schedule};
use postlude::{Compiled, Options, Problem};

use crate::arguments::{CompileArguments, Pair};
use crate::bindings::Loaded;
use crate::diagnose;
use crate::failure::{Failure, Mistake};

/// The chip that code is planned for where there is none to ask.
pub(crate) const CHIP: Sm90 = Sm90::H200;

/// Reads a printed schedule; a bad line is named with its number. Words of the last release are read with a warning.
pub(crate) fn read_schedule(path: &Path) -> Result<Sm90Schedule, Failure> {
    let text = std::fs::read_to_string(path).map_err(|error| Mistake::io(path, &error))?;
    let schedule = text.parse::<Sm90Schedule>().map_err(|error: ScheduleTextError| {
        let line = error.line().map_or(String::new(), |line| format!(":{line}"));
        let mistake = Mistake::new(format!("{}{line}: {error}", path.display()));
        let fix = "print one: `postlude explain SRC --size ... --target sm90 --stage schedule`";
        mistake.fix(fix)
    })?;
    if let [(old, new), ..] = &sm90::renamed_words(&text)[..] {
        let message = format!(
            "{}: this schedule is in words of the last release, which the next one will not read",
            path.display()
        );
        let fix = format!(
            "write `{new}` for `{old}`, or print it: `postlude explain SRC ... --target sm90 --stage schedule --schedule FILE`"
        );
        diagnose::warn_of_file(&message, &fix);
    }
    Ok(schedule)
}

/// A problem on Hopper.
pub(crate) struct Planned<'a> {
    loaded: &'a Loaded,
    pub(crate) compiled: &'a Compiled,
    options: &'a Options,
    pub(crate) problem: Problem,
    pub(crate) placements: Placements,
}

impl<'a> Planned<'a> {
    /// The problem that the command line describes.
    pub(crate) fn new(
        loaded: &'a Loaded,
        compiled: &'a Compiled,
        options: &'a Options,
        arguments: &CompileArguments,
    ) -> Result<Planned<'a>, Failure> {
        let given: &[Pair<usize>] = &arguments.sizes;
        let sizes = loaded.sizes(given)?;
        let problem =
            Problem::new(compiled.defined(), &sizes).map_err(|error| loaded.failure(error))?;
        let placements = Placements::packed(compiled.optimised(), &problem);
        Ok(Planned { loaded, compiled, options, problem, placements })
    }

    /// The given schedule if it fits, or the planner's.
    pub(crate) fn schedule(&self) -> Result<Sm90Schedule, Failure> {
        let graph = self.compiled.optimised();
        let (problem, placements) = (&self.problem, &self.placements);
        let planned = match &self.options.hooks.schedule {
            Some(schedule) => {
                sm90::accept(schedule, graph, problem, placements, CHIP).map(|()| schedule.clone())
            }
            None => sm90::plan(graph, problem, placements, CHIP),
        };
        planned.map_err(|refusal| self.loaded.failure(refusal))
    }

    /// A line for each tile of the table: what it costs, or why it is refused.
    pub(crate) fn candidates(&self) -> Result<String, Failure> {
        let graph = self.compiled.optimised();
        let candidates = sm90::candidates(graph, &self.problem, &self.placements, CHIP);
        let candidates = candidates.map_err(|refusal| self.loaded.failure(refusal))?;
        let taken = self.schedule()?;
        let mut text = "# candidates, with cycles as the model counts them\n".to_owned();
        let mut on_request = 0;
        for candidate in candidates {
            let tile = candidate.tile;
            let size = format!("{} x {}", tile.rows, tile.columns);
            let verdict = match candidate.verdict {
                Ok(ranked) => {
                    let mark = if ranked.schedule == taken { ", taken" } else { "" };
                    let stages = ranked.schedule.stages;
                    format!("{stages} stages, {:.0} cycles{mark}", ranked.cycles)
                }
                Err(Sm90Refusal::OnRequest) => {
                    on_request += 1;
                    continue;
                }
                Err(refusal) => format!("refused: {refusal}"),
            };
            let (kernel, cluster) = (tile.kernel.name(), tile.cluster);
            text.push_str(&format!("# {size:<9} cluster {cluster}, {kernel}: {verdict}\n"));
        }
        if on_request > 0 {
            let refusal = Sm90Refusal::OnRequest;
            text.push_str(&format!("# {on_request} others, each {refusal}\n"));
        }
        Ok(text)
    }
}
