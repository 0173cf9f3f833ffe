//! Rows that are cut into segments: `segments(A, ends) @ W.T`, contractions: `segments(A, ends).T @ segments(B, ends)`, and
//! values: `sum(segments(G, ends), T)`.
//!
//! In: the operands of a product, or the values of a body. Out: what is cut, and the input that says where each segment
//! ends. Invariant: values of segmented rows are read by graphs of the same segments only, since rows behind the last end
//! are never written.

use std::collections::HashSet;

use crate::dtype::DType;
use crate::graph::{Fold, Graph, Input, NodeId, Op, Orientation, Over, Product, Run, Space};
use crate::shape::Dim;
use crate::syntax::{Ast, Declaration, ExprId, ExprKind, Exprs, Span};

use super::error::CheckError;
use super::program::Unit;
use super::reads::assignment;
use super::separate::is_separate;
use super::{Body, Lowered};

/// The function that cuts rows.
pub(super) const SEGMENTS: &str = "segments";

/// An operand whose rows are cut.
#[derive(Clone, Copy)]
pub(super) struct Cut<'a> {
    /// What is cut.
    pub(super) rows: ExprId,
    /// Whether `.T` makes columns of the rows.
    pub(super) orientation: Orientation,
    /// The call.
    pub(super) call: ExprId,
    arguments: &'a [ExprId],
    at: Span,
}

impl<'a> Cut<'a> {
    /// The name of the input that says where segments end.
    pub(super) fn ends(self, exprs: &'a Exprs) -> Option<&'a str> {
        let [_, ends] = self.arguments else { return None };
        match &exprs[*ends].kind {
            ExprKind::Name(name) => Some(name.as_str()),
            _ => None,
        }
    }

    /// The input that says where segments end: a list that the caller passes.
    fn list<'b>(self, exprs: &Exprs, inputs: &'b [Input]) -> Result<&'b Input, CheckError> {
        let at = self.arguments.get(1).map_or(self.at, |ends| exprs[*ends].span);
        let is_list = |input: &&Input| {
            input.dims.as_ref().is_some_and(|dims| dims.len() == 1)
                && input.dtype == DType::I32
                && input.computed.is_none()
        };
        let name = self.ends(exprs);
        let mut named = inputs.iter().filter(|input| Some(input.name.as_str()) == name);
        named.find(is_list).ok_or(CheckError::SegmentsEnds { at })
    }

    /// The dim that numbers the segments, where it is known.
    pub(super) fn dim(self, exprs: &Exprs, declarations: &[Declaration]) -> Option<Dim> {
        let name = self.ends(exprs)?;
        let ends = declarations.iter().find(|input| input.name.text == name)?;
        ends.dims.as_ref()?.first().cloned()
    }

    /// A space of what is cut, with its rows cut.
    pub(super) fn apply(
        self,
        exprs: &Exprs,
        space: Option<Space>,
        inputs: &[Input],
    ) -> Result<Space, CheckError> {
        let ends = self.list(exprs, inputs)?;
        let own = ends.dims.iter().flatten().map(Dim::to_string).collect();
        let space = space.filter(|space| space.batch.is_empty());
        let wrong = CheckError::SegmentsDims { segments: own, at: self.at };
        space.and_then(|space| space.segmented(ends)).ok_or(wrong)
    }
}

/// The first of the segments that some values are made of outside of operands.
pub(super) fn cut_values(ast: &Ast, roots: impl Iterator<Item = ExprId>) -> Option<Cut<'_>> {
    let mut open: Vec<ExprId> = roots.collect();
    let mut seen: HashSet<ExprId> = HashSet::new();
    let mut found: Option<(ExprId, Cut<'_>)> = None;
    while let Some(id) = open.pop() {
        if !seen.insert(id) {
            continue;
        }
        let expr = &ast.exprs[id];
        match &expr.kind {
            kind if is_separate(kind) => continue,
            ExprKind::Name(name) => {
                open.extend(assignment(ast, name).map(|(_, statement)| statement.value));
            }
            ExprKind::Call { function, grad: false, arguments } if function.text == SEGMENTS => {
                let (orientation, at) = (Orientation::Plain, expr.span);
                let rows = arguments
                    .first()
                    .copied()
                    .filter(|_| found.as_ref().is_none_or(|(before, _)| id.0 < before.0));
                if let Some(rows) = rows {
                    found = Some((id, Cut { rows, orientation, call: id, arguments, at }));
                }
            }
            _ => {}
        }
        open.extend(expr.kind.children());
    }
    found.map(|(_, cut)| cut)
}

/// What `segments(x, ends)` cuts, if an expression is that, or a name that is assigned so.
pub(super) fn cut(ast: &Ast, id: ExprId) -> Option<Cut<'_>> {
    let (mut id, mut orientation) = (id, Orientation::Plain);
    loop {
        let expr = &ast.exprs[id];
        id = match &expr.kind {
            ExprKind::Transpose(of) => {
                orientation = orientation.turned();
                *of
            }
            ExprKind::Name(name) => {
                let (_, statement) = assignment(ast, name).filter(|(_, it)| it.value.0 < id.0)?;
                Some(statement.value).filter(|_| statement.targets.len() == 1)?
            }
            ExprKind::Call { function, grad: false, arguments } if function.text == SEGMENTS => {
                let (rows, at) = (*arguments.first()?, expr.span);
                return Some(Cut { rows, orientation, call: id, arguments, at });
            }
            _ => return None,
        };
    }
}

