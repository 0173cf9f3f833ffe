//! Rows of a tensor in memory, by their numbers: `gather(X, index)` and `combine(D, position, weight)`.
//!
//! In: the call. Out: elements of a table, whose column is the body's own. Invariant: a row that is not there, or that no
//! segment has written, gives nan and is not read.

use crate::dtype::{DType, Elem};
use crate::graph::{Binary, Constant, IndexAxis, Input, InputId, NodeId, Op};
use crate::shape::Dim;
use crate::syntax::{ExprId, ExprKind, Span};

use super::error::CheckError;
use super::stack::MOST_TOP;
use super::{Body, Lowered};

/// A tensor in memory whose rows are read by their numbers.
struct Table {
    input: InputId,
    rows: Dim,
    elem: Elem,
    /// The input that says where rows end that were written, if not all were.
    ends: Option<InputId>,
}

impl Body<'_> {
    /// `gather(X, index)`.
    pub(super) fn lower_gather(&mut self, arguments: &[ExprId], at: Span) -> Lowered {
        let index_at = self.exprs[arguments[1]].span;
        let Some(index) = self.settle(self.lowered[&arguments[1]], index_at) else {
            return Lowered::Poison;
        };
        let ty = self.graph.ty(index);
        if ty.elem != Elem::I32 || ty.axes.column.is_some() {
            let has = self.dims_text(index);
            return self.report(CheckError::GatherIndex { elem: ty.elem, has, at: index_at });
        }
        let Some(table) = self.rows_table("gather", arguments[0]) else { return Lowered::Poison };
        self.row_of(&table, index, at)
    }

    /// `combine(D, position, weight)`.
    pub(super) fn lower_combine(&mut self, arguments: &[ExprId], at: Span) -> Lowered {
        let lists = [self.list(arguments[1]), self.list(arguments[2])];
        let row = self.graph.space().row.to_string();
        let [Some((positions, count, Elem::I32)), Some((weights, also, Elem::F32))] = lists else {
            return self.report(CheckError::CombineLists { row, at });
        };
        if count != also {
            return self.report(CheckError::CombineLists { row, at });
        }
        let Some(table) = self.rows_table("combine", arguments[0]) else { return Lowered::Poison };
        let own = self.graph.make(Op::Index(IndexAxis::Row));
        let mut total: Option<NodeId> = None;
        for place in 0..count {
            let place = self.graph.make(Op::Constant(Constant::I32(place as i32)));
            let position = self.graph.make(Op::Entry(positions, own, place));
            let weight = self.graph.make(Op::Entry(weights, own, place));
            let Lowered::Node(row) = self.row_of(&table, position, at) else {
                return Lowered::Poison;
            };
            let term = self.graph.make(Op::Binary(Binary::Multiply, weight, row));
            total = Some(match total {
                Some(total) => self.graph.make(Op::Binary(Binary::Add, total, term)),
                None => term,
            });
        }
        total.map_or(Lowered::Poison, Lowered::Node)
    }

    /// An input `[T, k]`, its k, and what its elements are.
    fn list(&self, id: ExprId) -> Option<(InputId, u32, Elem)> {
        let place = self.declared(id)?;
        let input = &self.inputs[place];
        let [row, Dim::Size(count)] = input.dims.as_deref()? else { return None };
        let fits = *row == self.graph.space().row && (1..=MOST_TOP).contains(&i64::from(*count));
        fits.then(|| (InputId(place as u32), *count, input.dtype.elem()))
    }

    /// The place of the input that a name is.
    fn declared(&self, id: ExprId) -> Option<usize> {
        let ExprKind::Name(name) = &self.exprs[id].kind else { return None };
        self.inputs.iter().position(|input| input.name.text == *name)
    }

    /// The tensor whose rows are read: an input, or a value that a graph stores.
    fn rows_table(&mut self, function: &'static str, id: ExprId) -> Option<Table> {
        let at = self.exprs[id].span;
        let (input, ends) = match self.declared(id) {
            Some(place) => (InputId(place as u32), None),
            None => self.stored_table(id)?,
        };
        let Input { dims, dtype, .. } = &self.graph.inputs()[input.0 as usize];
        let (space, elem) = (self.graph.space(), dtype.elem());
        let column = space.column.clone();
        match dims.as_deref() {
            Some([rows, own])
                if *own == column && !space.batch.contains(rows) && elem != Elem::Bool =>
            {
                Some(Table { input, rows: rows.clone(), elem, ends })
            }
            Some(_) | None => {
                let column = column.to_string();
                self.report(CheckError::GatherTable { function, column, at });
                None
            }
        }
    }

    /// The input that has an expression's value, and the ends of its segments where it has some.
    fn stored_table(&mut self, id: ExprId) -> Option<(InputId, Option<InputId>)> {
        let unit = self.unit?;
        let stored = unit.input(id, "table", &mut self.errors)?.input;
        let place_of = |body: &Self, name: &str| {
            let inputs = body.graph.inputs();
            inputs.iter().position(|known| known.name == name).map(|it| InputId(it as u32))
        };
        let ends = unit.computed.unwritten(&stored.name);
        let ends = ends.and_then(|ends| place_of(self, &ends));
        let known = place_of(self, &stored.name);
        Some((known.unwrap_or_else(|| self.graph.push_input(stored)), ends))
    }

    /// The body's column of a row; integers become floats, so that a row that is not there can be nan.
    fn row_of(&mut self, table: &Table, index: NodeId, at: Span) -> Lowered {
        let index = match table.ends {
            Some(ends) => self.written_row(ends, index),
            None => index,
        };
        let column = self.graph.make(Op::Index(IndexAxis::Column));
        let element = self.node(Op::Entry(table.input, index, column), at);
        match (element, table.elem) {
            (Lowered::Node(element), Elem::I32) => {
                self.inside_or_nan(&table.rows, index, element, at)
            }
            (element, _) => element,
        }
    }

    /// The row, or none where no segment has it.
    fn written_row(&mut self, ends: InputId, index: NodeId) -> NodeId {
        let dims = self.graph.inputs()[ends.0 as usize].dims.clone().unwrap_or_default();
        let mut make = |op: Op| self.graph.make(op);
        let count = make(Op::Size(dims[0].clone()));
        let [one, none] = [1, -1].map(|value| make(Op::Constant(Constant::I32(value))));
        let last = make(Op::Binary(Binary::Subtract, count, one));
        let end = make(Op::Take(ends, last));
        let written = make(Op::Binary(Binary::Less, index, end));
        make(Op::Select(written, index, none))
    }

    /// A value of integers as f32, and nan where an index is outside of a dim.
    pub(super) fn inside_or_nan(
        &mut self,
        dim: &Dim,
        index: NodeId,
        taken: NodeId,
        at: Span,
    ) -> Lowered {
        let size = self.graph.make(Op::Size(dim.clone()));
        let zero = self.graph.make(Op::Constant(Constant::I32(0)));
        let nan = self.graph.make(Op::number(f32::NAN));
        let value = self.graph.make(Op::Cast(DType::F32, taken));
        let from = self.graph.make(Op::Binary(Binary::LessEqual, zero, index));
        let below = self.graph.make(Op::Binary(Binary::Less, index, size));
        let inside = self.graph.make(Op::Binary(Binary::And, from, below));
        for node in [value, from, below, inside] {
            self.note_parts(node, &[index]);
        }
        self.node(Op::Select(inside, value, nan), at)
    }
}
