//! The typed DAG of one kernel.
//!
//! Nodes are hash-consed: the same operation on the same operands is the same node, so a value used twice is computed once.
//! Operands come before their users, so every pass is one loop. The printed form parses back to the same graph.
//! Invariant: every node's type follows from its operation ([`verify`](Graph::verify)).

mod accuracy;
#[cfg(feature = "cuda")]
mod canonical;
mod computed;
mod int64;
mod merge;
mod op;
mod ops;
mod output;
mod parse;
mod passed;
mod place;
#[cfg(feature = "cuda")]
mod plain;
mod print;
mod product;
mod reach;
mod result;
mod rewrite;
mod space;
mod swap;
mod types;
mod value;
mod verify;

use std::collections::HashMap;
use std::fmt;
use std::ops::Index;
use std::sync::Arc;

use crate::dtype::DType;
use crate::shape::Dim;

pub(crate) use accuracy::least_accuracies;
pub use accuracy::{MathMode, accuracies};
pub(crate) use computed::{Earlier, Source, free_name};
pub use op::{Call, Concat, Constant, Dependence, Elementwise, Merge, Op, Over, Part, Run, Split};
pub use ops::{Binary, Fold, Gives, IndexAxis, Top, Unary, Weighted};
pub(crate) use ops::{
    NAN_BITS, bits_of, fma, fold, philox_of, random_word, rounded_by, shift_left, shift_right,
    shift_right_logical,
};
pub use output::{Output, Stack};
pub use parse::{GraphTextError, parse};
pub(crate) use place::Place;
pub(crate) use print::output_text;
pub(crate) use product::greatest_divisor;
pub use product::{Accumulation, BlockScale, OperandCopies, OperandCopy, Product, Side};
pub(crate) use reach::Reach;
pub use result::ResultOf;
pub(crate) use rewrite::Rewriter;
pub use space::Space;
pub use types::{Axes, Columns, Kind, Type};
pub use value::Value;
pub use verify::{Broken, Stage};

/// A node of a [`Graph`]; prints as `v7`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct NodeId(u32);

/// An input of a [`Graph`], by position in the signature.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct InputId(pub u32);

/// One value: how it is made and what it is.
#[derive(Clone, PartialEq, Debug)]
pub struct Node {
    /// The operation and its operands.
    pub op: Op,
    /// What it gives.
    pub ty: Type,
}

/// A declared input.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Input {
    /// Its name.
    pub name: String,
    /// Its element type in memory.
    pub dtype: DType,
    /// Its dims as declared; `None` for a scalar that the host passes.
    pub dims: Option<Vec<Dim>>,
    /// The earlier input that it is, under other dims: a call passes that one only.
    pub same_as: Option<InputId>,
    /// The graph that computes it from earlier inputs, found by their names; a call does not pass it.
    pub computed: Option<Arc<Graph>>,
    /// Where a computed input is an output of the kernel too: its place among the results.
    pub result: Option<u32>,
    /// Whether the launch that multiplies a computed input computes it where it loads it: no memory holds it.
    pub in_mainloop: bool,
}

/// Whether an operand of the product is read with its last two dims swapped.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Orientation {
    /// As declared.
    Plain,
    /// `.T`
    Transposed,
}

impl Orientation {
    /// The other one.
    #[must_use]
    pub const fn turned(self) -> Orientation {
        match self {
            Orientation::Plain => Orientation::Transposed,
            Orientation::Transposed => Orientation::Plain,
        }
    }
}

/// Identifies a product.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct ProductId(pub u32);

impl ProductId {
    /// The first one.
    pub const FIRST: ProductId = ProductId(0);
}

/// A typed, hash-consed kernel.
#[derive(Clone, Debug)]
pub struct Graph {
    name: String,
    inputs: Vec<Input>,
    space: Space,
    products: Vec<Product>,
    nodes: Vec<Node>,
    outputs: Vec<Output>,
    known: HashMap<Op, NodeId>,
    statements: Vec<Statement>,
    /// The statement that each node was made for, as far as there is one.
    made_for: Vec<Option<u32>>,
    /// The statement that nodes are made for from now on.
    current: Option<u32>,
}

