//! From bytes to what an editor shows: line and column.

use std::fmt;

use super::span::Span;

/// A line and a column, both counted from 1; columns count characters, not bytes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Place {
    /// The line, from 1.
    pub line: usize,
    /// The character in the line, from 1.
    pub column: usize,
}

impl Place {
    /// Where a span begins. A span past the end is at the end.
    ///
    /// ```
    /// use postlude::syntax::{Place, Span};
    /// let place = Place::of("Z = A @ B\nD = relu(Z)", Span::new(14, 18));
    /// assert_eq!((place.line, place.column), (2, 5));
    /// ```
    pub fn of(source: impl AsRef<[u8]>, span: Span) -> Place {
        let source = source.as_ref();
        let before = &source[..source.len().min(span.start as usize)];
        let line_start =
            before.iter().rposition(|&byte| byte == b'\n').map_or(0, |newline| newline + 1);
        // Bytes 10xxxxxx continue a UTF-8 character.
        let characters = before[line_start..].iter().filter(|&&byte| byte & 0xC0 != 0x80).count();
        let lines = before.split(|&byte| byte == b'\n').count();
        Place { line: lines, column: 1 + characters }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.line, self.column)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_count_characters() {
        let source = "# é×\né×x";
        assert_eq!(Place::of(source, Span::new(0, 1)).to_string(), "1:1");
        assert_eq!(Place::of(source, Span::new(7, 9)).to_string(), "2:1");
        assert_eq!(Place::of(source, Span::new(11, 12)).to_string(), "2:3");
        assert_eq!(Place::of(source, Span::new(900, 901)).to_string(), "2:4");
        assert_eq!(Place::of(b"a\xff\n\xfe", Span::new(3, 4)).to_string(), "2:1");
    }
}
