//! `FILE` or `FILE:TENSOR`, as `--in` takes them.
//!
//! In: what the user wrote. Out: a path, and the tensor's name where one was given. Invariant: a path that exists is the
//! whole path, whatever colons are in it; otherwise the first colon behind a known ending parts path and name, so that a
//! name may hold dots, slashes and colons.

use std::path::{Path, PathBuf};

use super::Format;
use crate::failure::Mistake;

/// Where a tensor lies.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Place {
    /// The file.
    pub(crate) path: PathBuf,
    /// The tensor in it, where the user named one.
    pub(crate) tensor: Option<String>,
}

impl Place {
    /// Takes apart what the user wrote.
    pub(crate) fn read(text: &Path) -> Result<Place, Mistake> {
        let whole = || Place { path: text.to_owned(), tensor: None };
        // Text that is not UTF-8 names a file and nothing in it.
        let Some(written) = text.to_str().filter(|_| !text.exists()) else { return Ok(whole()) };
        let parts: Vec<(&str, &str)> = written
            .match_indices(':')
            .map(|(at, colon)| (&written[..at], &written[at + colon.len()..]))
            .filter(|(path, _)| Format::of(Path::new(path)).is_ok())
            .collect();
        let exists = parts.iter().find(|(path, _)| Path::new(path).is_file());
        let Some((path, tensor)) = exists.or(parts.first()) else { return Ok(whole()) };
        if tensor.is_empty() {
            let mistake = Mistake::file(Path::new(path), "a tensor's name is missing behind `:`");
            return Err(mistake.fix("leave the `:` out to see which tensors the file holds"));
        }
        Ok(Place { path: PathBuf::from(path), tensor: Some((*tensor).to_owned()) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_may_hold_dots_slashes_and_colons() {
        for (text, path, tensor) in [
            ("a.npy", "a.npy", None),
            ("no/a.safetensors:w", "no/a.safetensors", Some("w")),
            ("a.safetensors:model.layers.0/up:0", "a.safetensors", Some("model.layers.0/up:0")),
            ("a.safetensors:b.safetensors:c", "a.safetensors", Some("b.safetensors:c")),
            (r"C:\models\a.safetensors:w", r"C:\models\a.safetensors", Some("w")),
            (r"C:\models\a.safetensors", r"C:\models\a.safetensors", None),
            ("m.safetensors.index.json:w.x", "m.safetensors.index.json", Some("w.x")),
            ("12:30/a.npz:b", "12:30/a.npz", Some("b")),
            ("a.bin:w", "a.bin:w", None),
        ] {
            let place = Place::read(Path::new(text)).unwrap();
            assert_eq!((place.path.to_str(), place.tensor.as_deref()), (Some(path), tensor));
        }
        assert!(Place::read(Path::new("a.safetensors:")).is_err());
    }

    #[test]
    fn a_path_that_exists_is_whole() {
        let folder = tempfile::tempdir().unwrap();
        let odd = folder.path().join("a.safetensors:b.npy");
        std::fs::write(&odd, "").unwrap();
        assert_eq!(Place::read(&odd).unwrap(), Place { path: odd, tensor: None });
    }
}
