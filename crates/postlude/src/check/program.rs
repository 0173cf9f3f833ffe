//! Bodies of several products: which product each expression is made of, and values that other graphs compute.
//!
//! In: a body. Out: for each expression, the products that its value is made of. A graph has one product, the last of its
//! body; a value of other products alone is an input that a graph of its own computes.

use std::cell::RefCell;
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use crate::catalogue::{self, Group};
use crate::dtype::DType;
use crate::graph::{Graph, Input, InputId, NodeId, Op, Output, Stack, free_name};
use crate::shape::{self, Dim};
use crate::syntax::{Ast, Declaration, ExprId, ExprKind};

use super::definitions::Calls;
use super::error::CheckError;
use super::reads::{assignment, gathers, has_gathered, leaves, read_statements};
use super::segments::unwritten;
use super::separate::is_separate;
use super::{Body, Lowered, product};

/// The most products of a body.
pub(super) const MOST_PRODUCTS: usize = 64;

/// The products of a body.
#[derive(Debug, Default)]
pub(super) struct Products {
    /// The first expression of each.
    pub(super) all: Vec<ExprId>,
    /// For each expression, a bit for each product that its value is made of; those inside of operands are not among them.
    tops: Vec<u64>,
    /// For each expression, the first one that is the same.
    canonical: Vec<usize>,
    /// For each expression, whether results of `topk`, which have a dim of their own, are among what it is made of.
    stacked: Vec<bool>,
    /// For each expression, whether it means the same in every graph, given what products, reductions and casts are.
    movable: Vec<bool>,
}

impl Products {
    /// Those of a body; a product that is written twice is one.
    pub(super) fn of(ast: &Ast) -> Result<Products, CheckError> {
        let mut found = Products::default();
        let mut same: HashMap<String, usize> = HashMap::new();
        let mut canonical: Vec<usize> = Vec::new();
        let mut numbers: HashMap<usize, usize> = HashMap::new();
        // The first statement that assigns a name, and whether it assigns that name alone.
        let mut assigned: HashMap<&str, (ExprId, bool)> = HashMap::new();
        for statement in &ast.statements {
            for target in &statement.targets {
                let alone = statement.targets.len() == 1;
                assigned.entry(&target.text).or_insert((statement.value, alone));
            }
        }
        for (id, expr) in ast.exprs.iter() {
            let place = id.0 as usize;
            let before = |name: &str| assigned.get(name).filter(|(value, _)| value.0 < id.0);
            let renamed =
                expr.kind.map_children(|child| ExprId(canonical[child.0 as usize] as u32));
            let meaning = match &expr.kind {
                ExprKind::Name(name) => before(name)
                    .filter(|(_, alone)| *alone)
                    .map(|(value, _)| canonical[value.0 as usize]),
                _ => None,
            };
            let own = meaning.unwrap_or_else(|| *same.entry(key(&renamed)).or_insert(place));
            canonical.push(own);
            let mut tops = match &expr.kind {
                ExprKind::Name(name) | ExprKind::Annotated(name, _) => {
                    before(name).map_or(0, |(value, _)| found.tops[value.0 as usize])
                }
                kind if is_separate(kind) => 0,
                kind => {
                    // Rows are gathered from what is stored, as operands are read.
                    let stored = |call: &str| usize::from(gathers(call));
                    let skipped = match kind {
                        ExprKind::Call { function, .. } => stored(&function.text),
                        _ => 0,
                    };
                    let children = kind.children().skip(skipped);
                    children.fold(0, |all, child| all | found.tops[child.0 as usize])
                }
            };
            let stacked = match &expr.kind {
                ExprKind::Name(name) | ExprKind::Annotated(name, _) => {
                    before(name).is_some_and(|(value, _)| found.stacked[value.0 as usize])
                }
                ExprKind::Call { function, .. } if function.text == "topk" => true,
                kind if is_separate(kind) => false,
                kind => kind.children().any(|child| found.stacked[child.0 as usize]),
            };
            found.stacked.push(stacked);
            let movable = match &expr.kind {
                ExprKind::Name(name) | ExprKind::Annotated(name, _) => match before(name) {
                    Some((value, alone)) => *alone && found.movable[value.0 as usize],
                    None => !matches!(name.as_str(), "row" | "col"),
                },
                kind if is_separate(kind) => true,
                kind => {
                    let stays = tops != 0 && !is_elementwise(kind);
                    stays
                        || !has_places(kind)
                            && kind.children().all(|child| found.movable[child.0 as usize])
                }
            };
            found.movable.push(movable);
            if is_separate(&expr.kind) {
                let number = *numbers.entry(own).or_insert_with(|| {
                    found.all.push(id);
                    found.all.len() - 1
                });
                if number >= MOST_PRODUCTS {
                    return Err(CheckError::ManyProducts { at: expr.span });
                }
                tops = 1 << number;
            }
            found.tops.push(tops);
        }
        found.canonical = canonical;
        Ok(found)
    }

