//! Which way every value of full width is split.
//!
//! A value has to be split the way that its users ask for, and can only be where everything it is made of can.

use crate::dtype::DType;
use crate::graph::{Graph, Merge, NodeId, Op, Part};

use super::super::Sm90Refusal;

/// How columns are split in two.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) enum Way {
    Halves,
    Pairs,
}

impl Way {
    pub(super) const ALL: [Way; 2] = [Way::Halves, Way::Pairs];

    pub(super) fn parts(self) -> [Part; 2] {
        match self {
            Way::Halves => [Part::First, Part::Second],
            Way::Pairs => [Part::Even, Part::Odd],
        }
    }

    pub(super) fn of_part(part: Part) -> Way {
        match part {
            Part::First | Part::Second => Way::Halves,
            Part::Even | Part::Odd => Way::Pairs,
        }
    }

    pub(super) fn of_merge(merge: Merge) -> Way {
        match merge {
            Merge::Concat => Way::Halves,
            Merge::Join => Way::Pairs,
        }
    }
}

/// For each of [`Way::ALL`], whether.
type Both = [bool; 2];

/// The widths of a graph's values and the ways in which they are split.
pub(super) struct Ways {
    /// What the column name's size is divided by for values of full width.
    pub(super) full: u32,
    /// The ways in which each value of full width is asked for.
    asked: Vec<Both>,
}

impl Ways {
    pub(super) fn of(graph: &Graph) -> Result<Ways, Sm90Refusal> {
        let live = graph.live();
        let nodes = || graph.nodes().filter(|(id, _)| live[id.index()]);
        let full = nodes().filter_map(|(_, node)| node.ty.axes.column).min().unwrap_or(1);
        let mut ways = Ways { full, asked: vec![[false; 2]; graph.len()] };
        let can = ways.can(graph);
        let usual = nodes().find_map(|(_, node)| match node.op {
            Op::Part(part, _) => Some(Way::of_part(part)),
            Op::Merge(merge, ..) => Some(Way::of_merge(merge)),
            _ => None,
        });
        let usual = usual.unwrap_or(Way::Halves);
        for output in graph.outputs() {
            ways.ask_any(graph, &can, usual, output.value)?;
        }
        for (id, node) in graph.nodes().rev().filter(|(id, _)| live[id.index()]) {
            match node.op {
                Op::Part(part, a) => ways.ask(graph, &can, Way::of_part(part), a)?,
                Op::Merge(..) => {}
                _ if ways.is_full(graph, id) => {
                    for way in ways.asked_of(id) {
                        for operand in node.op.operands() {
                            ways.ask(graph, &can, way, operand)?;
                        }
                    }
                }
                // Reductions of whole rows are the same whichever way they are split.
                _ => {
                    for operand in node.op.operands() {
                        ways.ask_any(graph, &can, usual, operand)?;
                    }
                }
            }
        }
        Ok(ways)
    }

    pub(super) fn is_full(&self, graph: &Graph, id: NodeId) -> bool {
        graph.ty(id).axes.column == Some(self.full)
    }

    /// The ways in which a value is asked for.
    pub(super) fn asked_of(&self, id: NodeId) -> Vec<Way> {
        let asked = self.asked[id.index()];
        Way::ALL.into_iter().filter(|way| asked[*way as usize]).collect()
    }

    fn ask(
        &mut self,
        graph: &Graph,
        can: &[Both],
        way: Way,
        id: NodeId,
    ) -> Result<(), Sm90Refusal> {
        if !self.is_full(graph, id) {
            return Ok(());
        }
        if !can[id.index()][way as usize] {
            let what = match way {
                Way::Halves => "halves of a value that cannot be split so",
                Way::Pairs => "pairs of a value that cannot be split so",
            };
            return Err(Sm90Refusal::Operation { what: what.to_owned() });
        }
        self.asked[id.index()][way as usize] = true;
        Ok(())
    }

    /// Asks for a value in whichever way there is.
    fn ask_any(
        &mut self,
        graph: &Graph,
        can: &[Both],
        usual: Way,
        id: NodeId,
    ) -> Result<(), Sm90Refusal> {
        let asked = self.asked_of(id).first().copied();
        let possible = |way: &Way| can[id.index()][*way as usize];
        let way = asked.or_else(|| [usual, Way::Halves, Way::Pairs].into_iter().find(possible));
        self.ask(graph, can, way.unwrap_or(usual), id)
    }

    /// The ways in which each value of full width can be split.
    fn can(&self, graph: &Graph) -> Vec<Both> {
        let mut can: Vec<Both> = Vec::with_capacity(graph.len());
        for (_, node) in graph.nodes() {
            let own: Both = match &node.op {
                Op::Merge(merge, ..) => Way::ALL.map(|way| way == Way::of_merge(*merge)),
                // A view begins with a byte.
                Op::Input(input) => [graph.inputs()[input.0 as usize].dtype != DType::B1; 2],
                op => {
                    let mut both = [true; 2];
                    for operand in op.operands() {
                        let width = graph.ty(operand).axes.column;
                        let of: Both = match width {
                            None => [true; 2],
                            Some(width) if width == self.full => can[operand.index()],
                            // One of half the width is the same for both of a pair.
                            Some(width) => [false, width == 2 * self.full],
                        };
                        both = [both[0] && of[0], both[1] && of[1]];
                    }
                    both
                }
            };
            can.push(own);
        }
        can
    }
}
