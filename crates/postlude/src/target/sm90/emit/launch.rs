//! The facts of one launch: parameters in the order in which the kernel declares them.

mod map;
mod operand;

use postlude_ptx::launch::{Buffer, Launch, Parameter, TensorMap};

use crate::dtype::DType;
use crate::graph::{BlockScale, Graph, InputId};
use crate::lower::BoundProgram;
use crate::placement::{Major, Placement, Placements};
use crate::problem::{BodyStrides, Problem};
use crate::target::sm90::plan::{
    EpilogueTransfer, ListSteps, RasterOrder, SharedStrides, Sm90, Sm90Schedule, Widened,
    Workspace, operands, widened_operand,
};

use super::divisor;
use super::host;
use super::operand::Part;
use super::slot::SlotLayout;
use map::{MapDims, batch_sizes, declared_dims, element};

/// The launch of a program at the sizes of a call. Buffers are the inputs in the order of the signature, then the
/// outputs; each begins with its tensor's first element. `scalars` are what the host passes, by place in the signature.
pub(crate) fn launch(
    bound: &BoundProgram,
    schedule: &Sm90Schedule,
    chip: Sm90,
    scalars: &[Option<f64>],
) -> Launch {
    let mut launch = facts(bound, schedule, chip, &bound.scalars(scalars));
    bound.settle(&mut launch.parameters);
    launch
}

/// The same, of the program's own tensors.
fn facts(
    bound: &BoundProgram,
    schedule: &Sm90Schedule,
    chip: Sm90,
    scalars: &[Option<f64>],
) -> Launch {
    let (program, problem, placements) = (bound.program(), bound.problem(), bound.placements());
    let graph = program.graph();
    // A tile without elements multiplies nothing, and so reads nothing.
    let empty = problem.rows == 0 || problem.product_columns() == 0;
    let inner = if empty { 0 } else { problem.inner };
    let problem = &Problem { inner, ..problem.clone() };
    let facts = Facts { schedule, problem };
    let space = graph.space();
    let mut parameters = Vec::new();
    for (operand, part) in operands(graph, problem, placements).iter().zip(Part::of(schedule)) {
        parameters.extend(operand::parameters(operand, part, problem));
    }
    parameters.extend(facts.scales(graph, placements));
    parameters.extend(facts.shared_values(graph, placements, scalars));
    let inner = schedule.needs.mainloop.as_ref().map(|_| problem.inner);
    let sizes = [Some(problem.rows), Some(problem.product_columns()), inner, Some(problem.batch)];
    parameters.extend(sizes.into_iter().flatten().map(|size| Parameter::U32(size as u32)));
    let batches = problem.batch_sizes.iter().skip(1).rev();
    parameters.extend(batches.map(|size| Parameter::U32(*size as u32)));
    if let Some(ends) = graph.ends().or(graph.contraction_ends()).or(graph.row_counts()) {
        let strides = &placements.input(ends).strides;
        let bytes = graph.inputs()[ends.0 as usize].dtype.bits() as i64 / 8;
        let stride = strides.first().copied().unwrap_or(0) as i64 * bytes;
        parameters.push(Parameter::Pointer { buffer: Buffer(ends.0), offset: 0 });
        parameters.push(Parameter::U64(stride as u64));
    }
    let raster = [schedule.raster.group, u32::from(schedule.raster.order == RasterOrder::AlongM)];
    parameters.extend(raster.map(Parameter::U32));
    if !problem.segmented {
        let divisors = schedule.raster_divisors(problem);
        parameters.extend(divisors.into_iter().flat_map(divisor::parameters));
    }
    let sizes = problem.shape(&program.sizes);
    parameters.extend(sizes.into_iter().map(|size| Parameter::U32(size as u32)));
    parameters.extend(bound.windows().iter().flatten().map(|bound| Parameter::U32(*bound)));
    let tiles = &program.tile_operands;
    let shared = SharedStrides::of(program, &schedule.needs);
    for (input, like) in program.body_inputs.iter().copied().zip(&shared.inputs) {
        let declared = &graph.inputs()[input.0 as usize];
        let Some(dims) = &declared.dims else {
            let value = scalars[input.0 as usize]
                .unwrap_or_else(|| panic!("compiler bug: the host passes no `{}`", declared.name));
            parameters.push(host::parameter(declared.dtype, value));
            continue;
        };
        if like.is_some() {
            parameters.push(Parameter::Pointer { buffer: Buffer(input.0), offset: 0 });
            continue;
        }
        let own = &placements.input(input).strides;
        let strides = match (own.as_slice(), graph.is_table(input)) {
            (&[row, column], true) => BodyStrides { row, column, ..BodyStrides::default() },
            _ => BodyStrides::new(space, dims, own),
        };
        let transfer = tiles.iter().position(|tile| *tile == input);
        let transfer = transfer
            .map_or(EpilogueTransfer::Strided, |place| schedule.needs.epilogue_loads[place]);
        facts.push(
            &mut parameters,
            (Buffer(input.0), declared.dtype),
            Lies {
                strides,
                columns: width(bound, program.input_window(input)),
                list: ListSteps::of(graph, dims, placements.input(input)),
            },
            transfer,
            SlotLayout::new,
        );
    }
    facts.push_outputs(&mut parameters, bound, &shared);
    let workspace = Workspace::of(schedule, problem);
    let at = |offset| Parameter::Pointer { buffer: Buffer::WORKSPACE, offset };
    if workspace.bytes > 0 {
        parameters.push(at(0));
        parameters.extend(workspace.starts.map(at));
    }
    let counter = schedule.counter_bytes();
    if counter > 0 {
        parameters.push(at(0));
    }
    let partial_sums = schedule.partial_sum_bytes(problem, chip);
    if partial_sums > 0 {
        let whole = schedule.whole_clusters(problem, chip);
        parameters.push(Parameter::U32(schedule.split_k_slices));
        parameters.extend(divisor::parameters(u64::from(schedule.split_k_slices)));
        parameters.push(Parameter::U32(whole as u32));
        parameters.push(at(0));
    }
    Launch {
        grid: [schedule.grid(problem, chip), 1, 1],
        cluster: [schedule.tile.cluster.blocks(), 1, 1],
        threads: schedule.threads(),
        shared_bytes: schedule.shared_bytes(),
        parameters,
        // Slices of K, partial results of reductions and dynamic tiles exclude one another.
        workspace_bytes: workspace.bytes + counter + partial_sums,
    }
}

