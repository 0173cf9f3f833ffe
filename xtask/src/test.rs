//! `cargo xtask test`: everything a change has to pass.

use std::time::{Duration, Instant};

use crate::assembler;
use crate::command::{cargo, run};
use crate::readme;

type Step = (&'static str, fn() -> Result<(), String>);

/// In the order in which they fail fastest.
const STEPS: &[Step] = &[
    ("formatting", || run(&mut cargo(&["fmt", "--all", "--check"]))),
    ("lints", || {
        run(&mut cargo(&["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"]))
    }),
    ("documentation", || {
        let mut command = cargo(&["doc", "--workspace", "--no-deps"]);
        run(command.env("RUSTDOCFLAGS", "-D warnings"))
    }),
    // Sizes of files and functions, layers and pages are tests of the library.
    ("tests", tests),
    ("the README's commands", readme::run_commands),
];

/// With an assembler where one can be had: tests that need it say when they are skipped.
fn tests() -> Result<(), String> {
    let mut command = cargo(&["test", "--workspace", "--no-fail-fast"]);
    match assembler::prepare() {
        Ok(path) => {
            command.env("PTXAS", path);
        }
        Err(message) => eprintln!("NO ASSEMBLER: PTX will not be assembled: {message}"),
    }
    run(&mut command)
}

/// Runs every step, whatever became of those before, and sums up.
pub(crate) fn test() -> Result<(), String> {
    let mut ended: Vec<(&str, Duration, Result<(), String>)> = Vec::new();
    for (name, step) in STEPS {
        println!("\n== {name}");
        let start = Instant::now();
        let result = step();
        if let Err(message) = &result {
            eprintln!("{message}");
        }
        ended.push((name, start.elapsed(), result));
    }
    println!("\n== summary");
    for (name, time, result) in &ended {
        let state = if result.is_ok() { "ok    " } else { "FAILED" };
        println!("{state}  {:>6.1} s  {name}", time.as_secs_f64());
    }
    let failed = ended.iter().filter(|(_, _, result)| result.is_err()).count();
    if failed == 0 { Ok(()) } else { Err(format!("{failed} of {} steps failed", ended.len())) }
}
