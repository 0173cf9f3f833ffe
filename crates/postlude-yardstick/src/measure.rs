//! A whole run: the machine, first use, then row after row.
//!
//! In: which rows, how many rounds, against what. Out: a [`Report`].

use std::time::Duration;

use postlude::runtime::{Device, RuntimeError, Stream};

use crate::copy;
use crate::cublaslt::CublasLt;
use crate::error::YardstickError;
use crate::first_use;
use crate::machine::{self, Machine, State};
use crate::report::{LibraryReport, Report, Summary};
use crate::rounds::Plan;
use crate::row::{self, Bench};
use crate::sleep::Sleep;
use crate::suite::Row;

/// What ours is measured against, beside the limits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Against {
    /// The limits alone.
    Limits,
    /// cuBLASLt too.
    CublasLt,
}

/// What is wanted.
#[derive(Clone, PartialEq, Debug)]
pub struct Wanted<'a> {
    /// The rows.
    pub rows: Vec<&'a Row>,
    /// At most so many rounds a row.
    pub rounds: usize,
    /// The competitor.
    pub against: Against,
    /// The commit that is measured.
    pub commit: &'a str,
}

/// Rounds of a row when nobody says how many.
pub const ROUNDS: usize = 60;
/// Load before a row is timed, for the clock to settle.
const WARM_UP: Duration = Duration::from_secs(1);
/// What the rounds of a row may take, when there are not more than usual.
const BUDGET: Duration = Duration::from_millis(1500);
/// Rounds that are run whatever they take.
const FEWEST: usize = 10;

/// Whether the suite can be run here: a Hopper GPU and its driver.
pub fn is_possible() -> bool {
    Device::open(0).is_ok_and(|device| device.capability() == (9, 0))
}

/// Measures; `say` hears what is being done.
pub fn measure(wanted: &Wanted<'_>, mut say: impl FnMut(&str)) -> Result<Report, YardstickError> {
    say("opening the GPU");
    let (device, open_milliseconds) = first_use::open()?;
    if device.capability() != (9, 0) {
        let (device, capability) = (device.name().to_owned(), device.target());
        return Err(RuntimeError::NotHopper { device, capability }.into());
    }
    let mut machine = Machine::of(&device);
    say("first use");
    let first_use = first_use::measure(&device, open_milliseconds)?;
    let stream = Stream::new(&device)?;
    let library = match wanted.against {
        Against::Limits => None,
        Against::CublasLt => Some(CublasLt::open(&device)?),
    };
    say("copies");
    let copy_bytes_per_second = copy::bandwidth(&device, &stream)?;
    let sleep = Sleep::new(&device)?;
    // More rounds than usual take as much longer.
    let budget = BUDGET.mul_f64((wanted.rounds as f64 / ROUNDS as f64).max(1.0));
    let fewest = FEWEST.min(wanted.rounds);
    let bench = Bench {
        device: &device,
        stream: &stream,
        sleep: &sleep,
        library: library.as_ref(),
        copy_bytes_per_second,
        plan: Plan { warm_up: WARM_UP, rounds: wanted.rounds, fewest, budget },
    };
    let mut rows = Vec::new();
    for row in &wanted.rows {
        say(row.name);
        rows.push(row::measure(&bench, row)?);
    }
    machine.after = State::now(device.ordinal());
    let cublaslt = library.as_ref().map(|library| LibraryReport {
        version: library.version(),
        file: library.path().display().to_string(),
    });
    Ok(Report {
        schema: 1,
        backend: "cuda",
        commit: wanted.commit.to_owned(),
        date: machine::today(),
        machine,
        cublaslt,
        first_use,
        copy_bytes_per_second,
        summary: Summary::of(&rows),
        rows,
    })
}
