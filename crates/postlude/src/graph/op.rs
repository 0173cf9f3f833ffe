//! The operations of a graph.

use crate::dtype::DType;
use crate::shape::Dim;

use super::ops::{Binary, Fold, IndexAxis, Unary};
use super::types::{Axes, Columns};
use super::{InputId, NodeId, ProductId};

/// One operation and its operands.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Op {
    /// A product's result.
    Accumulator(ProductId),
    /// An input, converted to what the body computes with.
    Input(InputId),
    /// A number or truth value.
    Constant(Constant),
    /// `row`, `col` or the number of a batch.
    Index(IndexAxis),
    /// How many elements these axes have, as f32.
    Extent(Axes),
    /// The size of a dim, as i32.
    Size(Dim),
    /// A function of one value.
    Unary(Unary, NodeId),
    /// A function of two values.
    Binary(Binary, NodeId, NodeId),
    /// `a * b + c`, rounded once.
    Fma(NodeId, NodeId, NodeId),
    /// The second where the first is true, else the third.
    Select(NodeId, NodeId, NodeId),
    /// The value rounded to an element type, as a store would.
    Cast(DType, NodeId),
    /// The value rounded to an element type of floats, up or down by what random bits say.
    Round(DType, NodeId, NodeId),
    /// A word of Philox: two of key, then column, row, batch and offset.
    Philox([NodeId; 6]),
    /// The element of an input with one dim at an index; nan, of integers 0, for an index out of range.
    Take(InputId, NodeId),
    /// The element of an input with two dims at two indices; nan, of integers 0, where one is out of range.
    Entry(InputId, NodeId, NodeId),
    /// A finished reduction.
    Reduce(Fold, Over, NodeId),
    /// A finished reduction of terms with weights, the first and the second operand.
    ReduceWeighted(Fold, Over, NodeId, NodeId),
    /// `of[m, index[m]]`; nan for an index out of range.
    Pick(NodeId, NodeId),
    /// Half of the columns.
    Part(Part, NodeId),
    /// Both halves of the columns.
    Merge(Merge, NodeId, NodeId),
    /// All parts of a split, in order.
    Concat(Concat, Vec<NodeId>),
    /// A function that `define` expands; never present after it.
    Call(Call, Vec<NodeId>),
}

/// A constant; floats by their bits, so that equal means identical.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Constant {
    /// The bits of an f32.
    F32(u32),
    /// An integer.
    I32(i32),
    /// A truth value.
    Bool(bool),
}

/// What a reduction folds.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Over {
    /// Folds the batch.
    pub batch: bool,
    /// Folds the rows.
    pub row: Option<Run>,
    /// Folds the columns.
    pub column: Option<Run>,
}

/// Which rows or columns are folded together.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Run {
    /// All of them.
    All,
    /// Runs of this many.
    Group(u32),
}

/// Which part of the columns.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Part {
    /// The first half (`halves`).
    First,
    /// The second half (`halves`).
    Second,
    /// Columns 0, 2, 4 (`pairs`).
    Even,
    /// Columns 1, 3, 5 (`pairs`).
    Odd,
    /// One of several equal parts, of all columns or inside each run of them.
    Equal {
        /// Counted from 0.
        index: u16,
        /// How many there are.
        count: u16,
        /// The columns of a run, a multiple of the count; `None` for all columns.
        run: Option<u32>,
    },
    /// One of several equal parts of each run, in the place of every part of the run: as many columns as there were.
    Repeated {
        /// Counted from 0.
        index: u16,
        /// How many there are.
        count: u16,
        /// The columns of a run, a multiple of the count.
        run: u32,
    },
    /// One of the parts of a [`Split`].
    Listed {
        /// By place in [`Space::splits`](super::Space::splits).
        split: u16,
        /// Counted from 0.
        index: u16,
    },
}

/// How several parts are put together; undoes [`Part::Equal`] or [`Part::Listed`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Concat {
    /// Equal parts, of all columns or inside each run of this many.
    Equal(Option<u32>),
    /// The parts of a split, by place in [`Space::splits`](super::Space::splits).
    Listed(u16),
    /// Of each run of this many columns, every part from the value that is given for it; all have the same columns.
    Repeated(u32),
}

