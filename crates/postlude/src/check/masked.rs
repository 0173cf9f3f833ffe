//! Rows of each batch that are 0 from a count on: `masked(A, count) @ W.T`.
//!
//! In: the left operand of a product, or a value. Out: a product that does not use those rows, whose results are 0 there.

use crate::dtype::{DType, Elem};
use crate::graph::{Binary, Constant, IndexAxis, Input, NodeId, Op, Space};
use crate::shape::Dim;
use crate::syntax::{Ast, ExprId, ExprKind, Exprs, Span};

use super::error::CheckError;
use super::reads::assignment;
use super::{Body, Lowered};

/// The function that masks rows.
pub(super) const MASKED: &str = "masked";

/// An operand whose rows are masked.
pub(super) struct Mask<'a> {
    /// What is masked.
    pub(super) rows: ExprId,
    arguments: &'a [ExprId],
    at: Span,
}

/// What `masked(x, count)` masks, if an expression is that, or a name that is assigned so.
pub(super) fn mask(ast: &Ast, mut id: ExprId) -> Option<Mask<'_>> {
    loop {
        let expr = &ast.exprs[id];
        id = match &expr.kind {
            ExprKind::Name(name) => {
                let (_, statement) = assignment(ast, name).filter(|(_, it)| it.value.0 < id.0)?;
                Some(statement.value).filter(|_| statement.targets.len() == 1)?
            }
            ExprKind::Call { function, grad: false, arguments } if function.text == MASKED => {
                return Some(Mask { rows: *arguments.first()?, arguments, at: expr.span });
            }
            _ => return None,
        };
    }
}

/// Statements that name masked rows, which operands read.
pub(super) fn mask_statements(ast: &Ast) -> impl Iterator<Item = usize> + '_ {
    let statements = ast.statements.iter().enumerate();
    statements.filter(|(_, it)| mask(ast, it.value).is_some()).map(|(place, _)| place)
}

impl Mask<'_> {
    /// The input that counts the rows of each batch.
    pub(super) fn counts(
        &self,
        exprs: &Exprs,
        space: &Space,
        inputs: &[Input],
    ) -> Result<String, CheckError> {
        let name = match self.arguments {
            [_, count] => match &exprs[*count].kind {
                ExprKind::Name(name) => Some(name),
                _ => None,
            },
            _ => None,
        };
        let counts = |input: &&Input| {
            let dims: Option<&[Dim]> = input.dims.as_deref();
            Some(&input.name) == name
                && input.dtype == DType::I32
                && !space.is_segmented()
                && matches!(dims, Some([batch]) if space.batch == [batch.clone()])
        };
        let found = inputs.iter().find(counts).map(|input| input.name.clone());
        let x = exprs.display(self.rows).to_string();
        found.ok_or(CheckError::MaskedCounts { x, at: self.at })
    }
}

impl Body<'_> {
    /// `masked(x, count)` as a value.
    pub(super) fn lower_masked(&mut self, arguments: &[ExprId], at: Span) -> Lowered {
        let [x, counts] = [0, 1].map(|place| self.lowered[&arguments[place]]);
        let x_at = self.exprs[arguments[0]].span;
        let (Some(x), Some(counts)) = (self.settle(x, x_at), self.settle(counts, at)) else {
            return Lowered::Poison;
        };
        let ty = self.graph.ty(counts);
        let fits = ty.elem == Elem::I32 && ty.axes.row.is_none() && ty.axes.column.is_none();
        if !fits || self.graph.ty(x).elem == Elem::Bool {
            let x = self.exprs.display(arguments[0]).to_string();
            return self.report(CheckError::MaskedCounts { x, at });
        }
        self.mask(x, counts, at)
    }

    /// A value whose rows are 0 from a count on.
    pub(super) fn mask(&mut self, value: NodeId, counts: NodeId, at: Span) -> Lowered {
        let row = self.graph.make(Op::Index(IndexAxis::Row));
        let zero = match self.graph.ty(value).elem {
            Elem::I32 => Op::Constant(Constant::I32(0)),
            Elem::F32 | Elem::Bool => Op::number(0.0),
        };
        let zero = self.graph.make(zero);
        let used = self.graph.make(Op::Binary(Binary::Less, row, counts));
        self.node(Op::Select(used, value, zero), at)
    }
}
