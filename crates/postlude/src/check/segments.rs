//! Rows that are cut into segments: `segments(A, ends) @ W.T`.
//!
//! In: the left operand of a product. Out: what is cut, and the input that says where each segment ends. Invariant: values
//! of segmented rows are read by graphs of the same segments only, since rows behind the last end are never written.

use crate::dtype::DType;
use crate::graph::{Fold, Graph, Input, NodeId, Op, Over, Run, Space};
use crate::shape::Dim;
use crate::syntax::{ExprId, ExprKind, Exprs, Span};

use super::error::CheckError;
use super::program::Unit;
use super::{Body, Lowered};

/// The function that cuts rows.
pub(super) const SEGMENTS: &str = "segments";

/// An operand whose rows are cut.
#[derive(Clone, Copy)]
pub(super) struct Cut<'a> {
    /// What is cut.
    pub(super) rows: ExprId,
    arguments: &'a [ExprId],
    at: Span,
}

/// What `segments(x, ends)` cuts, if an expression is that.
pub(super) fn cut(exprs: &Exprs, id: ExprId) -> Option<Cut<'_>> {
    match &exprs[id].kind {
        ExprKind::Call { function, grad: false, arguments } if function.text == SEGMENTS => {
            Some(Cut { rows: *arguments.first()?, arguments, at: exprs[id].span })
        }
        _ => None,
    }
}

impl Cut<'_> {
    /// The space of the product whose left operand is cut.
    pub(super) fn space(
        self,
        exprs: &Exprs,
        (space, inputs): (Space, &[Input]),
        inner: &Dim,
        is_matrix: bool,
    ) -> Result<Space, CheckError> {
        let at = self.at;
        let [_, ends] = *self.arguments else {
            return Err(CheckError::SegmentsEnds { at });
        };
        let ExprKind::Name(name) = &exprs[ends].kind else {
            return Err(CheckError::SegmentsEnds { at: exprs[ends].span });
        };
        let ends_at = exprs[ends].span;
        let declared = inputs.iter().find(|input| input.name == *name && input.computed.is_none());
        let declared = declared.ok_or(CheckError::SegmentsEnds { at: ends_at })?;
        let is_list = declared.dims.as_ref().is_some_and(|dims| dims.len() == 1)
            && declared.dtype == DType::I32;
        if !is_list {
            return Err(CheckError::SegmentsEnds { at: ends_at });
        }
        let own = declared.dims.iter().flatten().next();
        let is_inner = own.is_some_and(|dim| dim.same_base(inner));
        let segments = own.map_or_else(String::new, ToString::to_string);
        let wrong = CheckError::SegmentsDims { segments, at };
        space.segmented(declared).filter(|_| is_matrix && !is_inner).ok_or(wrong)
    }
}

impl Unit<'_> {
    /// Reports a value whose rows behind the last end are not written, where a graph with these segments reads all rows.
    pub(super) fn check_written(
        self,
        input: &Input,
        segments: Option<&String>,
        at: Span,
    ) -> Result<(), CheckError> {
        match self.computed.unwritten(&input.name) {
            Some(ends) if segments != Some(&ends) => {
                Err(CheckError::SegmentsUnwritten { ends, at })
            }
            Some(_) | None => Ok(()),
        }
    }
}

/// The input that says where the segments of a computed value's rows end, if it has such rows.
pub(super) fn unwritten(input: &Input) -> Option<String> {
    let graph: &Graph = input.computed.as_deref()?;
    let space = graph.space();
    let has_rows = input.dims.iter().flatten().any(|dim| space.row_run(dim).is_some());
    space.segments.clone().filter(|_| has_rows)
}

impl Body<'_> {
    /// A reduction of segmented rows. Segments are folded by a reduction of their own, behind that of their rows.
    pub(super) fn fold_segments(
        &mut self,
        fold: Option<Fold>,
        name: &str,
        (over, node): (Over, NodeId),
        at: Span,
    ) -> Option<Lowered> {
        if !self.graph.space().is_segmented() || over.row.is_none() {
            return None;
        }
        if matches!(over.row, Some(Run::Group(_))) {
            return Some(self.report(CheckError::SegmentsRuns { at }));
        }
        let has_index = matches!(fold, Some(Fold::ArgMax | Fold::ArgMin));
        if !over.batch && !has_index {
            return None;
        }
        let Some(
            fold
            @ (Fold::Sum | Fold::Prod | Fold::Max | Fold::Min | Fold::AbsMax | Fold::LogSumExp),
        ) = fold
        else {
            let function = name.to_owned();
            return Some(self.report(CheckError::SegmentsFold { function, at }));
        };
        let of_rows = self.node(Op::Reduce(fold, Over { batch: false, ..over }, node), at);
        let Lowered::Node(of_rows) = of_rows else { return Some(of_rows) };
        let all = Over { batch: true, ..Over::NOTHING };
        Some(self.node(Op::Reduce(fold, all, of_rows), at))
    }
}
