//! What Hopper kernels do not run yet: named rules, so that `explain` can say why.

use crate::dtype::{DType, Elem};
use crate::functions::Accuracy;
use crate::graph::{Binary, Constant, Graph, MathMode, NodeId, Op, Orientation, Unary, accuracies};

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
    /// An operand that tensor maps cannot describe.
    #[error("sm90 reads `{name}` by tensor map, and {what} do not lie at multiples of 16 bytes")]
    Unaligned {
        /// The operand.
        name: String,
        /// What of it.
        what: &'static str,
    },
    /// Sizes beyond 32-bit coordinates.
    #[error("sm90 counts rows, columns and tiles in 31 bits; this problem has more")]
    TooLarge,
    /// A given schedule was made for another epilogue.
    #[error("the schedule's paths do not fit this problem, which has {wanted}")]
    OtherNeeds {
        /// What they would have to be.
        wanted: String,
    },
    /// A given schedule that no kernel can be emitted for.
    #[error("the schedule has a tile or a knob that sm90 kernels do not have")]
    Knob,
    /// A given schedule that does not fit the chip.
    #[error("the schedule needs {need} bytes of shared memory; the chip has {have}")]
    SharedMemory {
        /// Bytes needed.
        need: u32,
        /// Bytes there are.
        have: u32,
    },
    /// No tile fits.
    #[error("no tile fits this chip's shared memory")]
    NoCandidate,
}

impl Sm90Refusal {
    /// What to do about it, where that is known.
    pub fn fix(&self) -> Option<String> {
        match self {
            Sm90Refusal::Unaligned { .. } => {
                Some("pad its rows to a multiple of 8 elements".to_owned())
            }
            Sm90Refusal::Layout { name } => {
                Some(format!("store `{name}` with the contraction dim last"))
            }
            Sm90Refusal::Knob => Some(
                "print one that works: `postlude explain ... --target sm90 --stage schedule`"
                    .to_owned(),
            ),
            Sm90Refusal::SharedMemory { .. } => Some("take fewer stages".to_owned()),
            Sm90Refusal::OperandDType { .. }
            | Sm90Refusal::Operation { .. }
            | Sm90Refusal::OutputDType { .. }
            | Sm90Refusal::NotATile { .. }
            | Sm90Refusal::TooLarge
            | Sm90Refusal::OtherNeeds { .. }
            | Sm90Refusal::NoCandidate => None,
        }
    }
}

/// Refuses what the emitter cannot emit, or could only emit less accurately than the contract asks.
pub(super) fn refuse(graph: &Graph, math: MathMode) -> Result<(), Sm90Refusal> {
    refuse_operands(graph)?;
    let accuracies = accuracies(graph, math);
    let live = graph.live();
    for (id, _) in graph.nodes().filter(|(id, _)| live[id.index()]) {
        if let Some(what) = refused_operation(graph, id, accuracies[id.index()]) {
            return Err(Sm90Refusal::Operation { what });
        }
    }
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

/// What of a node the epilogue does not do, in the user's words.
fn refused_operation(graph: &Graph, id: NodeId, accuracy: Accuracy) -> Option<String> {
    let node = &graph[id];
    if node.ty.elem == Elem::I32 {
        return Some("integers".to_owned());
    }
    if node.ty.axes.column.is_some_and(|divisor| divisor != graph.product().column.divisor()) {
        return Some("values with fewer columns than the product".to_owned());
    }
    let takes_conditions =
        || node.op.operands().any(|operand| graph.ty(operand).elem == Elem::Bool);
    let is_wide = |dtype: DType| matches!(dtype, DType::F32 | DType::F16 | DType::BF16);
    match &node.op {
        Op::Accumulator | Op::Fma(..) | Op::Constant(Constant::F32(_)) => None,
        Op::Constant(constant) => Some(format!("the constant {constant}")),
        Op::Input(input) => {
            let declared = &graph.inputs()[input.0 as usize];
            (!is_wide(declared.dtype)).then(|| format!("an input of {}", declared.dtype))
        }
        Op::Index(axis) => Some(axis.name().to_owned()),
        Op::Extent(_) => Some("the size of a dim".to_owned()),
        Op::Unary(op, _) => {
            refused_unary(*op, accuracy).then(|| format!("a correctly rounded {}", op.name()))
        }
        // Both would be calls, or lose what lies at the ends of the range.
        Op::Binary(op @ (Binary::Divide | Binary::Pow), ..) => Some(op.name().to_owned()),
        Op::Binary(op @ (Binary::Equal | Binary::NotEqual), ..) => {
            takes_conditions().then(|| format!("{} of conditions", op.name()))
        }
        Op::Binary(..) => None,
        Op::Select(..) => (node.ty.elem == Elem::Bool).then(|| "where of conditions".to_owned()),
        Op::Cast(to, _) => (takes_conditions() || !is_wide(*to)).then(|| format!("a cast to {to}")),
        Op::Reduce(fold, ..) => Some(fold.name().to_owned()),
        Op::Pick(..) => Some("pick".to_owned()),
        Op::Part(part, _) => Some(part.name().to_owned()),
        Op::Merge(merge, ..) => Some(merge.name().to_owned()),
        Op::Call(call, _) => Some(call.function.to_owned()),
    }
}

/// Functions whose accurate form divides or takes a root, which the hardware only does by a call.
fn refused_unary(op: Unary, accuracy: Accuracy) -> bool {
    matches!(op, Unary::Sqrt | Unary::Rsqrt | Unary::Rcp | Unary::Tanh)
        && accuracy == Accuracy::Accurate
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::{self, Bindings};
    use crate::{define, syntax};

    fn refusal(source: &str, math: MathMode) -> Option<String> {
        let ast = syntax::parse(source).expect("it parses");
        let ast = check::infer(&ast, &Bindings::default()).expect("it has a signature");
        let graph = define::define(&check::check(&ast).expect("it types"));
        refuse(&graph, math).err().map(|refusal| refusal.to_string())
    }

    #[test]
    fn what_the_epilogue_does_is_accepted() {
        for body in [
            "A @ W.T",
            "relu(A @ W.T + C + bias[N] * scale[M])",
            "silu(A @ W.T)",
            "where(isnan(A @ W.T), 0.0, 1.0)",
        ] {
            assert_eq!(refusal(&format!("D = {body}"), MathMode::Default), None, "{body}");
        }
    }

    #[test]
    fn what_it_does_not_is_named() {
        let rows = [
            ("D = A @ W.T / scale[M]", "divide"),
            ("D = where(col < 3, A @ W.T, 0.0)", "integers"),
            ("D = f8e4m3(A @ W.T)", "a cast to f8e4m3"),
            ("D = softmax(A @ W.T, N)", "max"),
            ("D = pow(A @ W.T, 3.0)", "pow"),
        ];
        for (source, what) in rows {
            let refusal = refusal(source, MathMode::Default).unwrap_or_default();
            assert!(refusal.contains(&format!("`{what}`")), "{source}: {refusal}");
        }
    }

    #[test]
    fn accurate_math_refuses_what_would_be_approximate() {
        assert_eq!(refusal("D = tanh(A @ W.T)", MathMode::Default), None);
        let refusal = refusal("D = tanh(A @ W.T)", MathMode::Accurate).unwrap_or_default();
        assert!(refusal.contains("correctly rounded tanh"), "{refusal}");
    }
}
