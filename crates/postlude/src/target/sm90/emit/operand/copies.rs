//! The TMA loads of an operand.

use postlude_ptx::kernel::{Policy, Reg, SharedAddress, TensorMap};
use postlude_ptx::ring::{Receivers, Slot};
use postlude_ptx::target::Sm90a;
use postlude_ptx::types::U32;

use crate::target::sm90::plan::OperandLoad;

use super::part::{BLOCK, LINE_BYTES, Part, Piece};

/// The TMA loads of an operand's part of a stage.
pub(crate) struct Copies<'k> {
    pub(super) part: Part,
    pub(super) map: TensorMap<'k>,
    pub(super) policy: Option<Policy<'k>>,
    /// This CTA's number among the receivers, and all of them.
    pub(super) multicast: Option<(Reg<'k, U32>, Receivers<'k>)>,
}

impl<'k> Copies<'k> {
    /// Issues those of one stage.
    pub(crate) fn issue(
        &self,
        slot: &Slot<'_, 'k, Sm90a>,
        stage: SharedAddress<'k>,
        at: Piece<'k>,
    ) {
        let part = self.part;
        let [inner, outer] = part.box_sizes();
        let (bytes, part_bytes) = (inner * outer * (LINE_BYTES / part.depth), outer * LINE_BYTES);
        let receivers = self.multicast.map_or(Receivers::Own, |(_, receivers)| receivers);
        // Where the part that this CTA loads for all begins, in rows and in bytes.
        let own = self.multicast.map(|(own, _)| own);
        let beside = |from: Reg<'k, U32>| own.map_or(from, |rank| rank.mad(outer, from));
        let to = stage + part.offset;
        let to = own.map_or(to, |rank| to + rank * part_bytes);
        let copy = |matrix: [Reg<'k, U32>; 2], offset: u32| {
            let coordinates = matrix.into_iter().chain(at.mapped_batch.places());
            let coordinates: Vec<_> = coordinates.map(Into::into).collect();
            slot.load(to + offset, self.map, &coordinates, bytes, receivers, self.policy);
        };
        match part.load {
            OperandLoad::TmaKMajor => {
                copy([at.depth, beside(at.first)], 0);
            }
            OperandLoad::TmaMnMajor => {
                let depth = beside(at.depth);
                for slab in 0..part.size / BLOCK {
                    let place = [at.first + slab * BLOCK, depth];
                    copy(place, slab * BLOCK * LINE_BYTES);
                }
            }
            OperandLoad::Staggered
            | OperandLoad::ElementsKMajor
            | OperandLoad::ElementsMnMajor
            | OperandLoad::VectorsKMajor
            | OperandLoad::Widened4
            | OperandLoad::Widened8 => {
                panic!("compiler bug: copies of what threads write")
            }
        }
    }
}
