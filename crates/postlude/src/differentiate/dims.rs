//! The dims of expressions, and how an operand reads them.

use crate::catalogue::{self, Group};
use crate::check::read_dim;
use crate::dtype::DType;
use crate::shape::Dim;
use crate::syntax::{Ast, ExprId, ExprKind, Exprs, Number, Signature};

use super::Save;
use super::segments::{Cut, SEGMENTS};

/// What is known of an expression's dims.
#[derive(Clone, PartialEq, Debug, Default)]
pub(super) struct Info {
    pub(super) dims: Vec<Dim>,
    /// The last product that its value is made of: its number, and its rows and columns.
    last: Option<(usize, [Dim; 2])>,
    /// The last two dims of the first of the tensors with the most dims that it reads, as they read and as fine as any of
    /// them has these, and how many it has.
    leaf: Option<(usize, [Dim; 2])>,
}

impl Info {
    /// That of a tensor.
    pub(super) fn of_tensor(dims: &[Dim]) -> Info {
        let leaf = match dims {
            [.., first, second] => Some((dims.len(), [first.clone(), second.clone()])),
            _ => None,
        };
        Info { dims: dims.to_vec(), last: None, leaf }
    }

    /// That of a declared tensor: of one that varies by segments, the rows that it meets lead.
    pub(super) fn of_declared(dims: &[Dim], cuts: &[Cut]) -> Info {
        let mut info = Info::of_tensor(dims);
        if let (Some(leaf), [segment, _]) = (&mut info.leaf, dims)
            && cuts.iter().any(|cut| cut.segment == *segment)
        {
            leaf.0 = 1;
        }
        info
    }

    /// That of a product with this number.
    pub(super) fn of_product(number: usize, batch: &[Dim], pair: [Dim; 2]) -> Info {
        let dims = [batch, &pair].concat();
        Info { dims, last: Some((number, pair)), leaf: None }
    }

    /// The same of a value that a graph of its own computes, as a product with this number is.
    pub(super) fn of_number(self, number: usize) -> Info {
        let last = self.leaf.as_ref().map(|(_, pair)| (number, pair.clone()));
        Info { last, ..self }
    }

    /// That of a value that meets another one element by element.
    pub(super) fn with(&self, other: &Info) -> Info {
        let mut dims = self.dims.clone();
        for dim in &other.dims {
            match dims.iter_mut().find(|own| own.same_base(dim)) {
                Some(own) if dim.divisor() < own.divisor() => *own = dim.clone(),
                Some(_) => {}
                None => dims.push(dim.clone()),
            }
        }
        let last = match (&self.last, &other.last) {
            (Some(a), Some(b)) => Some(if b.0 > a.0 { b } else { a }.clone()),
            (a, b) => a.clone().or_else(|| b.clone()),
        };
        let leaf = match (&self.leaf, &other.leaf) {
            (Some(a), Some(b)) => {
                let ((rank, own), (_, other)) = if b.0 > a.0 { (b, a) } else { (a, b) };
                let is_finer =
                    |own: &Dim, dim: &Dim| dim.same_base(own) && dim.divisor() < own.divisor();
                let finest = own.clone().map(|own| {
                    other.iter().find(|dim| is_finer(&own, dim)).cloned().unwrap_or(own)
                });
                Some((*rank, finest))
            }
            (a, b) => a.clone().or_else(|| b.clone()),
        };
        Info { dims, last, leaf }
    }

    pub(super) fn transposed(&self) -> Info {
        let swap = |[a, b]: [Dim; 2]| [b, a];
        let turned = |(number, pair): (usize, [Dim; 2])| (number, swap(pair));
        let [last, leaf] = [&self.last, &self.leaf].map(|pair| pair.clone().map(turned));
        Info { dims: self.dims.clone(), last, leaf }
    }

    /// The same without dims, or with runs of them.
    pub(super) fn reduced(&self, over: &[(Dim, Option<u32>)]) -> Info {
        let mut dims = Vec::new();
        for dim in &self.dims {
            match (over.iter().find(|(folded, _)| folded.same_base(dim)), dim) {
                (None, _) => dims.push(dim.clone()),
                (Some((_, Some(run))), Dim::Name { name, divisor }) => {
                    let divisor = divisor.saturating_mul(*run);
                    dims.push(Dim::Name { name: name.clone(), divisor });
                }
                (Some((_, Some(run))), Dim::Size(size)) => dims.push(Dim::Size(size / run.max(&1))),
                (Some((_, None)), _) => {}
            }
        }
        // A list that is folded is no matrix any more.
        let is_fixed =
            |dim: &Dim| matches!(dim, Dim::Size(_)) && over.iter().any(|(folded, _)| folded == dim);
        let leaf = self.leaf.clone().filter(|(_, pair)| !pair.iter().any(is_fixed));
        Info { dims, last: self.last.clone(), leaf }
    }

