//! The dims of expressions. Their order says nothing: which are rows and columns is what the graph that computes them says.

use std::collections::HashMap;

use crate::catalogue::{self, Group};
use crate::check::{self, Matrix, ReadAs, Reading, read_dim};
use crate::dtype::DType;
use crate::shape::Dim;
use crate::syntax::{Ast, ExprId, ExprKind, Exprs, Number, Signature};

use super::segments::{Cut, SEGMENTS};

/// The dims of values that meet element by element.
pub(super) fn meet(dims: &[Dim], others: &[Dim]) -> Vec<Dim> {
    let mut dims = dims.to_vec();
    for dim in others {
        match dims.iter_mut().find(|own| own.same_base(dim)) {
            Some(own) if dim.divisor() < own.divisor() => *own = dim.clone(),
            Some(_) => {}
            None => dims.push(dim.clone()),
        }
    }
    dims
}

/// Dims without some that are folded, or with runs of them.
pub(super) fn reduced(dims: &[Dim], over: &[(Dim, Option<u32>)]) -> Vec<Dim> {
    let left = dims.iter().filter_map(|dim| {
        match (over.iter().find(|(folded, _)| folded.same_base(dim)), dim) {
            (None, _) => Some(dim.clone()),
            (Some((_, run)), dim) => run.map(|run| divided(dim, run)),
        }
    });
    left.collect()
}

/// Dims with other columns.
pub(super) fn with_columns(dims: &[Dim], own: &Dim, columns: &Dim) -> Vec<Dim> {
    dims.iter().map(|dim| if dim.same_base(own) { columns } else { dim }.clone()).collect()
}

/// What is known of a body's expressions.
pub(super) struct Known {
    /// What graphs that compute them vary along.
    matrices: HashMap<ExprId, Matrix>,
    pub(super) dims: Vec<Vec<Dim>>,
    /// Rows that are cut into segments.
    pub(super) cuts: Vec<Cut>,
    /// Dims of parts that splits name.
    pub(super) parts: Vec<Dim>,
}

/// The same dims, without that of segments where there is that of their rows.
pub(super) fn without_segments(mut dims: Vec<Dim>, cuts: &[Cut]) -> Vec<Dim> {
    for cut in cuts.iter().filter(|cut| dims.contains(&cut.row)).collect::<Vec<_>>() {
        dims.retain(|dim| *dim != cut.segment);
    }
    dims
}

impl Known {
    pub(super) fn of(ast: &Ast, signature: &Signature) -> Known {
        // It was typed before, and naming products does not change that.
        let matrices = check::matrices(ast).unwrap_or_default();
        let (dims, cuts, parts) = (Vec::new(), Vec::new(), check::named_parts(&ast.exprs));
        let known = Known { matrices, dims, cuts, parts }.filled(ast, signature);
        if known.cuts.is_empty() {
            return known;
        }
        // Which rows are cut is known behind the first time.
        Known { dims: Vec::new(), ..known }.filled(ast, signature)
    }

    fn filled(mut self, ast: &Ast, signature: &Signature) -> Known {
        let reading = Reading::new(ast, &signature.inputs);
        for (id, expr) in ast.exprs.iter() {
            let dims = self.dims_of(ast, signature, id, reading.as_ref());
            self.dims.push(without_segments(dims, &self.cuts));
            if let ExprKind::Call { function, arguments, .. } = &expr.kind
                && function.text == SEGMENTS
                && let [rows, ends] = arguments.as_slice()
                && let Some(cut) = Cut::of(signature, ast, self.rows(*rows), *ends)
                && !self.cuts.contains(&cut)
            {
                self.cuts.push(cut);
            }
        }
        self
    }

    /// Whether a dim is that of a part that a split names.
    pub(super) fn is_part(&self, dim: &Dim) -> bool {
        self.parts.iter().any(|part| part.same_base(dim))
    }

    fn of_id(&self, id: ExprId) -> &[Dim] {
        &self.dims[id.0 as usize]
    }

