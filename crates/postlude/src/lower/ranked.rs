//! Launches that give the largest elements of each row, in order, and nothing else: lists that threads need not hold.
//!
//! In: a tile program. Out: its one reduction, and which outputs have its results. Invariant: the outputs of a list follow one
//! another in the order of their places, so that the first two say where all of them are stored.

use crate::graph::fold::Words;
use crate::graph::{Fold, Gives, NodeId, Op, Top};

use super::program::TileProgram;
use super::reductions::Reduction;

/// Lists of this many or fewer are kept by threads in registers, whatever else a launch computes.
const SHORT: u32 = 4;

/// What such a launch gives.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Ranked {
    pub(crate) reduction: Reduction,
    /// Elements of a list.
    pub(crate) count: u32,
    pub(crate) lists: Vec<RankedList>,
}

/// A stored list.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct RankedList {
    /// The place of its first output; the others follow.
    pub(crate) first: usize,
    /// Whether values or indices are stored.
    pub(crate) gives: Gives,
    /// The fold behind the first output.
    pub(crate) node: NodeId,
}

impl Ranked {
    /// Whether no other launch gives lists as long.
    pub(crate) fn is_long(&self) -> bool {
        self.count > Top::MOST_IN_LAUNCH
    }

    /// Whether an output is stored where the first two of its list say.
    pub(crate) fn follows(&self, output: usize) -> bool {
        self.is_long() && output % self.count as usize > 1
    }
}

impl TileProgram {
    /// What the launch gives, if that is lists of rows alone.
    pub(crate) fn ranked(&self) -> Option<Ranked> {
        let &[reduction] = &self.reductions[..] else { return None };
        let Words::Ranked(count) = reduction.partial_words() else { return None };
        let alone = self.graph.products().is_empty()
            && !self.graph.space().is_segmented()
            && self.row_passes.is_empty()
            && self.block_passes.is_empty()
            && self.run_reductions.is_empty()
            && self.column_runs.is_empty()
            && self.windows() == 0;
        let of_rows = reduction.bounded().is_some()
            && reduction.weights.is_none()
            && !reduction.repeated
            && self.runs[reduction.terms.index()] == 1;
        if !alone || !of_rows || count <= SHORT {
            return None;
        }
        let lists = self.lists(reduction, count)?;
        Some(Ranked { reduction, count, lists })
    }

    /// All outputs as lists; `None` where some are no places of one.
    fn lists(&self, reduction: Reduction, count: u32) -> Option<Vec<RankedList>> {
        let outputs = self.graph.outputs();
        let members = self.members(reduction);
        let place = |output: usize| {
            let mut node = outputs[output].value;
            while let Op::Cast(_, of) = self.graph[node].op {
                node = of;
            }
            let member = members.iter().any(|member| member.node == node);
            match self.graph[node].op {
                Op::Reduce(Fold::Top(top), ..) if member => Some((node, top)),
                _ => None,
            }
        };
        let list = |first: usize| {
            let (node, Top { gives, .. }) = place(first)?;
            let follows = |number: u32| {
                let output = first + number as usize;
                let same = outputs.get(output)?.name == outputs[first].name;
                let (_, top) = place(output)?;
                (same && top.place == number && top.gives == gives).then_some(())
            };
            (0..count).try_for_each(follows)?;
            Some(RankedList { first, gives, node })
        };
        (0..outputs.len()).step_by(count as usize).map(list).collect()
    }
}
