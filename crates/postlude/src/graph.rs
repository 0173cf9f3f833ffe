//! The typed DAG of one kernel.
//!
//! Nodes are hash-consed: the same operation on the same operands is the same node, so a value used twice is computed once.
//! Operands come before their users, so every pass is one loop. The printed form parses back to the same graph.
//! Invariant: every node's type follows from its operation ([`verify`](Graph::verify)).

mod accuracy;
mod op;
mod ops;
mod output;
mod parse;
mod passed;
mod print;
mod product;
mod rewrite;
mod types;
mod value;
mod verify;

use std::collections::HashMap;
use std::fmt;
use std::ops::Index;

use crate::dtype::DType;
use crate::shape::Dim;

pub(crate) use accuracy::least_accuracies;
pub use accuracy::{MathMode, accuracies};
pub use op::{Call, Concat, Constant, Dependence, Elementwise, Merge, Op, Over, Part, Run, Split};
pub use ops::{Binary, Fold, Gives, IndexAxis, Top, Unary, Weighted};
pub(crate) use ops::{
    NAN_BITS, bits_of, fma, fold, philox_of, random_word, rounded_by, shift_left, shift_right,
    shift_right_logical,
};
pub use output::{Output, Stack};
pub use parse::{GraphTextError, parse};
pub use product::{Accumulation, Product};
pub(crate) use rewrite::Rewriter;
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
}

/// Whether an operand of the product is read with its last two dims swapped.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Orientation {
    /// As declared.
    Plain,
    /// `.T`
    Transposed,
}

/// Identifies a product.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct ProductId(pub u32);

impl ProductId {
    /// The first one, which every kernel has.
    pub const FIRST: ProductId = ProductId(0);
}

