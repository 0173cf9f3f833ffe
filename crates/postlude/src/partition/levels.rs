//! Which launch computes which node of a kernel that is cut.
//!
//! In: a graph. Out: a level for each node, and which nodes any launch may compute again. A value that all tiles of a launch
//! finish together meets elements in the next one.

use crate::dtype::DType;
use crate::graph::{Binary, Dependence, Graph, NodeId, Op, Output, Reach, Unary};

/// The launch that each node is computed in.
pub(super) struct Levels {
    pub(super) of: Vec<usize>,
    /// Whether a node can be computed again from inputs.
    pub(super) again: Vec<bool>,
    pub(super) live: Vec<bool>,
    pub(super) last: usize,
}

impl Levels {
    pub(super) fn of(graph: &Graph) -> Levels {
        let live = graph.live();
        let (mut of, mut after) = (vec![0; graph.len()], vec![false; graph.len()]);
        let mut again = vec![false; graph.len()];
        // What a product or a reduction of the same launch makes, and what counts of segments' rows alone make.
        let (mut folded, mut counted) = (again.clone(), again.clone());
        for (id, node) in graph.nodes() {
            let place = id.index();
            let operands = || node.op.operands();
            again[place] =
                is_repeatable(&node.op) && operands().all(|operand| again[operand.index()]);
            let counts = operands().any(|operand| counted[operand.index()]);
            counted[place] = counts_segments(graph, id) || counts && again[place];
            let next = |operand: NodeId| {
                let axes = graph.ty(operand).axes;
                // A reduction of a finished value is finished with it, and so is math of its own dims.
                let meets = axes != node.ty.axes && node.op.reduction().is_none();
                after[operand.index()] && meets
            };
            let least = operands()
                .map(|operand| of[operand.index()] + usize::from(next(operand)))
                .max()
                .unwrap_or(0);
            let beside =
                operands().any(|operand| of[operand.index()] == least && folded[operand.index()]);
            of[place] = least + usize::from(counts && beside);
            folded[place] = ends_launch(&node.op) || beside && !counts;
            let inherits =
                |operand: NodeId| of[operand.index()] == of[place] && after[operand.index()];
            let crosses = crosses_tiles(&node.op) || counts && !again[place];
            after[place] = crosses || operands().any(inherits);
        }
        Levels::new(of, again, live)
    }

    /// The same where a launch multiplies, or reduces once.
    pub(super) fn fine(graph: &Graph) -> Levels {
        let live = graph.live();
        let first = usize::from(!graph.products().is_empty());
        let (mut of, mut again) = (vec![0; graph.len()], vec![false; graph.len()]);
        for (id, node) in graph.nodes() {
            let place = id.index();
            let level = |operand: NodeId| {
                of[operand.index()] + usize::from(ends_launch(&graph[operand].op))
            };
            let least = if matches!(node.op, Op::Accumulator(_)) { 0 } else { first };
            of[place] = node.op.operands().map(level).max().unwrap_or(0).max(least);
            again[place] =
                is_repeatable(&node.op) && node.op.operands().all(|operand| again[operand.index()]);
        }
        let mut levels = Levels::new(of, again, live);
        // Each element would reduce again where an output repeats a reduction.
        let repeats = |output: &Output| {
            let dims = output.without_stack(&output.dims).len();
            let fewer = |node: NodeId| graph.space().dims(graph.ty(node).axes).len() < dims;
            let is_last = |node: NodeId| levels.of[node.index()] == levels.last;
            output.values().any(|node| ends_launch(&graph[node].op) && fewer(node) && is_last(node))
        };
        levels.last += usize::from(graph.outputs().iter().any(repeats));
        levels
    }

    pub(super) fn new(of: Vec<usize>, again: Vec<bool>, live: Vec<bool>) -> Levels {
        let used = of.iter().zip(&live).filter(|(_, live)| **live).map(|(level, _)| *level);
        let last = used.max().unwrap_or(0);
        Levels { of, again, live, last }
    }
}

/// Whether an operation is a product, or folds elements.
fn ends_launch(op: &Op) -> bool {
    matches!(op, Op::Accumulator(_) | Op::Pick(..)) || op.reduction().is_some()
}

/// Whether a node counts the rows of segments, which tiles do not know.
fn counts_segments(graph: &Graph, node: NodeId) -> bool {
    let segmented = graph.space().is_segmented();
    matches!(graph[node].op, Op::Extent(axes) if segmented && axes.row.is_some())
}

/// Whether several tiles of a launch share a result.
pub(super) fn crosses_tiles(op: &Op) -> bool {
    match op.dependence() {
        Dependence::Reduce(_, over, _) | Dependence::ReduceWeighted(_, over, ..) => {
            match over.reach() {
                Reach::Run | Reach::Block => false,
                Reach::Row | Reach::Tiles => true,
            }
        }
        Dependence::Pick(..) => true,
        Dependence::Source
        | Dependence::Elementwise(_)
        | Dependence::Part(..)
        | Dependence::Merge(..)
        | Dependence::Concat(_)
        | Dependence::Call => false,
    }
}

/// Whether an operation makes an element of elements alone, none of them a product's, and has the same bits in every
/// launch: how accurate a function is depends on what a launch makes of it.
pub(super) fn is_repeatable(op: &Op) -> bool {
    match op.dependence() {
        Dependence::Source => !matches!(op, Op::Accumulator(_)),
        Dependence::Elementwise(_) => match op {
            Op::Unary(op, _) => matches!(op, Unary::Negate | Unary::Abs | Unary::Not),
            Op::Binary(op, ..) => !matches!(op, Binary::Divide | Binary::Pow | Binary::Fmod),
            Op::Fma(..) | Op::Select(..) | Op::Cast(..) => true,
            _ => false,
        },
        Dependence::Reduce(..)
        | Dependence::ReduceWeighted(..)
        | Dependence::Pick(..)
        | Dependence::Part(..)
        | Dependence::Merge(..)
        | Dependence::Concat(_)
        | Dependence::Call => false,
    }
}

/// The same graph whose outputs are values as they are stored: what an earlier launch stores of them has no more bytes.
pub(super) fn with_rounded_outputs(graph: &Graph) -> Graph {
    let mut new = graph.without_outputs();
    for output in graph.outputs() {
        let is_narrow = !output.dtype.is_packed() && output.dtype.bits() < DType::F32.bits();
        let rounded = (is_narrow && output.stack.is_none())
            .then(|| new.add(Op::Cast(output.dtype, output.value)).ok())
            .flatten()
            .filter(|rounded| new.ty(*rounded) == new.ty(output.value));
        let value = rounded.unwrap_or(output.value);
        new.push_output(Output { value, ..output.clone() });
    }
    new
}
