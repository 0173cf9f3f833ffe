//! Rows beside their peers, as text.

use postlude_yardstick::report::{Beside, Measured, Report, RowReport};

/// Columns of competitors: what they are called in reports, and in the table.
const OTHERS: &[(&str, &str)] =
    &[("eager", "eager"), ("torch.compile", "compile"), ("cublaslt", "cublaslt")];

/// What came of a row, in one line.
pub(crate) fn line(row: &RowReport) -> String {
    let sizes = format!("{},{},{}", row.m, row.n, row.k);
    let found = match (&row.measured, &row.refused, &row.failed) {
        (Some(found), ..) if found.check.right => measured(found),
        (Some(_), ..) => "WRONG".to_owned(),
        (None, Some(reason), _) => format!("refused: {reason}"),
        (None, None, Some(reason)) => format!("FAILED: {reason}"),
        (None, None, None) => "not run".to_owned(),
    };
    format!("{} {sizes}: {found} ({:.1} s)", row.row, row.wall_seconds)
}

fn measured(found: &Measured) -> String {
    let mut text = found
        .competitors
        .first()
        .map_or_else(String::new, |ours| format!("{:.1} us", 1e6 * ours.seconds.median));
    for other in found.beside.iter().flat_map(|beside| &beside.others) {
        let ratio = match (&other.ours_over_this, &other.absent) {
            (Some(ratio), _) => format!(
                "{:.3}x of {} ({:.3}..{:.3})",
                ratio.median, other.name, ratio.low, ratio.high
            ),
            (None, Some(reason)) => format!("no {}: {reason}", other.name),
            (None, None) => format!("no {}", other.name),
        };
        text.push_str("; ");
        text.push_str(&ratio);
    }
    if let Some(over) = found.over_limit {
        let sign = if over.holds { "<=" } else { ">" };
        text.push_str(&format!("; {:.3} of the limit, {sign} {:.2}", over.ratio, over.aim));
    }
    text
}

/// Everything that was measured.
pub(crate) fn table(report: &Report) -> String {
    let mut lines = vec![heading()];
    for row in &report.rows {
        if let Some(beside) = row.measured.as_ref().filter(|found| found.check.right)
            && let Some(others) = &beside.beside
        {
            lines.push(cells(&row.row, others));
        }
    }
    let mut text = String::new();
    for cells in &lines {
        let padded: Vec<String> = cells.iter().map(|cell| format!("{cell:<14}")).collect();
        text.push_str(padded.join("  ").trim_end());
        text.push('\n');
    }
    text.push_str("how many times as fast ours is, by the median of the rounds\n");
    for mean in &report.means {
        let (row, ratio) = &mean.worst;
        text.push_str(&format!(
            "{}: geometric mean {:.3}x over {} rows, worst {ratio:.3}x at {row}\n",
            mean.name, mean.geometric_mean, mean.rows
        ));
    }
    let summary = &report.summary;
    for (what, rows) in [
        ("WRONG", &summary.wrong),
        ("refused", &summary.refused),
        ("FAILED", &summary.failed),
        ("no time for", &report.left_out),
    ] {
        if !rows.is_empty() {
            text.push_str(&format!("{what}: {}\n", rows.join(" ")));
        }
    }
    text
}

fn heading() -> Vec<String> {
    let others = OTHERS.iter().map(|(_, title)| format!("ours/{title}"));
    let ends = ["ours/best".to_owned(), "best".to_owned()];
    std::iter::once("row".to_owned()).chain(others).chain(ends).collect()
}

fn cells(row: &str, beside: &Beside) -> Vec<String> {
    let number = |name: &str| {
        beside.ratio(name).map_or_else(|| "-".to_owned(), |ratio| format!("{:.3}", ratio.median))
    };
    let best = beside.best.clone().unwrap_or_default();
    let others = OTHERS.iter().map(|(name, _)| number(name));
    std::iter::once(row.to_owned()).chain(others).chain([number(&best), best.clone()]).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use postlude_yardstick::report::Other;
    use postlude_yardstick::statistics::Spread;

    use super::*;

    #[test]
    fn a_competitor_that_is_not_there_leaves_a_dash() {
        let spread = |value| Some(Spread { median: value, low: value, high: value });
        let eager = Other {
            name: "eager".to_owned(),
            absent: None,
            errors: BTreeMap::new(),
            seconds: spread(2e-3),
            ours_over_this: spread(1.5),
        };
        let absent = Some("out of memory".to_owned());
        let compiled = Other {
            name: "torch.compile".to_owned(),
            absent,
            seconds: None,
            ours_over_this: None,
            ..eager.clone()
        };
        let cells = cells("E4-gelu", &Beside::of(vec![eager, compiled]));
        assert_eq!(cells, ["E4-gelu", "1.500", "-", "-", "1.500", "eager"]);
        assert_eq!(cells.len(), heading().len());
    }
}
