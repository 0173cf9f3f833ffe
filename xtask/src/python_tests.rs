//! The Python package's tests: a private Python with locked packages, the package of this commit, pytest.
//!
//! In: cargo, and a `python3` of version 3.10 or later with `venv`. PyTorch's tests run where the private Python has
//! PyTorch, and say that they were skipped elsewhere. The native half is built together with the command, whose results it
//! is compared with: cargo shares what both are made of, as a wheel's own build would not.

use std::path::Path;

use crate::command::{answer, program, root, run};
use crate::executables::files;
use crate::place::remove;
use crate::python;
use crate::python_package::{NATIVE, PACKAGE, TESTS, lay_out};

const REQUIREMENTS: &str = "crates/postlude-py/requirements.txt";
const MANIFEST: &str = "crates/postlude-py/Cargo.toml";
/// Where the package is put together.
const FOLDER: &str = "target/python";

/// Builds the package as tests are built and runs its tests.
pub(crate) fn run_tests() -> Result<(), String> {
    is_recent("python3")?;
    let python = python::prepare(REQUIREMENTS)?;
    is_recent(&python)?;
    let build = ["build", "-p", "postlude-cli", "-p", PACKAGE, "--lib", "--bin", "postlude"];
    let format = ["--message-format=json-render-diagnostics"];
    let [native, command] = files(&[&build[..], &format].concat(), [NATIVE, "postlude"])?;
    let folder = root().join(FOLDER);
    remove(&folder)?;
    lay_out(&native, &folder)?;
    is_packaged(&python, &folder)?;
    let mut tests = program(&python, &["-m", "pytest", "--quiet", TESTS]);
    run(tests.env("PYTHONPATH", &folder).env("POSTLUDE", &command))
}

/// What `pip install` would be told of the package; a project file that is wrong fails here.
fn is_packaged(python: &Path, folder: &Path) -> Result<(), String> {
    let interpreter = python.to_string_lossy();
    let described = folder.to_string_lossy();
    let arguments = ["-m", "maturin", "pep517", "write-dist-info", "--manifest-path", MANIFEST];
    let places = ["--interpreter", &interpreter, "--metadata-directory", &described];
    answer(&mut program(python, &[&arguments[..], &places].concat())).map(|_| ())
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
