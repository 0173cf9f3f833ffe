//! Loads of an operand of the product into a stage: by TMA, or element by element.
//!
//! Every load but one leaves rows of 128 bytes along K, swizzled; `TmaMnMajor` leaves slabs of 64 rows, each 64 deep, whose
//! lines of 128 bytes run along the rows.

mod elements;
mod staggered;

use postlude_ptx::kernel::{
    Kernel, MapParameter, NumberParameter, Policy, Reg, SharedAddress, TensorMap,
};
use postlude_ptx::launch::Swizzle;
use postlude_ptx::ring::{Grid, Receivers, Slot};
use postlude_ptx::target::Sm90a;
use postlude_ptx::types::U32;

use crate::dtype::DType;
use crate::plan::sm90::{
    OPERAND_BYTES, OperandLoad, STAGE_DEPTH, STAGE_ROW_BYTES, STAGGER, Sm90Schedule,
};

use super::parameters::Memory;
use super::tile_scheduler;

pub(super) use elements::Elements;
use staggered::Classes;
pub(super) use staggered::{Mover, Staggered, shift};

/// Bytes of a row or a line of a stage.
pub(super) const LINE_BYTES: u32 = STAGE_ROW_BYTES;
/// Rows of a slab.
const BLOCK: u32 = 64;

/// An operand's part of a stage.
#[derive(Clone, Copy)]
pub(super) struct Part {
    pub(super) load: OperandLoad,
    /// Rows of A's tile, or columns of B's.
    pub(super) size: u32,
    /// CTAs that it is multicast to, each of which loads a part for all: A over a row of the cluster, B over a column.
    pub(super) multicast: u32,
    pub(super) along: Along,
    /// Bytes from the stage's start.
    pub(super) offset: u32,
}

/// Which CTAs of a cluster an operand is multicast to.
#[derive(Clone, Copy)]
pub(super) enum Along {
    Row(Grid),
    Column(Grid),
}

impl Part {
    /// A's of a stage, and B's of every product, one behind the other.
    pub(super) fn of(schedule: &Sm90Schedule) -> Vec<Part> {
        let (tile, size) = (schedule.tile, schedule.width());
        let [left, load] = schedule.needs.operands;
        let grid = tile_scheduler::grid(tile.cluster);
        let left = Part {
            load: left,
            size: tile.rows,
            multicast: grid.columns,
            along: Along::Row(grid),
            offset: 0,
        };
        let right = |product: u32| Part {
            load,
            size,
            multicast: grid.rows,
            along: Along::Column(grid),
            offset: (tile.rows + product * size) * LINE_BYTES,
        };
        [left].into_iter().chain((0..schedule.needs.products).map(right)).collect()
    }

    /// For the CTA at this row and column of its cluster: its number among those that the operand is multicast to, and all
    /// of them.
    fn receivers<'k>(
        &self,
        k: Kernel<'k, Sm90a>,
        [row, column]: [Reg<'k, U32>; 2],
    ) -> Option<(Reg<'k, U32>, Receivers<'k>)> {
        let count = self.multicast;
        if count == 1 {
            return None;
        }
        let (own, among, others, step) = match self.along {
            Along::Row(grid) => (column, row, grid.rows, grid.rows),
            Along::Column(grid) => (row, column * grid.rows, grid.columns, 1),
        };
        let first: u16 = (0..count).map(|each| 1 << (each * step)).sum();
        let mask = match others {
            1 => first.into(),
            _ => k.truncate_u16(k.imm(u32::from(first)) << among).into(),
        };
        Some((own, Receivers::Multicast { mask, count }))
    }

    /// The swizzle of its TMA loads.
    pub(super) fn swizzle(&self) -> Swizzle {
        if self.load == OperandLoad::Staggered { Swizzle::None } else { Swizzle::B128 }
    }

    /// The box of one copy: innermost first, without the batch.
    pub(super) fn box_sizes(&self) -> [u32; 2] {
        match self.load {
            OperandLoad::TmaKMajor => [STAGE_DEPTH, self.size / self.multicast],
            OperandLoad::TmaMnMajor => [BLOCK, STAGE_DEPTH / self.multicast],
            OperandLoad::Staggered => [STAGE_DEPTH + STAGGER, self.size / STAGGER],
            OperandLoad::ElementsKMajor | OperandLoad::ElementsMnMajor => {
                panic!("compiler bug: a box of what no map copies")
            }
        }
    }
}

