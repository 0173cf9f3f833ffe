//! `cargo xtask fuzz`: the long runs of what the tests do briefly, sized for a night.

use crate::command::{cargo, run};
use crate::sanitizer;

const PARSER_INPUTS: &str = "1000000";
const GRAPHS: &str = "20000";
/// Nests of functions whose meaning is held against their text, by engine.
const NESTS: [(&str, &str); 3] = [("reference", "100000"), ("cpu", "20000"), ("sim", "20000")];

/// The CPU engine under AddressSanitizer, arbitrary bytes into the parser, random graphs through passes and the CPU, nests of functions against exact values, and
/// random kernels on the CPU and through the simulator. `more` goes to `postlude fuzz`: `--seed 5` draws others, `--jobs 8` uses fewer cores.
pub(crate) fn fuzz(more: &[&str]) -> Result<(), String> {
    sanitizer::run_sanitized()?;
    let parser = ["test", "--release", "-p", "postlude", "--lib", "syntax::tests::robust"];
    run(cargo(&parser).env("POSTLUDE_FUZZ", PARSER_INPUTS))?;
    let graphs = ["test", "--release", "-p", "postlude", "--lib", "optimise::tests::graphs"];
    run(cargo(&graphs).env("POSTLUDE_FUZZ", GRAPHS))?;
    println!("{PARSER_INPUTS} inputs to the parser and {GRAPHS} random graphs: nothing found");
    for (backend, count) in NESTS {
        let nests = ["test", "--release", "-p", "postlude", "--test", "all", "define::nests"];
        run(cargo(&nests).env("POSTLUDE_FUZZ", count).env("POSTLUDE_BACKEND", backend))?;
        println!("{count} nests of functions on {backend}: none is worse than its text");
    }
    let kernels = ["run", "--release", "-p", "postlude-cli", "--", "fuzz", "--nightly"];
    run(&mut cargo(&[&kernels[..], more].concat()))
}
