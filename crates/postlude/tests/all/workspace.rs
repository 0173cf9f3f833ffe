//! The workspace's own sources, for tests that read them.

use std::fs;
use std::path::{Path, PathBuf};

/// The repository.
pub(crate) fn root() -> PathBuf {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().and_then(Path::parent);
    crates.expect("the crate lies in crates/postlude").to_owned()
}

/// Every Rust file under a folder, in order.
pub(crate) fn rust_files(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        let Ok(entries) = fs::read_dir(&folder) else { continue };
        for path in entries.map(|entry| entry.expect("a readable folder").path()) {
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                files.push(path);
            }
        }
    }
    files.sort();
    files
}

/// A file's text.
pub(crate) fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The source with comments, strings and characters blanked, line for line and byte for byte.
pub(crate) fn blanked(source: &str) -> String {
    let bytes = source.as_bytes();
    let mut out = bytes.to_vec();
    let mut at = 0;
    while at < bytes.len() {
        let end = at + token_to_blank(&bytes[at..], at.checked_sub(1).map(|before| bytes[before]));
        if end == at {
            at += 1;
            continue;
        }
        for byte in &mut out[at..end] {
            if *byte != b'\n' {
                *byte = b' ';
            }
        }
        at = end;
    }
    String::from_utf8(out).expect("only whole tokens are blanked")
}

/// How many bytes of a comment, string or character begin here; 0 when none does.
fn token_to_blank(rest: &[u8], before: Option<u8>) -> usize {
    match rest {
        [b'/', b'/', ..] => rest.iter().position(|byte| *byte == b'\n').unwrap_or(rest.len()),
        [b'/', b'*', ..] => block_comment(rest),
        [b'"', ..] => quoted(rest, b'"'),
        [b'r', b'"' | b'#', ..] if !before.is_some_and(is_word) => raw_string(rest),
        [b'\'', b'\\', ..] => quoted(rest, b'\''),
        // A lifetime has no closing quote after its first character.
        [b'\'', ..] => std::str::from_utf8(&rest[1..rest.len().min(6)])
            .or_else(|error| std::str::from_utf8(&rest[1..=error.valid_up_to()]))
            .ok()
            .and_then(|text| text.chars().next())
            .filter(|character| rest.get(1 + character.len_utf8()) == Some(&b'\''))
            .map_or(0, |character| character.len_utf8() + 2),
        _ => 0,
    }
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

fn block_comment(rest: &[u8]) -> usize {
    let mut depth = 0;
    let mut at = 0;
    while at < rest.len() {
        match rest[at..] {
            [b'/', b'*', ..] => (depth, at) = (depth + 1, at + 2),
            [b'*', b'/', ..] if depth == 1 => return at + 2,
            [b'*', b'/', ..] => (depth, at) = (depth - 1, at + 2),
            _ => at += 1,
        }
    }
    at
}

fn quoted(rest: &[u8], quote: u8) -> usize {
    let mut at = 1;
    while at < rest.len() && rest[at] != quote {
        at += if rest[at] == b'\\' { 2 } else { 1 };
    }
    (at + 1).min(rest.len())
}

fn raw_string(rest: &[u8]) -> usize {
    let hashes = rest[1..].iter().take_while(|byte| **byte == b'#').count();
    if rest.get(1 + hashes) != Some(&b'"') {
        return 0;
    }
    let end: Vec<u8> = std::iter::once(b'"').chain(std::iter::repeat_n(b'#', hashes)).collect();
    let body = 2 + hashes;
    let found = rest[body..].windows(end.len()).position(|window| window == end);
    found.map_or(rest.len(), |place| body + place + end.len())
}

/// The place after the brace that closes the one at `open`.
pub(crate) fn after_brace(blanked: &str, open: usize) -> usize {
    let mut depth = 0usize;
    for (at, byte) in blanked.bytes().enumerate().skip(open) {
        match byte {
            b'{' => depth += 1,
            b'}' if depth <= 1 => return at + 1,
            b'}' => depth -= 1,
            _ => {}
        }
    }
    blanked.len()
}

/// Every place where a word stands by itself.
pub(crate) fn words<'a>(text: &'a str, word: &'a str) -> impl Iterator<Item = usize> + 'a {
    text.match_indices(word).map(|(at, _)| at).filter(move |at| {
        let bytes = text.as_bytes();
        let clear = |byte: Option<&u8>| byte.is_none_or(|byte| !is_word(*byte));
        clear(at.checked_sub(1).and_then(|before| bytes.get(before)))
            && clear(bytes.get(at + word.len()))
    })
}
