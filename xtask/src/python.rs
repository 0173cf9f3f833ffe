//! A private Python beside the sources, with pinned packages.

use std::path::PathBuf;

use crate::command::{program, root, run};

/// The Python of `.venv`, made if there is none, with the packages of a requirements file.
pub(crate) fn prepare(requirements: &str) -> Result<PathBuf, String> {
    let folder = root().join(".venv");
    let python = folder.join(if cfg!(windows) { "Scripts/python.exe" } else { "bin/python" });
    if !python.exists() {
        run(&mut program("python3", &["-m", "venv", ".venv"]))?;
    }
    let quiet = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check"];
    run(&mut program(&python, &[&quiet[..], &["-r", requirements]].concat()))?;
    Ok(python)
}
