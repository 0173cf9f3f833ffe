//! What a run found, as plain data.

mod beside;

use serde::Serialize;

use crate::check::Verdict;
use crate::first_use::FirstUse;
use crate::machine::Machine;
use crate::statistics::{self, Spread};
use crate::suite::{Row, Suite};

pub use beside::{Beside, Mean, Other, means};

/// A whole run, or as much of it as there is.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Report {
    /// The version of this object.
    pub schema: u32,
    /// What ran the kernels.
    pub backend: &'static str,
    /// The commit that was measured.
    pub commit: String,
    /// The day, in UTC.
    pub date: String,
    /// The machine.
    pub machine: Machine,
    /// cuBLASLt's version and file, where it took part.
    pub cublaslt: Option<LibraryReport>,
    /// What peers ran in, where some were asked for.
    pub peers: Option<String>,
    /// From text to the first result, and the host's cost of a launch, where that was asked for.
    pub first_use: Option<FirstUse>,
    /// Bytes read and written in a second by copies.
    pub copy_bytes_per_second: f64,
    /// What random sizes were drawn from.
    pub seed: u64,
    /// How competitors took turns, and on what.
    pub regime: &'static str,
    /// Whether every row that was wanted is here.
    pub complete: bool,
    /// Row after row.
    pub rows: Vec<RowReport>,
    /// Rows for which there was no time.
    pub left_out: Vec<String>,
    /// Suite after suite in short.
    pub suites: Vec<SuiteReport>,
    /// All rows in short.
    pub summary: Summary,
    /// Ours beside each competitor that does the same as a row, over all rows, where peers were asked for.
    pub means: Vec<Mean>,
}

impl Report {
    /// Takes a row in.
    pub fn add(&mut self, row: RowReport) {
        self.rows.push(row);
        self.summary = Summary::of(&self.rows);
        self.means = if self.peers.is_some() { means(&self.rows) } else { Vec::new() };
        self.suites.clear();
        for suite in Suite::ALL.map(Suite::name) {
            let rows: Vec<&RowReport> = self.rows.iter().filter(|row| row.suite == suite).collect();
            if !rows.is_empty() {
                self.suites.push(SuiteReport { suite, summary: Summary::of(rows) });
            }
        }
    }
}

/// The rows of one suite in short.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct SuiteReport {
    /// Its name.
    pub suite: &'static str,
    /// Its rows.
    pub summary: Summary,
}

/// A library that was measured against.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct LibraryReport {
    /// Its version.
    pub version: String,
    /// Where it was.
    pub file: String,
}

/// One row.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct RowReport {
    /// The suite that it belongs to.
    pub suite: &'static str,
    /// Its name.
    pub row: String,
    /// The kernel.
    pub source: String,
    /// Rows.
    pub m: usize,
    /// Columns.
    pub n: usize,
    /// The contraction.
    pub k: usize,
    /// The operands' dtype.
    pub dtype: String,
    /// The dtype of the plain product.
    pub result_dtype: String,
    /// What is asked of functions, and of sums of 8-bit floats.
    pub math: &'static str,
    /// How the operands lie.
    pub layout: &'static str,
    /// What the row took altogether, in seconds.
    pub wall_seconds: f64,
    /// Why the planner does not take it, where it does not.
    pub refused: Option<String>,
    /// Why nothing came of it, where nothing did.
    pub failed: Option<String>,
    /// What was measured, where it was.
    pub measured: Option<Measured>,
    /// What became of schedules, where they were searched.
    pub searched: Option<Searched>,
}

/// What came of a row.
#[derive(Clone, PartialEq, Debug)]
pub enum Found {
    /// The planner does not take it, for this reason.
    Refused(String),
    /// Something went wrong.
    Failed(String),
    /// The kernel that the planner chose was measured.
    Measured(Box<Measured>),
    /// Many schedules were.
    Searched(Box<Searched>),
}

impl RowReport {
    /// Of a row and what came of it.
    pub fn new(row: &Row, wall_seconds: f64, found: Found) -> RowReport {
        let [m, n, k] = row.sizes;
        let mut report = RowReport {
            suite: row.suite.name(),
            row: row.name.clone(),
            source: row.source.clone(),
            m,
            n,
            k,
            dtype: row.dtype.to_string(),
            result_dtype: row.result.to_string(),
            math: row.math.name(),
            layout: row.layout.name(),
            wall_seconds,
            refused: None,
            failed: None,
            measured: None,
            searched: None,
        };
        match found {
            Found::Refused(reason) => report.refused = Some(reason),
            Found::Failed(reason) => report.failed = Some(reason),
            Found::Measured(measured) => report.measured = Some(*measured),
            Found::Searched(searched) => report.searched = Some(*searched),
        }
        report
    }

    /// Whether results were right; `None` where there are none.
    pub fn is_right(&self) -> Option<bool> {
        let measured = self.measured.as_ref().map(|found| found.check.right);
        measured.or(self.searched.as_ref().map(|found| found.wrong.is_empty()))
    }