    /// The product of the kernel's own graph: the last one that outputs are made of.
    pub(super) fn main(&self, ast: &Ast, outputs: &[&str]) -> Option<usize> {
        let made = outputs.iter().filter_map(|name| assignment(ast, name));
        let tops = made.fold(0, |all, (_, statement)| all | self.tops(statement.value));
        let mut made = outputs.iter().filter_map(|name| assignment(ast, name));
        // What gathers rows of a product is another graph's.
        let gathered = made.any(|(_, statement)| has_gathered(ast, statement.value));
        let last = self.all.len().checked_sub(1).filter(|_| !gathered);
        Products::last(tops).or(last)
    }

    /// Whether an expression means the same in every graph that has its dims.
    pub(super) fn is_movable(&self, id: ExprId) -> bool {
        self.movable[id.0 as usize]
    }

    /// The number of an expression, the same for equal ones.
    pub(super) fn canonical(&self, id: ExprId) -> usize {
        self.canonical[id.0 as usize]
    }

    /// The products that an expression's value is made of, as bits.
    pub(super) fn tops(&self, id: ExprId) -> u64 {
        self.tops[id.0 as usize]
    }

    /// The last of some products, as a number.
    pub(super) fn last(bits: u64) -> Option<usize> {
        bits.checked_ilog2().map(|bit| bit as usize)
    }
}

/// Whether an expression computes each element from those of its operands, and rounds to no dtype.
fn is_elementwise(kind: &ExprKind) -> bool {
    match kind {
        ExprKind::Prefix(..) | ExprKind::Infix(..) => true,
        ExprKind::Call { function, .. } => catalogue::find(&function.text)
            .is_some_and(|entry| matches!(entry.group, Group::Elementwise | Group::Activation)),
        ExprKind::Number(_)
        | ExprKind::Name(_)
        | ExprKind::Annotated(..)
        | ExprKind::Dims(_)
        | ExprKind::Transpose(_)
        | ExprKind::Product(..) => false,
    }
}

/// Whether a function numbers the elements of a graph.
fn has_places(kind: &ExprKind) -> bool {
    match kind {
        ExprKind::Call { function, .. } => catalogue::find(&function.text)
            .is_some_and(|entry| matches!(entry.group, Group::Bits | Group::Structure)),
        ExprKind::Number(_)
        | ExprKind::Name(_)
        | ExprKind::Annotated(..)
        | ExprKind::Dims(_)
        | ExprKind::Transpose(_)
        | ExprKind::Product(..)
        | ExprKind::Prefix(..)
        | ExprKind::Infix(..) => false,
    }
}

/// An expression without its place, so that equal ones are found.
fn key(kind: &ExprKind) -> String {
    match kind {
        ExprKind::Call { function, grad, arguments } => {
            format!("{} {grad} {arguments:?}", function.text)
        }
        kind => format!("{kind:?}"),
    }
}

/// A kernel while its body is cut into graphs.
#[derive(Clone, Copy)]
pub(super) struct Unit<'a> {
    pub(super) ast: &'a Ast,
    pub(super) declarations: &'a [Declaration],
    /// The outputs of the graph at hand, as far as there is a signature.
    pub(super) outputs: &'a [Declaration],
    /// What the graph at hand computes, where that is no output.
    pub(super) root: Option<ExprId>,
    pub(super) calls: Option<&'a Calls>,
    pub(super) products: &'a Products,
    pub(super) computed: &'a Computed,
}

/// The inputs of a kernel that graphs compute, in the order in which they are computed.
#[derive(Default)]
pub(super) struct Computed {
    inputs: RefCell<Vec<Input>>,
    /// The values among them, by expression.
    values: RefCell<HashMap<usize, Stored>>,
    /// What expressions vary along, where that is asked for.
    matrices: Option<RefCell<HashMap<ExprId, Matrix>>>,
}

/// The dim of the rows of a value, and that of its columns, as the graph that computes it has them.
#[derive(Clone, PartialEq, Debug, Default)]
pub(crate) struct Matrix {
    pub(crate) row: Option<Dim>,
    pub(crate) column: Option<Dim>,
}

