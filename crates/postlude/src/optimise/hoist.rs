//! Regroups chains of one operation so that operands that vary less meet first, and are combined once for many elements.
//!
//! Exact where the operation associates (extremes, conditions, integer sums and products); f32 sums and products are
//! regrouped under fast math only.

use crate::dtype::Elem;
use crate::graph::{Axes, Binary, Graph, NodeId, Op};

use super::Context;
use super::rules::{Rule, Site, rewrite};

const RULES: &[Rule] = &[regroup, addend_of_fma];

/// Longer chains are regrouped in parts.
const MOST_OPERANDS: usize = 12;

/// The graph with chains regrouped.
pub(super) fn hoist(graph: &Graph, context: &Context<'_>) -> Graph {
    rewrite(graph, context, RULES)
}

/// How many elements a value with these axes has, as a power of two: sizes are not known here, so a dim counts as a thousand.
pub(super) fn weight(axes: Axes) -> u32 {
    let [row, column] = [axes.row, axes.column]
        .map(|own| own.map_or(0, |divisor| 10u32.saturating_sub(divisor.ilog2()).max(1)));
    row + column + 3 * u32::from(axes.batch)
}

/// An operand of a chain: a node and what it varies along; constants combine for nothing.
#[derive(Clone, Copy)]
struct Operand {
    node: NodeId,
    axes: Axes,
    constant: bool,
}

impl Operand {
    fn of(site: &Site<'_>, node: NodeId) -> Operand {
        Operand { node, axes: site.axes(node), constant: site.constant(node).is_some() }
    }

    /// What combining the two costs; `None` where their columns do not meet.
    fn cost(self, other: Operand) -> Option<u64> {
        let axes = self.axes.join(other.axes)?;
        Some(if self.constant && other.constant { 0 } else { 1 << weight(axes) })
    }
}

fn regroups(site: &Site<'_>, op: Binary, elem: Elem) -> bool {
    let relaxed = site.fast() && matches!(op, Binary::Add | Binary::Multiply);
    op.associates(elem) || relaxed
}

/// `(z * a) * b` is `z * (a * b)` when a and b together vary less than z.
fn regroup(site: &mut Site<'_>, op: &Op) -> Option<NodeId> {
    let Op::Binary(binary, a, b) = *op else { return None };
    if !regroups(site, binary, site.elem(a)) {
        return None;
    }
    let mut operands = Vec::new();
    let mut cost = Operand::of(site, a).cost(Operand::of(site, b))?;
    flatten(site, binary, a, &mut operands, &mut cost);
    flatten(site, binary, b, &mut operands, &mut cost);
    if operands.len() < 3 {
        return None;
    }
    let plan = pair_up(&operands)?;
    let planned: u64 = plan.iter().map(|step| step.cost).sum();
    if planned >= cost {
        return None;
    }
    let mut nodes: Vec<NodeId> = operands.iter().map(|operand| operand.node).collect();
    for Step { left, right, .. } in plan {
        nodes[left] = site.make_binary(binary, nodes[left], nodes[right]);
        nodes.remove(right);
    }
    nodes.pop()
}

/// The operands of a chain under `node`, as far as nothing else uses its links, and what its links cost.
fn flatten(
    site: &Site<'_>,
    binary: Binary,
    node: NodeId,
    operands: &mut Vec<Operand>,
    cost: &mut u64,
) {
    let mut pending = vec![node];
    while let Some(node) = pending.pop() {
        match site.binary_of(node, binary) {
            Some((a, b))
                if site.used_once(node) && operands.len() + pending.len() + 2 <= MOST_OPERANDS =>
            {
                *cost += 1 << weight(site.axes(node));
                pending.extend([b, a]);
            }
            Some(_) | None => operands.push(Operand::of(site, node)),
        }
    }
}

/// Two places of a shrinking list that are combined, into the first of them.
struct Step {
    left: usize,
    right: usize,
    cost: u64,
}

/// Combines whatever is cheapest to combine next, the earliest first.
fn pair_up(operands: &[Operand]) -> Option<Vec<Step>> {
    let mut left_over = operands.to_vec();
    let mut steps = Vec::new();
    while left_over.len() > 1 {
        let mut best: Option<Step> = None;
        for left in 0..left_over.len() {
            for right in left + 1..left_over.len() {
                let cost = left_over[left].cost(left_over[right]);
                if let Some(cost) = cost.filter(|cost| best.as_ref().is_none_or(|b| *cost < b.cost))
                {
                    best = Some(Step { left, right, cost });
                }
            }
        }
        let best = best?;
        let other = left_over.remove(best.right);
        let kept = &mut left_over[best.left];
        kept.axes = kept.axes.join(other.axes)?;
        kept.constant &= other.constant;
        steps.push(best);
    }
    Some(steps)
}

/// Fast: `fma(x, y, a) + b` is `fma(x, y, a + b)` when a and b together vary less than the product.
fn addend_of_fma(site: &mut Site<'_>, op: &Op) -> Option<NodeId> {
    let Op::Binary(Binary::Add, left, right) = *op else { return None };
    if !site.fast() {
        return None;
    }
    for (fused, b) in [(left, right), (right, left)] {
        let Op::Fma(x, y, a) = *site.op(fused) else { continue };
        let joined = site.axes(a).join(site.axes(b))?;
        if site.used_once(fused) && weight(joined) < weight(site.axes(fused)) {
            let addend = site.make_binary(Binary::Add, a, b);
            return Some(site.make(Op::Fma(x, y, addend)));
        }
    }
    None
}
