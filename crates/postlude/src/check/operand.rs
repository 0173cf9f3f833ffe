//! Math on an operand before it is multiplied: `relu(A) @ B`, `A @ (bf16(W) * s[N, K/64]).T`.
//!
//! In: the expression of an operand. Out: what is multiplied, an input or one that a graph of its own computes, and the
//! factors that leave the operand. Invariants: a factor that is constant along all of K multiplies the accumulator, one
//! that is constant along runs of K multiplies their sums; what is left has a dtype that the text says.

use std::sync::Arc;

use crate::dtype::{self, DType, Elem};
use crate::graph::{
    Binary, BlockScale, Graph, Input, InputId, NodeId, Op, Orientation, Output, ProductId, Side,
    Space, Unary,
};
use crate::shape::Dim;
use crate::syntax::{Ast, Declaration, ExprId, ExprKind, Infix, Span};

use super::error::CheckError;
use super::product::name_parts;
use super::program::Unit;
use super::reads::{LeafRead, assignment, leaves, read_statements, written_dims};
use super::tensor_space::{has_part, is_list, named_parts};
use super::{Body, Lowered, inputs_of};

/// A factor of the accumulator that stood in an operand.
#[derive(Clone, Copy, Debug)]
pub(super) struct Factor {
    pub(super) value: FactorValue,
    pub(super) divides: bool,
}

/// What a factor is in the body.
#[derive(Clone, Copy, Debug)]
pub(super) enum FactorValue {
    /// An expression of values that do not vary along K.
    Expression(ExprId),
    /// An input that a graph folds along K.
    Computed(InputId),
}

/// What an operand's expression comes to.
pub(super) struct Resolved {
    pub(super) input: InputId,
    pub(super) orientation: Orientation,
    pub(super) factors: Vec<Factor>,
    pub(super) scales: Vec<BlockScale>,
    /// Statements that only operands can read: their values vary along K.
    pub(super) varying: Vec<usize>,
}

/// The dims that an operand's tensors have, as the expression reads: batches, first, second.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct OperandDims {
    pub(super) batch: Vec<Dim>,
    pub(super) first: Dim,
    pub(super) second: Dim,
}

impl OperandDims {
    /// The space of the operand's values: its own rows, and K as columns.
    pub(super) fn space(&self, side: Side) -> Space {
        let (row, column) = match side {
            Side::Left => (&self.first, &self.second),
            Side::Right => (&self.second, &self.first),
        };
        Space::new(self.batch.clone(), row.clone(), column.clone())
    }
}

/// Whether a product multiplies such elements, or what they are widened to.
pub(super) const fn is_operand(dtype: DType) -> bool {
    dtype.multiplied_as().accumulator().is_some()
}

/// The tensors with two dims or more that an operand reads, and whether their last two are swapped; the first of those
/// with the most dims leads.
pub(super) fn tensors(
    ast: &Ast,
    root: ExprId,
    declarations: &[Declaration],
) -> Vec<(Vec<Dim>, bool)> {
    let read = leaves(ast, root, false);
    let declared = |name: &str| {
        let declared = declarations.iter().find(|input| input.name.text == name)?;
        declared.dims.as_deref()
    };
    let read = read.iter().filter_map(|leaf| {
        let dims = declared(leaf.name).filter(|dims| dims.len() >= 2)?;
        match leaf.read {
            LeafRead::Value => Some((dims.to_vec(), leaf.swapped)),
            LeafRead::List => None,
            LeafRead::Gathered(index) => {
                let index = leaves(ast, index, false);
                let row = index.iter().find_map(|leaf| declared(leaf.name)?.first().cloned())?;
                Some((vec![row, dims.last()?.clone()], leaf.swapped))
            }
        }
    });
    // A vector that is written with the dims of a matrix is one.
    let written = written_dims(ast, root).into_iter();
    let written = written.filter(|(dims, _)| dims.len() >= 2);
    let written = written.map(|(dims, swapped)| (dims.to_vec(), swapped));
    let mut all: Vec<(Vec<Dim>, bool)> = written.chain(read).collect();
    let most = all.iter().map(|(dims, _)| dims.len()).max();
    let known: Vec<Vec<Dim>> = all.iter().map(|(dims, _)| dims.clone()).collect();
    let leads = |dims: &[Dim]| Some(dims.len()) == most && !is_list(dims, &known);
    let parts = named_parts(&ast.exprs);
    let whole = all.iter().position(|(dims, _)| leads(dims) && !has_part(dims, &parts));
    let leading = whole.or_else(|| all.iter().position(|(dims, _)| leads(dims)));
    if let Some(leading) = leading {
        all[..=leading].rotate_right(1);
    }
    all
}

