//! `postlude cache`: where compiled kernels are kept.
//!
//! Invariant: only files that bear Postlude's own names are counted or removed, and links are never followed.

use std::fs::{self, DirEntry};
use std::io;
use std::path::{Path, PathBuf};

use postlude::runtime::cache as kept;

use crate::arguments::{CacheAction, CacheArguments};
use crate::failure::{Failure, Mistake, Outcome};
use crate::{memory, notes, print};

/// Runs the command.
pub(crate) fn cache(arguments: &CacheArguments) -> Result<Outcome, Failure> {
    let folder = folder()?;
    match arguments.action {
        CacheAction::Path => print::text(&format!("{}\n", folder.display()))?,
        CacheAction::Size => {
            let sizes = entries(&folder)?.into_iter().map(|entry| Ok(entry.metadata()?.len()));
            let sizes: Vec<u64> =
                sizes.collect::<io::Result<_>>().map_err(|error| Mistake::io(&folder, &error))?;
            let bytes = sizes.iter().map(|size| u128::from(*size)).sum();
            print::text(&format!("{} in {}\n", memory::amount(bytes), kernels(sizes.len())))?;
        }
        CacheAction::Clear => {
            let entries = entries(&folder)?;
            for entry in &entries {
                fs::remove_file(entry.path())
                    .map_err(|error| Mistake::io(&entry.path(), &error))?;
            }
            notes::forget(&folder);
            print::text(&format!("{} removed\n", kernels(entries.len())))?;
        }
    }
    Ok(Outcome::Fine)
}

fn kernels(count: usize) -> String {
    if count == 1 { "1 kernel".to_owned() } else { format!("{count} kernels") }
}

/// Where compiled kernels are kept, as the run time says.
pub(crate) fn folder() -> Result<PathBuf, Mistake> {
    kept::folder().map_err(|error| Mistake {
        message: error.to_string(),
        details: None,
        fix: error.fix(),
    })
}

/// Our own files; none where there is no folder yet.
fn entries(folder: &Path) -> Result<Vec<DirEntry>, Mistake> {
    kept::entries(folder).map_err(|error| Mistake::io(folder, &error))
}
