//! The facts of one launch: parameters in the order in which the kernel declares them.

use postlude_ptx::launch::{Buffer, Element, Launch, Parameter, Swizzle, TensorMap};

use crate::dtype::DType;
use crate::graph::{Graph, InputId, Output};
use crate::plan::sm90::{STAGE_DEPTH, Sm90, Sm90Schedule};
use crate::problem::{Argument, Arguments, Problem, body_strides};

use super::host;
use super::parameters::{body_inputs, goes_through_map};

/// Where a tensor lies: strides in elements, as its dims are declared.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Placement {
    /// Elements between neighbours along each declared dim.
    pub strides: Vec<isize>,
}

/// The launch of a problem. Inputs are buffers in the order of the signature, then outputs.
pub fn launch(
    graph: &Graph,
    schedule: &Sm90Schedule,
    problem: &Problem,
    chip: Sm90,
    arguments: &Arguments,
    outputs: &[Placement],
) -> Launch {
    let product = graph.product();
    let (left, right) = (product.left.0, product.right.0);
    let share = schedule.tile.columns / schedule.cluster;
    let mut parameters = vec![
        Parameter::Map(operand_map(
            graph,
            arguments,
            left,
            problem.rows,
            problem,
            schedule.tile.rows,
        )),
        Parameter::Map(operand_map(
            graph,
            arguments,
            right,
            problem.product_columns(),
            problem,
            share,
        )),
    ];
    let sizes = [problem.rows, problem.product_columns(), problem.inner, problem.batch];
    parameters.extend(sizes.map(|size| Parameter::U32(size as u32)));
    let batched = |input: InputId| u32::from(graph.tensor(arguments, input).shape().len() == 3);
    parameters.extend([left, right].map(|input| Parameter::U32(batched(input))));
    for input in body_inputs(graph) {
        let declared = &graph.inputs()[input.0 as usize];
        match &arguments[&declared.name] {
            Argument::Scalar(value) => parameters.push(host::parameter(declared.dtype, *value)),
            Argument::Tensor(tensor) => {
                let strides = body_strides(
                    product,
                    declared.dims.as_deref().unwrap_or_default(),
                    tensor.strides(),
                );
                push_memory(&mut parameters, Buffer(input.0), declared.dtype, strides);
            }
        }
    }
    let first_output = graph.inputs().len() as u32;
    for (place, (output, placement)) in graph.outputs().iter().zip(outputs).enumerate() {
        let buffer = Buffer(first_output + place as u32);
        let strides = body_strides(product, &output.dims, &placement.strides);
        if goes_through_map(output) {
            parameters.push(Parameter::Map(output_map(output, buffer, strides, problem)));
        } else {
            push_memory(&mut parameters, buffer, output.dtype, strides);
        }
    }
    Launch {
        grid: [schedule.grid(problem, chip), 1, 1],
        cluster: [schedule.cluster, 1, 1],
        threads: schedule.threads(),
        shared_bytes: schedule.shared_bytes(),
        parameters,
        workspace_bytes: 0,
    }
}

fn element(dtype: DType) -> Element {
    match dtype {
        DType::F16 => Element::F16,
        _ => Element::BF16,
    }
}

fn push_memory(parameters: &mut Vec<Parameter>, buffer: Buffer, dtype: DType, strides: [isize; 3]) {
    let bytes = dtype.bits() as isize / 8;
    parameters.push(Parameter::Pointer { buffer, offset: 0 });
    parameters.extend(strides.map(|stride| Parameter::U64((stride * bytes) as u64)));
}

/// A and B as [batch, rows, K], K innermost. A map has no empty dim: without a contraction it is one column wide, which
/// the kernel never reads.
fn operand_map(
    graph: &Graph,
    arguments: &Arguments,
    input: InputId,
    rows: usize,
    problem: &Problem,
    box_rows: u32,
) -> TensorMap {
    let tensor = graph.tensor(arguments, input);
    let strides = tensor.strides();
    let rank = strides.len();
    let bytes = |stride: isize| if problem.inner == 0 { 16 } else { stride as u64 * 2 };
    let (batches, batch_stride) = if rank == 3 {
        (problem.batch, strides[0])
    } else {
        (1, strides[0] * rows.max(1) as isize)
    };
    TensorMap {
        buffer: Buffer(input.0),
        offset: tensor.offset() as u64 * 2,
        element: element(tensor.dtype()),
        sizes: vec![problem.inner.max(1) as u64, rows as u64, batches as u64],
        strides: vec![bytes(strides[rank - 2]), bytes(batch_stride)],
        box_sizes: vec![STAGE_DEPTH, box_rows, 1],
        swizzle: Swizzle::B128,
    }
}

fn output_map(
    output: &Output,
    buffer: Buffer,
    strides: [isize; 3],
    problem: &Problem,
) -> TensorMap {
    let [batch, row, _] = strides;
    let batch = if batch == 0 { row * problem.rows.max(1) as isize } else { batch };
    TensorMap {
        buffer,
        offset: 0,
        element: element(output.dtype),
        sizes: vec![problem.product_columns() as u64, problem.rows as u64, problem.batch as u64],
        strides: vec![row as u64 * 2, batch as u64 * 2],
        box_sizes: vec![64, 64, 1],
        swizzle: Swizzle::B128,
    }
}
