//! What is planned and emitted for Hopper, pinned: of every launch of every kernel of the library, every case of the corpus,
//! every benchmark row, every operand load and every reduction, the printed schedule and hashes of the tile program, the PTX
//! and what the launch takes.
//!
//! A change that should change nothing proves it here; one that should change something shows what. `cargo xtask golden`
//! rewrites the files of `golden/sm90`, and `cargo xtask golden --against REV` prints what differs from a commit, as text.

mod entry;
mod pairs;
mod texts;

use std::fs;
use std::path::{Path, PathBuf};

use entry::Entry;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../golden/sm90")
}

fn is_blessed() -> bool {
    std::env::var_os("POSTLUDE_BLESS").is_some_and(|value| value == "1")
}

/// Compares a file with what it should say now, stanza by stanza; or writes it; or writes all that it is hashes of.
fn compare(name: &str, entries: &[Entry]) {
    if let Some(folder) = std::env::var_os("POSTLUDE_GOLDEN_TEXTS") {
        texts::write(Path::new(&folder), name, entries).expect("the folder can be written");
        return;
    }
    let now: String = entries.iter().map(Entry::to_string).collect();
    let path = folder().join(name);
    if is_blessed() {
        fs::create_dir_all(folder()).expect("the repository can be written");
        fs::write(path, now).expect("the repository can be written");
        return;
    }
    let before = fs::read_to_string(&path).unwrap_or_default();
    if before == now {
        return;
    }
    let changed = entries.iter().filter(|entry| !before.contains(&entry.to_string()));
    let changed: Vec<&str> = changed.map(|entry| entry.name.as_str()).collect();
    panic!(
        "golden/sm90/{name}: {} of {} entries changed, appeared or moved: {}\n`cargo xtask golden` rewrites the file; review the difference",
        changed.len(),
        entries.len(),
        changed.iter().take(20).copied().collect::<Vec<_>>().join(", "),
    );
}

#[test]
fn the_library_is_planned_and_emitted_as_before() {
    compare("library.txt", &pairs::library());
}

#[test]
fn the_corpus_is_planned_and_emitted_as_before() {
    compare("corpus.txt", &pairs::corpus());
}

#[test]
fn benchmark_rows_are_planned_and_emitted_as_before() {
    compare("benchmarks.txt", &pairs::benchmarks());
}

#[test]
fn operand_loads_are_planned_and_emitted_as_before() {
    compare("operands.txt", &pairs::operands());
}

#[test]
fn epilogues_and_reductions_are_planned_and_emitted_as_before() {
    compare("epilogues.txt", &pairs::epilogues());
}
