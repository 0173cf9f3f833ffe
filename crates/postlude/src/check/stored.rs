//! Operands that graphs of their own compute as their text reads: operands that are made of products, and operands whose
//! rows and columns are not the product's.

use std::collections::HashSet;

use crate::catalogue::{self, Group};
use crate::dtype::DType;
use crate::graph::{Input, InputId, Orientation, Side};
use crate::shape::Dim;
use crate::syntax::{Ast, Declaration, ExprId, ExprKind, Infix};

use super::error::CheckError;
use super::operand::{Factor, FactorValue, OperandDims, Resolved, dims, inner, tensors};
use super::product::oriented;
use super::program::{Computed, Products, Stored, Unit};
use super::reads::{assignment, leaves, read_statements};
use super::separate::is_separate;

/// Whether an operand's rows and columns are those of its text: math that numbers them or moves them depends on it.
pub(super) fn is_natural(unit: Unit<'_>, (root, side): (ExprId, Side), dims: &OperandDims) -> bool {
    let space = dims.space(side);
    let read = tensors(unit.ast, root, unit.declarations);
    let same = read.first().is_none_or(|(dims, _)| dims[dims.len() - 2].same_base(&space.row));
    same || unit.products.is_movable(root)
}

/// Resolves the expression of an operand whose rows are columns of the product, or the other way round: a graph computes
/// it as its text reads.
pub(super) fn resolve_stored(
    unit: Unit<'_>,
    (root, side): (ExprId, Side),
    dims: &OperandDims,
    inputs: &mut Vec<Input>,
    errors: &mut Vec<CheckError>,
) -> Option<Resolved> {
    let at = unit.ast.exprs[root].span;
    let input = stored_operand(unit, (root, side), errors)?;
    let stored = input.dims.as_deref().unwrap_or_default();
    let Some(row) = stored.len().checked_sub(2).map(|place| &stored[place]) else {
        errors.push(CheckError::OperandWithoutDims { at });
        return None;
    };
    let orientation = if *row == dims.first { Orientation::Plain } else { Orientation::Transposed };
    let varying = read_statements(unit.ast, root, false).into_iter().collect();
    let (factors, scales) = (Vec::new(), Vec::new());
    let input = declared_place(inputs, input);
    Some(Resolved { input, orientation, factors, scales, varying })
}

/// The input that has an operand's value, of a dtype that is multiplied; `None` after reports.
fn stored_operand(
    unit: Unit<'_>,
    (root, side): (ExprId, Side),
    errors: &mut Vec<CheckError>,
) -> Option<Input> {
    let at = unit.ast.exprs[root].span;
    let name = format!("{}_operand", side.name());
    let (value, _) = oriented(&unit.ast.exprs, root);
    let Stored { input, is_rounded } = unit.input(value, &name, errors)?;
    if !is_rounded && !reads_f32(unit, root) {
        errors.push(CheckError::OperandUnrounded { at });
        return None;
    }
    if input.dtype.accumulator().is_none() {
        errors.push(CheckError::OperandDType { dtype: input.dtype, at });
        return None;
    }
    Some(input)
}

/// Resolves the expression of an operand that is made of products: a graph of theirs computes it as it stands.
pub(super) fn resolve_products(
    unit: Unit<'_>,
    (root, side): (ExprId, Side),
    inputs: &mut Vec<Input>,
    errors: &mut Vec<CheckError>,
) -> Option<(Resolved, OperandDims)> {
    let at = unit.ast.exprs[root].span;
    let (core, factors) = without_factors(unit, (root, side));
    let input = stored_operand(unit, (core, side), errors)?;
    let Some([batch @ .., first, second]) = input.dims.as_deref() else {
        errors.push(CheckError::OperandWithoutDims { at });
        return None;
    };
    let swapped = is_swapped(unit, root, [first, second]);
    let (orientation, first, second) = if swapped {
        (Orientation::Transposed, second, first)
    } else {
        (Orientation::Plain, first, second)
    };
    let dims = OperandDims { batch: batch.to_vec(), first: first.clone(), second: second.clone() };
    let statements = read_statements(unit.ast, root, false);
    let of_products = |place: &usize| unit.products.tops(unit.ast.statements[*place].value) != 0;
    let place = declared_place(inputs, input);
    let found = Resolved {
        input: place,
        orientation,
        factors,
        scales: Vec::new(),
        varying: statements.into_iter().filter(of_products).collect(),
    };
    Some((found, dims))
}

