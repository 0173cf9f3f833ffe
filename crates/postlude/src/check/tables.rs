//! Inputs that are read as tables, whatever their dims, and sizes and indices of dims.

use crate::dtype::{DType, Elem};
use crate::graph::{IndexAxis, InputId, Op};
use crate::shape::{self, Dim};
use crate::syntax::{ExprId, ExprKind, Span, nearest};

use super::error::CheckError;
use super::program::Unit;
use super::reads::gathers;
use super::{Body, Lowered, dims, segments};

/// Which argument of a function is a seed.
pub(super) fn seed_place(function: &str) -> Option<usize> {
    match function {
        "philox" | "uniform" | "normal" => Some(0),
        "dropout" => Some(2),
        name if DType::from_name(name).is_some() => Some(1),
        _ => None,
    }
}

impl Body<'_> {
    /// Whether an argument is an input that is read as a table, and not as a value.
    pub(super) fn is_table_argument(
        &self,
        function: &str,
        arguments: &[ExprId],
        place: usize,
    ) -> bool {
        let id = arguments[place];
        if function == segments::SEGMENTS {
            // An operand of a product has other rows than the body, or another contraction.
            return place > 0 || !self.has_rows_of(arguments);
        }
        if gathers(function) {
            return place == 0 || function == "combine";
        }
        if function == "take" && place == 0 {
            return self.table(id).is_some();
        }
        seed_place(function) == Some(place) && self.seed_table(id).is_some()
    }

    /// The input with one dim that a name or an annotated name is.
    fn table(&self, id: ExprId) -> Option<InputId> {
        let (ExprKind::Name(name) | ExprKind::Annotated(name, _)) = &self.exprs[id].kind else {
            return None;
        };
        let place = self.inputs.iter().position(|input| input.name.text == *name)?;
        let dims = self.inputs[place].dims.as_ref()?;
        let agrees = match &self.exprs[id].kind {
            ExprKind::Annotated(_, written) => written == dims,
            _ => true,
        };
        (dims.len() == 1 && agrees).then_some(InputId(place as u32))
    }

    /// The input `i32[2]` that a seed is.
    pub(super) fn seed_table(&self, id: ExprId) -> Option<InputId> {
        let table = self.table(id)?;
        let input = &self.inputs[table.0 as usize];
        let two = input.dims.as_deref() == Some(&[Dim::Size(2)]);
        (two && input.dtype == DType::I32).then_some(table)
    }

    /// `take(table, index)`; integers become floats, so that an index out of range can give nan.
    pub(super) fn lower_take(&mut self, arguments: &[ExprId], at: Span) -> Lowered {
        let index_at = self.exprs[arguments[1]].span;
        let index = self.settle(self.lowered[&arguments[1]], index_at);
        let table = self.table(arguments[0]);
        let Some(table) =
            table.filter(|table| self.inputs[table.0 as usize].dtype.elem() != Elem::Bool)
        else {
            let at = self.exprs[arguments[0]].span;
            return self.report(CheckError::TakeTable { at });
        };
        let Some(index) = index else { return Lowered::Poison };
        let elem = self.graph.ty(index).elem;
        if elem != Elem::I32 {
            return self.report(CheckError::TakeIndex { elem, at: index_at });
        }
        let taken = self.node(Op::Take(table, index), at);
        let Lowered::Node(taken) = taken else { return taken };
        match self.graph.ty(taken).elem {
            Elem::I32 => {
                let dims = self.inputs[table.0 as usize].dims.clone().unwrap_or_default();
                self.inside_or_nan(&dims[0], index, taken, at)
            }
            Elem::F32 | Elem::Bool => Lowered::Node(taken),
        }
    }

    /// `size(dim)` of a dim that some tensor has.
    pub(super) fn lower_size(&mut self, id: ExprId, at: Span) -> Lowered {
        let Some(dim) = dims::read(self.exprs, id) else {
            return self.report(CheckError::DimExpected { at: self.exprs[id].span });
        };
        if let Dim::Size(size) = dim {
            return Lowered::Integer(i64::from(size));
        }
        // Sizes are the kernel's: a graph that computes a part of it may read tensors without the dim.
        let kernel = self.unit.map(Unit::signature_inputs);
        let declared = || {
            let all = self.inputs.iter().chain(kernel.into_iter().flatten());
            all.filter_map(|input| input.dims.as_ref()).flatten()
        };
        if !declared().any(|known| known.same_base(&dim)) {
            let names: Vec<String> = declared().map(Dim::to_string).collect();
            let text = dim.to_string();
            let nearest = nearest(&text, names.iter().map(String::as_str).collect::<Vec<_>>());
            let nearest = nearest.map(str::to_owned);
            return self.report(CheckError::UnknownSize { dim: text, nearest, at });
        }
        self.sizes.push(dim);
        Lowered::Size(self.sizes.len() - 1)
    }

    /// `index(dim)`: the place along the batch, the rows or the columns.
    pub(super) fn lower_index(&mut self, id: ExprId, at: Span) -> Lowered {
        let Some(dim) = dims::read(self.exprs, id) else {
            return self.report(CheckError::DimExpected { at: self.exprs[id].span });
        };
        let space = self.graph.space();
        let batch = space.batch.iter().position(|batch| *batch == dim);
        let axis = if let Some(place) = batch {
            match space.batch.len() {
                1 => IndexAxis::Batch,
                _ => IndexAxis::BatchDim(place as u8),
            }
        } else if space.row == dim {
            IndexAxis::Row
        } else if space.column == dim {
            IndexAxis::Column
        } else {
            let known = shape::list(&space.dims(space.accumulator_axes()));
            return self.report(CheckError::IndexDim { dim: dim.to_string(), known, at });
        };
        self.node(Op::Index(axis), at)
    }
}
