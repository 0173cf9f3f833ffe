//! Notes about the machine, each told once.
//!
//! In: a note. Out: whether it is new. What was told is kept in the cache's folder; where that cannot be written, a note is
//! told every time.

use std::fs::{self, DirBuilder};
use std::io::{self, Write};
use std::path::Path;

use tempfile::NamedTempFile;

use crate::cache;

/// The file that holds the last note.
const FILE: &str = "told.postlude-note";

/// Whether a note differs from the last one, which it becomes.
pub(crate) fn is_new(note: &str) -> bool {
    let Ok(folder) = cache::folder() else { return true };
    if fs::read(folder.join(FILE)).is_ok_and(|told| told == note.as_bytes()) {
        return false;
    }
    // Told again next time where it cannot be kept.
    let _ = keep(&folder, note);
    true
}

/// Forgets what was told.
pub(crate) fn forget(folder: &Path) {
    // Nothing to forget where there is no such file.
    let _ = fs::remove_file(folder.join(FILE));
}

fn keep(folder: &Path, note: &str) -> io::Result<()> {
    let mut builder = DirBuilder::new();
    builder.recursive(true);
    // The folder holds compiled code, and is the user's alone.
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(folder)?;
    let mut file = NamedTempFile::new_in(folder)?;
    file.write_all(note.as_bytes())?;
    file.persist(folder.join(FILE)).map(drop).map_err(|error| error.error)
}
