//! The workspace's tests: built at once, run one program or long part of one on each core, the slowest named at the end.
//!
//! Cargo would run them as well, but says no times. Programs of Rust's own harness are asked for each test's time
//! (`--report-time`, which the pinned toolchain's harness takes where `RUSTC_BOOTSTRAP` is set).

use std::path::Path;
use std::process::Command;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use serde_json::Value;

use crate::assembler;
use crate::command::{cargo, root, run};
use crate::executables::{Executable, executables};
use crate::test::Tier;

/// How many of the slowest tests are named.
const NAMED: usize = 15;

/// A part of a test program that takes long.
struct Long {
    /// Package and program.
    program: &'static str,
    /// The module whose tests they are; `None` for the whole program.
    module: Option<&'static str>,
    /// Why it takes long.
    reason: &'static str,
}

const fn long(program: &'static str, module: &'static str, reason: &'static str) -> Long {
    Long { program, module: Some(module), reason }
}

/// What people at work leave to CI, the longest first. Each is run by itself, so that the cores share one program.
#[rustfmt::skip] // A table: one line a part.
const LONG: &[Long] = &[
    long("postlude/all", "simulated", "every tile, every operand load and every epilogue in the simulator"),
    long("postlude/all", "resources", "hundreds of kernels through ptxas"),
    long("postlude/all", "define", "the stability of every form in high precision"),
    long("postlude-sim/all", "zoo_order", "every broken kernel under every timing"),
    long("postlude-sim/all", "kernels", "every epilogue in the simulator"),
    long("postlude-sim/all", "zoo_lanes", "every broken kernel under every timing"),
    long("postlude-sim/all", "ping_pong", "ping-pong kernels in the simulator"),
    long("postlude-sim/all", "transposed", "transposed tiles in the simulator"),
    Long { program: "postlude/gpu_simulator", module: None, reason: "the simulator's tensor cores" },
    long("postlude-sim/all", "zoo", "every broken kernel under every timing"),
    long("postlude-sim/all", "limits", "the simulator's limits"),
    long("postlude-ptx/all", "forms", "every instruction through ptxas"),
    long("postlude-corpus/all", "picks", "the planner's picks in the simulator"),
    long("postlude-corpus/all", "fuzz", "random kernels"),
    long("postlude-corpus/all", "mutations", "corrupted outputs of the whole corpus"),
];

/// The tests of one process.
struct Job<'b> {
    binary: &'b Executable,
    /// The only module whose tests run.
    only: Option<&'static str>,
    /// Modules whose tests do not run.
    skipped: Vec<&'static str>,
    /// The place in [`LONG`], or behind it.
    order: usize,
    /// Whether it is the longest of all in CI, though people at work run a part of it: it begins first.
    begins: bool,
}

impl Job<'_> {
    fn name(&self) -> String {
        match self.only {
            Some(module) => format!("{} {module}", name(self.binary)),
            None => name(self.binary),
        }
    }
}

/// Test programs with a harness of their own, which says no times.
const OWN_HARNESS: &[&str] = &["corpus"];

/// A test or a binary, and its seconds.
type Timed = (f64, String);

/// Builds and runs what the tier asks for; every failure is counted, none ends the run.
pub(crate) fn run_tests(tier: Tier) -> Result<(), String> {
    let built = executables(
        &["test", "--workspace", "--no-run", "--tests", "--message-format=json-render-diagnostics"],
        &[],
        |message: &Value| message["profile"]["test"] == Value::Bool(true),
    )?;
    let ptxas = match (tier, assembler::prepare()) {
        (_, Ok(path)) => Some(path),
        (_, Err(message)) => {
            eprintln!("NO ASSEMBLER: PTX will not be assembled: {message}");
            None
        }
    };
    let (mut slowest, mut failed) = run_all(&built, tier, ptxas.as_deref());
    if tier == Tier::Full && run(&mut cargo(&["test", "--workspace", "--doc"])).is_err() {
        failed.push("documentation's examples".to_owned());
    }
    slowest.sort_by(|one, other| other.0.total_cmp(&one.0));
    println!("\nthe slowest tests:");
    for (seconds, name) in slowest.iter().take(NAMED) {
        println!("{seconds:>8.1} s  {name}");
    }
    if failed.is_empty() { Ok(()) } else { Err(format!("failed: {}", failed.join(", "))) }
}

/// The processes that run every test of the tier once, those of long parts first, so that none of them runs alone at the
/// end.
fn jobs(built: &[Executable], tier: Tier) -> Vec<Job<'_>> {
    let mut jobs = Vec::new();
    for binary in built {
        let parts = || LONG.iter().enumerate().filter(|(_, part)| part.program == name(binary));
        for (order, part) in parts() {
            jobs.push(Job { binary, only: part.module, skipped: Vec::new(), order, begins: false });
        }
        if parts().all(|(_, part)| part.module.is_some()) {
            let skipped = parts().filter_map(|(_, part)| part.module).collect();
            let begins = OWN_HARNESS.contains(&binary.name.as_str());
            jobs.push(Job { binary, only: None, skipped, order: LONG.len(), begins });
        }
    }
    jobs.sort_by_key(|job| (!job.begins, job.order));
    if tier == Tier::Quick {
        jobs.retain(|job| {
            let part = LONG.get(job.order);
            if let Some(part) = part {
                println!("-- {}: left to the full tier ({})", job.name(), part.reason);
            }
            part.is_none()
        });
    }
    jobs
}

