//! Puts files into the folders that are carried or tested.

use std::fs;
use std::path::Path;

use crate::command::{program, run};

/// Makes a folder, and those that it lies in.
pub(crate) fn create(folder: &Path) -> Result<(), String> {
    fs::create_dir_all(folder).map_err(|error| io_error(folder, &error))
}

/// Removes a folder with what earlier runs left in it.
pub(crate) fn remove(folder: &Path) -> Result<(), String> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(io_error(folder, &error)),
        Ok(()) | Err(_) => Ok(()),
    }
}

/// Copies a file.
pub(crate) fn copy(from: &Path, to: &Path) -> Result<(), String> {
    fs::copy(from, to).map(|_| ()).map_err(|error| io_error(from, &error))
}

/// Copies a program without what only debuggers read, where there is something to take it out with.
pub(crate) fn place_program(from: &Path, to: &Path) -> Result<(), String> {
    copy(from, to)?;
    if let Err(message) = run(program("strip", &[]).arg(to)) {
        println!("not stripped: {message}");
    }
    Ok(())
}

/// Copies a folder's Python files, and none that a build or a run left there.
pub(crate) fn copy_sources(from: &Path, to: &Path) -> Result<(), String> {
    create(to)?;
    for entry in fs::read_dir(from).map_err(|error| io_error(from, &error))? {
        let path = entry.map_err(|error| io_error(from, &error))?.path();
        let kind = path.extension().and_then(|extension| extension.to_str());
        if let (Some("py" | "pyi" | "typed"), Some(name)) = (kind, path.file_name()) {
            copy(&path, &to.join(name))?;
        }
    }
    Ok(())
}

/// An error of a file, with its name.
pub(crate) fn io_error(path: &Path, error: &std::io::Error) -> String {
    format!("{}: {error}", path.display())
}
