//! Rewriting by rules: how most passes work.
//!
//! In: a graph and rules, each from one operation to the node to use instead. Out: the graph with every rule applied,
//! operands before users. Invariant: a node's replacement may vary along less than the node did. Operations that need an
//! operand's axes (reductions, picks, halves) then get the operand as it was, so their own types never change.

use crate::dtype::Elem;
use crate::functions::Accuracy;
use crate::graph::{
    Axes, Binary, Broken, Constant, Dependence, Graph, MathMode, NodeId, Op, Unary, accuracies,
};

use super::Context;
use super::rewrite_reductions::fold_narrowed;

/// The node to use instead of an operation; `None` when the rule does not apply.
pub(super) type Rule = fn(&mut Site<'_>, &Op) -> Option<NodeId>;

/// After this many replacements of one node the rest is left to the next round.
const MOST_REPLACEMENTS: usize = 16;

/// Where a rule is tried: the new graph, in which the operation's operands stand, and what is known there.
pub(super) struct Site<'a> {
    pub(super) graph: &'a mut Graph,
    /// How accurate the function at hand has to be.
    pub(super) accuracy: Accuracy,
    math: MathMode,
    uses: &'a [u32],
    /// Whether operands of an operation did not meet that a rule made: then the rule does not apply. Runs of 2 and of 3
    /// columns or rows meet only where something of all of them stands between them, and a rule may have removed that.
    unmet: bool,
}

impl Site<'_> {
    /// Whether relaxed rules may run.
    pub(super) fn fast(&self) -> bool {
        self.math == MathMode::Fast
    }

    /// Whether nothing but the operation at hand uses the node: then replacing its use saves the node.
    pub(super) fn used_once(&self, node: NodeId) -> bool {
        self.uses.get(node.index()).is_none_or(|uses| *uses <= 1)
    }

    pub(super) fn op(&self, node: NodeId) -> &Op {
        &self.graph[node].op
    }

    pub(super) fn elem(&self, node: NodeId) -> Elem {
        self.graph.ty(node).elem
    }

    pub(super) fn axes(&self, node: NodeId) -> Axes {
        self.graph.ty(node).axes
    }

    pub(super) fn constant(&self, node: NodeId) -> Option<Constant> {
        match self.graph[node].op {
            Op::Constant(constant) => Some(constant),
            _ => None,
        }
    }

    /// The f32 that a node is.
    pub(super) fn number(&self, node: NodeId) -> Option<f32> {
        self.constant(node).and_then(Constant::as_f32)
    }

    /// Whether a node is this f32, to the bit.
    pub(super) fn is(&self, node: NodeId, value: f32) -> bool {
        self.constant(node) == Some(Constant::F32(value.to_bits()))
    }

    pub(super) fn is_i32(&self, node: NodeId, value: i32) -> bool {
        self.constant(node) == Some(Constant::I32(value))
    }

    pub(super) fn is_bool(&self, node: NodeId, value: bool) -> bool {
        self.constant(node) == Some(Constant::Bool(value))
    }

    /// Whether a node is 1, of either arithmetic type.
    pub(super) fn is_one(&self, node: NodeId) -> bool {
        self.is(node, 1.0) || self.is_i32(node, 1)
    }

    /// The operand of a node that is this function.
    pub(super) fn unary_of(&self, node: NodeId, wanted: Unary) -> Option<NodeId> {
        match self.graph[node].op {
            Op::Unary(op, a) if op == wanted => Some(a),
            _ => None,
        }
    }

    /// The operands of a node that is this function.
    pub(super) fn binary_of(&self, node: NodeId, wanted: Binary) -> Option<(NodeId, NodeId)> {
        match self.graph[node].op {
            Op::Binary(op, a, b) if op == wanted => Some((a, b)),
            _ => None,
        }
    }

    pub(super) fn make(&mut self, op: Op) -> NodeId {
        // Any node stands in for one that there is not: what the rule gives is not used.
        let stand_in = op.operands().next();
        match (self.graph.type_of(&op), stand_in) {
            (Err(Broken::Axes { .. }), Some(operand)) => {
                self.unmet = true;
                operand
            }
            (Ok(_) | Err(_), _) => self.graph.make(op),
        }
    }

    pub(super) fn make_number(&mut self, value: f32) -> NodeId {
        self.graph.make(Op::number(value))
    }

    pub(super) fn make_constant(&mut self, constant: Constant) -> NodeId {
        self.graph.make(Op::Constant(constant))
    }

    pub(super) fn make_unary(&mut self, op: Unary, a: NodeId) -> NodeId {
        self.make(Op::Unary(op, a))
    }

    pub(super) fn make_binary(&mut self, op: Binary, a: NodeId, b: NodeId) -> NodeId {
        self.make(Op::Binary(op, a, b))
    }
}