    /// How many times as fast as the bar we are; by the best schedule where many were tried.
    pub fn of_bar(&self) -> Option<Spread> {
        let best = || self.searched.as_ref()?.schedules.first()?.of_bar;
        self.measured.as_ref().map_or_else(best, |found| found.of_bar)
    }
}

/// What was measured of a row.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Measured {
    /// Whether the results were right.
    pub check: Verdict,
    /// Our schedule, as text.
    pub schedule: String,
    /// From the kernel's text to its loaded module, in a process that has compiled before, with nothing cached.
    pub load_milliseconds: f64,
    /// Registers of a thread of our kernel.
    pub registers: u32,
    /// Bytes of local memory of a thread of our kernel: what was spilled.
    pub local_bytes: u32,
    /// Rounds that were kept.
    pub rounds: usize,
    /// Rounds that were thrown away because the host was too slow.
    pub dropped: usize,
    /// Sets of buffers.
    pub sets: usize,
    /// Algorithms that cuBLASLt suggested and could run.
    pub algorithms: usize,
    /// Everyone's times.
    pub competitors: Vec<Timed>,
    /// Tera-operations a second: ours.
    pub ours_tflops: f64,
    /// cuBLASLt's plain product by its fastest algorithm.
    pub best_tflops: Option<f64>,
    /// By the algorithm that it suggests first; of the fused product where there is one.
    pub first_tflops: Option<f64>,
    /// Its fused product by its fastest algorithm.
    pub fused_tflops: Option<f64>,
    /// Why that is not there, where cuBLASLt has the epilogue and refused this problem.
    pub no_fused: Option<String>,
    /// Products alone.
    pub ceiling_tflops: f64,
    /// Joules of a launch of ours, where it ran alone and the GPU counts them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub our_joules: Option<f64>,
    /// The same of cuBLASLt's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bar_joules: Option<f64>,
    /// How many times as fast as the bar we are: cuBLASLt's fused product, or its plain one where there is none.
    pub of_bar: Option<Spread>,
    /// The same beside the algorithm that it suggests first.
    pub of_first: Option<Spread>,
    /// Beside cuBLASLt's plain product.
    pub of_plain: Option<Spread>,
    /// Beside our own product of aligned sizes, by operations a second, where the row has one.
    pub of_aligned: Option<Spread>,
    /// Beside products alone.
    pub of_ceiling: Spread,
    /// The least that any kernel could take, in seconds, as far as was measured.
    pub limit_seconds: f64,
    /// That over what ours takes.
    pub of_limit: f64,
    /// For a fused row, how far beyond its limit it is.
    pub over_limit: Option<OverLimit>,
    /// Everyone who does the same as the row, where peers were asked for.
    pub beside: Option<Beside>,
}

/// How far beyond its limit a fused row is, and what it aims at: a long contraction hides more than a short one.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct OverLimit {
    /// What ours takes, over the limit.
    pub ratio: f64,
    /// The most that this is meant to be.
    pub aim: f64,
    /// Whether it is no more.
    pub holds: bool,
}

impl OverLimit {
    /// Of a row; nothing for a plain one, whose limit is another.
    pub fn of(row: &Row, ratio: f64) -> Option<OverLimit> {
        let aim = if row.sizes[2] >= 4096 { 1.05 } else { 1.25 };
        (!row.is_plain()).then_some(OverLimit { ratio, aim, holds: ratio <= aim })
    }
}

/// One competitor's times.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Timed {
    /// Its name.
    pub name: String,
    /// Seconds of a launch.
    pub seconds: Spread,
    /// Tera-operations a second, by the median.
    pub tflops: f64,
    /// How many times as fast ours is.
    pub ours_over_this: Spread,
    /// Joules of a launch, as above.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub joules: Option<f64>,
}

/// What a search among schedules found.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Searched {
    /// The schedules that ran, best first.
    pub schedules: Vec<Tried>,
    /// Those whose results were wrong, by their knobs.
    pub wrong: Vec<String>,
    /// Those that could not be run, by their knobs, and why.
    pub not_run: Vec<(String, String)>,
    /// Seconds in which all of them were compiled.
    pub compile_seconds: f64,
    /// Sets of buffers.
    pub sets: usize,
    /// Tera-operations a second of cuBLASLt by its fastest algorithm.
    pub bar_tflops: Option<f64>,
}