/// A value that is stored between graphs.
#[derive(Clone)]
pub(super) struct Stored {
    pub(super) input: Input,
    /// Whether the text says what it is rounded to.
    pub(super) is_rounded: bool,
}

/// A value that a result keeps as it is: the number of its expression, and whether the text rounds it.
pub(super) struct Kept {
    pub(super) key: usize,
    pub(super) is_rounded: bool,
}

impl Computed {
    /// Whether the value of an expression is stored.
    fn has(&self, key: usize) -> bool {
        self.values.borrow().contains_key(&key)
    }

    /// One that takes down what expressions vary along.
    pub(super) fn with_matrices() -> Computed {
        Computed { matrices: Some(RefCell::default()), ..Computed::default() }
    }

    /// What was taken down.
    pub(super) fn into_matrices(self) -> HashMap<ExprId, Matrix> {
        self.matrices.map(RefCell::into_inner).unwrap_or_default()
    }

    /// All of them.
    pub(super) fn take_inputs(&self) -> Vec<Input> {
        self.inputs.take()
    }

    /// The input that says where the segments of a value's rows end, where rows behind the last one are not written.
    pub(super) fn unwritten(&self, name: &str) -> Option<String> {
        let inputs = self.inputs.borrow();
        unwritten(inputs.iter().find(|input| input.name == name)?)
    }

    /// Adds the outputs of a graph that are results of the kernel. Values that they keep as they are are stored once.
    pub(super) fn add_results(&self, all: impl Iterator<Item = (Input, Option<Kept>)>) {
        for (input, kept) in all {
            let plain = Input { computed: None, result: None, ..input.clone() };
            if let Some(Kept { key, is_rounded }) = kept {
                let stored = Stored { input: plain, is_rounded };
                self.values.borrow_mut().entry(key).or_insert(stored);
            }
            self.inputs.borrow_mut().push(input);
        }
    }

    /// Adds one, whose name begins so; as another graph declares it.
    pub(super) fn add(
        &self,
        unit: Unit<'_>,
        name: &str,
        make: impl FnOnce(String) -> Input,
    ) -> Input {
        let taken = |name: &str| {
            unit.signature().any(|declared| declared.name.text == name)
                || self.inputs.borrow().iter().any(|input| input.name == name)
        };
        let input = make(free_name(name, taken));
        self.inputs.borrow_mut().push(input.clone());
        Input { computed: None, ..input }
    }
}

/// A value that a graph of its own computes.
struct Value {
    graph: Graph,
    node: NodeId,
    /// Those that are stacked behind it, where it is the first of several.
    rest: Option<Vec<NodeId>>,
}

impl Value {
    /// The input of another graph that it is.
    fn input(self, name: String, dtype: DType) -> Input {
        let Value { graph, node: value, rest } = self;
        let mut dims = graph.space().dims(graph.ty(value).axes);
        let stack = rest.map(|rest| Stack { dim: dims.len(), rest });
        dims.extend(stack.iter().map(|stack| Dim::Size(stack.rest.len() as u32 + 1)));
        let mut graph = graph.named(&name);
        graph.push_output(Output { name: name.clone(), dtype, dims: dims.clone(), value, stack });
        Input::computed_by(Arc::new(graph), name, dtype, dims)
    }
}

