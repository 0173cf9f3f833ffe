//! The kernel's parameters, declared once; `launch` passes them in the same order.

use postlude_ptx::kernel::{
    GlobalPointer, Kernel, MapParameter, NumberParameter, PointerParameter, Reg,
};
use postlude_ptx::target::Sm90a;
use postlude_ptx::types::{F32, U32, U64};

use crate::dtype::DType;
use crate::graph::{Graph, InputId};
use crate::plan::sm90::{EpilogueTransfer, Sm90Schedule, body_inputs, tile_operands};

use super::operand::{Operand, Part, Staggered};
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
}

/// A tensor in memory: its address, and the bytes between neighbours along batch, rows and columns; of packed bits, the
/// bits.
pub(super) struct Memory<'k> {
    pub(super) dtype: DType,
    pointer: PointerParameter<'k>,
    strides: [NumberParameter<'k, U64>; 3],
}

/// Where an element lies.
#[derive(Clone, Copy)]
pub(super) enum Location<'k> {
    /// At an address.
    Bytes(GlobalPointer<'k>),
    /// So many bits behind an address.
    Bit { start: GlobalPointer<'k>, index: Reg<'k, U64> },
}

impl<'k> Location<'k> {
    /// The address of an element of whole bytes.
    pub(super) fn pointer(self) -> GlobalPointer<'k> {
        match self {
            Location::Bytes(pointer) => pointer,
            Location::Bit { .. } => panic!("compiler bug: the address of a bit"),
        }
    }

    /// The byte that holds a bit, and the bit's place in it.
    pub(super) fn byte(self, k: Kernel<'k, Sm90a>) -> (GlobalPointer<'k>, Reg<'k, U32>) {
        match self {
            Location::Bit { start, index } => (start + (index >> 3), k.truncate(index) & 7),
            Location::Bytes(_) => panic!("compiler bug: a bit of whole bytes"),
        }
    }
}

