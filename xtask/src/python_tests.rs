//! The Python package's tests: a private Python with locked packages, the package as a wheel of this commit, pytest.
//!
//! In: cargo, and a `python3` of version 3.10 or later with `venv`. PyTorch's tests run where the private Python has
//! PyTorch, and say that they were skipped elsewhere.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::command::{answer, program, root, run};
use crate::executables::executables;
use crate::python;

const REQUIREMENTS: &str = "crates/postlude-py/requirements.txt";
const MANIFEST: &str = "crates/postlude-py/Cargo.toml";
const TESTS: &str = "crates/postlude-py/tests";
/// Where the wheel is built; it holds nothing else.
const WHEELS: &str = "target/wheels";

/// Builds the package as tests are built, installs it into the private Python and runs its tests.
pub(crate) fn run_tests() -> Result<(), String> {
    is_recent("python3")?;
    let python = python::prepare(REQUIREMENTS)?;
    is_recent(&python)?;
    let wheel = build(&python)?;
    let install = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps"];
    let wheel = wheel.to_string_lossy();
    run(&mut program(&python, &[&install[..], &["--force-reinstall", &wheel]].concat()))?;
    // Results are compared with the command's.
    let command = executables(
        &["build", "-p", "postlude-cli", "--message-format=json-render-diagnostics"],
        &[],
        |message: &Value| message["target"]["name"] == "postlude",
    )?;
    let mut tests = program(&python, &["-m", "pytest", "--quiet", TESTS]);
    for built in &command {
        tests.env("POSTLUDE", &built.path);
    }
    run(&mut tests)
}

/// A wheel in the profile of `cargo run` and `cargo test`, so that only the package itself is compiled once more.
fn build(python: &Path) -> Result<PathBuf, String> {
    let folder = root().join(WHEELS);
    // Wheels of earlier versions must not be found.
    match fs::remove_dir_all(&folder) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            return Err(format!("{WHEELS}: {error}"));
        }
        Ok(()) | Err(_) => {}
    }
    let interpreter = python.to_string_lossy();
    let arguments = [
        ["-m", "maturin", "build", "--quiet", "--profile", "dev", "--auditwheel", "skip"]
            .as_slice(),
        &["--manifest-path", MANIFEST, "--out", WHEELS, "--interpreter", &interpreter],
    ];
    run(&mut program(python, &arguments.concat()))?;
    let failed = |error: std::io::Error| format!("{WHEELS}: {error}");
    for entry in fs::read_dir(&folder).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        if path.extension().is_some_and(|extension| extension == "whl") {
            return Ok(path);
        }
    }
    Err(format!("{WHEELS}: no wheel was built"))
}

/// Says what is missing where Python is too old for the package.
fn is_recent(python: impl AsRef<std::ffi::OsStr>) -> Result<(), String> {
    let question = "import sys; print(sys.version_info >= (3, 10), sys.version.split()[0])";
    let told = answer(&mut program(python, &["-c", question]))?;
    match told.trim().split_once(' ') {
        Some(("True", _)) => Ok(()),
        Some((_, version)) => Err(format!(
            "the Python package needs Python 3.10 or later, this is {version}; \
             put a later `python3` first on the path and remove .venv"
        )),
        None => Err(format!("python3 answered `{told}`")),
    }
}
