//! Random kernels of any shape: every combination that types, also at positions that usual Hopper kernels do not have.
//!
//! Every value that is known so far may be an operand: tiles, vectors along either dim, fractions of columns, scalars,
//! finished reductions and reductions of those. A position is chosen before a value at it, so that positions are drawn
//! about equally often. Invariant: the columns stay a small number, however they are split.

use postlude::DType;
use postlude::catalogue::FUNCTIONS;
use postlude::dtype::Elem;
use postlude::graph::{Axes, Kind, Type};

use super::super::sketch::{Known, Statement, ValueId, least_common};
use super::{Draw, Fits, is_in};

/// What the columns have to be a multiple of at most.
pub(super) const MOST_COLUMNS: u32 = 256;
/// What the rows may have to be a multiple of.
const MOST_ROWS: usize = 48;

/// Where a value stands: its kind, whether its columns are a fraction, and how many reductions lie behind it.
type Position = (Kind, bool, u32);

fn position(known: &Known) -> Position {
    let axes = known.ty.axes;
    (axes.kind(), axes.column.is_some_and(|by| by > 1), known.folds.min(2))
}

impl Draw {
    /// From the product to the outputs, by any way.
    pub(super) fn free_body(&mut self) {
        self.multiply();
        for _ in 0..self.random.range(0, 4) {
            self.free_input();
        }
        self.index("row", Axes::ROWS);
        self.index("col", Axes { column: Some(self.sketch.base), ..Axes::SCALAR });
        let without_product = self.random.one_in(10);
        let fits = move |known: &Known| !without_product || !known.from_product;
        if self.random.one_in(3) {
            // Drawn more often, because reductions of reductions are rare without it.
            self.reduce_any(None, &fits);
            self.reduce_any(None, &|known| known.folds > 0 && fits(known));
        }
        let steps = self.random.range(1, 9);
        let mut taken = 0;
        // A step that finds no operands is drawn again.
        for _ in 0..2 * steps {
            taken += usize::from(taken < steps && self.free_step(&fits));
        }
        self.free_outputs(&fits);
    }

    /// An input of any dtype along any dims, at times of a fraction of the columns.
    fn free_input(&mut self) {
        if self.random.one_in(8) {
            self.declare_host_scalar();
            return;
        }
        let batch = self.traits.batched && self.random.one_in(2);
        let (rows, columns) = (self.random.one_in(2), self.random.chance(60));
        let run = *self.random.pick(&[1, 1, 1, 1, 2, 4, 8, 3]);
        let row = Some(run).filter(|run| rows && self.rows_stay_few(*run));
        let by = self.sketch.base * *self.random.pick(&[1, 1, 1, 2, 2, 4, 4, 8, 3, 16]);
        let column = Some(by).filter(|by| columns && self.stays_small(*by));
        let axes = Axes { batch, row, column, ..Axes::SCALAR };
        let mut dtype =
            if self.random.one_in(2) { self.any_dtype() } else { *self.random.pick(&DType::ALL) };
        // Packed elements lie along a dim, and fill bytes.
        let whole = column.unwrap_or(1) * dtype.per_byte() as u32;
        if dtype.is_packed() && (axes.rank() == 0 || !self.stays_small(whole)) {
            dtype = dtype.unpacked();
        }
        self.declare_tensor(dtype, axes);
    }

    /// Whether the columns remain few when they have to be a multiple of this too.
    pub(super) fn stays_small(&self, by: u32) -> bool {
        let all = self.sketch.values.iter().filter_map(|known| known.ty.axes.column);
        // Bits may lie along any of these.
        let all =
            all.fold(8 * self.sketch.base as usize, |all, one| least_common(all, one as usize));
        least_common(all, by as usize) <= MOST_COLUMNS as usize
    }

    /// Whether the rows remain few when they have to be a multiple of this too.
    pub(super) fn rows_stay_few(&self, by: u32) -> bool {
        let all = self.sketch.values.iter().filter_map(|known| known.ty.axes.row);
        let all = all.fold(1, |all, one| least_common(all, one as usize));
        least_common(all, by as usize) <= MOST_ROWS
    }

