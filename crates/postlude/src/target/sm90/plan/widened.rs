//! Operands that load warps compute from narrower elements on their way to a stage.
//!
//! In: the graph that computes an operand. Out: the tensor of its elements, where load warps can compute it: elements of 4 or 8
//! bits, values that are constant along the elements of a thread, and a few instructions for each element.
//! Invariant: a thread has [`THREAD_BYTES`] of one row, all of whose elements share those values.

use crate::dtype::{DType, Elem};
use crate::graph::{Axes, Binary, Graph, Input, InputId, Node, Op, Side, Unary};

/// Bytes of narrow elements that a thread widens at a time.
pub(crate) const THREAD_BYTES: u32 = 16;
/// Slots that narrow rows are loaded into.
pub(crate) const WIDENED_SLOTS: u32 = 4;
/// Bytes of a row of such a slot: a swizzled row of shared memory.
pub(crate) const SPAN_BYTES: u32 = 128;

/// The operand of a graph that its launch computes, and which input it is.
pub(crate) fn widened_operand(graph: &Graph) -> Option<(Side, InputId)> {
    let product = graph.products().first()?;
    let computed = |side: &Side| graph.inputs()[product.operand(*side).0.0 as usize].in_mainloop;
    let side = [Side::Left, Side::Right].into_iter().find(computed)?;
    Some((side, product.operand(side).0))
}

/// Whether load warps compute an input.
pub(crate) fn widens(input: &Input) -> bool {
    Widened::of(input).is_some()
}

/// What load warps compute an operand from.
#[derive(Clone, Copy)]
pub(crate) struct Widened<'a> {
    /// The graph that computes it.
    pub(crate) graph: &'a Graph,
    /// Its tensor of narrow elements, among the graph's inputs.
    pub(crate) source: InputId,
}

impl<'a> Widened<'a> {
    /// How load warps compute an input; `None` where they do not.
    pub(crate) fn of(input: &'a Input) -> Option<Widened<'a>> {
        let graph = input.computed.as_deref()?;
        let [output] = graph.outputs() else { return None };
        let suits = graph.products().is_empty()
            && graph.space().splits.is_empty()
            && matches!(output.dtype, DType::BF16 | DType::F16)
            && output.stack.is_none();
        if !suits {
            return None;
        }
        let live = graph.live();
        let nodes = || graph.nodes().filter(|(id, _)| live[id.index()]);
        let inputs = || {
            nodes().filter_map(|(id, node)| match node.op {
                Op::Input(input) => Some((id, input)),
                _ => None,
            })
        };
        let whole = graph.space().accumulator_axes();
        let is_tile = |input: InputId| {
            let axes = graph.input_axes(input);
            axes.is_some_and(|axes| (axes.row, axes.column) == (whole.row, whole.column))
        };
        let mut tiles = inputs().filter(|(_, input)| is_tile(*input));
        let (Some((_, source)), None) = (tiles.next(), tiles.next()) else { return None };
        let declared = &graph.inputs()[source.0 as usize];
        let bits = narrow_bits(declared.dtype)?;
        let last_is_inner = declared.dims.as_ref()?.last() == output.dims.last();
        let shared = |input: InputId| {
            input == source || graph.input_axes(input).is_some_and(|axes| is_shared(axes, bits))
        };
        let widens = last_is_inner
            && inputs().all(|(_, input)| shared(input))
            && nodes().all(|(_, node)| is_cheap(graph, node));
        widens.then_some(Widened { graph, source })
    }

    /// Bits of its narrow elements.
    pub(super) fn bits(self) -> Option<u32> {
        narrow_bits(self.graph.inputs()[self.source.0 as usize].dtype)
    }
}

/// Bits of an element that is widened.
fn narrow_bits(dtype: DType) -> Option<u32> {
    match dtype {
        DType::I4 | DType::U4 => Some(4),
        DType::I8 | DType::U8 | DType::F8E4M3 | DType::F8E5M2 => Some(8),
        DType::F32
        | DType::TF32
        | DType::F16
        | DType::BF16
        | DType::F8E8M0
        | DType::I32
        | DType::I64
        | DType::Bool
        | DType::B1 => None,
    }
}

/// Whether all elements of a thread share a value with these axes.
fn is_shared(axes: Axes, bits: u32) -> bool {
    axes.part == 0 && axes.column.is_none_or(|run| run.is_multiple_of(THREAD_BYTES * 8 / bits))
}

/// Whether load warps compute a node: what takes an instruction or two, and inputs that a load converts.
fn is_cheap(graph: &Graph, node: &Node) -> bool {
    let float = node.ty.elem == Elem::F32;
    match node.op {
        Op::Input(input) => {
            let dtype = graph.inputs()[input.0 as usize].dtype;
            !matches!(dtype, DType::Bool | DType::B1)
        }
        Op::Constant(_) | Op::Fma(..) => float,
        Op::Unary(op, _) => float && matches!(op, Unary::Negate | Unary::Abs),
        Op::Binary(op, ..) => {
            let cheap = matches!(
                op,
                Binary::Add
                    | Binary::Subtract
                    | Binary::Multiply
                    | Binary::Maximum
                    | Binary::Minimum
            );
            float && cheap
        }
        // Integers of 8 bits are exact in every float that a stage holds.
        Op::Cast(to, of) => match (graph.ty(of).elem, &graph[of].op) {
            (Elem::F32, _) => matches!(to, DType::F32 | DType::BF16 | DType::F16),
            (Elem::I32, Op::Input(input)) => {
                let wide = graph.inputs()[input.0 as usize].dtype == DType::I32;
                to == DType::F32 || (!wide && matches!(to, DType::BF16 | DType::F16))
            }
            (Elem::I32 | Elem::Bool, _) => false,
        },
        Op::Accumulator(_)
        | Op::Index(_)
        | Op::Size(_)
        | Op::Extent(_)
        | Op::Select(..)
        | Op::Round(..)
        | Op::Philox(_)
        | Op::Take(..)
        | Op::Entry(..)
        | Op::Reduce(..)
        | Op::ReduceWeighted(..)
        | Op::Pick(..)
        | Op::Part(..)
        | Op::Merge(..)
        | Op::Concat(..)
        | Op::Call(..) => false,
    }
}
