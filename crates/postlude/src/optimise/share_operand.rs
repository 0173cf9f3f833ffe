//! Products of one left operand in one launch, with an accumulator each.
//!
//! In: a kernel whose graphs have one product each. Out: the same kernel, in which graphs whose products read the same A, and
//! B of the same dims, are one graph of several products: A is loaded once, and what one of them makes of another's result
//! stays in registers instead of memory. [`separate_products`](super::separate_products()) is the way back, for targets that refuse such a launch and
//! for sizes at which several launches cost less.
//! Invariant: every value is what it was; what was stored between the graphs as it is, is read as it is.

use std::sync::Arc;

use crate::graph::{
    Dependence, Graph, Input, InputId, NodeId, Op, Orientation, Output, Product, ProductId,
};

/// The most products of one launch: with more, each has too few columns of a tile.
const MOST_PRODUCTS: usize = 4;

/// The same kernel whose products share launches where they share A; `None` where none do.
pub(crate) fn share_operand(kernel: &Graph) -> Option<Graph> {
    let mut shared = join_two(kernel)?;
    while let Some(next) = join_two(&shared) {
        shared = next;
    }
    Some(shared.without_unread())
}

/// Makes a graph's nodes in another one; where each one is.
pub(super) fn copy_nodes(
    from: &Graph,
    to: &mut Graph,
    mut make: impl FnMut(&mut Graph, NodeId, Op) -> NodeId,
) -> Vec<NodeId> {
    let mut places: Vec<NodeId> = Vec::with_capacity(from.len());
    for (id, node) in from.nodes() {
        let op = node.op.map(|operand| places[operand.index()]);
        places.push(make(to, id, op));
    }
    places
}

/// The same kernel with one graph in the place of two that share A.
fn join_two(kernel: &Graph) -> Option<Graph> {
    let earlier: Vec<&Arc<Graph>> = kernel.earlier().iter().map(|one| one.graph).collect();
    for second in 1..=earlier.len() {
        for first in 0..second {
            let graph = earlier.get(second).map_or(kernel, |graph| graph);
            let between = &earlier[first + 1..second];
            if !between.iter().any(|other| reads(other, earlier[first]))
                && may_join(earlier[first], graph)
            {
                return Some(joined_kernel(kernel, earlier[first], earlier.get(second).copied()));
            }
        }
    }
    None
}

/// Whether a graph reads what another one stores.
fn reads(graph: &Graph, other: &Graph) -> bool {
    let mut read = graph.read_inputs().map(|id| &graph.inputs()[id.0 as usize].name);
    read.any(|name| other.outputs().iter().any(|output| output.name == *name))
}

/// Whether a graph reads elements of what another one stores at places that are data.
fn looks_up(graph: &Graph, other: &Graph) -> bool {
    let mut tables = graph.nodes().filter_map(|(_, node)| node.op.table());
    tables.any(|id| other.outputs().iter().any(|it| it.name == graph.inputs()[id.0 as usize].name))
}

/// Whether two graphs of a kernel can be one launch, the first one's results in the second's registers.
fn may_join(first: &Graph, second: &Graph) -> bool {
    let (Some(own), Some(other)) = (first.products().first(), second.products().first()) else {
        return false;
    };
    let count = first.products().len() + second.products().len();
    let plain = |graph: &Graph| {
        let splits = |op: &Op| match op.dependence() {
            Dependence::Part(..) | Dependence::Merge(..) | Dependence::Concat(_) => true,
            Dependence::Source
            | Dependence::Elementwise(_)
            | Dependence::Reduce(..)
            | Dependence::ReduceWeighted(..)
            | Dependence::Pick(..)
            | Dependence::Call => false,
        };
        let cut = graph.ends().or(graph.contraction_ends()).is_some();
        let whole = graph.space().splits.is_empty() && !cut && !graph.has_scales();
        whole
            && !graph.has_operand_in_mainloop()
            && !graph.nodes().any(|(_, node)| splits(&node.op))
    };
    let reduces = |graph: &Graph| graph.nodes().any(|(_, node)| node.op.reduction().is_some());
    let as_it_is = |output: &Output| {
        output.stack.is_none() && first.stored_dtype(output.value).0 == output.dtype
    };
    // A reduction is finished by all tiles of a launch together, so the second's elements would have to wait for it; what
    // they look up may be any tile's.
    let in_registers = !reads(second, first)
        || !reduces(first) && !looks_up(second, first) && first.outputs().iter().all(as_it_is);
    count <= MOST_PRODUCTS
        && first.space() == second.space()
        && operand(first, own.left) == operand(second, other.left)
        && alike((first, own), (second, other))
        && plain(first)
        && plain(second)
        && in_registers
}

/// What an operand is: its name and how it is read.
fn operand(graph: &Graph, (id, orientation): (InputId, Orientation)) -> (&str, Orientation) {
    (&graph.inputs()[id.0 as usize].name, orientation)
}

/// Whether two products have right operands of the same type and sum alike.
fn alike((first, own): (&Graph, &Product), (second, other): (&Graph, &Product)) -> bool {
    let right = |graph: &Graph, product: &Product| {
        let input = &graph.inputs()[product.right.0.0 as usize];
        (input.dtype, input.dims.clone(), product.right.1)
    };
    (own.elem, own.accumulation, &own.inner) == (other.elem, other.accumulation, &other.inner)
        && right(first, own) == right(second, other)
}