/// The dims that the body's values vary along: those of every product.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Space {
    /// The leading dims of either operand. Values vary along all of them or none: together they number the batches, the
    /// last one fastest.
    pub batch: Vec<Dim>,
    /// The dim of the left operand that stays.
    pub row: Dim,
    /// The dim of the right operand that stays.
    pub column: Dim,
    /// Dims that splits name: parts of the columns that are no fraction of them.
    pub parts: Vec<Dim>,
    /// Columns that are split into parts of named sizes.
    pub splits: Vec<Split>,
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
    /// A kernel without a body, of one product or of several in one space.
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

    /// The declared inputs.
    pub fn inputs(&self) -> &[Input] {
        &self.inputs
    }

    /// The declared outputs.
    pub fn outputs(&self) -> &[Output] {
        &self.outputs
    }

    /// The dims that values vary along.
    pub fn space(&self) -> &Space {
        &self.space
    }

    /// The matrix products: one, or several where a plan made them of one.
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

    /// Declares an output.
    pub fn push_output(&mut self, output: Output) {
        self.outputs.push(output);
    }

    /// The same graph with only the outputs of these names; all of them for `None`.
    pub fn keeping(&self, keep: Option<&[&str]>) -> Graph {
        let mut kept = self.clone();
        if let Some(keep) = keep {
            kept.outputs.retain(|output| keep.contains(&output.name.as_str()));
        }
        kept
    }

    /// The node at a position.
    pub(crate) fn node_at(&self, index: usize) -> NodeId {
        debug_assert!(index < self.nodes.len());
        NodeId(index as u32)
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

    /// Whether two reductions have one partial result: they keep as many of the largest of the same terms.
    pub(crate) fn folds_alike(&self, a: NodeId, b: NodeId) -> bool {
        self.supplies(a, b) && self.supplies(b, a)
    }

    /// Whether the partial results of a reduction begin with those of another.
    pub(crate) fn supplies(&self, from: NodeId, to: NodeId) -> bool {
        let Op::Reduce(wanted, along, of) = self[to].op else { return false };
        let (Op::Reduce(fold, over, terms) | Op::ReduceWeighted(fold, over, terms, _)) =
            self[from].op
        else {
            return false;
        };
        let begins = match (fold, wanted) {
            (Fold::Top(one), Fold::Top(other)) => one.of == other.of,
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
        let mut live = vec![false; self.nodes.len()];
        for value in self.outputs.iter().flat_map(Output::values) {
            live[value.index()] = true;
        }
        for (id, node) in self.nodes().rev() {
            if live[id.index()] {
                node.op.operands().for_each(|operand| live[operand.index()] = true);
            }
        }
        live
    }
}

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

impl Space {
    /// The most leading dims of an operand: a tensor map has five dims, and two of them are the matrix's.
    pub const MOST_BATCH_DIMS: usize = 3;

    /// The axes a value with these dims has, whatever their order; `None` when a dim is not the product's or stands twice.
    /// A tensor with some of several batch dims is repeated along the others.
    pub fn axes(&self, dims: &[Dim]) -> Option<Axes> {
        let mut axes = Axes::SCALAR;
        for (place, dim) in dims.iter().enumerate() {
            let fresh = if self.batch.contains(dim) {
                axes.batch = true;
                !dims[..place].contains(dim)
            } else if let Some(run) = self.row_run(dim) {
                axes.row.replace(run).is_none()
            } else {
                let columns = self.columns(dim)?;
                axes.part = columns.part;
                axes.column.replace(columns.divisor).is_none()
            };
            if !fresh {
                return None;
            }
        }
        Some(axes)
    }

    /// How many of the product's rows one of `dim` stands for, if they are its rows. Runs of rows need a name: a fixed size is
    /// that of all rows.
    pub fn row_run(&self, dim: &Dim) -> Option<u32> {
        match (dim, &self.row) {
            (Dim::Name { name, divisor }, Dim::Name { name: own, divisor: all }) => {
                (name == own && divisor % all == 0).then(|| divisor / all)
            }
            (Dim::Size(_), Dim::Size(_)) if *dim == self.row => Some(1),
            (Dim::Size(_), Dim::Size(_) | Dim::Name { .. }) | (Dim::Name { .. }, Dim::Size(_)) => {
                None
            }
        }
    }

    /// The dim of runs of this many rows.
    pub fn row_dim(&self, run: u32) -> Dim {
        match &self.row {
            Dim::Name { name, divisor } => {
                Dim::Name { name: name.clone(), divisor: divisor.saturating_mul(run) }
            }
            Dim::Size(size) => Dim::Size(size / run.max(1)),
        }
    }

    /// What the column dim's name is divided by in `dim`, if `dim` is that name.
    pub fn column_divisor(&self, dim: &Dim) -> Option<u32> {
        match (dim, &self.column) {
            (Dim::Name { name, divisor }, Dim::Name { name: own, .. }) => {
                (name == own).then_some(*divisor)
            }
            (Dim::Size(size), Dim::Size(own)) => (*size > 0 && own % size == 0).then(|| own / size),
            (Dim::Name { .. }, Dim::Size(_)) | (Dim::Size(_), Dim::Name { .. }) => None,
        }
    }

    /// Whether both are spaces of the same product's dims, whatever is split.
    pub(crate) fn has_dims_of(&self, other: &Space) -> bool {
        (&self.batch, &self.row, &self.column) == (&other.batch, &other.row, &other.column)
    }

    /// The columns that a dim stands for: the product's, or those of a part that a split names.
    pub fn columns(&self, dim: &Dim) -> Option<Columns> {
        if let Some(divisor) = self.column_divisor(dim) {
            return Some(Columns::of_product(divisor));
        }
        let divides = |part: &Dim| match (part, dim) {
            (Dim::Name { name: own, .. }, Dim::Name { name, divisor }) => {
                (name == own).then_some(*divisor)
            }
            (Dim::Size(own), Dim::Size(size)) => (*size > 0 && own % size == 0).then(|| own / size),
            (Dim::Name { .. }, Dim::Size(_)) | (Dim::Size(_), Dim::Name { .. }) => None,
        };
        let exact = self.parts.iter().position(|part| part == dim);
        let place = exact.or_else(|| self.parts.iter().position(|part| divides(part).is_some()))?;
        Some(Columns { part: place as u16 + 1, divisor: divides(&self.parts[place])? })
    }

    /// The dim that columns are divided from: the product's by its name alone, or that of a part.
    pub fn base_dim(&self, part: u16) -> Dim {
        match (part, &self.column) {
            (0, Dim::Name { name, .. }) => Dim::name(name.clone()),
            (0, Dim::Size(size)) => Dim::Size(*size),
            (part, _) => self.parts[part as usize - 1].clone(),
        }
    }

    /// The dim of these columns.
    pub fn column_dim(&self, columns: Columns) -> Dim {
        match self.base_dim(columns.part) {
            Dim::Name { name, .. } => Dim::Name { name, divisor: columns.divisor },
            Dim::Size(size) => Dim::Size(size / columns.divisor),
        }
    }

    /// The split of these columns into these parts.
    pub fn split_of(&self, whole: Option<Columns>, parts: &[Columns]) -> Option<u16> {
        let fits =
            |split: &Split| whole.is_none_or(|whole| whole == split.whole) && split.parts == parts;
        self.splits.iter().position(fits).map(|place| place as u16)
    }

    /// The axes of the accumulator.
    pub fn accumulator_axes(&self) -> Axes {
        Axes { batch: !self.batch.is_empty(), ..Axes::ROWS }
            .along(Some(Columns::of_product(self.column.divisor())))
    }

    /// The dims of a value with these axes, in the order batch, row, column.
    pub fn dims(&self, axes: Axes) -> Vec<Dim> {
        let batch = self.batch.iter().filter(|_| axes.batch).cloned();
        let row = axes.row.map(|run| self.row_dim(run));
        let column = axes.columns().map(|columns| self.column_dim(columns));
        batch.chain(row).chain(column).collect()
    }

    /// Whether dims have all batch dims or none, as a value has.
    pub fn has_whole_batch(&self, dims: &[Dim]) -> bool {
        let own = self.batch.iter().filter(|dim| dims.contains(dim)).count();
        own == 0 || own == self.batch.len()
    }
}