/// How the operands of a product are cut.
#[derive(Clone, Copy)]
pub(super) enum Cuts<'a> {
    /// They are not.
    None,
    /// The rows of the left one: `segments(A, ends) @ W.T`.
    Rows(Cut<'a>),
    /// The contraction: `segments(A, ends).T @ segments(B, ends)`.
    Contraction([Cut<'a>; 2]),
}

impl<'a> Cuts<'a> {
    /// Those of the operands of a product.
    pub(super) fn of(ast: &'a Ast, operands: [ExprId; 2]) -> Result<Cuts<'a>, CheckError> {
        match operands.map(|id| cut(ast, id)) {
            [None, None] => Ok(Cuts::None),
            [Some(left), None] if left.orientation == Orientation::Plain => Ok(Cuts::Rows(left)),
            [Some(left), Some(right)]
                if left.orientation == Orientation::Transposed
                    && right.orientation == Orientation::Plain =>
            {
                Ok(Cuts::Contraction([left, right]))
            }
            [Some(cut), _] | [None, Some(cut)] => Err(CheckError::SegmentsPlace { at: cut.at }),
        }
    }

    /// What is multiplied, without the cuts.
    pub(super) fn operands(self, [left, right]: [ExprId; 2]) -> [ExprId; 2] {
        match self {
            Cuts::None => [left, right],
            Cuts::Rows(cut) => [cut.rows, right],
            Cuts::Contraction(both) => both.map(|cut| cut.rows),
        }
    }

    /// How each operand is cut.
    pub(super) fn each(self) -> [Option<Cut<'a>>; 2] {
        match self {
            Cuts::None => [None; 2],
            Cuts::Rows(cut) => [Some(cut), None],
            Cuts::Contraction(both) => both.map(Some),
        }
    }

    /// The input that says where segments end, which an operand's rows may be written up to.
    pub(super) fn ends(self, exprs: &'a Exprs) -> [Option<&'a str>; 2] {
        self.each().map(|cut| cut?.ends(exprs))
    }

    /// The space and the product of cut operands; `batches` are those of the operands themselves.
    pub(super) fn apply(
        self,
        exprs: &'a Exprs,
        (space, mut product): (Space, Product),
        inputs: &[Input],
        batches: [&[Dim]; 2],
    ) -> Result<(Space, Product), CheckError> {
        let [left, right] = self.ends(exprs);
        let cut = match self {
            Cuts::None => return Ok((space, product)),
            Cuts::Rows(cut) | Cuts::Contraction([cut, _]) => cut,
        };
        let ends = cut.list(exprs, inputs)?;
        let own = &ends.dims.as_deref().unwrap_or_default()[0];
        let wrong = CheckError::SegmentsDims { segments: own.to_string(), at: cut.at };
        if own.same_base(&product.inner) || !batches[0].is_empty() {
            return Err(wrong);
        }
        match self {
            Cuts::Contraction(both) if left != right => {
                Err(CheckError::SegmentsEnds { at: both[1].at })
            }
            Cuts::Contraction(_) => {
                let fits = batches[1].is_empty() && product.scales.is_empty();
                let whole = space.segmented(ends).filter(|_| fits).ok_or(wrong)?;
                product.segments.clone_from(&whole.segments);
                Ok((Space { segments: None, ..whole }, product))
            }
            Cuts::Rows(_) | Cuts::None => Ok((space.segmented(ends).ok_or(wrong)?, product)),
        }
    }
}

/// Statements that name segments: operands read them, and no value of a body is one.
pub(super) fn cut_statements(ast: &Ast) -> impl Iterator<Item = usize> + '_ {
    let statements = ast.statements.iter().enumerate();
    statements.filter(|(_, it)| cut(ast, it.value).is_some()).map(|(place, _)| place)
}

impl Unit<'_> {
    /// Reports a value whose rows behind the last end are not written, where a graph with these segments reads all rows.
    pub(super) fn check_written(
        self,
        input: &Input,
        segments: Option<&str>,
        at: Span,
    ) -> Result<(), CheckError> {
        match self.computed.unwritten(&input.name) {
            Some(ends) if segments != Some(ends.as_str()) => {
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
    /// Whether `segments(x, ends)` cuts the rows of this body: where it is a value, and no operand.
    pub(super) fn has_rows_of(&self, arguments: &[ExprId]) -> bool {
        let [_, ends] = arguments else { return false };
        matches!(&self.exprs[*ends].kind, ExprKind::Name(name) if self.graph.space().segments.as_ref() == Some(name))
    }

    /// `segments(x, ends)` as a value: x, whose rows this body has.
    pub(super) fn lower_segments(&mut self, arguments: &[ExprId], at: Span) -> Lowered {
        if !self.has_rows_of(arguments) {
            return self.report(CheckError::SegmentsPlace { at });
        }
        let Some(node) = self.settle(self.lowered[&arguments[0]], at) else {
            return Lowered::Poison;
        };
        if self.graph.ty(node).axes.row.is_none() {
            let own = self.graph.space().batch.iter().map(Dim::to_string).collect();
            return self.report(CheckError::SegmentsDims { segments: own, at });
        }
        Lowered::Node(node)
    }

    /// Whether rows that are cut into segments would be folded along the segments: a row is in one of them.
    pub(super) fn folds_segments_alone(&self, node: NodeId, over: Over) -> bool {
        let has_rows = self.graph.ty(node).axes.row.is_some();
        self.graph.space().is_segmented() && has_rows && over.batch && over.row.is_none()
    }

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
