//! The tables of a search among schedules: a row's schedules, best first.

use postlude_yardstick::report::{Report, RowReport, Searched, Tried};
use postlude_yardstick::search::telling;

use crate::print;

/// Every row that was searched.
pub(super) fn text(report: &Report) -> String {
    let rows = report.rows.iter();
    rows.filter_map(|row| Some(table(row, row.searched.as_ref()?))).collect()
}

fn table(row: &RowReport, found: &Searched) -> String {
    let knobs: Vec<&[String]> =
        found.schedules.iter().map(|tried| tried.knobs.as_slice()).collect();
    let (apart, alike) = telling(&knobs);
    let mut text = format!("{} {},{},{} {}", row.row, row.m, row.n, row.k, row.source);
    if let Some(bar) = found.bar_tflops {
        text.push_str(&format!(", cuBLASLt {bar:.0} TFLOP/s"));
    }
    text.push('\n');
    if !alike.is_empty() {
        text.push_str(&format!("all of them: {}\n", alike.join(", ")));
    }
    let header = ["ours/bar", "spread", "of planned", "TFLOP/s", "rounds", "registers", "schedule"];
    let mut lines = vec![header.map(str::to_owned).to_vec()];
    lines.extend(found.schedules.iter().zip(&apart).map(|(tried, knobs)| cells(tried, knobs)));
    text.push_str(&print::table(&lines));
    for knobs in &found.wrong {
        text.push_str(&format!("WRONG: {knobs}\n"));
    }
    for (knobs, reason) in &found.not_run {
        text.push_str(&format!("not run: {knobs}: {reason}\n"));
    }
    text.push('\n');
    text
}

fn cells(tried: &Tried, knobs: &[String]) -> Vec<String> {
    let (ratio, spread) = tried.of_bar.map_or_else(Default::default, |of| {
        (format!("{:.3}", of.median), format!("{:.3}..{:.3}", of.low, of.high))
    });
    let mut schedule = knobs.join(", ");
    for (told, note) in [
        (tried.planned, "planned".to_owned()),
        (tried.local_bytes > 0, format!("spills {} bytes", tried.local_bytes)),
        (tried.serialised, "products serialised".to_owned()),
        (tried.file.is_some(), tried.file.clone().unwrap_or_default()),
    ] {
        if told {
            schedule.push_str(&format!(" <- {note}"));
        }
    }
    vec![
        ratio,
        spread,
        format!("{:.3}", tried.of_planned.median),
        format!("{:.0}", tried.tflops),
        tried.rounds.to_string(),
        tried.registers.to_string(),
        schedule,
    ]
}