impl<'a> Unit<'a> {
    /// The inputs that the signature declares.
    pub(super) fn signature_inputs(self) -> &'a [Declaration] {
        self.ast.signature.as_ref().map_or(&[], |signature| &signature.inputs)
    }

    /// Everything that the signature declares, or what is inferred to be declared.
    fn signature(self) -> impl Iterator<Item = &'a Declaration> {
        let signature = self.ast.signature.iter();
        let all = signature.flat_map(|signature| signature.inputs.iter().chain(&signature.outputs));
        all.chain(self.declarations)
    }

    /// The input that has the value of an expression, which is made of products; one for all of its uses.
    pub(super) fn input(
        self,
        root: ExprId,
        name: &str,
        errors: &mut Vec<CheckError>,
    ) -> Option<Stored> {
        let key = self.products.canonical(root);
        if let Some(known) = self.computed.values.borrow().get(&key) {
            return Some(known.clone());
        }
        let value = self.value(root, errors)?;
        let (dtype, is_rounded) = value.graph.stored_dtype(value.node);
        let input = self.computed.add(self, name, |name| value.input(name, dtype));
        let stored = Stored { input, is_rounded };
        self.computed.values.borrow_mut().insert(key, stored.clone());
        Some(stored)
    }

    /// What some expressions read of what is declared, each in its own right.
    pub(super) fn read_by(self, roots: &[ExprId]) -> Vec<Declaration> {
        let read = roots.iter().flat_map(|root| leaves(self.ast, *root, true));
        let read: BTreeSet<&str> = read.map(|leaf| leaf.name).collect();
        let declared = self.declarations.iter();
        let own = declared.filter(|input| read.contains(input.name.text.as_str()));
        own.map(|input| Declaration { same_as: None, ..input.clone() }).collect()
    }

    /// The tensor that has an expression's value, changed before it is stored; several that are stacked are one tensor.
    pub(super) fn tensor(
        self,
        root: ExprId,
        name: &str,
        errors: &mut Vec<CheckError>,
        change: impl Fn(&mut Graph, NodeId) -> NodeId,
    ) -> Option<Input> {
        let key = self.products.canonical(root);
        let at = self.ast.exprs[root].span;
        let values = |body: &mut Body<'_>, lowered| body.stored_values(lowered, at);
        let (mut graph, (nodes, is_stacked)) = self.lowered(root, errors, values)?;
        let changed: Vec<NodeId> = nodes.iter().map(|node| change(&mut graph, *node)).collect();
        let (node, is_same) = (changed[0], changed == nodes);
        if let (Op::Input(input), true) = (&graph[node].op, is_same) {
            return Some(graph.inputs()[input.0 as usize].clone());
        }
        let known = self.computed.values.borrow().get(&key).filter(|_| is_same).cloned();
        if let Some(known) = known {
            return Some(known.input);
        }
        let (dtype, is_rounded) = graph.stored_dtype(node);
        let rest = is_stacked.then(|| changed[1..].to_vec());
        let value = Value { graph, node, rest };
        let is_kept = is_same && !is_stacked;
        let input = self.computed.add(self, name, |name| value.input(name, dtype));
        if is_kept {
            let stored = Stored { input: input.clone(), is_rounded };
            self.computed.values.borrow_mut().insert(key, stored);
        }
        Some(input)
    }

    /// The graph of an expression that is made of products; `None` after reports.
    fn value(self, root: ExprId, errors: &mut Vec<CheckError>) -> Option<Value> {
        let at = self.ast.exprs[root].span;
        let (graph, node) = self.lowered(root, errors, |body, lowered| body.settle(lowered, at))?;
        Some(Value { graph, node, rest: None })
    }

    /// The graph that an expression is lowered into, and what is taken of it there; `None` after reports.
    fn lowered<T>(
        self,
        root: ExprId,
        errors: &mut Vec<CheckError>,
        take: impl FnOnce(&mut Body<'_>, Lowered) -> Option<T>,
    ) -> Option<(Graph, T)> {
        let own = self.read_by(&[root]);
        let unit = Unit { declarations: &own, outputs: &[], root: Some(root), ..self };
        let main = Products::last(self.products.tops(root));
        let found = product::find(unit, main, errors)?;
        let mut body = Body::of_product(found, unit, std::mem::take(errors));
        let mut needed = read_statements(self.ast, root, false);
        for factor in body.factor_expressions() {
            needed.extend(read_statements(self.ast, factor, false));
        }
        body.lower_own(self.ast, needed.into_iter());
        body.lower_tree(root);
        let lowered = body.lowered[&root];
        let taken = take(&mut body, lowered);
        *errors = body.errors;
        let taken = taken.filter(|_| errors.is_empty())?;
        Some((body.graph, taken))
    }
}

impl<'a> Body<'a> {
    /// Takes down what an expression varies along.
    pub(super) fn note_matrix(&self, id: ExprId, lowered: Lowered) {
        let notes = self.unit.and_then(|unit| unit.computed.matrices.as_ref());
        let (Some(notes), Lowered::Node(node)) = (notes, lowered) else { return };
        let (space, axes) = (self.graph.space(), self.graph.ty(node).axes);
        let row = axes.row.map(|run| space.row_dim(run));
        let column = axes.columns().map(|columns| space.column_dim(columns));
        notes.borrow_mut().entry(id).or_insert(Matrix { row, column });
    }

    /// Whether an expression is made of products, and not of this graph's.
    pub(super) fn is_foreign(&self, id: ExprId) -> bool {
        self.unit.is_some_and(|unit| {
            let tops = unit.products.tops(id);
            // Several values are made of a stored one, and are not stored themselves.
            let stored = tops != 0 && !unit.products.stacked[id.0 as usize];
            stored && self.main.is_none_or(|main| tops & (1 << main) == 0)
        })
    }

