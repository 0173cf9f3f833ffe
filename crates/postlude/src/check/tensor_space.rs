//! The dims of a body without a product: its tensors say what it varies along.

use crate::graph::Space;
use crate::shape::Dim;
use crate::syntax::{Ast, Declaration, ExprId, ExprKind, Exprs, Span};

use super::error::CheckError;
use super::operand::tensors;
use super::program::Unit;
use super::reads::{LeafRead, assignment, has_gathered, leaves, written_dims};
use super::{inputs_of, segments};

/// What a graph at hand computes.
pub(super) fn values_of(unit: Unit<'_>) -> Vec<ExprId> {
    let ast = unit.ast;
    let values = unit.outputs.iter().filter_map(|output| assignment(ast, &output.name.text));
    values.map(|(_, statement)| statement.value).chain(unit.root).collect()
}

/// The space that declared tensors give a body without a product; `None` after reports.
pub(super) fn tensor_space(unit: Unit<'_>, errors: &mut Vec<CheckError>) -> Option<Space> {
    let ast = unit.ast;
    let values = values_of(unit);
    let all = unit.declarations.iter().chain(unit.outputs);
    let all = all.filter_map(|declared| declared.dims.as_deref());
    // A vector that is written with the dims of a matrix is one.
    let written = values.iter().flat_map(|value| written_dims(ast, *value));
    let written = written.map(|(dims, _)| dims).filter(|dims| dims.len() >= 2);
    let all: Vec<&[Dim]> = all.chain(written).collect();
    let parts = named_parts(&ast.exprs);
    if let Some(cut) = segments::cut_values(ast, values.iter().copied()) {
        let space = declared_space(&leading(unit, &[], &[cut.rows]), &all, &parts);
        let segment = cut.dim(&ast.exprs, unit.declarations);
        let space = space.map(|space| with_stored_columns(space, segment.as_ref(), unit.outputs));
        let space = cut.apply(&ast.exprs, space, &inputs_of(unit.declarations));
        return space.map_err(|error| errors.push(error)).ok();
    }
    let space = if values.iter().any(|value| has_gathered(ast, *value)) {
        declared_space(&leading(unit, unit.outputs, &values), &all, &parts)
    } else {
        declared_space(&all, &all, &parts)
    };
    if space.is_none() {
        errors.push(CheckError::NoProduct { at: body_span(ast) });
    }
    space
}

/// The space of vectors along rows with the columns that outputs repeat their values along, where some do.
fn with_stored_columns(space: Space, segment: Option<&Dim>, outputs: &[Declaration]) -> Space {
    if space.column != Dim::Size(1) {
        return space;
    }
    let stored = outputs.iter().filter_map(|output| output.dims.as_deref()).flatten();
    let other = |dim: &&Dim| {
        matches!(dim, Dim::Name { .. }) && !dim.same_base(&space.row) && Some(*dim) != segment
    };
    match stored.into_iter().find(other) {
        Some(column) => Space::new(space.batch, space.row, column.clone()),
        None => space,
    }
}

/// The dims of outputs, and those of what some values read; rows that are gathered are those of their index.
fn leading(unit: Unit<'_>, outputs: &[Declaration], values: &[ExprId]) -> Vec<Vec<Dim>> {
    let outputs = outputs.iter().filter_map(|output| output.dims.clone());
    let read = values.iter().flat_map(|value| tensors(unit.ast, *value, unit.declarations));
    let leaves = values.iter().flat_map(|value| leaves(unit.ast, *value, false));
    let vectors = leaves.filter(|leaf| leaf.read == LeafRead::Value).filter_map(|leaf| {
        let declared = unit.declarations.iter().find(|input| input.name.text == leaf.name)?;
        declared.dims.clone().filter(|dims| dims.len() < 2)
    });
    outputs.chain(read.map(|(dims, _)| dims)).chain(vectors).collect()
}

/// The space of tensors: the dims of the first of the leading ones with the most, with the finest that any of all has.
fn declared_space<D: AsRef<[Dim]>>(leading: &[D], all: &[&[Dim]], parts: &[Dim]) -> Option<Space> {
    let tensors = leading.iter().map(AsRef::as_ref);
    let most = tensors.clone().map(<[Dim]>::len).max()?;
    let leads = |dims: &&[Dim]| dims.len() == most && !is_list(dims, all);
    let is_whole = |dims: &&[Dim]| !has_part(dims, parts);
    let whole = tensors.clone().find(|dims| leads(dims) && is_whole(dims));
    let [batch @ .., row, column] = whole.or_else(|| tensors.clone().find(leads))? else {
        // Vectors have one column.
        let [row] = tensors.clone().find(|dims| dims.len() == 1)? else { return None };
        return Some(Space::new(Vec::new(), row.clone(), Dim::Size(1)));
    };
    if batch.len() > Space::MOST_BATCH_DIMS {
        return None;
    }
    // Where all have the columns of parts, another dim is that of the whole.
    let is_whole = |dim: &&Dim| {
        let dim = std::slice::from_ref(*dim);
        matches!(dim, [Dim::Name { .. }]) && !has_part(dim, parts) && !dim[0].same_base(row)
    };
    let of_part = has_part(std::slice::from_ref(column), parts);
    let whole = all.iter().copied().flatten().find(is_whole).filter(|_| of_part);
    let column = whole.unwrap_or(column);
    let finest = |own: &Dim| {
        let same = all.iter().copied().flatten().filter(|dim| dim.same_base(own));
        same.min_by_key(|dim| dim.divisor()).unwrap_or(own).clone()
    };
    Some(Space::new(batch.to_vec(), finest(row), finest(column)))
}

/// Dims that lists of parts name: those of a whole are others.
pub(super) fn named_parts(exprs: &Exprs) -> Vec<Dim> {
    let lists = exprs.iter().filter_map(|(_, expr)| match &expr.kind {
        ExprKind::Dims(dims) => Some(dims),
        _ => None,
    });
    lists.flatten().filter(|dim| dim.divisor() == 1).cloned().collect()
}

/// Whether a tensor has the columns of a part: it does not say what was split.
pub(super) fn has_part(dims: &[Dim], parts: &[Dim]) -> bool {
    dims.iter().any(|dim| parts.iter().any(|part| part.same_base(dim)))
}

/// Whether a tensor is a list for each row of others: `[M, 8]` beside `[M, N]`.
pub(super) fn is_list<D: AsRef<[Dim]>>(dims: &[Dim], all: &[D]) -> bool {
    let [rows @ .., Dim::Size(_)] = dims else { return false };
    let has_columns = |other: &D| matches!(other.as_ref(), [own @ .., Dim::Name { .. }] if own == rows && !rows.is_empty());
    all.iter().any(has_columns)
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
