//! `cargo xtask test`: everything a change has to pass; with `--quick`, what people at work run.

use std::time::{Duration, Instant};

use crate::command::{build_once, cargo, run};
use crate::{dependencies, harness, python_tests, readme, surface};

/// How much is run.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Tier {
    /// What fits into a few minutes.
    Quick,
    /// Everything.
    Full,
}

type Step = (&'static str, Tier, fn(Tier) -> Result<(), String>);

/// Each with the least tier that runs it, in the order in which they fail fastest.
const STEPS: &[Step] = &[
    ("formatting", Tier::Quick, |_| run(&mut cargo(&["fmt", "--all", "--check"]))),
    ("lints", Tier::Quick, |_| {
        run(&mut cargo(&["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"]))
    }),
    ("dependencies", Tier::Full, |_| dependencies::check()),
    ("documentation", Tier::Full, |_| {
        let mut command = cargo(&["doc", "--workspace", "--no-deps"]);
        run(command.env("RUSTDOCFLAGS", "-D warnings"))?;
        surface::check()
    }),
    ("features apart", Tier::Full, |_| features()),
    // Sizes of files and functions, layers and pages are tests of the library.
    ("tests", Tier::Quick, harness::run_tests),
    ("Python", Tier::Full, |_| python_tests::run_tests()),
    ("the README's commands", Tier::Full, |_| readme::run_commands()),
];

/// The library without its features, and with each of them alone.
fn features() -> Result<(), String> {
    let library = ["clippy", "-p", "postlude", "--no-default-features"];
    for features in
        [&[][..], &["--features", "cuda"], &["--features", "sim"], &["--features", "ndarray"]]
    {
        run(&mut cargo(&[&library[..], features, &["--", "-D", "warnings"]].concat()))?;
    }
    Ok(())
}

/// Runs every step of the tier, also after a failed step, and sums up.
pub(crate) fn test(tier: Tier) -> Result<(), String> {
    if tier == Tier::Full {
        build_once();
    }
    let mut ended: Vec<(&str, Duration, Result<(), String>)> = Vec::new();
    for (name, _, step) in STEPS.iter().filter(|(_, least, _)| *least <= tier) {
        println!("\n== {name}");
        let start = Instant::now();
        let result = step(tier);
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
    let total: f64 = ended.iter().map(|(_, time, _)| time.as_secs_f64()).sum();
    println!("        {total:>6.1} s  together");
    let failed = ended.iter().filter(|(_, _, result)| result.is_err()).count();
    if failed == 0 { Ok(()) } else { Err(format!("{failed} of {} steps failed", ended.len())) }
}
