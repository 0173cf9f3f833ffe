//! Which graph stores which outputs of a kernel.
//!
//! In: a body and the outputs that a signature declares. Out: the number of the kernel's own product, the last one that
//! outputs are made of, and for each other output the graph that stores it: that of the last product that it is made of,
//! or one without a product where its dims are not those of the kernel's own product.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::graph::{Graph, Input, Space};
use crate::shape::Dim;
use crate::syntax::{Ast, Declaration, Expr, ExprId, ExprKind};

use super::error::CheckError;
use super::program::{Kept, Products, Unit};
use super::reads::{assigned_by, assignment, gathers, leaves, read_statements};
use super::{Body, product, segments};

/// Outputs that one earlier graph stores.
pub(super) struct Source<'a> {
    /// The number of its product.
    pub(super) main: Option<usize>,
    pub(super) outputs: Vec<&'a Declaration>,
}

/// The outputs that the kernel's own graph does not store, by the graphs that do.
pub(super) fn sources<'a>(
    unit: Unit<'_>,
    main: Option<usize>,
    space: &Space,
    outputs: &'a [Declaration],
) -> Vec<Source<'a>> {
    let mut all: Vec<Source<'a>> = Vec::new();
    let Some(own) = main else { return all };
    for output in outputs {
        let Some((_, statement)) = assignment(unit.ast, &output.name.text) else { continue };
        let tops = unit.products.tops(statement.value);
        if tops & (1 << own) != 0 || (tops == 0 && fits(unit, statement.value, space, output)) {
            continue;
        }
        let main = Products::last(tops);
        match all.iter_mut().find(|source| source.main == main && main.is_some()) {
            Some(source) => source.outputs.push(output),
            None => all.push(Source { main, outputs: vec![output] }),
        }
    }
    all.sort_by_key(|source| source.main);
    all
}

/// Whether the named dims of an output and of all tensors that it is made of are those of a space; the tables of `take`
/// have dims of their own.
fn fits(unit: Unit<'_>, value: ExprId, space: &Space, output: &Declaration) -> bool {
    let cut = segments::cut_values(unit.ast, [value].into_iter());
    if cut.is_some_and(|cut| cut.ends(&unit.ast.exprs) != space.segments.as_deref()) {
        return false;
    }
    let read = leaves(unit.ast, value, true);
    let tables = tables(unit.ast);
    let read = read.iter().filter(|leaf| !tables.contains(leaf.name));
    let declared = |name: &str| unit.declarations.iter().find(|input| input.name.text == name);
    let tensors = read.filter_map(|leaf| declared(leaf.name)?.dims.as_deref());
    let mut dims = tensors.chain(output.dims.as_deref()).flatten();
    let named = |dim: &&Dim| matches!(dim, Dim::Name { .. });
    dims.all(|dim| !named(&dim) || space.axes(std::slice::from_ref(dim)).is_some())
}

/// The names that `take` and its likes read as tables.
fn tables(ast: &Ast) -> BTreeSet<&str> {
    let table = |(_, expr): (ExprId, &'_ Expr)| match &expr.kind {
        ExprKind::Call { function, arguments, .. }
            if function.text == "take" || gathers(&function.text) =>
        {
            match &ast.exprs[*arguments.first()?].kind {
                ExprKind::Name(name) => Some(name.as_str()),
                _ => None,
            }
        }
        _ => None,
    };
    ast.exprs.iter().filter_map(table).collect()
}

/// Statements that outputs are made of, and the kernel's own graph is not: other graphs store those outputs, or compute
/// operands of them.
pub(super) fn elsewhere(
    unit: Unit<'_>,
    sources: &[Source<'_>],
    outputs: &[Declaration],
) -> BTreeSet<usize> {
    let others = sources.iter().flat_map(|source| &source.outputs);
    let others: BTreeSet<&str> = others.map(|output| output.name.text.as_str()).collect();
    let names = outputs.iter().map(|output| output.name.text.as_str());
    let used = assigned_by(unit.ast, names.clone(), true);
    let own = assigned_by(unit.ast, names.filter(|name| !others.contains(name)), false);
    let mut elsewhere: BTreeSet<usize> = used.difference(&own).copied().collect();
    // Statements that nothing reads are typed here, unless what they read is elsewhere.
    let statements = unit.ast.statements.iter().enumerate();
    for (place, statement) in statements.filter(|(place, _)| !used.contains(place)) {
        let read = read_statements(unit.ast, statement.value, false);
        if read.iter().any(|read| elsewhere.contains(read)) {
            elsewhere.insert(place);
        }
    }
    elsewhere
}

impl<'a> Unit<'a> {
    /// The body of a graph that has some statements' values; `None` after reports.
    pub(super) fn body_of(
        self,
        main: Option<usize>,
        places: &[usize],
        errors: &mut Vec<CheckError>,
    ) -> Option<Body<'a>> {
        let found = product::find(self, main, errors)?;
        let mut body = Body::of_product(found, self, std::mem::take(errors));
        let values = places.iter().map(|place| self.ast.statements[*place].value);
        let mut needed: BTreeSet<usize> = places.iter().copied().collect();
        for root in values.chain(body.factor_expressions()) {
            needed.extend(read_statements(self.ast, root, false));
        }
        body.lower_own(self.ast, needed.into_iter());
        Some(body)
    }

    /// Makes the graph that stores some outputs, as computed inputs of the kernel.
    pub(super) fn store(
        self,
        source: &Source<'_>,
        outputs: &[Declaration],
        errors: &mut Vec<CheckError>,
    ) {
        let of = |output: &&Declaration| assignment(self.ast, &output.name.text);
        let statements: Vec<_> = source.outputs.iter().filter_map(of).collect();
        let places: Vec<usize> = statements.iter().map(|(place, _)| *place).collect();
        let values: Vec<ExprId> = statements.iter().map(|(_, statement)| statement.value).collect();
        let declarations = self.read_by(&values);
        let own: Vec<Declaration> = source.outputs.iter().copied().cloned().collect();
        let unit = Unit { declarations: &declarations, outputs: &own, root: None, ..self };
        let Some(mut body) = unit.body_of(source.main, &places, errors) else { return };
        for output in &own {
            body.store(output);
        }
        errors.append(&mut body.errors);
        let Some(first) = own.first().filter(|_| errors.is_empty()) else { return };
        let graph = Arc::new(body.graph.named(&first.name.text));
        let results = graph.outputs().iter().map(|stored| {
            let result = outputs.iter().position(|output| output.name.text == stored.name);
            let input = Input {
                name: stored.name.clone(),
                dtype: stored.dtype,
                dims: Some(stored.dims.clone()),
                same_as: None,
                computed: Some(graph.clone()),
                result: result.map(|place| place as u32),
                in_mainloop: false,
            };
            (input, self.kept(&graph, &stored.name))
        });
        self.computed.add_results(results);
    }

    /// The value that a stored output keeps as it is, if it does.
    fn kept(self, graph: &Graph, name: &str) -> Option<Kept> {
        let output = graph.outputs().iter().find(|output| output.name == name)?;
        let (_, statement) = assignment(self.ast, name)?;
        let (dtype, is_rounded) = graph.stored_dtype(output.value);
        let natural = graph.space().dims(graph.ty(output.value).axes) == output.dims;
        let is_kept = natural
            && dtype == output.dtype
            && output.stack.is_none()
            && statement.targets.len() == 1;
        let key = self.products.canonical(statement.value);
        is_kept.then_some(Kept { key, is_rounded })
    }
}
