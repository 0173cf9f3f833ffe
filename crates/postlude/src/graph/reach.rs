//! How far a reduction reaches.

use super::op::{Over, Run};

/// Which elements a reduction folds into one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Reach {
    /// Those of a run of columns in a row.
    Run,
    /// Those of a row.
    Row,
    /// Those of a run of rows, in a column or in a run of columns.
    Block,
    /// Those of all rows or of all batches, or of whole rows of a run.
    Tiles,
}

impl Over {
    /// How far a reduction over this reaches.
    pub(crate) fn reach(self) -> Reach {
        match (self.row, self.column) {
            (Some(Run::Group(_)), None | Some(Run::Group(_))) if !self.batch => Reach::Block,
            (None, Some(Run::Group(_))) if !self.batch => Reach::Run,
            (None, Some(Run::All) | None) if !self.batch => Reach::Row,
            (Some(Run::All | Run::Group(_)) | None, _) => Reach::Tiles,
        }
    }
}
