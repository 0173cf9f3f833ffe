//! `postlude corpus`: runs the literate cases on a backend.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::{panic, thread};

use postlude::Backend;
use postlude::cuda;
use postlude::runtime::Device;
use postlude::target::Overlap;
use postlude_corpus::{Case, Outcome as CaseOutcome, RunOptions, read_folder};
use serde::Serialize;

use crate::arguments::CorpusArguments;
use crate::failure::{Failure, Mistake, Outcome};
use crate::interruption::interruption;
use crate::print;
use crate::progress::{Progress, Reader};

#[derive(Serialize)]
struct Summary {
    schema: u32,
    backend: &'static str,
    passed: usize,
    failed: usize,
    skipped: usize,
    /// Cases that were not run before Ctrl-C.
    not_run: usize,
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
    let jobs = arguments.jobs.map_or_else(|| usual_jobs(backend), usize::from);
    let stop = interruption();
    let progress = Progress::of(cases.len(), Reader::of(arguments.json));
    // A case that panics is a failed case, reported with the others.
    let report_bug = panic::take_hook();
    panic::set_hook(Box::new(|_| {}));
    let lines = run_all(&cases, jobs, &stop, |case| {
        progress.say(case.name());
        let (outcome, found) = match postlude_corpus::run(case, backend, &options) {
            CaseOutcome::Passed => ("passed", None),
            CaseOutcome::Failed(report) => ("failed", Some(report.to_string())),
            CaseOutcome::Skipped(reason) => ("skipped", Some(reason)),
        };
        progress.step();
        Line { name: case.name(), place: case.place(), outcome, found }
    });
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
        not_run: cases.len() - lines.len(),
        reasons,
        cases: lines,
    };
    print::either(arguments.json, &summary, || summary.text())?;
    // A backend that refuses everything has shown nothing.
    let shown = summary.passed > 0 || summary.skipped == 0;
    Ok(if summary.failed > 0 {
        Outcome::CheckFailed
    } else if summary.not_run > 0 {
        Outcome::Interrupted
    } else if shown {
        Outcome::Fine
    } else {
        Outcome::CheckFailed
    })
}

/// How many cases run at a time where nothing is asked for: the processor's engine uses all cores by itself.
fn usual_jobs(backend: Backend) -> usize {
    if backend.runs_ptx() { thread::available_parallelism().map_or(1, usize::from) } else { 1 }
}

/// The stack of a thread that runs cases: as much as the first thread of a process has.
const STACK_BYTES: usize = 8 << 20;

/// Runs cases on several threads until all are run or it is to stop; what was found, in the order of the cases.
fn run_all(
    cases: &[Case],
    jobs: usize,
    stop: &AtomicBool,
    run: impl Fn(&Case) -> Line + Sync,
) -> Vec<Line> {
    let (next, found) = (AtomicUsize::new(0), Mutex::new(Vec::with_capacity(cases.len())));
    let work = || {
        while !stop.load(Ordering::Relaxed) {
            let place = next.fetch_add(1, Ordering::Relaxed);
            let Some(case) = cases.get(place) else { break };
            let line = run(case);
            found.lock().unwrap_or_else(PoisonError::into_inner).push((place, line));
        }
    };
    thread::scope(|scope| {
        // This thread works, too, so that cases are run where the system gives no others.
        for _ in 1..jobs.min(cases.len()) {
            let worker = thread::Builder::new().stack_size(STACK_BYTES);
            if worker.spawn_scoped(scope, work).is_err() {
                break;
            }
        }
        work();
    });
    let mut found = found.into_inner().unwrap_or_else(PoisonError::into_inner);
    found.sort_by_key(|(place, _)| *place);
    found.into_iter().map(|(_, line)| line).collect()
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
        if self.not_run > 0 {
            text.push_str(&format!("interrupted: {} cases were not run\n", self.not_run));
        }
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
    found.map(|_| ()).map_err(|error| Mistake {
        message: error.to_string(),
        details: None,
        fix: error.fix(),
    })
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
