//! What a run found, as plain data.

use serde::Serialize;

use crate::check::Verdict;
use crate::first_use::FirstUse;
use crate::machine::Machine;
use crate::statistics::{self, Spread};

/// A whole run.
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
    /// From text to the first result, and the host's cost of a launch.
    pub first_use: FirstUse,
    /// Bytes read and written in a second by copies.
    pub copy_bytes_per_second: f64,
    /// Row after row.
    pub rows: Vec<RowReport>,
    /// All rows in short.
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
    /// Its name.
    pub row: &'static str,
    /// The kernel.
    pub source: &'static str,
    /// Rows.
    pub m: usize,
    /// Columns.
    pub n: usize,
    /// The contraction.
    pub k: usize,
    /// The tiles' dtype.
    pub dtype: String,
    /// Why it was not run, where it was not.
    pub refused: Option<String>,
    /// What was measured, where it was.
    pub measured: Option<Measured>,
}

/// What was measured of a row.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Measured {
    /// Whether the results were right.
    pub check: Verdict,
    /// Our schedule, as text.
    pub schedule: String,
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
    /// Products alone.
    pub ceiling_tflops: f64,
    /// How many times as fast as the bar we are: cuBLASLt's fused product, or its plain one where there is none.
    pub of_bar: Option<Spread>,
    /// The same beside the algorithm that it suggests first.
    pub of_first: Option<Spread>,
    /// Beside cuBLASLt's plain product.
    pub of_plain: Option<Spread>,
    /// Beside products alone.
    pub of_ceiling: Spread,
    /// The least that any kernel could take, in seconds, as far as was measured.
    pub limit_seconds: f64,
    /// That over what ours takes.
    pub of_limit: f64,
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
}

/// All rows in short.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Summary {
    /// The geometric mean of how many times as fast as the bar we are, over rows that have one.
    pub geometric_mean: Option<f64>,
    /// The row where we are slowest beside the bar.
    pub worst: Option<(&'static str, f64)>,
    /// Rows whose results were wrong.
    pub wrong: Vec<&'static str>,
    /// Rows that were not run.
    pub refused: Vec<&'static str>,
}

impl Summary {
    /// Of some rows. A wrong row counts nowhere but among the wrong ones.
    pub fn of(rows: &[RowReport]) -> Summary {
        let measured = |row: &RowReport| row.measured.clone();
        let right = rows.iter().filter(|row| measured(row).is_some_and(|found| found.check.right));
        let ratios: Vec<(&'static str, f64)> =
            right.filter_map(|row| Some((row.row, measured(row)?.of_bar?.median))).collect();
        let numbers: Vec<f64> = ratios.iter().map(|(_, ratio)| *ratio).collect();
        let wrong = rows.iter().filter(|row| measured(row).is_some_and(|found| !found.check.right));
        let refused = rows.iter().filter(|row| row.refused.is_some());
        Summary {
            geometric_mean: (!numbers.is_empty()).then(|| statistics::geometric_mean(&numbers)),
            worst: ratios.into_iter().min_by(|a, b| a.1.total_cmp(&b.1)),
            wrong: wrong.map(|row| row.row).collect(),
            refused: refused.map(|row| row.row).collect(),
        }
    }
}