/// A schedule that ran.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Tried {
    /// Its knobs, in short.
    pub knobs: Vec<String>,
    /// The whole of it, as text.
    pub schedule: String,
    /// The file that it came from.
    pub file: Option<String>,
    /// Whether it is the one that the planner takes by itself.
    pub planned: bool,
    /// Rounds that were kept.
    pub rounds: usize,
    /// Seconds of a launch.
    pub seconds: Spread,
    /// Tera-operations a second, by the median.
    pub tflops: f64,
    /// How many times as fast as cuBLASLt it is: as its fused product, or its plain one for a plain row.
    pub of_bar: Option<Spread>,
    /// How many times as fast as the planner's choice it is.
    pub of_planned: Spread,
    /// Registers of a thread.
    pub registers: u32,
    /// Bytes of local memory of a thread: what was spilled.
    pub local_bytes: u32,
    /// Whether the driver's compiler made products wait for one another.
    pub serialised: bool,
}

/// Some rows in short.
#[derive(Clone, PartialEq, Debug, Default, Serialize)]
pub struct Summary {
    /// The geometric mean of how many times as fast as the bar we are, over rows that have one.
    pub geometric_mean: Option<f64>,
    /// The row where we are slowest beside the bar.
    pub worst: Option<(String, f64)>,
    /// Rows whose results were wrong.
    pub wrong: Vec<String>,
    /// Rows that the planner does not take.
    pub refused: Vec<String>,
    /// Rows that failed.
    pub failed: Vec<String>,
}

impl Summary {
    /// Of some rows. A wrong row counts nowhere but among the wrong ones.
    pub fn of<'a>(rows: impl IntoIterator<Item = &'a RowReport>) -> Summary {
        let rows: Vec<&RowReport> = rows.into_iter().collect();
        let names = |wanted: fn(&RowReport) -> bool| -> Vec<String> {
            rows.iter().filter(|row| wanted(row)).map(|row| row.row.clone()).collect()
        };
        let right = rows.iter().filter(|row| row.is_right() == Some(true));
        let ratios: Vec<(String, f64)> =
            right.filter_map(|row| Some((row.row.clone(), row.of_bar()?.median))).collect();
        let numbers: Vec<f64> = ratios.iter().map(|(_, ratio)| *ratio).collect();
        Summary {
            geometric_mean: (!numbers.is_empty()).then(|| statistics::geometric_mean(&numbers)),
            wrong: names(|row| row.is_right() == Some(false)),
            refused: names(|row| row.refused.is_some()),
            failed: names(|row| row.failed.is_some()),
            worst: ratios.into_iter().min_by(|a, b| a.1.total_cmp(&b.1)),
        }
    }

    /// Whether nothing was wrong and nothing failed.
    pub fn is_fine(&self) -> bool {
        self.wrong.is_empty() && self.failed.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::suite::SEED;

    fn row(name: &str) -> Row {
        let rows = Suite::Plain.rows(SEED).into_iter().chain(Suite::Layouts.rows(SEED));
        rows.into_iter().find(|row| row.name == name).unwrap()
    }

    fn searched(ratio: f64, wrong: &[&str]) -> Found {
        let spread = Spread { median: ratio, low: ratio, high: ratio };
        let tried = Tried {
            knobs: Vec::new(),
            schedule: String::new(),
            file: None,
            planned: true,
            rounds: 1,
            seconds: spread,
            tflops: 1.0,
            of_bar: Some(spread),
            of_planned: spread,
            registers: 168,
            local_bytes: 0,
            serialised: false,
        };
        Found::Searched(Box::new(Searched {
            schedules: vec![tried],
            wrong: wrong.iter().map(|knobs| (*knobs).to_owned()).collect(),
            not_run: Vec::new(),
            compile_seconds: 0.0,
            sets: 2,
            bar_tflops: Some(1.0),
        }))
    }

    #[test]
    fn a_long_contraction_has_the_narrower_aim() {
        let aims = |name: &str| {
            let rows = Suite::Epilogues.rows(SEED);
            let row = rows.iter().find(|row| row.name == name).unwrap();
            OverLimit::of(row, 1.1).map(|over| (over.aim, over.holds))
        };
        assert_eq!(aims("E5-2048"), Some((1.25, true)));
        assert_eq!(aims("E10"), Some((1.05, false)));
        assert_eq!(OverLimit::of(&row("P1"), 1.0), None);
    }

    #[test]
    fn a_summary_means_what_is_right_and_names_the_rest() {
        let rows = [
            ("P1", searched(0.5, &[])),
            ("P2", searched(2.0, &[])),
            ("P3", searched(9.0, &["stages 2"])),
            ("P4", Found::Failed("it burnt".to_owned())),
            ("P1-nn", Found::Refused("it is not taken".to_owned())),
        ]
        .map(|(name, found)| RowReport::new(&row(name), 1.0, found));
        let summary = Summary::of(&rows);
        assert_eq!(summary.geometric_mean, Some(1.0));
        assert_eq!(summary.worst, Some(("P1".to_owned(), 0.5)));
        assert_eq!(summary.wrong, ["P3"]);
        assert_eq!(summary.refused, ["P1-nn"]);
        assert_eq!(summary.failed, ["P4"]);
        assert!(!summary.is_fine());
        assert!(Summary::of(&rows[..2]).is_fine());
    }
}
