//! The load roles: one warp keeps the ring of the product full, one for each warpgroup that multiplies its tile operands'.
//! Where an operand has to be read element by element, the whole load warpgroup keeps the product's ring full.

use postlude_ptx::kernel::{Kernel, Reg, SharedAddress, TensorMap};
use postlude_ptx::modifier::Eviction;
use postlude_ptx::ring::{Receivers, Ring};
use postlude_ptx::target::Sm90a;
use postlude_ptx::types::U32;

use crate::plan::sm90::{Hints, SLOT_ROWS, STAGE_DEPTH, Sharing};

use super::Plan;
use super::operand::{Elements, Moved, Piece};
use super::parameters::{Parameters, Source};
use super::parts;
use super::raster::{Corner, Raster};
use super::slot::SlotLayout;

/// Warps that move staggered rows: all of the load warpgroup but one.
pub(super) const MOVERS: u32 = 3;

/// Runs `body` for every step of every tile, with the pieces of A and B.
fn for_steps<'k>(
    k: Kernel<'k, Sm90a>,
    parameters: &Parameters<'k>,
    raster: &Raster<'k>,
    body: impl FnOnce([Piece<'k>; 2]),
) {
    // Without a contraction the one step reads beyond the operands' only column, where there are zeros.
    let first = k.imm(STAGE_DEPTH).select(0, parameters.inner.eq(0));
    let first = raster.first_step().map_or(first, |step| step.mad(STAGE_DEPTH, first));
    let batched = parameters.operands.each_ref().map(|operand| operand.batched.load());
    raster.for_each(|corner: &Corner<'k>| {
        let batches = batched.map(|batched| corner.batch * batched);
        k.for_(0, raster.steps, 1, |step| {
            let depth = step.mad(STAGE_DEPTH, first);
            body([
                Piece { first: corner.row, depth, batch: batches[0] },
                Piece { first: corner.column, depth, batch: batches[1] },
            ]);
        });
        if raster.first_step().is_some() {
            parts::attend(k);
        }
    });
}

/// One warp's role: copies of A and B.
pub(super) fn load<'k>(
    k: Kernel<'k, Sm90a>,
    plan: &Plan<'_>,
    parameters: &Parameters<'k>,
    raster: &Raster<'k>,
    ring: &Ring<'k, Sm90a>,
) {
    let stages = k.region(&plan.stages);
    let policy = (plan.schedule.hints == Hints::Operands).then(|| k.policy(Eviction::Last));
    let copies: Vec<_> = parameters
        .operands
        .iter()
        .filter_map(|operand| operand.copies(k, policy, raster.place()))
        .collect();
    let at = ring.producer();
    for_steps(k, parameters, raster, |pieces| {
        ring.produce_by_warp(&at, |slot| {
            let stage = stages + slot.stage * plan.schedule.stage_bytes();
            for (copies, place) in copies.iter().zip(pieces) {
                copies.issue(slot, stage, place);
            }
        });
    });
}

/// The load warpgroup's role where A or B comes element by element; what copies can bring in, its first thread has copied.
pub(super) fn load_elements<'k>(
    k: Kernel<'k, Sm90a>,
    plan: &Plan<'_>,
    parameters: &Parameters<'k>,
    raster: &Raster<'k>,
    ring: &Ring<'k, Sm90a>,
) {
    let thread = k.thread();
    let limits = [parameters.rows, parameters.columns].map(|size| [size, parameters.inner]);
    let elements: Vec<Option<Elements<'_, 'k>>> = (parameters.operands.iter().zip(limits))
        .map(|(operand, limits)| Elements::of(k, operand, limits, thread))
        .collect();
    let writers = Writers { plan, parameters, raster, ring, first: 0 };
    writers.write(k, |stage, pieces| {
        for (elements, piece) in elements.iter().zip(pieces) {
            if let Some(elements) = elements {
                elements.bring(stage, piece);
            }
        }
    });
}

/// The role of the first load warp where A or B is staggered: copies to where they arrive.
pub(super) fn load_staggered<'k>(
    k: Kernel<'k, Sm90a>,
    plan: &Plan<'_>,
    parameters: &Parameters<'k>,
    raster: &Raster<'k>,
) {
    let (ring, slots) = (plan.staging(k), k.region(&plan.staging));
    let staggered = parameters.staggered(k);
    let at = ring.producer();
    for_steps(k, parameters, raster, |pieces| {
        ring.produce_by_warp(&at, |slot| {
            let start = slots + slot.stage * plan.schedule.staging_slot_bytes();
            for (staggered, piece) in staggered.iter().zip(pieces) {
                if let Some(staggered) = staggered {
                    staggered.issue(slot, start, piece);
                }
            }
        });
    });
}

