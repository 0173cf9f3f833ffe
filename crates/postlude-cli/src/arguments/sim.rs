//! What `postlude sim` takes, and what every run in the simulator does.

use std::path::PathBuf;

use clap::Args;
use postlude::sim::Timing;

/// How the simulator runs, and what it shows.
#[derive(Args, Debug)]
pub(crate) struct WatchArguments {
    /// When the simulator completes copies and products: eager, lazy or random:SEED [default: eager]
    #[arg(long, value_name = "TIMING")]
    pub(crate) timing: Option<Timing>,
    /// List what the simulator finds, and go on in spite of it
    #[arg(long)]
    pub(crate) findings: bool,
    /// Show what the program asks of the hardware
    #[arg(long)]
    pub(crate) meters: bool,
    /// Write a timeline that Perfetto opens, and draw it
    #[arg(long, value_name = "FILE")]
    pub(crate) trace: Option<PathBuf>,
    /// Stop a program that has not ended after this many warp instructions [default: 4294967296]
    #[arg(long, value_name = "INSTRUCTIONS", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) budget: Option<u64>,
}

impl WatchArguments {
    /// A flag that is for the simulator alone, if one was given.
    pub(crate) fn flag(&self) -> Option<&'static str> {
        if self.timing.is_some() {
            Some("--timing")
        } else if self.findings {
            Some("--findings")
        } else if self.meters {
            Some("--meters")
        } else if self.budget.is_some() {
            Some("--budget")
        } else {
            self.trace.as_ref().map(|_| "--trace")
        }
    }
}

/// `postlude sim`
#[derive(Args, Debug)]
pub(crate) struct SimArguments {
    /// The program: PTX as Postlude emits it, or by hand in that subset (docs/simulator.md, "What it reads")
    #[arg(value_name = "PTX")]
    pub(crate) program: PathBuf,
    /// How it is launched, on what data: see `postlude emit --launch`
    #[arg(long, value_name = "FILE")]
    pub(crate) launch: PathBuf,
    #[command(flatten)]
    pub(crate) watch: WatchArguments,
    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}
