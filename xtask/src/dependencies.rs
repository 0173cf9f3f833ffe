//! What the workspace depends on, held against `deny.toml`: licences, sources, and one version of each crate.

use crate::command::{answer, cargo, run};

const VERSION: &str = "0.20.2";

/// Runs `cargo deny`, which is installed first where it is missing.
pub(crate) fn check() -> Result<(), String> {
    let installed = answer(&mut cargo(&["deny", "--version"]));
    if !installed.is_ok_and(|text| text.contains(VERSION)) {
        let wanted = format!("cargo-deny@{VERSION}");
        // Built without optimisation: it runs for a second.
        run(&mut cargo(&["install", "--locked", "--debug", &wanted]))?;
    }
    run(&mut cargo(&["deny", "--all-features", "check", "bans", "licenses", "sources"]))
}
