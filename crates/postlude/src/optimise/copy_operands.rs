//! Operands that are stored once more before a product reads them: K-major, or as parts that TF32 holds.
//!
//! In: a kernel, and which operands of its own products are copied how. Out: one whose copies are computed inputs. A K-major
//! copy has the same bits. Parts of f32 elements make a product of TF32 numbers over three times the K:
//!
//! ```text
//! A' = [ low   | finite | high ]        finite: the high part, and 0 of infinities and nan
//! B' = [ finite | low   | high ]        low: what the high part lacks, rounded to TF32, and 0 of infinities and nan
//! ```
//!
//! So an infinity meets high parts alone, and is never multiplied by a low part that is zero.

use std::sync::Arc;

use crate::dtype::{DType, TF32_BITS};
use crate::graph::{
    Binary, Constant, Graph, Input, InputId, NodeId, Op, OperandCopy, Orientation, Output, Product,
    Side, Space, Stack, Unary, free_name,
};
use crate::shape::Dim;

/// The same kernel, whose own products read copies: of each product, of A and of B.
pub(crate) fn copy_operands(graph: &Graph, copies: &[[Option<OperandCopy>; 2]]) -> Graph {
    let mut copied = Copied { graph, inputs: graph.inputs().to_vec(), made: Vec::new() };
    let products = graph.products().iter().zip(copies).map(|(product, [left, right])| {
        let read = [(Side::Left, left), (Side::Right, right)].map(|(side, copy)| match copy {
            Some(copy) => (copied.input(product, side, *copy), side.k_major()),
            None => product.operand(side),
        });
        let inner = match (left, right) {
            (Some(OperandCopy::Parts), _) => product.inner.times(OperandCopy::PARTS),
            (Some(OperandCopy::KMajor) | None, _) => product.inner.clone(),
        };
        Product { left: read[0], right: read[1], inner, ..product.clone() }
    });
    let products = products.collect();
    graph.on_inputs(&copied.inputs).with_products(products)
}

/// A kernel's inputs, copies behind all others.
struct Copied<'a> {
    graph: &'a Graph,
    inputs: Vec<Input>,
    made: Vec<(InputId, Orientation, Side, OperandCopy, InputId)>,
}

impl Copied<'_> {
    /// The copy of an operand; products that share an operand share its copy.
    fn input(&mut self, product: &Product, side: Side, copy: OperandCopy) -> InputId {
        let (operand, orientation) = product.operand(side);
        let known = self.made.iter().find(|(input, turned, of, how, _)| {
            (*input, *turned, *of, *how) == (operand, orientation, side, copy)
        });
        if let Some((.., made)) = known {
            return *made;
        }
        let what = match copy {
            OperandCopy::KMajor => "k_major",
            OperandCopy::Parts => "parts",
        };
        let taken = |name: &str| self.inputs.iter().any(|input| input.name == name);
        let name = free_name(&format!("{}_{what}", side.name()), taken);
        let input = copy_of(self.graph, product, (side, copy), name);
        self.inputs.push(input);
        let made = InputId(self.inputs.len() as u32 - 1);
        self.made.push((operand, orientation, side, copy, made));
        made
    }
}

/// The dtype that a copy reads and stores so that every bit survives.
const fn moved_as(dtype: DType) -> DType {
    match dtype {
        DType::F8E4M3 | DType::F8E5M2 | DType::F8E8M0 | DType::I8 | DType::U8 => DType::I8,
        DType::TF32 | DType::F32 => DType::F32,
        DType::F16 | DType::BF16 | DType::I32 | DType::Bool => dtype,
        DType::I64 | DType::B1 | DType::I4 | DType::U4 => {
            panic!("compiler bug: a dtype that no operand is copied in")
        }
    }
}

/// The copy of an operand, with what computes it.
fn copy_of(
    graph: &Graph,
    product: &Product,
    (side, copy): (Side, OperandCopy),
    name: String,
) -> Input {
    let (operand, orientation) = product.operand(side);
    let declared = &graph.inputs()[operand.0 as usize];
    let mut dims = declared.dims.clone().unwrap_or_default();
    let mut space = graph.space().of_operand(product, side);
    space.batch.retain(|dim| dims.contains(dim));
    space.column = own_name(&space);
    let last = dims.len() - 1;
    dims[if orientation == side.k_major() { last } else { last - 1 }] = space.column.clone();
    let moved = moved_as(declared.dtype);
    let read =
        Input { dims: Some(dims), dtype: moved, same_as: None, computed: None, ..declared.clone() };
    let mut new = Graph::new(name.clone(), vec![read], space, Vec::new());
    let element = new.make(Op::Input(InputId(0)));
    let mut dims = new.space().dims(new.space().accumulator_axes());
    let (mut stored, last) = (dims.clone(), dims.len() - 1);
    let (value, stack, dtype) = match copy {
        OperandCopy::KMajor => (element, None, declared.dtype),
        OperandCopy::Parts => {
            let [first, second, third] = parts(&mut new, element, side);
            // Of one row, then all parts follow one another: K of the product.
            stored.insert(last, Dim::Size(OperandCopy::PARTS));
            dims[last] = product.inner.times(OperandCopy::PARTS);
            (first, Some(Stack { dim: last, rest: vec![second, third] }), DType::TF32)
        }
    };
    new.push_output(Output { name: name.clone(), dtype: moved, dims: stored, value, stack });
    Input::computed_by(Arc::new(new), name, dtype, dims)
}

/// K in the space of a copy: by a name of its own where other dims have its name.
fn own_name(space: &Space) -> Dim {
    let k = &space.column;
    let taken = k.same_base(&space.row) || space.batch.iter().any(|dim| k.same_base(dim));
    if taken { k.times(1) } else { k.clone() }
}

/// The parts of f32 elements in the order of K. A product begins with low parts: small terms are added first.
fn parts(graph: &mut Graph, element: NodeId, side: Side) -> [NodeId; OperandCopy::PARTS as usize] {
    let bits = graph.make(Op::Unary(Unary::Bits, element));
    let read = graph.make(Op::Constant(Constant::I32(TF32_BITS as i32)));
    let high = graph.make(Op::Binary(Binary::And, bits, read));
    let high = graph.make(Op::Unary(Unary::Float, high));
    let rest = graph.make(Op::Binary(Binary::Subtract, element, high));
    let low = graph.make(Op::Cast(DType::TF32, rest));
    let size = graph.make(Op::Unary(Unary::Abs, element));
    let infinity = graph.make(Op::number(f32::INFINITY));
    let is_finite = graph.make(Op::Binary(Binary::Less, size, infinity));
    let zero = graph.make(Op::number(0.0));
    let low = graph.make(Op::Select(is_finite, low, zero));
    let finite = graph.make(Op::Select(is_finite, high, zero));
    match side {
        Side::Left => [low, finite, high],
        Side::Right => [finite, low, high],
    }
}
