//! The facts of one launch: parameters in the order in which the kernel declares them.

mod operand;

use postlude_ptx::launch::{Buffer, Element, Launch, Parameter, TensorMap};

use crate::dtype::DType;
use crate::graph::Graph;
use crate::plan::sm90::{
    EpilogueTransfer, Major, Placements, RasterOrder, Sm90, Sm90Schedule, Viewed, Workspace,
    body_inputs, operands, tile_operands,
};
use crate::problem::{Problem, body_strides};

use super::host;
use super::operand::Part;
use super::slot::SlotLayout;

/// The launch of a problem. Buffers are the inputs in the order of the signature, then the outputs; each begins with
/// its tensor's first element. `scalars` are what the host passes, by place in the signature.
pub fn launch(
    graph: &Graph,
    schedule: &Sm90Schedule,
    problem: &Problem,
    chip: Sm90,
    scalars: &[Option<f64>],
    placements: &Placements,
) -> Launch {
    let viewed = Viewed::of(graph)
        .unwrap_or_else(|refusal| panic!("compiler bug: planning let {refusal} through"));
    let own_problem = viewed.problem(problem);
    let own = viewed.placements(&own_problem, placements);
    let mut launch = facts(&viewed.graph, schedule, &own_problem, chip, scalars, &own);
    viewed.settle(&mut launch.parameters, &own_problem, placements);
    launch
}

/// The launch of a graph without views of others.
fn facts(
    graph: &Graph,
    schedule: &Sm90Schedule,
    problem: &Problem,
    chip: Sm90,
    scalars: &[Option<f64>],
    placements: &Placements,
) -> Launch {
    // A tile without elements multiplies nothing, and so reads nothing.
    let empty = problem.rows == 0 || problem.product_columns() == 0;
    let inner = if empty { 0 } else { problem.inner };
    let problem = &Problem { inner, ..problem.clone() };
    let facts = Facts { schedule, problem };
    let product = graph.product();
    let mut parameters = Vec::new();
    for (operand, part) in operands(graph, problem, placements).iter().zip(Part::of(schedule)) {
        parameters.extend(operand::parameters(operand, part, problem));
    }
    let sizes = [problem.rows, problem.product_columns(), problem.inner, problem.batch];
    parameters.extend(sizes.map(|size| Parameter::U32(size as u32)));
    let raster = [schedule.raster.group, u32::from(schedule.raster.order == RasterOrder::AlongM)];
    parameters.extend(raster.map(Parameter::U32));
    let tiles = tile_operands(graph);
    for input in body_inputs(graph) {
        let declared = &graph.inputs()[input.0 as usize];
        let Some(dims) = &declared.dims else {
            let value = scalars[input.0 as usize]
                .unwrap_or_else(|| panic!("compiler bug: the host passes no `{}`", declared.name));
            parameters.push(host::parameter(declared.dtype, value));
            continue;
        };
        let strides = body_strides(product, dims, &placements.input(input).strides);
        let transfer = tiles.iter().position(|tile| *tile == input);
        let transfer = transfer
            .map_or(EpilogueTransfer::Strided, |place| schedule.needs.epilogue_loads[place]);
        facts.push(
            &mut parameters,
            Buffer(input.0),
            declared.dtype,
            strides,
            transfer,
            SlotLayout::new,
        );
    }
    let first_output = graph.inputs().len() as u32;
    for (place, (output, placement)) in graph.outputs().iter().zip(&placements.outputs).enumerate()
    {
        let buffer = Buffer(first_output + place as u32);
        let strides = body_strides(product, &output.dims, &placement.strides);
        let transfer = schedule.needs.epilogue_stores[place];
        facts.push(&mut parameters, buffer, output.dtype, strides, transfer, SlotLayout::of_output);
    }
    let workspace = Workspace::of(schedule, problem);
    if workspace.bytes > 0 {
        let at = |offset| Parameter::Pointer { buffer: Buffer::WORKSPACE, offset };
        parameters.push(at(0));
        parameters.extend(workspace.starts.map(at));
    }
    Launch {
        grid: [schedule.grid(problem, chip), 1, 1],
        cluster: [schedule.tile.cluster.blocks(), 1, 1],
        threads: schedule.threads(),
        shared_bytes: schedule.shared_bytes(),
        parameters,
        workspace_bytes: workspace.bytes,
    }
}

