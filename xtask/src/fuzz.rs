//! `cargo xtask fuzz`: the long runs of what the tests do briefly.

use crate::command::{cargo, run};

const PARSER_INPUTS: &str = "1000000";
const GRAPHS: &str = "20000";
/// What the tests run of random kernels, that many times over.
const KERNELS: &str = "20";

/// Arbitrary bytes into the parser, random graphs through passes and the CPU, and random kernels through the simulator
/// and the CPU.
pub(crate) fn fuzz() -> Result<(), String> {
    let parser = ["test", "--release", "-p", "postlude", "--lib", "syntax::tests::robust"];
    run(cargo(&parser).env("POSTLUDE_FUZZ", PARSER_INPUTS))?;
    let graphs = ["test", "--release", "-p", "postlude", "--test", "graphs"];
    run(cargo(&graphs).env("POSTLUDE_FUZZ", GRAPHS))?;
    let kernels = ["test", "--release", "-p", "postlude-corpus", "--test", "fuzz"];
    run(cargo(&kernels).env("POSTLUDE_FUZZ", KERNELS))?;
    println!(
        "{PARSER_INPUTS} inputs to the parser, {GRAPHS} random graphs and {KERNELS} times the tests' random kernels: nothing found"
    );
    Ok(())
}
