//! `cargo xtask`: prepares and calls what developers run. It holds no logic of the project itself.

#![forbid(unsafe_code)]
// It speaks to the developer.
#![allow(clippy::print_stdout, clippy::print_stderr)]
// Text is put together line by line.
#![allow(clippy::format_push_string)]

mod assembler;
mod bench;
mod command;
mod dependencies;
mod executables;
mod fuzz;
mod golden;
mod gpu;
mod harness;
mod place;
mod python;
mod python_package;
mod python_tests;
mod readme;
mod sanitizer;
mod surface;
mod test;

use std::process::ExitCode;

use test::Tier;

const HELP: &str = "\
cargo xtask COMMAND

  test         everything a change has to pass: formatting, lints, dependencies, docs, features, tests, the Python package,
               the README's commands; names the slowest tests
  test --quick formatting, lints and the tests that take no more than a few minutes together
  python       the Python package's part of it: a private Python with locked packages in .venv, the package, its tests
  golden       rewrites the golden files and the tables of the documentation, for review as a difference
  golden --against REV   prints what differs from a commit, which is built beside this one: launches, schedules, tile programs
               and PTX as text, each difference once, with the entries that have it
  bench cpu    the CPU side by side with NumPy and SciPy, two threads; results in bench/results
  gpu          packs what a machine with a GPU needs to test and time this commit: target/gpu
  fuzz         the nightly run: the CPU engine under AddressSanitizer, a million inputs to the parser, 20,000 random graphs,
               500,000 random kernels on the CPU and 20,000 in the simulator; what follows goes to `postlude fuzz --nightly`,
               such as `--seed 5 --jobs 8`
";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let result = match words.as_slice() {
        ["test"] => test::test(Tier::Full),
        ["test", "--quick"] => test::test(Tier::Quick),
        ["python"] => python_tests::run_tests(),
        ["golden"] => golden::bless(),
        ["golden", "--against", revision] => golden::against(revision),
        ["bench", "cpu"] => bench::cpu(),
        ["fuzz", more @ ..] if !more.contains(&"--help") => fuzz::fuzz(more),
        ["gpu"] => gpu::pack(),
        [.., "help" | "--help" | "-h"] | ["bench"] => {
            print!("{HELP}");
            Ok(())
        }
        _ => Err(format!("this is not a command\n\n{HELP}")),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("xtask: {message}");
            ExitCode::FAILURE
        }
    }
}