/// The dims of an operand, from the tensors that it reads: the leading one says their order.
pub(super) fn dims(ast: &Ast, root: ExprId, declarations: &[Declaration]) -> Option<OperandDims> {
    let mut found: Option<OperandDims> = None;
    for (dims, swapped) in tensors(ast, root, declarations) {
        let [batch @ .., first, second] = dims.as_slice() else { continue };
        let (first, second) = if swapped { (second, first) } else { (first, second) };
        let Some(found) = &mut found else {
            let (first, second) = (first.clone(), second.clone());
            found = Some(OperandDims { batch: batch.to_vec(), first, second });
            continue;
        };
        if batch.len() > found.batch.len() {
            found.batch = [missing(batch, &found.batch), batch.to_vec()].concat();
        } else {
            found.batch.extend(missing(&found.batch, batch));
        }
        for own in [&mut found.first, &mut found.second] {
            let finer = [first, second].into_iter().find(|dim| dim.same_base(own));
            if let Some(finer) = finer.filter(|dim| dim.divisor() < own.divisor()) {
                *own = finer.clone();
            }
        }
    }
    found
}

/// Batch dims that a tensor has and another one has not.
fn missing(from: &[Dim], of: &[Dim]) -> Vec<Dim> {
    of.iter().filter(|dim| !from.contains(dim)).cloned().collect()
}

/// An operand while its expression is resolved.
struct Resolving<'a, 'b> {
    unit: Unit<'a>,
    side: Side,
    body: Body<'b>,
    /// The inputs of the product's graph, to which computed ones are added.
    inputs: &'b mut Vec<Input>,
    found: Resolved,
}

/// Resolves the expression of an operand; `None` after reports.
pub(super) fn resolve(
    unit: Unit<'_>,
    (root, side): (ExprId, Side),
    inputs: &mut Vec<Input>,
    errors: &mut Vec<CheckError>,
) -> Option<Resolved> {
    let ast = unit.ast;
    let at = ast.exprs[root].span;
    let Some(dims) = dims(ast, root, unit.declarations) else {
        errors.push(CheckError::OperandWithoutDims { at });
        return None;
    };
    let own = unit.read_by(&[root]);
    let mut graph = Graph::new("operand", inputs_of(&own), dims.space(side), Vec::new());
    name_parts(&ast.exprs, &mut graph);
    let mut body = Body::new(graph, &ast.exprs, &own, Vec::new());
    body.calls = unit.calls;
    body.unit = Some(unit);
    let mut varying = Vec::new();
    for place in read_statements(ast, root, false) {
        let statement = &ast.statements[place];
        body.lower_statement_at(ast, place);
        let varies = |name: &str| match body.names.get(name) {
            Some(&(Lowered::Node(node), _)) => body.graph.ty(node).axes.column.is_some(),
            Some(_) | None => false,
        };
        if statement.targets.iter().any(|target| varies(&target.text)) {
            varying.push(place);
        }
    }
    body.lower_tree(root);
    if !body.errors.is_empty() {
        errors.append(&mut body.errors);
        return None;
    }
    let found = Resolved {
        input: InputId(0),
        orientation: side.k_major(),
        factors: Vec::new(),
        scales: Vec::new(),
        varying,
    };
    let mut resolving = Resolving { unit, side, body, inputs, found };
    match resolving.operand(root) {
        Ok(()) => Some(resolving.found),
        Err(error) => {
            errors.push(error);
            None
        }
    }
}

/// An expression behind `.T` and names that are assigned alone.
pub(super) fn inner(ast: &Ast, id: ExprId) -> ExprId {
    let mut id = id;
    loop {
        id = match &ast.exprs[id].kind {
            ExprKind::Transpose(a) => *a,
            ExprKind::Name(name) => match assignment(ast, name) {
                Some((_, statement)) if statement.targets.len() == 1 => statement.value,
                Some(_) | None => return id,
            },
            _ => return id,
        };
    }
}

impl Resolving<'_, '_> {
    fn operand(&mut self, root: ExprId) -> Result<(), CheckError> {
        let (core, factors) = self.peel(root);
        let at = self.unit.ast.exprs[core].span;
        let node = self.body.settle(self.body.lowered[&core], at);
        let Some(node) = node else { return Err(CheckError::OperandWithoutDims { at }) };
        for (factor, divides) in factors {
            self.leave(factor, divides)?;
        }
        if let Some(input) = self.plain(node) {
            (self.found.input, self.found.orientation) = input;
            return Ok(());
        }
        let dtype = match self.body.graph[node].op {
            Op::Cast(to, _) | Op::Round(to, ..) if is_operand(to) => to,
            Op::Cast(dtype, _) => return Err(CheckError::OperandDType { dtype, at }),
            _ => self.kept_dtype(node).ok_or(CheckError::OperandUnrounded { at })?,
        };
        if !is_operand(dtype) {
            return Err(CheckError::OperandDType { dtype, at });
        }
        let dtype = dtype.multiplied_as();
        let space = self.body.graph.space();
        let dims = space.dims(space.accumulator_axes());
        let name = format!("{}_operand", self.side.name());
        self.found.input = self.compute(&name, node, dtype, &dims);
        Ok(())
    }

