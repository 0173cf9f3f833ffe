//! Columns of parts: what `halves`, `pairs` and `split` split off never meets what it was split from.
//!
//! In: the operands of a node. Out: the two of them that do not meet, if there are two. Declared and reduced runs
//! (`[M, N/2]` as an input, `mean(z, N, 2)`) meet group by group; the dims of a part look the same and mean other columns.

use crate::graph::{Columns, NodeId, Op};

use super::Body;

impl Body<'_> {
    /// A part and a value of more columns than the split left it.
    pub(super) fn part_and_whole(&self, operands: &[NodeId]) -> Option<(NodeId, NodeId)> {
        let columns = |node: NodeId| self.graph.ty(node).axes.columns();
        let wider = |part: NodeId, split: u32| {
            let own = columns(part)?.part;
            let whole = |other: &NodeId| {
                columns(*other).is_some_and(|other| other.part == own && other.divisor < split)
            };
            operands.iter().copied().find(whole).map(|whole| (part, whole))
        };
        operands.iter().find_map(|&part| {
            let split = *self.parts.get(&part)?.last()?;
            wider(part, split)
        })
    }

    /// The dims of a part that a split names and of what it was split from, where two values are such.
    pub(super) fn named_part_and_whole(&self, a: NodeId, b: NodeId) -> Option<(String, String)> {
        let columns = |node: NodeId| self.graph.ty(node).axes.columns();
        let (left, right) = (columns(a)?, columns(b)?);
        let space = self.graph.space();
        // Splits of splits: the whole may be several splits away.
        let reaches = |part: Columns, whole: Columns| {
            let mut bases = vec![part.part];
            for split in space.splits.iter().rev() {
                if split.parts.iter().any(|part| bases.contains(&part.part)) {
                    bases.push(split.whole.part);
                }
            }
            part.part != whole.part && bases.contains(&whole.part)
        };
        let (part, whole) = if reaches(left, right) {
            (a, b)
        } else if reaches(right, left) {
            (b, a)
        } else {
            return None;
        };
        Some((self.dims_text(part), self.dims_text(whole)))
    }

    /// Notes which splits the columns of a new node come from.
    pub(super) fn note_parts(&mut self, node: NodeId, operands: &[NodeId]) {
        let Some(Columns { part, divisor }) = self.graph.ty(node).axes.columns() else { return };
        let same = |operand: &&NodeId| self.graph.ty(**operand).axes.part == part;
        let known = operands.iter().filter(same).filter_map(|operand| self.parts.get(operand));
        let mut splits: Vec<u32> = known.flatten().copied().collect();
        if let Op::Part(_, whole) = self.graph[node].op
            && let Some(whole) = self.graph.ty(whole).axes.column
        {
            // Some of the parts put together are a part too: `concat(a, b)` of thirds of a half.
            let count = divisor / whole.max(1);
            splits.extend((2..=count).filter(|some| count % some == 0).map(|some| whole * some));
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
