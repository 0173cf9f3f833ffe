//! `postlude fuzz`: random kernels on an engine, against the reference.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use std::{env, fs, panic, process};

use postlude::Backend;
use postlude_corpus::fuzz::{
    self, Campaign, End, Engine, Extent, Found, Kind, News, Sort, Summary, Until,
};
use serde::Serialize;

use crate::arguments::{FuzzArguments, FuzzBackend, FuzzSizes};
use crate::corpus::require_gpu;
use crate::failure::{Failure, Mistake, Outcome};
use crate::interruption::interruption;
use crate::print;
use crate::progress::{Progress, Reader};
use crate::threads;

#[derive(Serialize)]
struct Report {
    schema: u32,
    backend: &'static str,
    seed: u32,
    graphs: usize,
    agreed: usize,
    failed: usize,
    /// Failures by their sort, and how many of each.
    failed_by: BTreeMap<&'static str, usize>,
    /// The number of the first kernel without a verdict, for `--first`.
    next: u32,
    /// `complete`, `interrupted` or `broken`.
    end: &'static str,
    seconds: f64,
    /// How many ran with each of the simulator's timings.
    timings: BTreeMap<&'static str, usize>,
    /// Refusals by their words, and how many of each.
    refused: BTreeMap<String, usize>,
    /// The seed of a kernel that is refused so.
    refused_seeds: BTreeMap<String, u64>,
    /// Elements by how much the reference allows of them.
    elements: Elements,
    failures: Vec<Line>,
    /// Failures with the words of others that are listed, and how many of each.
    repeated: BTreeMap<String, usize>,
}

/// The reports of a nightly run.
#[derive(Serialize)]
struct Nightly<'a> {
    schema: u32,
    runs: &'a [Report],
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
    /// What draws and runs the first one.
    again: String,
    /// What runs the smaller one, on packed data.
    command: String,
}

/// The nightly run: backends, and how many kernels each runs.
const NIGHTLY: [(Backend, u32); 2] = [(Backend::Cpu, 500_000), (Backend::Sim, 20_000)];

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
    threads::require()?;
    let stop = interruption();
    let runs: Vec<(Backend, u32)> =
        if arguments.nightly { NIGHTLY.to_vec() } else { vec![(backend, arguments.graphs)] };
    let mut reports = Vec::new();
    for (backend, graphs) in runs {
        let report = run(arguments, backend, graphs, &stop);
        let end = report.end;
        reports.push(report);
        if end != "complete" {
            break;
        }
    }
    if arguments.nightly {
        print::either(arguments.json, &Nightly { schema: 1, runs: &reports }, || table(&reports))?;
    } else if let Some(report) = reports.first() {
        print::either(arguments.json, report, || report.text())?;
    }
    // An engine that refuses everything has shown nothing; one kernel may be refused.
    let shown = |report: &Report| report.agreed > 0 || arguments.only.is_some();
    let fine = |report: &Report| report.failed == 0 && (shown(report) || report.end != "complete");
    Ok(if !reports.iter().all(fine) {
        Outcome::CheckFailed
    } else if stop.load(Ordering::Relaxed) {
        Outcome::Interrupted
    } else {
        Outcome::Fine
    })
}

/// One campaign.
fn run(arguments: &FuzzArguments, backend: Backend, graphs: u32, stop: &AtomicBool) -> Report {
    // Nobody will ever ask for these kernels again.
    let cache = env::temp_dir().join(format!("postlude-fuzz-{}", process::id()));
    let until =
        if arguments.backend == FuzzBackend::Emit { Until::Emitted } else { Until::Compared };
    let large = arguments.sizes.map_or(backend == Backend::Cuda, |sizes| sizes == FuzzSizes::Large);
    let campaign = Campaign {
        engine: Engine { backend, cache: Some(cache.clone()), until },
        extent: if large { Extent::Large } else { Extent::Small },
        sort: if arguments.programs { Sort::Programs } else { Sort::Any },
        seed: arguments.seed,
        first: arguments.first,
        graphs,
        only: arguments.only,
        timing: arguments.timing,
        jobs: arguments.jobs.map(usize::from),
        shrink: Duration::from_secs(arguments.shrink),
        limit: Duration::from_secs(arguments.limit),
    };
    let progress = Progress::of(
        if arguments.only.is_some() { 1 } else { graphs as usize },
        Reader::of(arguments.json),
    );
    // A kernel that panics is a failure, reported with the others.
    let report_bug = panic::take_hook();
    panic::set_hook(Box::new(|_| {}));
    let summary = fuzz::run(&campaign, stop, &|news| match news {
        News::Done(seed) => {
            progress.say(format!("{} seed {seed}", backend.name()));
            progress.step();
        }
        News::Failed(seed, wrong) => {
            let first = wrong.to_string().lines().next().unwrap_or_default().to_owned();
            progress.note(&format!("seed {seed} on {}: {first}", backend.name()));
        }
    });
    panic::set_hook(report_bug);
    drop(progress);
    // It may never have been made.
    let _ = fs::remove_dir_all(&cache);
    let name = match until {
        Until::Compared => backend.name(),
        Until::Emitted => "emit",
    };
    let sort = if arguments.programs { " --programs" } else { "" };
    let again = format!("postlude fuzz --backend {name}{sort}");
    Report { backend: name, ..Report::of(&summary, backend, arguments.seed, &again) }
}