    /// One more statement, or none where there are no operands for it.
    fn free_step(&mut self, fits: Fits<'_>) -> bool {
        match self.random.below(126) {
            0..=33 => {
                let entry = &FUNCTIONS[self.random.below(FUNCTIONS.len())];
                self.free_call(entry, fits).is_some()
            }
            34..=44 => self.split(fits).is_some(),
            45..=49 => self.split_any(fits).is_some(),
            50..=53 => self.merge_any(fits).is_some(),
            54..=57 => self.merge_parts(fits).is_some(),
            58..=66 => self.reduce_any(None, fits).is_some(),
            67..=77 => self.free_derivative(fits).is_some(),
            78..=84 => self.cast_any(fits).is_some(),
            85..=89 => self.select_any(fits).is_some(),
            90..=97 => self.online_any(fits).is_some(),
            98..=103 => self.second_edition(fits).is_some(),
            104..=106 => self.split_named(fits).is_some(),
            _ => self.step(fits).is_some(),
        }
    }

    /// A value that fits, of a position that is drawn first.
    pub(super) fn anywhere(&mut self, fits: Fits<'_>) -> Option<ValueId> {
        let scope = self.scope;
        let fits = |known: &Known| is_in(known, scope) && fits(known);
        let all = self.sketch.values.iter().enumerate().filter(|(_, known)| fits(known));
        let all: Vec<(ValueId, Position)> = all.map(|(id, one)| (id, position(one))).collect();
        let mut positions: Vec<Position> = Vec::new();
        for (_, position) in &all {
            if !positions.contains(position) {
                positions.push(*position);
            }
        }
        if positions.is_empty() {
            return None;
        }
        let wanted = positions[self.random.below(positions.len())];
        let there: Vec<ValueId> =
            all.iter().filter(|(_, position)| *position == wanted).map(|(id, _)| *id).collect();
        Some(there[self.random.below(there.len())])
    }

    /// A float or an integer, floats more often.
    pub(super) fn number_anywhere(&mut self, fits: Fits<'_>) -> Option<ValueId> {
        let elem = if self.random.one_in(5) { Elem::I32 } else { Elem::F32 };
        self.anywhere(&|known| known.ty.elem == elem && fits(known))
    }

    /// Halves or pairs of anything that has columns, conditions and integers too.
    pub(super) fn split(&mut self, fits: Fits<'_>) -> Option<[ValueId; 2]> {
        let function = *self.random.pick(&["halves", "pairs"]);
        self.split_by(function, fits)
    }

    pub(super) fn split_by(&mut self, function: &str, fits: Fits<'_>) -> Option<[ValueId; 2]> {
        let x = self.anywhere(&|known| known.ty.axes.column.is_some() && fits(known))?;
        let Type { elem, axes } = self.ty(x);
        let by = axes.column.map(|by| by * 2).filter(|by| self.stays_small(*by))?;
        let ty = Type { elem, axes: Axes { column: Some(by), ..axes } };
        let (about, positive) = (self.about(x), self.is_positive(x));
        let targets = [self.known(&[x], ty, about), self.known(&[x], ty, about)];
        for target in targets {
            self.sketch.values[target].positive = positive;
            self.sketch.values[target].splits.push(by);
        }
        let (text, operands) = (format!("{function}({{}})"), vec![x]);
        self.sketch.statements.push(Statement::new(targets.to_vec(), text, operands));
        Some(targets)
    }

    /// Two values of the same fraction of columns, put together.
    pub(super) fn merge_any(&mut self, fits: Fits<'_>) -> Option<ValueId> {
        let function = *self.random.pick(&["concat", "join"]);
        self.merge_by(function, fits)
    }

