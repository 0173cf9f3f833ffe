//! Temporary files that an interruption must not leave behind.
//!
//! In: the making of a temporary file. Out: the file, known here until the process ends. When the process is interrupted,
//! every one that has not been renamed is removed.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process;
use std::sync::{Mutex, Once, PoisonError};

use tempfile::NamedTempFile;

use crate::failure::INTERRUPTED;

static FILES: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());
static WATCH: Once = Once::new();

/// Makes a file that is removed if the process is interrupted before it is renamed.
pub(super) fn make(
    create: impl FnOnce() -> io::Result<NamedTempFile>,
) -> io::Result<NamedTempFile> {
    WATCH.call_once(|| {
        // Without a handler an interruption leaves the file: no reason not to write it.
        let _ = ctrlc::set_handler(|| {
            // Held to the end: no file is made after the last is removed.
            let files = FILES.lock().unwrap_or_else(PoisonError::into_inner);
            for file in files.iter() {
                let _ = fs::remove_file(file);
            }
            process::exit(i32::from(INTERRUPTED));
        });
    });
    // Held while the file is made: it is known as soon as it exists.
    let mut files = FILES.lock().unwrap_or_else(PoisonError::into_inner);
    let file = create()?;
    files.push(file.path().to_owned());
    Ok(file)
}

/// Puts a file in its place, unless the process is being interrupted.
pub(super) fn place(file: NamedTempFile, path: &Path) -> io::Result<()> {
    let _files = FILES.lock().unwrap_or_else(PoisonError::into_inner);
    file.persist(path).map(drop).map_err(|error| error.error)
}
