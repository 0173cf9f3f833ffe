//! The part of a line that a diagnostic shows.
//!
//! In: a source and a place. Out: its line up to some way behind the place, safe for any terminal. The renderer cuts what is
//! far before the place; here it counts, for the column is counted from it.

use std::ops::Range;

use postlude::syntax::Span;

/// Characters shown from the place on.
const AFTER: usize = 70;
/// What stands for the part that is not shown.
const CUT: char = '…';

/// A piece of one line and the bytes of it to underline.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Excerpt {
    pub(crate) text: String,
    pub(crate) underlined: Range<usize>,
}

impl Excerpt {
    /// The line around the beginning of a span.
    pub(crate) fn of(source: &[u8], span: Span) -> Excerpt {
        let start = source.len().min(span.start as usize);
        let end = source.len().min(span.end as usize).max(start);
        let line_start =
            source[..start].iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        let line_end = source[start..].iter().position(|byte| *byte == b'\n');
        let line_end = line_end.map_or(source.len(), |at| start + at);
        // A byte is a character or less, four bytes are one or more: enough bytes for what is shown, whatever they hold.
        let near = line_end.min(start + 4 * (AFTER + 1));
        let underlined_end = end.min(near);
        let before = String::from_utf8_lossy(&source[line_start..start]);
        let place = String::from_utf8_lossy(&source[start..underlined_end]);
        let after = String::from_utf8_lossy(&source[underlined_end..near]);
        let mut text: String = before.chars().map(show).collect();
        let from = text.len();
        text.extend(place.chars().take(AFTER).map(show));
        let to = text.len();
        let left = AFTER.saturating_sub(place.chars().count());
        text.extend(after.chars().take(left).map(show));
        if near < line_end || after.chars().count() > left {
            text.push(CUT);
        }
        Excerpt { text, underlined: from..to }
    }
}

/// Text whose control characters can be seen.
pub(crate) fn visible(text: &str) -> String {
    text.chars().map(show).collect()
}

/// A character as a terminal may show it: one column, no effects.
fn show(character: char) -> char {
    match character {
        '\t' => ' ',
        // The pictures of the control characters are in their order.
        '\0'..='\x1f' => char::from_u32(0x2400 + character as u32).unwrap_or('\u{fffd}'),
        '\x7f' => '\u{2421}',
        // The second set of controls, marks of direction, joiners and invisible spaces.
        '\u{80}'..='\u{9f}'
        | '\u{ad}'
        | '\u{200b}'..='\u{200f}'
        | '\u{2028}'..='\u{202e}'
        | '\u{2060}'..='\u{206f}'
        | '\u{feff}' => '\u{fffd}',
        _ => character,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn marked(source: &[u8], start: usize, end: usize) -> String {
        let Excerpt { text, underlined } = Excerpt::of(source, Span::new(start, end));
        format!(
            "{}[{}]{}",
            &text[..underlined.start],
            &text[underlined.clone()],
            &text[underlined.end..]
        )
    }

    #[test]
    fn a_short_line_is_shown_whole() {
        assert_eq!(marked(b"a\nD = relu(x)\nb", 6, 10), "D = [relu](x)");
        assert_eq!(marked(b"D = (", 5, 5), "D = ([]");
        assert_eq!(marked(b"", 0, 0), "[]");
    }

    #[test]
    fn a_long_line_is_cut_behind_the_place() {
        let source = "x".repeat(50_000) + "here" + &"y".repeat(50_000);
        let text = marked(source.as_bytes(), 50_000, 50_004);
        assert!(text.contains("x[here]y") && text.ends_with("yy…"));
        assert!(text.chars().count() < 50_000 + AFTER + 10);
        let text = marked(source.as_bytes(), 10, 90_000);
        assert!(text.chars().count() < AFTER + 20, "{text}");
    }

    #[test]
    fn control_characters_and_foreign_bytes_are_visible() {
        assert_eq!(marked(b"a\0\x1b[31m", 1, 2), "a[\u{2400}]\u{241b}[31m");
        assert_eq!(marked(b"\xff\xfeab", 2, 3), "\u{fffd}\u{fffd}[a]b");
        assert_eq!(visible("\u{202e}x\t"), "\u{fffd}x ");
    }

    #[test]
    fn a_place_over_two_lines_ends_with_the_first() {
        assert_eq!(marked(b"f(a\nb)", 1, 6), "f[(a]");
    }
}
