//! Finds the one matrix product and the dims it gives the body.

use crate::dtype::DType;
use crate::graph::{Graph, InputId, Orientation, Product, Space};
use crate::shape::{self, Dim};
use crate::syntax::{Ast, Declaration, ExprId, ExprKind, Exprs, Infix, Span};

use super::error::CheckError;
use super::inputs_of;

/// An operand as written.
#[derive(Clone, Copy)]
pub(super) struct Operand<'a> {
    pub(super) name: &'a str,
    pub(super) orientation: Orientation,
}

/// The expressions `a @ b` of a body, in order.
pub(super) fn products(exprs: &Exprs) -> impl Iterator<Item = (Span, ExprId, ExprId)> + '_ {
    exprs.iter().filter_map(|(_, expr)| match expr.kind {
        ExprKind::Product(left, right) => Some((expr.span, left, right)),
        _ => None,
    })
}

/// What stands before the `.T` at the end of an expression, and what they make of it.
pub(super) fn oriented(exprs: &Exprs, id: ExprId) -> (ExprId, Orientation) {
    let (mut of, mut orientation) = (id, Orientation::Plain);
    while let ExprKind::Transpose(inner) = exprs[of].kind {
        orientation = match orientation {
            Orientation::Plain => Orientation::Transposed,
            Orientation::Transposed => Orientation::Plain,
        };
        of = inner;
    }
    (of, orientation)
}

/// The mean that is meant where a sum along a dim is divided by the dim itself, which stands at `at`.
pub(super) fn divided_sum(exprs: &Exprs, dim: &str, at: Span) -> Option<String> {
    exprs.iter().find_map(|(_, expr)| {
        let ExprKind::Infix(Infix::Divide, left, right) = expr.kind else { return None };
        let right = exprs[right].span;
        let ExprKind::Call { function, arguments, grad: false } = &exprs[left].kind else {
            return None;
        };
        let along = arguments.get(1).is_some_and(
            |argument| matches!(&exprs[*argument].kind, ExprKind::Name(name) if name == dim),
        );
        let divides = (right.start, right.end) == (at.start, at.end);
        let summed = divides && along && function.text == "sum" && arguments.len() == 2;
        summed.then(|| format!("mean(x, {dim})"))
    })
}

/// The input that an operand of `@` names.
pub(super) fn operand(exprs: &Exprs, id: ExprId) -> Option<Operand<'_>> {
    let (of, orientation) = oriented(exprs, id);
    match &exprs[of].kind {
        ExprKind::Name(name) | ExprKind::Annotated(name, _) => Some(Operand { name, orientation }),
        _ => None,
    }
}

/// The graph that the body is lowered into; `None` after a mistake that leaves the body without dims.
pub(super) fn find(
    ast: &Ast,
    declarations: &[Declaration],
    errors: &mut Vec<CheckError>,
) -> Option<Graph> {
    let Some((span, left, right)) = products(&ast.exprs).next() else {
        errors.push(CheckError::NoProduct { at: body_span(ast) });
        return None;
    };
    let left = resolve(&ast.exprs, left, declarations, errors);
    let right = resolve(&ast.exprs, right, declarations, errors);
    let (left, right) = (left?, right?);
    let (space, product) = multiply(span, &left, &right, declarations, errors)?;
    let name = ast.signature.as_ref().map_or("kernel", |signature| signature.name.text.as_str());
    let mut graph = Graph::new(name, inputs_of(declarations), space, vec![product]);
    name_parts(&ast.exprs, &mut graph);
    Some(graph)
}

/// Makes dims that splits list the body's, so that inputs may have them; others than columns are reported at the split.
fn name_parts(exprs: &Exprs, graph: &mut Graph) {
    let lists = exprs.iter().filter_map(|(_, expr)| match &expr.kind {
        ExprKind::Call { function, arguments, .. } if function.text == "split" => {
            arguments.get(1).map(|argument| &exprs[*argument].kind)
        }
        _ => None,
    });
    for kind in lists {
        let ExprKind::Dims(dims) = kind else { continue };
        for dim in dims {
            if !is_other_dim(graph, dim) {
                graph.name_part(dim);
            }
        }
    }
}

/// Whether a dim is the rows', the batch's or the contraction's.
pub(super) fn is_other_dim(graph: &Graph, dim: &Dim) -> bool {
    let (space, inner) = (graph.space(), &graph.products()[0].inner);
    let named = matches!(dim, Dim::Name { .. });
    named && [&space.row, inner].into_iter().chain(&space.batch).any(|it| it.same_base(dim))
}

fn body_span(ast: &Ast) -> Span {
    match (ast.statements.first(), ast.statements.last()) {
        (Some(first), Some(last)) => first
            .targets
            .first()
            .map_or_else(Span::default, |name| name.span)
            .to(ast.exprs[last.value].span),
        _ => ast.signature.as_ref().map_or_else(Span::default, |signature| signature.name.span),
    }
}

struct Matrix<'a> {
    declaration: &'a Declaration,
    operand: (InputId, Orientation),
    batch: Vec<Dim>,
    outer: Dim,
    inner: Dim,
    span: Span,
}

