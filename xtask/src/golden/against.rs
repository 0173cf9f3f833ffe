//! `cargo xtask golden --against REV`: what a change does to launches, schedules, tile programs and PTX, as text.
//!
//! In: a commit. Out: the entries that appeared or went, and the differences of all others, each once, with the entries that
//! have it. The commit is checked out and built beside this one, under `target/golden`, and stays there for the next time.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::command::{answer, program, root, run};
use crate::place::{create, io_error};

/// Where commits are checked out and built, and texts are written.
const FOLDER: &str = "target/golden";
/// Lines of a difference, and entries of a group, that are printed.
const LINES: usize = 40;
const NAMES: usize = 6;

/// An entry's launch, and what of it.
type Place = (String, String, String);

/// Prints what differs.
pub(crate) fn against(revision: &str) -> Result<(), String> {
    let commit = answer(&mut program(
        "git",
        &["rev-parse", "--verify", "--short", &format!("{revision}^{{commit}}")],
    ))?;
    let commit = commit.trim();
    let folder = root().join(FOLDER);
    let checkout = folder.join(commit);
    if !checkout.exists() {
        create(&folder)?;
        let path = checkout.to_string_lossy().into_owned();
        run(&mut program("git", &["worktree", "add", "--detach", &path, commit]))?;
    }
    let before =
        texts(&checkout, &folder.join(format!("{commit}-texts")), Some(&folder.join("build")))?;
    let now = texts(&root(), &folder.join("texts"), None)?;
    print!("{}", report(&before, &now)?);
    Ok(())
}

/// The texts of all entries of a checkout.
struct Texts {
    folder: PathBuf,
    /// The hash of each.
    all: BTreeMap<Place, String>,
}

/// Has a checkout write its texts.
fn texts(checkout: &Path, folder: &Path, build: Option<&Path>) -> Result<Texts, String> {
    if folder.exists() {
        fs::remove_dir_all(folder).map_err(|error| io_error(folder, &error))?;
    }
    create(folder)?;
    let mut command = program(
        std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()),
        &["test", "--quiet", "-p", "postlude-cli", "--test", "golden"],
    );
    command.current_dir(checkout).env("POSTLUDE_GOLDEN_TEXTS", folder);
    if let Some(build) = build {
        command.env("CARGO_TARGET_DIR", build);
    }
    run(&mut command)?;
    let mut all = BTreeMap::new();
    let files = fs::read_dir(folder).map_err(|error| io_error(folder, &error))?;
    for file in files {
        let path = file.map_err(|error| io_error(folder, &error))?.path();
        if path.is_dir() {
            continue;
        }
        let index = fs::read_to_string(&path).map_err(|error| io_error(&path, &error))?;
        for line in index.lines() {
            if let [name, launch, part, hash] = line.split('\t').collect::<Vec<_>>()[..] {
                let place = (name.to_owned(), launch.to_owned(), part.to_owned());
                all.insert(place, hash.to_owned());
            }
        }
    }
    if all.is_empty() {
        let what = "writes no texts of its golden files: it is older than this command";
        return Err(format!("{}: {what}", checkout.display()));
    }
    Ok(Texts { folder: folder.to_owned(), all })
}

impl Texts {
    /// How many launches each entry has.
    fn launches(&self) -> BTreeMap<&str, BTreeSet<&str>> {
        let mut found: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
        for (name, launch, _) in self.all.keys() {
            found.entry(name).or_default().insert(launch);
        }
        found
    }

    fn path(&self, hash: &str) -> PathBuf {
        self.folder.join("texts").join(hash)
    }
}

