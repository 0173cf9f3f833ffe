//! Functions and files stay short enough to read.

use std::path::{Path, PathBuf};

use crate::workspace::{after_brace, blanked, read, root, rust_files, words};

const LONGEST_FUNCTION: usize = 80;
const LONGEST_FILE: usize = 600;
/// A file that is a table says so in its first lines, and may be longer.
const TABLE: &str = "A table";
const FIRST_LINES: usize = 5;

/// Every Rust file of the workspace.
fn sources() -> Vec<PathBuf> {
    let root = root();
    let mut files = rust_files(&root.join("crates"));
    files.extend(rust_files(&root.join("xtask")));
    // Build outputs of an installed package may lie inside a crate.
    files.retain(|path| !path.components().any(|part| part.as_os_str() == "target"));
    files
}

/// Name, first line and number of lines of every function.
fn functions(source: &str) -> Vec<(String, usize, usize)> {
    let text = blanked(source);
    let mut found = Vec::new();
    for at in words(&text, "fn") {
        let name: String = text[at + 2..]
            .trim_start()
            .chars()
            .take_while(|character| character.is_alphanumeric() || *character == '_')
            .collect();
        // `fn(x) -> y` is a type.
        let Some(open) = text[at..].find(['{', ';']).filter(|_| !name.is_empty()) else { continue };
        if text.as_bytes()[at + open] == b';' {
            continue;
        }
        let end = after_brace(&text, at + open);
        let first = text[..at].matches('\n').count() + 1;
        found.push((name, first, text[at..end].lines().count()));
    }
    found
}

fn short(path: &Path) -> String {
    path.strip_prefix(root()).unwrap_or(path).display().to_string()
}

#[test]
fn no_function_is_longer_than_a_screen() {
    let mut long = Vec::new();
    for path in sources() {
        for (name, line, lines) in functions(&read(&path)) {
            if lines > LONGEST_FUNCTION {
                long.push(format!("{}:{line}: `{name}` has {lines} lines", short(&path)));
            }
        }
    }
    assert!(long.is_empty(), "over {LONGEST_FUNCTION} lines:\n{}", long.join("\n"));
}

#[test]
fn no_file_is_too_long_unless_it_is_a_table() {
    let mut long = Vec::new();
    for path in sources() {
        let text = read(&path);
        let is_table = text.lines().take(FIRST_LINES).any(|line| line.contains(TABLE));
        if text.lines().count() > LONGEST_FILE && !is_table {
            long.push(format!("{}: {} lines", short(&path), text.lines().count()));
        }
    }
    assert!(long.is_empty(), "over {LONGEST_FILE} lines:\n{}", long.join("\n"));
}

#[test]
fn braces_in_strings_and_comments_do_not_count() {
    let source = "fn a() {\n    // }\n    let x = \"}\"; let y = '}'; let z = r#\"}\"#;\n}\nfn b<'a>(x: &'a u8) {}\ntrait T { fn c(); }";
    let found = functions(source);
    assert_eq!(found, [("a".to_owned(), 1, 4), ("b".to_owned(), 5, 1)]);
}
