//! Calls that a graph of their own computes, as it does a product: `scatter`, and folds of some of several batch dims.
//!
//! In: the call. Out: the graph that computes it, from tensors in memory: inputs, and values that other graphs store.

use std::sync::Arc;

use crate::dtype::DType;
use crate::graph::{Graph, Input, InputId, NodeId, Op, Output, Space};
use crate::shape::{self, Dim};
use crate::syntax::{Declaration, ExprId, ExprKind, Exprs, Name};

use super::error::CheckError;
use super::product::{Found, name_parts, outside_statements};
use super::program::Unit;
use super::reads::{assignment, leaves, read_statements};
use super::tensor_space::{tensor_space, values_of};
use super::{batches, inputs_of, product, scatter};

/// Whether an expression has a graph of its own.
pub(super) fn is_separate(kind: &ExprKind) -> bool {
    match kind {
        ExprKind::Product(..) => true,
        ExprKind::Call { function, grad: false, .. } => {
            function.text == scatter::SCATTER || batches::folded(&function.text).is_some()
        }
        ExprKind::Number(_)
        | ExprKind::Name(_)
        | ExprKind::Annotated(..)
        | ExprKind::Dims(_)
        | ExprKind::Transpose(_)
        | ExprKind::Prefix(..)
        | ExprKind::Infix(..)
        | ExprKind::Call { grad: true, .. } => false,
    }
}

/// The graph of a call that has one of its own, or of values that meet it; `None` after reports.
pub(super) fn find(unit: Unit<'_>, main: usize, errors: &mut Vec<CheckError>) -> Option<Found> {
    let id = unit.products.all[main];
    let ExprKind::Call { function, arguments, .. } = &unit.ast.exprs[id].kind else { return None };
    let at = unit.ast.exprs[id].span;
    // Values that are made of the call; other outputs have graphs of their own.
    let outputs = unit.outputs.iter().filter(|output| {
        let made = assignment(unit.ast, &output.name.text);
        made.is_some_and(|(_, it)| unit.products.tops(it.value) & (1 << main) != 0)
    });
    let outputs: Vec<Declaration> = outputs.cloned().collect();
    let own = Unit { outputs: &outputs, ..unit };
    let mut reports = Reports { unit: own, errors };
    let (graph, value) = match batches::folded(&function.text) {
        Some(fold) => batches::graph(&mut reports, fold, arguments, at)?,
        None => scatter::graph(&mut reports, arguments, at)?,
    };
    let canonical = |id: ExprId| unit.products.canonical(id);
    let values = values_of(own);
    let is_alone = values.iter().all(|value| canonical(*value) == canonical(id));
    // A product has the space of its value. That of a fold is its operand's, where nothing else belongs.
    if !is_alone && graph.products().is_empty() {
        let made = values.iter().fold(0, |all, value| all | unit.products.tops(*value));
        let is_product = |number: &usize| {
            let id = unit.products.all[*number];
            made & (1 << number) != 0 && matches!(unit.ast.exprs[id].kind, ExprKind::Product(..))
        };
        return match (0..unit.products.all.len()).rev().find(is_product) {
            Some(other) => product::find(unit, Some(other), reports.errors),
            None => reports.beside(main),
        };
    }
    let inner = arguments.iter().flat_map(|argument| read_statements(unit.ast, *argument, true));
    let outside = outside_statements(unit);
    let varying = inner.filter(|place| !outside.contains(place)).collect();
    Some(Found { graph, factors: Vec::new(), varying, main: Some(main), value: Some(value) })
}

/// A kernel whose tensors are looked for, and what is wrong with them.
pub(super) struct Reports<'a, 'b> {
    pub(super) unit: Unit<'a>,
    pub(super) errors: &'b mut Vec<CheckError>,
}

