//! Parts of columns as views of memory.
//!
//! Half of a tensor's columns, or every other one, is a tensor of its own, and so is a part of such a part. So a graph that
//! splits values is planned as one of fewer columns: an input of full width is several inputs, an output several outputs,
//! a value between them several values, and a product of full width several products with the same left operand. Parts
//! that nothing uses are not there.
//! Invariant: the new graph has neither parts nor merges, and gives the same results.

mod asked;
mod lower;
mod slice;

use std::borrow::Cow;

use postlude_ptx::launch::{Buffer, Parameter};

use crate::graph::{Dependence, Graph, IndexAxis, Kind, NodeId, Op};
use crate::problem::Problem;
use crate::shape::Dim;

use super::{Placement, Placements, Sm90Refusal, Unsupported, refuse};
pub(super) use asked::MOST_PRODUCTS;
use asked::Target;
use slice::{MOST_DEPTH, Slice, Way};

/// Whole numbers up to here are floats.
const MOST_NUMBERED: usize = 1 << 24;

/// A graph without parts and merges, and what its inputs and outputs are of the one it was made from.
pub(crate) struct Viewed<'a> {
    pub(crate) graph: Cow<'a, Graph>,
    /// Inputs of the graph that it was made from; views follow them.
    inputs: usize,
    input_views: Vec<View>,
    output_views: Vec<View>,
    /// What a fixed size of columns was divided by.
    divided: usize,
}

/// Some columns of a tensor.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
struct View {
    /// Its place among the inputs, or the outputs.
    of: usize,
    /// Which of its dims are columns, and which of them; all where there is none.
    columns: Option<(usize, Slice)>,
}

impl<'a> Viewed<'a> {
    /// The graph as it is planned, or why it is not.
    pub(crate) fn of(graph: &'a Graph) -> Result<Viewed<'a>, Sm90Refusal> {
        let live = graph.live();
        let split = || {
            let nodes = graph.nodes().filter(|(id, _)| live[id.index()]);
            nodes.filter_map(|(id, node)| Some((id, node, way_of(&node.op)?)))
        };
        let Some((_, _, usual)) = split().next() else {
            let output_views = (0..graph.outputs().len()).map(|of| View { of, columns: None });
            return Ok(Viewed {
                graph: Cow::Borrowed(graph),
                inputs: graph.inputs().len(),
                input_views: Vec::new(),
                output_views: output_views.collect(),
                divided: 1,
            });
        };
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
            let viewed = lower::lower(graph, target.divisor, asked);
            let viewed = viewed.and_then(|viewed| refuse::refuse(&viewed.graph).map(|()| viewed));
            match viewed {
                Ok(viewed) => return Ok(viewed),
                Err(why) => refusal.get_or_insert(why),
            };
        }
        Err(refusal.or(obstacle).unwrap_or(Sm90Refusal::NoCandidate))
    }

    /// Refuses sizes that slices do not divide, and numbers of columns that the size of a slice, which is a float, would not
    /// give exactly.
    pub(crate) fn refuse(&self, problem: &Problem) -> Result<(), Sm90Refusal> {
        let numbered = |op: &Op| *op == Op::Index(IndexAxis::Column);
        if matches!(self.graph, Cow::Borrowed(_)) {
            return Ok(());
        }
        let columns = problem.columns;
        let uneven = |divisor: &u32| !columns.is_multiple_of(*divisor as usize);
        if self.graph.column_multiples().iter().any(uneven) {
            return Err(Unsupported::UnevenParts.anywhere());
        }
        if problem.product_columns() > MOST_NUMBERED
            && let Some(node) = refuse::first(&self.graph, numbered)
        {
            return Err(Unsupported::ManyNumbered.at(&self.graph, node));
        }
        Ok(())
    }

    /// The sizes of its columns.
    pub(crate) fn problem(&self, problem: &Problem) -> Problem {
        Problem {
            columns: problem.columns / self.divided,
            column_divisor: self.graph.product().column.divisor(),
            ..problem.clone()
        }
    }

    /// Where its tensors lie; the problem is its own.
    pub(crate) fn placements(&self, problem: &Problem, placements: &Placements) -> Placements {
        let own = &self.graph.inputs()[self.inputs..];
        let views = self.input_views.iter().zip(own).map(|(view, input)| {
            let (placement, dims) = (placements.inputs[view.of].as_ref()?, input.dims.as_ref()?);
            Some(view.placement(placement, &problem.shape(dims), input.dtype.bits()))
        });
        let outputs = self.output_views.iter().zip(self.graph.outputs()).map(|(view, output)| {
            let shape = problem.shape(&output.dims);
            view.placement(&placements.outputs[view.of], &shape, output.dtype.bits())
        });
        Placements {
            inputs: placements.inputs.iter().cloned().chain(views).collect(),
            outputs: outputs.collect(),
        }
    }