    /// The columns of a value, if it has some.
    pub(super) fn columns(&self, id: ExprId) -> Option<Dim> {
        let known = self.matrices.get(&id);
        known.map_or_else(|| self.of_id(id).last().cloned(), |matrix| matrix.column.clone())
    }

    /// The rows of a value, if it has some.
    pub(super) fn rows(&self, id: ExprId) -> Option<Dim> {
        let known = self.matrices.get(&id);
        known.map_or_else(|| self.of_id(id).first().cloned(), |matrix| matrix.row.clone())
    }

    fn dims_of(
        &self,
        ast: &Ast,
        signature: &Signature,
        id: ExprId,
        reading: Option<&Reading<'_>>,
    ) -> Vec<Dim> {
        match &ast.exprs[id].kind {
            ExprKind::Number(_) | ExprKind::Dims(_) => Vec::new(),
            ExprKind::Name(name) | ExprKind::Annotated(name, _) => {
                self.name(ast, signature, id, name)
            }
            ExprKind::Transpose(a) | ExprKind::Prefix(_, a) => self.of_id(*a).to_vec(),
            ExprKind::Infix(_, a, b) => meet(self.of_id(*a), self.of_id(*b)),
            ExprKind::Product(a, b) => {
                let of = |id: &ExprId| {
                    pair_of(reading, *id, &|call| self.of_id(call).to_vec(), &self.parts)
                };
                let pairs = [a, b].map(of);
                product([self.of_id(*a), self.of_id(*b)], pairs, &self.cuts)
            }
            ExprKind::Call { function, arguments, .. } => {
                self.call(&ast.exprs, id, &function.text, arguments)
            }
        }
    }

    fn name(&self, ast: &Ast, signature: &Signature, id: ExprId, name: &str) -> Vec<Dim> {
        let place = |names: &[crate::syntax::Name]| names.iter().position(|it| it.text == name);
        let found = ast.statements.iter().find_map(|statement| {
            (statement.value < id).then(|| place(&statement.targets).map(|at| (statement, at)))?
        });
        if let Some((statement, at)) = found {
            return match statement.targets.len() {
                1 => self.of_id(statement.value).to_vec(),
                count => self.part(ast, statement.value, at, count).0,
            };
        }
        let matrix = self.matrices.get(&id).cloned().unwrap_or_default();
        match name {
            "row" => return matrix.row.into_iter().collect(),
            "col" => return matrix.column.into_iter().collect(),
            _ => {}
        }
        let input = signature.inputs.iter().find(|input| input.name.text == name);
        input.and_then(|input| input.dims.clone()).unwrap_or_default()
    }

    /// What one of the values that a split gives varies along, and its columns.
    pub(super) fn part(
        &self,
        ast: &Ast,
        split: ExprId,
        at: usize,
        count: usize,
    ) -> (Vec<Dim>, Option<Dim>) {
        let ExprKind::Call { arguments, .. } = &ast.exprs[split].kind else {
            return (self.of_id(split).to_vec(), None);
        };
        let whole = self.of_id(arguments[0]);
        let Some(own) = self.columns(arguments[0]) else { return (whole.to_vec(), None) };
        if let Some(count) = top_count(&ast.exprs, split) {
            let kept = whole.iter().filter(|dim| !dim.same_base(&own)).cloned();
            return (kept.chain([Dim::Size(count)]).collect(), Some(Dim::Size(count)));
        }
        let listed = arguments.get(1).and_then(|list| match &ast.exprs[*list].kind {
            ExprKind::Dims(dims) => dims.get(at).cloned(),
            _ => None,
        });
        let columns = listed.unwrap_or_else(|| divided(&own, count as u32));
        (with_columns(whole, &own, &columns), Some(columns))
    }

