//! Parts of runs of columns: values of other columns of the same rows.
//!
//! A thread holds two columns of every 8, so the columns that lie whole groups of 8 apart in a run are its own: a part of
//! a run is repeated in the others by computing it once more from those columns' registers.
//! Invariant: a span holds whole runs, and parts are a multiple of 8 columns.

use crate::graph::{Concat, NodeId, Op, Part};

use super::super::chip::EpilogueChip;
use super::super::values::{Environment, Evaluator, Value};
use super::Epilogue;
use super::elements::{CHUNK, Elements, Exchanged, of_group};
use super::thread::ThreadCoordinate;

impl<'k, C: EpilogueChip> Epilogue<'_, 'k, C> {
    /// What is computed of a group that is made of other columns' values, in the order of the graph.
    pub(super) fn exchanged(
        &self,
        evaluator: &Evaluator<'_, 'k, C>,
        thread: &ThreadCoordinate<'k>,
        environment: &[Environment<'k>; 2],
        elements: &Elements<'_, 'k>,
    ) -> Vec<(NodeId, Exchanged<'k>)> {
        let offset = elements.offset;
        let nodes = self.plan.graph.nodes().filter(|(id, _)| elements.only[id.index()]);
        let exchanged = nodes.filter_map(|(id, node)| match &node.op {
            Op::Concat(Concat::Repeated(run), parts) => {
                let own = offset % run / (run / parts.len() as u32);
                Some((id, Exchanged::Own(parts[own as usize])))
            }
            Op::Part(Part::Repeated { index, count, run }, of) => {
                let width = run / u32::from(*count);
                let from = offset - offset % run + u32::from(*index) * width + offset % width;
                if from == offset {
                    return Some((id, Exchanged::Own(*of)));
                }
                let other = self.other(evaluator, thread, environment, elements, (*of, from));
                Some((id, Exchanged::Other(other)))
            }
            _ => None,
        });
        exchanged.collect()
    }

    /// A node's four elements in the group that begins at another column.
    fn other(
        &self,
        evaluator: &Evaluator<'_, 'k, C>,
        thread: &ThreadCoordinate<'k>,
        environment: &[Environment<'k>; 2],
        elements: &Elements<'_, 'k>,
        (node, offset): (NodeId, u32),
    ) -> [Value<'k>; 4] {
        let (groups, span, loaded) = (elements.groups, elements.span, elements.loaded);
        let holds = |place: &usize| {
            let (tile, _) = &span[*place];
            (tile.offset..tile.offset + tile.columns).contains(&offset)
        };
        let Some(place) = (0..span.len()).find(holds) else {
            panic!("compiler bug: a run that no span holds")
        };
        let (tile, part) = &span[place];
        let group = ((offset - tile.offset) / CHUNK) as usize;
        let only = &self.plan.program.terms_of(std::iter::once(node), false);
        let (products, wanted) = (&of_group(part, group), &[node]);
        let elements = Elements { offset, products, groups, wanted, only, span, loaded };
        let operands = self.operands(&loaded[place], group);
        self.visit_group(evaluator, thread, environment, &elements, operands)[0].1
    }
}
