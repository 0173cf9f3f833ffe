//! The kernel's parameters, declared once; `launch` passes them in the same order.

use postlude_ptx::kernel::{Kernel, MapParameter, NumberParameter, PointerParameter, Reg};
use postlude_ptx::target::Tma;
use postlude_ptx::types::{F32, Pred, U32};

use crate::graph::{Graph, InputId};
use crate::lower::TileProgram;
use crate::shape::Dim;
use crate::target::sm90::plan::{
    SharedStrides, Sm90Schedule, Widened, narrow_source, widened_operand,
};

use super::batch::{BatchDims, Batching, ListTable};
use super::block_scale::ScaleParameter;
use super::divisor::{Divisor, RasterDivisors};
use super::memory::{ColumnWindow, Memory};
use super::operand::{Operand, Part};
use super::segments::Ends;
use super::shared_values::SharedValues;
use super::slot::SlotLayout;

/// Where an input of the body comes from.
pub(super) enum Source<'k> {
    /// Passed by the host.
    Host(NumberParameter<'k, F32>),
    /// In memory.
    Memory(Memory<'k>),
    /// A tile, in memory that a tensor map describes.
    Map(MappedTile<'k>),
}

/// A tile that a tensor map describes, and its layout in slots.
pub(super) struct MappedTile<'k> {
    pub(super) map: MapParameter<'k>,
    pub(super) layout: SlotLayout,
    /// Where it is a list.
    pub(super) list: Option<ListTable<'k>>,
    /// The columns of the product that are the tensor's, where those are not all.
    window: Option<ColumnWindow<'k>>,
    /// The same memory as threads address it, where tiles end before their boxes do.
    pub(super) cut: Option<Memory<'k>>,
}

impl<'k> MappedTile<'k> {
    /// The tensor's column that a column of the product is; outside of it for others.
    pub(super) fn column(&self, column: Reg<'k, U32>) -> Reg<'k, U32> {
        self.window.map_or(column, |window| column - window.first)
    }

    /// Whether a slot that begins in this column of the tensor has columns of it, where not every slot has.
    /// The TMA unit takes a store that begins before its tensor for an illegal instruction.
    pub(super) fn overlaps(&self, column: Reg<'k, U32>) -> Option<Reg<'k, Pred>> {
        let before = self.layout.columns() - 1;
        self.window.map(|window| (column + before).lt(window.columns + before))
    }
}

/// A tile that threads store from slots, and its layout there.
pub(super) struct CoalescedTile<'k> {
    pub(super) layout: SlotLayout,
    pub(super) memory: Memory<'k>,
}

/// How an output is stored.
pub(super) enum Destination<'k> {
    /// By TMA through shared memory.
    Map(MappedTile<'k>),
    /// By threads, from shared memory.
    Coalesced(CoalescedTile<'k>),
    /// Element by element.
    Direct(Memory<'k>),
}

pub(super) struct Parameters<'k> {
    /// A, and B of every product; nothing where there is no product.
    pub(super) operands: Vec<Operand<'k>>,
    /// The product's block scales.
    pub(super) scales: Vec<ScaleParameter<'k>>,
    /// What the elements of an operand share that load warps widen.
    pub(super) shared_values: Option<SharedValues<'k>>,
    pub(super) rows: Reg<'k, U32>,
    pub(super) columns: Reg<'k, U32>,
    pub(super) inner: Reg<'k, U32>,
    pub(super) batches: Reg<'k, U32>,
    pub(super) batch_dims: BatchDims<'k>,
    /// Where segments of rows end, or of the contraction.
    pub(super) ends: Option<Ends<'k>>,
    /// The raster: clusters of a group, and 1 where groups advance along M.
    pub(super) group: Reg<'k, U32>,
    pub(super) along_m: Reg<'k, U32>,
    /// What it divides by; segments say that on the device.
    pub(super) divisors: Option<RasterDivisors<'k>>,
    /// Sizes of dims that are computed with.
    pub(super) sizes: Vec<(Dim, Reg<'k, U32>)>,
    pub(super) sources: Vec<(InputId, Source<'k>)>,
    pub(super) destinations: Vec<Destination<'k>>,
    /// Counters of partial results, then those along rows, along columns and of scalars.
    pub(super) workspace: Option<[PointerParameter<'k>; 4]>,
    /// Where tiles are taken from a counter.
    pub(super) counter: Option<PointerParameter<'k>>,
    /// Where work tiles are slices of K.
    pub(super) slices: Option<SliceParameters<'k>>,
}

/// Slices of K.
pub(super) struct SliceParameters<'k> {
    pub(super) count: Reg<'k, U32>,
    pub(super) by_count: Divisor<'k>,
    /// Clusters of tiles that have all of K, before those that are cut.
    pub(super) whole: Reg<'k, U32>,
    pub(super) sums: PointerParameter<'k>,
}

/// What the tensors of the epilogue are declared from.
struct Tensors<'a, 'k, C> {
    k: Kernel<'k, C>,
    program: &'a TileProgram,
    schedule: &'a Sm90Schedule,
    /// Where windows of columns begin, and how wide they are.
    windows: Vec<[Reg<'k, U32>; 2]>,
}

impl<'k, C: Tma> Tensors<'_, 'k, C> {
    /// A window of the product's columns, or of runs of them.
    fn window(&self, number: Option<usize>, run: u32) -> Option<ColumnWindow<'k>> {
        let ([first, columns], fold) = (self.windows[number?], self.program.fold(number?));
        Some(match run {
            1 => ColumnWindow { first, columns, fold },
            _ => ColumnWindow { first: first / run, columns: columns / run, fold },
        })
    }

    /// An input, whose strides may be those of another one.
    fn source(&self, input: InputId, like: Option<&Source<'k>>) -> Source<'k> {
        let (k, program) = (self.k, self.program);
        let declared = &program.graph().inputs()[input.0 as usize];
        let (name, window) = (format!("input{}", input.0), program.input_window(input));
        let tile = program.tile_operands.iter().position(|tile| *tile == input);
        let major = tile.and_then(|tile| self.schedule.needs.epilogue_loads[tile].major());
        let layout = major.map(|major| SlotLayout::new(self.schedule, declared.dtype, major));
        if let Some(Source::Memory(other)) = like {
            return Source::Memory(Memory::declare_like(k, &name, declared.dtype, other));
        }
        let listed = self.schedule.needs.lists.dim_of_input(program.graph(), input);
        let batching = Batching::of(program.graph().space(), listed);
        match (&declared.dims, layout) {
            (None, _) => Source::Host(k.parameter_f32(&name)),
            (Some(_), Some(layout)) => {
                let window = self.window(window, 1);
                let map = k.parameter_map(&name);
                let list = batching.declare_table(k, &name);
                Source::Map(MappedTile { map, layout, list, window, cut: None })
            }
            (Some(_), None) => {
                let window = self.window(window, program.input_run(input));
                Source::Memory(Memory::declare(k, &name, (declared.dtype, batching), window))
            }
        }
    }

    /// An output, whose strides may be those of another one.
    fn destination(&self, place: usize, like: Option<&Destination<'k>>) -> Destination<'k> {
        let (k, program) = (self.k, self.program);
        let output = &program.graph().outputs()[place];
        let (name, window) = (format!("output{place}"), program.output_window(place));
        let listed = self.schedule.needs.lists.dim_of_output(program.graph(), place);
        let batching = Batching::of(program.graph().space(), listed);
        if let Some(major) = self.schedule.needs.epilogue_stores[place].major() {
            let layout = SlotLayout::of_output(self.schedule, output.dtype, major);
            let window = self.window(window, 1);
            let map = k.parameter_map(&name);
            let list = batching.declare_table(k, &name);
            let cut = program.graph().space().is_segmented().then(|| {
                let name = format!("{name}_cut");
                Memory::declare(k, &name, (output.dtype, batching), window)
            });
            return Destination::Map(MappedTile { map, layout, list, window, cut });
        }
        if let Some(Destination::Direct(other)) = like {
            return Destination::Direct(Memory::declare_like(k, &name, output.dtype, other));
        }
        let window = self.window(window, program.output_run(output));
        let memory = Memory::declare(k, &name, (output.dtype, batching), window);
        match self.schedule.needs.epilogue_stores[place].slot_major() {
            Some(major) => {
                let layout = SlotLayout::of_output(self.schedule, output.dtype, major);
                Destination::Coalesced(CoalescedTile { layout, memory })
            }
            None => Destination::Direct(memory),
        }
    }
}

/// A, and B of every product.
fn operands<'k, C: Tma>(
    k: Kernel<'k, C>,
    graph: &Graph,
    schedule: &Sm90Schedule,
) -> Vec<Operand<'k>> {
    let Some(product) = graph.products().first() else { return Vec::new() };
    let declared = |input: InputId| {
        let source = narrow_source(graph, input).unwrap_or(input);
        let listed = schedule.needs.lists.dim_of_input(graph, source);
        (graph.inputs()[input.0 as usize].dtype, Batching::of(graph.space(), listed))
    };
    let rights = graph.products().iter().map(|product| product.right.0);
    let inputs = [product.left.0].into_iter().chain(rights).map(declared);
    let operand = |(place, (part, input))| match place {
        0 => Operand::declare(k, "left", part, input),
        1 => Operand::declare(k, "right", part, input),
        2 => Operand::declare(k, "second_right", part, input),
        _ => Operand::declare(k, &format!("right{place}"), part, input),
    };
    Part::of(schedule).into_iter().zip(inputs).enumerate().map(operand).collect()
}

impl<'k> Parameters<'k> {
    pub(super) fn declare<C: Tma>(
        k: Kernel<'k, C>,
        program: &TileProgram,
        schedule: &Sm90Schedule,
    ) -> Parameters<'k> {
        let graph = program.graph();
        let operands = operands(k, graph, schedule);
        let scales = ScaleParameter::declare_all(k, graph, &schedule.needs.lists);
        let widened = widened_operand(graph);
        let widened = widened.and_then(|(_, id)| Widened::of(&graph.inputs()[id.0 as usize]));
        let batching = |name: &str| {
            let input = InputId(graph.place_of(name) as u32);
            Batching::of(graph.space(), schedule.needs.lists.dim_of_input(graph, input))
        };
        let shared_values = widened.map(|widened| SharedValues::declare(k, widened, batching));
        let number = |name: &str| k.parameter_u32(name).load();
        let [rows, columns] = ["rows", "columns"].map(number);
        let inner = if operands.is_empty() { k.imm(0) } else { number("inner") };
        let batches = number("batches");
        let batch_dims = BatchDims::declare(k, graph.space());
        let lists = graph.ends().or(graph.contraction_ends()).or(graph.row_counts());
        let ends = lists.map(|input| Ends::declare(k, graph.inputs()[input.0 as usize].dtype));
        let [group, along_m] = ["group", "columns_grouped"].map(number);
        let divisors = (!graph.space().is_segmented()).then(|| RasterDivisors {
            batch: Divisor::declare(k, "batch_tiles"),
            group: Divisor::declare(k, "group_tiles"),
            height: Divisor::declare(k, "height"),
            last_height: Divisor::declare(k, "last_height"),
        });
        let sizes = program.sizes.iter().enumerate();
        let sizes =
            sizes.map(|(place, dim)| (dim.clone(), number(&format!("size{place}")))).collect();
        let windows: Vec<[Reg<'k, U32>; 2]> = (0..program.windows())
            .map(|window| ["start", "columns"].map(|of| number(&format!("window{window}_{of}"))))
            .collect();
        let tensors = Tensors { k, program, schedule, windows };
        let shared = SharedStrides::of(program, &schedule.needs);
        let mut sources: Vec<(InputId, Source<'k>)> = Vec::new();
        for (input, like) in program.body_inputs.iter().zip(shared.inputs) {
            let like = like.map(|place| &sources[place].1);
            let source = tensors.source(*input, like);
            sources.push((*input, source));
        }
        let mut destinations = Vec::new();
        for (place, like) in shared.outputs.into_iter().enumerate() {
            let destination = match destinations.last() {
                Some(Destination::Direct(before)) if shared.implied[place] => {
                    Destination::Direct(before.clone())
                }
                _ => tensors.destination(place, like.map(|place| &destinations[place])),
            };
            destinations.push(destination);
        }
        let names = ["counters", "row_parts", "column_parts", "scalar_parts"];
        let workspace =
            schedule.needs.folds.any().then(|| names.map(|name| k.parameter_pointer(name)));
        let counter = schedule.is_dynamic().then(|| k.parameter_pointer("tiles_taken"));
        let slices = (schedule.split_k_slices > 1).then(|| SliceParameters {
            count: number("slices"),
            by_count: Divisor::declare(k, "slices"),
            whole: number("whole_clusters"),
            sums: k.parameter_pointer("partial_sums"),
        });
        Parameters {
            operands,
            scales,
            shared_values,
            rows,
            columns,
            inner,
            batches,
            batch_dims,
            ends,
            group,
            along_m,
            divisors,
            sizes,
            sources,
            destinations,
            workspace,
            counter,
            slices,
        }
    }

    pub(super) fn prefetch(&self) {
        self.operands.iter().for_each(Operand::prefetch);
        for (_, source) in &self.sources {
            if let Source::Map(tile) = source {
                tile.map.prefetch();
            }
        }
        for destination in &self.destinations {
            if let Destination::Map(tile) = destination {
                tile.map.prefetch();
            }
        }
    }
}
