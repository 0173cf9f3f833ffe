//! Writes outputs.
//!
//! In: the names and files of `--out`. Out: files that are whole or not there: everything is written to temporary files in
//! the same folders, then renamed.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use postlude::graph::ResultOf;
use postlude::{DType, Kernel, Tensor};
use tempfile::NamedTempFile;

use super::{Format, npy, safetensors, unfinished};
use crate::arguments::Pair;
use crate::bindings::require_output;
use crate::failure::Mistake;

/// Bytes written at a time: a file cannot be removed while one write to it lasts.
const PIECE: usize = 16 << 20;

/// The files that outputs go to.
#[derive(Debug, Default)]
pub(crate) struct Targets {
    files: BTreeMap<PathBuf, Target>,
}

#[derive(Debug)]
struct Target {
    format: Format,
    names: Vec<String>,
}

impl Targets {
    /// Refuses what could not be written, before any work is done.
    pub(crate) fn plan(
        kernel: &Kernel,
        kept: &[ResultOf<'_>],
        wanted: &[Pair<PathBuf>],
    ) -> Result<Targets, Mistake> {
        let mut targets = Targets::default();
        for Pair { name, value: path } in wanted {
            require_output(kernel, name)?;
            let output = kept.iter().find(|output| output.name == name).ok_or_else(|| {
                Mistake::new(format!("`{name}` is to be written, but `--only` leaves it out"))
            })?;
            targets.add(name, output.dtype, path)?;
        }
        Ok(targets)
    }

    /// One more, unless it could not be written.
    pub(crate) fn add(&mut self, name: &str, dtype: DType, path: &Path) -> Result<(), Mistake> {
        if self.files.values().any(|target| target.names.iter().any(|other| other == name)) {
            return Err(Mistake::new(format!("`{name}` is written twice")));
        }
        let format = Format::of(path)?;
        if matches!(format, Format::Index | Format::Npz) {
            let mistake = Mistake::file(path, "files of this format are read, not written");
            return Err(mistake.fix("use a name ending in `.safetensors` or `.npy`"));
        }
        if format == Format::Npy && npy::descr(dtype).is_none() {
            let what = format!("npy files cannot hold `{name}`, which is {dtype}");
            return Err(Mistake::file(path, what).fix("write a `.safetensors` file"));
        }
        let path = resolve(path)?;
        let target = self.files.entry(path.clone()).or_insert(Target { format, names: Vec::new() });
        if format == Format::Npy && !target.names.is_empty() {
            let what = format!("`{}` is written here too", target.names[0]);
            return Err(
                Mistake::file(&path, what).fix("a `.safetensors` file holds several outputs")
            );
        }
        target.names.push(name.to_owned());
        require_writable(&path)
    }

    /// Writes every file, then puts each in its place.
    pub(crate) fn write(&self, outputs: &[(String, Tensor)]) -> Result<(), Mistake> {
        let mut written = Vec::new();
        for (path, target) in &self.files {
            let tensors: Vec<(&str, &Tensor)> = target
                .names
                .iter()
                .filter_map(|name| outputs.iter().find(|output| output.0 == *name))
                .map(|(name, tensor)| (name.as_str(), tensor))
                .collect();
            let file = write_file(path, target.format, &tensors);
            written.push((path, file.map_err(|error| Mistake::io(path, &error))?));
        }
        let mut placed: Vec<String> = Vec::new();
        for (path, file) in written {
            unfinished::place(file, path).map_err(|error| {
                let mistake = Mistake::io(path, &error);
                if placed.is_empty() {
                    mistake
                } else {
                    mistake.fix(format!("{} was written", placed.join(", ")))
                }
            })?;
            placed.push(path.display().to_string());
        }
        Ok(())
    }
}

/// Where a path leads; a rename would replace a link, a device or a folder itself.
fn resolve(path: &Path) -> Result<PathBuf, Mistake> {
    match fs::canonicalize(path) {
        Ok(real) if real.is_file() => Ok(real),
        Ok(_) => Err(Mistake::file(path, "this exists and is not a regular file")),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let name =
                path.file_name().ok_or_else(|| Mistake::file(path, "this is not a file name"))?;
            let folder = folder_of(path);
            let real = fs::canonicalize(folder).map_err(|error| Mistake::io(folder, &error))?;
            Ok(real.join(name))
        }
        Err(error) => Err(Mistake::io(path, &error)),
    }
}

fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Writes a file that is whole or as it was.
pub(crate) fn write_whole(path: &Path, bytes: &[u8]) -> Result<(), Mistake> {
    let path = &resolve(path)?;
    let write = || {
        let mut file = temporary(path)?;
        for piece in bytes.chunks(PIECE) {
            file.write_all(piece)?;
        }
        unfinished::place(file, path)
    };
    write().map_err(|error| Mistake::io(path, &error))
}

/// Refuses a place that takes no file, before work goes into what would be written there.
pub(crate) fn require_writable(path: &Path) -> Result<(), Mistake> {
    let path = resolve(path)?;
    temporary(&path).map(drop).map_err(|error| Mistake::io(folder_of(&path), &error))
}

/// A file in the same folder, removed if it is not put in its place.
fn temporary(path: &Path) -> io::Result<NamedTempFile> {
    let mut builder = tempfile::Builder::new();
    builder.prefix(".postlude-").suffix(".tmp");
    #[cfg(unix)]
    {
        // As any new file: what the user's mask leaves.
        use std::os::unix::fs::PermissionsExt;
        builder.permissions(fs::Permissions::from_mode(0o666));
    }
    unfinished::make(|| builder.tempfile_in(folder_of(path)))
}

fn write_file(
    path: &Path,
    format: Format,
    tensors: &[(&str, &Tensor)],
) -> io::Result<NamedTempFile> {
    let mut file = temporary(path)?;
    let mut writer = BufWriter::new(&mut file);
    match format {
        // Refused as a target.
        Format::Index | Format::Npz => {}
        Format::Safetensors => {
            let infos: Vec<_> = tensors
                .iter()
                .map(|(name, tensor)| (*name, tensor.dtype(), tensor.shape()))
                .collect();
            writer.write_all(&safetensors::header(&infos))?;
        }
        Format::Npy => {
            for (_, tensor) in tensors {
                writer.write_all(&npy::header(tensor.dtype(), tensor.shape()))?;
            }
        }
    }
    for (_, tensor) in tensors {
        let contiguous = (!tensor.is_contiguous()).then(|| tensor.to_contiguous());
        for piece in contiguous.as_ref().unwrap_or(tensor).bytes().chunks(PIECE) {
            writer.write_all(piece)?;
        }
    }
    writer.flush()?;
    drop(writer);
    Ok(file)
}
