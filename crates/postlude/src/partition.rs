//! Cuts a kernel that is more than one launch into launches with stored values between them.
//!
//! In: an optimised graph. Out: one whose last launch reads what earlier ones store, as computed inputs. A value that all
//! tiles of a launch finish together meets elements in the next launch; what that reads is stored as it is, f32 unless
//! the text rounds it, or computed again where that moves fewer bytes. The meaning is the same to the bit of a store.
//! Where a launch of these is refused, too, it is cut finely: products are stored as they are, every reduction is finished by
//! a launch of its own, and threads compute the rest element by element.

mod chunks;
mod rounds;
mod rows;
mod statistics;
mod stored;

use std::fmt;
use std::sync::Arc;

use crate::dtype::DType;
use crate::graph::{
    Binary, Dependence, Graph, Input, InputId, NodeId, Op, Output, Reach, Stack, Unary, free_name,
};
use crate::lower::Lowered;
use crate::optimise::{separate_products, without_scales};

/// Another way to run a kernel whose launch was refused, with how its last launch is lowered: more launches, then smaller
/// ones, then threads that compute elements by themselves. `None` behind the last.
pub(crate) fn after_refusal(
    graph: &Arc<Graph>,
    refused: &Lowered,
) -> Option<(Arc<Graph>, Arc<Lowered>)> {
    if refused.is_by_elements() {
        return None;
    }
    let uncut = refused.uncut();
    if let (Some(cut), None) = (rows::behind_product(graph), uncut) {
        let cut = Arc::new(cut);
        let lowered = Arc::new(Lowered::of_cut(&cut, graph));
        return Some((cut, lowered));
    }
    // Rows that the launch behind a product does not hold are reduced by the product's own.
    let graph = uncut.unwrap_or(graph);
    let each = vec![1; graph.products().len()];
    let cut = separate_products(graph, &each)
        .or_else(|| partition(graph))
        .or_else(|| without_scales(graph))
        .or_else(|| finely(graph));
    if let Some(cut) = cut {
        let cut = Arc::new(cut);
        let lowered = Arc::new(Lowered::new(&cut));
        return Some((cut, lowered));
    }
    Some((graph.clone(), Arc::new(Lowered::by_elements(graph)?)))
}

/// Another partition of a kernel than its own launch.
pub(crate) struct Alternative {
    pub(crate) cut: Cut,
    pub(crate) graph: Arc<Graph>,
    pub(crate) lowered: Arc<Lowered>,
}

/// Where a kernel that may be one launch is cut.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Cut {
    /// Between a product and the reductions of its rows.
    Rows,
    /// Between products that share A: how many each launch has.
    Products(&'static [usize]),
}

impl fmt::Display for Cut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Cut::Rows => f.write_str("cut between the product and the reductions of its rows"),
            Cut::Products(groups) => {
                let groups: Vec<String> = groups.iter().map(usize::to_string).collect();
                write!(f, "with {} of the products that share A", groups.join(" + "))
            }
        }
    }
}

/// How products that share A are cut into launches; which of them are together does not matter, for all have the same sizes.
const GROUPS: &[&[usize]] =
    &[&[1, 1], &[2, 1], &[1, 1, 1], &[3, 1], &[2, 2], &[2, 1, 1], &[1, 1, 1, 1]];

/// Other partitions of a kernel: the sizes of a call say which one costs least.
pub(crate) fn alternatives(graph: &Arc<Graph>, lowered: &Lowered) -> Vec<Alternative> {
    let mut all = Vec::new();
    if lowered.waits_behind_product()
        && let Some(cut) = rows::behind_product(graph).map(Arc::new)
    {
        let lowered = Arc::new(Lowered::of_cut(&cut, graph));
        all.push(Alternative { cut: Cut::Rows, graph: cut, lowered });
    }
    let products = graph.products().len();
    for groups in GROUPS.iter().filter(|groups| groups.iter().sum::<usize>() == products) {
        if let Some(cut) = separate_products(graph, groups).map(Arc::new) {
            let lowered = Arc::new(Lowered::new(&cut));
            all.push(Alternative { cut: Cut::Products(groups), graph: cut, lowered });
        }
    }
    all
}