/// Columns that are split into parts of named sizes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Split {
    /// What is split.
    pub whole: Columns,
    /// Its parts, in order.
    pub parts: Vec<Columns>,
}

/// How two halves are put together.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Merge {
    /// One after the other; undoes `halves`.
    Concat,
    /// Interleaved; undoes `pairs`.
    Join,
}

/// Which elements of its operands an element of an operation's result is made of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Dependence {
    /// None: the operation has no operands.
    Source,
    /// The element at the same place of every operand.
    Elementwise(Elementwise),
    /// All elements that are folded into it.
    Reduce(Fold, Over, NodeId),
    /// All elements of both that are folded into it; the second may vary along less.
    ReduceWeighted(Fold, Over, NodeId, NodeId),
    /// Of the first operand the column that the second one names.
    Pick(NodeId, NodeId),
    /// An element of another column.
    Part(Part, NodeId),
    /// An element of another column, of one of the operands.
    Merge(Merge, NodeId, NodeId),
    /// An element of another column, of one of the operands.
    Concat(Concat),
    /// Not known before `define` expands the call.
    Call,
}

/// A function of the operands' elements at one place; see [`Op`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Elementwise {
    /// [`Op::Unary`].
    Unary(Unary, NodeId),
    /// [`Op::Binary`].
    Binary(Binary, NodeId, NodeId),
    /// [`Op::Fma`].
    Fma(NodeId, NodeId, NodeId),
    /// [`Op::Select`].
    Select(NodeId, NodeId, NodeId),
    /// [`Op::Cast`].
    Cast(DType, NodeId),
    /// [`Op::Round`].
    Round(DType, NodeId, NodeId),
    /// [`Op::Philox`].
    Philox([NodeId; 6]),
    /// [`Op::Take`].
    Take(InputId, NodeId),
    /// [`Op::Entry`].
    Entry(InputId, NodeId, NodeId),
}

/// A function of the library, by name, with what is not a value among its arguments.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Call {
    /// The function's name in the language.
    pub function: &'static str,
    /// Whether it is its derivative in the first argument.
    pub grad: bool,
    /// For composites along a dim: what they reduce.
    pub over: Option<Over>,
    /// For `topk_softmax`: how many are kept.
    pub count: u32,
}

