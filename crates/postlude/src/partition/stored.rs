//! Which values a launch stores: those of the fewest bytes that later launches can make everything else of.
//!
//! ```text
//! h = bf16(A @ W.T) + R          stored: bf16(A @ W.T), 2 + 2 bytes an element written and read, and R is read again, 2 bytes;
//! D = h - mean(h, M)             h would be 4 + 4 bytes
//! ```
//!
//! Later launches compute again only what has the same bits there. So what is stored is a cut between what they need and
//! what no launch computes again, and the one of the least cost is as large as the largest flow between both. An instruction
//! counts, too, so that long chains of them are stored now and then.

use std::collections::VecDeque;

use super::cutting::Cutting;
use super::levels::is_repeatable;
use crate::functions::Accuracy;
use crate::graph::{Dependence, Graph, Kind, MathMode, NodeId, Op, accuracies};

/// A tile counts as many times as much as a vector, and each batch's as many times as much as one for all.
const TILE: u64 = 256;
const BATCH: u64 = 8;
/// Bits of an element that memory moves while all SMs execute an instruction for it.
const OPERATION: u64 = 2;
const NEVER: u64 = 1 << 60;

/// What a launch stores so that later ones have some of its values; the values themselves among equals.
pub(super) fn cheapest(cutting: &Cutting<'_>, level: usize, wanted: Vec<NodeId>) -> Vec<NodeId> {
    let graph = cutting.graph;
    // Counts of segments' rows are not known to all launches.
    if graph.space().is_segmented() {
        return wanted;
    }
    let costs = Costs::new(cutting, level, &wanted);
    let (from, to) = (2 * graph.len(), 2 * graph.len() + 1);
    let mut network = Network::new(2 * graph.len() + 2);
    for (id, node) in graph.nodes() {
        let (enters, leaves) = (2 * id.index(), 2 * id.index() + 1);
        network.connect(enters, leaves, costs.of(id));
        if costs.is_computed_again(id) {
            network.connect(leaves, to, costs.of_operation(id));
            for operand in node.op.operands() {
                network.connect(leaves, 2 * operand.index(), NEVER);
            }
        } else {
            network.connect(leaves, to, NEVER);
        }
    }
    for node in &wanted {
        network.connect(from, 2 * node.index(), NEVER);
    }
    let reached = network.saturate(from, to);
    let is_cut = |id: &NodeId| reached[2 * id.index()] && !reached[2 * id.index() + 1];
    let is_new = |id: &NodeId| !costs.is_given(*id);
    graph.nodes().map(|(id, _)| id).filter(is_cut).filter(is_new).collect()
}

/// What it costs that later launches have a value.
struct Costs<'a> {
    cutting: &'a Cutting<'a>,
    level: usize,
    /// Nodes that later launches need; sources among them are read whatever is stored.
    read: Vec<bool>,
    /// Nodes whose functions would be less accurate where they are stored as they are rounded.
    coarse: Vec<bool>,
}

impl<'a> Costs<'a> {
    fn new(cutting: &'a Cutting<'a>, level: usize, wanted: &[NodeId]) -> Costs<'a> {
        let (graph, levels) = (cutting.graph, cutting.levels);
        let is_later = |id: NodeId| levels.of[id.index()] > level && levels.live[id.index()];
        let later = graph.nodes().map(|(id, _)| id).filter(|id| is_later(*id));
        let read = graph.made_of(later, |id| is_later(id) || levels.again[id.index()]);
        let needed = accuracies(graph, MathMode::Default);
        let mut has_function = vec![false; graph.len()];
        let mut coarse = vec![false; graph.len()];
        for (id, node) in graph.nodes() {
            let is_function = matches!(node.op.dependence(), Dependence::Elementwise(_))
                && !is_repeatable(&node.op);
            has_function[id.index()] =
                is_function || node.op.operands().any(|operand| has_function[operand.index()]);
            coarse[id.index()] = has_function[id.index()]
                && graph.stored_dtype(id).1
                && needed[id.index()] == Accuracy::Accurate
                && !wanted.contains(&id);
        }
        Costs { cutting, level, read, coarse }
    }

    /// Whether later launches have a value without this launch: sources, and what earlier ones store.
    fn is_given(&self, id: NodeId) -> bool {
        self.cutting.levels.again[id.index()] || self.cutting.stored[id.index()].is_some()
    }

    /// Whether a value may be computed again of its operands.
    fn is_computed_again(&self, id: NodeId) -> bool {
        let op = &self.cutting.graph[id].op;
        let is_source = op.operands().next().is_none();
        let is_stored = self.cutting.stored[id.index()].is_some();
        is_tile(self.cutting.graph, id) && is_repeatable(op) && !is_source && !is_stored
    }

    /// Instructions for a value, in bits that memory moves meanwhile.
    fn of_operation(&self, id: NodeId) -> u64 {
        let is_there = self.read[id.index()] && self.cutting.levels.again[id.index()];
        if is_there { 0 } else { OPERATION * self.count(id) }
    }

    /// Elements of a value, as if all dims had the same sizes.
    fn count(&self, id: NodeId) -> u64 {
        let axes = self.cutting.graph.ty(id).axes;
        let tile = if is_tile(self.cutting.graph, id) { TILE } else { 1 };
        if axes.batch { tile * BATCH } else { tile }
    }

    /// Bits of a value that are moved: stored and read, or read.
    fn of(&self, id: NodeId) -> u64 {
        let (graph, count) = (self.cutting.graph, self.count(id));
        let bits = count * graph.stored_dtype(id).0.bits() as u64;
        if self.cutting.stored[id.index()].is_some() {
            return if self.read[id.index()] { 0 } else { bits };
        }
        if self.cutting.levels.again[id.index()] {
            return match &graph[id].op {
                _ if self.read[id.index()] => 0,
                Op::Input(input) => count * graph.inputs()[input.0 as usize].dtype.bits() as u64,
                op if op.table().is_some() => bits,
                op if is_tile(graph, id) && op.operands().next().is_some() => NEVER,
                _ => 0,
            };
        }
        let is_own = self.cutting.levels.of[id.index()] == self.level;
        if is_own && !self.coarse[id.index()] { 2 * bits } else { NEVER }
    }
}