/// The graph with every rule applied wherever it applies, and without what is then unused.
pub(super) fn rewrite(graph: &Graph, context: &Context<'_>, rules: &[Rule]) -> Graph {
    let live = graph.live();
    let accuracies = accuracies(graph, context.math);
    let mut building = Building {
        new: graph.emptied(),
        uses: Vec::new(),
        narrow: Vec::with_capacity(graph.len()),
        full: Vec::with_capacity(graph.len()),
        rules,
        math: context.math,
    };
    let uses = count_uses(graph, &live);
    for (id, node) in graph.nodes() {
        if live[id.index()] {
            building.new.continue_statement(graph, id);
            building.place(&node.op, node.ty.axes, accuracies[id.index()], uses[id.index()]);
        } else {
            // Never read: only live nodes have users that are rebuilt.
            building.narrow.push(id);
            building.full.push(id);
        }
    }
    for output in graph.outputs() {
        let stored = output.map(|value| building.stored(value, graph[value].ty.axes));
        building.new.push_output(stored);
    }
    super::prune::drop_unused(&building.new)
}

/// How many live nodes and outputs use each node.
fn count_uses(graph: &Graph, live: &[bool]) -> Vec<u32> {
    let mut uses = vec![0u32; graph.len()];
    for (_, node) in graph.nodes().filter(|(id, _)| live[id.index()]) {
        node.op.operands().for_each(|operand| uses[operand.index()] += 1);
    }
    for output in graph.outputs() {
        output.values().for_each(|value| uses[value.index()] += 1);
    }
    uses
}

struct Building<'r> {
    new: Graph,
    /// Uses of new nodes that stand for old ones.
    uses: Vec<u32>,
    /// For every old node, the new one, which may vary along less.
    narrow: Vec<NodeId>,
    /// For every old node, a new one of the same type.
    full: Vec<NodeId>,
    rules: &'r [Rule],
    math: MathMode,
}

impl Building<'_> {
    /// The new node for an output's value. A store repeats a value along dims that it lacks, but never a fraction of the
    /// rows or columns: `where(c, x, x)` with columns of its own is stored as such, though it is the x of fewer columns.
    fn stored(&self, value: NodeId, axes: Axes) -> NodeId {
        let narrow = self.narrow[value.index()];
        let own = self.new.ty(narrow).axes;
        let fits = |own: Option<u32>, whole: Option<u32>| own.is_none() || own == whole;
        let fits = fits(own.row, axes.row) && fits(own.column, axes.column);
        if fits { narrow } else { self.full[value.index()] }
    }

    fn place(&mut self, old: &Op, axes: Axes, accuracy: Accuracy, uses: u32) {
        let narrow = self.narrowed(old, accuracy);
        let full = if self.new.ty(narrow).axes == axes {
            narrow
        } else {
            let op = old.map(|operand| self.full[operand.index()]);
            let made = self.apply(op.clone(), accuracy);
            if self.new.ty(made).axes == axes { made } else { self.new.make(op) }
        };
        for node in [narrow, full] {
            if self.uses.len() <= node.index() {
                self.uses.resize(node.index() + 1, 0);
            }
        }
        self.uses[narrow.index()] += uses;
        self.narrow.push(narrow);
        self.full.push(full);
    }

    /// The new node, of operands that may vary along less than the old ones where the operation can do with that.
    fn narrowed(&mut self, old: &Op, accuracy: Accuracy) -> NodeId {
        let whole = old.map(|operand| self.full[operand.index()]);
        match old.dependence() {
            Dependence::Reduce(fold, over, a) => {
                let (narrow, axes) =
                    (self.narrow[a.index()], self.new.ty(self.full[a.index()]).axes);
                let mut site = Site {
                    graph: &mut self.new,
                    accuracy,
                    math: self.math,
                    uses: &self.uses,
                    unmet: false,
                };
                let folded = fold_narrowed(&mut site, fold, over, axes, narrow);
                let folded = folded.filter(|_| !site.unmet);
                folded.unwrap_or_else(|| self.apply(whole, accuracy))
            }
            // The parts of a value that is the same in every column are the value.
            Dependence::Part(_, a) if self.new.ty(self.narrow[a.index()]).axes.column.is_none() => {
                self.narrow[a.index()]
            }
            Dependence::Part(..)
            | Dependence::Merge(..)
            | Dependence::Concat(_)
            | Dependence::Pick(..)
            | Dependence::ReduceWeighted(..) => self.apply(whole, accuracy),
            Dependence::Source | Dependence::Elementwise(_) | Dependence::Call => {
                let narrow = old.map(|operand| self.narrow[operand.index()]);
                // Runs of 2 and of 3 columns meet only where something of all columns stands between them.
                let op = if self.new.type_of(&narrow).is_ok() { narrow } else { whole };
                self.apply(op, accuracy)
            }
        }
    }

    /// The node for an operation after every rule that applies to it or to what replaced it.
    fn apply(&mut self, op: Op, accuracy: Accuracy) -> NodeId {
        let mut op = op;
        let mut made = None;
        for _ in 0..MOST_REPLACEMENTS {
            let mut site = Site {
                graph: &mut self.new,
                accuracy,
                math: self.math,
                uses: &self.uses,
                unmet: false,
            };
            let next = self.rules.iter().find_map(|rule| {
                site.unmet = false;
                rule(&mut site, &op).filter(|_| !site.unmet)
            });
            let Some(next) = next else { break };
            if made == Some(next) {
                break;
            }
            made = Some(next);
            op = self.new[next].op.clone();
        }
        made.unwrap_or_else(|| self.new.make(op))
    }
}
