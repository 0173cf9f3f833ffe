//! Columns of parts: what `halves` and `pairs` split off never meets what it was split from.
//!
//! In: the operands of a node. Out: the two of them that do not meet, if there are two. Declared and reduced runs
//! (`[M, N/2]` as an input, `mean(z, N, 2)`) meet group by group; the dims of a part look the same and mean other columns.

use crate::graph::{NodeId, Op};

use super::Body;

impl Body<'_> {
    /// A part and a value of more columns than the split left it.
    pub(super) fn part_and_whole(&self, operands: &[NodeId]) -> Option<(NodeId, NodeId)> {
        let columns = |node: NodeId| self.graph.ty(node).axes.column;
        let wider = |part: NodeId, split: u32| {
            let whole = |other: &NodeId| columns(*other).is_some_and(|divisor| divisor < split);
            operands.iter().copied().find(whole).map(|whole| (part, whole))
        };
        operands.iter().find_map(|&part| {
            let split = *self.parts.get(&part)?.last()?;
            wider(part, split)
        })
    }

    /// Notes which splits the columns of a new node come from.
    pub(super) fn note_parts(&mut self, node: NodeId, operands: &[NodeId]) {
        let Some(divisor) = self.graph.ty(node).axes.column else { return };
        let known = operands.iter().filter_map(|operand| self.parts.get(operand));
        let mut splits: Vec<u32> = known.flatten().copied().collect();
        if let Op::Part(..) = self.graph[node].op {
            splits.push(divisor);
        }
        // What is put together again is no part any more.
        splits.retain(|split| *split <= divisor);
        splits.sort_unstable();
        splits.dedup();
        if !splits.is_empty() {
            self.parts.insert(node, splits);
        }
    }
}