fn is_tile(graph: &Graph, id: NodeId) -> bool {
    graph.ty(id).axes.kind() == Kind::Tile
}

/// Edges with what may still flow along them; the one behind an edge leads back.
struct Network {
    leaving: Vec<Vec<usize>>,
    edges: Vec<(usize, u64)>,
}

impl Network {
    fn new(vertices: usize) -> Network {
        Network { leaving: vec![Vec::new(); vertices], edges: Vec::new() }
    }

    fn connect(&mut self, from: usize, to: usize, capacity: u64) {
        self.leaving[from].push(self.edges.len());
        self.edges.push((to, capacity));
        self.leaving[to].push(self.edges.len());
        self.edges.push((from, 0));
    }

    /// Lets flow as much as can from one vertex to another, along shortest paths. Which vertices are reached then.
    fn saturate(&mut self, from: usize, to: usize) -> Vec<bool> {
        loop {
            let by = self.paths(from);
            if by[to].is_none() {
                return (0..by.len())
                    .map(|vertex| vertex == from || by[vertex].is_some())
                    .collect();
            }
            let mut path = Vec::new();
            let mut vertex = to;
            while let Some(edge) = by[vertex].filter(|_| vertex != from) {
                path.push(edge);
                vertex = self.edges[edge ^ 1].0;
            }
            let most = path.iter().map(|edge| self.edges[*edge].1).min().unwrap_or(0);
            for edge in path {
                self.edges[edge].1 -= most;
                self.edges[edge ^ 1].1 += most;
            }
        }
    }

    /// For every vertex, the last edge of a shortest path to it.
    fn paths(&self, from: usize) -> Vec<Option<usize>> {
        let mut by = vec![None; self.leaving.len()];
        let mut open = VecDeque::from([from]);
        while let Some(vertex) = open.pop_front() {
            for &edge in &self.leaving[vertex] {
                let (next, capacity) = self.edges[edge];
                if capacity > 0 && next != from && by[next].is_none() {
                    by[next] = Some(edge);
                    open.push_back(next);
                }
            }
        }
        by
    }
}

#[cfg(test)]
mod tests {
    use super::super::partition;
    use crate::define::defined;
    use crate::dtype::DType::{self, BF16, F32};

    /// What the first launch of a kernel stores.
    fn stored(outputs: &str, body: &str) -> Vec<DType> {
        let signature = "A: bf16[M, K], W: bf16[N, K], R: bf16[M, N], g: f32[N]";
        let graph = defined(&format!("kernel k({signature}) -> {outputs} {{ {body} }}"));
        let cut = partition(&graph).expect("it is cut");
        let earlier = cut.earlier();
        let [first] = &earlier[..] else { panic!("{cut}") };
        first.graph.outputs().iter().map(|output| output.dtype).collect()
    }

    const D: &str = "D: bf16[M, N]";

    #[test]
    fn what_is_made_of_a_rounded_value_is_computed_again() {
        assert_eq!(stored(D, "h = bf16(A @ W.T) + R; D = h - max(h, M)"), [BF16, F32]);
        let body = "h = where(R > 0, bf16(A @ W.T) * g, R); D = h - max(h, M)";
        assert_eq!(stored(D, body), [BF16, F32]);
    }

    #[test]
    fn values_of_one_product_are_computed_again_of_it() {
        let body = "z = A @ W.T; a = z + R; b = z * g; D = (a - max(a, M)) * (b - max(b, M))";
        assert_eq!(stored(D, body), [F32, F32, F32]);
    }

    #[test]
    fn nothing_is_computed_again_where_that_moves_as_much() {
        // The product has as many bytes, and R would be read again.
        let body = "h = A @ W.T + R; D = h - max(h, M)";
        assert_eq!(stored(D, body), [F32, F32]);
    }

    #[test]
    fn functions_are_not_computed_again() {
        assert_eq!(stored(D, "h = tanh(bf16(A @ W.T)); D = h - max(h, M)"), [F32, F32]);
    }

    #[test]
    fn functions_stay_as_accurate_as_an_output_asks() {
        let body = "h = bf16(gelu(A @ W.T)) + R; D = h - max(h, M)";
        assert_eq!(stored(D, body), [BF16, F32]);
        assert_eq!(stored("D: f32[M, N]", body), [F32, F32]);
    }

    #[test]
    fn outputs_that_are_finished_early_are_stored_as_they_are_rounded() {
        let outputs = "(h: bf16[M, N], D: bf16[M, N])";
        assert_eq!(stored(outputs, "h = gelu(A @ W.T); D = R - max(h, M)"), [F32, BF16]);
    }
}
