//! Operations that read where an element is.

/// Which number of an element's place.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum IndexAxis {
    /// The row number, i32.
    Row,
    /// The column number, i32.
    Column,
    /// The number of the batch, i32.
    Batch,
    /// The place along one of several batch dims, i32.
    BatchDim(u8),
}

impl IndexAxis {
    /// The name in printed graphs; `row` and `col` are those of the language.
    pub const fn name(self) -> &'static str {
        match self {
            IndexAxis::Row => "row",
            IndexAxis::Column => "col",
            IndexAxis::Batch | IndexAxis::BatchDim(_) => "batch",
        }
    }
}
