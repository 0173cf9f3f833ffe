//! A kernel cut into launches, whose nodes have levels.
//!
//! In: a graph and its levels. Out: the graph of the last launch, whose computed inputs are what the others store. What crosses
//! a cut is chosen by the caller.

use std::sync::Arc;

use crate::dtype::DType;
use crate::graph::{Graph, Input, InputId, NodeId, Op, Output, Stack, free_name};

use super::levels::Levels;

/// Which of the values that later launches read, or what they are made of, a launch stores.
pub(super) type Choose = fn(&Cutting<'_>, usize, Vec<NodeId>) -> Vec<NodeId>;

/// A kernel while it is cut.
pub(super) struct Cutting<'a> {
    pub(super) graph: &'a Graph,
    pub(super) levels: &'a Levels,
    /// The kernel's inputs, and the stored values.
    pub(super) inputs: Vec<Input>,
    /// By node, the input that has its stored value.
    pub(super) stored: Vec<Option<usize>>,
}

impl<'a> Cutting<'a> {
    pub(super) fn new(graph: &'a Graph, levels: &'a Levels) -> Cutting<'a> {
        let (inputs, stored) = (graph.inputs().to_vec(), vec![None; graph.len()]);
        Cutting { graph, levels, inputs, stored }
    }

    pub(super) fn cut(mut self, choose: Choose) -> Graph {
        let last = self.levels.last;
        for level in 0..last {
            let wanted = choose(&self, level, self.wanted_after(level));
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
    pub(super) fn unrounded(&self, node: NodeId, dtype: DType) -> NodeId {
        if let Op::Cast(to, of) = self.graph[node].op
            && to == dtype
            && self.graph.ty(of) == self.graph.ty(node)
        {
            return of;
        }
        node
    }

    /// The values of a launch that later ones read.
    pub(super) fn wanted_after(&self, level: usize) -> Vec<NodeId> {
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