/// What every parameter is made from.
struct Facts<'a> {
    schedule: &'a Sm90Schedule,
    problem: &'a Problem,
}

impl Facts<'_> {
    /// A tensor of the epilogue, by how it is loaded or stored.
    fn push(
        &self,
        parameters: &mut Vec<Parameter>,
        buffer: Buffer,
        dtype: DType,
        strides: [isize; 3],
        transfer: EpilogueTransfer,
        layout: fn(&Sm90Schedule, DType, Major) -> SlotLayout,
    ) {
        let layout = |major| layout(self.schedule, dtype, major);
        match transfer {
            EpilogueTransfer::Tma => {
                parameters.push(self.tile(buffer, dtype, strides, layout(Major::Row)));
            }
            EpilogueTransfer::TmaTransposed => {
                parameters.push(self.tile(buffer, dtype, strides, layout(Major::Column)));
            }
            EpilogueTransfer::Contiguous
            | EpilogueTransfer::Strided
            | EpilogueTransfer::Finished => {
                parameters.push(Parameter::Pointer { buffer, offset: 0 });
                let apart = |stride: isize| match dtype {
                    DType::B1 => stride,
                    _ => stride.wrapping_mul(dtype.bits() as isize) / 8,
                };
                parameters.extend(strides.map(|stride| Parameter::U64(apart(stride) as u64)));
            }
        }
    }

    /// A tile operand or output as [batch, rows, columns], or with rows innermost, in boxes of its slots.
    fn tile(
        &self,
        buffer: Buffer,
        dtype: DType,
        strides: [isize; 3],
        layout: SlotLayout,
    ) -> Parameter {
        let (problem, [batch, row, column]) = (self.problem, strides);
        let (rows, columns) = (problem.rows, problem.product_columns());
        let (inner, outer, stride) = match layout.major {
            Major::Row => (columns, rows, row),
            Major::Column => (rows, columns, column),
        };
        let sizes = [inner, outer, problem.batch].map(|size| size.max(1));
        let [box_inner, box_outer] = layout.box_sizes();
        Parameter::Map(TensorMap {
            buffer,
            offset: 0,
            element: element(dtype),
            sizes: sizes.map(|size| size as u64).to_vec(),
            strides: map_strides(dtype, [stride, batch], sizes),
            box_sizes: vec![box_inner, box_outer, 1],
            swizzle: layout.swizzle(),
        })
    }
}

fn element(dtype: DType) -> Element {
    match dtype {
        DType::F32 => Element::F32,
        DType::F16 => Element::F16,
        DType::BF16 => Element::BF16,
        DType::F8E4M3 | DType::F8E5M2 | DType::I8 | DType::U8 | DType::Bool => Element::U8,
        DType::I32 | DType::B1 => panic!("compiler bug: a tensor map of {dtype}"),
    }
}

/// Strides of a map in bytes. A dim of one element is never stepped along, whatever its stride; the map still wants one
/// that it could step by.
fn map_strides(dtype: DType, strides: [isize; 2], sizes: [usize; 3]) -> Vec<u64> {
    let bytes = dtype.bits() as u64 / 8;
    let mut least = (sizes[0] as u64 * bytes).next_multiple_of(16);
    let mut result = Vec::new();
    for (stride, size) in strides.into_iter().zip(&sizes[1..]) {
        let stride = if *size > 1 && stride > 0 { stride as u64 * bytes } else { least };
        result.push(stride);
        least = stride * *size as u64;
    }
    result
}