/// How an output is stored.
pub(super) enum Destination<'k> {
    /// By TMA through shared memory.
    Map(MappedTile<'k>),
    /// Element by element.
    Direct(Memory<'k>),
}

pub(super) struct Parameters<'k> {
    /// A, and B of every product.
    pub(super) operands: Vec<Operand<'k>>,
    pub(super) rows: Reg<'k, U32>,
    pub(super) columns: Reg<'k, U32>,
    pub(super) inner: Reg<'k, U32>,
    pub(super) batches: Reg<'k, U32>,
    /// The raster: clusters of a group, and 1 where groups advance along M.
    pub(super) group: Reg<'k, U32>,
    pub(super) along_m: Reg<'k, U32>,
    pub(super) sources: Vec<(InputId, Source<'k>)>,
    pub(super) destinations: Vec<Destination<'k>>,
    /// Counters of partial results, then those along rows, along columns and of scalars.
    pub(super) workspace: Option<[PointerParameter<'k>; 4]>,
}

impl<'k> Parameters<'k> {
    pub(super) fn declare(
        k: Kernel<'k, Sm90a>,
        graph: &Graph,
        schedule: &Sm90Schedule,
    ) -> Parameters<'k> {
        let dtype = |input: InputId| graph.inputs()[input.0 as usize].dtype;
        let product = graph.product();
        let (left, right) = (dtype(product.left.0), dtype(product.right.0));
        let operands = Part::of(schedule)
            .into_iter()
            .enumerate()
            .map(|(place, part)| match place {
                0 => Operand::declare(k, "left", part, left),
                1 => Operand::declare(k, "right", part, right),
                2 => Operand::declare(k, "second_right", part, right),
                _ => Operand::declare(k, &format!("right{place}"), part, right),
            })
            .collect();
        let number = |name: &str| k.parameter_u32(name).load();
        let [rows, columns, inner, batches] = ["rows", "columns", "inner", "batches"].map(number);
        let [group, along_m] = ["group", "columns_grouped"].map(number);
        let tiles = tile_operands(graph);
        let sources = body_inputs(graph)
            .into_iter()
            .map(|input| {
                let declared = &graph.inputs()[input.0 as usize];
                let name = format!("input{}", input.0);
                let tile = tiles.iter().position(|tile| *tile == input);
                let major = tile.and_then(|tile| schedule.needs.epilogue_loads[tile].major());
                let layout = major.map(|major| SlotLayout::new(schedule, declared.dtype, major));
                let source = match (&declared.dims, layout) {
                    (None, _) => Source::Host(k.parameter_f32(&name)),
                    (Some(_), Some(layout)) => {
                        Source::Map(MappedTile { map: k.parameter_map(&name), layout })
                    }
                    (Some(_), None) => Source::Memory(Memory::declare(k, &name, declared.dtype)),
                };
                (input, source)
            })
            .collect();
        let destinations = graph
            .outputs()
            .iter()
            .enumerate()
            .map(|(place, output)| {
                let name = format!("output{place}");
                match schedule.needs.epilogue_stores[place].major() {
                    Some(major) => {
                        let layout = SlotLayout::of_output(schedule, output.dtype, major);
                        Destination::Map(MappedTile { map: k.parameter_map(&name), layout })
                    }
                    None => Destination::Direct(Memory::declare(k, &name, output.dtype)),
                }
            })
            .collect();
        let names = ["counters", "row_parts", "column_parts", "scalar_parts"];
        let workspace =
            schedule.needs.folds.any().then(|| names.map(|name| k.parameter_pointer(name)));
        Parameters {
            operands,
            rows,
            columns,
            inner,
            batches,
            group,
            along_m,
            sources,
            destinations,
            workspace,
        }
    }

    /// What is staggered of A and B, one behind the other where both arrive.
    pub(super) fn staggered(&self, k: Kernel<'k, Sm90a>) -> [Option<Staggered<'_, 'k>>; 2] {
        let left = self.operands[0].staggered(k, 0);
        let behind = left.as_ref().map_or(0, Staggered::bytes);
        // Several products never have it.
        [left, self.operands[1].staggered(k, behind)]
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

impl<'k> Memory<'k> {
    pub(super) fn declare(k: Kernel<'k, Sm90a>, name: &str, dtype: DType) -> Memory<'k> {
        let pointer = k.parameter_pointer(name);
        let strides =
            ["batch", "row", "column"].map(|along| k.parameter_u64(&format!("{name}_{along}")));
        Memory { dtype, pointer, strides }
    }

    /// The element at a place; coordinates that the tensor does not have are multiplied by a stride of 0.
    pub(super) fn element(&self, k: Kernel<'k, Sm90a>, place: [Reg<'k, U32>; 3]) -> Location<'k> {
        let start = self.pointer.load();
        let steps = place.into_iter().zip(self.strides);
        let steps = steps.map(|(coordinate, stride)| k.widen(coordinate) * stride.load());
        match self.dtype {
            DType::B1 => {
                Location::Bit { start, index: steps.fold(k.imm(0), |index, step| index + step) }
            }
            _ => Location::Bytes(steps.fold(start, |address, step| address + step)),
        }
    }

    /// An element that lies this many columns behind another, whatever is between two.
    pub(super) fn beyond(&self, from: Location<'k>, columns: u32) -> Location<'k> {
        self.along(from, EpilogueTransfer::Strided, columns)
    }

    /// An element that lies this many columns behind another.
    pub(super) fn along(
        &self,
        from: Location<'k>,
        transfer: EpilogueTransfer,
        columns: u32,
    ) -> Location<'k> {
        let strided = || self.strides[2].load() * u64::from(columns);
        match (transfer, from) {
            (EpilogueTransfer::Tma | EpilogueTransfer::Contiguous, Location::Bytes(pointer)) => {
                let bytes = i64::from(columns) * self.dtype.bits() as i64 / 8;
                Location::Bytes(pointer.offset(bytes))
            }
            (
                EpilogueTransfer::Tma | EpilogueTransfer::Contiguous,
                Location::Bit { start, index },
            ) => {
                let start = start.offset(i64::from(columns / 8));
                let index = match columns % 8 {
                    0 => index,
                    within => index + u64::from(within),
                };
                Location::Bit { start, index }
            }
            (
                EpilogueTransfer::TmaTransposed
                | EpilogueTransfer::Strided
                | EpilogueTransfer::Finished,
                Location::Bytes(pointer),
            ) => Location::Bytes(pointer + strided()),
            (
                EpilogueTransfer::TmaTransposed
                | EpilogueTransfer::Strided
                | EpilogueTransfer::Finished,
                Location::Bit { start, index },
            ) => Location::Bit { start, index: index + strided() },
        }
    }
}