impl Op {
    /// The operands, in order.
    pub fn operands(&self) -> impl Iterator<Item = NodeId> + '_ {
        let (few, many): ([Option<NodeId>; 3], &[NodeId]) = match self {
            Op::Accumulator(_)
            | Op::Input(_)
            | Op::Constant(_)
            | Op::Index(_)
            | Op::Extent(_)
            | Op::Size(_) => ([None; 3], &[]),
            Op::Unary(_, a)
            | Op::Cast(_, a)
            | Op::Take(_, a)
            | Op::Reduce(_, _, a)
            | Op::Part(_, a) => ([Some(*a), None, None], &[]),
            Op::Binary(_, a, b)
            | Op::Round(_, a, b)
            | Op::Entry(_, a, b)
            | Op::Pick(a, b)
            | Op::Merge(_, a, b)
            | Op::ReduceWeighted(_, _, a, b) => ([Some(*a), Some(*b), None], &[]),
            Op::Philox(words) => ([None; 3], words),
            Op::Fma(a, b, c) | Op::Select(a, b, c) => ([Some(*a), Some(*b), Some(*c)], &[]),
            Op::Call(_, many) | Op::Concat(_, many) => ([None; 3], many),
        };
        few.into_iter().flatten().chain(many.iter().copied())
    }

    /// The same operation on other operands.
    pub fn map(&self, mut f: impl FnMut(NodeId) -> NodeId) -> Op {
        match self {
            Op::Accumulator(_)
            | Op::Input(_)
            | Op::Constant(_)
            | Op::Index(_)
            | Op::Extent(_)
            | Op::Size(_) => self.clone(),
            Op::Unary(op, a) => Op::Unary(*op, f(*a)),
            Op::Binary(op, a, b) => Op::Binary(*op, f(*a), f(*b)),
            Op::Fma(a, b, c) => Op::Fma(f(*a), f(*b), f(*c)),
            Op::Select(a, b, c) => Op::Select(f(*a), f(*b), f(*c)),
            Op::Cast(to, a) => Op::Cast(*to, f(*a)),
            Op::Round(to, a, b) => Op::Round(*to, f(*a), f(*b)),
            Op::Philox(words) => Op::Philox(words.map(f)),
            Op::Take(input, a) => Op::Take(*input, f(*a)),
            Op::Entry(input, a, b) => Op::Entry(*input, f(*a), f(*b)),
            Op::Reduce(fold, over, a) => Op::Reduce(*fold, *over, f(*a)),
            Op::ReduceWeighted(fold, over, a, b) => Op::ReduceWeighted(*fold, *over, f(*a), f(*b)),
            Op::Pick(a, b) => Op::Pick(f(*a), f(*b)),
            Op::Part(part, a) => Op::Part(*part, f(*a)),
            Op::Merge(merge, a, b) => Op::Merge(*merge, f(*a), f(*b)),
            Op::Concat(concat, parts) => {
                Op::Concat(*concat, parts.iter().map(|part| f(*part)).collect())
            }
            Op::Call(call, arguments) => {
                Op::Call(call.clone(), arguments.iter().map(|a| f(*a)).collect())
            }
        }
    }

    /// The same operation on inputs that have other numbers.
    pub(crate) fn map_input(self, moved: impl Fn(InputId) -> InputId) -> Op {
        match self {
            Op::Input(input) => Op::Input(moved(input)),
            Op::Take(table, index) => Op::Take(moved(table), index),
            Op::Entry(table, row, column) => Op::Entry(moved(table), row, column),
            op => op,
        }
    }

    /// The input whose elements are read at places that are data.
    pub(crate) const fn table(&self) -> Option<InputId> {
        match self {
            Op::Take(table, _) | Op::Entry(table, ..) => Some(*table),
            _ => None,
        }
    }

    /// Which elements of the operands an element of the result is made of.
    pub const fn dependence(&self) -> Dependence {
        let function = match self {
            Op::Accumulator(_)
            | Op::Input(_)
            | Op::Constant(_)
            | Op::Index(_)
            | Op::Extent(_)
            | Op::Size(_) => return Dependence::Source,
            Op::Unary(unary, a) => Elementwise::Unary(*unary, *a),
            Op::Binary(binary, a, b) => Elementwise::Binary(*binary, *a, *b),
            Op::Fma(a, b, c) => Elementwise::Fma(*a, *b, *c),
            Op::Select(condition, a, b) => Elementwise::Select(*condition, *a, *b),
            Op::Cast(to, a) => Elementwise::Cast(*to, *a),
            Op::Round(to, a, b) => Elementwise::Round(*to, *a, *b),
            Op::Philox(words) => Elementwise::Philox(*words),
            Op::Take(input, a) => Elementwise::Take(*input, *a),
            Op::Entry(input, a, b) => Elementwise::Entry(*input, *a, *b),
            Op::Reduce(fold, over, a) => return Dependence::Reduce(*fold, *over, *a),
            Op::ReduceWeighted(fold, over, a, b) => {
                return Dependence::ReduceWeighted(*fold, *over, *a, *b);
            }
            Op::Pick(of, index) => return Dependence::Pick(*of, *index),
            Op::Part(part, a) => return Dependence::Part(*part, *a),
            Op::Merge(merge, a, b) => return Dependence::Merge(*merge, *a, *b),
            Op::Concat(concat, _) => return Dependence::Concat(*concat),
            Op::Call(..) => return Dependence::Call,
        };
        Dependence::Elementwise(function)
    }

    /// How it folds which terms over what, if it is a reduction, with weights or without.
    pub(crate) const fn reduction(&self) -> Option<(Fold, Over, NodeId)> {
        match self {
            Op::Reduce(fold, over, terms) | Op::ReduceWeighted(fold, over, terms, _) => {
                Some((*fold, *over, *terms))
            }
            _ => None,
        }
    }

    /// The weights of its terms, if it is a reduction that takes some.
    pub(crate) const fn weights(&self) -> Option<NodeId> {
        match self {
            Op::ReduceWeighted(.., weights) => Some(*weights),
            _ => None,
        }
    }

    /// An f32 constant.
    pub fn number(value: f32) -> Op {
        Op::Constant(Constant::F32(value.to_bits()))
    }
}

