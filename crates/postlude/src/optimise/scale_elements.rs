//! Operands of products whose sums of runs of K are scaled: scaled elements in f32, or the elements themselves, K-major.
//!
//! In: a kernel, and which of its graphs may not keep block scales. Out: one whose operands are computed there: each element
//! in f32, times its factors. The sum is the same real number, within the bound of a scaled sum (docs/numerics.md). Graphs
//! that keep their scales get K-major operands.

use std::sync::Arc;

use crate::dtype::{DType, Elem};
use crate::graph::{
    Accumulation, Binary, Graph, Input, InputId, NodeId, Op, Output, Product, Side, free_name,
};
use crate::shape::Dim;

/// The same kernel without block scales; `None` where it has none.
pub(crate) fn without_scales(graph: &Graph) -> Option<Graph> {
    let scaled =
        graph.has_scales() || graph.earlier().iter().any(|earlier| earlier.graph.has_scales());
    scaled.then(|| scale_elements(graph, |_| true))
}

/// The same kernel without the block scales of some of its graphs.
pub(crate) fn scale_elements(graph: &Graph, changes: impl Fn(&Graph) -> bool) -> Graph {
    let changes = |graph: &Graph| graph.has_scales() && changes(graph);
    with_operands(graph, &changes, with_scaled_elements)
}

/// The same kernel whose operands with block scales are K-major: operands that lie the other way are copied first. Tensor cores
/// read 8-bit floats K-major alone. Infinities of f8e5m2 would not survive this store; `copy_operands` keeps their bits where
/// a call is large.
pub(crate) fn turn_scaled_operands(graph: &Graph) -> Graph {
    let turns = |graph: &Graph| {
        let mut scaled = graph.products().iter().filter(|product| !product.scales.is_empty());
        scaled.any(|product| {
            [Side::Left, Side::Right].iter().any(|side| turns(graph, product, *side))
        })
    };
    with_operands(graph, &turns, with_k_major_operands)
}

/// Whether an operand is copied to be K-major.
fn turns(graph: &Graph, product: &Product, side: Side) -> bool {
    let (input, orientation) = product.operand(side);
    orientation != side.k_major() && graph.inputs()[input.0 as usize].dtype == DType::F8E4M3
}

/// The same kernel in which some graphs have other operands; what computes those is added to the inputs.
fn with_operands(
    graph: &Graph,
    changes: &dyn Fn(&Graph) -> bool,
    change: fn(&Graph, &mut Vec<Input>) -> Graph,
) -> Graph {
    if !changes(graph) && !graph.earlier().iter().any(|earlier| changes(earlier.graph)) {
        return graph.clone();
    }
    let mut inputs: Vec<Input> = Vec::new();
    let mut changed: Vec<(Arc<Graph>, Arc<Graph>)> = Vec::new();
    for input in graph.inputs() {
        let Some(old) = &input.computed else {
            inputs.push(input.clone());
            continue;
        };
        let known = changed.iter().find(|(known, _)| Arc::ptr_eq(known, old));
        let new = match known {
            Some((_, new)) => new.clone(),
            None if changes(old) => Arc::new(change(old, &mut inputs)),
            None => old.clone(),
        };
        changed.push((old.clone(), new.clone()));
        inputs.push(Input { computed: Some(new), ..input.clone() });
    }
    let own = if changes(graph) { change(graph, &mut inputs) } else { graph.clone() };
    own.on_inputs(&inputs).without_unread()
}

/// One graph whose operands are K-major.
fn with_k_major_operands(graph: &Graph, all: &mut Vec<Input>) -> Graph {
    let mut own = graph.inputs().to_vec();
    let products = graph.products().iter().map(|product| {
        let [left, right] = [Side::Left, Side::Right].map(|side| {
            if !turns(graph, product, side) {
                return product.operand(side);
            }
            let taken = |name: &str| all.iter().chain(&own).any(|input| input.name == name);
            let name = free_name(&format!("{}_k_major", side.name()), taken);
            let input = computed_operand(graph, product, (side, DType::F8E4M3), &[], name);
            all.push(input.clone());
            own.push(Input { computed: None, ..input });
            (InputId(own.len() as u32 - 1), side.k_major())
        });
        Product { left, right, ..product.clone() }
    });
    let products = products.collect();
    graph.on_inputs(&own).with_products(products)
}

/// One graph without block scales; what computes its operands is added to the kernel's inputs.
fn with_scaled_elements(graph: &Graph, all: &mut Vec<Input>) -> Graph {
    let mut own = graph.inputs().to_vec();
    let mut products = Vec::new();
    for product in graph.products() {
        let [left, right] = [Side::Left, Side::Right].map(|side| {
            let operand = product.operand(side);
            let scaled = product.scales.iter().any(|scale| scale.side == side);
            if !scaled && own[operand.0.0 as usize].dtype == DType::F32 {
                return operand;
            }
            let taken = |name: &str| all.iter().chain(&own).any(|input| input.name == name);
            let name = free_name(&format!("{}_scaled", side.name()), taken);
            let scales = product.scales.iter().filter(|scale| scale.side == side);
            let factors: Vec<InputId> = scales.map(|scale| scale.input).collect();
            let input = computed_operand(graph, product, (side, DType::F32), &factors, name);
            all.push(input.clone());
            own.push(Input { computed: None, ..input });
            (InputId(own.len() as u32 - 1), side.k_major())
        });
        let accumulation = Accumulation::Native;
        products.push(Product { left, right, accumulation, scales: Vec::new(), ..product.clone() });
    }
    graph.on_inputs(&own).with_products(products)
}

/// An operand of a dtype, K-major, each element times its factors in f32.
fn computed_operand(
    graph: &Graph,
    product: &Product,
    (side, dtype): (Side, DType),
    factors: &[InputId],
    name: String,
) -> Input {
    let (operand, _) = product.operand(side);
    let mut read: Vec<Input> = Vec::new();
    for id in std::iter::once(operand).chain(factors.iter().copied()) {
        let input = &graph.inputs()[id.0 as usize];
        read.push(Input { same_as: None, computed: None, ..input.clone() });
    }
    let varies =
        |dim: &Dim| read.iter().any(|input| input.dims.iter().flatten().any(|it| it == dim));
    let mut space = graph.space().of_operand(product, side);
    space.batch.retain(|dim| varies(dim));
    let count = read.len();
    let mut new = Graph::new(name.clone(), read, space, Vec::new());
    let mut value: Option<NodeId> = None;
    for place in 0..count {
        let factor = new.make(Op::Input(InputId(place as u32)));
        let factor = match new.ty(factor).elem {
            Elem::F32 => factor,
            Elem::I32 | Elem::Bool => new.make(Op::Cast(DType::F32, factor)),
        };
        value = Some(match value {
            Some(value) => new.make(Op::Binary(Binary::Multiply, value, factor)),
            None => factor,
        });
    }
    let Some(value) = value else { panic!("compiler bug: an operand of nothing") };
    let dims = new.space().dims(new.space().accumulator_axes());
    let output = Output { name: name.clone(), dtype, dims: dims.clone(), value, stack: None };
    new.push_output(output);
    Input::computed_by(Arc::new(new), name, dtype, dims)
}