/// The same kernel in launches of which each multiplies, or reduces once; `None` where it is one of these.
fn finely(graph: &Graph) -> Option<Graph> {
    let graph = &with_rounded_outputs(graph);
    let levels = Levels::fine(graph);
    (levels.last > 0).then(|| Cutting::new(graph, &levels).cut())
}

pub(crate) use chunks::{Chunks, WORKSPACE, bytes_between, in_chunks};

/// The same kernel in several launches; `None` where it is one by its structure.
fn partition(graph: &Graph) -> Option<Graph> {
    let graph = &with_rounded_outputs(&rounds::in_rounds(graph));
    let levels = Levels::of(graph);
    (levels.last > 0).then(|| Cutting::new(graph, &levels).cut())
}

/// The same graph whose outputs are values as they are stored: what an earlier launch stores of them has no more bytes.
fn with_rounded_outputs(graph: &Graph) -> Graph {
    let mut new = graph.without_outputs();
    for output in graph.outputs() {
        let is_narrow = !output.dtype.is_packed() && output.dtype.bits() < DType::F32.bits();
        let rounded = (is_narrow && output.stack.is_none())
            .then(|| new.add(Op::Cast(output.dtype, output.value)).ok())
            .flatten()
            .filter(|rounded| new.ty(*rounded) == new.ty(output.value));
        let value = rounded.unwrap_or(output.value);
        new.push_output(Output { value, ..output.clone() });
    }
    new
}

/// The launch that each node is computed in.
struct Levels {
    of: Vec<usize>,
    /// Whether a node can be computed again from inputs.
    again: Vec<bool>,
    live: Vec<bool>,
    last: usize,
}

impl Levels {
    fn of(graph: &Graph) -> Levels {
        let live = graph.live();
        let (mut of, mut after) = (vec![0; graph.len()], vec![false; graph.len()]);
        let mut again = vec![false; graph.len()];
        // What a product or a reduction of the same launch makes, and what counts of segments' rows alone make.
        let (mut folded, mut counted) = (again.clone(), again.clone());
        for (id, node) in graph.nodes() {
            let place = id.index();
            let operands = || node.op.operands();
            again[place] =
                is_repeatable(&node.op) && operands().all(|operand| again[operand.index()]);
            let counts = operands().any(|operand| counted[operand.index()]);
            counted[place] = counts_segments(graph, id) || counts && again[place];
            let next = |operand: NodeId| {
                let axes = graph.ty(operand).axes;
                // A reduction of a finished value is finished with it, and so is math of its own dims.
                let meets = axes != node.ty.axes && node.op.reduction().is_none();
                after[operand.index()] && meets
            };
            let least = operands()
                .map(|operand| of[operand.index()] + usize::from(next(operand)))
                .max()
                .unwrap_or(0);
            let beside =
                operands().any(|operand| of[operand.index()] == least && folded[operand.index()]);
            of[place] = least + usize::from(counts && beside);
            folded[place] = ends_launch(&node.op) || beside && !counts;
            let inherits =
                |operand: NodeId| of[operand.index()] == of[place] && after[operand.index()];
            let crosses = crosses_tiles(&node.op) || counts && !again[place];
            after[place] = crosses || operands().any(inherits);
        }
        Levels::new(of, again, live)
    }

    /// The same where a launch multiplies, or reduces once.
    fn fine(graph: &Graph) -> Levels {
        let live = graph.live();
        let first = usize::from(!graph.products().is_empty());
        let (mut of, mut again) = (vec![0; graph.len()], vec![false; graph.len()]);
        for (id, node) in graph.nodes() {
            let place = id.index();
            let level = |operand: NodeId| {
                of[operand.index()] + usize::from(ends_launch(&graph[operand].op))
            };
            let least = if matches!(node.op, Op::Accumulator(_)) { 0 } else { first };
            of[place] = node.op.operands().map(level).max().unwrap_or(0).max(least);
            again[place] =
                is_repeatable(&node.op) && node.op.operands().all(|operand| again[operand.index()]);
        }
        let mut levels = Levels::new(of, again, live);
        // Each element would reduce again where an output repeats a reduction.
        let repeats = |output: &Output| {
            let dims = output.without_stack(&output.dims).len();
            let fewer = |node: NodeId| graph.space().dims(graph.ty(node).axes).len() < dims;
            let is_last = |node: NodeId| levels.of[node.index()] == levels.last;
            output.values().any(|node| ends_launch(&graph[node].op) && fewer(node) && is_last(node))
        };
        levels.last += usize::from(graph.outputs().iter().any(repeats));
        levels
    }

