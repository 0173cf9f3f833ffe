//! `postlude fuzz`

use clap::{Args, ValueEnum};
use postlude::Backend;
use postlude::sim::Timing;

/// Kernels of one seed.
const MOST: i64 = 1_000_000;

/// `postlude fuzz`
#[derive(Args, Debug)]
pub(crate) struct FuzzArguments {
    /// What runs the kernels
    #[arg(long, default_value = "sim")]
    pub(crate) backend: FuzzBackend,
    /// How many kernels
    #[arg(long, value_name = "COUNT", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=MOST))]
    pub(crate) graphs: u32,
    /// The seed of all of them
    #[arg(long, default_value_t = 0)]
    pub(crate) seed: u32,
    /// The number of the first kernel of that seed, to go on where a run was interrupted
    #[arg(long, value_name = "NUMBER", default_value_t = 0, value_parser = clap::value_parser!(u32).range(0..MOST))]
    pub(crate) first: u32,
    /// Draw kernels of two to four products alone, whose operands may be values of others
    #[arg(long)]
    pub(crate) programs: bool,
    /// The nightly run: 500,000 kernels on the processor, then 20,000 in the simulator, and one table
    #[arg(long, conflicts_with_all = ["backend", "graphs", "only", "timing", "first"])]
    pub(crate) nightly: bool,
    /// Run the one kernel that a failure names
    #[arg(long, value_name = "SEED")]
    pub(crate) only: Option<u64>,
    /// When the simulator completes copies and products: eager, lazy or random:SEED [default: drawn]
    #[arg(long, value_name = "TIMING")]
    pub(crate) timing: Option<Timing>,
    /// How large problems may be [default: large on a GPU, small elsewhere]
    #[arg(long)]
    pub(crate) sizes: Option<FuzzSizes>,
    /// How many kernels run at a time [default: all cores]
    #[arg(long, alias = "threads", value_name = "COUNT", value_parser = clap::value_parser!(u16).range(1..=256))]
    pub(crate) jobs: Option<u16>,
    /// Seconds that one kernel may take before it counts as one that never ends
    #[arg(long, value_name = "SECONDS", default_value_t = 120, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    pub(crate) limit: u64,
    /// Seconds spent on making each failure smaller
    #[arg(long, value_name = "SECONDS", default_value_t = 20)]
    pub(crate) shrink: u64,
    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

/// What runs random kernels.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum FuzzBackend {
    /// The GPU's code in the simulator
    Sim,
    /// The processor
    Cpu,
    /// The first GPU
    Cuda,
    /// Nothing: kernels are planned and emitted for a GPU, and not run
    Emit,
}

impl FuzzBackend {
    /// The backend that is meant.
    pub(crate) fn backend(self) -> Backend {
        match self {
            FuzzBackend::Sim | FuzzBackend::Emit => Backend::Sim,
            FuzzBackend::Cpu => Backend::Cpu,
            FuzzBackend::Cuda => Backend::Cuda,
        }
    }
}

/// How large random problems may be.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum FuzzSizes {
    /// A few small tiles
    Small,
    /// Several tiles each way
    Large,
}