/// A statement of the source, by where it stands. Graphs that differ in nothing else are equal.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Statement {
    /// The bytes of the source from the name to the end of the value.
    pub(crate) bytes: (u32, u32),
}

impl Graph {
    /// A kernel without a body, of no product, of one, or of several in one space.
    pub fn new(
        name: impl Into<String>,
        inputs: Vec<Input>,
        space: Space,
        products: Vec<Product>,
    ) -> Graph {
        Graph {
            name: name.into(),
            inputs,
            space,
            products,
            nodes: Vec::new(),
            outputs: Vec::new(),
            known: HashMap::new(),
            statements: Vec::new(),
            made_for: Vec::new(),
            current: None,
        }
    }

    /// Nodes made from now on belong to a new statement.
    pub(crate) fn begin_statement(&mut self, statement: Statement) {
        self.current = Some(self.statements.len() as u32);
        self.statements.push(statement);
    }

    /// The statement that a node was made for.
    pub(crate) fn statement(&self, node: NodeId) -> Option<&Statement> {
        self.made_for[node.index()].map(|statement| &self.statements[statement as usize])
    }

    /// Nodes made from now on belong to the statement of another graph's node; the graph was [`emptied`](Graph::emptied)
    /// or has taken that graph's statements.
    pub(crate) fn continue_statement(&mut self, old: &Graph, node: NodeId) {
        self.current = old.made_for[node.index()];
    }

    /// Takes over the statements of the graph that it is made from.
    pub(crate) fn take_statements(&mut self, old: &Graph) {
        self.statements.clone_from(&old.statements);
    }

    /// The kernel's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The same graph under another name.
    pub(crate) fn named(&self, name: &str) -> Graph {
        Graph { name: name.to_owned(), ..self.clone() }
    }

    /// The declared inputs, then the computed ones.
    pub fn inputs(&self) -> &[Input] {
        &self.inputs
    }

    /// The outputs that this graph stores itself; [`Graph::results`] has those of earlier graphs too.
    pub fn outputs(&self) -> &[Output] {
        &self.outputs
    }

    /// The dims that values vary along.
    pub fn space(&self) -> &Space {
        &self.space
    }

    /// The matrix products: one, several where a plan made them of one, or none where a graph only computes an operand.
    pub fn products(&self) -> &[Product] {
        &self.products
    }

    /// One of them.
    pub fn product(&self, id: ProductId) -> &Product {
        &self.products[id.0 as usize]
    }

    /// Makes a dim of a split one of the body's, where it is not yet.
    pub(crate) fn name_part(&mut self, dim: &Dim) {
        // A fixed size is a dim of its own, though it may divide another one.
        let is_known = match dim {
            Dim::Name { .. } => self.space.columns(dim).is_some(),
            Dim::Size(_) => {
                self.space.column_divisor(dim).is_some() || self.space.parts.contains(dim)
            }
        };
        if !is_known {
            let base = match dim {
                Dim::Name { name, .. } => Dim::name(name.clone()),
                Dim::Size(size) => Dim::Size(*size),
            };
            self.space.parts.push(base);
        }
    }

    /// The split of columns into parts, by its place: the one there is, or a new one.
    pub(crate) fn add_split(&mut self, split: Split) -> u16 {
        if let Some(place) = self.space.split_of(Some(split.whole), &split.parts) {
            return place;
        }
        self.space.splits.push(split);
        (self.space.splits.len() - 1) as u16
    }

    /// Declares one more input.
    pub(crate) fn push_input(&mut self, input: Input) -> InputId {
        self.inputs.push(input);
        InputId(self.inputs.len() as u32 - 1)
    }

    pub(crate) fn push_product(&mut self, product: Product) {
        self.products.push(product);
    }

    /// The same graph, whose accumulators are a tensor core's own sums.
    pub(crate) fn with_native_sums(mut self) -> Graph {
        for product in &mut self.products {
            product.accumulation = Accumulation::Native;
        }
        self
    }

