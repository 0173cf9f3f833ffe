//! A launch that needs the whole of a dim for some values, as two: one for these, and one for parts of the dim.
//!
//! ```text
//! T = exp(X @ W.T - logsumexp(X @ W.T, N))      lse = logsumexp(X @ W.T, N)
//!                                               T = exp(X @ W.T - lse)
//! ```
//!
//! The first one gives what does not vary along the dim: reductions over it, and the graph's other outputs. The product is
//! computed by both.

use crate::graph::{Dependence, Graph, Input, InputId, NodeId, Op, Output, free_name};
use crate::shape::Dim;

/// Both graphs, with what the first one gives to the second.
pub(super) struct Split {
    pub(super) whole: Graph,
    /// The outputs of the first one that the second reads.
    pub(super) statistics: Vec<Output>,
    pub(super) part: Graph,
}

/// Splits a graph whose rows or columns are a dim; `None` where it gives nothing along the dim or needs the whole of it for that.
pub(super) fn split(graph: &Graph, dim: &Dim, taken: &dyn Fn(&str) -> bool) -> Option<Split> {
    let is_row = graph.space().row == *dim;
    if is_row == (graph.space().column == *dim) {
        return None;
    }
    let varies = |node: NodeId| {
        let axes = graph.ty(node).axes;
        if is_row { axes.row.is_some() } else { axes.column.is_some() }
    };
    let mut late = vec![false; graph.len()];
    for (id, node) in graph.nodes() {
        let crosses = needs_whole(graph, &node.op, dim, is_row);
        if crosses && varies(id) {
            return None;
        }
        late[id.index()] = crosses || node.op.operands().any(|operand| late[operand.index()]);
    }
    let is_statistic = |node: NodeId| late[node.index()] && !varies(node);
    let along = |output: &&Output| output.dims.contains(dim);
    let roots = graph.outputs().iter().filter(along).flat_map(Output::values);
    let needed = graph.made_of(roots, |id| !is_statistic(id));
    let own = graph.nodes().map(|(id, _)| id).filter(|id| needed[id.index()]);
    let stored: Vec<NodeId> = own.filter(|id| is_statistic(*id)).collect();
    if stored.is_empty() || !graph.outputs().iter().any(|output| along(&output)) {
        return None;
    }
    let name = |node: &NodeId| free_name(&format!("{}_{}", graph.name(), node.index()), taken);
    let statistic = |node: &NodeId| {
        let dims = graph.space().dims(graph.ty(*node).axes);
        let (dtype, _) = graph.stored_dtype(*node);
        Output { name: name(node), dtype, dims, value: *node, stack: None }
    };
    let statistics: Vec<Output> = stored.iter().map(statistic).collect();
    let rest = graph.outputs().iter().filter(|output| !along(output)).cloned();
    let mut whole = graph.without_outputs().named(&format!("{}_whole", graph.name()));
    rest.chain(statistics.iter().cloned()).for_each(|output| whole.push_output(output));
    let whole = rebuilt(&whole, whole.outputs(), &whole.live(), &[], &[]);
    let outputs: Vec<Output> = graph.outputs().iter().filter(along).cloned().collect();
    let part = rebuilt(graph, &outputs, &needed, &stored, &statistics);
    Some(Split { whole, statistics, part })
}

/// The graph of some outputs, made of the nodes that they need, which reads stored values.
fn rebuilt(
    old: &Graph,
    outputs: &[Output],
    needed: &[bool],
    stored: &[NodeId],
    statistics: &[Output],
) -> Graph {
    let mut inputs = old.inputs().to_vec();
    let first = inputs.len();
    inputs.extend(statistics.iter().map(|Output { name, dtype, dims, .. }| Input {
        name: name.clone(),
        dtype: *dtype,
        dims: Some(dims.clone()),
        same_as: None,
        computed: None,
        result: None,
        in_mainloop: false,
    }));
    let mut new = Graph::new(old.name(), inputs, old.space().clone(), old.products().to_vec());
    new.take_statements(old);
    let mut places: Vec<Option<NodeId>> = vec![None; old.len()];
    for (id, node) in old.nodes().filter(|(id, _)| needed[id.index()]) {
        new.continue_statement(old, id);
        let statistic = stored.iter().position(|node| *node == id);
        let op = match statistic {
            Some(place) => Op::Input(InputId((first + place) as u32)),
            None => node.op.map(|operand| at(&places, operand)),
        };
        places[id.index()] = Some(new.make(op));
    }
    for output in outputs {
        new.push_output(output.map(|node| at(&places, node)));
    }
    new.with_read_inputs()
}

fn at(places: &[Option<NodeId>], node: NodeId) -> NodeId {
    places[node.index()].unwrap_or_else(|| panic!("compiler bug: an operand is not there"))
}

/// Whether an operation needs more of the dim, which is that of rows or columns, than one element.
pub(super) fn needs_whole(graph: &Graph, op: &Op, whole: &Dim, is_row: bool) -> bool {
    match op.dependence() {
        Dependence::Reduce(_, over, _) | Dependence::ReduceWeighted(_, over, ..) => {
            if is_row {
                over.row.is_some()
            } else {
                over.column.is_some()
            }
        }
        Dependence::Pick(..)
        | Dependence::Part(..)
        | Dependence::Merge(..)
        | Dependence::Concat(_) => !is_row,
        Dependence::Call => true,
        Dependence::Source | Dependence::Elementwise(_) => match op {
            Op::Take(input, _) | Op::Entry(input, ..) => {
                graph.inputs()[input.0 as usize].dims.iter().flatten().any(|dim| dim == whole)
            }
            Op::Size(dim) => is_made_of(dim, whole),
            Op::Extent(axes) => {
                if is_row {
                    axes.row.is_some()
                } else {
                    axes.column.is_some()
                }
            }
            _ => false,
        },
    }
}

/// Whether a dim is another one, a part of it or a multiple.
pub(super) fn is_made_of(dim: &Dim, whole: &Dim) -> bool {
    let Dim::Name { name, .. } = dim else { return false };
    dim.same_base(whole) || Dim::factors(name).is_some_and(|(_, of)| is_made_of(&of, whole))
}
