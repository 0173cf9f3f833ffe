//! `cargo xtask fuzz`: the long runs of what the tests do briefly, sized for a night.

use crate::command::{cargo, run};

const PARSER_INPUTS: &str = "1000000";
const GRAPHS: &str = "20000";

/// Arbitrary bytes into the parser, random graphs through passes and the CPU, and random kernels on the CPU and through
/// the simulator. `more` goes to `postlude fuzz`: `--seed 5` draws others, `--jobs 8` uses fewer cores.
pub(crate) fn fuzz(more: &[&str]) -> Result<(), String> {
    let parser = ["test", "--release", "-p", "postlude", "--lib", "syntax::tests::robust"];
    run(cargo(&parser).env("POSTLUDE_FUZZ", PARSER_INPUTS))?;
    let graphs = ["test", "--release", "-p", "postlude", "--lib", "optimise::tests::graphs"];
    run(cargo(&graphs).env("POSTLUDE_FUZZ", GRAPHS))?;
    println!("{PARSER_INPUTS} inputs to the parser and {GRAPHS} random graphs: nothing found");
    let kernels = ["run", "--release", "-p", "postlude-cli", "--", "fuzz", "--nightly"];
    run(&mut cargo(&[&kernels[..], more].concat()))
}