impl Constant {
    /// The value, if it is an f32.
    pub fn as_f32(self) -> Option<f32> {
        match self {
            Constant::F32(bits) => Some(f32::from_bits(bits)),
            Constant::I32(_) | Constant::Bool(_) => None,
        }
    }

    /// The value, whatever its type; truth is 1.
    pub fn as_f64(self) -> f64 {
        match self {
            Constant::F32(bits) => f32::from_bits(bits) as f64,
            Constant::I32(value) => value as f64,
            Constant::Bool(value) => f64::from(u8::from(value)),
        }
    }
}

impl Over {
    /// Nothing.
    pub const NOTHING: Over = Over { batch: false, row: None, column: None };

    /// What is left of a value's axes; `None` when it lacks one that is folded, or nothing is folded.
    pub fn leaves(self, axes: Axes) -> Option<Axes> {
        let lacks = (self.batch && !axes.batch)
            || (self.row.is_some() && axes.row.is_none())
            || (self.column.is_some() && axes.column.is_none());
        if lacks || self == Over::NOTHING {
            return None;
        }
        let row = match (self.row, axes.row) {
            (None, row) => row,
            (Some(Run::All), _) | (Some(Run::Group(_)), None) => None,
            (Some(Run::Group(length)), Some(own)) => Some(own.checked_mul(length)?),
        };
        let columns = match (self.column, axes.columns()) {
            (None, columns) => columns,
            (Some(Run::All), _) | (Some(Run::Group(_)), None) => None,
            (Some(Run::Group(width)), Some(columns)) => Some(columns.divided(width)?),
        };
        Some(Axes { batch: axes.batch && !self.batch, row, ..Axes::SCALAR }.along(columns))
    }

    /// Everything that a value with these axes varies along.
    pub fn all(axes: Axes) -> Over {
        let [row, column] = [axes.row, axes.column].map(|own| own.map(|_| Run::All));
        Over { batch: axes.batch, row, column }
    }

    /// The axes whose extents multiply with [`Over::run_elements`] to the number of elements folded into one.
    pub fn extent(self, axes: Axes) -> Axes {
        let columns = match self.column {
            Some(Run::All) => axes.columns(),
            Some(Run::Group(_)) | None => None,
        };
        let row = axes.row.filter(|_| self.row == Some(Run::All));
        Axes { batch: self.batch, row, ..Axes::SCALAR }.along(columns)
    }

    /// The elements of one run of rows and columns, as far as their lengths are fixed.
    pub fn run_elements(self) -> f32 {
        let length = |run: Option<Run>| match run {
            Some(Run::Group(length)) => length as f32,
            Some(Run::All) | None => 1.0,
        };
        length(self.row) * length(self.column)
    }

    /// Whether partial results of different rows or batches meet.
    pub fn crosses_rows(self) -> bool {
        self.batch || self.row.is_some()
    }

    /// Whether it folds runs of rows or columns, which keep their dim.
    pub fn has_runs(self) -> bool {
        [self.row, self.column].iter().any(|run| matches!(run, Some(Run::Group(_))))
    }
}

impl Run {
    /// Whether a value of which there is one for `own` rows or columns differs between those that are folded together, where
    /// there is one term for each `folded`.
    pub fn varies(run: Option<Run>, folded: Option<u32>, own: Option<u32>) -> bool {
        match (run, own, folded) {
            (None, _, _) | (_, None, _) => false,
            (Some(Run::Group(length)), Some(own), Some(folded)) => {
                folded.checked_mul(length).is_none_or(|group| own % group != 0)
            }
            (Some(Run::All), Some(_), _) | (Some(Run::Group(_)), Some(_), None) => true,
        }
    }

    /// What is folded where the results of one reduction are folded by another; `None` where nothing is left to group.
    pub fn nested(inner: Option<Run>, outer: Option<Run>) -> Option<Option<Run>> {
        match (inner, outer) {
            (None, run) | (run, None) => Some(run),
            (Some(_), Some(Run::All)) => Some(Some(Run::All)),
            (Some(Run::Group(a)), Some(Run::Group(b))) => Some(Some(Run::Group(a.checked_mul(b)?))),
            (Some(Run::All), Some(Run::Group(_))) => None,
        }
    }