    fn new(of: Vec<usize>, again: Vec<bool>, live: Vec<bool>) -> Levels {
        let used = of.iter().zip(&live).filter(|(_, live)| **live).map(|(level, _)| *level);
        let last = used.max().unwrap_or(0);
        Levels { of, again, live, last }
    }
}

/// Whether an operation is a product, or folds elements.
fn ends_launch(op: &Op) -> bool {
    matches!(op, Op::Accumulator(_) | Op::Pick(..)) || op.reduction().is_some()
}

/// Whether a node counts the rows of segments, which tiles do not know.
fn counts_segments(graph: &Graph, node: NodeId) -> bool {
    let segmented = graph.space().is_segmented();
    matches!(graph[node].op, Op::Extent(axes) if segmented && axes.row.is_some())
}

/// Whether several tiles of a launch share a result.
fn crosses_tiles(op: &Op) -> bool {
    match op.dependence() {
        Dependence::Reduce(_, over, _) | Dependence::ReduceWeighted(_, over, ..) => {
            match over.reach() {
                Reach::Run | Reach::Block => false,
                Reach::Row | Reach::Tiles => true,
            }
        }
        Dependence::Pick(..) => true,
        Dependence::Source
        | Dependence::Elementwise(_)
        | Dependence::Part(..)
        | Dependence::Merge(..)
        | Dependence::Concat(_)
        | Dependence::Call => false,
    }
}

/// Whether an operation makes an element of elements alone, none of them a product's, and has the same bits in every
/// launch: how accurate a function is depends on what a launch makes of it.
fn is_repeatable(op: &Op) -> bool {
    match op.dependence() {
        Dependence::Source => !matches!(op, Op::Accumulator(_)),
        Dependence::Elementwise(_) => match op {
            Op::Unary(op, _) => matches!(op, Unary::Negate | Unary::Abs | Unary::Not),
            Op::Binary(op, ..) => !matches!(op, Binary::Divide | Binary::Pow | Binary::Fmod),
            Op::Fma(..) | Op::Select(..) | Op::Cast(..) => true,
            _ => false,
        },
        Dependence::Reduce(..)
        | Dependence::ReduceWeighted(..)
        | Dependence::Pick(..)
        | Dependence::Part(..)
        | Dependence::Merge(..)
        | Dependence::Concat(_)
        | Dependence::Call => false,
    }
}

/// A kernel while it is cut.
struct Cutting<'a> {
    graph: &'a Graph,
    levels: &'a Levels,
    /// The kernel's inputs, and the stored values.
    inputs: Vec<Input>,
    /// By node, the input that has its stored value.
    stored: Vec<Option<usize>>,
}

