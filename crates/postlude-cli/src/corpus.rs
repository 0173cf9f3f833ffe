//! `postlude corpus`: runs the literate cases on a backend.

use std::collections::BTreeMap;
use std::panic;
use std::path::{Path, PathBuf};

use postlude::Backend;
use postlude::cuda;
use postlude::runtime::Device;
use postlude::target::Overlap;
use postlude_corpus::{Case, Outcome as CaseOutcome, RunOptions, read_folder};
use serde::Serialize;

use crate::arguments::CorpusArguments;
use crate::failure::{Failure, Mistake, Outcome};
use crate::print;
use crate::progress::{Progress, Reader};

#[derive(Serialize)]
struct Summary {
    schema: u32,
    backend: &'static str,
    passed: usize,
    failed: usize,
    skipped: usize,
    /// Why cases were skipped, and how many for each reason.
    reasons: BTreeMap<String, usize>,
    cases: Vec<Line>,
}

#[derive(Serialize)]
struct Line {
    name: String,
    place: String,
    outcome: &'static str,
    /// What was found instead, or why it was skipped.
    found: Option<String>,
}

/// Runs the command.
pub(crate) fn corpus(arguments: &CorpusArguments) -> Result<Outcome, Failure> {
    let folder = arguments.folder.clone().map_or_else(find_folder, Ok)?;
    let cases = read_folder(&folder).map_err(|error| Mistake::new(error.to_string()))?;
    let cases: Vec<Case> =
        cases.into_iter().filter(|case| case.name().contains(&arguments.filter)).collect();
    if cases.is_empty() {
        let message = format!("no case has `{}` in its name", arguments.filter);
        return Err(Mistake::new(message)
            .fix("a name is `file::title`, as in `stability::`")
            .into());
    }
    let backend = arguments.backend.fixed().unwrap_or_default();
    check_flags(arguments, backend)?;
    let options = RunOptions {
        grid_limit: arguments.grid_limit,
        overlap: Overlap::of_programs(arguments.pdl),
        timing: arguments.timing.unwrap_or_default(),
        multiply_adds: Some(MOST_MULTIPLY_ADDS),
        copies: arguments.copies.map_or_else(Default::default, Into::into),
        lists: arguments.lists,
        ..RunOptions::default()
    };
    let progress = Progress::of(cases.len(), Reader::of(arguments.json));
    let mut lines = Vec::with_capacity(cases.len());
    // A case that panics is a failed case, reported with the others.
    let report_bug = panic::take_hook();
    panic::set_hook(Box::new(|_| {}));
    for case in &cases {
        progress.say(case.name());
        let (outcome, found) = match postlude_corpus::run(case, backend, &options) {
            CaseOutcome::Passed => ("passed", None),
            CaseOutcome::Failed(report) => ("failed", Some(report.to_string())),
            CaseOutcome::Skipped(reason) => ("skipped", Some(reason)),
        };
        lines.push(Line { name: case.name(), place: case.place(), outcome, found });
        progress.step();
    }
    panic::set_hook(report_bug);
    drop(progress);
    let count = |outcome| lines.iter().filter(|line| line.outcome == outcome).count();
    let mut reasons = BTreeMap::new();
    for line in lines.iter().filter(|line| line.outcome == "skipped") {
        *reasons.entry(line.found.clone().unwrap_or_default()).or_default() += 1;
    }
    let summary = Summary {
        schema: 1,
        backend: backend.name(),
        passed: count("passed"),
        failed: count("failed"),
        skipped: count("skipped"),
        reasons,
        cases: lines,
    };
    print::either(arguments.json, &summary, || summary.text())?;
    // A backend that refuses everything has shown nothing.
    let shown = summary.passed > 0 || summary.skipped == 0;
    Ok(if summary.failed == 0 && shown { Outcome::Fine } else { Outcome::CheckFailed })
}

impl Summary {
    fn text(&self) -> String {
        let mut text = String::new();
        for line in &self.cases {
            match (line.outcome, &line.found) {
                ("failed", Some(found)) => text.push_str(&format!("FAILED {found}\n")),
                ("skipped", Some(reason)) => {
                    text.push_str(&format!("skipped {}: {reason}\n", line.name));
                }
                _ => {}
            }
        }
        let mut reasons: Vec<(&String, &usize)> = self.reasons.iter().collect();
        reasons.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
        for (reason, count) in reasons {
            text.push_str(&format!("{count:>5} skipped: {reason}\n"));
        }
        let Summary { passed, failed, skipped, backend, .. } = self;
        text.push_str(&format!(
            "{passed} passed, {failed} failed, {skipped} skipped on {backend}\n"
        ));
        text
    }
}

/// What the simulator is asked for at most in one case: about a minute of one core.
const MOST_MULTIPLY_ADDS: u64 = 1 << 31;

/// Refuses what another backend is meant by.
fn check_flags(arguments: &CorpusArguments, backend: Backend) -> Result<(), Mistake> {
    if backend == Backend::Cuda {
        require_gpu()?;
    }
    if arguments.grid_limit.is_some() && !backend.runs_ptx() {
        return Err(Mistake::new("`--grid-limit` is for a GPU")
            .fix("run it with `--backend cuda` or `--backend sim`"));
    }
    if arguments.pdl && !backend.runs_ptx() {
        return Err(Mistake::new("`--pdl` is for a GPU")
            .fix("run it with `--backend cuda` or `--backend sim`"));
    }
    if arguments.timing.is_some() && backend != Backend::Sim {
        let mistake = Mistake::new("`--timing` is for the simulator");
        return Err(mistake.fix("run it with `--backend sim`"));
    }
    Ok(())
}

/// Without a GPU that runs kernels nothing would be tested.
pub(crate) fn require_gpu() -> Result<(), Mistake> {
    let found = Device::open(0).and_then(|device| cuda::chip(&device));
    found.map(|_| ()).map_err(|error| Mistake { message: error.to_string(), fix: error.fix() })
}

/// The nearest folder `corpus` with a README, from the current folder upwards.
fn find_folder() -> Result<PathBuf, Mistake> {
    let here = std::env::current_dir().map_err(|error| Mistake::io(Path::new("."), &error))?;
    let mut above = here.ancestors().map(|folder| folder.join("corpus"));
    above.find(|folder| folder.join("README.md").is_file()).ok_or_else(|| {
        Mistake::new("there is no folder `corpus` here or above")
            .fix("run this in a clone of the repository, or name the folder: `--folder PATH`")
    })
}
