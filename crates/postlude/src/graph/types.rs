//! What a value is: its element type and the body dims it varies along.

use crate::dtype::Elem;

/// The body dims a value varies along.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Axes {
    /// Varies with the batch.
    pub batch: bool,
    /// Varies along the product's rows: one for each run of this many.
    pub row: Option<u32>,
    /// Varies along the columns, which number their dim's size divided by this.
    pub column: Option<u32>,
    /// The dim of those columns: 0 for the product's, otherwise a dim that a split names, by its place in
    /// [`Space::parts`](super::Space::parts) counted from 1. 0 without columns.
    pub part: u16,
}

/// Columns without rows: those of a dim, divided by a number.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Columns {
    /// As [`Axes::part`].
    pub part: u16,
    /// What the dim's size is divided by.
    pub divisor: u32,
}

/// Where a value lives in a tile; a batch does not change it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Kind {
    /// One for every element of the tile.
    Tile,
    /// One for every column.
    AlongColumns,
    /// One for every row.
    AlongRows,
    /// One for the whole tile.
    Scalar,
}

/// The type of a value in the body.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Type {
    /// What arithmetic it takes part in.
    pub elem: Elem,
    /// What it varies along.
    pub axes: Axes,
}

impl Axes {
    /// Varies along nothing.
    pub const SCALAR: Axes = Axes { batch: false, row: None, column: None, part: 0 };

    /// Varies along the product's rows, one for each.
    pub const ROWS: Axes = Axes { row: Some(1), ..Axes::SCALAR };

    /// The axes of two values together. Rows and columns meet run by run when one length divides the other; `None` when
    /// neither does.
    pub fn join(self, other: Axes) -> Option<Axes> {
        let columns = match (self.columns(), other.columns()) {
            (None, columns) | (columns, None) => columns,
            (Some(a), Some(b)) if a.part != b.part => return None,
            (Some(a), Some(b)) if a.divisor % b.divisor == 0 => Some(b),
            (Some(a), Some(b)) if b.divisor % a.divisor == 0 => Some(a),
            (Some(_), Some(_)) => return None,
        };
        let row = match (self.row, other.row) {
            (None, row) | (row, None) => row,
            (Some(a), Some(b)) if a % b == 0 => Some(b),
            (Some(a), Some(b)) if b % a == 0 => Some(a),
            (Some(_), Some(_)) => return None,
        };
        let rest = Axes { batch: self.batch || other.batch, row, ..Axes::SCALAR };
        Some(rest.along(columns))
    }

    /// The axes of several values together. Rows and columns meet run by run where the smallest length divides all others.
    pub fn join_all(all: &[Axes]) -> Option<Axes> {
        let finest =
            all.iter().filter_map(|axes| axes.columns()).min_by_key(|columns| columns.divisor);
        let row = all.iter().filter_map(|axes| axes.row).min();
        let start = Axes { row, ..Axes::SCALAR }.along(finest);
        all.iter().try_fold(start, |joined, axes| joined.join(*axes))
    }

    /// Whether a value with these axes can be stored or used where `other` is expected.
    pub fn fits(self, other: Axes) -> bool {
        self.join(other) == Some(other)
    }

    /// Whether every row of the product has its own.
    pub const fn has_each_row(self) -> bool {
        matches!(self.row, Some(1))
    }

    /// The columns, if it has some.
    pub const fn columns(self) -> Option<Columns> {
        match self.column {
            Some(divisor) => Some(Columns { part: self.part, divisor }),
            None => None,
        }
    }

    /// The same batch and rows with these columns.
    #[must_use]
    pub const fn along(self, columns: Option<Columns>) -> Axes {
        match columns {
            Some(Columns { part, divisor }) => Axes { column: Some(divisor), part, ..self },
            None => Axes { column: None, part: 0, ..self },
        }
    }

    /// Where such a value lives in a tile.
    pub const fn kind(self) -> Kind {
        match (self.row, self.column) {
            (Some(_), Some(_)) => Kind::Tile,
            (None, Some(_)) => Kind::AlongColumns,
            (Some(_), None) => Kind::AlongRows,
            (None, None) => Kind::Scalar,
        }
    }

    /// How many axes there are.
    pub const fn rank(self) -> usize {
        self.batch as usize + self.row.is_some() as usize + self.column.is_some() as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn columns(divisor: u32) -> Axes {
        Axes { column: Some(divisor), ..Axes::SCALAR }
    }

    #[test]
    fn rows_and_columns_join_to_a_tile() {
        let rows = Axes::ROWS;
        assert_eq!(rows.join(columns(1)).map(Axes::kind), Some(Kind::Tile));
    }

    #[test]
    fn columns_meet_group_by_group() {
        assert_eq!(columns(128).join(columns(1)), Some(columns(1)));
        assert_eq!(columns(2).join(columns(6)), Some(columns(2)));
        assert_eq!(columns(2).join(columns(3)), None);
    }

    #[test]
    fn rows_meet_run_by_run() {
        let rows = |run: u32| Axes { row: Some(run), ..Axes::SCALAR };
        assert_eq!(rows(128).join(rows(1)), Some(rows(1)));
        assert_eq!(rows(4).join(rows(6)), None);
        assert_eq!(Axes::join_all(&[rows(4), rows(6), rows(2)]), Some(rows(2)));
        assert_eq!(rows(128).join(columns(128)).map(Axes::kind), Some(Kind::Tile));
        assert!(!rows(128).has_each_row() && Axes::ROWS.has_each_row());
    }

    #[test]
    fn columns_of_two_parts_do_not_meet() {
        let part = Axes { part: 1, ..columns(1) };
        assert_eq!(part.join(columns(1)), None);
        assert_eq!(Axes::join_all(&[part, columns(128)]), None);
        assert_eq!(part.join(Axes::ROWS).map(|axes| axes.part), Some(1));
    }

    #[test]
    fn runs_of_any_widths_meet_beside_all_columns() {
        assert_eq!(Axes::join_all(&[columns(2), columns(3), columns(1)]), Some(columns(1)));
        assert_eq!(Axes::join_all(&[columns(2), columns(3)]), None);
        assert_eq!(Axes::join_all(&[]), Some(Axes::SCALAR));
    }

    #[test]
    fn a_coarser_value_fits_a_finer_place_only() {
        assert!(columns(2).fits(columns(1)));
        assert!(!columns(1).fits(columns(2)));
    }
}
