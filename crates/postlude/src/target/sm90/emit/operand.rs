//! Loads of an operand of the product into a stage: by TMA, or element by element.
//!
//! Every load but one leaves rows of 128 bytes along K, swizzled; `TmaMnMajor` leaves slabs of 64 rows, each 64 deep, whose
//! lines of 128 bytes run along the rows.

mod copies;
mod elements;
mod part;
mod staggered;

use postlude_ptx::kernel::{Kernel, MapParameter, NumberParameter, Policy, Reg, TensorMap};
use postlude_ptx::target::{Sm90a, Tma};
use postlude_ptx::types::U32;

use crate::dtype::DType;
use crate::target::sm90::plan::OperandLoad;

use super::batch::{Batching, ListTable, parameter_name};
use super::memory::Memory;
pub(super) use copies::Copies;
pub(super) use elements::Elements;
pub(super) use part::{LINE_BYTES, Part, Piece, grid};
use staggered::Classes;
pub(super) use staggered::{Mover, Staggered, shift};

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
    /// 1 for each batch dim that it has, else 0: what a batch's place is multiplied by. The last dim comes first.
    pub(super) batched: Vec<NumberParameter<'k, U32>>,
    /// Where TMA loads it from a list.
    pub(super) list: Option<ListTable<'k>>,
}

impl<'k> Operand<'k> {
    pub(super) fn declare<C: Tma>(
        k: Kernel<'k, C>,
        name: &str,
        part: Part,
        (dtype, batching): (DType, Batching),
    ) -> Self {
        let dims = batching.dims();
        let given = match part.load {
            OperandLoad::TmaKMajor
            | OperandLoad::TmaMnMajor
            | OperandLoad::Widened4
            | OperandLoad::Widened8 => Given::Map(k.parameter_map(name)),
            OperandLoad::Staggered => Given::Staggered(Classes::declare(k, name)),
            OperandLoad::ElementsKMajor
            | OperandLoad::ElementsMnMajor
            | OperandLoad::VectorsKMajor => {
                Given::Memory(Memory::declare(k, name, (dtype, batching), None))
            }
        };
        let flag = format!("{name}_batched");
        let batched = (0..dims).rev().map(|dim| k.parameter_u32(&parameter_name(&flag, dim, dims)));
        let batched = batched.collect();
        let list = match given {
            Given::Map(_) | Given::Staggered(_) => batching.declare_table(k, name),
            Given::Memory(_) => None,
        };
        Operand { part, given, batched, list }
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
            Given::Map(_) if self.part.load.is_widened() => None,
            Given::Map(map) => {
                let (part, multicast) = (self.part, self.part.receivers(k, place));
                Some(Copies { part, map: map.address(), policy, multicast })
            }
            Given::Staggered(_) | Given::Memory(_) => None,
        }
    }

    /// The map of its narrow elements, if load warps widen them.
    pub(super) fn narrow(&self) -> Option<TensorMap<'k>> {
        match &self.given {
            Given::Map(map) if self.part.load.is_widened() => Some(map.address()),
            Given::Map(_) | Given::Staggered(_) | Given::Memory(_) => None,
        }
    }

    /// The same operand as it arrives this many bytes behind a slot's start, if it is staggered.
    pub(super) fn staggered(&self, k: Kernel<'k, Sm90a>, offset: u32) -> Option<Staggered<'_, 'k>> {
        match &self.given {
            Given::Staggered(classes) => Some(Staggered { k, part: self.part, classes, offset }),
            Given::Map(_) | Given::Memory(_) => None,
        }
    }

    /// Its elements, if threads bring it in; `thread` counts in the load warpgroup.
    pub(super) fn elements(
        &self,
        k: Kernel<'k, Sm90a>,
        size: Reg<'k, U32>,
        thread: Reg<'k, U32>,
    ) -> Option<Elements<'_, 'k>> {
        match &self.given {
            Given::Memory(memory) => Some(Elements::new(k, (self.part, memory), size, thread)),
            Given::Map(_) | Given::Staggered(_) => None,
        }
    }
}
