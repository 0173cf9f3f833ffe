//! Folds of some of several batch dims: `sum(x, B)` of a value with dims `[B, H, M, N]`.
//!
//! A graph folds all of its batch dims or none, so such a fold has graphs of its own: the rows and columns that it folds
//! are folded where its value is computed, and each batch dim by a graph whose rows it is. Which folds these are is known
//! once dims are: they are renamed then, and the kernel is typed again.

use crate::dtype::{DType, Elem};
use crate::graph::{Call, Fold, Graph, Input, NodeId, Op, Over, Run, Space};
use crate::shape::{self, Dim};
use crate::syntax::{Ast, ExprId, ExprKind, Exprs, Name, Span};

use super::dims;
use super::error::CheckError;
use super::separate::Reports;

/// Functions whose fold along several dims is that of folds along each, and their names where they fold some batch dims.
const FOLDS: &[(&str, &str)] = &[
    ("sum", "sum of batches"),
    ("mean", "mean of batches"),
    ("max", "max of batches"),
    ("min", "min of batches"),
    ("absmax", "absmax of batches"),
    ("prod", "prod of batches"),
    ("logsumexp", "logsumexp of batches"),
];

/// The function that folds some of the batch dims, if a name says so.
pub(super) fn folded(function: &str) -> Option<&'static str> {
    FOLDS.iter().find(|(_, own)| *own == function).map(|(function, _)| *function)
}

/// The same tree, in which folds that were refused for folding some of the batch dims have graphs of their own; `None`
/// where there are none.
pub(super) fn with_own_graphs(ast: &Ast, errors: &[CheckError]) -> Option<Ast> {
    let places = errors.iter().filter_map(|error| match error {
        CheckError::SomeBatchDims { at, .. } => Some((at.start, at.end)),
        _ => None,
    });
    let places: Vec<(u32, u32)> = places.collect();
    let mut exprs = Exprs::default();
    let mut renamed = false;
    for (_, expr) in ast.exprs.iter() {
        let own = own_name(ast, &expr.kind)
            .filter(|_| places.contains(&(expr.span.start, expr.span.end)));
        let kind = match (&expr.kind, own) {
            (ExprKind::Call { function, grad, arguments }, Some(own)) => {
                renamed = true;
                let function = Name::new(own, function.span);
                ExprKind::Call { function, grad: *grad, arguments: arguments.clone() }
            }
            (kind, _) => kind.clone(),
        };
        exprs.push(kind, expr.span);
    }
    renamed.then(|| Ast { exprs, ..ast.clone() })
}

/// The name of a fold without runs where it folds some batch dims.
fn own_name(ast: &Ast, kind: &ExprKind) -> Option<&'static str> {
    let ExprKind::Call { function, grad: false, arguments } = kind else { return None };
    let is_run = |id: &ExprId| matches!(ast.exprs[*id].kind, ExprKind::Number(_));
    let (_, own) = FOLDS.iter().find(|(name, _)| *name == function.text)?;
    (!arguments.iter().any(is_run)).then_some(own)
}

/// The graph of a fold of some batch dims, and its value there.
pub(super) fn graph(
    reports: &mut Reports<'_, '_>,
    function: &'static str,
    arguments: &[ExprId],
    at: Span,
) -> Option<(Graph, NodeId)> {
    let folded: Option<Vec<Dim>> =
        arguments[1..].iter().map(|dim| dims::read(reports.exprs(), *dim)).collect();
    let folded = folded?;
    let mut tensor =
        reports.unit.tensor(arguments[0], "value", reports.errors, |graph, node| {
            let axes = graph.ty(node).axes;
            let space = graph.space();
            let has =
                |dim: Option<Dim>| dim.is_some_and(|dim| folded.contains(&dim)).then_some(Run::All);
            let row = has(axes.row.map(|run| space.row_dim(run)));
            let column = has(axes.columns().map(|columns| space.column_dim(columns)));
            let over = Over { batch: false, row, column };
            if over == Over::NOTHING { node } else { fold(graph, function, over, node) }
        })?;
    let own = tensor.dims.clone().unwrap_or_default();
    let mut batches: Vec<&Dim> = folded.iter().filter(|dim| own.contains(dim)).collect();
    let Some(last) = batches.pop() else {
        let (folded, dims) = (shape::list(&folded), shape::list(&own));
        return reports.report(CheckError::SomeBatchDims { folded, dims, at });
    };
    for dim in batches {
        let (graph, value) = along(reports, &tensor, dim, function)?;
        let (dtype, _) = graph.stored_dtype(value);
        tensor = reports.store(&graph, value, "value", dtype);
    }
    along(reports, &tensor, last, function)
}

/// The graph that folds a tensor along one of its dims.
fn along(
    reports: &mut Reports<'_, '_>,
    tensor: &Input,
    dim: &Dim,
    function: &'static str,
) -> Option<(Graph, NodeId)> {
    let mut batch = tensor.dims.clone()?;
    batch.retain(|own| own != dim);
    let column = batch.pop()?;
    let (mut graph, [place]) = reports.graph(Space::new(batch, dim.clone(), column), [tensor]);
    let node = graph.make(Op::Input(place));
    let over = Over { row: Some(Run::All), ..Over::NOTHING };
    let value = fold(&mut graph, function, over, node);
    Some((graph, value))
}

fn fold(graph: &mut Graph, function: &'static str, over: Over, node: NodeId) -> NodeId {
    let floats = matches!(function, "mean" | "logsumexp") && graph.ty(node).elem == Elem::I32;
    let node = if floats { graph.make(Op::Cast(DType::F32, node)) } else { node };
    if let Some(fold) = Fold::from_name(function) {
        return graph.make(Op::Reduce(fold, over, node));
    }
    let call = Call { function, grad: false, over: Some(over), count: 0 };
    graph.make(Op::Call(call, vec![node]))
}
