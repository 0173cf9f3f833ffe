//! `postlude cache`: where compiled kernels are kept.
//!
//! Invariant: only files that bear Postlude's own names are counted or removed, and links are never followed.

use std::fs::{self, DirEntry};
use std::io;
use std::path::{Path, PathBuf};

use etcetera::BaseStrategy;

use crate::arguments::{CacheAction, CacheArguments};
use crate::failure::{Failure, Mistake, Outcome};
use crate::{memory, print};

/// How the names of cached files end; what stands before is a hash of 64 hexadecimal digits.
const ENDING: &str = ".postlude-kernel";
const HASH_DIGITS: usize = 64;

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
            print::text(&format!("{} removed\n", kernels(entries.len())))?;
        }
    }
    Ok(Outcome::Fine)
}

fn kernels(count: usize) -> String {
    if count == 1 { "1 kernel".to_owned() } else { format!("{count} kernels") }
}

/// Where compiled kernels are kept; `POSTLUDE_CACHE_DIR` overrides the system's habit.
pub(crate) fn folder() -> Result<PathBuf, Mistake> {
    if let Some(folder) = std::env::var_os("POSTLUDE_CACHE_DIR").filter(|folder| !folder.is_empty())
    {
        return Ok(PathBuf::from(folder));
    }
    match etcetera::choose_base_strategy() {
        Ok(strategy) => Ok(strategy.cache_dir().join("postlude")),
        Err(_) => Err(Mistake::new("this user has no home folder to keep a cache in")
            .fix("set POSTLUDE_CACHE_DIR to a folder")),
    }
}

/// Our own files; none where there is no folder yet.
fn entries(folder: &Path) -> Result<Vec<DirEntry>, Mistake> {
    let all = match fs::read_dir(folder) {
        Ok(all) => all,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(Mistake::io(folder, &error)),
    };
    let all: Vec<DirEntry> =
        all.collect::<io::Result<_>>().map_err(|error| Mistake::io(folder, &error))?;
    Ok(all.into_iter().filter(is_ours).collect())
}

fn is_ours(entry: &DirEntry) -> bool {
    // The type of a link is a link.
    let is_file = entry.file_type().is_ok_and(|kind| kind.is_file());
    is_file && entry.file_name().to_str().is_some_and(is_our_name)
}

fn is_our_name(name: &str) -> bool {
    let hash = name.strip_suffix(ENDING).unwrap_or_default();
    hash.len() == HASH_DIGITS && hash.bytes().all(|digit| digit.is_ascii_hexdigit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_our_names_are_ours() {
        assert!(is_our_name(&format!("{}{ENDING}", "0af".repeat(21) + "1")));
        for name in ["notes.txt", ENDING, "abc.postlude-kernel", ".bashrc"] {
            assert!(!is_our_name(name), "{name}");
        }
    }
}