/// What is left of an operand without factors that do not vary along the contraction, and these in written order: they
/// multiply the accumulator.
fn without_factors(unit: Unit<'_>, (root, side): (ExprId, Side)) -> (ExprId, Vec<Factor>) {
    let (mut core, mut factors) = (root, Vec::new());
    let Some(contraction) = contraction(unit, (root, side)) else { return (core, factors) };
    let is_core = |id: ExprId| leading_product(unit, id, Through::Elementwise).is_some();
    // The body lowers statements of products for a factor, and no others that operands alone read.
    let of_products = |place: usize| unit.products.tops(unit.ast.statements[place].value) != 0;
    let is_factor = |id: ExprId| {
        !varies_along(unit, id, &contraction, &mut HashSet::new())
            && read_statements(unit.ast, id, false).into_iter().all(of_products)
    };
    loop {
        let (next, value, divides) = match unit.ast.exprs[inner(unit.ast, core)].kind {
            ExprKind::Infix(Infix::Multiply, a, b) if is_core(a) && is_factor(b) => (a, b, false),
            ExprKind::Infix(Infix::Multiply, a, b) if is_core(b) && is_factor(a) => (b, a, false),
            ExprKind::Infix(Infix::Divide, a, b) if is_core(a) && is_factor(b) => (a, b, true),
            _ => break,
        };
        factors.push(Factor { value: FactorValue::Expression(value), divides });
        core = next;
    }
    factors.reverse();
    (core, factors)
}

/// The dim that an operand of products is summed along, as its text says.
fn contraction(unit: Unit<'_>, (root, side): (ExprId, Side)) -> Option<Dim> {
    let (product, swapped) = leading_product(unit, root, Through::Elementwise)?;
    let end = match (side, swapped) {
        (Side::Left, false) | (Side::Right, true) => Side::Right,
        (Side::Right, false) | (Side::Left, true) => Side::Left,
    };
    outer_dim(unit, product, end)
}

/// Whether an expression varies along a dim, or may: what has a number for each row or column does. What was seen does not.
fn varies_along(unit: Unit<'_>, id: ExprId, dim: &Dim, seen: &mut HashSet<u32>) -> bool {
    if !seen.insert(id.0) {
        return false;
    }
    match &unit.ast.exprs[id].kind {
        ExprKind::Number(_) | ExprKind::Dims(_) => false,
        ExprKind::Name(name) | ExprKind::Annotated(name, _) => {
            if let Some((_, statement)) = assignment(unit.ast, name) {
                return varies_along(unit, statement.value, dim, seen);
            }
            let declared = unit.declarations.iter().find(|input| input.name.text == *name);
            let dims = declared.and_then(|input| input.dims.as_deref()).unwrap_or_default();
            matches!(name.as_str(), "row" | "col") || dims.iter().any(|own| own.same_base(dim))
        }
        ExprKind::Product(..) => [Side::Left, Side::Right]
            .into_iter()
            .any(|side| outer_dim(unit, id, side).is_none_or(|own| own.same_base(dim))),
        ExprKind::Call { function, arguments, .. }
            if is_reduced(unit, &function.text, arguments) =>
        {
            let reduces = |argument: &ExprId| match &unit.ast.exprs[*argument].kind {
                ExprKind::Name(name) => dim.divisor() == 1 && *name == dim.to_string(),
                _ => false,
            };
            let [of, over @ ..] = arguments.as_slice() else { return true };
            !over.iter().any(reduces) && varies_along(unit, *of, dim, seen)
        }
        kind if is_separate(kind) => true,
        kind @ (ExprKind::Transpose(_)
        | ExprKind::Prefix(..)
        | ExprKind::Infix(..)
        | ExprKind::Call { .. }) => {
            kind.children().any(|child| varies_along(unit, child, dim, seen))
        }
    }
}

/// Whether every tensor that an expression reads is f32, through its products too.
fn reads_f32(unit: Unit<'_>, root: ExprId) -> bool {
    leaves(unit.ast, root, true).iter().all(|leaf| {
        let declared = unit.declarations.iter().find(|input| input.name.text == leaf.name);
        // Ends of segments and numbers of rows are no elements.
        let counts = |input: &Declaration| matches!(input.dtype, DType::F32 | DType::I32);
        declared.is_none_or(|input| input.dims.is_none() || counts(input))
    })
}

/// The place of a computed input among those of a graph.
fn declared_place(inputs: &mut Vec<Input>, input: Input) -> InputId {
    let known = inputs.iter().position(|known| known.name == input.name);
    let place = known.unwrap_or_else(|| {
        inputs.push(input);
        inputs.len() - 1
    });
    InputId(place as u32)
}

/// Whether an operand reads the value that is stored of it with its last two dims swapped: what is stored has the rows and
/// columns of one product that it is made of, and the text reads those of the first.
fn is_swapped(unit: Unit<'_>, root: ExprId, [row, column]: [&Dim; 2]) -> bool {
    let Some((product, swapped)) = leading_product(unit, root, Through::Elementwise) else {
        // No product has the rows and columns: what is stored has those of the text.
        return leading_product(unit, root, Through::Reductions).is_some_and(|found| found.1);
    };
    let rows = outer_dim(unit, product, Side::Left);
    let turned = rows.is_some_and(|rows| !rows.same_base(row) && rows.same_base(column));
    swapped != turned
}

