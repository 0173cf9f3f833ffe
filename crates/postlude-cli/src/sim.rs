//! `postlude sim`: PTX on the processor, emitted or written by hand.

use std::path::Path;

use postlude::sim::Report;
use postlude_sim::{Options, SimError, run_observed};
use serde::Serialize;

use crate::arguments::SimArguments;
use crate::failure::{Failure, Mistake, Outcome};
use crate::files::{Targets, require_writable};
use crate::launch;
use crate::print;
use crate::progress::{Progress, Reader, Simulating, Work};
use crate::report::OutputReport;
use crate::source::read_text;
use crate::watch::{Simulated, Watched, Watching};

/// Findings that are shown where they end the run.
const SHOWN: usize = 4;

/// A finished run.
#[derive(Serialize)]
struct Ran {
    schema: u32,
    program: String,
    /// Buffers that the program changed.
    changed: Vec<OutputReport>,
    simulation: Simulated,
}

/// Runs the command.
pub(crate) fn sim(arguments: &SimArguments) -> Result<Outcome, Failure> {
    let path = &arguments.program;
    let text = read_text(path)?;
    let bound = launch::read(&arguments.launch)?;
    let mut targets = Targets::default();
    for held in &bound.buffers {
        if let Some(path) = &held.write {
            targets.add(&held.name, held.dtype(), path)?;
        }
    }
    let watch = &arguments.watch;
    let mut buffers: Vec<Vec<u8>> = bound.buffers.iter().map(|held| held.bytes.clone()).collect();
    let mut watching = Watching::new(watch, &buffers, &bound.regions);
    let options = Options {
        timing: watch.timing.unwrap_or_default(),
        regions: bound.regions.clone(),
        outputs: (0..).zip(&bound.buffers).filter_map(|(place, held)| held.output(place)).collect(),
        budget: watch.budget.unwrap_or(Options::default().budget),
        ..Options::default()
    };
    if let Some(path) = &watch.trace {
        require_writable(path)?;
    }
    let progress = Progress::start(Reader::of(arguments.json));
    progress.say(format!("simulating {}", path.display()));
    let ctas = bound.launch.grid.iter().map(|size| u64::from(*size)).product();
    let mut simulating = Simulating::new(&progress, Work::Ctas(ctas));
    let mut observer = watching.observer();
    if progress.is_shown() {
        observer.0.push(&mut simulating);
    }
    let report = run_observed(&text, &bound.launch, &mut buffers, &options, &mut observer)
        .map_err(|error| {
            let used_up = matches!(error, SimError::Budget { .. });
            let mistake = Mistake::file(path, error);
            if used_up { mistake.fix("`--budget` gives it more") } else { mistake }
        })?;
    drop(observer);
    drop(progress);
    if !watch.findings {
        accept(path, &report)?;
    }
    let (mut changed, mut written) = (Vec::new(), Vec::new());
    for (held, bytes) in bound.buffers.iter().zip(buffers) {
        let same = held.bytes == bytes;
        if same && held.write.is_none() {
            continue;
        }
        let tensor = held.tensor(bytes)?;
        if !same {
            changed.push(OutputReport::of(&held.name, &tensor));
        }
        written.push((held.name.clone(), tensor));
    }
    targets.write(&written)?;
    let names: Vec<String> = bound.buffers.iter().map(|held| held.name.clone()).collect();
    let mut watched = Watched::new(watch);
    watched.add(watching, (&path.display().to_string(), &text), &names, &report);
    let simulation = watched.finish()?;
    let ran = Ran { schema: 1, program: path.display().to_string(), changed, simulation };
    print::either(arguments.json, &ran, || ran.text())?;
    Ok(if ran.simulation.is_wrong() { Outcome::CheckFailed } else { Outcome::Fine })
}

/// Whether the simulator has nothing against the run; else what it has, the first findings a few lines each.
fn accept(path: &Path, report: &Report) -> Result<(), Mistake> {
    let (findings, count) = (&report.findings, report.findings.len());
    if findings.is_empty() && report.finished {
        return Ok(());
    }
    if findings.is_empty() {
        return Err(Mistake::file(path, "some threads did not come to their end"));
    }
    let plural = if count == 1 { "" } else { "s" };
    let mut details: Vec<String> = findings.iter().take(SHOWN).map(ToString::to_string).collect();
    if count > SHOWN {
        details.push(format!("and {} more", count - SHOWN));
    }
    let mistake = Mistake::file(path, format!("the simulator has {count} finding{plural}"));
    Err(mistake
        .details(details.join("\n"))
        .fix("`--findings` lists them all and shows what was computed"))
}

impl Ran {
    fn text(&self) -> String {
        let rows: Vec<Vec<String>> = self.changed.iter().map(OutputReport::row).collect();
        print::table(&rows) + &self.simulation.text()
    }
}