    /// Every node, operands before users.
    pub fn nodes(&self) -> impl DoubleEndedIterator<Item = (NodeId, &Node)> + ExactSizeIterator {
        self.nodes.iter().enumerate().map(|(index, node)| (NodeId(index as u32), node))
    }

    /// How many nodes there are.
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Whether there are no nodes.
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// The node for this operation: the one there is, or a new one. `Err` when its operands do not fit it.
    pub fn add(&mut self, op: Op) -> Result<NodeId, Broken> {
        if let Some(&id) = self.known.get(&op) {
            return Ok(id);
        }
        let ty = self.type_of(&op)?;
        let id = NodeId(self.nodes.len() as u32);
        self.known.insert(op.clone(), id);
        self.nodes.push(Node { op, ty });
        self.made_for.push(self.current);
        Ok(id)
    }

    /// [`Graph::add`] for operations that a pass knows to fit.
    pub(crate) fn make(&mut self, op: Op) -> NodeId {
        match self.add(op) {
            Ok(id) => id,
            Err(broken) => panic!("compiler bug: {broken}"),
        }
    }

    /// A value repeated along the dims of another value that it lacks.
    pub(crate) fn spread(&mut self, value: NodeId, like: NodeId) -> NodeId {
        let (own, wanted) = (self.ty(value).axes, self.ty(like).axes);
        if own.join(wanted) == Some(own) {
            return value;
        }
        let condition = self.make(Op::Binary(Binary::Equal, like, like));
        self.make(Op::Select(condition, value, value))
    }

    /// Declares an output.
    pub fn push_output(&mut self, output: Output) {
        self.outputs.push(output);
    }

    /// The same inputs and product with neither nodes nor outputs.
    pub(crate) fn emptied(&self) -> Graph {
        let mut new = Graph::new(
            self.name.clone(),
            self.inputs.clone(),
            self.space.clone(),
            self.products.clone(),
        );
        new.take_statements(self);
        new
    }

    /// Which body dims an input varies along.
    pub fn input_axes(&self, input: InputId) -> Option<Axes> {
        match &self.inputs[input.0 as usize].dims {
            Some(dims) => self.space.axes(dims),
            None => Some(Axes::SCALAR),
        }
    }

    /// Whether an input with two dims is read by two indices: its own rows and columns, whatever the body's are.
    pub(crate) fn is_table(&self, input: InputId) -> bool {
        self.nodes().any(|(_, node)| matches!(node.op, Op::Entry(table, ..) if table == input))
    }

    /// The node that is an input, where the body reads it.
    pub(crate) fn input_node(&self, input: InputId) -> Option<NodeId> {
        self.known.get(&Op::Input(input)).copied()
    }

    /// Which nodes some nodes are made of, themselves among them; what a node is made of counts where `through` says so.
    pub(crate) fn made_of(
        &self,
        roots: impl IntoIterator<Item = NodeId>,
        through: impl Fn(NodeId) -> bool,
    ) -> Vec<bool> {
        let mut needed = vec![false; self.len()];
        roots.into_iter().for_each(|root| needed[root.index()] = true);
        for (id, node) in self.nodes().rev() {
            if needed[id.index()] && through(id) {
                node.op.operands().for_each(|operand| needed[operand.index()] = true);
            }
        }
        needed
    }

    /// For every node, the most nodes that count on one way to it, itself among them.
    pub(crate) fn depths(&self, counts: impl Fn(NodeId) -> bool) -> Vec<usize> {
        let mut depths: Vec<usize> = Vec::with_capacity(self.len());
        for (id, node) in self.nodes() {
            let before = node.op.operands().map(|operand| depths[operand.index()]).max();
            depths.push(before.unwrap_or(0) + usize::from(counts(id)));
        }
        depths
    }