impl<'a> Cutting<'a> {
    fn new(graph: &'a Graph, levels: &'a Levels) -> Cutting<'a> {
        let (inputs, stored) = (graph.inputs().to_vec(), vec![None; graph.len()]);
        Cutting { graph, levels, inputs, stored }
    }

    fn cut(mut self) -> Graph {
        let last = self.levels.last;
        for level in 0..last {
            let wanted = stored::cheapest(&self, level, self.wanted_after(level));
            let name = self.free_name(&format!("{}_launch", self.graph.name()));
            let mut launch = Launch::new(&self, level, name);
            let mut outputs = Vec::new();
            for node in &wanted {
                let ty = self.graph.ty(*node);
                let (dtype, _) = self.graph.stored_dtype(*node);
                let value = launch.value(self.unrounded(*node, dtype));
                let name = self.free_name(&format!("stored_{}", node.index()));
                let dims = self.graph.space().dims(ty.axes);
                outputs.push(Output { name, dtype, dims, value, stack: None });
            }
            let mut new = launch.new;
            for output in &outputs {
                new.push_output(output.clone());
            }
            let computed = Arc::new(new.with_read_inputs());
            for (node, output) in wanted.iter().zip(outputs) {
                self.stored[node.index()] = Some(self.inputs.len());
                let Output { name, dtype, dims, .. } = output;
                self.inputs.push(Input::computed_by(computed.clone(), name, dtype, dims));
            }
        }
        let mut launch = Launch::new(&self, last, self.graph.name().to_owned());
        let outputs: Vec<Output> =
            self.graph.outputs().iter().map(|output| launch.output(output)).collect();
        let mut new = launch.new;
        for output in outputs {
            new.push_output(output);
        }
        new.on_inputs(&self.inputs).without_unread()
    }

    /// What a value is before it is rounded to the dtype that it is stored as: the store rounds.
    fn unrounded(&self, node: NodeId, dtype: DType) -> NodeId {
        if let Op::Cast(to, of) = self.graph[node].op
            && to == dtype
            && self.graph.ty(of) == self.graph.ty(node)
        {
            return of;
        }
        node
    }

    /// The values of a launch that later ones read.
    fn wanted_after(&self, level: usize) -> Vec<NodeId> {
        let Levels { of, again, live, .. } = self.levels;
        let mut wanted = vec![false; self.graph.len()];
        let mut want = |node: NodeId| {
            wanted[node.index()] |= of[node.index()] == level && !again[node.index()];
        };
        for (id, node) in self.graph.nodes().filter(|(id, _)| live[id.index()]) {
            if of[id.index()] > level {
                node.op.operands().for_each(&mut want);
            }
        }
        self.graph.outputs().iter().flat_map(Output::values).for_each(want);
        let nodes = self.graph.nodes().map(|(id, _)| id);
        nodes.filter(|id| wanted[id.index()]).collect()
    }

    /// A name that no input has.
    fn free_name(&self, name: &str) -> String {
        free_name(name, |name| self.inputs.iter().any(|input| input.name == name))
    }
}

/// One launch under construction.
struct Launch<'a, 'b> {
    cutting: &'b Cutting<'a>,
    level: usize,
    new: Graph,
    places: Vec<Option<NodeId>>,
}

impl<'a, 'b> Launch<'a, 'b> {
    fn new(cutting: &'b Cutting<'a>, level: usize, name: String) -> Launch<'a, 'b> {
        let old = cutting.graph;
        let products = if level == 0 { old.products().to_vec() } else { Vec::new() };
        let plain = |input: &Input| Input { computed: None, ..input.clone() };
        let inputs = cutting.inputs.iter().map(plain).collect();
        let mut new = Graph::new(name, inputs, old.space().clone(), products);
        new.take_statements(old);
        Launch { cutting, level, new, places: vec![None; old.len()] }
    }

    /// The value of a node in this launch: computed here, or stored by an earlier one.
    fn value(&mut self, root: NodeId) -> NodeId {
        let (graph, levels) = (self.cutting.graph, self.cutting.levels);
        let mut open = vec![root];
        while let Some(&node) = open.last() {
            if self.places[node.index()].is_some() {
                open.pop();
                continue;
            }
            self.new.continue_statement(graph, node);
            let is_own = levels.of[node.index()] == self.level || levels.again[node.index()];
            if let (Some(input), false) = (self.cutting.stored[node.index()], is_own) {
                let stored = self.new.make(Op::Input(InputId(input as u32)));
                self.places[node.index()] = Some(stored);
                continue;
            }
            let missing: Vec<NodeId> = graph[node]
                .op
                .operands()
                .filter(|operand| self.places[operand.index()].is_none())
                .collect();
            if missing.is_empty() {
                let places = &self.places;
                let op = graph[node].op.map(|operand| {
                    places[operand.index()]
                        .unwrap_or_else(|| panic!("compiler bug: an operand is not there"))
                });
                self.places[node.index()] = Some(self.new.make(op));
            } else {
                open.extend(missing);
            }
        }
        self.places[root.index()].unwrap_or_else(|| panic!("compiler bug: a value is not there"))
    }

    fn output(&mut self, output: &Output) -> Output {
        let Cutting { levels, stored, .. } = self.cutting;
        let at = output.value.index();
        let is_read = stored[at].is_some() && levels.of[at] != self.level;
        let unrounded = || self.cutting.unrounded(output.value, output.dtype);
        let value = if is_read { output.value } else { unrounded() };
        let value = self.value(value);
        let stack = output.stack.as_ref().map(|stack| Stack {
            rest: stack.rest.iter().map(|node| self.value(*node)).collect(),
            ..stack.clone()
        });
        Output { value, stack, ..output.clone() }
    }
}
