//! Finds the one matrix product and the dims it gives the body.

use std::collections::BTreeSet;

use crate::dtype::DType;
use crate::graph::{BlockScale, Graph, Input, InputId, NodeId, Orientation, Product, Side, Space};
use crate::shape::{self, Dim};
use crate::syntax::{Declaration, ExprId, ExprKind, Exprs, Infix, Span, nearest};

use super::error::CheckError;
use super::inputs_of;
use super::masked;
use super::operand::{Factor, OperandDims, dims, is_operand, resolve};
use super::program::Unit;
use super::reads::{assignment, read_statements};
use super::segments::{self, Cut, Cuts};
use super::separate;
use super::stored::{is_natural, resolve_products, resolve_stored};
use super::tensor_space::tensor_space;

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

/// What the body is lowered into.
pub(super) struct Found {
    pub(super) graph: Graph,
    /// Factors of the accumulator that left the operands.
    pub(super) factors: Vec<Factor>,
    /// Statements whose values vary along K, or that only operands read.
    pub(super) varying: Vec<usize>,
    /// The number of the graph's product.
    pub(super) main: Option<usize>,
    /// The value of the call that it numbers, where that is no product.
    pub(super) value: Option<NodeId>,
}

/// The graph that the body is lowered into; `None` after a mistake that leaves the body without dims.
pub(super) fn find(
    unit: Unit<'_>,
    main: Option<usize>,
    errors: &mut Vec<CheckError>,
) -> Option<Found> {
    let ast = unit.ast;
    let Some(number) = main else { return without_product(unit, errors) };
    let id = unit.products.all[number];
    let ExprKind::Product(left_id, right_id) = ast.exprs[id].kind else {
        return separate::find(unit, number, errors);
    };
    let span = ast.exprs[id].span;
    let cuts = Cuts::of(ast, [left_id, right_id]).map_err(|error| errors.push(error)).ok()?;
    let mask = masked::mask(ast, left_id);
    let left_id = mask.as_ref().map_or(left_id, |mask| mask.rows);
    let [left_id, right_id] = cuts.operands([left_id, right_id]);
    let mut inputs = inputs_of(unit.declarations);
    let mut resolving = Resolving { unit, inputs: &mut inputs, errors };
    let [left_cut, right_cut] = cuts.each();
    let left = match cuts {
        Cuts::None | Cuts::Rows(_) => resolving.matrix(left_id, Side::Left, left_cut),
        // Its rows are the contraction, as the right operand's are.
        Cuts::Contraction(_) => {
            resolving.matrix(left_id, Side::Right, left_cut).map(Matrix::turned)
        }
    };
    let right = resolving.matrix(right_id, Side::Right, right_cut);
    let (left, right) = (left?, right?);
    let (space, mut product) = multiply(span, &left, &right, &inputs, errors)?;
    for scale in left.scales.iter().chain(&right.scales) {
        product = product.scaled(scale.clone());
    }
    let batches = [left.batch.as_slice(), &right.batch];
    let cut = cuts.apply(&ast.exprs, (space, product), &inputs, batches);
    let (space, mut product) = cut.map_err(|error| errors.push(error)).ok()?;
    for matrix in [&left, &right] {
        matrix.check_scales(&space, &inputs).map_err(|error| errors.push(error)).ok()?;
    }
    if let Some(mask) = mask {
        let counts = mask.counts(&ast.exprs, &space, &inputs);
        product.masked = Some(counts.map_err(|error| errors.push(error)).ok()?);
    }
    for (matrix, ends) in [&left, &right].into_iter().zip(cuts.ends(&ast.exprs)) {
        let input = &inputs[matrix.operand.0.0 as usize];
        let written = unit.check_written(input, ends, matrix.span);
        written.map_err(|error| errors.push(error)).ok()?;
    }
    let name = ast.signature.as_ref().map_or("kernel", |signature| signature.name.text.as_str());
    let mut graph = Graph::new(name, inputs, space, vec![product]);
    name_parts(&ast.exprs, &mut graph);
    let factors = [left.factors, right.factors].concat();
    let mut varying = [left.varying, right.varying].concat();
    varying.extend(deep_statements(unit, [left_id, right_id]));
    varying.extend(segments::cut_statements(ast));
    varying.extend(masked::mask_statements(ast));
    let outside = outside_statements(unit);
    varying.retain(|place| !outside.contains(place));
    Some(Found { graph, factors, varying, main, value: None })
}

