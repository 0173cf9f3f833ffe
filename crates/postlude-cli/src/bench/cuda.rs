//! The suites on a GPU: the yardstick's report, as tables or an object.

use std::path::Path;
use std::time::Duration;

use postlude::target::Schedule;
use postlude::tuning::Records;
use postlude_yardstick::YardstickError;
use postlude_yardstick::measure::{self, Against, FirstUseWanted, ROUNDS, Wanted, Watch};
use postlude_yardstick::report::Report;
use postlude_yardstick::search::{Search, Table};
use postlude_yardstick::suite::{Row, SEED, Suite};

use crate::arguments::{BenchAgainst, BenchArguments};
use crate::bench::{give, rows, searched, try_to_write, write};
use crate::failure::{Failure, Mistake, Outcome};
use crate::gpu_schedule::read_schedule;
use crate::progress::{Progress, Reader};

/// Measures the rows of the suites whose names contain the filter.
pub(super) fn bench(arguments: &BenchArguments) -> Result<Outcome, Failure> {
    let wanted = wanted(arguments)?;
    let file = arguments.json.as_ref().and_then(Option::as_deref);
    if let Some(file) = file {
        try_to_write(file)?;
    }
    let reader = Reader::of(arguments.json == Some(None));
    let mut watcher = Watcher { progress: Progress::of(wanted.rows.len(), reader), file };
    let report = measure::measure(&wanted, &mut watcher).map_err(|error| mistake(&error))?;
    drop(watcher);
    give(arguments, &report, || text(&report))?;
    Ok(if report.summary.is_fine() { Outcome::Fine } else { Outcome::CheckFailed })
}

/// What the arguments ask for.
fn wanted(arguments: &BenchArguments) -> Result<Wanted<'static>, Failure> {
    let seed = arguments.seed.unwrap_or(SEED);
    let suites =
        if arguments.suites.is_empty() { &Suite::USUAL[..] } else { arguments.suites.as_slice() };
    let searches =
        arguments.every_schedule || arguments.every_tile || !arguments.schedules.is_empty();
    let first_use = suites.contains(&Suite::FirstUse) && !searches;
    let all: Vec<Row> = Suite::ALL
        .iter()
        .filter(|suite| suites.contains(suite))
        .flat_map(|suite| suite.rows(seed))
        .collect();
    let names: Vec<&str> = all.iter().map(|row| row.name.as_str()).collect();
    let mut rows: Vec<Row> =
        all.iter().filter(|row| row.name.contains(&arguments.filter)).cloned().collect();
    for row in &mut rows {
        row.tuning = arguments.tune.map(|budget| budget.0);
        row.records = arguments.records.clone().map_or(Records::Shipped, Records::At);
    }
    // First use alone has no rows.
    if rows.is_empty() && !(first_use && all.is_empty()) {
        let message = format!("no row of the suite has `{}` in its name", arguments.filter);
        return Err(Mistake::new(message).fix(format!("the rows are {}", names.join(", "))).into());
    }
    Ok(Wanted {
        rows,
        seed,
        first_use: if first_use { FirstUseWanted::Yes } else { FirstUseWanted::No },
        rounds: arguments.rounds.map_or(ROUNDS, usize::from),
        limit: arguments.seconds.map(|seconds| Duration::from_secs(seconds.into())),
        regime: arguments.regime.unwrap_or_default(),
        against: match arguments.against {
            None => Against::Limits,
            Some(BenchAgainst::Cublaslt) => Against::CublasLt,
        },
        search: if searches { Some(search(arguments)?) } else { None },
        commit: env!("POSTLUDE_COMMIT"),
    })
}

/// The schedules that are tried.
fn search(arguments: &BenchArguments) -> Result<Search, Failure> {
    let mut given = Vec::new();
    for path in &arguments.schedules {
        if path.is_dir() {
            let entries = std::fs::read_dir(path).map_err(|error| Mistake::io(path, &error))?;
            let mut files: Vec<_> = entries.flatten().map(|entry| entry.path()).collect();
            files.retain(|file| file.is_file());
            files.sort();
            for file in files {
                given.push(named(&file)?);
            }
        } else {
            given.push(named(path)?);
        }
    }
    let table = match (arguments.every_schedule, arguments.every_tile) {
        (true, _) => Table::Whole,
        (false, true) => Table::Tiles,
        (false, false) => Table::Choice,
    };
    Ok(Search { table, given })
}

fn named(path: &Path) -> Result<(String, Schedule), Failure> {
    Ok((path.display().to_string(), read_schedule(path)?))
}

/// Tells of rows as they are done, and writes what there is so far.
struct Watcher<'a> {
    progress: Progress,
    file: Option<&'a Path>,
}

impl Watch for Watcher<'_> {
    fn doing(&mut self, what: &str) {
        self.progress.say(what);
    }

    fn done(&mut self, report: &Report) {
        self.progress.step();
        if let Some(row) = report.rows.last() {
            self.progress.note(&rows::line(row));
        }
        // Measuring goes on whatever becomes of the file, which is written again after every row.
        if let Some(file) = self.file
            && write(file, report).is_err()
        {
            self.progress.note(&format!("{} cannot be written", file.display()));
        }
    }
}

fn mistake(error: &YardstickError) -> Failure {
    let fix = error.fix();
    Mistake { message: error.to_string(), details: None, fix }.into()
}

fn text(report: &Report) -> String {
    [searched::text(report), rows::text(report)].concat()
}
