//! The assembler that tests give their PTX to: `ptxas` of a pinned Python package.

use std::path::{Path, PathBuf};

use crate::command::{answer, program};
use crate::python;

/// The package and its version.
const REQUIREMENTS: &str = "xtask/ptxas.txt";

/// What `PTXAS` names, or the pinned one in `.venv`, installed if it is not there.
pub(crate) fn prepare() -> Result<PathBuf, String> {
    if let Some(named) = std::env::var_os("PTXAS") {
        return Ok(named.into());
    }
    let python = python::prepare(REQUIREMENTS)?;
    let question = "import sysconfig; print(sysconfig.get_path('purelib'))";
    let packages = answer(&mut program(&python, &["-c", question]))?;
    let name = if cfg!(windows) { "ptxas.exe" } else { "ptxas" };
    let path = Path::new(packages.trim()).join("nvidia/cu13/bin").join(name);
    if path.is_file() { Ok(path) } else { Err(format!("the package has no {name}")) }
}