/// The role of the other load warps there: what arrived is moved to its stage. What copies can bring in as it is, the
/// first of their threads has copied.
pub(super) fn move_staggered<'k>(
    k: Kernel<'k, Sm90a>,
    plan: &Plan<'_>,
    parameters: &Parameters<'k>,
    raster: &Raster<'k>,
    ring: &Ring<'k, Sm90a>,
) {
    let (warp, lane) = (k.uniform(k.thread() >> 5), k.thread() & 31);
    let (arrived, slots) = (plan.staging(k), k.region(&plan.staging));
    let staggered = parameters.staggered(k);
    let movers: Vec<_> = staggered.iter().flatten().map(|each| each.mover(lane)).collect();
    let at = arrived.consumer(lane);
    let writers = Writers { plan, parameters, raster, ring, first: 32 };
    writers.write(k, |stage, _| {
        arrived.consume(&at, |slot| {
            let from = slots + slot * plan.schedule.staging_slot_bytes();
            let moved = Moved { from, to: stage, first: warp - 1, step: MOVERS };
            for mover in &movers {
                mover(moved);
            }
        });
    });
}

/// Warps that write A or B to stages; the thread `first` has the other one copied, if it comes by map.
struct Writers<'a, 'k> {
    plan: &'a Plan<'a>,
    parameters: &'a Parameters<'k>,
    raster: &'a Raster<'k>,
    ring: &'a Ring<'k, Sm90a>,
    first: u32,
}

impl<'k> Writers<'_, 'k> {
    fn write(&self, k: Kernel<'k, Sm90a>, write: impl FnOnce(SharedAddress<'k>, [Piece<'k>; 2])) {
        let (stages, thread) = (k.region(&self.plan.stages), k.thread());
        let copies = self
            .parameters
            .operands
            .each_ref()
            .map(|operand| operand.copies(k, None, self.raster.place()));
        let leader = copies.iter().any(Option::is_some).then(|| thread.eq(self.first));
        let stage = |number: Reg<'k, U32>| stages + number * self.plan.schedule.stage_bytes();
        let at = self.ring.producer();
        for_steps(k, self.parameters, self.raster, |pieces| {
            self.ring.produce_written(
                &at,
                thread & 31,
                leader,
                |slot| {
                    for (copies, piece) in copies.iter().zip(pieces) {
                        if let Some(copies) = copies {
                            copies.issue(slot, stage(slot.stage), piece);
                        }
                    }
                },
                |number| write(stage(number), pieces),
            );
        });
    }
}

/// The tile operands of one warpgroup, in the order in which its epilogue reads them. By a warp of its own: A and B of
/// the next tile would wait behind slots that only this tile's epilogue frees.
pub(super) fn load_tiles<'k>(
    k: Kernel<'k, Sm90a>,
    plan: &Plan<'_>,
    parameters: &Parameters<'k>,
    raster: &Raster<'k>,
    warpgroup: u32,
) {
    let schedule = plan.schedule;
    let tiles: Vec<(TensorMap<'k>, SlotLayout)> = parameters
        .sources
        .iter()
        .filter_map(|(_, source)| match source {
            Source::Map(tile) => Some((tile.map.address(), tile.layout)),
            Source::Host(_) | Source::Memory(_) => None,
        })
        .collect();
    let ring = plan.arrivals(k, k.imm(warpgroup));
    let bytes = schedule.slot_bytes();
    let slots = k.region(&plan.loads) + warpgroup * schedule.load_stages * bytes;
    let at = ring.producer();
    let (own, each_tile): (u32, Option<Reg<'k, U32>>) = match schedule.tile.sharing {
        Sharing::Rows => (warpgroup * schedule.tile.blocks(), None),
        Sharing::Tiles => (0, Some(k.imm(warpgroup))),
    };
    raster.for_own(each_tile, |corner| {
        for block in 0..schedule.tile.blocks() {
            let row = corner.row + (own + block) * SLOT_ROWS;
            k.for_(0, schedule.tile.columns, schedule.subtile, |offset| {
                for (map, layout) in &tiles {
                    for part in 0..layout.slots() {
                        let column = corner.column + offset + part * layout.columns();
                        ring.produce_by_warp(&at, |slot| {
                            let start = slots + slot.stage * bytes;
                            for each in layout.boxes(row, column, corner.batch) {
                                let to = start + each.offset;
                                let from = &each.coordinates;
                                slot.load(to, *map, from, each.bytes, Receivers::Own, None);
                            }
                        });
                    }
                }
            });
        }
    });
}
