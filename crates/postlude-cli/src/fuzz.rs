//! `postlude fuzz`: random kernels on an engine, against the reference.

use std::collections::BTreeMap;
use std::time::Duration;
use std::{env, fs, panic, process};

use postlude::Backend;
use postlude_corpus::fuzz::{self, Campaign, Engine, Extent, Found, News, Summary};
use serde::Serialize;

use crate::arguments::{FuzzArguments, FuzzSizes};
use crate::corpus::require_gpu;
use crate::failure::{Failure, Mistake, Outcome};
use crate::print;
use crate::progress::Progress;

#[derive(Serialize)]
struct Report {
    schema: u32,
    backend: &'static str,
    seed: u32,
    graphs: usize,
    agreed: usize,
    /// Refusals by their words, and how many of each.
    refused: BTreeMap<String, usize>,
    /// Elements by how much the reference allows of them.
    elements: Elements,
    failures: Vec<Line>,
}

#[derive(Serialize)]
struct Elements {
    exact: u64,
    sharp: u64,
    loose: u64,
    open: u64,
    nan: u64,
    apart: u64,
    alike: u64,
}

#[derive(Serialize)]
struct Line {
    seed: u64,
    /// The kernel, its sizes and strides, and how it is run.
    drawn: String,
    found: String,
    /// The same made smaller.
    small: String,
    small_found: String,
    /// What runs the smaller one, on packed data.
    command: String,
}

/// Runs the command.
pub(crate) fn fuzz(arguments: &FuzzArguments) -> Result<Outcome, Failure> {
    let backend = arguments.backend.backend();
    if backend == Backend::Cuda {
        require_gpu()?;
    }
    if arguments.timing.is_some() && backend != Backend::Sim {
        let mistake = Mistake::new("`--timing` is for the simulator");
        return Err(mistake.fix("run it with `--backend sim`").into());
    }
    // Nobody will ever ask for these kernels again.
    let cache = env::temp_dir().join(format!("postlude-fuzz-{}", process::id()));
    let large = arguments.sizes.map_or(backend == Backend::Cuda, |sizes| sizes == FuzzSizes::Large);
    let campaign = Campaign {
        engine: Engine { backend, cache: Some(cache.clone()) },
        extent: if large { Extent::Large } else { Extent::Small },
        seed: arguments.seed,
        graphs: arguments.graphs,
        only: arguments.only,
        timing: arguments.timing,
        threads: arguments.threads.map(usize::from),
        shrink: Duration::from_secs(arguments.shrink),
    };
    let progress =
        Progress::of(if arguments.only.is_some() { 1 } else { arguments.graphs as usize });
    // A kernel that panics is a failure, reported with the others.
    let report_bug = panic::take_hook();
    panic::set_hook(Box::new(|_| {}));
    let summary = fuzz::run(&campaign, &|news| match news {
        News::Done(seed) => {
            progress.say(format!("seed {seed}"));
            progress.step();
        }
        News::Slow(seed) => progress.note(&format!("seed {seed} has been running for a long time")),
    });
    panic::set_hook(report_bug);
    drop(progress);
    // It may never have been made.
    let _ = fs::remove_dir_all(&cache);
    let report = Report::of(&summary, backend, arguments.seed);
    print::either(arguments.json, &report, || report.text())?;
    // An engine that refuses everything has shown nothing; one kernel may be refused.
    let shown = summary.agreed > 0 || arguments.only.is_some();
    let fine = summary.failures.is_empty() && shown;
    Ok(if fine { Outcome::Fine } else { Outcome::CheckFailed })
}

impl Report {
    fn of(summary: &Summary, backend: Backend, seed: u32) -> Report {
        let line = |found: &Found| Line {
            seed: found.drawn.0.seed,
            drawn: found.drawn.0.to_string(),
            found: found.drawn.1.to_string(),
            small: found.small.0.to_string(),
            small_found: found.small.1.to_string(),
            command: found.small.0.command(backend),
        };
        let tally = summary.tally;
        Report {
            schema: 1,
            backend: backend.name(),
            seed,
            graphs: summary.graphs,
            agreed: summary.agreed,
            refused: summary.refused.clone(),
            elements: Elements {
                exact: tally.exact,
                sharp: tally.sharp,
                loose: tally.loose,
                open: tally.open,
                nan: tally.nan,
                apart: tally.apart,
                alike: tally.alike,
            },
            failures: summary.failures.iter().map(line).collect(),
        }
    }

    fn text(&self) -> String {
        let mut text = String::new();
        for line in &self.failures {
            text.push_str(&line.text(self.backend));
        }
        let mut refused: Vec<(&String, &usize)> = self.refused.iter().collect();
        refused.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
        for (reason, count) in refused {
            text.push_str(&format!("{count:>5} refused: {reason}\n"));
        }
        let Elements { exact, sharp, loose, open, nan, apart, alike } = self.elements;
        let all = (exact + sharp + loose + open).max(1) as f64;
        let share = |part: u64| part as f64 * 100.0 / all;
        text.push_str(&format!(
            "{all} elements: {:.2} % exact, {:.2} % sharp, {:.2} % loose, {:.2} % open, {:.2} % nan; \
             {:.2} % equal one elsewhere, {:.2} % of the others would not pass for it\n",
            share(exact),
            share(sharp),
            share(loose),
            share(open),
            share(nan),
            share(alike),
            apart as f64 * 100.0 / (all - alike as f64).max(1.0)
        ));
        let refused: usize = self.refused.values().sum();
        text.push_str(&format!(
            "{} agreed, {} failed, {refused} refused of {} random kernels on {}, seed {}\n",
            self.agreed,
            self.failures.len(),
            self.graphs,
            self.backend,
            self.seed
        ));
        text
    }
}

impl Line {
    fn text(&self, backend: &str) -> String {
        let Line { seed, drawn, found, small, small_found, command } = self;
        let mut text = format!("FAILED seed {seed} on {backend}: {found}\n{drawn}\n");
        if small != drawn {
            text.push_str(&format!("smaller: {small_found}\n{small}\n"));
        }
        text.push_str(&format!(
            "again: postlude fuzz --backend {backend} --only {seed}\npacked: {command}\n\n"
        ));
        text
    }
}
