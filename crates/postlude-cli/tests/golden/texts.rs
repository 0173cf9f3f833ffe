//! The texts that golden files have hashes of, for `cargo xtask golden --against`.
//!
//! In: a folder. Out: a file for every text, named by its hash, and an index of the entries: name, launch, part, hash, apart
//! by tabs.

use std::fmt::Write as _;
use std::fs;
use std::io;
use std::path::Path;

use crate::entry::{Entry, hash};

pub(crate) fn write(folder: &Path, file: &str, entries: &[Entry]) -> io::Result<()> {
    let texts = folder.join("texts");
    fs::create_dir_all(&texts)?;
    let mut index = String::new();
    for entry in entries {
        for (launch, part, text) in entry.texts() {
            let hash = hash(text);
            let path = texts.join(&hash);
            if !path.exists() {
                fs::write(path, text)?;
            }
            let _ = writeln!(index, "{file}: {}\t{launch}\t{part}\t{hash}", entry.name);
        }
    }
    fs::write(folder.join(file), index)
}