/// The kernel with one graph instead of two, in the place of the second, which is the kernel's own where there is none.
fn joined_kernel(kernel: &Graph, first: &Arc<Graph>, second: Option<&Arc<Graph>>) -> Graph {
    let by = |graph: &Arc<Graph>| {
        let graph = graph.clone();
        move |input: &Input| input.computed.as_ref().is_some_and(|it| Arc::ptr_eq(it, &graph))
    };
    let by_first = by(first);
    let Some(second) = second else {
        let kept = kernel.inputs().iter().filter(|input| !by_first(input));
        let kept: Vec<Input> = kept.cloned().collect();
        let own = kernel.own_results();
        let result = |output: &Output| {
            let input = kernel.inputs().iter().find(|input| input.name == output.name);
            input.and_then(Input::result_place)
        };
        return joined(first, kernel, kept, |outputs| {
            let (firsts, seconds) = outputs;
            let firsts = firsts.into_iter().filter_map(|output| Some((result(&output)?, output)));
            let seconds = own.into_iter().zip(seconds);
            let mut all: Vec<(usize, Output)> = firsts.chain(seconds).collect();
            all.sort_by_key(|(place, _)| *place);
            all.into_iter().map(|(_, output)| output).collect()
        });
    };
    let mut inputs = second.inputs().to_vec();
    inputs.retain(|input| !first.outputs().iter().any(|output| output.name == input.name));
    let others: Vec<&str> = kernel
        .inputs()
        .iter()
        .filter_map(|input| input.computed.as_ref())
        .filter(|graph| !Arc::ptr_eq(graph, second) && !Arc::ptr_eq(graph, first))
        .flat_map(|graph| graph.inputs())
        .map(|input| input.name.as_str())
        .collect();
    let own: Vec<&str> =
        kernel.read_inputs().map(|id| kernel.inputs()[id.0 as usize].name.as_str()).collect();
    let is_wanted = |output: &Output| {
        let input = kernel.inputs().iter().find(|input| input.name == output.name);
        others.contains(&output.name.as_str())
            || own.contains(&output.name.as_str())
            || input.is_some_and(|input| input.result.is_some())
    };
    let one = Arc::new(joined(first, second, inputs, |(firsts, seconds)| {
        firsts.into_iter().filter(&is_wanted).chain(seconds).collect()
    }));
    // In the place of the second: what it reads is computed before.
    let by_second = by(second);
    let begins = kernel.inputs().iter().position(&by_second);
    let is_own = |input: &Input| by_first(input) || by_second(input);
    let stored = |input: &&Input| one.outputs().iter().any(|output| output.name == input.name);
    let own = kernel.inputs().iter().filter(|input| is_own(input)).filter(stored);
    let own = own.map(|input| Input { computed: Some(one.clone()), ..input.clone() });
    let all = || kernel.inputs().iter().enumerate().filter(|(_, input)| !is_own(input));
    let is_before = |at: usize| begins.is_none_or(|begins| at < begins);
    let mut order: Vec<Input> = Vec::with_capacity(kernel.inputs().len());
    order.extend(all().filter(|(at, _)| is_before(*at)).map(|(_, input)| input.clone()));
    order.extend(own);
    order.extend(all().filter(|(at, _)| !is_before(*at)).map(|(_, input)| input.clone()));
    kernel.on_inputs(&order)
}

/// One graph of both graphs' products on these inputs and those of the first, with the outputs that are chosen of both.
fn joined(
    first: &Graph,
    second: &Graph,
    mut inputs: Vec<Input>,
    choose: impl FnOnce((Vec<Output>, Vec<Output>)) -> Vec<Output>,
) -> Graph {
    for input in first.inputs() {
        if !inputs.iter().any(|known| known.name == input.name) {
            inputs.push(input.clone());
        }
    }
    let place = |name: &str| {
        let found = inputs.iter().position(|input| input.name == name);
        InputId(found.unwrap_or_else(|| panic!("compiler bug: no input `{name}`")) as u32)
    };
    let moved = |graph: &Graph, id: InputId| place(&graph.inputs()[id.0 as usize].name);
    let products = |graph: &Graph| -> Vec<Product> {
        let moved = |(id, orientation)| (moved(graph, id), orientation);
        let all = graph.products().iter();
        let all = all.map(|product| Product {
            left: moved(product.left),
            right: moved(product.right),
            ..product.clone()
        });
        all.collect()
    };
    let all = [products(first), products(second)].concat();
    let shift = first.products().len() as u32;
    let mut one = Graph::new(second.name(), inputs.clone(), second.space().clone(), all);
    one.take_statements(second);
    let of_first =
        copy_nodes(first, &mut one, |one, _, op| one.make(op.map_input(|id| moved(first, id))));
    let firsts: Vec<Output> =
        first.outputs().iter().map(|output| output.map(|value| of_first[value.index()])).collect();
    let of_second = copy_nodes(second, &mut one, |one, node, op| {
        one.continue_statement(second, node);
        match op {
            Op::Input(id) => {
                let name = &second.inputs()[id.0 as usize].name;
                match firsts.iter().find(|output| output.name == *name) {
                    Some(output) => output.value,
                    None => one.make(Op::Input(moved(second, id))),
                }
            }
            Op::Accumulator(ProductId(number)) => {
                one.make(Op::Accumulator(ProductId(number + shift)))
            }
            op => one.make(op.map_input(|id| moved(second, id))),
        }
    });
    let seconds = second.outputs().iter();
    let seconds = seconds.map(|output| output.map(|value| of_second[value.index()])).collect();
    for output in choose((firsts, seconds)) {
        one.push_output(output);
    }
    one
}