/// Statements that operands read through further products.
fn deep_statements(unit: Unit<'_>, operands: [ExprId; 2]) -> Vec<usize> {
    let read =
        |deep: bool| operands.into_iter().flat_map(move |id| read_statements(unit.ast, id, deep));
    let near: BTreeSet<usize> = read(false).collect();
    read(true).filter(|place| !near.contains(place)).collect()
}

/// Statements that the outputs are made of outside of all operands; of a body without a signature, statements that
/// no other one reads.
pub(super) fn outside_statements(unit: Unit<'_>) -> BTreeSet<usize> {
    let ast = unit.ast;
    let mut read: BTreeSet<&str> = BTreeSet::new();
    for (_, expr) in ast.exprs.iter() {
        if let ExprKind::Name(name) | ExprKind::Annotated(name, _) = &expr.kind {
            read.insert(name);
        }
    }
    let stored = |name: &str| match &ast.signature {
        Some(signature) => signature.outputs.iter().any(|output| output.name.text == name),
        None => !read.contains(name),
    };
    let mut outside = BTreeSet::new();
    for (place, statement) in ast.statements.iter().enumerate() {
        if statement.targets.iter().any(|target| stored(&target.text)) {
            outside.insert(place);
            outside.extend(read_statements(ast, statement.value, false));
        }
    }
    outside
}

/// A body without a product: its tensors say what it varies along.
fn without_product(unit: Unit<'_>, errors: &mut Vec<CheckError>) -> Option<Found> {
    let ast = unit.ast;
    let space = tensor_space(unit, errors)?;
    let name = ast.signature.as_ref().map_or("kernel", |signature| signature.name.text.as_str());
    let mut graph = Graph::new(name, inputs_of(unit.declarations), space, Vec::new());
    name_parts(&ast.exprs, &mut graph);
    let (factors, varying) = (Vec::new(), Vec::new());
    Some(Found { graph, factors, varying, main: None, value: None })
}