    /// What is left of an expression without factors that are constant along runs of K, and these in written order.
    fn peel(&self, root: ExprId) -> (ExprId, Vec<(ExprId, bool)>) {
        let (mut core, mut factors) = (root, Vec::new());
        loop {
            let inner = inner(self.unit.ast, core);
            match self.unit.ast.exprs[inner].kind {
                ExprKind::Infix(Infix::Multiply, a, b) if self.is_constant(b) => {
                    factors.push((b, false));
                    core = a;
                }
                ExprKind::Infix(Infix::Multiply, a, b) if self.is_constant(a) => {
                    factors.push((a, false));
                    core = b;
                }
                ExprKind::Infix(Infix::Divide, a, b) if self.is_constant(b) => {
                    factors.push((b, true));
                    core = a;
                }
                _ => break,
            }
        }
        factors.reverse();
        (core, factors)
    }

    /// Whether an expression is a number that is constant along runs of K.
    fn is_constant(&self, id: ExprId) -> bool {
        match self.body.lowered[&id] {
            Lowered::Integer(_) | Lowered::Size(_) => true,
            Lowered::Node(node) => {
                let ty = self.body.graph.ty(node);
                let whole = self.body.graph.space().column.divisor();
                ty.elem != Elem::Bool && ty.axes.column != Some(whole)
            }
            Lowered::Stack(_) | Lowered::Poison => false,
        }
    }

    /// A factor leaves the operand.
    fn leave(&mut self, id: ExprId, divides: bool) -> Result<(), CheckError> {
        let at = self.unit.ast.exprs[id].span;
        let lowered = self.body.lowered[&id];
        let node = self.body.convert(lowered, Elem::F32, at);
        let Some(node) = node else { return Err(CheckError::OperandWithoutDims { at }) };
        let axes = self.body.graph.ty(node).axes;
        let whole = self.body.graph.space().column.divisor();
        if let Some(divisor) = axes.column {
            let input = self.scale(node, divides);
            let run = divisor / whole.max(1);
            self.found.scales.push(BlockScale { side: self.side, input, run });
            return Ok(());
        }
        let value = if self.reads_along_k(node) {
            let dims = self.body.graph.space().dims(axes);
            FactorValue::Computed(self.compute("factor", node, DType::F32, &dims))
        } else {
            FactorValue::Expression(id)
        };
        self.found.factors.push(Factor { value, divides });
        Ok(())
    }

    /// The input that has a factor of runs of K: the caller's, if it is f32 as it stands.
    fn scale(&mut self, node: NodeId, divides: bool) -> InputId {
        let graph = &self.body.graph;
        if let (Op::Input(input), false) = (&graph[node].op, divides)
            && graph.inputs()[input.0 as usize].dtype == DType::F32
        {
            return self.place_of(&graph.inputs()[input.0 as usize].name);
        }
        let graph = &mut self.body.graph;
        let node = if divides {
            let one = graph.make(Op::number(1.0));
            graph.make(Op::Binary(Binary::Divide, one, node))
        } else {
            node
        };
        let dims = graph.space().dims(graph.ty(node).axes);
        self.compute("scale", node, DType::F32, &dims)
    }

    /// Whether a value is computed from values along K.
    fn reads_along_k(&self, node: NodeId) -> bool {
        let graph = &self.body.graph;
        let mut open = vec![node];
        let mut seen = vec![false; graph.len()];
        while let Some(node) = open.pop() {
            if std::mem::replace(&mut seen[node.index()], true) {
                continue;
            }
            if graph.ty(node).axes.column.is_some() {
                return true;
            }
            open.extend(graph[node].op.operands());
        }
        false
    }

    /// The input that a node is, with its orientation, if it may be multiplied where it lies.
    fn plain(&self, node: NodeId) -> Option<(InputId, Orientation)> {
        let graph = &self.body.graph;
        let Op::Input(input) = graph[node].op else { return None };
        let declared = &graph.inputs()[input.0 as usize];
        let [.., first, second] = declared.dims.as_deref()? else { return None };
        let Space { row, column, .. } = graph.space();
        declared.dtype.accumulator()?;
        let k_major = self.side.k_major();
        let orientation = if (first, second) == (row, column) {
            k_major
        } else if (first, second) == (column, row) {
            k_major.turned()
        } else {
            return None;
        };
        Some((self.place_of(&declared.name), orientation))
    }