/// The differences, the most frequent first.
fn report(before: &Texts, now: &Texts) -> Result<String, String> {
    let mut text = String::new();
    let (old, new) = (before.launches(), now.launches());
    let mut counted: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for (name, launches) in &new {
        match old.get(name) {
            None => counted.entry("new".to_owned()).or_default().push(name),
            Some(own) if own.len() != launches.len() => {
                let what = format!("{} launches, now {}", own.len(), launches.len());
                counted.entry(what).or_default().push(name);
            }
            Some(_) => {}
        }
    }
    let gone = old.keys().filter(|name| !new.contains_key(**name)).copied();
    counted.entry("gone, or refused now".to_owned()).or_default().extend(gone);
    for (what, names) in counted.iter().filter(|(_, names)| !names.is_empty()) {
        text.push_str(&format!("{what}: {}\n", listed(names)));
    }
    let mut known: BTreeMap<(&str, &str), String> = BTreeMap::new();
    let mut groups: BTreeMap<(&str, String), Vec<String>> = BTreeMap::new();
    for (place, hash) in &now.all {
        let (name, launch, part) = place;
        let Some(other) = before.all.get(place).filter(|other| *other != hash) else { continue };
        if !known.contains_key(&(other.as_str(), hash.as_str())) {
            let found = difference(&before.path(other), &now.path(hash), &now.folder)?;
            known.insert((other, hash), found);
        }
        let found = known[&(other.as_str(), hash.as_str())].clone();
        groups.entry((part, found)).or_default().push(format!("{name}, launch {launch}"));
    }
    let mut groups: Vec<_> = groups.into_iter().collect();
    groups.sort_by_key(|(_, places)| std::cmp::Reverse(places.len()));
    for ((part, found), places) in &groups {
        let places: Vec<&str> = places.iter().map(String::as_str).collect();
        text.push_str(&format!("\n== {part} of {}\n", listed(&places)));
        let lines: Vec<&str> = found.lines().collect();
        for line in lines.iter().take(LINES) {
            text.push_str(&format!("{line}\n"));
        }
        if lines.len() > LINES {
            text.push_str(&format!("... {} lines more\n", lines.len() - LINES));
        }
    }
    let all = now.all.len();
    let changed: usize = groups.iter().map(|(_, places)| places.len()).sum();
    Ok(text + &format!("\n{changed} of {all} texts differ, in {} ways\n", groups.len()))
}

fn listed(names: &[&str]) -> String {
    let shown = names.iter().take(NAMES).copied().collect::<Vec<_>>().join("; ");
    let more = if names.len() > NAMES { "; ..." } else { "" };
    format!("{} ({shown}{more})", names.len())
}

/// The lines that differ. Numbers of registers and labels are left out: one instruction more would move all of them.
fn difference(before: &Path, now: &Path, folder: &Path) -> Result<String, String> {
    let sides = [(before, "before"), (now, "now")];
    let mut paths = Vec::new();
    for (path, name) in sides {
        let text = fs::read_to_string(path).map_err(|error| io_error(path, &error))?;
        let plain = folder.join(name);
        fs::write(&plain, unnumbered(&text)).map_err(|error| io_error(&plain, &error))?;
        paths.push(plain.to_string_lossy().into_owned());
    }
    let arguments = ["diff", "--no-index", "--no-color", "--unified=1", &paths[0], &paths[1]];
    let mut command = Command::new("git");
    let output = command.args(arguments).output().map_err(|error| format!("git: {error}"))?;
    let text = String::from_utf8_lossy(&output.stdout);
    let lines = text.lines().skip_while(|line| !line.starts_with("@@"));
    let lines = lines.map(|line| if line.starts_with("@@") { "@@" } else { line });
    let text = lines.collect::<Vec<_>>().join("\n");
    Ok(if text.is_empty() { "registers or labels alone".to_owned() } else { text })
}

/// A text without the numbers of registers and labels.
fn unnumbered(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut is_name = false;
    for letter in text.chars() {
        match letter {
            '%' => is_name = true,
            'L' if plain.is_empty() || plain.ends_with(['\n', ' ']) => is_name = true,
            letter if is_name && letter.is_ascii_digit() => continue,
            letter if letter.is_alphanumeric() => {}
            _ => is_name = false,
        }
        plain.push(letter);
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::unnumbered;

    #[test]
    fn registers_and_labels_have_no_numbers() {
        let text = "L12:\n    add.u32 %r13, %r2, 64;\n    @%p1 bra L3;\n";
        assert_eq!(unnumbered(text), "L:\n    add.u32 %r, %r, 64;\n    @%p bra L;\n");
    }
}