    pub(super) fn merge_by(&mut self, function: &str, fits: Fits<'_>) -> Option<ValueId> {
        let half = |known: &Known| {
            known.ty.axes.column.is_some_and(|by| by % 2 == 0) && known.ty.elem != Elem::Bool
        };
        let a = self.anywhere(&|known| half(known) && fits(known))?;
        let column = self.ty(a).axes.column;
        let like = |known: &Known| half(known) && known.ty.axes.column == column && fits(known);
        let b = self.anywhere(&like)?;
        let elem = self.together(&[a, b]);
        let axes = self.join(&[a, b])?;
        let ty = Type { elem, axes: Axes { column: column.map(|by| by / 2), ..axes } };
        let about = self.about(a).max(self.about(b));
        Some(self.assign(format!("{function}({{}}, {{}})"), &[a, b], ty, about))
    }

    /// What numbers are together: floats if one of them is.
    pub(super) fn together(&self, values: &[ValueId]) -> Elem {
        let integers = values.iter().all(|value| self.ty(*value).elem == Elem::I32);
        if integers { Elem::I32 } else { Elem::F32 }
    }

    /// A cast of anything to any dtype.
    fn cast_any(&mut self, fits: Fits<'_>) -> Option<ValueId> {
        let x = self.anywhere(fits)?;
        if self.random.one_in(5)
            && let Some(rounded) = self.round_any(fits)
        {
            return Some(rounded);
        }
        let to = *self.random.pick(&DType::ALL);
        let ty = Type { elem: to.elem(), axes: self.ty(x).axes };
        let about = match to {
            DType::I8 | DType::U8 => self.about(x).min(127.0),
            DType::I4 | DType::U4 => self.about(x).min(7.0),
            DType::Bool | DType::B1 => 1.0,
            DType::F32
            | DType::TF32
            | DType::F16
            | DType::BF16
            | DType::F8E4M3
            | DType::F8E5M2
            | DType::F8E8M0
            | DType::I32
            | DType::I64 => self.about(x),
        };
        let positive = self.is_positive(x) || matches!(to, DType::U8 | DType::U4 | DType::F8E8M0);
        let value = self.assign(format!("{to}({{}})"), &[x], ty, about);
        self.sketch.values[value].positive = positive;
        Some(value)
    }

    /// `where` of anything, often of another `where`.
    pub(super) fn select_any(&mut self, fits: Fits<'_>) -> Option<ValueId> {
        let truth = |known: &Known| known.ty.elem == Elem::Bool && fits(known);
        let condition = match self.anywhere(&truth) {
            Some(condition) => condition,
            None => self.compare_any(fits)?,
        };
        let elem = *self.random.pick(&[Elem::F32, Elem::F32, Elem::F32, Elem::I32, Elem::Bool]);
        let alike = |known: &Known| known.ty.elem == elem && fits(known);
        let a = self.anywhere(&alike)?;
        let literal = match elem {
            Elem::F32 => Some(self.number().to_owned()),
            Elem::I32 => Some((*self.random.pick(&["0", "-1", "100", "2147483647"])).to_owned()),
            Elem::Bool => None,
        };
        let about = self.about(a).max(1.0);
        if let Some(literal) = literal.filter(|_| self.random.one_in(3)) {
            let ty = Type { elem, axes: self.join(&[condition, a])? };
            let text = format!("where({{}}, {{}}, {literal})");
            return Some(self.assign(text, &[condition, a], ty, about));
        }
        let b = self.anywhere(&alike)?;
        let ty = Type { elem, axes: self.join(&[condition, a, b])? };
        let about = about.max(self.about(b));
        Some(self.assign("where({}, {}, {})", &[condition, a, b], ty, about))
    }

    fn compare_any(&mut self, fits: Fits<'_>) -> Option<ValueId> {
        let a = self.number_anywhere(fits)?;
        let limit = self.limit(a);
        let ty = Type { elem: Elem::Bool, axes: self.ty(a).axes };
        let operator = *self.random.pick(&["<", "<=", ">", ">=", "==", "!="]);
        Some(self.assign(format!("{{}} {operator} {limit}"), &[a], ty, 1.0))
    }
}