    /// A declared input of the kernel, by its name.
    fn place_of(&self, name: &str) -> InputId {
        let place = self.inputs.iter().position(|input| input.name == name);
        InputId(place.unwrap_or_else(|| panic!("compiler bug: `{name}` is not declared")) as u32)
    }

    /// The dtype that a value has without a cast: that of its tensors, where the math leaves their numbers as they are.
    fn kept_dtype(&self, node: NodeId) -> Option<DType> {
        let graph = &self.body.graph;
        let (mut dtype, mut constants): (Option<DType>, Vec<f64>) = (None, Vec::new());
        let is_integer = graph.ty(node).elem == Elem::I32;
        let mut open = vec![node];
        let mut seen = vec![false; graph.len()];
        while let Some(node) = open.pop() {
            if std::mem::replace(&mut seen[node.index()], true) {
                continue;
            }
            match &graph[node].op {
                Op::Input(input) | Op::Entry(input, ..) => {
                    let declared = &graph.inputs()[input.0 as usize];
                    if dtype.is_some_and(|known| known != declared.dtype) {
                        return None;
                    }
                    dtype = Some(declared.dtype);
                }
                Op::Constant(constant) => constants.push(constant.as_f64()),
                // The opposite of the lowest integer is another dtype's.
                Op::Unary(Unary::Negate | Unary::Abs, a) if !is_integer => open.push(*a),
                Op::Binary(Binary::Maximum | Binary::Minimum, a, b) => open.extend([*a, *b]),
                // The condition may be anything.
                Op::Select(_, a, b) => open.extend([*a, *b]),
                Op::Call(call, arguments) if call.function == "relu" && !call.grad => {
                    open.extend(arguments);
                }
                _ => return self.all_f32(node),
            }
        }
        let dtype = dtype.filter(|dtype| dtype.elem() == graph.ty(node).elem)?;
        let exact = |value: &f64| dtype::round_to(dtype, *value) == *value;
        constants.iter().all(exact).then_some(dtype)
    }

    /// f32, if every tensor that the operand reads is f32: its math is in f32 anyway.
    fn all_f32(&self, node: NodeId) -> Option<DType> {
        let graph = &self.body.graph;
        let tensors = graph.inputs().iter().filter(|input| input.dims.is_some());
        let mut floats = tensors.filter(|input| input.dtype.elem() == Elem::F32);
        let all = graph.ty(node).elem == Elem::F32
            && floats.clone().next().is_some()
            && floats.all(|input| input.dtype == DType::F32);
        all.then_some(DType::F32)
    }

    /// An input that a graph computes: the value of a node, stored as this dtype and with these dims.
    fn compute(&mut self, name: &str, node: NodeId, dtype: DType, dims: &[Dim]) -> InputId {
        let graph = &self.body.graph;
        let input = self.unit.computed.add(self.unit, name, |name| {
            let mut graph = graph.named(&name);
            let (value, stack) = (node, None);
            let output = Output { name: name.clone(), dtype, dims: dims.to_vec(), value, stack };
            graph.push_output(output);
            Input::computed_by(Arc::new(graph), name, dtype, dims.to_vec())
        });
        self.inputs.push(input);
        InputId(self.inputs.len() as u32 - 1)
    }
}

impl Body<'_> {
    /// The value of the product: its accumulator times the factors that left its operands.
    pub(super) fn lower_product(&mut self, at: Span) -> Lowered {
        let mut value = self.node(Op::Accumulator(ProductId::FIRST), at);
        for Factor { value: factor, divides } in self.factors.clone() {
            let factor = match factor {
                FactorValue::Expression(id) => self.lowered[&id],
                FactorValue::Computed(input) => self.node(Op::Input(input), at),
            };
            let converted = [value, factor].map(|one| self.convert(one, Elem::F32, at));
            let [Some(a), Some(b)] = converted else { return Lowered::Poison };
            let op = if divides { Binary::Divide } else { Binary::Multiply };
            value = self.binary(op, a, b, at);
        }
        match (self.row_counts, value) {
            (Some(counts), Lowered::Node(value)) => {
                let counts = self.graph.make(Op::Input(counts));
                self.mask(value, counts, at)
            }
            (_, value) => value,
        }
    }

    /// The expressions that a product's value is made of beside its accumulator.
    pub(super) fn factor_expressions(&self) -> Vec<ExprId> {
        let expression = |factor: &Factor| match factor.value {
            FactorValue::Expression(id) => Some(id),
            FactorValue::Computed(_) => None,
        };
        self.factors.iter().filter_map(expression).collect()
    }
}