    /// The same with other dims.
    pub(super) fn with_dims(&self, dims: Vec<Dim>) -> Info {
        Info { dims, ..self.clone() }
    }

    /// The same with other columns, as a value of its product too; what it reads of tensors is what it was.
    pub(super) fn with_columns(&self, columns: &Dim) -> Info {
        let Some((own, rest)) = self.dims.split_last() else { return self.clone() };
        let dims = [rest, std::slice::from_ref(columns)].concat();
        Info { dims, last: replaced(self.last.as_ref(), own, columns), leaf: self.leaf.clone() }
    }

    /// That of a part of its columns.
    fn part(&self, columns: &Dim) -> Info {
        let Some(own) = self.dims.last() else { return self.clone() };
        Info { leaf: replaced(self.leaf.as_ref(), own, columns), ..self.with_columns(columns) }
    }

    /// Its rows and columns as an operand of a product, where that is known.
    pub(super) fn reads(&self) -> Option<[Dim; 2]> {
        self.last.as_ref().or(self.leaf.as_ref()).map(|(_, pair)| pair.clone())
    }

    /// Its batch dims as an operand.
    fn batch(&self) -> Vec<Dim> {
        let Some(pair) = self.reads() else { return Vec::new() };
        let own = self.dims.iter().filter(|dim| !pair.iter().any(|one| one.same_base(dim)));
        own.cloned().collect()
    }
}

/// Rows and columns in which a dim is another one.
fn replaced(pair: Option<&(usize, [Dim; 2])>, own: &Dim, other: &Dim) -> Option<(usize, [Dim; 2])> {
    let moved = |dim: Dim| if dim == *own { other.clone() } else { dim };
    pair.cloned().map(|(number, pair)| (number, pair.map(moved)))
}

/// What is known of a body's expressions.
pub(super) struct Known {
    save: Save,
    pub(super) infos: Vec<Info>,
    /// How many products it has.
    pub(super) products: usize,
    /// Rows that are cut into segments.
    pub(super) cuts: Vec<Cut>,
    /// The rows and columns of its products, where all have the same: what `row` and `col` number.
    space: Option<[Dim; 2]>,
}

/// The same, which has no dim of segments where it has their rows.
pub(super) fn without_segments(mut info: Info, cuts: &[Cut]) -> Info {
    for cut in cuts.iter().filter(|cut| info.dims.contains(&cut.row)).collect::<Vec<_>>() {
        info.dims.retain(|dim| *dim != cut.segment);
    }
    info
}

impl Known {
    pub(super) fn of(ast: &Ast, signature: &Signature, save: Save) -> Known {
        // Which rows are cut, and what products vary along, is known behind the first time.
        let known = Known::given(ast, signature, save, (Vec::new(), None));
        let space = known.common_space(ast);
        if known.cuts.is_empty() && space.is_none() {
            return known;
        }
        Known::given(ast, signature, save, (known.cuts, space))
    }

    /// The rows and columns of all products, where they are the same.
    fn common_space(&self, ast: &Ast) -> Option<[Dim; 2]> {
        let products =
            ast.exprs.iter().filter(|(_, expr)| matches!(expr.kind, ExprKind::Product(..)));
        let mut spaces = products.map(|(id, _)| self.of_id(id).reads());
        let first = spaces.next()??;
        spaces.all(|space| space.as_ref() == Some(&first)).then_some(first)
    }

    /// The same where these rows are cut, and `row` and `col` number these dims.
    fn given(
        ast: &Ast,
        signature: &Signature,
        save: Save,
        (cuts, space): (Vec<Cut>, Option<[Dim; 2]>),
    ) -> Known {
        let infos = Vec::with_capacity(ast.exprs.len());
        let mut known = Known { save, infos, products: 0, cuts, space };
        for (id, expr) in ast.exprs.iter() {
            let info = known.info(ast, signature, id, &expr.kind);
            known.infos.push(without_segments(info, &known.cuts));
            if let ExprKind::Call { function, arguments, .. } = &expr.kind
                && function.text == SEGMENTS
                && let [rows, ends] = arguments.as_slice()
                && let Some(cut) = Cut::of(signature, ast, known.of_id(*rows), *ends)
                && !known.cuts.contains(&cut)
            {
                known.cuts.push(cut);
            }
        }
        known
    }

