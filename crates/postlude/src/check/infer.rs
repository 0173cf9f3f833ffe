//! Gives a one-liner its signature.

use std::collections::{BTreeMap, BTreeSet};

use crate::catalogue;
use crate::dtype::{DType, Elem};
use crate::graph::{Fold, Kind, Orientation, Space};
use crate::shape::Dim;
use crate::syntax::{Ast, Declaration, Expr, ExprId, ExprKind, Name, Signature, Span, nearest};

use super::definitions::{self, Expanded};
use super::error::CheckError;
use super::program::{Computed, Products, Unit};
use super::reads::{Leaf, assignment, leaves};
use super::tables::seed_place;
use super::{Body, first, product, sources};

/// What is known about a name from outside the text.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Bound {
    /// A tensor with this dtype and number of dims.
    Tensor(DType, usize),
    /// A scalar that the host passes.
    Scalar(DType),
}

/// What the caller binds to the names of a one-liner.
#[derive(Clone, Debug)]
pub struct Bindings {
    /// By name.
    pub names: BTreeMap<String, Bound>,
    /// The dtype of tiles that are not bound.
    pub dtype: DType,
}

impl Default for Bindings {
    fn default() -> Bindings {
        Bindings { names: BTreeMap::new(), dtype: DType::BF16 }
    }
}

/// The same body with a signature; a kernel that has one is returned as it is.
pub fn infer(ast: &Ast, bindings: &Bindings) -> Result<Ast, Vec<CheckError>> {
    if ast.signature.is_some() {
        return Ok(ast.clone());
    }
    let written = ast;
    let Expanded { ast, calls } = &definitions::expand(ast)?;
    super::whole::check(ast)?;
    let mut errors = Vec::new();
    let inputs = infer_inputs(ast, bindings, &mut errors);
    if errors.iter().any(|error| matches!(error, CheckError::OperandRank { .. })) {
        // The product is blamed for its operand already.
        return Err(first(errors));
    }
    let (products, computed) =
        (Products::of(ast).map_err(|error| vec![error])?, Computed::default());
    let unit = Unit {
        ast,
        declarations: &inputs,
        outputs: &[],
        root: None,
        calls: Some(calls),
        products: &products,
        computed: &computed,
    };
    let outputs = infer_all_outputs(unit, errors)?;
    if outputs.is_empty() {
        return Err(vec![CheckError::NoOutput]);
    }
    let name = Name::new("one_liner", Span::default());
    let signature = Signature { fused: false, name, inputs, outputs };
    Ok(Ast { signature: Some(signature), ..written.clone() })
}

/// The outputs of all graphs of a body, in the order of its statements.
fn infer_all_outputs(
    unit: Unit<'_>,
    mut errors: Vec<CheckError>,
) -> Result<Vec<Declaration>, Vec<CheckError>> {
    let ast = unit.ast;
    let wanted = output_names(ast);
    let names: Vec<&str> = wanted.iter().map(|output| output.name.text.as_str()).collect();
    let main = unit.products.main(ast, &names);
    let found = product::find(unit, main, &mut errors);
    let (Some(found), true) = (found, errors.is_empty()) else { return Err(first(errors)) };
    let sources = sources::sources(unit, main, found.graph.space(), &wanted);
    let mut body = Body::of_product(found, unit, errors);
    body.lower_statements(ast, &sources::elsewhere(unit, &sources, &wanted));
    let mut outputs = infer_outputs(ast, &mut body, &names);
    let mut errors = body.errors;
    for source in sources {
        let own = source.outputs.iter().map(|output| output.name.text.as_str());
        let own: Vec<&str> =
            own.filter(|name| !outputs.iter().any(|it| it.name.text == *name)).collect();
        if own.is_empty() {
            continue;
        }
        let statements: Vec<_> = own.iter().filter_map(|name| assignment(ast, name)).collect();
        let values: Vec<ExprId> = statements.iter().map(|(_, statement)| statement.value).collect();
        let places: Vec<usize> = statements.iter().map(|(place, _)| *place).collect();
        let declarations = unit.read_by(&values);
        let unit = Unit { declarations: &declarations, ..unit };
        let Some(mut body) = unit.body_of(source.main, &places, &mut errors) else { continue };
        outputs.extend(infer_outputs(ast, &mut body, &own));
        errors.append(&mut body.errors);
    }
    let place = |output: &Declaration| names.iter().position(|name| *name == output.name.text);
    outputs.sort_by_key(place);
    if errors.is_empty() { Ok(outputs) } else { Err(first(errors)) }
}