impl Elements {
    /// How sharply elements were compared; nothing where none were.
    fn text(&self) -> String {
        let Elements { exact, sharp, loose, open, nan, apart, alike } = *self;
        let all = exact + sharp + loose + open;
        if all == 0 {
            return String::new();
        }
        let share = |part: u64| part as f64 * 100.0 / all as f64;
        format!(
            "{all} elements: {:.2} % exact, {:.2} % sharp, {:.2} % loose, {:.2} % open, {:.2} % nan; \
             {:.2} % equal one elsewhere, {:.2} % of the others would not pass for it\n",
            share(exact),
            share(sharp),
            share(loose),
            share(open),
            share(nan),
            share(alike),
            apart as f64 * 100.0 / (all - alike).max(1) as f64
        )
    }
}

impl Report {
    fn of(summary: &Summary, backend: Backend, seed: u32, again: &str) -> Report {
        let line = |found: &Found| Line {
            seed: found.drawn.0.seed,
            drawn: found.drawn.0.to_string(),
            found: found.drawn.1.to_string(),
            small: found.small.0.to_string(),
            small_found: found.small.1.to_string(),
            again: format!("{again} --only {}", found.drawn.0.seed),
            command: found.small.0.command(backend),
        };
        let tally = summary.tally;
        Report {
            schema: 1,
            backend: backend.name(),
            seed,
            graphs: summary.graphs,
            agreed: summary.agreed,
            failed: summary.failed(),
            failed_by: Kind::ALL
                .into_iter()
                .map(|kind| (kind.name(), summary.failed_by(kind)))
                .filter(|(_, count)| *count > 0)
                .collect(),
            next: summary.next,
            end: match summary.end {
                End::Complete => "complete",
                End::Interrupted => "interrupted",
                End::Broken => "broken",
            },
            seconds: summary.took.as_secs_f64(),
            timings: summary.timings.clone(),
            refused: summary.refused.clone(),
            refused_seeds: summary.refused_seeds.clone(),
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
            repeated: summary.repeated.clone(),
        }
    }

    fn text(&self) -> String {
        let mut text = String::new();
        for line in &self.failures {
            text.push_str(&line.text(self.backend));
        }
        for (words, count) in &self.repeated {
            text.push_str(&format!("{count:>5} more with {words}\n"));
        }
        let mut refused: Vec<(&String, &usize)> = self.refused.iter().collect();
        refused.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
        for (reason, count) in refused {
            let seed = self.refused_seeds.get(reason).copied().unwrap_or_default();
            text.push_str(&format!("{count:>5} refused: {reason} (one is `--only {seed}`)\n"));
        }
        text.push_str(&self.elements.text());
        if !self.timings.is_empty() {
            let timings = self.timings.iter().map(|(timing, count)| format!("{count} {timing}"));
            text.push_str(&format!("timings: {}\n", timings.collect::<Vec<_>>().join(", ")));
        }
        text.push_str(&format!(
            "{} agreed, {} failed, {} refused of {} random kernels on {}, seed {}\n",
            self.agreed,
            self.failed,
            self.refused_count(),
            self.graphs,
            self.backend,
            self.seed
        ));
        match self.end {
            "interrupted" => text.push_str(&format!(
                "interrupted: `--seed {} --first {}` goes on\n",
                self.seed, self.next
            )),
            "broken" => text.push_str(&format!(
                "stopped: nothing can be run after that; `--seed {} --first {}` goes on\n",
                self.seed, self.next
            )),
            _ => {}
        }
        text
    }

    fn refused_count(&self) -> usize {
        self.refused.values().sum()
    }
}

/// One line a run, after everything that failed.
fn table(reports: &[Report]) -> String {
    let mut text: String = reports.iter().map(Report::text).collect();
    let header = [
        "backend", "seed", "kernels", "agreed", "refused", "wrong", "panics", "errors", "no end",
        "seconds", "end",
    ];
    let mut rows = vec![header.map(str::to_owned).to_vec()];
    for report in reports {
        let failed = |kind: Kind| report.failed_by.get(kind.name()).copied().unwrap_or(0);
        // A kernel that does not type is an error of the generator.
        let errors = failed(Kind::Error) + failed(Kind::Text);
        rows.push(vec![
            report.backend.to_owned(),
            report.seed.to_string(),
            report.graphs.to_string(),
            report.agreed.to_string(),
            report.refused_count().to_string(),
            failed(Kind::Mismatch).to_string(),
            failed(Kind::Panic).to_string(),
            errors.to_string(),
            failed(Kind::Hang).to_string(),
            format!("{:.0}", report.seconds),
            report.end.to_owned(),
        ]);
    }
    text.push('\n');
    text + &print::table(&rows)
}

impl Line {
    fn text(&self, backend: &str) -> String {
        let Line { seed, drawn, found, small, small_found, again, command } = self;
        let mut text = format!("FAILED seed {seed} on {backend}: {found}\n{drawn}\n");
        if small != drawn {
            text.push_str(&format!("smaller: {small_found}\n{small}\n"));
        }
        text.push_str(&format!("again: {again}\npacked: {command}\n\n"));
        text
    }
}
