//! What tuning says about a schedule that `explain` shows.

use postlude::target::{Planned, Schedule};
use postlude::tuning::{Found, Record};
use postlude_yardstick::search::{knobs, telling};

use crate::gpu_schedule::GpuProblem;
use crate::measure;

/// The schedule that runs on the standard chip take, where one was measured for it, and the lines that say so.
pub(crate) fn tuned(problem: &GpuProblem<'_>) -> Option<(Planned, String)> {
    let (planning, options) = (problem.planning().ok()?, problem.options());
    if problem.given_schedule().is_some() {
        return None;
    }
    let graph = problem.launch.graph();
    let (launch, chip) = ((graph, options.math), planning.chip);
    let (found, planned) = options.records.find(launch, |machine| machine.is(chip), &planning)?;
    Some((planned, text(&found)))
}

fn time(record: &Record) -> String {
    measure::duration(1e-6 * record.interleaved_us)
}

/// Comments before a schedule: what it took, what the planner's choice took, and what lost.
fn text(found: &Found) -> String {
    let record = &found.record;
    let what = if found.plain { " without its epilogue" } else { "" };
    let mut text = format!("# tuned: measured {}{what}", time(record));
    match found.planned() {
        Some(planned) if planned.chosen => text.push_str(", the planner's choice"),
        Some(planned) => text.push_str(&format!("; the planner's choice {}", time(planned))),
        None => {}
    }
    let origin =
        found.file.as_ref().map_or("shipped".to_owned(), |file| file.display().to_string());
    text.push_str(&format!(" ({}, driver {}, {origin})\n", record.machine.name, record.driver));
    let known: Vec<(&Record, Vec<String>)> = found
        .session
        .iter()
        .filter_map(|record| Some((record, knobs(&record.schedule.parse::<Schedule>().ok()?))))
        .collect();
    let all: Vec<&[String]> = known.iter().map(|(_, knobs)| knobs.as_slice()).collect();
    let (apart, _) = telling(&all);
    for ((record, _), knobs) in known.iter().zip(apart).filter(|((record, _), _)| !record.chosen) {
        text.push_str(&format!("# lost: {}: {}\n", time(record), knobs.join(", ")));
    }
    text
}
