//! Characters to tokens.

/// What a token is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum TokenKind {
    /// A name, an opcode with its modifiers, or a directive.
    Word,
    /// A number as written, without its sign.
    Number,
    /// Text in quotes.
    Quoted,
    /// One character.
    Mark(char),
}

/// A token and where it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Token<'t> {
    pub(super) kind: TokenKind,
    pub(super) text: &'t str,
    /// Its line, from 1.
    pub(super) line: usize,
}

/// All tokens of a text; comments and spaces are gone.
pub(super) fn tokens(text: &str) -> Vec<Token<'_>> {
    let mut found = Vec::new();
    let (mut rest, mut line) = (text, 1);
    while let Some(first) = rest.chars().next() {
        let length = blank_length(rest);
        if length > 0 {
            line += rest[..length].matches('\n').count();
            rest = &rest[length..];
            continue;
        }
        let (kind, length) = match first {
            'a'..='z' | 'A'..='Z' | '_' | '$' | '%' | '.' => (TokenKind::Word, word_length(rest)),
            '0'..='9' => (TokenKind::Number, number_length(rest)),
            '"' => (TokenKind::Quoted, rest[1..].find('"').map_or(rest.len(), |at| at + 2)),
            other => (TokenKind::Mark(other), other.len_utf8()),
        };
        found.push(Token { kind, text: &rest[..length], line });
        line += rest[..length].matches('\n').count();
        rest = &rest[length..];
    }
    found
}

/// How many bytes of spaces, or of one comment, come first.
fn blank_length(text: &str) -> usize {
    if text.starts_with("//") {
        return text.find('\n').unwrap_or(text.len());
    }
    if text.starts_with("/*") {
        return text.find("*/").map_or(text.len(), |at| at + 2);
    }
    text.len() - text.trim_start().len()
}

/// A word ends before a single colon, which makes it a label; two belong to it.
fn word_length(text: &str) -> usize {
    let bytes = text.as_bytes();
    let mut at = 0;
    while at < bytes.len() {
        match bytes[at] {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'_' | b'$' | b'%' | b'.' => at += 1,
            b':' if bytes.get(at + 1) == Some(&b':') => at += 2,
            _ => break,
        }
    }
    at
}

fn number_length(text: &str) -> usize {
    let part = |each: char| each.is_ascii_alphanumeric() || each == '.';
    let length = text.find(|each: char| !part(each)).unwrap_or(text.len());
    // `1e-5`, but not `0x1e-5`.
    let (before, after) = text.split_at(length);
    let exponent = before.ends_with(['e', 'E']) && !before.starts_with("0x");
    if exponent && after.starts_with(['+', '-']) {
        let digits = &after[1..];
        let more = digits.find(|each: char| !each.is_ascii_digit()).unwrap_or(digits.len());
        return length + 1 + more;
    }
    length
}