fn resolve<'a>(
    exprs: &Exprs,
    id: ExprId,
    declarations: &'a [Declaration],
    errors: &mut Vec<CheckError>,
) -> Option<Matrix<'a>> {
    let at = exprs[id].span;
    let Some(operand) = operand(exprs, id) else {
        errors.push(CheckError::OperandNotInput { at });
        return None;
    };
    let Some(place) = declarations.iter().position(|d| d.name.text == operand.name) else {
        errors.push(CheckError::OperandNotInput { at });
        return None;
    };
    let declaration = &declarations[place];
    if declaration.dtype.accumulator().is_none() {
        errors
            .push(CheckError::OperandDType { dtype: declaration.dtype, at: declaration.type_span });
        return None;
    }
    let dims = declaration.dims.as_deref().unwrap_or_default();
    let (batch, pair) = match dims {
        [batch @ .., first, second] if batch.len() <= Space::MOST_BATCH_DIMS => {
            (batch.to_vec(), (first, second))
        }
        _ => {
            errors.push(CheckError::OperandRank {
                name: operand.name.to_owned(),
                rank: dims.len(),
                at,
            });
            return None;
        }
    };
    let (outer, inner) = match operand.orientation {
        Orientation::Plain => (pair.0.clone(), pair.1.clone()),
        Orientation::Transposed => (pair.1.clone(), pair.0.clone()),
    };
    Some(Matrix {
        declaration,
        operand: (InputId(place as u32), operand.orientation),
        batch,
        outer,
        inner,
        span: at,
    })
}

fn multiply(
    span: Span,
    left: &Matrix<'_>,
    right: &Matrix<'_>,
    declarations: &[Declaration],
    errors: &mut Vec<CheckError>,
) -> Option<(Space, Product)> {
    // The right operand's contraction dim comes first.
    let (right_inner, column) = (right.outer.clone(), right.inner.clone());
    let (a, b) = (left.declaration.dtype, right.declaration.dtype);
    if !a.multiplies(b) {
        errors.push(operands_differ(left, right, a, b, span));
        return None;
    }
    if left.inner != right_inner {
        let text = |matrix: &Matrix<'_>| {
            format!(
                "{}: {}",
                matrix.declaration.name,
                shape::list(matrix.declaration.dims.as_deref().unwrap_or_default())
            )
        };
        let fix = if left.inner == column {
            Some(turned(right))
        } else if left.outer == right_inner {
            Some(turned(left))
        } else {
            Some(format!("the operands are {} and {}", text(left), text(right)))
        };
        errors.push(CheckError::InnerDisagree {
            left: left.inner.to_string(),
            right: right_inner.to_string(),
            fix,
            at: span,
        });
        return None;
    }
    let row = &left.outer;
    let clash =
        row.same_base(&column) || row.same_base(&left.inner) || column.same_base(&left.inner);
    let batch = if left.batch.len() >= right.batch.len() { &left.batch } else { &right.batch };
    let matrix = [row, &column, &left.inner];
    if clash || batch.iter().any(|batch| matrix.iter().any(|dim| dim.same_base(batch))) {
        errors.push(CheckError::SameDims {
            row: row.to_string(),
            column: column.to_string(),
            inner: left.inner.to_string(),
            twice: (left.operand.0 == right.operand.0 && row == &column)
                .then(|| declared_twice(left)),
            at: left.span.to(right.span),
        });
        return None;
    }
    let repeats = |(place, dim): (usize, &Dim)| batch[..place].iter().any(|it| it.same_base(dim));
    if batch.iter().enumerate().any(repeats) {
        errors.push(CheckError::SameBatchDims { dims: shape::list(batch), at: span });
        return None;
    }
    let product = Product::of(&inputs_of(declarations), left.operand, right.operand);
    if product.is_none() {
        let (left, right) = (shape::list(&left.batch), shape::list(&right.batch));
        errors.push(CheckError::BatchDisagree { left, right, at: span });
    }
    product
}

/// The fix where one tensor is both operands.
fn declared_twice(matrix: &Matrix<'_>) -> String {
    let Declaration { name, dtype, dims, .. } = matrix.declaration;
    let dims = dims.as_deref().unwrap_or_default();
    let other = if dims.iter().any(|dim| dim.same_base(&Dim::name("N"))) { "N2" } else { "N" };
    let renamed =
        dims.iter().map(|dim| if *dim == matrix.outer { Dim::name(other) } else { dim.clone() });
    let list = shape::list(&renamed.collect::<Vec<_>>());
    let second = match matrix.operand.1 {
        Orientation::Plain => format!("{name} @ {name}2.T"),
        Orientation::Transposed => format!("{name}.T @ {name}2"),
    };
    format!(
        "declare it once more under another dim, `{name}2: {dtype}[{list}] = {name}`, and write `{second}`"
    )
}

/// The fix that swaps an operand's dims.
fn turned(matrix: &Matrix<'_>) -> String {
    let suffix = match matrix.operand.1 {
        Orientation::Plain => ".T",
        Orientation::Transposed => "",
    };
    format!("write `{}{suffix}`", matrix.declaration.name)
}

fn operands_differ(
    left: &Matrix<'_>,
    right: &Matrix<'_>,
    a: DType,
    b: DType,
    at: Span,
) -> CheckError {
    let name = |matrix: &Matrix<'_>| matrix.declaration.name.text.clone();
    CheckError::OperandsDiffer {
        left_name: name(left),
        left: a,
        right_name: name(right),
        right: b,
        at,
    }
}