/// Runs the jobs, as many at a time as there are cores, each with one thread; times, and what failed.
fn run_all(built: &[Executable], tier: Tier, ptxas: Option<&Path>) -> (Vec<Timed>, Vec<String>) {
    let next = Mutex::new(jobs(built, tier).into_iter());
    let done = Mutex::new((Vec::new(), Vec::new()));
    let lock = |mutex| -> MutexGuard<'_, (Vec<Timed>, Vec<String>)> {
        Mutex::lock(mutex).unwrap_or_else(PoisonError::into_inner)
    };
    let work = || {
        loop {
            let taken = next.lock().unwrap_or_else(PoisonError::into_inner).next();
            let Some(job) = taken else { return };
            let start = Instant::now();
            let ran = run_job(&job, tier, ptxas);
            let seconds = start.elapsed().as_secs_f64();
            // Printed in one piece: another job runs at the same time.
            let mut done = lock(&done);
            println!("\n-- {} ({seconds:.1} s)", job.name());
            let (fine, lines) = ran.unwrap_or_else(|message| (false, vec![message]));
            for line in lines {
                match timed(&line) {
                    Some((seconds, test)) => {
                        done.0.push((seconds, format!("{}: {test}", name(job.binary))));
                    }
                    None => println!("{line}"),
                }
            }
            done.0.push((seconds, format!("{} (together)", job.name())));
            if !fine {
                done.1.push(job.name());
            }
        }
    };
    std::thread::scope(|scope| {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        for _ in 0..cores {
            scope.spawn(work);
        }
    });
    done.into_inner().unwrap_or_else(PoisonError::into_inner)
}

fn name(binary: &Executable) -> String {
    format!("{}/{}", binary.package, binary.name)
}

/// Runs one job where cargo would; whether it passed, and what it printed.
fn run_job(job: &Job<'_>, tier: Tier, ptxas: Option<&Path>) -> Result<(bool, Vec<String>), String> {
    let binary = job.binary;
    let own_harness = OWN_HARNESS.contains(&binary.name.as_str());
    let mut command = Command::new(&binary.path);
    command.current_dir(&binary.folder).arg("--test-threads=1");
    command.args(job.only.map(|module| format!("{module}::")));
    for module in &job.skipped {
        command.args(["--skip".to_owned(), format!("{module}::")]);
    }
    command.env("CARGO_MANIFEST_DIR", &binary.folder);
    if let Some(ptxas) = ptxas {
        command.env("PTXAS", ptxas);
    }
    if own_harness {
        // A line for each of a thousand cases that pass says nothing.
        command.args(["--format", "terse"]);
        if tier == Tier::Quick {
            command.env("POSTLUDE_BACKEND", "reference,cpu");
        }
    } else {
        command.args(["-Zunstable-options", "--report-time"]).env("RUSTC_BOOTSTRAP", "1");
    }
    let shown = binary.path.strip_prefix(root()).unwrap_or(&binary.path).display().to_string();
    let output = command.output().map_err(|error| format!("{shown}: {error}"))?;
    let text =
        [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    let lines: Vec<String> = text.iter().flat_map(|text| text.lines()).map(str::to_owned).collect();
    if job.only.is_some() && lines.iter().any(|line| line == "running 0 tests") {
        return Err(format!("{} has no tests: is the table of long parts stale?", job.name()));
    }
    Ok((output.status.success(), lines))
}

/// A test that passed, and its seconds: `test a::b ... ok <0.120s>`.
fn timed(line: &str) -> Option<(f64, &str)> {
    let (name, rest) = line.strip_prefix("test ")?.split_once(" ... ok <")?;
    let seconds = rest.strip_suffix("s>")?.parse().ok()?;
    Some((seconds, name))
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::{Executable, LONG, Tier, jobs, timed};

    fn executable(package: &str, name: &str) -> Executable {
        let (name, package) = (name.to_owned(), package.to_owned());
        Executable { name, package, path: PathBuf::new(), folder: PathBuf::new() }
    }

    #[test]
    fn every_test_belongs_to_one_job() {
        let built =
            ["all", "gpu_simulator", "gpu_kernels"].map(|name| executable("postlude", name));
        let found: Vec<_> = jobs(&built, Tier::Full)
            .iter()
            .map(|job| (job.name(), job.skipped.join(" ")))
            .collect();
        let wanted = [
            ("postlude/all simulated", ""),
            ("postlude/all resources", ""),
            ("postlude/all define", ""),
            ("postlude/gpu_simulator", ""),
            ("postlude/all", "simulated resources define"),
            ("postlude/gpu_kernels", ""),
        ];
        assert_eq!(found, wanted.map(|(job, skipped)| (job.to_owned(), skipped.to_owned())));
    }

    #[test]
    fn the_quick_tier_runs_no_long_part() {
        let built =
            ["all", "gpu_simulator", "gpu_kernels"].map(|name| executable("postlude", name));
        let names: Vec<_> = jobs(&built, Tier::Quick).iter().map(super::Job::name).collect();
        assert_eq!(names, ["postlude/all", "postlude/gpu_kernels"]);
        assert!(jobs(&built, Tier::Quick).iter().all(|job| job.order == LONG.len()));
    }

    #[test]
    fn times_of_tests_that_pass_are_read() {
        assert_eq!(timed("test a::b ... ok <1.250s>"), Some((1.25, "a::b")));
        assert_eq!(timed("test a::b ... FAILED <1.250s>"), None);
        assert_eq!(timed("test result: ok. 3 passed"), None);
    }
}
