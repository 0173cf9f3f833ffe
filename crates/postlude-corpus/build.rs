//! Lists the kernels of the library, so that an installed binary carries them.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::{env, fs};

#[allow(clippy::print_stdout)] // How a build script speaks to Cargo.
fn main() {
    let here = env::var("CARGO_MANIFEST_DIR").expect("Cargo sets it");
    let kernels = Path::new(&here).join("../../kernels");
    let kernels = kernels.canonicalize().expect("the repository has a folder `kernels`");
    println!("cargo:rerun-if-changed={}", kernels.display());
    let entries = fs::read_dir(&kernels).expect("the folder `kernels` is readable");
    let mut paths: Vec<PathBuf> =
        entries.map(|entry| entry.expect("the folder `kernels` is readable").path()).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "post"));
    paths.sort();
    let mut list = String::from("&[\n");
    for path in &paths {
        let name = path.file_stem().and_then(|name| name.to_str()).expect("kernels have names");
        println!("cargo:rerun-if-changed={}", path.display());
        let text = path.to_str().expect("the repository's path is text");
        writeln!(list, "    ({name:?}, include_str!({text:?})),").expect("strings take any text");
    }
    list.push(']');
    let out = env::var("OUT_DIR").expect("Cargo sets it");
    fs::write(Path::new(&out).join("kernels.rs"), list).expect("the output folder is writable");
}
