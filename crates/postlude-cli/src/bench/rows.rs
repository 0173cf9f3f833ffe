//! The table of a run's rows, and what they come to.

use postlude_yardstick::check::Verdict;
use postlude_yardstick::report::{Measured, OverLimit, Report, RowReport, Summary};
use postlude_yardstick::statistics::Spread;

use crate::print;

const HEADER: [&str; 18] = [
    "row",
    "M,N,K",
    "ours",
    "cublaslt",
    "first",
    "fused",
    "ceiling",
    "ours/bar",
    "spread",
    "ours/plain",
    "of aligned",
    "joules",
    "cublaslt's",
    "of ceiling",
    "of limit",
    "over limit",
    "load",
    "registers",
];

/// Everything that was measured.
pub(super) fn text(report: &Report) -> String {
    let mut text = table(&report.rows);
    for row in &report.rows {
        if row.measured.as_ref().is_none_or(|found| !found.check.right) && row.searched.is_none() {
            text.push_str(&format!("{}  {}  {}\n", row.row, sizes(row), outcome(row)));
        }
        if let Some(reason) = row.measured.as_ref().and_then(|found| found.no_fused.as_ref()) {
            text.push_str(&format!("{}  no fused product of cuBLASLt: {reason}\n", row.row));
        }
    }
    if !report.left_out.is_empty() {
        text.push_str(&format!("no time for {}\n", report.left_out.join(", ")));
    }
    if !text.is_empty() {
        text.push('\n');
    }
    for suite in &report.suites {
        text.push_str(&format!("{}: {}\n", suite.suite, summary(&suite.summary)));
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

/// A row in one line, for whoever waits.
pub(super) fn line(row: &RowReport) -> String {
    format!("{} {}: {} ({:.1} s)", row.row, sizes(row), outcome(row), row.wall_seconds)
}

/// What came of a row, in short.
fn outcome(row: &RowReport) -> String {
    let ratio =
        row.of_bar().map_or_else(String::new, |of| format!(", {:.3} of the bar", of.median));
    match (&row.measured, &row.searched, &row.refused, &row.failed) {
        (Some(found), ..) if found.check.right => {
            format!("{:.0} TFLOP/s{ratio}", found.ours_tflops)
        }
        (Some(found), ..) => {
            let check = &found.check;
            format!(
                "WRONG: {} of {} elements differ too much from cuBLASLt's, the worst of {} is {:.3} of its bound{}",
                check.wrong,
                check.compared,
                check.sampled,
                check.worst_of_bound,
                totals(check)
            )
        }
        (None, Some(found), ..) => {
            let wrong = if found.wrong.is_empty() { String::new() } else { ", WRONG: ".to_owned() };
            let (count, wrong) = (found.schedules.len(), wrong + &found.wrong.join("; "));
            format!("{count} schedules, compiled in {:.1} s{ratio}{wrong}", found.compile_seconds)
        }
        (None, None, Some(reason), _) => format!("refused: {reason}"),
        (None, None, None, Some(reason)) => format!("FAILED: {reason}"),
        (None, None, None, None) => "not run".to_owned(),
    }
}

/// Numbers that are not what their terms come to.
fn totals(check: &Verdict) -> String {
    let wrong = check.totals.iter().filter(|total| total.of_bound.is_nan() || total.of_bound > 1.0);
    let text = wrong.map(|total| {
        format!(", {} is {:e} and its terms come to {:e}", total.output, total.found, total.wanted)
    });
    text.collect()
}

fn sizes(row: &RowReport) -> String {
    format!("{},{},{}", row.m, row.n, row.k)
}

/// Rows that were measured and are right; columns that none of them fills are left out.
fn table(rows: &[RowReport]) -> String {
    let mut lines = vec![HEADER.map(str::to_owned).to_vec()];
    for row in rows {
        if let Some(found) = row.measured.as_ref().filter(|found| found.check.right) {
            let mut cells = vec![row.row.clone(), sizes(row)];
            cells.extend(numbers(found));
            lines.push(cells);
        }
    }
    if lines.len() == 1 {
        return String::new();
    }
    let filled: Vec<bool> = (0..HEADER.len())
        .map(|column| lines[1..].iter().any(|cells| !cells[column].is_empty()))
        .collect();
    for cells in &mut lines {
        let mut filled = filled.iter();
        cells.retain(|_| filled.next() == Some(&true));
    }
    print::table(&lines)
        + "TFLOP/s; ours/bar is the median of the rounds, spread its 10th to 90th percentile;\n\
           the bar is cuBLASLt's fused product, or its plain one where it has none\n"
}

fn numbers(found: &Measured) -> Vec<String> {
    let rate = |rate: Option<f64>| rate.map_or_else(String::new, |rate| format!("{rate:.0}"));
    let median = |spread: Option<Spread>| {
        spread.map_or_else(String::new, |spread| format!("{:.3}", spread.median))
    };
    let joules = |joules: Option<f64>| joules.map_or_else(String::new, |of| format!("{of:.3}"));
    let spread = found
        .of_bar
        .map_or_else(String::new, |spread| format!("{:.3}..{:.3}", spread.low, spread.high));
    let is_fused = found.fused_tflops.is_some();
    let has_epilogue = found.over_limit.is_some();
    vec![
        rate(Some(found.ours_tflops)),
        rate(found.best_tflops),
        rate(found.first_tflops),
        rate(found.fused_tflops),
        rate(Some(found.ceiling_tflops)),
        median(found.of_bar),
        spread,
        median(found.of_plain.filter(|_| is_fused)),
        median(found.of_aligned),
        joules(found.our_joules),
        joules(found.bar_joules),
        median(Some(found.of_ceiling)),
        format!("{:.3}", found.of_limit),
        found.over_limit.map_or_else(String::new, over_limit),
        if has_epilogue { format!("{:.0} ms", found.load_milliseconds) } else { String::new() },
        if has_epilogue { registers(found) } else { String::new() },
    ]
}

fn over_limit(over: OverLimit) -> String {
    let sign = if over.holds { "<=" } else { ">" };
    format!("{:.3} {sign} {:.2}", over.ratio, over.aim)
}

fn registers(found: &Measured) -> String {
    match found.local_bytes {
        0 => found.registers.to_string(),
        spilled => format!("{}, {spilled} B spilled", found.registers),
    }
}

fn summary(summary: &Summary) -> String {
    let mut parts = Vec::new();
    if let Some(mean) = summary.geometric_mean {
        parts.push(format!("geometric mean of ours/bar {mean:.3}"));
    }
    if let Some((row, ratio)) = &summary.worst {
        parts.push(format!("worst {ratio:.3} at {row}"));
    }
    for (what, rows) in
        [("WRONG", &summary.wrong), ("refused", &summary.refused), ("FAILED", &summary.failed)]
    {
        if !rows.is_empty() {
            parts.push(format!("{what}: {}", rows.join(" ")));
        }
    }
    if parts.is_empty() { "measured".to_owned() } else { parts.join("; ") }
}

fn first_use(report: &Report) -> String {
    let Some(first) = &report.first_use else { return String::new() };
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
