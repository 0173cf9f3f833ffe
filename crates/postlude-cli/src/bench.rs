//! `postlude bench`: times a suite on this machine.
//!
//! On a GPU beside cuBLASLt and the limits of the chip (`cuda`), on the processor alone (`cpu`).

mod cpu;
mod cuda;

use postlude_yardstick::measure;

use crate::arguments::{BenchArguments, BenchBackend};
use crate::failure::{Failure, Mistake, Outcome};

/// Runs the command.
pub(crate) fn bench(arguments: &BenchArguments) -> Result<Outcome, Failure> {
    // What only one suite knows says which one is meant.
    let of_cpu =
        [("--size", !arguments.sizes.is_empty()), ("--threads", arguments.threads.is_some())];
    let of_cuda =
        [("--against", arguments.against.is_some()), ("--rounds", arguments.rounds.is_some())];
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