    fn call(&self, exprs: &Exprs, id: ExprId, function: &str, arguments: &[ExprId]) -> Vec<Dim> {
        let meet_all = |arguments: &[ExprId]| {
            let all = arguments.iter().map(|argument| self.of_id(*argument));
            all.fold(Vec::new(), |all, one| meet(&all, one))
        };
        let Some(&first_id) = arguments.first() else { return Vec::new() };
        let first = self.of_id(first_id);
        if DType::from_name(function).is_some() {
            return first.to_vec();
        }
        let Some(entry) = catalogue::find(function) else { return meet_all(arguments) };
        match (entry.group, entry.name) {
            (Group::Reduction, _) => {
                let over = folded(exprs, &arguments[1..], first);
                let mut dims = reduced(first, &over);
                // A fold of cut rows has an element for each segment, unless it folds all dims.
                let folds = |dim: &Dim| over.iter().any(|(folded, _)| folded == dim);
                let by_segment = |cut: &&Cut| folds(&cut.row) && !folds(&cut.segment);
                if let (Some(cut), [_, _, ..]) = (self.cuts.iter().find(by_segment), arguments) {
                    dims.insert(0, cut.segment.clone());
                }
                dims
            }
            (Group::Structure, "concat" | "join") => {
                let whole = self.matrices.get(&id).and_then(|matrix| matrix.column.clone());
                let each = arguments.iter().map(|part| {
                    let dims = self.of_id(*part);
                    let own = self.columns(*part).filter(|own| dims.contains(own));
                    match (own, &whole) {
                        (Some(own), Some(whole)) => with_columns(dims, &own, whole),
                        (None, _) | (_, None) => dims.to_vec(),
                    }
                });
                each.fold(Vec::new(), |all, one| meet(&all, &one))
            }
            (Group::Composite, _)
            | (Group::Structure, "halves" | "pairs" | "split" | "topk" | SEGMENTS) => {
                first.to_vec()
            }
            (Group::Structure, "gather" | "combine" | "scatter") => {
                let Some(index) = arguments.get(1) else { return Vec::new() };
                let columns = self.matrices.get(&id).and_then(|matrix| matrix.column.clone());
                let columns = columns.or_else(|| self.columns(first_id));
                let index = self.of_id(*index);
                if entry.name != "scatter" {
                    return gathered(entry.name, columns, index);
                }
                let sums = arguments.get(2).and_then(|sums| read_dim(exprs, *sums));
                scattered(first, columns, index, sums)
            }
            (Group::Structure, "take") => {
                arguments.get(1).map_or_else(Vec::new, |index| self.of_id(*index).to_vec())
            }
            (Group::Structure, "pick") => {
                let own = self.columns(first_id);
                let is_kept = |dim: &&Dim| own.as_ref().is_none_or(|own| !own.same_base(dim));
                first.iter().filter(is_kept).cloned().collect()
            }
            (Group::Bits, "dropout") => first.to_vec(),
            (Group::Bits, "size" | "index" | "philox" | "uniform" | "normal") => Vec::new(),
            (Group::Elementwise | Group::Activation | Group::Bits | Group::Structure, _) => {
                meet_all(arguments)
            }
        }
    }
}

/// The rows and columns that an expression reads as an operand.
pub(super) fn pair_of(
    reading: Option<&Reading<'_>>,
    id: ExprId,
    dims: &dyn Fn(ExprId) -> Vec<Dim>,
    parts: &[Dim],
) -> Option<[Dim; 2]> {
    let (pair, is_stored) = match reading?.of(id)? {
        ReadAs::Tensors(pair) => (pair, false),
        ReadAs::Graph(product, swapped) => match dims(product).as_slice() {
            [.., row, column] if swapped => ([column.clone(), row.clone()], true),
            [.., row, column] => ([row.clone(), column.clone()], true),
            _ => return None,
        },
    };
    // A part has its own columns; its tensors have the columns of the whole.
    let own = dims(id);
    let is_known = |dim: &&Dim| pair.iter().any(|one| one.same_base(dim));
    let [first, second] = pair.each_ref().map(|dim| {
        match own.iter().find(|own| own.same_base(dim)) {
            // Tensors that have parts of it, or runs, do not say that they are put together.
            Some(own) => (is_stored || dim.divisor() <= own.divisor()).then(|| own.clone()),
            None if !is_stored && parts.iter().any(|part| part.same_base(dim)) => None,
            None => own.iter().rev().find(|dim| !is_known(dim)).cloned(),
        }
    });
    Some([first?, second?])
}

