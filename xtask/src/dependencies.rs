//! What the workspace depends on, held against `deny.toml`: licences, sources, and one version of each crate.

use crate::command::{answer, cargo, run};

const VERSION: &str = "0.20.2";

/// Runs `cargo deny` where it is installed, and says loudly where it is not: building it takes longer than all tests.
pub(crate) fn check() -> Result<(), String> {
    if answer(&mut cargo(&["deny", "--version"])).is_err() {
        eprintln!(
            "NO CARGO DENY: dependencies are not checked; `cargo install --locked cargo-deny@{VERSION}` installs it"
        );
        return Ok(());
    }
    run(&mut cargo(&["deny", "--all-features", "check", "bans", "licenses", "sources"]))
}
