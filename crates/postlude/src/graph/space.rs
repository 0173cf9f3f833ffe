//! The dims that a graph's values vary along, and what a declared dim means among them.

use super::{Axes, Columns, Input, Product, Side, Split};
use crate::dtype::DType;
use crate::shape::Dim;

/// The dims that the body's values vary along: those of every product.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Space {
    /// The leading dims of either operand. Values vary along all of them or none: together they number the batches, the
    /// last one fastest.
    pub batch: Vec<Dim>,
    /// The dim of the left operand that stays.
    pub row: Dim,
    /// The dim of the right operand that stays.
    pub column: Dim,
    /// Dims that splits name: parts of the columns that are no fraction of them.
    pub parts: Vec<Dim>,
    /// Columns that are split into parts of named sizes.
    pub splits: Vec<Split>,
    /// Where rows are cut into segments: the input whose elements are the rows that each ends before. The one batch dim
    /// numbers the segments, so a value that varies along rows varies with the batch, and a row has one batch only.
    pub segments: Option<String>,
}

impl Space {
    /// The most leading dims of an operand: a tensor map has five dims, and two of them are the matrix's.
    pub const MOST_BATCH_DIMS: usize = 3;

    /// One whose columns are not split.
    pub(crate) fn new(batch: Vec<Dim>, row: Dim, column: Dim) -> Space {
        Space { batch, row, column, parts: Vec::new(), splits: Vec::new(), segments: None }
    }

    /// The same space with its rows cut into segments that end where an input says; `None` where its dims do not fit.
    pub(crate) fn segmented(mut self, ends: &Input) -> Option<Space> {
        let [segments] = ends.dims.as_deref()? else { return None };
        let is_own = self.batch.is_empty() || self.batch == [segments.clone()];
        let matrix = [&self.row, &self.column];
        let fits = is_own && !matrix.iter().any(|dim| dim.same_base(segments));
        self.batch = vec![segments.clone()];
        self.segments = Some(ends.name.clone());
        (fits && ends.dtype == DType::I32).then_some(self)
    }

    /// Whether rows are cut into segments.
    pub(crate) fn is_segmented(&self) -> bool {
        self.segments.is_some()
    }

    /// The space of an operand of a product: its own rows, and K as columns.
    pub(crate) fn of_operand(&self, product: &Product, side: Side) -> Space {
        let (row, batch) = match side {
            // Which segment a row is in does not change it.
            Side::Left if self.is_segmented() => (&self.row, Vec::new()),
            Side::Left => (&self.row, self.batch.clone()),
            Side::Right => (&self.column, self.batch.clone()),
        };
        Space::new(batch, row.clone(), product.inner.clone())
    }

    /// The axes a value with these dims has, whatever their order; `None` when a dim is not the product's or stands twice.
    /// A tensor with some of several batch dims is repeated along the others.
    pub fn axes(&self, dims: &[Dim]) -> Option<Axes> {
        let mut axes = Axes::SCALAR;
        for (place, dim) in dims.iter().enumerate() {
            let fresh = if self.batch.contains(dim) {
                axes.batch = true;
                !dims[..place].contains(dim)
            } else if let Some(run) = self.row_run(dim) {
                axes.row.replace(run).is_none()
            } else {
                let columns = self.columns(dim)?;
                axes.part = columns.part;
                axes.column.replace(columns.divisor).is_none()
            };
            if !fresh {
                return None;
            }
        }
        if self.is_segmented() && axes.row.is_some() {
            // A row's segment is data: no tensor has both dims.
            return (!axes.batch).then_some(Axes { batch: true, ..axes });
        }
        Some(axes)
    }

    /// How many of the product's rows one of `dim` stands for, if they are its rows. Runs of rows need a name: a fixed size is
    /// that of all rows.
    pub fn row_run(&self, dim: &Dim) -> Option<u32> {
        match (dim, &self.row) {
            // Segments begin in any row, so runs of rows would cross them.
            _ if self.is_segmented() => (*dim == self.row).then_some(1),
            (Dim::Name { name, divisor }, Dim::Name { name: own, divisor: all }) => {
                (name == own && divisor % all == 0).then(|| divisor / all)
            }
            (Dim::Size(_), Dim::Size(_)) if *dim == self.row => Some(1),
            (Dim::Size(_), Dim::Size(_) | Dim::Name { .. }) | (Dim::Name { .. }, Dim::Size(_)) => {
                None
            }
        }
    }

