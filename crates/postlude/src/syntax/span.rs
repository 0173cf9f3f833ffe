//! A place in the source.

/// A range of bytes in the source. Spans never make two things different: all compare equal.
#[derive(Clone, Copy, Debug, Default)]
pub struct Span {
    /// First byte.
    pub start: u32,
    /// One past the last byte.
    pub end: u32,
}

impl PartialEq for Span {
    fn eq(&self, _: &Span) -> bool {
        true
    }
}

impl Eq for Span {}

impl Span {
    /// The bytes `start..end`.
    pub const fn new(start: usize, end: usize) -> Span {
        Span { start: start as u32, end: end as u32 }
    }

    /// Whether all bytes of `other` are among these.
    pub const fn contains(self, other: Span) -> bool {
        self.start <= other.start && other.end <= self.end
    }

    /// From the first byte of `self` to the last of `other`.
    pub const fn to(self, other: Span) -> Span {
        Span { start: self.start, end: other.end }
    }
}
