//! The suite on a GPU: the yardstick's report, as a table or an object.

use postlude_yardstick::YardstickError;
use postlude_yardstick::measure::{self, Against, ROUNDS, Wanted};
use postlude_yardstick::report::{Measured, Report, RowReport};
use postlude_yardstick::statistics::Spread;
use postlude_yardstick::suite::{ROWS, Row};

use crate::arguments::{BenchAgainst, BenchArguments};
use crate::failure::{Failure, Mistake, Outcome};
use crate::print;
use crate::progress::Progress;

/// Measures the rows whose names contain the filter.
pub(super) fn bench(arguments: &BenchArguments) -> Result<Outcome, Failure> {
    let rows: Vec<&Row> = ROWS.iter().filter(|row| row.name.contains(&arguments.filter)).collect();
    if rows.is_empty() {
        let names: Vec<&str> = ROWS.iter().map(|row| row.name).collect();
        let message = format!("no row of the suite has `{}` in its name", arguments.filter);
        return Err(Mistake::new(message).fix(format!("the rows are {}", names.join(", "))).into());
    }
    let wanted = Wanted {
        rows,
        rounds: arguments.rounds.map_or(ROUNDS, usize::from),
        against: match arguments.against {
            None => Against::Limits,
            Some(BenchAgainst::Cublaslt) => Against::CublasLt,
        },
        commit: env!("POSTLUDE_COMMIT"),
    };
    let progress = Progress::start();
    let report = measure::measure(&wanted, |what| progress.say(what));
    let report = report.map_err(|error| mistake(&error))?;
    drop(progress);
    print::either(arguments.json, &report, || text(&report))?;
    Ok(if report.summary.wrong.is_empty() { Outcome::Fine } else { Outcome::CheckFailed })
}

fn mistake(error: &YardstickError) -> Failure {
    let fix = error.fix();
    Mistake { message: error.to_string(), fix }.into()
}

const HEADER: [&str; 11] = [
    "row",
    "M,N,K",
    "ours",
    "cublaslt",
    "first",
    "fused",
    "ceiling",
    "ours/bar",
    "spread",
    "of ceiling",
    "of limit",
];

fn text(report: &Report) -> String {
    let mut rows = vec![HEADER.map(str::to_owned).to_vec()];
    rows.extend(report.rows.iter().map(cells));
    let mut text = print::table(&rows);
    text.push_str(
        "TFLOP/s; ours/bar is the median of the rounds, spread its 10th to 90th percentile;\n",
    );
    text.push_str("the bar is cuBLASLt's fused product, or its plain one where it has none\n\n");
    if let Some(mean) = report.summary.geometric_mean {
        text.push_str(&format!("geometric mean of ours/bar  {mean:.3}\n"));
    }
    if let Some((row, ratio)) = report.summary.worst {
        text.push_str(&format!("worst  {ratio:.3} at {row}\n"));
    }
    text.push_str(&format!("copies  {:.0} GB/s\n", report.copy_bytes_per_second / 1e9));
    text.push_str(&first_use(report));
    let machine = &report.machine;
    let driver = machine.driver.as_deref().unwrap_or("unknown");
    text.push_str(&format!("{}, driver {driver}, CUDA {}", machine.gpu, machine.cuda));
    if let Some(library) = &report.cublaslt {
        text.push_str(&format!(", cuBLASLt {}", library.version));
    }
    text.push_str(&format!(", commit {}, {}\n", report.commit, report.date));
    text
}

fn cells(row: &RowReport) -> Vec<String> {
    let sizes = format!("{},{},{}", row.m, row.n, row.k);
    let (name, start) =
        (row.row.to_owned(), |rest: String| vec![row.row.to_owned(), sizes.clone(), rest]);
    match (&row.measured, &row.refused) {
        (Some(found), _) if found.check.right => {
            let mut cells = vec![name, sizes];
            cells.extend(numbers(found));
            cells
        }
        (Some(found), _) => {
            let check = &found.check;
            start(format!(
                "WRONG: {} of {} elements differ too much from cuBLASLt's, the worst of {} is {:.3} of its bound",
                check.wrong, check.compared, check.sampled, check.worst_of_bound
            ))
        }
        (None, Some(reason)) => start(format!("not run: {reason}")),
        (None, None) => start("not run".to_owned()),
    }
}

fn numbers(found: &Measured) -> Vec<String> {
    let rate = |rate: Option<f64>| rate.map_or_else(String::new, |rate| format!("{rate:.0}"));
    let median = |spread: Option<Spread>| {
        spread.map_or_else(String::new, |spread| format!("{:.3}", spread.median))
    };
    let spread = found
        .of_bar
        .map_or_else(String::new, |spread| format!("{:.3}..{:.3}", spread.low, spread.high));
    vec![
        rate(Some(found.ours_tflops)),
        rate(found.best_tflops),
        rate(found.first_tflops),
        rate(found.fused_tflops),
        rate(Some(found.ceiling_tflops)),
        median(found.of_bar),
        spread,
        median(Some(found.of_ceiling)),
        format!("{:.3}", found.of_limit),
    ]
}

fn first_use(report: &Report) -> String {
    let first = &report.first_use;
    let mut text =
        format!("first use, from text to the first result: open {:.0} ms", first.open_milliseconds);
    for kernel in &first.kernels {
        text.push_str(&format!(
            "; {} {:.0} ms (later {:.0} ms, {:.0} ms from disk)",
            kernel.kernel,
            kernel.cold_milliseconds,
            kernel.later_milliseconds,
            kernel.warm_milliseconds
        ));
    }
    if !first.driver_cache_disabled {
        text.push_str(
            "; the driver's own cache may have helped (CUDA_CACHE_DISABLE=1 keeps it out)",
        );
    }
    text.push_str(&format!("\nhost cost of a launch  {:.2} us\n", first.launch_microseconds));
    text
}