    /// The dim of runs of this many rows.
    pub fn row_dim(&self, run: u32) -> Dim {
        match &self.row {
            Dim::Name { name, divisor } => {
                Dim::Name { name: name.clone(), divisor: divisor.saturating_mul(run) }
            }
            Dim::Size(size) => Dim::Size(size / run.max(1)),
        }
    }

    /// What the column dim's name is divided by in `dim`, if `dim` is that name.
    pub fn column_divisor(&self, dim: &Dim) -> Option<u32> {
        match (dim, &self.column) {
            (Dim::Name { name, divisor }, Dim::Name { name: own, .. }) => {
                (name == own).then_some(*divisor)
            }
            (Dim::Size(size), Dim::Size(own)) => (*size > 0 && own % size == 0).then(|| own / size),
            (Dim::Name { .. }, Dim::Size(_)) | (Dim::Size(_), Dim::Name { .. }) => None,
        }
    }

    /// Whether both are spaces of the same product's dims, whatever is split.
    pub(crate) fn has_dims_of(&self, other: &Space) -> bool {
        (&self.batch, &self.row, &self.column, &self.segments)
            == (&other.batch, &other.row, &other.column, &other.segments)
    }

    /// The columns that a dim stands for: the product's, or those of a part that a split names.
    pub fn columns(&self, dim: &Dim) -> Option<Columns> {
        if let Some(divisor) = self.column_divisor(dim) {
            return Some(Columns::of_product(divisor));
        }
        let divides = |part: &Dim| match (part, dim) {
            (Dim::Name { name: own, .. }, Dim::Name { name, divisor }) => {
                (name == own).then_some(*divisor)
            }
            (Dim::Size(own), Dim::Size(size)) => (*size > 0 && own % size == 0).then(|| own / size),
            (Dim::Name { .. }, Dim::Size(_)) | (Dim::Size(_), Dim::Name { .. }) => None,
        };
        let exact = self.parts.iter().position(|part| part == dim);
        let place = exact.or_else(|| self.parts.iter().position(|part| divides(part).is_some()))?;
        Some(Columns { part: place as u16 + 1, divisor: divides(&self.parts[place])? })
    }

    /// The dim that columns are divided from: the product's by its name alone, or that of a part.
    pub fn base_dim(&self, part: u16) -> Dim {
        match (part, &self.column) {
            (0, Dim::Name { name, .. }) => Dim::name(name.clone()),
            (0, Dim::Size(size)) => Dim::Size(*size),
            (part, _) => self.parts[part as usize - 1].clone(),
        }
    }

    /// The dim of these columns.
    pub fn column_dim(&self, columns: Columns) -> Dim {
        match self.base_dim(columns.part) {
            Dim::Name { name, .. } => Dim::Name { name, divisor: columns.divisor },
            Dim::Size(size) => Dim::Size(size / columns.divisor),
        }
    }

    /// The split of these columns into these parts.
    pub fn split_of(&self, whole: Option<Columns>, parts: &[Columns]) -> Option<u16> {
        let fits =
            |split: &Split| whole.is_none_or(|whole| whole == split.whole) && split.parts == parts;
        self.splits.iter().position(fits).map(|place| place as u16)
    }

    /// The axes of the accumulator.
    pub fn accumulator_axes(&self) -> Axes {
        Axes { batch: !self.batch.is_empty(), ..Axes::ROWS }
            .along(Some(Columns::of_product(self.column.divisor())))
    }

    /// The dims of a value with these axes, in the order batch, row, column.
    pub fn dims(&self, axes: Axes) -> Vec<Dim> {
        let has_batch = axes.batch && !(self.is_segmented() && axes.row.is_some());
        let batch = self.batch.iter().filter(|_| has_batch).cloned();
        let row = axes.row.map(|run| self.row_dim(run));
        let column = axes.columns().map(|columns| self.column_dim(columns));
        batch.chain(row).chain(column).collect()
    }

    /// Whether dims have all batch dims or none, as a value has.
    pub fn has_whole_batch(&self, dims: &[Dim]) -> bool {
        let own = self.batch.iter().filter(|dim| dims.contains(dim)).count();
        own == 0 || own == self.batch.len()
    }
}
