//! Calls other programs from the repository's root.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};

/// The repository.
pub(crate) fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().unwrap_or(here).to_owned()
}

/// Whether what is built now is not built again soon.
static BUILDS_ONCE: AtomicBool = AtomicBool::new(false);

/// From here on no state of incremental builds is kept: writing it takes time.
pub(crate) fn build_once() {
    BUILDS_ONCE.store(true, Ordering::Relaxed);
}

/// A program, to be started in the root.
pub(crate) fn program(name: impl AsRef<std::ffi::OsStr>, arguments: &[&str]) -> Command {
    let mut command = Command::new(name);
    command.args(arguments).current_dir(root());
    if BUILDS_ONCE.load(Ordering::Relaxed) {
        command.env("CARGO_INCREMENTAL", "0");
    }
    command
}

/// The cargo that called us.
pub(crate) fn cargo(arguments: &[&str]) -> Command {
    program(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()), arguments)
}

/// Runs to the end; what it prints is seen.
pub(crate) fn run(command: &mut Command) -> Result<(), String> {
    let shown = show(command);
    println!("$ {shown}");
    let status = command.status().map_err(|error| format!("{shown}: {error}"))?;
    if status.success() { Ok(()) } else { Err(format!("{shown}: {status}")) }
}

/// Runs to the end; what it prints is the answer.
pub(crate) fn answer(command: &mut Command) -> Result<String, String> {
    let shown = show(command);
    let output = command.output().map_err(|error| format!("{shown}: {error}"))?;
    if output.status.success() {
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    } else {
        Err(format!("{shown}: {}\n{}", output.status, String::from_utf8_lossy(&output.stderr)))
    }
}

fn show(command: &Command) -> String {
    let program = Path::new(command.get_program()).file_name().unwrap_or(command.get_program());
    let words = std::iter::once(program).chain(command.get_args());
    words.map(|word| word.to_string_lossy().into_owned()).collect::<Vec<_>>().join(" ")
}