/// What the kernel gets of an operand.
pub(super) enum Given<'k> {
    Map(MapParameter<'k>),
    Staggered(Classes<'k>),
    Memory(Memory<'k>),
}

/// An operand as the load roles see it.
pub(super) struct Operand<'k> {
    pub(super) part: Part,
    pub(super) given: Given<'k>,
    /// 1 where it has the batch dim, else 0: what a batch's number is multiplied by.
    pub(super) batched: NumberParameter<'k, U32>,
}

/// Which piece of an operand a stage holds.
#[derive(Clone, Copy)]
pub(super) struct Piece<'k> {
    /// The first row of A or column of B.
    pub(super) first: Reg<'k, U32>,
    /// The first element along the contraction.
    pub(super) depth: Reg<'k, U32>,
    pub(super) batch: Reg<'k, U32>,
}

impl<'k> Operand<'k> {
    pub(super) fn declare(k: Kernel<'k, Sm90a>, name: &str, part: Part, dtype: DType) -> Self {
        let given = match part.load {
            OperandLoad::TmaKMajor | OperandLoad::TmaMnMajor => Given::Map(k.parameter_map(name)),
            OperandLoad::Staggered => Given::Staggered(Classes::declare(k, name)),
            OperandLoad::ElementsKMajor | OperandLoad::ElementsMnMajor => {
                Given::Memory(Memory::declare(k, name, dtype))
            }
        };
        Operand { part, given, batched: k.parameter_u32(&format!("{name}_batched")) }
    }

    pub(super) fn prefetch(&self) {
        match &self.given {
            Given::Map(map) => map.prefetch(),
            Given::Staggered(classes) => classes.prefetch(),
            Given::Memory(_) => {}
        }
    }

    /// Its TMA loads, if TMA loads it.
    pub(super) fn copies(
        &self,
        k: Kernel<'k, Sm90a>,
        policy: Option<Policy<'k>>,
        place: [Reg<'k, U32>; 2],
    ) -> Option<Copies<'k>> {
        match &self.given {
            Given::Map(map) => {
                let (part, multicast) = (self.part, self.part.receivers(k, place));
                Some(Copies { part, map: map.address(), policy, multicast })
            }
            Given::Staggered(_) | Given::Memory(_) => None,
        }
    }

    /// The same operand as it arrives this many bytes behind a slot's start, if it is staggered.
    pub(super) fn staggered(&self, k: Kernel<'k, Sm90a>, offset: u32) -> Option<Staggered<'_, 'k>> {
        match &self.given {
            Given::Staggered(classes) => Some(Staggered { k, part: self.part, classes, offset }),
            Given::Map(_) | Given::Memory(_) => None,
        }
    }
}

/// The TMA loads of an operand's part of a stage.
pub(super) struct Copies<'k> {
    part: Part,
    map: TensorMap<'k>,
    policy: Option<Policy<'k>>,
    /// This CTA's number among the receivers, and all of them.
    multicast: Option<(Reg<'k, U32>, Receivers<'k>)>,
}

impl<'k> Copies<'k> {
    /// Issues those of one stage.
    pub(super) fn issue(
        &self,
        slot: &Slot<'_, 'k, Sm90a>,
        stage: SharedAddress<'k>,
        at: Piece<'k>,
    ) {
        let part = self.part;
        let [inner, outer] = part.box_sizes();
        let (bytes, part_bytes) = (inner * outer * OPERAND_BYTES, outer * LINE_BYTES);
        let receivers = self.multicast.map_or(Receivers::Own, |(_, receivers)| receivers);
        // Where the part that this CTA loads for all begins, in rows and in bytes.
        let own = self.multicast.map(|(own, _)| own);
        let beside = |from: Reg<'k, U32>| own.map_or(from, |rank| rank.mad(outer, from));
        let to = stage + part.offset;
        let to = own.map_or(to, |rank| to + rank * part_bytes);
        let copy = |coordinates: [Reg<'k, U32>; 3], offset: u32| {
            slot.load(
                to + offset,
                self.map,
                &coordinates.map(Into::into),
                bytes,
                receivers,
                self.policy,
            );
        };
        match part.load {
            OperandLoad::TmaKMajor => {
                copy([at.depth, beside(at.first), at.batch], 0);
            }
            OperandLoad::TmaMnMajor => {
                let depth = beside(at.depth);
                for slab in 0..part.size / BLOCK {
                    let place = [at.first + slab * BLOCK, depth, at.batch];
                    copy(place, slab * BLOCK * LINE_BYTES);
                }
            }
            OperandLoad::Staggered | OperandLoad::ElementsKMajor | OperandLoad::ElementsMnMajor => {
                panic!("compiler bug: copies of what threads write")
            }
        }
    }
}
