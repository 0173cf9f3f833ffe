//! The command line of `postlude bench`.

use std::path::PathBuf;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, ValueEnum};
use postlude_yardstick::regime::Regime;
use postlude_yardstick::suite::Suite;

use super::tune::Budget;
use super::{MOST_THREADS, Pair};

/// `postlude bench`
#[derive(Args, Debug)]
pub(crate) struct BenchArguments {
    /// Only rows or kernels whose name contains this
    #[arg(default_value = "", hide_default_value = true)]
    pub(crate) filter: String,
    /// What runs the suite
    #[arg(long, default_value = "auto")]
    pub(crate) backend: BenchBackend,
    /// What is measured on a GPU, comma separated [default: first_use,plain,fused]
    #[arg(long = "suite", value_name = "NAME", value_delimiter = ',', value_parser = suite_parser())]
    pub(crate) suites: Vec<Suite>,
    /// What to measure against on a GPU, beside its limits
    #[arg(long)]
    pub(crate) against: Option<BenchAgainst>,
    /// How competitors take turns on a GPU, and on what [default: interleaved]
    #[arg(long, value_name = "NAME", value_parser = regime_parser())]
    pub(crate) regime: Option<Regime>,
    /// At most this many rounds a row on a GPU [default: 60]
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) rounds: Option<u16>,
    /// Begin no row on a GPU after this many seconds
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) seconds: Option<u32>,
    /// What the sizes of the suite `random` are drawn from [default: 60]
    #[arg(long)]
    pub(crate) seed: Option<u64>,
    /// Take schedules from the records of this file beside the shipped ones
    #[arg(long, value_name = "FILE")]
    pub(crate) records: Option<PathBuf>,
    /// Tune the kernel of each row for so long before it is measured, and append to the records
    #[arg(long, value_name = "TIME", requires = "records")]
    pub(crate) tune: Option<Budget>,
    /// Time every schedule of the planner's table on each row, and say which is best
    #[arg(long)]
    pub(crate) every_schedule: bool,
    /// Time every tile of the planner's table on each row, and say which is best
    #[arg(long, conflicts_with = "every_schedule")]
    pub(crate) every_tile: bool,
    /// Time the schedules of these files, or of the files in these folders, on each row
    #[arg(long, value_name = "PATH", num_args = 1..)]
    pub(crate) schedules: Vec<PathBuf>,
    /// Other sizes than the suite's on the processor
    #[arg(long = "size", value_name = "DIM=SIZE", value_delimiter = ',')]
    pub(crate) sizes: Vec<Pair<usize>>,
    /// How many threads to use [default: all cores]
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u16).range(1..=MOST_THREADS))]
    pub(crate) threads: Option<u16>,
    /// Print one JSON object, or write it to a file, on a GPU after every row
    #[arg(long, value_name = "FILE.json", num_args = 0..=1, value_parser = json_file)]
    #[allow(clippy::option_option)] // Not given, given alone, given with a file.
    pub(crate) json: Option<Option<PathBuf>>,
}

/// What runs the suite of `bench`.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum BenchBackend {
    /// A Hopper GPU where there is one, else the processor
    Auto,
    /// The processor
    Cpu,
    /// A Hopper GPU
    Cuda,
}

/// What the GPU's suite is measured against.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum BenchAgainst {
    /// NVIDIA's library: the best of all its algorithms, its first suggestion, its fused epilogues
    Cublaslt,
}

/// The suites of the yardstick.
fn suite_parser() -> impl TypedValueParser<Value = Suite> {
    PossibleValuesParser::new(Suite::ALL.map(Suite::name))
        .map(|name| Suite::from_name(&name).expect("compiler bug: a suite that does not exist"))
}

/// The regimes of the yardstick.
fn regime_parser() -> impl TypedValueParser<Value = Regime> {
    PossibleValuesParser::new(Regime::ALL.map(Regime::name))
        .map(|name| Regime::from_name(&name).expect("compiler bug: a regime that does not exist"))
}

/// A file for JSON, told from a filter by its name.
fn json_file(text: &str) -> Result<PathBuf, String> {
    let path = PathBuf::from(text);
    let is_json = path.extension().is_some_and(|extension| extension == "json");
    is_json
        .then_some(path)
        .ok_or_else(|| "a file's name ends in `.json`; a filter stands before `--json`".to_owned())
}
