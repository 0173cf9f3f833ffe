//! `postlude bench`: times a suite on this machine.
//!
//! On a GPU beside cuBLASLt and the limits of the chip (`cuda`), on the processor alone (`cpu`).

mod cpu;
mod cuda;
mod rows;
mod searched;

use std::path::Path;

use postlude_yardstick::measure;
use serde::Serialize;

use crate::arguments::{BenchArguments, BenchBackend};
use crate::failure::{Failure, Mistake, Outcome};
use crate::{files, print};

/// Runs the command.
pub(crate) fn bench(arguments: &BenchArguments) -> Result<Outcome, Failure> {
    // What only one suite knows says which one is meant.
    let of_cpu =
        [("--size", !arguments.sizes.is_empty()), ("--threads", arguments.threads.is_some())];
    let of_cuda = [
        ("--suite", !arguments.suites.is_empty()),
        ("--against", arguments.against.is_some()),
        ("--regime", arguments.regime.is_some()),
        ("--rounds", arguments.rounds.is_some()),
        ("--seconds", arguments.seconds.is_some()),
        ("--seed", arguments.seed.is_some()),
        ("--records", arguments.records.is_some()),
        ("--every-schedule", arguments.every_schedule),
        ("--every-tile", arguments.every_tile),
        ("--schedules", !arguments.schedules.is_empty()),
    ];
    let given = |flags: &[(&'static str, bool)]| {
        flags.iter().find(|(_, given)| *given).map(|(flag, _)| *flag)
    };
    let backend = match (arguments.backend, given(&of_cpu), given(&of_cuda)) {
        (BenchBackend::Auto, Some(_), None) => BenchBackend::Cpu,
        (BenchBackend::Auto, None, Some(_)) => BenchBackend::Cuda,
        (BenchBackend::Auto, None, None) if measure::is_possible() => BenchBackend::Cuda,
        (BenchBackend::Auto, None, None) => BenchBackend::Cpu,
        (backend, ..) => backend,
    };
    match (backend, given(&of_cpu), given(&of_cuda)) {
        (BenchBackend::Cuda, Some(flag), _) => Err(foreign(flag, "on the processor", "cpu")),
        (BenchBackend::Cpu | BenchBackend::Auto, _, Some(flag)) => {
            Err(foreign(flag, "on a GPU", "cuda"))
        }
        (BenchBackend::Cuda, None, _) => cuda::bench(arguments),
        (BenchBackend::Cpu | BenchBackend::Auto, _, None) => cpu::bench(arguments),
    }
}

/// A flag of the other suite.
fn foreign(flag: &str, place: &str, backend: &str) -> Failure {
    let fix = format!("leave it out, or say `--backend {backend}`");
    Mistake::new(format!("`{flag}` is for the suite {place}")).fix(fix).into()
}

/// Prints text, or the object that it tells of; with a file, the text is printed and the object goes there.
fn give(
    arguments: &BenchArguments,
    object: &impl Serialize,
    words: impl FnOnce() -> String,
) -> Result<(), Failure> {
    print::either(arguments.json == Some(None), object, words)?;
    match &arguments.json {
        Some(Some(path)) => write(path, object),
        Some(None) | None => Ok(()),
    }
}

/// Writes one object; the file is whole or as it was.
fn write(path: &Path, object: &impl Serialize) -> Result<(), Failure> {
    let mut line = serde_json::to_string(object).expect("compiler bug: an object without text");
    line.push('\n');
    Ok(files::write_whole(path, line.as_bytes())?)
}

/// Whether a file could be written there, before minutes of work go into it.
fn try_to_write(path: &Path) -> Result<(), Failure> {
    Ok(files::require_writable(path)?)
}
