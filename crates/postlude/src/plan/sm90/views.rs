//! Halves and pairs of columns as views of memory.
//!
//! Half of a tensor's columns, or every other one, is a tensor of its own. So a graph that splits values is planned as one of
//! half as many columns: an input of full width is two inputs, an output two outputs, a value between them two values,
//! and a product of full width two products with the same left operand.
//! Invariant: the new graph has neither parts nor merges, and gives the same results.

mod lower;
mod ways;

use std::borrow::Cow;

use postlude_ptx::launch::{Buffer, Parameter};

use crate::graph::{Graph, IndexAxis, Op, Part};
use crate::problem::Problem;

use super::{Placement, Placements, Sm90Refusal};

/// Whole numbers up to here are floats.
const MOST_NUMBERED: usize = 1 << 24;

/// A graph without parts and merges, and what its inputs and outputs are of the one it was made from.
pub(crate) struct Viewed<'a> {
    pub(crate) graph: Cow<'a, Graph>,
    /// Inputs of the graph that it was made from; views follow them.
    inputs: usize,
    input_views: Vec<View>,
    output_views: Vec<View>,
}

/// Some columns of a tensor.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
struct View {
    /// Its place among the inputs, or the outputs.
    of: usize,
    /// Which of its dims are columns, and which of them; all where there is none.
    part: Option<(usize, Part)>,
}

impl<'a> Viewed<'a> {
    /// The graph as it is planned, or why it is not.
    pub(crate) fn of(graph: &'a Graph) -> Result<Viewed<'a>, Sm90Refusal> {
        let live = graph.live();
        let splits = |op: &Op| matches!(op, Op::Part(..) | Op::Merge(..));
        if !graph.nodes().any(|(id, node)| live[id.index()] && splits(&node.op)) {
            let output_views = (0..graph.outputs().len()).map(|of| View { of, part: None });
            return Ok(Viewed {
                graph: Cow::Borrowed(graph),
                inputs: graph.inputs().len(),
                input_views: Vec::new(),
                output_views: output_views.collect(),
            });
        }
        lower::lower(graph)
    }

    /// Refuses numbers of columns that the size of a half, which is a float, would not give exactly.
    pub(crate) fn refuse(&self, problem: &Problem) -> Result<(), Sm90Refusal> {
        let numbered = |op: &Op| *op == Op::Index(IndexAxis::Column);
        let splits = matches!(self.graph, Cow::Owned(_));
        if splits
            && problem.product_columns() > MOST_NUMBERED
            && self.graph.nodes().any(|(_, node)| numbered(&node.op))
        {
            let what = "`col` of more than 2^25 columns beside halves or pairs".to_owned();
            return Err(Sm90Refusal::Operation { what });
        }
        Ok(())
    }

    /// The sizes of its columns.
    pub(crate) fn problem(&self, problem: &Problem) -> Problem {
        let divisor = self.graph.product().column.divisor();
        // A fixed size is not divided: it is another one.
        let fixed = (divisor == 1 && self.graph.product().second.is_some()).then_some(2);
        Problem {
            columns: problem.columns / fixed.unwrap_or(1),
            column_divisor: divisor,
            ..problem.clone()
        }
    }

    /// Where its tensors lie; the problem is its own.
    pub(crate) fn placements(&self, problem: &Problem, placements: &Placements) -> Placements {
        let dtype = |input: usize| self.graph.inputs()[input].dtype.bits();
        let input = |view: &View| {
            let placement = placements.inputs[view.of].as_ref();
            placement.map(|placement| view.placement(placement, problem, dtype(view.of)))
        };
        let outputs = self.output_views.iter().zip(self.graph.outputs()).map(|(view, output)| {
            view.placement(&placements.outputs[view.of], problem, output.dtype.bits())
        });
        let views = self.input_views.iter().map(input);
        Placements {
            inputs: placements.inputs.iter().cloned().chain(views).collect(),
            outputs: outputs.collect(),
        }
    }

    /// Whether an input is an operand of the product.
    fn is_factor(&self, input: usize) -> bool {
        let product = self.graph.product();
        let factors = [Some(product.left.0), Some(product.right.0), product.second];
        factors.into_iter().flatten().any(|factor| factor.0 as usize == input)
    }

    /// Lets parameters that name its tensors name the memory that they are views of. The problem is its own, the placements
    /// are those of the graph that it was made from.
    pub(crate) fn settle(
        &self,
        parameters: &mut [Parameter],
        problem: &Problem,
        placements: &Placements,
    ) {
        let own_inputs = self.inputs + self.input_views.len();
        let settled = |buffer: Buffer| -> (Buffer, i64) {
            let number = buffer.0 as usize;
            if buffer == Buffer::WORKSPACE || number < self.inputs {
                return (buffer, 0);
            }
            let offset = |view: &View, placement: &Placement, bits: usize| {
                view.offset(placement, problem).wrapping_mul(bits as i64) / 8
            };
            if let Some(view) = self.input_views.get(number - self.inputs) {
                // Without a contraction it has no elements, and its map begins where the whole one does.
                if problem.inner == 0 && self.is_factor(number) {
                    return (Buffer(view.of as u32), 0);
                }
                let placement = placements.inputs[view.of].as_ref();
                let bits = self.graph.inputs()[view.of].dtype.bits();
                let offset = placement.map_or(0, |placement| offset(view, placement, bits));
                return (Buffer(view.of as u32), offset);
            }
            let place = number - own_inputs;
            let (view, output) = (&self.output_views[place], &self.graph.outputs()[place]);
            let offset = offset(view, &placements.outputs[view.of], output.dtype.bits());
            (Buffer((self.inputs + view.of) as u32), offset)
        };
        for parameter in parameters {
            match parameter {
                Parameter::Map(map) => {
                    let (buffer, offset) = settled(map.buffer);
                    map.buffer = buffer;
                    map.offset = map.offset.wrapping_add(offset);
                }
                Parameter::Pointer { buffer, offset } => {
                    let (of, more) = settled(*buffer);
                    *buffer = of;
                    *offset = offset.wrapping_add_signed(more);
                }
                Parameter::U32(_) | Parameter::U64(_) | Parameter::F32(_) => {}
            }
        }
    }
}

impl View {
    /// Elements from the tensor's first one to the view's.
    fn offset(self, placement: &Placement, problem: &Problem) -> i64 {
        let Some((dim, part)) = self.part else { return 0 };
        let first = part.source(0, 2 * problem.product_columns());
        (placement.strides[dim] as i64).wrapping_mul(first as i64)
    }

    fn placement(self, placement: &Placement, problem: &Problem, bits: usize) -> Placement {
        let Some((dim, part)) = self.part else { return placement.clone() };
        let bytes = self.offset(placement, problem).wrapping_mul(bits as i64) / 8;
        let start = (placement.start as i64).wrapping_add(bytes);
        let mut strides = placement.strides.clone();
        if matches!(part, Part::Even | Part::Odd) {
            strides[dim] = strides[dim].wrapping_mul(2);
        }
        Placement { strides, start: start.rem_euclid(Placement::PERIOD as i64) as u64 }
    }
}

#[cfg(test)]
mod tests;