impl<'a> Reports<'a, '_> {
    pub(super) fn exprs(&self) -> &'a Exprs {
        &self.unit.ast.exprs
    }

    /// The tensor that has an expression's value: an input, or one that a graph stores.
    pub(super) fn tensor(&mut self, id: ExprId, name: &str) -> Option<Input> {
        if let ExprKind::Name(name) = &self.exprs()[id].kind
            && let Some(input) = self.input(name)
        {
            return Some(input);
        }
        self.unit.tensor(id, name, self.errors, |_, node| node)
    }

    /// Whether a call says how large a dim is.
    pub(super) fn is_declared(&self, dim: &Dim) -> bool {
        let signature = self.unit.ast.signature.iter();
        let mut declared = signature.flat_map(|it| it.inputs.iter().chain(&it.outputs));
        let has = |one: &Declaration| one.dims.iter().flatten().any(|own| own.same_base(dim));
        matches!(dim, Dim::Size(_)) || declared.any(has)
    }

    /// A declared input.
    fn input(&self, name: &str) -> Option<Input> {
        let place = self.unit.declarations.iter().position(|input| input.name.text == name)?;
        Some(inputs_of(self.unit.declarations).swap_remove(place))
    }

    /// An empty graph of some dims, and the places of tensors among its inputs.
    pub(super) fn graph<const N: usize>(
        &self,
        space: Space,
        tensors: [&Input; N],
    ) -> (Graph, [InputId; N]) {
        let mut inputs = inputs_of(self.unit.declarations);
        let places = tensors.map(|tensor| {
            let known = inputs.iter().position(|input| input.name == tensor.name);
            let place = known.unwrap_or_else(|| {
                inputs.push(tensor.clone());
                inputs.len() - 1
            });
            InputId(place as u32)
        });
        let signature = self.unit.ast.signature.as_ref();
        let name = signature.map_or("kernel", |signature| signature.name.text.as_str());
        (Graph::new(name, inputs, space, Vec::new()), places)
    }

    /// The tensor that a graph stores a value in.
    pub(super) fn store(&self, graph: &Graph, value: NodeId, name: &str, dtype: DType) -> Input {
        let dims = graph.space().dims(graph.ty(value).axes);
        self.unit.computed.add(self.unit, name, |name| {
            let mut graph = graph.named(&name);
            let stack = None;
            graph.push_output(Output {
                name: name.clone(),
                dtype,
                dims: dims.clone(),
                value,
                stack,
            });
            Input::computed_by(Arc::new(graph), name, dtype, dims)
        })
    }

    /// The graph of values that meet a call, which it reads: its space is that of their tensors.
    fn beside(&mut self, main: usize) -> Option<Found> {
        let unit = self.unit;
        let call = unit.products.all[main];
        let at = self.exprs()[call].span;
        let stored = unit.input(call, "value", self.errors)?.input;
        let own = Declaration {
            name: Name::new(stored.name.clone(), at),
            dtype: stored.dtype,
            dims: stored.dims.clone(),
            same_as: None,
            type_span: at,
        };
        let read = values_of(unit).into_iter().flat_map(|value| leaves(unit.ast, value, false));
        let read: Vec<&str> = read.map(|leaf| leaf.name).collect();
        let met = unit.declarations.iter().filter(|input| read.contains(&input.name.text.as_str()));
        let met: Vec<Declaration> = met.cloned().chain([own]).collect();
        let space = tensor_space(Unit { declarations: &met, ..unit }, self.errors)?;
        let (mut graph, [place]) = self.graph(space, [&stored]);
        name_parts(self.exprs(), &mut graph);
        let Ok(value) = graph.add(Op::Input(place)) else {
            let space = graph.space();
            let known = shape::list(&space.dims(space.accumulator_axes()));
            let dims = shape::list(stored.dims.as_deref().unwrap_or_default());
            return self.report(CheckError::OtherProduct { dims, known, at });
        };
        let (factors, varying) = (Vec::new(), Vec::new());
        Some(Found { graph, factors, varying, main: Some(main), value: Some(value) })
    }

    pub(super) fn report<T>(&mut self, error: CheckError) -> Option<T> {
        self.errors.push(error);
        None
    }
}