    fn of_id(&self, id: ExprId) -> &Info {
        &self.infos[id.0 as usize]
    }

    fn info(&mut self, ast: &Ast, signature: &Signature, id: ExprId, kind: &ExprKind) -> Info {
        match kind {
            ExprKind::Number(_) | ExprKind::Dims(_) => Info::default(),
            ExprKind::Name(name) | ExprKind::Annotated(name, _) => {
                self.name(ast, signature, id, name)
            }
            ExprKind::Transpose(a) => self.of_id(*a).transposed(),
            ExprKind::Prefix(_, a) => self.of_id(*a).clone(),
            ExprKind::Infix(_, a, b) => self.of_id(*a).with(self.of_id(*b)),
            ExprKind::Product(a, b) => {
                self.products += 1;
                let (left, right) = (self.of_id(*a), self.of_id(*b));
                let mut info = product(self.products, left, right);
                // A contraction of cut rows has a product for each segment.
                let contracted = |cut: &&Cut| {
                    let row = Some(&cut.row);
                    let [left, right] = [left, right].map(Info::reads);
                    left.as_ref().map(|[_, inner]| inner) == row
                        && right.as_ref().map(|[inner, _]| inner) == row
                };
                if let Some(cut) = self.cuts.iter().find(contracted) {
                    info.dims.insert(0, cut.segment.clone());
                }
                info
            }
            ExprKind::Call { function, arguments, .. } => {
                let info = self.call(&ast.exprs, &function.text, arguments);
                if function.text == "scatter" {
                    self.products += 1;
                    return info.of_number(self.products);
                }
                info
            }
        }
    }

    fn name(&self, ast: &Ast, signature: &Signature, id: ExprId, name: &str) -> Info {
        let place = |names: &[crate::syntax::Name]| names.iter().position(|it| it.text == name);
        let found = ast.statements.iter().find_map(|statement| {
            (statement.value < id).then(|| place(&statement.targets).map(|at| (statement, at)))?
        });
        if let Some((statement, at)) = found {
            let info = self.of_id(statement.value);
            // A saved product is a tensor of the backward kernel.
            if self.save == Save::Products && is_product(ast, statement.value) {
                return Info::of_tensor(&info.dims);
            }
            let count = statement.targets.len();
            return if count == 1 {
                info.clone()
            } else {
                self.part(ast, statement.value, at, count)
            };
        }
        if let (Some([row, column]), "row" | "col") = (&self.space, name) {
            let dim = if name == "row" { row } else { column };
            return Info::of_tensor(std::slice::from_ref(dim));
        }
        let input = signature.inputs.iter().find(|input| input.name.text == name);
        let dims = input.and_then(|input| input.dims.as_deref());
        dims.map_or_else(Info::default, |dims| Info::of_declared(dims, &self.cuts))
    }

    /// One of the values that a split gives.
    fn part(&self, ast: &Ast, split: ExprId, at: usize, count: usize) -> Info {
        let ExprKind::Call { arguments, .. } = &ast.exprs[split].kind else {
            return self.of_id(split).clone();
        };
        let whole = self.of_id(arguments[0]);
        if let Some(count) = top_count(&ast.exprs, split) {
            let mut dims = whole.dims.clone();
            dims.pop();
            dims.push(Dim::Size(count));
            return whole.with_dims(dims);
        }
        let listed = arguments.get(1).and_then(|list| match &ast.exprs[*list].kind {
            ExprKind::Dims(dims) => dims.get(at).cloned(),
            _ => None,
        });
        let Some(own) = whole.dims.last() else { return whole.clone() };
        whole.part(&listed.unwrap_or_else(|| divided(own, count as u32)))
    }

