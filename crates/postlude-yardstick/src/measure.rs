//! A whole run: the machine, first use, then row after row.
//!
//! In: which rows, how long, against what. Out: a [`Report`], which whoever watches sees after every row. A row that fails
//! says so and the run goes on.

mod ours;
mod row;
mod theirs;
mod verify;

use std::time::{Duration, Instant};

use postlude::cuda;
use postlude::runtime::{Device, RuntimeError, Stream};

use crate::bench::Bench;
use crate::copy;
use crate::cublaslt::CublasLt;
use crate::error::YardstickError;
use crate::first_use;
use crate::machine::{self, Machine, State};
use crate::peers::Peers;
use crate::regime::Regime;
use crate::report::{Found, LibraryReport, Report, RowReport, Summary};
use crate::search::{self, Search};
use crate::sleep::Sleep;
use crate::suite::Row;

pub use crate::effort::ROUNDS;
pub(crate) use ours::{Ours, problem, refusal};
pub(crate) use theirs::Theirs;
pub(crate) use verify::check_ours;

/// What ours is measured against, beside the limits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Against {
    /// The limits alone.
    Limits,
    /// cuBLASLt too.
    CublasLt,
}

/// Whether first use is measured.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FirstUseWanted {
    /// Before everything else.
    Yes,
    /// Not at all.
    No,
}

/// What is wanted.
#[derive(Clone, PartialEq, Debug)]
pub struct Wanted<'a> {
    /// The rows.
    pub rows: Vec<Row>,
    /// What those with random sizes were drawn from.
    pub seed: u64,
    /// Whether first use is measured too.
    pub first_use: FirstUseWanted,
    /// At most this many rounds a row.
    pub rounds: usize,
    /// No row is begun after so long.
    pub limit: Option<Duration>,
    /// How competitors take turns, and on what.
    pub regime: Regime,
    /// The competitor.
    pub against: Against,
    /// The schedules to try on every row; the planner's own is measured when `None`.
    pub search: Option<Search>,
    /// The commit that is measured.
    pub commit: &'a str,
}

/// Someone who wants to know how a run goes.
pub trait Watch {
    /// This is being done now.
    fn doing(&mut self, what: &str);
    /// The last row of the report is done.
    fn done(&mut self, report: &Report);
}

/// Whether rows can be measured here: a Hopper GPU and its driver.
pub fn is_possible() -> bool {
    Device::open(0).is_ok_and(|device| device.capability() == (9, 0))
}

/// Measures.
pub fn measure(wanted: &Wanted<'_>, watch: &mut dyn Watch) -> Result<Report, YardstickError> {
    measure_beside(wanted, None, watch)
}

/// Measures beside peers, which share the GPU's primary context and this thread.
pub fn measure_beside(
    wanted: &Wanted<'_>,
    peers: Option<&dyn Peers>,
    watch: &mut dyn Watch,
) -> Result<Report, YardstickError> {
    let start = Instant::now();
    watch.doing("opening the GPU");
    let (device, open_milliseconds) = first_use::open()?;
    if device.capability() != (9, 0) {
        let (device, capability) = (device.name().to_owned(), device.target());
        return Err(RuntimeError::NotHopper { device, capability }.into());
    }
    let machine = Machine::of(&device);
    let first_use = match wanted.first_use {
        FirstUseWanted::No => None,
        FirstUseWanted::Yes => {
            watch.doing("first use");
            Some(first_use::measure(&device, open_milliseconds)?)
        }
    };
    let stream = Stream::new(&device)?;
    let library = match wanted.against {
        Against::Limits => None,
        Against::CublasLt => Some(CublasLt::open(&device)?),
    };
    watch.doing("copies");
    let copy_bytes_per_second = copy::bandwidth(&device, &stream)?;
    let sleep = Sleep::new(&device)?;
    let bench = Bench {
        device: &device,
        chip: cuda::chip(&device)?,
        stream: &stream,
        sleep: &sleep,
        library: library.as_ref(),
        peers,
        copy_bytes_per_second,
        rounds: wanted.rounds,
        regime: wanted.regime,
    };
    let cublaslt = library.as_ref().map(|library| LibraryReport {
        version: library.version(),
        file: library.path().display().to_string(),
    });
    let mut report = Report {
        schema: 3,
        backend: "cuda",
        commit: wanted.commit.to_owned(),
        date: machine::today(),
        machine,
        cublaslt,
        peers: peers.map(Peers::runtime),
        first_use,
        copy_bytes_per_second,
        seed: wanted.seed,
        regime: wanted.regime.name(),
        complete: false,
        rows: Vec::new(),
        left_out: Vec::new(),
        suites: Vec::new(),
        summary: Summary::default(),
        means: Vec::new(),
    };
    for row in &wanted.rows {
        if wanted.limit.is_some_and(|limit| start.elapsed() >= limit) {
            report.left_out.push(row.name.clone());
            continue;
        }
        watch.doing(&row.name);
        report.add(measure_row(&bench, row, wanted.search.as_ref()));
        watch.done(&report);
    }
    report.machine.after = State::now(device.ordinal());
    report.complete = report.left_out.is_empty();
    Ok(report)
}

/// One row, whatever becomes of it.
fn measure_row(bench: &Bench<'_>, row: &Row, search: Option<&Search>) -> RowReport {
    let start = Instant::now();
    let found = match search {
        None => row::measure(bench, row),
        Some(search) => search::search(bench, row, search),
    };
    let found = found.unwrap_or_else(|error| Found::Failed(error.to_string()));
    RowReport::new(row, start.elapsed().as_secs_f64(), found)
}