    /// The places that are folded into one, of this many.
    pub fn terms(run: Option<Run>, place: usize, of: usize) -> std::ops::Range<usize> {
        match run {
            None => place..place + 1,
            Some(Run::All) => 0..of,
            Some(Run::Group(length)) => place * length as usize..(place + 1) * length as usize,
        }
    }

    /// How many are folded into one, of this many.
    pub fn count(run: Option<Run>, of: usize) -> usize {
        match run {
            None => 1,
            Some(Run::All) => of,
            Some(Run::Group(length)) => length as usize,
        }
    }

    /// The result that a place is folded into.
    pub fn result(run: Option<Run>, place: usize) -> usize {
        match run {
            None => place,
            Some(Run::All) => 0,
            Some(Run::Group(length)) => place / length as usize,
        }
    }
}

impl Part {
    /// The name in printed graphs.
    pub const fn name(self) -> &'static str {
        match self {
            Part::First => "first_half",
            Part::Second => "second_half",
            Part::Even => "even",
            Part::Odd => "odd",
            Part::Equal { .. } | Part::Repeated { .. } | Part::Listed { .. } => "part",
        }
    }

    /// The parts of `halves` and `pairs`.
    pub const HALVES: [Part; 4] = [Part::First, Part::Second, Part::Even, Part::Odd];

    /// The place in a row of `width` columns of element `index` of the part; a listed part begins at `start`.
    pub const fn source(self, index: usize, width: usize, start: usize) -> usize {
        match self {
            Part::First => index,
            Part::Second => width / 2 + index,
            Part::Even => 2 * index,
            Part::Odd => 2 * index + 1,
            Part::Equal { index: part, count, run } => {
                let run = match run {
                    Some(run) => run as usize,
                    None => width,
                };
                let own = run / count as usize;
                // Without columns there is nothing to read.
                match (index.checked_div(own), index.checked_rem(own)) {
                    (Some(runs), Some(within)) => runs * run + part as usize * own + within,
                    (None, _) | (_, None) => 0,
                }
            }
            Part::Repeated { index: part, count, run } => {
                let (run, own) = (run as usize, run as usize / count as usize);
                index / run * run + part as usize * own + index % own
            }
            Part::Listed { .. } => start + index,
        }
    }
}

impl Concat {
    /// Which part, and which of its columns, is column `index` of a row of `width` that parts of these widths make.
    pub fn source(
        self,
        index: usize,
        width: usize,
        mut widths: impl ExactSizeIterator<Item = usize>,
    ) -> (usize, usize) {
        match self {
            Concat::Equal(run) => {
                let count = widths.len();
                let run = run.map_or(width, |run| run as usize);
                let own = run / count;
                (index % run / own, index / run * own + index % own)
            }
            Concat::Repeated(run) => {
                let run = run as usize;
                (index % run / (run / widths.len()), index)
            }
            Concat::Listed(_) => {
                let mut at = index;
                let part = widths.position(|own| {
                    let inside = at < own;
                    at -= if inside { 0 } else { own };
                    inside
                });
                (part.expect("compiler bug: a column beyond all parts"), at)
            }
        }
    }
}

impl Columns {
    /// The product's columns, divided by a number.
    pub const fn of_product(divisor: u32) -> Columns {
        Columns { part: 0, divisor }
    }

    /// Runs of these columns.
    pub fn divided(self, by: u32) -> Option<Columns> {
        Some(Columns { divisor: self.divisor.checked_mul(by)?, ..self })
    }
}

impl Merge {
    /// The name in the language.
    pub const fn name(self) -> &'static str {
        match self {
            Merge::Concat => "concat",
            Merge::Join => "join",
        }
    }

    /// Which operand, and which of its columns, is column `index` of a merged row of `width`.
    pub const fn source(self, index: usize, width: usize) -> (usize, usize) {
        match self {
            Merge::Concat if index < width / 2 => (0, index),
            Merge::Concat => (1, index - width / 2),
            Merge::Join => (index % 2, index / 2),
        }
    }
}
