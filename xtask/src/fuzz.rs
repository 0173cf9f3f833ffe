//! `cargo xtask fuzz`: the long runs of what the tests do briefly.

use crate::command::{cargo, run};

const PARSER_INPUTS: &str = "1000000";
const GRAPHS: &str = "20000";

/// Arbitrary bytes into the parser, then random graphs through every engine.
pub(crate) fn fuzz() -> Result<(), String> {
    let parser = ["test", "--release", "-p", "postlude", "--lib", "syntax::tests::robust"];
    run(cargo(&parser).env("POSTLUDE_FUZZ", PARSER_INPUTS))?;
    let graphs = ["test", "--release", "-p", "postlude", "--test", "graphs"];
    run(cargo(&graphs).env("POSTLUDE_FUZZ", GRAPHS))?;
    println!("{PARSER_INPUTS} inputs to the parser and {GRAPHS} random graphs: nothing found");
    Ok(())
}