/// The names that are outputs: nothing reads them, or they begin with a capital; their types are not known yet.
fn output_names(ast: &Ast) -> Vec<Declaration> {
    let mut read: BTreeSet<&str> = BTreeSet::new();
    for (_, expr) in ast.exprs.iter() {
        if let ExprKind::Name(name) | ExprKind::Annotated(name, _) = &expr.kind {
            read.insert(name);
        }
    }
    let targets = ast.statements.iter().flat_map(|statement| &statement.targets);
    let is_output = |name: &str| !read.contains(name) || name.starts_with(char::is_uppercase);
    let declare = |name: &Name| Declaration {
        name: name.clone(),
        dtype: DType::F32,
        dims: None,
        same_as: None,
        type_span: name.span,
    };
    targets.filter(|name| is_output(&name.text)).map(declare).collect()
}

/// The tensors of the operands on both sides. Further products of inputs have the dims of the first; operands that are
/// made of products are annotated.
fn operand_tiles(ast: &Ast) -> Option<[Vec<Leaf<'_>>; 2]> {
    let made = Products::of(ast).ok()?;
    let of_inputs =
        |(_, left, right): &(Span, ExprId, ExprId)| made.tops(*left) | made.tops(*right) == 0;
    let mut all = product::products(&ast.exprs).filter(of_inputs);
    let (_, left, right) = all.next()?;
    let mut sides = [left, right].map(|id| tiles(ast, id));
    for (_, left, right) in all {
        for (side, id) in [left, right].into_iter().enumerate() {
            for leaf in tiles(ast, id) {
                if !sides.iter().flatten().any(|known| known.name == leaf.name) {
                    sides[side].push(leaf);
                }
            }
        }
    }
    Some(sides)
}

/// The tensors of an operand: all names that it reads.
fn tiles(ast: &Ast, operand: ExprId) -> Vec<Leaf<'_>> {
    let known = |name: &str| {
        matches!(name, "row" | "col" | "inf" | "nan" | "pi") || catalogue::is_reserved(name)
    };
    leaves(ast, operand, false).into_iter().filter(|leaf| !known(leaf.name)).collect()
}

/// A name's first use, and the dims of its first annotation.
#[derive(Clone)]
struct Use<'a> {
    name: &'a str,
    dims: Option<&'a [Dim]>,
    orientation: Orientation,
    /// Whether it is an index or a seed, which is i32.
    is_index: bool,
    /// The mean that is meant, where it is a dim and divides a sum along it.
    divides: Option<String>,
    span: Span,
}

impl Use<'_> {
    /// Whether it is a tile among several names of an operand: it is not annotated, and bound so or written with a capital.
    fn is_tile(&self, bindings: &Bindings) -> bool {
        let named = || self.name.starts_with(char::is_uppercase);
        self.dims.is_none()
            && match bindings.names.get(self.name) {
                Some(Bound::Tensor(_, rank)) => *rank >= 2,
                Some(Bound::Scalar(_)) => false,
                None => named(),
            }
    }

    /// The last two dims as they lie in memory: `.T` tells.
    fn oriented(&self, [first, second]: [&str; 2]) -> Vec<Dim> {
        let (first, second) = (Dim::name(first), Dim::name(second));
        match self.orientation {
            Orientation::Plain => vec![first, second],
            Orientation::Transposed => vec![second, first],
        }
    }
}

/// The names that a body reads and does not assign: the inputs of a one-liner, in the order of its signature.
pub fn free_names(ast: &Ast) -> Vec<String> {
    let Ok(Expanded { ast, .. }) = &definitions::expand(ast) else { return Vec::new() };
    uses(ast, &assigned(ast)).into_iter().map(|seen| seen.name.to_owned()).collect()
}

fn assigned(ast: &Ast) -> BTreeSet<&str> {
    ast.statements.iter().flat_map(|s| &s.targets).map(|name| name.text.as_str()).collect()
}

fn uses<'a>(ast: &'a Ast, assigned: &BTreeSet<&str>) -> Vec<Use<'a>> {
    let skipped = dim_arguments(ast);
    let transposed = transposed(ast);
    let indices = indices(ast);
    let mut uses: Vec<Use<'_>> = Vec::new();
    for (id, expr) in ast.exprs.iter() {
        let (name, dims) = match &expr.kind {
            ExprKind::Name(name) if !skipped.contains(&id) => (name.as_str(), None),
            ExprKind::Annotated(name, dims) => (name.as_str(), Some(dims.as_slice())),
            _ => continue,
        };
        let known = assigned.contains(name)
            || matches!(name, "row" | "col" | "inf" | "nan" | "pi")
            || catalogue::is_reserved(name);
        match uses.iter_mut().find(|seen| seen.name == name) {
            Some(seen) => seen.dims = seen.dims.or(dims),
            None if !known => {
                let orientation = transposed.get(&id).copied().unwrap_or(Orientation::Plain);
                let is_index = indices.contains(name);
                let divides = product::divided_sum(&ast.exprs, name, expr.span);
                let span = expr.span;
                uses.push(Use { name, dims, orientation, is_index, divides, span });
            }
            None => {}
        }
    }
    uses
}

