//! Where compiled kernels are kept, and who may write there.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use etcetera::BaseStrategy;

use crate::runtime::error::RuntimeError;

/// Where compiled kernels are kept; `POSTLUDE_CACHE_DIR` overrides the system's habit.
pub fn folder() -> Result<PathBuf, RuntimeError> {
    if let Some(folder) = std::env::var_os("POSTLUDE_CACHE_DIR").filter(|folder| !folder.is_empty())
    {
        return Ok(PathBuf::from(folder));
    }
    match etcetera::choose_base_strategy() {
        Ok(strategy) => Ok(strategy.cache_dir().join("postlude")),
        Err(_) => Err(RuntimeError::NoCacheFolder),
    }
}

/// Makes the folder for the user alone, where there is none.
pub(super) fn create_private(folder: &Path) -> io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(folder)
}

/// Refuses a folder that others own or may write to: they could put their code into it.
pub(super) fn check_private(folder: &Path) -> io::Result<()> {
    let found = fs::metadata(folder)?;
    #[cfg(unix)]
    if std::os::unix::fs::PermissionsExt::mode(&found.permissions()) & 0o022 != 0 {
        return Err(io::Error::new(
            io::ErrorKind::PermissionDenied,
            "others may write to this folder",
        ));
    }
    #[cfg(target_os = "linux")]
    if fs::metadata("/proc/self").is_ok_and(|own| {
        std::os::unix::fs::MetadataExt::uid(&own) != std::os::unix::fs::MetadataExt::uid(&found)
    }) {
        return Err(io::Error::new(
            io::ErrorKind::PermissionDenied,
            "this folder belongs to someone else",
        ));
    }
    if found.is_dir() { Ok(()) } else { Err(io::ErrorKind::NotADirectory.into()) }
}
