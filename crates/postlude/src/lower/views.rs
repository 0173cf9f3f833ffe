//! Parts of columns as views of memory.
//!
//! Half of a tensor's columns, or every other one, is a tensor of its own, and so is a part of such a part. So a graph that
//! splits values is planned as one of fewer columns: an input of full width is several inputs, an output several outputs,
//! a value between them several values, and a product of full width several products with the same left operand. Parts
//! that nothing uses are not there.
//! Invariant: the new graph has neither parts nor merges, and gives the same results.

mod asked;
mod narrow;
mod slice;
mod text;
mod view;
mod window;

use crate::graph::{Dependence, Graph, Kind, NodeId, Op, Part};

use super::refusal::LowerRefusal;
use super::rules::Rule;
use super::runs::least_common_multiple;
pub(crate) use asked::MOST_PRODUCTS;
use asked::Target;
use slice::{MOST_DEPTH, Way};
pub(crate) use view::{Element, View, Views};
pub(crate) use window::{Number, Window};

/// The first graph without parts and merges that is accepted, or why none is.
pub(super) fn sliced<T>(
    graph: &Graph,
    accept: impl Fn(&Graph, Views) -> Result<T, LowerRefusal>,
) -> Result<T, LowerRefusal> {
    let live = graph.live();
    let split = || {
        let nodes = graph.nodes().filter(|(id, _)| live[id.index()]);
        nodes.filter_map(|(id, node)| Some((id, node, way_of(&node.op)?)))
    };
    let Some((_, _, usual)) = split().next() else {
        return accept(graph, Views::whole(graph));
    };
    let repeated = |op: &Op| matches!(op, Op::Part(Part::Repeated { .. }, _));
    if let Some((id, _)) = graph.nodes().find(|(id, node)| live[id.index()] && repeated(&node.op)) {
        return Err(Rule::RunParts.at(graph, id));
    }
    let tiles = split().any(|(_, node, _)| node.ty.axes.kind() == Kind::Tile);
    let (mut refusal, mut obstacle) = (None, None);
    for target in targets(graph, &live, tiles) {
        let asked = match asked::ask(graph, target, usual) {
            Ok(asked) => asked,
            Err(node) => {
                obstacle.get_or_insert_with(|| refused(graph, node));
                continue;
            }
        };
        let narrowed = narrow::narrow(graph, target.divisor, asked);
        match narrowed.and_then(|(graph, views)| accept(&graph, views)) {
            Ok(accepted) => return Ok(accepted),
            Err(why) => refusal.get_or_insert(why),
        };
    }
    Err(refusal.or(obstacle).unwrap_or_else(|| Rule::NoSlice.anywhere()))
}

/// How an operation splits columns or puts them together, if it does.
fn way_of(op: &Op) -> Option<Way> {
    match op.dependence() {
        Dependence::Part(Part::Repeated { .. }, _) => None,
        Dependence::Part(part, _) => Some(Way::of_part(part)),
        Dependence::Merge(merge, ..) => Some(Way::of_merge(merge)),
        Dependence::Source
        | Dependence::Elementwise(_)
        | Dependence::Reduce(..)
        | Dependence::ReduceWeighted(..)
        | Dependence::Pick(..)
        | Dependence::Concat(_)
        | Dependence::Call => None,
    }
}

/// The columns that a graph is tried with, in order. Where only vectors are split, the product stays whole if it can; where
/// tiles are, it never does, so that an output may lie where a tile operand does: elements that are read and written there
/// belong to one thread.
fn targets(graph: &Graph, live: &[bool], tiles: bool) -> Vec<Target> {
    let own = graph.space().column.divisor();
    let nodes = graph.nodes().filter(|(id, _)| live[id.index()]);
    let full = nodes.filter_map(|(_, node)| node.ty.axes.column).min().unwrap_or(1);
    let least = u32::from(tiles && own < 2 * full);
    let common = |all: u64, by: u32| {
        let all = u32::try_from(all).unwrap_or(u32::MAX);
        u64::from(least_common_multiple(all, by))
    };
    let multiple = graph.column_multiples().into_iter().fold(1, common);
    // What is split once needs no more parts, and keeps its elements in one thread.
    let once = if tiles { least } else { 1 };
    let most = if graph.moves_columns() { MOST_DEPTH } else { once };
    let divisors = || (least..=most).filter_map(move |depth| own.checked_mul(1 << depth));
    // Sizes that slices of runs do not divide are refused, so sizes that are known to be multiples come first.
    let known = divisors().map(|divisor| Target { divisor, multiple: Some(multiple) });
    known.chain(divisors().map(|divisor| Target { divisor, multiple: None })).collect()
}

/// Why values are not split as they would have to be.
fn refused(graph: &Graph, obstacle: Option<NodeId>) -> LowerRefusal {
    let Some(id) = obstacle else {
        return Rule::ManyParts.at_first(graph, |op| matches!(op, Op::Part(..)));
    };
    let rule = match graph[id].op.dependence() {
        Dependence::Reduce(..) | Dependence::ReduceWeighted(..) => Rule::WholeFoldBesideParts,
        Dependence::Pick(..) => Rule::PickBesideParts,
        Dependence::Source if matches!(graph[id].op, Op::Input(_)) => Rule::PackedParts,
        Dependence::Source
        | Dependence::Elementwise(_)
        | Dependence::Part(..)
        | Dependence::Merge(..)
        | Dependence::Concat(_)
        | Dependence::Call => Rule::NoSlice,
    };
    rule.at(graph, id)
}

#[cfg(test)]
mod tests;
