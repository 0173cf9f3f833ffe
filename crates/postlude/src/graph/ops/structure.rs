//! Operations that read where an element is.

/// `row` or `col`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum IndexAxis {
    /// The row number, i32.
    Row,
    /// The column number, i32.
    Column,
}

impl IndexAxis {
    /// The name in the language.
    pub const fn name(self) -> &'static str {
        match self {
            IndexAxis::Row => "row",
            IndexAxis::Column => "col",
        }
    }
}