    /// Whether the partial results of a reduction begin with those of another.
    pub(crate) fn supplies(&self, from: NodeId, to: NodeId) -> bool {
        let (Some((wanted, along, of)), Some((fold, over, terms))) =
            (self[to].op.reduction(), self[from].op.reduction())
        else {
            return false;
        };
        let [from, to] = [from, to].map(|node| self[node].op.weights());
        let begins = match (fold, wanted) {
            (Fold::Top(one), Fold::Top(other)) => one.of == other.of && from == to,
            _ if to.is_some() => false,
            (
                Fold::Weighted(Weighted::ExponentialsBelowOwnMax),
                Fold::LogSumExpAboveMax | Fold::Max,
            )
            | (Fold::LogSumExp | Fold::LogSumExpAboveMax, Fold::Max) => true,
            _ => false,
        };
        begins && (over, terms) == (along, of)
    }

    /// What the values of an output have to fit.
    pub fn output_axes(&self, output: &Output) -> Option<Axes> {
        let dims = output.without_stack(&output.dims);
        self.space.axes(&dims).filter(|_| self.space.has_whole_batch(&dims))
    }

    /// Whether any node varies with the batch, the rows or the columns: the type of `op`'s result.
    pub fn ty(&self, node: NodeId) -> Type {
        self[node].ty
    }

    /// Whether every element of a value is made of the elements of others at the same place.
    #[cfg(feature = "cuda")]
    pub(crate) fn is_elementwise(&self) -> bool {
        let live = self.live();
        let at_its_place =
            |op: &Op| matches!(op.dependence(), Dependence::Source | Dependence::Elementwise(_));
        self.nodes().all(|(id, node)| !live[id.index()] || at_its_place(&node.op))
    }

    /// Whether a part of columns may be read where elements of another part are written: columns are split, and not all of
    /// them once and the same way, or runs of them meet others.
    pub fn moves_columns(&self) -> bool {
        let live = self.live();
        let nodes = || self.nodes().filter(|(id, _)| live[id.index()]);
        let mut splits = nodes().filter_map(|(id, node)| match node.op.dependence() {
            Dependence::Part(part, a) => {
                Some((matches!(part, Part::First | Part::Second), self.ty(a).axes.column))
            }
            Dependence::Merge(merge, ..) => Some((merge == Merge::Concat, self.ty(id).axes.column)),
            Dependence::Concat(_) => Some((true, self.ty(id).axes.column)),
            Dependence::Source
            | Dependence::Elementwise(_)
            | Dependence::Reduce(..)
            | Dependence::ReduceWeighted(..)
            | Dependence::Pick(..)
            | Dependence::Call => None,
        });
        let uneven = |op: &Op| {
            matches!(op, Op::Part(Part::Equal { .. } | Part::Listed { .. }, _) | Op::Concat(..))
        };
        if nodes().any(|(_, node)| uneven(&node.op)) {
            return true;
        }
        let Some(first) = splits.next() else { return false };
        let runs = |node: &Node| match node.op.dependence() {
            Dependence::Part(..) | Dependence::Merge(..) | Dependence::Concat(_) => false,
            Dependence::Reduce(_, over, _) | Dependence::ReduceWeighted(_, over, ..) => {
                matches!(over.column, Some(Run::Group(_)))
            }
            Dependence::Source
            | Dependence::Elementwise(_)
            | Dependence::Pick(..)
            | Dependence::Call => node.op.operands().any(|operand| {
                self.ty(operand).axes.column.is_some_and(|own| Some(own) != node.ty.axes.column)
                    && node.ty.axes.column.is_some()
            }),
        };
        splits.any(|split| split != first) || nodes().any(|(_, node)| runs(node))
    }

    /// For every node, whether an output needs it.
    pub fn live(&self) -> Vec<bool> {
        self.made_of(self.outputs.iter().flat_map(Output::values), |_| true)
    }
}

impl Eq for Graph {}

impl PartialEq for Graph {
    fn eq(&self, other: &Graph) -> bool {
        self.name == other.name
            && self.inputs == other.inputs
            && self.space == other.space
            && self.products == other.products
            && self.nodes == other.nodes
            && self.outputs == other.outputs
    }
}

impl Index<NodeId> for Graph {
    type Output = Node;

    fn index(&self, id: NodeId) -> &Node {
        &self.nodes[id.index()]
    }
}

impl NodeId {
    /// Position among the nodes.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

impl fmt::Display for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "v{}", self.0)
    }
}