fn infer_inputs(ast: &Ast, bindings: &Bindings, errors: &mut Vec<CheckError>) -> Vec<Declaration> {
    let assigned = assigned(ast);
    let uses = uses(ast, &assigned);
    let operands = operand_tiles(ast);
    let mut declarations = Vec::new();
    let names: Vec<&str> = uses
        .iter()
        .map(|seen| seen.name)
        .chain(assigned)
        .chain(bindings.names.keys().map(String::as_str))
        .collect();
    for seen in &uses {
        let read = |tiles: &Vec<Leaf<'_>>| tiles.iter().any(|leaf| leaf.name == seen.name);
        let side = operands.iter().flatten().position(read).filter(|side| {
            let alone = operands.iter().all(|all| all[*side].len() == 1);
            alone || seen.is_tile(bindings)
        });
        let mut seen = seen.clone();
        if let (Some(side), Some(operands)) = (side, &operands)
            && let Some(leaf) = operands[side].iter().find(|leaf| leaf.name == seen.name)
        {
            seen.orientation =
                if leaf.swapped { Orientation::Transposed } else { Orientation::Plain };
        }
        match declare(&seen, side, bindings, &names) {
            Ok((dtype, dims)) => declarations.push(Declaration {
                name: Name::new(seen.name, seen.span),
                dtype,
                dims,
                same_as: None,
                type_span: seen.span,
            }),
            Err(error) => errors.push(error),
        }
    }
    declarations
}

/// Names that are the index of a `pick` or a `take`, or the seed or offset of random numbers.
fn indices(ast: &Ast) -> BTreeSet<&str> {
    let index = |(_, expr): (ExprId, &Expr)| match &expr.kind {
        ExprKind::Call { function, arguments, .. } => {
            let seed = seed_place(&function.text);
            let places = match function.text.as_str() {
                "pick" | "take" | "gather" => [Some(1), None],
                _ => [seed, seed.map(|seed| seed + 1)],
            };
            places.map(|place| arguments.get(place?).copied())
        }
        _ => [None; 2],
    };
    let name = |id: ExprId| match &ast.exprs[id].kind {
        ExprKind::Name(name) | ExprKind::Annotated(name, _) => Some(name.as_str()),
        _ => None,
    };
    ast.exprs.iter().flat_map(index).flatten().filter_map(name).collect()
}

/// What stands before a `.T`, and what it makes of it.
fn transposed(ast: &Ast) -> BTreeMap<ExprId, Orientation> {
    // The outermost `.T` of several has the largest number, and the last word.
    let of = |(id, expr): (ExprId, &Expr)| match expr.kind {
        ExprKind::Transpose(_) => Some(product::oriented(&ast.exprs, id)),
        _ => None,
    };
    ast.exprs.iter().filter_map(of).collect()
}

fn dim_arguments(ast: &Ast) -> BTreeSet<ExprId> {
    let mut skipped = BTreeSet::new();
    for (_, expr) in ast.exprs.iter() {
        if let ExprKind::Call { function, arguments, .. } = &expr.kind {
            for (_, argument) in arguments
                .iter()
                .enumerate()
                .filter(|(place, _)| super::dims::is_dim_argument(&function.text, *place))
            {
                skipped.insert(*argument);
                if let ExprKind::Infix(_, a, b) = ast.exprs[*argument].kind {
                    skipped.extend([a, b]);
                }
            }
        }
    }
    skipped
}

/// Dims of a matrix with as many batch dims as an operand may have.
const LEADING_MOST: usize = 2 + Space::MOST_BATCH_DIMS;

/// Batch dims of a one-liner: the last one is L, the one before it L2, so that fewer of them are the last ones.
fn batch_dims(count: usize) -> Vec<Dim> {
    let name = |place: usize| if place == 1 { "L".to_owned() } else { format!("L{place}") };
    (1..=count).rev().map(|place| Dim::name(name(place))).collect()
}

type Declared = (DType, Option<Vec<Dim>>);