/// The dims of a product of operands with these dims, which read so: batch dims, rows, columns. A contraction of cut rows
/// has a product for each segment.
pub(super) fn product(
    [left, right]: [&[Dim]; 2],
    pairs: [Option<[Dim; 2]>; 2],
    cuts: &[Cut],
) -> Vec<Dim> {
    let [Some(of_left), Some(of_right)] = pairs else { return meet(left, right) };
    let batch = |dims: &[Dim], pair: &[Dim; 2]| -> Vec<Dim> {
        let is_own = |dim: &&Dim| !pair.iter().any(|one| one.same_base(dim));
        dims.iter().filter(is_own).cloned().collect()
    };
    let mut dims = batch(left, &of_left);
    dims.extend(batch(right, &of_right).into_iter().filter(|dim| !left.contains(dim)));
    let [[row, inner], [contracted, column]] = [of_left, of_right];
    if let Some(cut) = cuts.iter().find(|cut| cut.row == inner && cut.row == contracted) {
        dims.retain(|dim| *dim != cut.segment);
        dims.insert(0, cut.segment.clone());
    }
    dims.extend([row, column]);
    dims
}

/// How many values `topk` gives, if an expression is that.
pub(super) fn top_count(exprs: &Exprs, id: ExprId) -> Option<u32> {
    let ExprKind::Call { function, arguments, .. } = &exprs[id].kind else { return None };
    match exprs[*arguments.get(1)?].kind {
        ExprKind::Number(Number::Integer(count)) if function.text == "topk" => {
            u32::try_from(count).ok()
        }
        _ => None,
    }
}

/// The dims of rows that are read by their numbers; of `combine` a sum of the rows that a list numbers.
pub(super) fn gathered(function: &str, columns: Option<Dim>, index: &[Dim]) -> Vec<Dim> {
    let kept = if function == "combine" { 1 } else { index.len() };
    index.iter().take(kept).cloned().chain(columns).collect()
}

/// The dims of sums by numbers: of elements that have one each, or of rows.
pub(super) fn scattered(
    of: &[Dim],
    columns: Option<Dim>,
    index: &[Dim],
    sums: Option<Dim>,
) -> Vec<Dim> {
    let is_element = index.len() == 2 && index.iter().all(|dim| of.contains(dim));
    let rows = of.len() == 2 && !is_element;
    sums.into_iter().chain(columns.filter(|_| rows)).collect()
}

/// What a reduction's arguments fold of a value: dims, and runs of them; all of its dims where none are named.
pub(super) fn folded(exprs: &Exprs, arguments: &[ExprId], of: &[Dim]) -> Vec<(Dim, Option<u32>)> {
    let mut over: Vec<(Dim, Option<u32>)> = Vec::new();
    for argument in arguments {
        match (&exprs[*argument].kind, over.last_mut()) {
            (ExprKind::Number(Number::Integer(length)), Some((_, run @ None))) => {
                *run = u32::try_from(*length).ok();
            }
            _ => over.extend(read_dim(exprs, *argument).map(|dim| (dim, None))),
        }
    }
    if over.is_empty() {
        over = of.iter().map(|dim| (dim.clone(), None)).collect();
    }
    over
}

pub(super) fn divided(dim: &Dim, by: u32) -> Dim {
    match dim {
        Dim::Name { name, divisor } => {
            Dim::Name { name: name.clone(), divisor: divisor.saturating_mul(by) }
        }
        Dim::Size(size) => Dim::Size(size / by.max(1)),
    }
}

/// Whether a value is a product, perhaps rounded.
pub(super) fn is_product(ast: &Ast, value: ExprId) -> bool {
    let product = |id: ExprId| matches!(ast.exprs[id].kind, ExprKind::Product(..));
    match &ast.exprs[value].kind {
        ExprKind::Product(..) => true,
        ExprKind::Call { function, grad: false, arguments } => {
            DType::from_name(&function.text).is_some()
                && arguments.len() == 1
                && product(arguments[0])
        }
        _ => false,
    }
}