    fn call(&self, exprs: &Exprs, function: &str, arguments: &[ExprId]) -> Info {
        let meet = |arguments: &[ExprId]| {
            let all = arguments.iter().map(|argument| self.of_id(*argument));
            all.fold(Info::default(), |all, one| all.with(one))
        };
        let Some(first) = arguments.first().map(|first| self.of_id(*first)) else {
            return Info::default();
        };
        if DType::from_name(function).is_some() {
            return first.clone();
        }
        let Some(entry) = catalogue::find(function) else { return meet(arguments) };
        match (entry.group, entry.name) {
            (Group::Reduction, _) => {
                let over = folded(exprs, &arguments[1..], first);
                let mut info = first.reduced(&over);
                // A fold of cut rows has an element for each segment, unless it folds all dims.
                let folds = |dim: &Dim| over.iter().any(|(folded, _)| folded == dim);
                let by_segment = |cut: &&Cut| folds(&cut.row) && !folds(&cut.segment);
                if let (Some(cut), [_, _, ..]) = (self.cuts.iter().find(by_segment), arguments) {
                    info.dims.insert(0, cut.segment.clone());
                }
                info
            }
            (Group::Composite, _) | (Group::Structure, "halves" | "pairs" | "split" | "topk") => {
                first.clone()
            }
            (Group::Structure, "concat" | "join") => {
                let parts = arguments
                    .iter()
                    .filter(|id| !matches!(exprs[**id].kind, ExprKind::Number(Number::Integer(_))));
                let own = parts.filter_map(|part| self.of_id(*part).dims.last().cloned());
                let own: Vec<Dim> = own.collect();
                let Some(last) = first.dims.last() else { return first.clone() };
                let split = self.split_into(exprs, &own);
                first.with_columns(&split.unwrap_or_else(|| multiplied(last, own.len() as u32)))
            }
            (Group::Structure, SEGMENTS) => first.clone(),
            (Group::Structure, "gather" | "combine") => {
                let Some(index) = arguments.get(1) else { return Info::default() };
                gathered(entry.name, first, self.of_id(*index))
            }
            (Group::Structure, "scatter") => {
                let [_, index, sums, ..] = arguments else { return Info::default() };
                let Some(sums) = read_dim(exprs, *sums) else { return Info::default() };
                scattered(first, self.of_id(*index), sums)
            }
            (Group::Structure, "take") => {
                arguments.get(1).map_or_else(Info::default, |index| self.of_id(*index).clone())
            }
            (Group::Structure, "pick") => {
                let mut dims = first.dims.clone();
                dims.pop();
                first.with_dims(dims)
            }
            (Group::Bits, "dropout") => first.clone(),
            (Group::Bits, "size" | "index" | "philox" | "uniform" | "normal") => Info::default(),
            (Group::Elementwise | Group::Activation | Group::Bits | Group::Structure, _) => {
                meet(arguments)
            }
        }
    }
}

impl Known {
    /// The dim that a split before this divides into parts of these sizes.
    fn split_into(&self, exprs: &Exprs, parts: &[Dim]) -> Option<Dim> {
        exprs.iter().find_map(|(_, expr)| {
            let ExprKind::Call { arguments, .. } = &expr.kind else { return None };
            let [whole, list] = arguments.as_slice() else { return None };
            let listed = matches!(&exprs[*list].kind, ExprKind::Dims(dims) if dims == parts);
            let whole = self.infos.get(whole.0 as usize).filter(|_| listed)?;
            whole.dims.last().cloned()
        })
    }
}

/// The dims of a product of operands that read so.
pub(super) fn product(number: usize, left: &Info, right: &Info) -> Info {
    let (Some([row, _]), Some([_, column])) = (left.reads(), right.reads()) else {
        return left.with(right);
    };
    let mut batch = left.batch();
    batch.extend(right.batch().into_iter().filter(|dim| !left.dims.contains(dim)));
    Info::of_product(number, &batch, [row, column])
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
pub(super) fn gathered(function: &str, of: &Info, index: &Info) -> Info {
    let Some(column) = of.dims.last().cloned() else { return Info::default() };
    let kept = if function == "combine" { 1 } else { index.dims.len() };
    let numbers = &index.dims[..kept.min(index.dims.len())];
    let dims = [numbers, std::slice::from_ref(&column)].concat();
    let pair = index.dims.first().map(|row| [row.clone(), column]);
    Info { dims, last: None, leaf: pair.map(|pair| (2, pair)) }
}

/// The dims of sums by numbers: of elements that have one each, or of rows.
pub(super) fn scattered(of: &Info, index: &Info, sums: Dim) -> Info {
    let rows = of.dims.len() == 2 && of.dims != index.dims;
    let column = of.dims.last().filter(|_| rows).cloned();
    Info::of_tensor(&[vec![sums], column.into_iter().collect()].concat())
}

/// What a reduction's arguments fold of a value: dims, and runs of them; all of its dims where none are named.
pub(super) fn folded(exprs: &Exprs, arguments: &[ExprId], of: &Info) -> Vec<(Dim, Option<u32>)> {
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
        over = of.dims.iter().map(|dim| (dim.clone(), None)).collect();
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

fn multiplied(dim: &Dim, by: u32) -> Dim {
    match dim {
        Dim::Name { name, divisor } => {
            Dim::Name { name: name.clone(), divisor: divisor / by.max(1) }
        }
        Dim::Size(size) => Dim::Size(size.saturating_mul(by)),
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
