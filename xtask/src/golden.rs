//! `cargo xtask golden`: rewrites the files that pin what the compiler does, for review as a difference.

mod against;

use crate::assembler;
use crate::command::{cargo, run};

pub(crate) use against::against;

/// Packages, test programs and their modules that compare with a file, and write it where `POSTLUDE_BLESS` is 1.
const TESTS: &[(&str, &str, &str)] = &[
    ("postlude-cli", "golden", ""),
    ("postlude-cli", "command", ""),
    ("postlude", "all", "docs::"),
    ("postlude", "all", "resources::"),
    ("postlude-corpus", "all", "mutations::"),
];

/// Runs those tests with the variable set.
pub(crate) fn bless() -> Result<(), String> {
    let ptxas = assembler::prepare();
    if let Err(message) = &ptxas {
        eprintln!("NO ASSEMBLER: golden/sm90_resources.txt stays as it is: {message}");
    }
    for (package, test, module) in TESTS {
        let mut command = cargo(&["test", "--quiet", "-p", package, "--test", test, module]);
        command.env("POSTLUDE_BLESS", "1");
        if let Ok(path) = &ptxas {
            command.env("PTXAS", path);
        }
        run(&mut command)?;
    }
    println!("\nreview: git diff golden docs");
    Ok(())
}
