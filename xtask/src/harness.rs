//! The workspace's tests: built at once, run one binary after the other, the slowest named at the end.
//!
//! Cargo would run them as well, but says no times. Binaries of Rust's own harness are asked for each test's time
//! (`--report-time`, which the pinned toolchain's harness takes where `RUSTC_BOOTSTRAP` is set).

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use serde_json::Value;

use crate::assembler;
use crate::command::{cargo, root, run};
use crate::executables::{Executable, executables};
use crate::test::Tier;

/// How many of the slowest tests are named.
const NAMED: usize = 15;

/// Test binaries that people at work leave to CI, each with its reason.
const FULL_ONLY: &[(&str, &str)] = &[
    ("simulated", "every tile, every operand load and every epilogue under every timing"),
    ("resources", "hundreds of kernels through ptxas"),
    ("zoo", "every broken kernel under every timing"),
    ("zoo_order", "the same"),
    ("zoo_lanes", "the same"),
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
    let mut slowest: Vec<Timed> = Vec::new();
    let mut failed = Vec::new();
    for binary in &built {
        let name = format!("{}/{}", binary.package, binary.name);
        if let (Tier::Quick, Some(reason)) = (tier, left_out(binary)) {
            println!("\n-- {name}: left to the full tier ({reason})");
            continue;
        }
        println!("\n-- {name}");
        let start = Instant::now();
        let fine = run_binary(binary, tier, ptxas.as_deref(), &mut slowest)?;
        slowest.push((start.elapsed().as_secs_f64(), format!("{name} (all)")));
        if !fine {
            failed.push(name);
        }
    }
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

fn left_out(binary: &Executable) -> Option<&'static str> {
    let found = FULL_ONLY.iter().find(|(name, _)| *name == binary.name);
    found.map(|(_, reason)| *reason)
}

/// Runs one binary where cargo would; its output is passed on line by line, and times are picked out of it.
fn run_binary(
    binary: &Executable,
    tier: Tier,
    ptxas: Option<&Path>,
    slowest: &mut Vec<Timed>,
) -> Result<bool, String> {
    let own_harness = OWN_HARNESS.contains(&binary.name.as_str());
    let mut command = Command::new(&binary.path);
    command.current_dir(&binary.folder).stdout(Stdio::piped());
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
    let mut child = command.spawn().map_err(|error| format!("{shown}: {error}"))?;
    let lines = BufReader::new(child.stdout.take().ok_or("no output")?).lines();
    for line in lines.map_while(Result::ok) {
        match timed(&line) {
            Some((seconds, name)) => {
                slowest.push((seconds, format!("{}/{}: {name}", binary.package, binary.name)));
            }
            None => println!("{line}"),
        }
    }
    std::io::stdout().flush().map_err(|error| error.to_string())?;
    let status = child.wait().map_err(|error| format!("{shown}: {error}"))?;
    Ok(status.success())
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