    /// Whether an expression of other products is stored by their graph. Math of stored values is computed again where it
    /// is read: it costs less than another tensor.
    pub(super) fn is_stored_elsewhere(&self, id: ExprId) -> bool {
        self.is_foreign(id)
            && self.unit.is_some_and(|unit| {
                let is_light =
                    is_elementwise(&self.exprs[id].kind) && unit.products.movable[id.0 as usize];
                !is_light || unit.computed.has(unit.products.canonical(id))
            })
    }

    /// Lowers the statements of other products' math that a value is made of, each before what reads it.
    fn lower_light(&mut self, ast: &'a Ast, place: usize) {
        for place in self.light_statements(ast, place) {
            let statement = &ast.statements[place];
            let is_new =
                statement.targets.iter().any(|target| !self.names.contains_key(&*target.text));
            if is_new {
                self.lower_statement_at(ast, place);
            }
        }
    }

    /// A statement of other products' math, and the ones that it reads outside of what their graphs store.
    fn light_statements(&self, ast: &'a Ast, place: usize) -> BTreeSet<usize> {
        let (mut found, mut open) = (BTreeSet::from([place]), vec![ast.statements[place].value]);
        while let Some(id) = open.pop() {
            match &ast.exprs[id].kind {
                ExprKind::Name(name) | ExprKind::Annotated(name, _) => {
                    let Some((place, statement)) = assignment(ast, name) else { continue };
                    let value = statement.value;
                    let is_light = self.is_foreign(value) && !self.is_stored_elsewhere(value);
                    if is_light && value.0 < id.0 && found.insert(place) {
                        open.push(value);
                    }
                }
                kind if !self.is_stored_elsewhere(id) => open.extend(kind.children()),
                _ => {}
            }
        }
        found
    }

    /// The value of a name that a statement of other products assigns.
    pub(super) fn lower_foreign_name(&mut self, name: &str) -> Option<Lowered> {
        let unit = self.unit?;
        let mut same = Vec::new();
        let mut own = name;
        let (mut place, mut statement) = assignment(unit.ast, name)?;
        // A name that is another name has its value, also where that is no single one.
        while let ([target], ExprKind::Name(other)) =
            (statement.targets.as_slice(), &unit.ast.exprs[statement.value].kind)
        {
            let Some(next) = assignment(unit.ast, other).filter(|next| next.0 < place) else {
                break;
            };
            same.push(target);
            own = other;
            (place, statement) = next;
        }
        if !self.is_foreign(statement.value) {
            return None;
        }
        let is_light = !self.is_stored_elsewhere(statement.value);
        let lowered = if is_light && statement.targets.len() == 1 {
            self.lower_light(unit.ast, place);
            self.names.get(own).map(|(lowered, _)| *lowered)?
        } else if let [target] = statement.targets.as_slice() {
            let lowered = match self.lowered.get(&statement.value) {
                Some(lowered) => *lowered,
                None => self.lower_foreign(statement.value),
            };
            self.lowered.insert(statement.value, lowered);
            self.names.insert(&target.text, (lowered, target.span));
            lowered
        } else {
            if !self.names.contains_key(own) {
                self.lower_statement_at(unit.ast, place);
            }
            self.names.get(own).map(|(lowered, _)| *lowered)?
        };
        for target in same {
            self.names.insert(&target.text, (lowered, target.span));
        }
        Some(lowered)
    }

    /// A value of other products: an input that their graph computes.
    pub(super) fn lower_foreign(&mut self, id: ExprId) -> Lowered {
        let Some(unit) = self.unit else { return Lowered::Poison };
        let at = self.exprs[id].span;
        let Some(Stored { input, .. }) = unit.input(id, "value", &mut self.errors) else {
            return Lowered::Poison;
        };
        let dims = input.dims.clone().unwrap_or_default();
        let space = self.graph.space();
        if let Err(error) = unit.check_written(&input, space.segments.as_deref(), at) {
            return self.report(error);
        }
        if space.axes(&dims).is_none() {
            let known = shape::list(&space.dims(space.accumulator_axes()));
            let dims = shape::list(&dims);
            return self.report(CheckError::OtherProduct { dims, known, at });
        }
        let known = self.graph.inputs().iter().position(|known| known.name == input.name);
        let place = known.map(|place| InputId(place as u32));
        let place = place.unwrap_or_else(|| self.graph.push_input(input));
        self.node(Op::Input(place), at)
    }
}
