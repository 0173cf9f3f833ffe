//! What Hopper kernels do not run yet: named rules, so that `explain` can say why.

use crate::dtype::{DType, Elem};
use crate::graph::{Graph, Op, Orientation};

/// Why a kernel is not run on Hopper.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Sm90Refusal {
    /// Operands that the tensor cores' first path does not take.
    #[error("sm90 multiplies f16 and bf16; `{name}` is {dtype}")]
    OperandDType {
        /// The operand.
        name: String,
        /// Its element type.
        dtype: DType,
    },
    /// An operand whose contraction dim is not its last.
    #[error("sm90 wants the contraction dim last in memory: `{name}` has it before")]
    Layout {
        /// The operand.
        name: String,
    },
    /// An operation that needs more than its own element.
    #[error("sm90 does not run `{what}` in the epilogue yet")]
    Operation {
        /// In the user's words.
        what: String,
    },
    /// An output in a type that is not stored yet.
    #[error("sm90 stores f32, f16 and bf16; output `{name}` is {dtype}")]
    OutputDType {
        /// The output.
        name: String,
        /// Its element type.
        dtype: DType,
    },
    /// An output that is not a tile.
    #[error("sm90 stores tiles; output `{name}` is none")]
    NotATile {
        /// The output.
        name: String,
    },
    /// No tile fits.
    #[error("no tile fits this chip's shared memory")]
    NoCandidate,
}

/// Refuses what the emitter cannot emit.
pub(super) fn refuse(graph: &Graph) -> Result<(), Sm90Refusal> {
    refuse_operands(graph)?;
    refuse_operations(graph)?;
    for output in graph.outputs() {
        let name = || output.name.clone();
        if !matches!(output.dtype, DType::F32 | DType::F16 | DType::BF16) {
            return Err(Sm90Refusal::OutputDType { name: name(), dtype: output.dtype });
        }
        let axes = graph.product().axes(&output.dims);
        if axes != Some(graph.product().accumulator_axes()) {
            return Err(Sm90Refusal::NotATile { name: name() });
        }
    }
    Ok(())
}

fn refuse_operands(graph: &Graph) -> Result<(), Sm90Refusal> {
    let product = graph.product();
    // A is [M, K] as it stands, B is [N, K] and so written with `.T`.
    for ((input, orientation), wanted) in
        [(product.left, Orientation::Plain), (product.right, Orientation::Transposed)]
    {
        let declared = &graph.inputs()[input.0 as usize];
        if !matches!(declared.dtype, DType::F16 | DType::BF16) {
            return Err(Sm90Refusal::OperandDType {
                name: declared.name.clone(),
                dtype: declared.dtype,
            });
        }
        if orientation != wanted {
            return Err(Sm90Refusal::Layout { name: declared.name.clone() });
        }
    }
    Ok(())
}

fn refuse_operations(graph: &Graph) -> Result<(), Sm90Refusal> {
    let own = graph.product().column.divisor();
    let live = graph.live();
    for (_, node) in graph.nodes().filter(|(id, _)| live[id.index()]) {
        let refused = |what: &str| Err(Sm90Refusal::Operation { what: what.to_owned() });
        match &node.op {
            Op::Reduce(fold, ..) => return refused(fold.name()),
            Op::Pick(..) => return refused("pick"),
            Op::Part(part, _) => return refused(part.name()),
            Op::Merge(merge, ..) => return refused(merge.name()),
            Op::Call(call, _) => return refused(call.function),
            Op::Cast(DType::F8E4M3 | DType::F8E5M2, _) => return refused("a cast to 8-bit floats"),
            Op::Accumulator | Op::Input(_) | Op::Constant(_) | Op::Index(_) | Op::Extent(_) => {}
            Op::Unary(..) | Op::Binary(..) | Op::Fma(..) | Op::Select(..) | Op::Cast(..) => {}
        }
        if node.ty.axes.column.is_some_and(|divisor| divisor != own) {
            return refused("values with fewer columns than the product");
        }
        if let Op::Input(input) = &node.op {
            let declared = &graph.inputs()[input.0 as usize];
            if matches!(declared.dtype.elem(), Elem::Bool) && declared.dtype == DType::B1 {
                return refused("packed bits");
            }
        }
    }
    Ok(())
}
