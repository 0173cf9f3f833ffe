//! Compiled kernels on disk, so that the next process does not compile them again.
//!
//! In: a [`Key`] of everything that decides the code. Out: the cubin and its log, whole and unchanged, or nothing.
//! Invariant: the cache never decides whether a run works. A missing, read-only, full, foreign or damaged folder or file
//! means that the kernel is compiled; what is damaged is replaced.
//!
//! Files are written beside their place and renamed into it, so that readers and other writers never see a part. The
//! folder is made for the user alone, and not used if others may write to it: its files are code.

mod entry;
mod folder;

use std::fs::{self, DirEntry, File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

pub(crate) use entry::{decode, encode};
pub use folder::folder;

use crate::runtime::compile::Cubin;

/// How the names of cached files end; what stands before is a hash of [`HASH_DIGITS`] hexadecimal digits.
pub const ENDING: &str = ".postlude-kernel";
/// The hexadecimal digits of a cached file's name.
pub const HASH_DIGITS: usize = 64;
/// How the names of files end that are being written, or were when their process died.
const PARTIAL_ENDING: &str = ".postlude-partial";
/// A file that is still being written after this long belongs to a process that died.
const ABANDONED: Duration = Duration::from_hours(1);
/// A file's time of use is written down when it is this old.
const STALE: Duration = Duration::from_hours(1);
/// What the cache may hold.
const LIMIT: u64 = 1 << 30;
/// No cubin is as large as this.
const LARGEST: u64 = 256 << 20;

/// What decides a kernel's code, hashed.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Key([u8; 32]);

impl Key {
    /// A key of these parts, in order.
    pub fn of(parts: &[&str]) -> Key {
        let mut hasher = blake3::Hasher::new();
        for part in parts {
            // With its length, so that moving a byte from one part to the next gives another key.
            hasher.update(&(part.len() as u64).to_le_bytes());
            hasher.update(part.as_bytes());
        }
        Key(*hasher.finalize().as_bytes())
    }

    /// The name of its file.
    pub fn file_name(&self) -> String {
        format!("{}{ENDING}", blake3::Hash::from_bytes(self.0).to_hex())
    }
}

/// A folder of compiled kernels, or none.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DiskCache {
    folder: Option<PathBuf>,
    limit: u64,
}

impl DiskCache {
    /// The user's own, where [`folder`] says; none where the user has no home.
    pub fn standard() -> DiskCache {
        DiskCache { folder: folder().ok(), limit: LIMIT }
    }

    /// One in this folder.
    pub fn at(folder: impl Into<PathBuf>) -> DiskCache {
        DiskCache { folder: Some(folder.into()), limit: LIMIT }
    }

    /// None: everything is compiled.
    pub fn none() -> DiskCache {
        DiskCache { folder: None, limit: LIMIT }
    }

    /// The same with room for this many bytes; what was not used for longest goes first.
    pub fn with_limit(self, limit: u64) -> DiskCache {
        DiskCache { limit, ..self }
    }

    /// What was kept under a key; nothing if it is not there, damaged, or not to be trusted.
    pub(crate) fn read(&self, key: &Key) -> Option<Cubin> {
        let folder = self.folder.as_deref()?;
        folder::check_private(folder).ok()?;
        let path = folder.join(key.file_name());
        // A link may lead anywhere; ours are never links.
        let found = fs::symlink_metadata(&path).ok()?;
        if !found.is_file() || found.len() > LARGEST {
            return None;
        }
        let mut file = File::open(&path).ok()?;
        let mut bytes = Vec::with_capacity(found.len() as usize);
        (&mut file).take(LARGEST).read_to_end(&mut bytes).ok()?;
        let cubin = decode(key.0, &bytes)?;
        let now = SystemTime::now();
        if found.modified().is_ok_and(|then| age(then, now) > STALE) {
            // A cache that is only read keeps its old times.
            file.set_modified(now).ok();
        }
        Some(cubin)
    }

    /// Keeps a compiled kernel. The error is for those who want to know; a run goes on without.
    pub(crate) fn write(&self, key: &Key, cubin: &Cubin) -> io::Result<()> {
        let Some(folder) = self.folder.as_deref() else { return Ok(()) };
        folder::create_private(folder)?;
        folder::check_private(folder)?;
        let name = key.file_name();
        let partial = folder.join(partial_name(&name));
        let written = write_new(&partial, &encode(key.0, cubin))
            .and_then(|()| fs::rename(&partial, folder.join(&name)));
        if written.is_err() {
            fs::remove_file(&partial).ok();
        }
        written?;
        self.evict(folder)
    }

    /// Removes what was abandoned, and what was not used for longest until the rest fits.
    fn evict(&self, folder: &Path) -> io::Result<()> {
        let now = SystemTime::now();
        for entry in fs::read_dir(folder)?.flatten().filter(is_abandoned(now)) {
            fs::remove_file(entry.path()).ok();
        }
        let mut files: Vec<(SystemTime, u64, PathBuf)> = entries(folder)?
            .into_iter()
            .filter_map(|entry| {
                let found = entry.metadata().ok()?;
                Some((found.modified().ok()?, found.len(), entry.path()))
            })
            .collect();
        let mut total: u64 = files.iter().map(|(_, size, _)| size).sum();
        if total <= self.limit {
            return Ok(());
        }
        files.sort();
        for (_, size, path) in files {
            // A tenth below, so that the next kernels find room.
            if total <= self.limit / 10 * 9 {
                break;
            }
            if fs::remove_file(path).is_ok() {
                total -= size;
            }
        }
        Ok(())
    }
}

/// The cached kernels of a folder, and none of its other files; none where there is no folder yet.
pub fn entries(folder: &Path) -> io::Result<Vec<DirEntry>> {
    match fs::read_dir(folder) {
        Ok(all) => Ok(all.collect::<io::Result<Vec<_>>>()?.into_iter().filter(is_ours).collect()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(error),
    }
}

/// Whether a file's name is one that a cached kernel has.
///
/// ```
/// use postlude::runtime::cache::{Key, is_kernel_name};
/// assert!(is_kernel_name(&Key::of(&["text", "sm_90a"]).file_name()));
/// assert!(!is_kernel_name("notes.txt"));
/// ```
pub fn is_kernel_name(name: &str) -> bool {
    let hash = name.strip_suffix(ENDING).unwrap_or_default();
    hash.len() == HASH_DIGITS && hash.bytes().all(|digit| digit.is_ascii_hexdigit())
}

fn is_ours(entry: &DirEntry) -> bool {
    // The type of a link is a link.
    let is_file = entry.file_type().is_ok_and(|kind| kind.is_file());
    is_file && entry.file_name().to_str().is_some_and(is_kernel_name)
}

fn is_abandoned(now: SystemTime) -> impl Fn(&DirEntry) -> bool {
    move |entry| {
        let ours = entry.file_name().to_str().is_some_and(|name| name.ends_with(PARTIAL_ENDING));
        let found = entry.metadata().and_then(|found| found.modified());
        ours && found.is_ok_and(|then| age(then, now) > ABANDONED)
    }
}

fn age(then: SystemTime, now: SystemTime) -> Duration {
    now.duration_since(then).unwrap_or_default()
}

/// A name that no other writer has: not of another process, not of another thread.
fn partial_name(name: &str) -> String {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    let time = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    format!("{name}.{}.{}.{count}{PARTIAL_ENDING}", std::process::id(), time.as_nanos())
}

/// Writes a file that is not there yet and that only the user may read.
fn write_new(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)?.write_all(bytes)
}

#[cfg(test)]
mod tests;