/// Makes dims that splits list the body's, so that inputs may have them; others than columns are reported at the split.
pub(super) fn name_parts(exprs: &Exprs, graph: &mut Graph) {
    let lists = exprs.iter().filter_map(|(_, expr)| match &expr.kind {
        ExprKind::Call { function, arguments, .. } => match function.text.as_str() {
            "split" => arguments.get(1).map(|argument| &exprs[*argument].kind),
            "concat" => arguments.last().map(|argument| &exprs[*argument].kind),
            _ => None,
        },
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
    let (space, products) = (graph.space(), graph.products());
    let inner = products.iter().map(|product| &product.inner);
    let named = matches!(dim, Dim::Name { .. });
    named && [&space.row].into_iter().chain(inner).chain(&space.batch).any(|it| it.same_base(dim))
}

struct Matrix {
    /// The tensor as declared, or the one that is computed.
    input: Input,
    /// Whether it is written as a name.
    is_named: bool,
    /// Whether it is written with its last two dims swapped.
    written: Orientation,
    /// What is multiplied: the tensor, or what it is widened to.
    operand: (InputId, Orientation),
    dtype: DType,
    batch: Vec<Dim>,
    outer: Dim,
    inner: Dim,
    span: Span,
    factors: Vec<Factor>,
    scales: Vec<BlockScale>,
    varying: Vec<usize>,
}

impl Matrix {
    /// Factors of runs of K have no batch dims beside the product's.
    fn check_scales(&self, space: &Space, inputs: &[Input]) -> Result<(), CheckError> {
        for scale in &self.scales {
            let dims = inputs[scale.input.0 as usize].dims.as_deref().unwrap_or_default();
            let own = [&self.outer, &self.inner].into_iter().chain(&space.batch);
            if dims.iter().any(|dim| !own.clone().any(|known| known.same_base(dim))) {
                let (left, at) = (shape::list(dims), self.span);
                let right = shape::list(self.input.dims.as_deref().unwrap_or_default());
                return Err(CheckError::DimsDisagree { left, right, at });
            }
        }
        Ok(())
    }

    /// The same matrix with its last two dims swapped.
    fn turned(self) -> Matrix {
        let (input, orientation) = self.operand;
        Matrix {
            written: self.written.turned(),
            operand: (input, orientation.turned()),
            outer: self.inner,
            inner: self.outer,
            ..self
        }
    }
}

/// The operands while they are resolved.
struct Resolving<'a, 'b> {
    unit: Unit<'a>,
    inputs: &'b mut Vec<Input>,
    errors: &'b mut Vec<CheckError>,
}

impl Resolving<'_, '_> {
    fn matrix(&mut self, id: ExprId, side: Side, cut: Option<Cut<'_>>) -> Option<Matrix> {
        let declarations = self.unit.declarations;
        let declares = |name: &str| declarations.iter().any(|d| d.name.text == name);
        match operand(&self.unit.ast.exprs, id) {
            Some(operand) if declares(operand.name) => {
                let named = named(&self.unit.ast.exprs, id, operand, declarations, self.errors)?;
                if named.input.dtype.multiplied_as() == named.input.dtype {
                    return Some(named);
                }
                let Matrix { operand, dtype, .. } = self.computed(id, side, cut)?;
                Some(Matrix { operand, dtype, ..named })
            }
            Some(operand) if assignment(self.unit.ast, operand.name).is_none() => {
                let name = operand.name.to_owned();
                let known: Vec<&str> = declarations.iter().map(|d| d.name.text.as_str()).collect();
                let nearest = nearest(&name, known).map(str::to_owned);
                let at = self.unit.ast.exprs[id].span;
                self.errors.push(CheckError::UnknownName { name, nearest, at });
                None
            }
            Some(_) | None => self.computed(id, side, cut),
        }
    }

    /// What is cut and its dims, where it varies by segment: a graph of the same segments computes it.
    fn by_segments(&self, cut: Cut<'_>) -> Option<(ExprId, OperandDims)> {
        let unit = self.unit;
        let segment = cut.dim(&unit.ast.exprs, unit.declarations)?;
        let has = |input: &Declaration| input.dims.as_ref().is_some_and(|it| it.contains(&segment));
        let (by_segments, others): (Vec<Declaration>, Vec<Declaration>) =
            unit.read_by(&[cut.rows]).into_iter().partition(has);
        let dims = dims(unit.ast, cut.rows, &others)?;
        (!by_segments.is_empty()).then_some((cut.call, dims))
    }

    /// An operand that is an expression.
    fn computed(&mut self, id: ExprId, side: Side, cut: Option<Cut<'_>>) -> Option<Matrix> {
        let (resolved, dims) = if self.unit.products.tops(id) != 0 {
            resolve_products(self.unit, (id, side), self.inputs, self.errors)?
        } else if let Some((call, dims)) = cut.and_then(|cut| self.by_segments(cut)) {
            let at = (call, side);
            let resolved = resolve_stored(self.unit, at, &dims, self.inputs, self.errors)?;
            (resolved, dims)
        } else {
            let (unit, at) = (self.unit, (id, side));
            let dims = dims(unit.ast, id, unit.declarations);
            let resolved = match &dims {
                Some(dims) if !is_natural(unit, at, dims) => {
                    resolve_stored(unit, at, dims, self.inputs, self.errors)?
                }
                Some(_) | None => resolve(unit, at, self.inputs, self.errors)?,
            };
            (resolved, dims?)
        };
        let input = self.inputs[resolved.input.0 as usize].clone();
        Some(Matrix {
            dtype: input.dtype,
            input,
            is_named: false,
            written: resolved.orientation,
            operand: (resolved.input, resolved.orientation),
            batch: dims.batch,
            outer: dims.first,
            inner: dims.second,
            span: self.unit.ast.exprs[id].span,
            factors: resolved.factors,
            scales: resolved.scales,
            varying: resolved.varying,
        })
    }
}

/// An operand that is an input.
fn named(
    exprs: &Exprs,
    id: ExprId,
    operand: Operand<'_>,
    declarations: &[Declaration],
    errors: &mut Vec<CheckError>,
) -> Option<Matrix> {
    let at = exprs[id].span;
    let place = declarations.iter().position(|d| d.name.text == operand.name)?;
    let declaration = &declarations[place];
    if !is_operand(declaration.dtype) {
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
        input: inputs_of(declarations).swap_remove(place),
        is_named: true,
        written: operand.orientation,
        dtype: declaration.dtype,
        operand: (InputId(place as u32), operand.orientation),
        batch,
        outer,
        inner,
        span: at,
        factors: Vec::new(),
        scales: Vec::new(),
        varying: Vec::new(),
    })
}

fn multiply(
    span: Span,
    left: &Matrix,
    right: &Matrix,
    inputs: &[Input],
    errors: &mut Vec<CheckError>,
) -> Option<(Space, Product)> {
    // The right operand's contraction dim comes first.
    let (right_inner, column) = (right.outer.clone(), right.inner.clone());
    if !left.dtype.multiplies(right.dtype) {
        errors.push(operands_differ(left, right, span));
        return None;
    }
    if left.inner != right_inner {
        let text = |matrix: &Matrix| {
            let dims = [&matrix.outer, &matrix.inner].map(Dim::clone);
            if matrix.is_named {
                format!(
                    "{}: {}",
                    matrix.input.name,
                    shape::list(matrix.input.dims.as_deref().unwrap_or_default())
                )
            } else {
                format!("an expression of dims [{}]", shape::list(&dims))
            }
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
            twice: (left.input.name == right.input.name && row == &column)
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
    let product = Product::of(inputs, left.operand, right.operand);
    if product.is_none() {
        let (left, right) = (shape::list(&left.batch), shape::list(&right.batch));
        errors.push(CheckError::BatchDisagree { left, right, at: span });
    }
    product
}

/// The fix where one tensor is both operands.
fn declared_twice(matrix: &Matrix) -> String {
    let Input { name, dtype, dims, .. } = &matrix.input;
    let dims = dims.as_deref().unwrap_or_default();
    let other = if dims.iter().any(|dim| dim.same_base(&Dim::name("N"))) { "N2" } else { "N" };
    let renamed =
        dims.iter().map(|dim| if *dim == matrix.outer { Dim::name(other) } else { dim.clone() });
    let list = shape::list(&renamed.collect::<Vec<_>>());
    let second = match matrix.written {
        Orientation::Plain => format!("{name} @ {name}2.T"),
        Orientation::Transposed => format!("{name}.T @ {name}2"),
    };
    format!(
        "declare it once more under another dim, `{name}2: {dtype}[{list}] = {name}`, and write `{second}`"
    )
}

/// The fix that swaps an operand's dims.
fn turned(matrix: &Matrix) -> String {
    let suffix = match matrix.written {
        _ if !matrix.is_named => {
            return "write `.T` behind the expression, or remove it".to_owned();
        }
        Orientation::Plain => ".T",
        Orientation::Transposed => "",
    };
    format!("write `{}{suffix}`", matrix.input.name)
}

fn operands_differ(left: &Matrix, right: &Matrix, at: Span) -> CheckError {
    let name = |matrix: &Matrix| matrix.input.name.clone();
    for (matrix, other) in [(left, right), (right, left)] {
        let dtype = matrix.input.dtype;
        if dtype != matrix.dtype {
            let other = other.dtype;
            return CheckError::PackedOperand { name: name(matrix), dtype, other, at };
        }
    }
    CheckError::OperandsDiffer {
        left_name: name(left),
        left: left.dtype,
        right_name: name(right),
        right: right.dtype,
        at,
    }
}
