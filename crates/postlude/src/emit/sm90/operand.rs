//! An operand of the product on its way into a stage: by tensor maps, or element by element.
//!
//! Every feed but one leaves rows of 128 bytes along the contraction, swizzled; `Outer` leaves slabs of 64 rows, each 64
//! deep, whose lines of 128 bytes run along the rows.

mod elements;

use postlude_ptx::kernel::{
    Kernel, MapParameter, NumberParameter, Policy, Reg, SharedAddress, TensorMap,
};
use postlude_ptx::ring::{Receivers, Slot};
use postlude_ptx::target::Sm90a;
use postlude_ptx::types::U32;

use crate::dtype::DType;
use crate::plan::sm90::{Feed, STAGE_DEPTH, STAGGER};

use super::parameters::Memory;

pub(super) use elements::Elements;

/// Bytes of a row or a line of a stage.
pub(super) const LINE_BYTES: u32 = 128;
/// Rows of a slab, and of the blocks that A's rows are staggered in.
const BLOCK: u32 = 64;

/// An operand's part of a stage.
#[derive(Clone, Copy)]
pub(super) struct Part {
    pub(super) feed: Feed,
    /// Rows of A's tile, or columns of B's.
    pub(super) size: u32,
    /// CTAs that load it together, each a share for all.
    pub(super) sharers: u32,
    /// Rows among which staggering changes the order: A's by blocks, since each is one warpgroup's; B's all.
    pub(super) span: u32,
    /// Bytes from the stage's start.
    pub(super) offset: u32,
}

impl Part {
    /// A's and B's of a stage.
    pub(super) fn of(schedule: &crate::plan::sm90::Sm90Schedule) -> [Part; 2] {
        let tile = schedule.tile;
        let [left, right] = schedule.needs.operands;
        [
            Part {
                feed: left,
                size: tile.rows,
                sharers: tile.cluster.columns(),
                span: BLOCK,
                offset: 0,
            },
            Part {
                feed: right,
                size: tile.columns,
                sharers: tile.cluster.rows(),
                span: tile.columns,
                offset: tile.rows * LINE_BYTES,
            },
        ]
    }

    /// The box of one copy: innermost first, without the batch.
    pub(super) fn box_sizes(&self) -> [u32; 2] {
        match self.feed {
            Feed::Inner => [STAGE_DEPTH, self.size / self.sharers],
            Feed::Outer => [BLOCK, STAGE_DEPTH / self.sharers],
            Feed::Staggered => [STAGE_DEPTH, self.span / STAGGER / self.sharers],
            Feed::InnerElements | Feed::OuterElements => {
                panic!("compiler bug: a box of what no map copies")
            }
        }
    }
}

/// What the kernel gets of an operand.
pub(super) enum Given<'k> {
    Map(MapParameter<'k>),
    /// A map for every class of rows, and the elements before each class's first.
    Staggered(Vec<(MapParameter<'k>, NumberParameter<'k, U32>)>),
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
        let given = match part.feed {
            Feed::Inner | Feed::Outer => Given::Map(k.parameter_map(name)),
            Feed::Staggered => {
                let class = |class: u32| {
                    let map = k.parameter_map(&format!("{name}{class}"));
                    (map, k.parameter_u32(&format!("{name}{class}_before")))
                };
                Given::Staggered((0..STAGGER).map(class).collect())
            }
            Feed::InnerElements | Feed::OuterElements => {
                Given::Memory(Memory::declare(k, name, dtype))
            }
        };
        Operand { part, given, batched: k.parameter_u32(&format!("{name}_batched")) }
    }

    pub(super) fn prefetch(&self) {
        match &self.given {
            Given::Map(map) => map.prefetch(),
            Given::Staggered(classes) => classes.iter().for_each(|(map, _)| map.prefetch()),
            Given::Memory(_) => {}
        }
    }

    /// Its copies, if copies bring it in.
    pub(super) fn copies(&self, policy: Option<Policy<'k>>) -> Option<Copies<'k>> {
        let sources = match &self.given {
            Given::Map(map) => vec![(map.address(), None)],
            Given::Staggered(classes) => {
                let class = |(map, before): &(MapParameter<'k>, NumberParameter<'k, U32>)| {
                    (map.address(), Some(before.load()))
                };
                classes.iter().map(class).collect()
            }
            Given::Memory(_) => return None,
        };
        Some(Copies { part: self.part, sources, policy })
    }
}

/// The copies that bring an operand's part of a stage in.
pub(super) struct Copies<'k> {
    part: Part,
    sources: Vec<(TensorMap<'k>, Option<Reg<'k, U32>>)>,
    policy: Option<Policy<'k>>,
}

impl<'k> Copies<'k> {
    /// Issues the copies of one stage; `rank` says which share is this CTA's.
    pub(super) fn issue(
        &self,
        slot: &Slot<'_, 'k, Sm90a>,
        stage: SharedAddress<'k>,
        rank: Reg<'k, U32>,
        at: Piece<'k>,
    ) {
        let part = self.part;
        let [inner, outer] = part.box_sizes();
        let (bytes, share) = (inner * outer * 2, outer * LINE_BYTES);
        let receivers = match part.sharers {
            1 => Receivers::Own,
            count => Receivers::Multicast { mask: ((1u16 << count) - 1).into(), count },
        };
        // A share's place among the sharers', in rows and in bytes.
        let own = (part.sharers > 1).then_some(rank);
        let beside = |from: Reg<'k, U32>| own.map_or(from, |rank| rank.mad(outer, from));
        let to = stage + part.offset;
        let to = own.map_or(to, |rank| to + rank * share);
        let copy = |map, coordinates: [Reg<'k, U32>; 3], offset: u32| {
            slot.load(
                to + offset,
                map,
                &coordinates.map(Into::into),
                bytes,
                receivers,
                self.policy,
            );
        };
        match part.feed {
            Feed::Inner => {
                copy(self.sources[0].0, [at.depth, beside(at.first), at.batch], 0);
            }
            Feed::Outer => {
                let depth = beside(at.depth);
                for slab in 0..part.size / BLOCK {
                    let place = [at.first + slab * BLOCK, depth, at.batch];
                    copy(self.sources[0].0, place, slab * BLOCK * LINE_BYTES);
                }
            }
            Feed::Staggered => {
                let rows = part.span / STAGGER;
                let first = beside(at.first >> STAGGER.trailing_zeros());
                for span in 0..part.size / part.span {
                    for (class, (map, before)) in (0..).zip(&self.sources) {
                        let depth = before.map_or(at.depth, |before| at.depth + before);
                        let offset = (span * part.span + class * rows) * LINE_BYTES;
                        copy(*map, [depth, first + span * rows, at.batch], offset);
                    }
                }
            }
            Feed::InnerElements | Feed::OuterElements => {
                panic!("compiler bug: copies of what no map describes")
            }
        }
    }
}
