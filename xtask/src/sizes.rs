//! The size ratchet: no function over 80 lines, no file over 600 that is not a table.
//!
//! In: formatted Rust, where what a line opens is closed by a line of the same indentation.

use std::fs;
use std::path::{Path, PathBuf};

use crate::command::root;

const MOST_FUNCTION_LINES: usize = 80;
const MOST_FILE_LINES: usize = 600;
/// A file that says this in its module's documentation may be as long as its table.
const TABLE: &str = "//! A table";

/// Refuses what is too long.
pub(crate) fn check() -> Result<(), String> {
    let mut files = Vec::new();
    for folder in ["crates", "xtask"] {
        collect(&root().join(folder), &mut files)?;
    }
    let mut found = Vec::new();
    for path in &files {
        let text =
            fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
        let shown = path.strip_prefix(root()).unwrap_or(path).display().to_string();
        found.extend(too_long(&text).into_iter().map(|what| format!("{shown}: {what}")));
    }
    println!("{} files looked at", files.len());
    if found.is_empty() { Ok(()) } else { Err(found.join("\n")) }
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) -> Result<(), String> {
    let unreadable = |error: std::io::Error| format!("{}: {error}", folder.display());
    for entry in fs::read_dir(folder).map_err(unreadable)? {
        let path = entry.map_err(unreadable)?.path();
        if path.is_dir() && path.file_name().is_none_or(|name| name != "target") {
            collect(&path, files)?;
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
    files.sort();
    Ok(())
}

fn too_long(text: &str) -> Vec<String> {
    let lines: Vec<&str> = text.lines().collect();
    let mut found = Vec::new();
    if lines.len() > MOST_FILE_LINES && !lines.iter().any(|line| line.starts_with(TABLE)) {
        found.push(format!("{} lines, and {MOST_FILE_LINES} are the most", lines.len()));
    }
    for (start, line) in lines.iter().enumerate() {
        let Some(name) = function_name(line) else { continue };
        let indentation = line.len() - line.trim_start().len();
        let closes = |line: &str| {
            line.len() - line.trim_start().len() == indentation
                && (line.trim_start().starts_with('}') || line.ends_with(';'))
        };
        let is_one_line = line.ends_with('}') || line.ends_with(';');
        let end = lines[start + 1..].iter().position(|line| closes(line));
        let length = if is_one_line { 1 } else { end.map_or(1, |end| end + 2) };
        if length > MOST_FUNCTION_LINES {
            found.push(format!(
                "`{name}` has {length} lines, and {MOST_FUNCTION_LINES} are the most"
            ));
        }
    }
    found
}

/// The name of the function that a line begins to define.
fn function_name(line: &str) -> Option<&str> {
    let (before, after) = line.split_once("fn ")?;
    let is_qualifier = |word: &str| {
        word.starts_with("pub") || ["const", "async", "unsafe", "extern", "\"C\""].contains(&word)
    };
    if !before.split_whitespace().all(is_qualifier) {
        return None;
    }
    after.split(|c: char| !c.is_alphanumeric() && c != '_').next().filter(|name| !name.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_repository_keeps_to_its_sizes() {
        if let Err(found) = check() {
            panic!("{found}");
        }
    }

    #[test]
    fn a_long_function_is_named() {
        let body = "        x();\n".repeat(79);
        let text = format!("impl A {{\n    pub(crate) fn long(&self) {{\n{body}    }}\n}}\n");
        assert_eq!(too_long(&text), ["`long` has 81 lines, and 80 are the most"]);
        let text = text.replacen("        x();\n", "", 1);
        assert!(too_long(&text).is_empty());
    }

    #[test]
    fn a_long_file_is_named_unless_it_is_a_table() {
        let text = "// x\n".repeat(601);
        assert_eq!(too_long(&text).len(), 1);
        assert!(too_long(&format!("//! A table of things.\n{text}")).is_empty());
    }

    #[test]
    fn words_with_fn_in_them_are_not_functions() {
        for line in ["let f: fn (x)", "// a fn x", "impl Fn for X", "fn "] {
            assert_eq!(function_name(line), None, "{line}");
        }
        assert_eq!(function_name("    pub const unsafe fn f_1<T>("), Some("f_1"));
    }
}
