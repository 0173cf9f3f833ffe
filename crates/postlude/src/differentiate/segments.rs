//! Rows that are cut into segments: products of cut operands, and sums over the rows of each segment.
//!
//! A value that varies along cut rows has no dim of the segments: its rows say which segment it is in. Sums over cut rows
//! are sums of `segments(x, ends)`, so that rows behind the last end, whose cotangents mean nothing, do not count.

use crate::dtype::{DType, Elem};
use crate::shape::Dim;
use crate::syntax::{Ast, ExprId, ExprKind, Signature, Statement};

use super::dims::product;
use super::error::GradError;
use super::{Sweep, called};

/// The function that cuts rows.
pub(super) const SEGMENTS: &str = "segments";

/// Rows that are cut.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Cut {
    pub(super) row: Dim,
    /// The dim that numbers the segments.
    pub(super) segment: Dim,
    /// The input that says where they end.
    pub(super) ends: String,
}

impl Cut {
    /// What `segments(x, ends)` cuts.
    pub(super) fn of(
        signature: &Signature,
        ast: &Ast,
        row: Option<Dim>,
        ends: ExprId,
    ) -> Option<Cut> {
        let row = row?;
        let ExprKind::Name(ends) = &ast.exprs[ends].kind else { return None };
        let input = signature.inputs.iter().find(|input| input.name.text == *ends)?;
        let [segment] = input.dims.as_deref()? else { return None };
        Some(Cut { row, segment: segment.clone(), ends: ends.clone() })
    }
}

/// An operand that is cut, and what is cut.
struct CutOperand {
    cut: Cut,
    rows: ExprId,
}