/// Columns of a tensor of all columns, or of a window of them.
fn width(bound: &BoundProgram, window: Option<usize>) -> usize {
    let all = bound.problem().product_columns();
    window.map_or(all, |window| bound.windows()[window][1] as usize)
}

/// How a tensor of the epilogue lies.
#[derive(Clone, Copy)]
struct Lies {
    strides: BodyStrides,
    columns: usize,
    /// Where it is a list.
    list: Option<ListSteps>,
}

/// The address of a list's table.
fn table(buffer: Buffer, is_listed: bool) -> Option<Parameter> {
    is_listed.then(|| Parameter::Pointer { buffer: buffer.table(), offset: 0 })
}

/// What every parameter is made from.
struct Facts<'a> {
    schedule: &'a Sm90Schedule,
    problem: &'a Problem,
}

impl Facts<'_> {
    /// The outputs; of one whose strides are another's, its pointer alone.
    fn push_outputs(
        &self,
        parameters: &mut Vec<Parameter>,
        bound: &BoundProgram,
        shared: &SharedStrides,
    ) {
        let (program, placements) = (bound.program(), bound.placements());
        let graph = program.graph();
        let first = graph.inputs().len() as u32;
        let outputs = graph.outputs().iter().zip(&placements.outputs).zip(&shared.outputs);
        for (place, ((output, placement), like)) in outputs.enumerate() {
            if shared.implied[place] {
                continue;
            }
            let buffer = Buffer(first + place as u32);
            if like.is_some() {
                parameters.push(Parameter::Pointer { buffer, offset: 0 });
                continue;
            }
            let strides = BodyStrides::new(graph.space(), &output.dims, &placement.strides);
            let transfer = self.schedule.needs.epilogue_stores[place];
            let columns = width(bound, program.output_window(place));
            let list = ListSteps::of(graph, &output.dims, placement);
            let lies = Lies { strides, columns, list };
            self.push(parameters, (buffer, output.dtype), lies, transfer, SlotLayout::of_output);
            if transfer.major().is_some() && graph.space().is_segmented() {
                parameters.extend(self.memory((buffer, output.dtype), strides, false));
            }
        }
    }

    /// A tensor of the epilogue, by how it is loaded or stored.
    fn push(
        &self,
        parameters: &mut Vec<Parameter>,
        (buffer, dtype): (Buffer, DType),
        lies: Lies,
        transfer: EpilogueTransfer,
        layout: fn(&Sm90Schedule, DType, Major) -> SlotLayout,
    ) {
        let is_listed = lies.list.is_some();
        match transfer.major() {
            Some(major) => {
                let layout = layout(self.schedule, dtype, major);
                parameters.push(self.tile((buffer, dtype), lies, layout));
                parameters.extend(table(buffer, is_listed));
            }
            None => parameters.extend(self.memory((buffer, dtype), lies.strides, is_listed)),
        }
    }

    /// The product's block scales, with runs of K as columns.
    fn scales(&self, graph: &Graph, placements: &Placements) -> Vec<Parameter> {
        let Some(product) = graph.products().first() else { return Vec::new() };
        let scale = |scale: &BlockScale| {
            let declared = &graph.inputs()[scale.input.0 as usize];
            let dims = declared.dims.as_deref().unwrap_or_default();
            let space = graph.space().of_operand(product, scale.side);
            let Placement { strides, list, .. } = placements.input(scale.input);
            let strides = BodyStrides::new(&space, dims, strides);
            self.memory((Buffer(scale.input.0), declared.dtype), strides, list.is_some())
        };
        product.scales.iter().flat_map(scale).collect()
    }

    /// What the elements of an operand share that load warps widen.
    fn shared_values(
        &self,
        graph: &Graph,
        placements: &Placements,
        scalars: &[Option<f64>],
    ) -> Vec<Parameter> {
        let Some((side, operand)) = widened_operand(graph) else { return Vec::new() };
        let Some(widened) = Widened::of(&graph.inputs()[operand.0 as usize]) else {
            panic!("compiler bug: planning let an operand through that is not widened")
        };
        let space = graph.space().of_operand(&graph.products()[0], side);
        let mut parameters = Vec::new();
        for (place, input) in widened.graph.inputs().iter().enumerate() {
            if place == widened.source.0 as usize {
                continue;
            }
            let own = graph.place_of(&input.name);
            let Some(dims) = &input.dims else {
                let value = scalars[own]
                    .unwrap_or_else(|| panic!("compiler bug: the host passes no `{}`", input.name));
                parameters.push(host::parameter(input.dtype, value));
                continue;
            };
            let placement = placements.input(InputId(own as u32));
            let strides = BodyStrides::new(&space, dims, &placement.strides);
            let own = (Buffer(own as u32), input.dtype);
            parameters.extend(self.memory(own, strides, placement.list.is_some()));
        }
        parameters
    }

    /// A tensor that threads address.
    fn memory(
        &self,
        (buffer, dtype): (Buffer, DType),
        strides: BodyStrides,
        is_listed: bool,
    ) -> Vec<Parameter> {
        let apart = |stride: isize| {
            let bits = stride.wrapping_mul(dtype.bits() as isize);
            if dtype.is_packed() { bits } else { bits / 8 }
        };
        let strides = strides.map(apart);
        let batches = strides.batch[..declared_dims(self.problem)].iter().rev();
        let all = batches.chain([&strides.row, &strides.column]);
        let pointer = Parameter::Pointer { buffer, offset: 0 };
        let strides = all.map(|stride| Parameter::U64(*stride as u64));
        [pointer].into_iter().chain(strides).chain(table(buffer, is_listed)).collect()
    }

    /// A tile operand or output as [batch, rows, columns], or with rows innermost, in boxes of its slots.
    fn tile(
        &self,
        (buffer, dtype): (Buffer, DType),
        Lies { strides, columns, list }: Lies,
        layout: SlotLayout,
    ) -> Parameter {
        let rows = self.problem.rows;
        let (inner, outer, stride) = match layout.major {
            Major::Row => (columns, rows, strides.row),
            Major::Column => (rows, columns, strides.column),
        };
        // Rows of all segments lie in one matrix.
        let batches = match list {
            None if self.problem.segmented => vec![1],
            list => batch_sizes(self.problem, list),
        };
        let lies = MapDims::new([inner, outer], stride, (&batches, &strides.batch));
        Parameter::Map(TensorMap {
            buffer,
            offset: 0,
            element: element(dtype),
            strides: lies.strides(dtype),
            box_sizes: lies.boxes(layout.box_sizes()),
            sizes: lies.sizes,
            swizzle: layout.swizzle(),
        })
    }
}