fn declare(
    seen: &Use<'_>,
    side: Option<usize>,
    bindings: &Bindings,
    names: &[&str],
) -> Result<Declared, CheckError> {
    // An int64 tensor binds to what is declared i32.
    let bound = bindings.names.get(seen.name).map(|bound| match *bound {
        Bound::Tensor(DType::I64, rank) => Bound::Tensor(DType::I32, rank),
        bound => bound,
    });
    if let Some(side) = side {
        let pair = if side == 0 { ["M", "K"] } else { ["K", "N"] };
        let dims = seen.oriented(pair);
        let (dtype, rank) = match bound {
            Some(Bound::Tensor(dtype, rank)) => (dtype, rank),
            Some(Bound::Scalar(dtype)) => (dtype, 0),
            None => (bindings.dtype, 2),
        };
        let dims = match rank {
            2..=LEADING_MOST => [batch_dims(rank - 2), dims].concat(),
            _ => {
                return Err(CheckError::OperandRank {
                    name: seen.name.to_owned(),
                    rank,
                    at: seen.span,
                });
            }
        };
        return Ok((dtype, Some(seen.dims.map_or(dims, <[Dim]>::to_vec))));
    }
    match (bound, seen.dims) {
        (Some(Bound::Tensor(dtype, _)), Some(dims)) => Ok((dtype, Some(dims.to_vec()))),
        (Some(Bound::Tensor(dtype, 0)), None) => Ok((dtype, Some(Vec::new()))),
        (Some(Bound::Tensor(dtype, rank @ 2..=LEADING_MOST)), None) => {
            Ok((dtype, Some([batch_dims(rank - 2), seen.oriented(["M", "N"])].concat())))
        }
        (Some(Bound::Tensor(_, rank)), None) => {
            Err(CheckError::BoundRank { name: seen.name.to_owned(), rank, at: seen.span })
        }
        (Some(Bound::Scalar(dtype)), None) => Ok((dtype, None)),
        // A value set for something annotated fills a tensor of that shape; the engine refuses it, not the types.
        (Some(Bound::Scalar(_)) | None, Some(dims)) if seen.is_index => {
            Ok((DType::I32, Some(dims.to_vec())))
        }
        (Some(Bound::Scalar(_)) | None, Some(dims)) => {
            Ok((vector_or_tile(dims, bindings), Some(dims.to_vec())))
        }
        (None, None) if matches!(seen.name, "M" | "N" | "K") => {
            let divides = seen.divides.clone();
            Err(CheckError::DimAsValue { name: seen.name.to_owned(), divides, at: seen.span })
        }
        (None, None) if seen.name.starts_with(char::is_uppercase) => {
            Ok((bindings.dtype, Some(seen.oriented(["M", "N"]))))
        }
        (None, None) => {
            let others = names.iter().copied().filter(|name| *name != seen.name);
            let nearest = nearest(seen.name, others.collect::<Vec<_>>()).map(str::to_owned);
            Err(CheckError::Uninferred { name: seen.name.to_owned(), nearest, at: seen.span })
        }
    }
}

fn vector_or_tile(dims: &[Dim], bindings: &Bindings) -> DType {
    if dims.len() >= 2
        && dims.iter().any(|dim| *dim == Dim::name("M"))
        && dims.iter().any(|dim| *dim == Dim::name("N"))
    {
        bindings.dtype
    } else {
        DType::F32
    }
}

/// The outputs of one graph among these names.
fn infer_outputs(ast: &Ast, body: &mut Body<'_>, wanted: &[&str]) -> Vec<Declaration> {
    let first = match body.graph.products().first() {
        Some(product) => body.graph.inputs().get(product.left.0.0 as usize),
        None => body.graph.inputs().iter().find(|input| input.dims.is_some()),
    };
    let operand_dtype = first.map_or(DType::F32, |input| input.dtype);
    let tile_dtype = if operand_dtype.bits() == 8 { DType::F32 } else { operand_dtype };
    let mut outputs = Vec::new();
    for statement in &ast.statements {
        for target in &statement.targets {
            let name = target.text.as_str();
            let is_output = wanted.contains(&name);
            let Some(&(lowered, span)) = body.names.get(name).filter(|_| is_output) else {
                continue;
            };
            let Some((values, is_stacked)) = body.stored_values(lowered, span) else { continue };
            let ty = body.graph.ty(values[0]);
            let cast = match &ast.exprs[statement.value].kind {
                ExprKind::Call { function, grad: false, .. } => {
                    match Fold::from_name(&function.text) {
                        Some(fold) if fold.gives(Elem::F32) == Some(Elem::I32) => Some(DType::I32),
                        Some(_) | None => DType::from_name(&function.text),
                    }
                }
                _ => None,
            };
            let is_tile = ty.axes.kind() == Kind::Tile;
            let dtype = match (cast, ty.elem) {
                (Some(dtype), _) => dtype,
                (None, Elem::Bool) => DType::Bool,
                // An index, and what is computed from indices alone.
                (None, Elem::I32) if is_stacked => DType::I32,
                (None, Elem::F32 | Elem::I32) if is_tile => tile_dtype,
                (None, Elem::F32 | Elem::I32) => DType::F32,
            };
            let mut dims = body.stored_dims(&values, is_stacked);
            if let (_, Orientation::Transposed) = product::oriented(&ast.exprs, statement.value) {
                let last = dims.len() - 1;
                dims.swap(last - 1, last);
            }
            outputs.push(Declaration {
                name: target.clone(),
                dtype,
                dims: Some(dims),
                same_as: None,
                type_span: target.span,
            });
        }
    }
    outputs
}