    /// Whether an input is an operand of the product.
    fn is_factor(&self, input: usize) -> bool {
        let product = self.graph.product();
        let factors = [product.left.0, product.right.0];
        factors.iter().chain(&product.further).any(|factor| factor.0 as usize == input)
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
            let offset = |view: &View, placement: &Placement, dims: &[Dim], bits: usize| {
                view.offset(placement, &problem.shape(dims)).wrapping_mul(bits as i64) / 8
            };
            if let Some(view) = self.input_views.get(number - self.inputs) {
                // Without a contraction it has no elements, and its map begins where the whole one does.
                if problem.inner == 0 && self.is_factor(number) {
                    return (Buffer(view.of as u32), 0);
                }
                let placement = placements.inputs[view.of].as_ref();
                let input = &self.graph.inputs()[number];
                let dims = input.dims.as_deref().unwrap_or_default();
                let bits = input.dtype.bits();
                let offset = placement.map_or(0, |placement| offset(view, placement, dims, bits));
                return (Buffer(view.of as u32), offset);
            }
            let place = number - own_inputs;
            let (view, output) = (&self.output_views[place], &self.graph.outputs()[place]);
            let placement = &placements.outputs[view.of];
            let offset = offset(view, placement, &output.dims, output.dtype.bits());
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
    /// Elements from the tensor's first one to the view's, which has this shape.
    fn offset(self, placement: &Placement, shape: &[usize]) -> i64 {
        let Some((dim, slice)) = self.columns else { return 0 };
        (placement.strides[dim] as i64).wrapping_mul(slice.first(shape[dim]) as i64)
    }

    fn placement(self, placement: &Placement, shape: &[usize], bits: usize) -> Placement {
        let Some((dim, slice)) = self.columns else { return placement.clone() };
        let bytes = self.offset(placement, shape).wrapping_mul(bits as i64) / 8;
        let start = (placement.start as i64).wrapping_add(bytes);
        let mut strides = placement.strides.clone();
        strides[dim] = strides[dim].wrapping_mul(slice.stride() as isize);
        Placement { strides, start: start.rem_euclid(Placement::PERIOD as i64) as u64 }
    }
}

/// How an operation splits columns or puts them together, if it does.
fn way_of(op: &Op) -> Option<Way> {
    match op.dependence() {
        Dependence::Part(part, _) => Some(Way::of_part(part)),
        Dependence::Merge(merge, ..) => Some(Way::of_merge(merge)),
        Dependence::Source
        | Dependence::Elementwise(_)
        | Dependence::Reduce(..)
        | Dependence::Pick(..)
        | Dependence::Call => None,
    }
}

/// The columns that a graph is tried with, in order. Where only vectors are split, the product stays whole if it can; where
/// tiles are, it never does, so that an output may lie where a tile operand does: elements that are read and written there
/// belong to one thread.
fn targets(graph: &Graph, live: &[bool], tiles: bool) -> Vec<Target> {
    let own = graph.product().column.divisor();
    let nodes = graph.nodes().filter(|(id, _)| live[id.index()]);
    let full = nodes.filter_map(|(_, node)| node.ty.axes.column).min().unwrap_or(1);
    let least = u32::from(tiles && own < 2 * full);
    let common = |all: u64, by: u32| {
        let all = u32::try_from(all).unwrap_or(u32::MAX);
        u64::from(super::least_common_multiple(all, by))
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
fn refused(graph: &Graph, obstacle: Option<NodeId>) -> Sm90Refusal {
    let Some(id) = obstacle else {
        return Unsupported::ManyParts.at_first(graph, |op| matches!(op, Op::Part(..)));
    };
    let rule = match graph[id].op.dependence() {
        Dependence::Reduce(..) => Unsupported::WholeFoldBesideParts,
        Dependence::Pick(..) => Unsupported::PickBesideParts,
        Dependence::Source if matches!(graph[id].op, Op::Input(_)) => Unsupported::PackedParts,
        Dependence::Source
        | Dependence::Elementwise(_)
        | Dependence::Part(..)
        | Dependence::Merge(..)
        | Dependence::Call => Unsupported::NoSlice,
    };
    rule.at(graph, id)
}

#[cfg(test)]
mod tests;
