//! Where cuBLASLt may be: in the loader's own places, or in a Python package.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// Names the library's file, before anything else is tried.
pub(super) const VARIABLE: &str = "POSTLUDE_CUBLASLT";

/// What the library is called, newest first.
const NAMES: &[&str] = &["libcublasLt.so.13", "libcublasLt.so.12", "libcublasLt.so"];
/// Folders of the packages that have it, under `site-packages`.
const PACKAGES: &[&str] = &["nvidia/cu13/lib", "nvidia/cublas/lib"];
/// Folders that hold a `python3.x` with packages, beside those of environments.
const LIBRARIES: &[&str] = &["/usr/local/lib", "/usr/lib", "/opt/conda/lib"];
/// Variables that name an environment.
const ENVIRONMENTS: &[&str] = &["VIRTUAL_ENV", "CONDA_PREFIX"];

/// Everything to try, in order: the file that was named and no other, or names for the loader and then files that exist.
pub(super) fn candidates(variable: impl Fn(&str) -> Option<OsString>) -> Vec<PathBuf> {
    if let Some(named) = variable(VARIABLE) {
        return vec![named.into()];
    }
    let environments = ENVIRONMENTS.iter().filter_map(|name| variable(name));
    let home = variable("HOME").map(|home| Path::new(&home).join(".local/lib"));
    let folders: Vec<PathBuf> = environments
        .map(|environment| Path::new(&environment).join("lib"))
        .chain(home)
        .chain(LIBRARIES.iter().map(PathBuf::from))
        .flat_map(|library| package_folders(&library))
        .collect();
    let mut all: Vec<PathBuf> = NAMES.iter().map(PathBuf::from).collect();
    for name in NAMES {
        all.extend(folders.iter().map(|folder| folder.join(name)).filter(|file| file.is_file()));
    }
    all
}

/// The packages' folders under every `python3.x` of a folder.
fn package_folders(library: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(library).into_iter().flatten().flatten();
    let mut pythons: Vec<PathBuf> = entries
        .filter(|entry| entry.file_name().to_string_lossy().starts_with("python3"))
        .map(|entry| entry.path())
        .collect();
    pythons.sort();
    let places = ["site-packages", "dist-packages"];
    pythons
        .iter()
        .flat_map(|python| places.map(|place| python.join(place)))
        .flat_map(|place| PACKAGES.iter().map(move |package| place.join(package)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_is_named_is_the_only_one_tried() {
        let named = |name: &str| (name == VARIABLE).then(|| OsString::from("/some/library.so"));
        assert_eq!(candidates(named), [PathBuf::from("/some/library.so")]);
    }

    #[test]
    fn the_loader_is_asked_first_and_then_packages_of_the_environment() {
        let folder = tempfile::tempdir().unwrap();
        let package = folder.path().join("lib/python3.11/site-packages/nvidia/cu13/lib");
        std::fs::create_dir_all(&package).unwrap();
        let file = package.join("libcublasLt.so.13");
        std::fs::write(&file, "").unwrap();
        let environment = |name: &str| (name == "VIRTUAL_ENV").then(|| folder.path().into());
        let all = candidates(environment);
        assert_eq!(all[0], PathBuf::from("libcublasLt.so.13"));
        assert!(all[NAMES.len()..].contains(&file), "{all:?}");
    }
}