impl Sweep<'_> {
    /// Refuses rows that are cut in one place, and not so in another: what lies behind the last end would count there.
    pub(super) fn refuse_mixed_rows(&self) -> Result<(), GradError> {
        let twice = |cut: &Cut| self.cuts.iter().any(|other| other.row == cut.row && other != cut);
        let mut made_of_cut: Vec<bool> = Vec::with_capacity(self.ast.exprs.len());
        for (id, expr) in self.ast.exprs.iter() {
            let is_cut =
                matches!(&expr.kind, ExprKind::Call { function, .. } if function.text == SEGMENTS);
            let assigned = match &expr.kind {
                ExprKind::Name(name) => self.assigned(name).filter(|value| *value < id),
                _ => None,
            };
            let of = |child: ExprId| made_of_cut[child.0 as usize];
            let is_product = matches!(expr.kind, ExprKind::Product(..));
            let mixed = expr.kind.children().find_map(|child| {
                let cut = self.cut_of(child)?;
                let wrong = is_product && !of(child) || is_cut && twice(cut);
                wrong.then(|| cut.row.to_string())
            });
            if let Some(row) = mixed {
                return Err(GradError::MixedRows { row, at: expr.span });
            }
            made_of_cut.push(is_cut || expr.kind.children().any(of) || assigned.is_some_and(of));
        }
        for output in &self.signature.outputs {
            let Some(value) = self.assigned(&output.name.text) else { continue };
            if let Some(cut) = self.cut_of(value).filter(|_| !made_of_cut[value.0 as usize]) {
                let (row, at) = (cut.row.to_string(), output.name.span);
                return Err(GradError::MixedRows { row, at });
            }
        }
        Ok(())
    }

    /// The value that a statement gives a name.
    pub(super) fn assigned(&self, name: &str) -> Option<ExprId> {
        let assigns = |it: &&Statement| it.targets.iter().any(|target| target.text == name);
        self.ast.statements.iter().find(assigns).map(|statement| statement.value)
    }

    /// The rows that a value has, where they are cut.
    pub(super) fn cut_of(&self, value: ExprId) -> Option<&Cut> {
        let dims = self.dims_of(value);
        self.cuts.iter().find(|cut| dims.contains(&cut.row))
    }

    /// `segments(value, ends)`.
    pub(super) fn segmented(&mut self, cut: &Cut, value: ExprId) -> ExprId {
        let dims = self.dims_of(value).to_vec();
        let ends = self.push(ExprKind::Name(cut.ends.clone()), vec![cut.segment.clone()]);
        self.push(called(SEGMENTS, false, vec![value, ends]), dims)
    }

    /// A derivative of an input that has cut rows: those behind the last end are not written.
    pub(super) fn of_segments(&mut self, value: ExprId) -> ExprId {
        let cut = self.cut_of(value).cloned();
        match (cut, &self.exprs[value].kind) {
            (None, _) | (_, ExprKind::Product(..)) => value,
            (Some(cut), _) => self.segmented(&cut, value),
        }
    }

    fn cut_operand(&self, operand: ExprId) -> Option<CutOperand> {
        let (mut id, _) = self.untransposed(operand);
        loop {
            match &self.exprs[id].kind {
                ExprKind::Name(name) => {
                    let assigned = self.ast.statements.iter();
                    let mut assigned = assigned.filter(|it| it.targets[0].text == *name);
                    (id, _) = self.untransposed(assigned.next()?.value);
                }
                ExprKind::Call { function, arguments, .. } if function.text == SEGMENTS => {
                    let (rows, cut) = (arguments[0], self.cut_of(arguments[0])?.clone());
                    return Some(CutOperand { cut, rows });
                }
                _ => return None,
            }
        }
    }

    /// A product of cut operands, if it is one: each derivative is a product of what is cut the same way.
    pub(super) fn pass_cut_product(
        &mut self,
        id: ExprId,
        (a, b): (ExprId, ExprId),
        cotangent: ExprId,
    ) -> Result<bool, GradError> {
        let Some(left) = self.cut_operand(a) else { return Ok(false) };
        let right = self.cut_operand(b);
        let dtypes = [left.rows, right.as_ref().map_or(b, |right| right.rows)];
        let dtypes = dtypes.map(|operand| self.operand_dtype(operand));
        let at = self.ast.exprs[id].span;
        if let Some(dtype) = dtypes.into_iter().find(|dtype| dtype.elem() != Elem::F32) {
            return Err(GradError::Product { dtype, at });
        }
        let [.., row, column] = self.dims_of(id) else { return Ok(true) };
        let pair = [row.clone(), column.clone()];
        // Operands of 8 bits are widened: a cotangent has more range than they.
        let wide = |dtype: DType| if dtype.bits() == 8 { DType::BF16 } else { dtype };
        let [left_dtype, right_dtype] = dtypes.map(wide);
        let whole = self.with_dims_of(cotangent, id, &pair);
        let whole = self.cast(left_dtype, whole);
        let both = self.active[a.0 as usize] && self.active[b.0 as usize];
        let whole = if both { self.shared(whole) } else { whole };
        let as_is = self.pairs([whole]) == [Some(pair)];
        let whole = self.turned(whole, !as_is);
        let rows = self.cut_again(&left, left_dtype);
        let [of_left, of_right] = match right {
            // D = segments(A) @ B: dA = segments(C) @ B.T, and dB = segments(A).T @ segments(C).
            None => {
                let other = self.rounded(right_dtype, b);
                let other = self.turned(other, true);
                let whole = self.segmented(&left.cut, whole);
                let swapped = self.untransposed(b).1;
                let of_right = if swapped { (whole, rows) } else { (rows, whole) };
                let turned = self.turned(of_right.0, true);
                [(whole, other), (turned, of_right.1)]
            }
            // D = segments(A).T @ segments(B): dA = segments(B) @ C.T, and dB = segments(A) @ C.
            Some(right) => {
                let columns = self.cut_again(&right, right_dtype);
                let turned = self.turned(whole, true);
                [(columns, turned), (rows, whole)]
            }
        };
        for (own, (first, second)) in [(a, of_left), (b, of_right)] {
            if self.active[own.0 as usize] {
                let (inner, _) = self.untransposed(own);
                let value = self.product(first, second);
                let made = self.dims_of(value).to_vec();
                let wanted = self.dims_of(inner).to_vec();
                let value = self.reduced_to(value, &made, &wanted);
                self.add(inner, value);
            }
        }
        Ok(true)
    }

    /// What a cut operand cuts, rounded and cut again.
    fn cut_again(&mut self, operand: &CutOperand, dtype: DType) -> ExprId {
        let rows = self.rounded(dtype, operand.rows);
        self.segmented(&operand.cut, rows)
    }

    /// What is f32 need not say so.
    fn rounded(&mut self, dtype: DType, value: ExprId) -> ExprId {
        if dtype == DType::F32 { value } else { self.cast(dtype, value) }
    }

    /// A product; of two cut operands it has the dim of the segments.
    fn product(&mut self, first: ExprId, second: ExprId) -> ExprId {
        let pairs = self.pairs([first, second]);
        let dims = product([self.dims_of(first), self.dims_of(second)], pairs, &self.cuts);
        self.push(ExprKind::Product(first, second), dims)
    }
}