/// What may stand between a product and an expression that is made of it.
#[derive(Clone, Copy, PartialEq)]
enum Through {
    /// Nothing that reduces a dim.
    Elementwise,
    /// Reductions too.
    Reductions,
}

/// The first product that an expression is made of through such operations, and whether it is read with its dims swapped.
fn leading_product(unit: Unit<'_>, root: ExprId, through: Through) -> Option<(ExprId, bool)> {
    leading(unit, root, through, &mut HashSet::new())
}

/// The same, where nothing that was seen leads to a product.
fn leading(
    unit: Unit<'_>,
    root: ExprId,
    through: Through,
    seen: &mut HashSet<u32>,
) -> Option<(ExprId, bool)> {
    if unit.products.tops(root) == 0 || !seen.insert(root.0) {
        return None;
    }
    match &unit.ast.exprs[root].kind {
        ExprKind::Transpose(of) => {
            leading(unit, *of, through, seen).map(|(product, swapped)| (product, !swapped))
        }
        ExprKind::Name(name) | ExprKind::Annotated(name, _) => {
            let (_, statement) = assignment(unit.ast, name)?;
            leading(unit, statement.value, through, seen)
        }
        kind if is_separate(kind) => Some((root, false)),
        ExprKind::Call { function, arguments, .. }
            if through == Through::Elementwise && is_reduced(unit, &function.text, arguments) =>
        {
            None
        }
        ExprKind::Product(..) | ExprKind::Number(_) | ExprKind::Dims(_) => None,
        kind @ (ExprKind::Prefix(..) | ExprKind::Infix(..) | ExprKind::Call { .. }) => {
            kind.children().find_map(|child| leading(unit, child, through, seen))
        }
    }
}

/// Whether a call reduces whole dims: what is reduced in runs keeps them.
fn is_reduced(unit: Unit<'_>, function: &str, arguments: &[ExprId]) -> bool {
    let is_run = |argument: &ExprId| matches!(unit.ast.exprs[*argument].kind, ExprKind::Number(_));
    catalogue::find(function).is_some_and(|entry| entry.group == Group::Reduction)
        && !arguments.iter().any(is_run)
}

/// The rows of a product as its text says, or its columns; `None` where the text does not say.
fn outer_dim(unit: Unit<'_>, product: ExprId, side: Side) -> Option<Dim> {
    let ExprKind::Product(left, right) = unit.ast.exprs[product].kind else { return None };
    let operand = match side {
        Side::Left => left,
        Side::Right => right,
    };
    if unit.products.tops(operand) == 0 {
        let dims = dims(unit.ast, operand, unit.declarations)?;
        return Some(match side {
            Side::Left => dims.first,
            Side::Right => dims.second,
        });
    }
    let (product, swapped) = leading_product(unit, operand, Through::Elementwise)?;
    let side = match (swapped, side) {
        (false, side) => side,
        (true, Side::Left) => Side::Right,
        (true, Side::Right) => Side::Left,
    };
    outer_dim(unit, product, side)
}

/// How the operands of a body read, as its text says: without typing it, so that it may be unfinished.
pub(crate) struct Reading<'a> {
    ast: &'a Ast,
    declarations: &'a [Declaration],
    products: Products,
}

/// What says the rows and columns of an operand.
pub(crate) enum ReadAs {
    /// Its tensors.
    Tensors([Dim; 2]),
    /// A product that it is made of, or a call that has a graph of its own as products have: its rows and columns, swapped
    /// or not.
    Graph(ExprId, bool),
}

impl<'a> Reading<'a> {
    /// That of a body whose tensors are declared so; `None` where it has too many products.
    pub(crate) fn new(ast: &'a Ast, declarations: &'a [Declaration]) -> Option<Reading<'a>> {
        Some(Reading { ast, declarations, products: Products::of(ast).ok()? })
    }

    /// What says the rows and columns of an expression as an operand; `None` where it has none.
    pub(crate) fn of(&self, root: ExprId) -> Option<ReadAs> {
        let (ast, declarations, computed) = (self.ast, self.declarations, Computed::default());
        let (outputs, products) = (&[], &self.products);
        let (root_of, calls, computed) = (None, None, &computed);
        let unit = Unit { ast, declarations, outputs, root: root_of, calls, products, computed };
        if products.tops(root) == 0 {
            let OperandDims { first, second, .. } = dims(ast, root, declarations)?;
            return Some(ReadAs::Tensors([first, second]));
        }
        if let Some((product, swapped)) = leading_product(unit, root, Through::Elementwise) {
            return Some(ReadAs::Graph(product, swapped));
        }
        // What is stored has the rows and columns of the last product.
        let last = Products::last(products.tops(root))?;
        let (_, swapped) = leading_product(unit, root, Through::Reductions)?;
        Some(ReadAs::Graph(products.all[last], swapped))
    }
}
