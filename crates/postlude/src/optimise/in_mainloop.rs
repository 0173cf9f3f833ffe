//! Operands that a launch computes as it loads them, instead of a launch before it.
//!
//! In: a kernel, and which computed operands a target's load warps compute. Out: the same kernel, one launch shorter. The
//! operand's elements are the same to the bit.

use crate::graph::{Graph, Input, InputId, Op, Side};

/// The same kernel whose last launch computes an operand of its product; `None` where it has none that it could.
pub(crate) fn operands_in_mainloop(
    graph: &Graph,
    computes: impl Fn(&Input) -> bool,
) -> Option<(Side, Graph)> {
    let [product] = graph.products() else { return None };
    let segmented = graph.ends().or(graph.contraction_ends()).is_some();
    if graph.has_operand_in_mainloop() || segmented {
        return None;
    }
    let candidate = |side: &Side| {
        let (id, orientation) = product.operand(*side);
        let input = &graph.inputs()[id.0 as usize];
        orientation == side.k_major()
            && input.result.is_none()
            && computes(input)
            && !is_read_elsewhere(graph, id)
    };
    let side = [Side::Right, Side::Left].into_iter().find(candidate)?;
    Some((side, graph.clone().in_mainloop(product.operand(side).0)))
}

/// Whether anything but one side of the product reads an input.
fn is_read_elsewhere(graph: &Graph, id: InputId) -> bool {
    let reads = |op: &Op| matches!(op, Op::Input(input) | Op::Take(input, _) | Op::Entry(input, ..) if *input == id);
    let name = &graph.inputs()[id.0 as usize].name;
    let computing = || graph.inputs().iter().filter_map(|input| input.computed.as_ref());
    let sides = graph.products().iter().flat_map(|product| [product.left.0, product.right.0]);
    sides.filter(|side| *side == id).count() > 1
        || graph.nodes().any(|(_, node)| reads(&node.op))
        || computing().any(|graph| graph.inputs().iter().any(|input| input.name == *name))
}
