//! The workspace's tests: built at once, run one binary on each core, the slowest named at the end.
//!
//! Cargo would run them as well, but says no times. Binaries of Rust's own harness are asked for each test's time
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

/// Test binaries that people at work leave to CI, each with its reason, the longest first.
const FULL_ONLY: &[(&str, &str)] = &[
    ("simulated", "every tile, every operand load and every epilogue in the simulator"),
    ("resources", "hundreds of kernels through ptxas"),
    ("define", "the stability of every form in high precision"),
    ("zoo_order", "every broken kernel under every timing"),
    ("kernels", "every epilogue in the simulator"),
    ("zoo_lanes", "every broken kernel under every timing"),
    ("ping_pong", "ping-pong kernels in the simulator"),
    ("transposed", "transposed tiles in the simulator"),
    ("gpu_simulator", "the simulator's tensor cores"),
    ("zoo", "every broken kernel under every timing"),
    ("limits", "the simulator's limits"),
    ("speed", "large kernels in the simulator"),
    ("forms", "every instruction through ptxas"),
    ("fuzz", "random kernels"),
    ("mutations", "corrupted outputs of the whole corpus"),
];

/// Test binaries with a harness of their own, which says no times.
const OWN_HARNESS: &[&str] = &["corpus"];

/// A test or a binary, and its seconds.
type Timed = (f64, String);

/// Builds and runs what the tier asks for; every failure is counted, none ends the run.
pub(crate) fn run_tests(tier: Tier) -> Result<(), String> {
    let built = executables(
        &["test", "--workspace", "--no-run", "--message-format=json-render-diagnostics"],
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

/// Runs the binaries, as many at a time as there are cores, each with one thread; times, and what failed.
fn run_all(built: &[Executable], tier: Tier, ptxas: Option<&Path>) -> (Vec<Timed>, Vec<String>) {
    let (mut chosen, mut left): (Vec<&Executable>, Vec<&Executable>) =
        built.iter().partition(|binary| tier == Tier::Full || left_out(binary).is_none());
    for (binary, reason) in left.drain(..).filter_map(|binary| Some((binary, left_out(binary)?))) {
        println!("-- {}: left to the full tier ({reason})", name(binary));
    }
    // The long ones first, so that none of them runs alone at the end.
    let length = |binary: &&Executable| FULL_ONLY.iter().position(|(name, _)| *name == binary.name);
    chosen.sort_by_key(|binary| length(binary).unwrap_or(FULL_ONLY.len()));
    let next = Mutex::new(chosen.into_iter());
    let done = Mutex::new((Vec::new(), Vec::new()));
    let lock = |mutex| -> MutexGuard<'_, (Vec<Timed>, Vec<String>)> {
        Mutex::lock(mutex).unwrap_or_else(PoisonError::into_inner)
    };
    let work = || {
        loop {
            let taken = next.lock().unwrap_or_else(PoisonError::into_inner).next();
            let Some(binary) = taken else { return };
            let start = Instant::now();
            let ran = run_binary(binary, tier, ptxas);
            let seconds = start.elapsed().as_secs_f64();
            // Printed in one piece: another binary runs at the same time.
            let mut done = lock(&done);
            println!("\n-- {} ({seconds:.1} s)", name(binary));
            let (fine, lines) = ran.unwrap_or_else(|message| (false, vec![message]));
            for line in lines {
                match timed(&line) {
                    Some((seconds, test)) => {
                        done.0.push((seconds, format!("{}: {test}", name(binary))));
                    }
                    None => println!("{line}"),
                }
            }
            done.0.push((seconds, format!("{} (all)", name(binary))));
            if !fine {
                done.1.push(name(binary));
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

fn left_out(binary: &Executable) -> Option<&'static str> {
    let found = FULL_ONLY.iter().find(|(name, _)| *name == binary.name);
    found.map(|(_, reason)| *reason)
}

/// Runs one binary where cargo would; whether it passed, and what it printed.
fn run_binary(
    binary: &Executable,
    tier: Tier,
    ptxas: Option<&Path>,
) -> Result<(bool, Vec<String>), String> {
    let own_harness = OWN_HARNESS.contains(&binary.name.as_str());
    let mut command = Command::new(&binary.path);
    command.current_dir(&binary.folder).arg("--test-threads=1");
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
    let lines = text.iter().flat_map(|text| text.lines()).map(str::to_owned).collect();
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
    use super::timed;

    #[test]
    fn times_of_tests_that_pass_are_read() {
        assert_eq!(timed("test a::b ... ok <1.250s>"), Some((1.25, "a::b")));
        assert_eq!(timed("test a::b ... FAILED <1.250s>"), None);
        assert_eq!(timed("test result: ok. 3 passed"), None);
    }
}
