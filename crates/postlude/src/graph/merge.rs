//! Graphs of one kernel that multiply the same operands, as one: the product is computed once for all that is stored of it.

use std::sync::Arc;

use super::{Graph, Input, InputId, NodeId, Op, Orientation, Product};

impl Graph {
    /// The same kernel, in which earlier graphs of the same product, or without one in the same space, are one graph where
    /// nothing that one of them reads depends on the other.
    pub(crate) fn with_merged_sources(&self) -> Graph {
        let mut kernel = self.clone();
        while let Some(merged) = kernel.merge_two() {
            kernel = merged;
        }
        kernel
    }

    fn merge_two(&self) -> Option<Graph> {
        let all = self.earlier();
        for (place, second) in all.iter().enumerate().skip(1) {
            for (before, first) in all[..place].iter().enumerate() {
                let (first, second) = (first.graph, second.graph);
                if first.space != second.space || !same_products(first, second) {
                    continue;
                }
                if self.is_known_before(second, first) {
                    return Some(self.merged(first, second, first));
                }
                let between = &all[before + 1..=place];
                if !between.iter().any(|other| self.reads(other.graph, first)) {
                    return Some(self.merged(first, second, second));
                }
            }
        }
        None
    }

    /// Whether all that a graph reads is known before another one is computed.
    fn is_known_before(&self, graph: &Arc<Graph>, other: &Arc<Graph>) -> bool {
        let begins = self.inputs.iter().position(|input| is_computed_by(input, other));
        let declared = self.declared_inputs().len();
        let known = |place: &usize| *place < declared || begins.is_some_and(|first| *place < first);
        self.read_places(graph).iter().all(known)
    }

    /// Whether a graph reads what another one computes.
    fn reads(&self, graph: &Graph, other: &Arc<Graph>) -> bool {
        self.read_places(graph).iter().any(|place| is_computed_by(&self.inputs[*place], other))
    }

    /// The places of the inputs that a graph reads.
    fn read_places(&self, graph: &Graph) -> Vec<usize> {
        let name = |input: InputId| &graph.inputs[input.0 as usize].name;
        graph.read_inputs().map(|input| self.place_of(name(input))).collect()
    }

    /// The same kernel with one graph instead of two, in the place of one of them.
    fn merged(&self, first: &Arc<Graph>, second: &Arc<Graph>, place: &Arc<Graph>) -> Graph {
        let one = Arc::new(Graph::joined(first, second));
        let begins = self.inputs.iter().position(|input| is_computed_by(input, place));
        let is_own = |input: &Input| is_computed_by(input, first) || is_computed_by(input, second);
        let own = self.inputs.iter().filter(|input| is_own(input));
        let own = own.map(|input| Input { computed: Some(one.clone()), ..input.clone() });
        let others = |(_, input): &(usize, &Input)| !is_own(input);
        let mut order: Vec<Input> = Vec::with_capacity(self.inputs.len());
        let all = || self.inputs.iter().enumerate().filter(others);
        let is_before = |at: usize| begins.is_none_or(|begins| at < begins);
        order.extend(all().filter(|(at, _)| is_before(*at)).map(|(_, input)| input.clone()));
        order.extend(own);
        order.extend(all().filter(|(at, _)| !is_before(*at)).map(|(_, input)| input.clone()));
        self.on_inputs(&order)
    }

    /// One graph that stores what two store.
    fn joined(first: &Graph, second: &Graph) -> Graph {
        let mut inputs = first.inputs.clone();
        for input in &second.inputs {
            if !inputs.iter().any(|known| known.name == input.name) {
                inputs.push(input.clone());
            }
        }
        let mut one = first.on_inputs(&inputs);
        let second = second.on_inputs(&inputs);
        let mut places: Vec<NodeId> = Vec::with_capacity(second.len());
        for (_, node) in second.nodes() {
            let op: Op = node.op.map(|operand| places[operand.index()]);
            places.push(one.make(op));
        }
        for output in second.outputs() {
            one.push_output(output.map(|value| places[value.index()]));
        }
        one
    }
}

fn is_computed_by(input: &Input, graph: &Arc<Graph>) -> bool {
    input.computed.as_ref().is_some_and(|computed| Arc::ptr_eq(computed, graph))
}

/// Whether two graphs multiply the same tensors in the same way.
fn same_products(first: &Graph, second: &Graph) -> bool {
    let named = |graph: &Graph, product: &Product| {
        let name = |id: InputId| graph.inputs[id.0 as usize].name.clone();
        let operand = |(id, orientation): (InputId, Orientation)| (name(id), orientation);
        let scales = product.scales.iter().map(|scale| (scale.side, name(scale.input), scale.run));
        let scales: Vec<_> = scales.collect();
        let cut = (product.segments.clone(), product.masked.clone());
        (operand(product.left), operand(product.right), product.accumulation, scales, cut)
    };
    let all = |graph: &Graph| -> Vec<_> {
        graph.products.iter().map(|product| named(graph, product)).collect()
    };
    all(first) == all(second)
}
