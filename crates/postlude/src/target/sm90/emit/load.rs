//! The load roles: one warp keeps the ring of the product full, one for each math warpgroup its ring of tile operands,
//! or one for each tile in flight where there are four math warpgroups. Where an operand has to be read element by
//! element, the whole load warpgroup keeps the product's ring full; where one is staggered, one load warp has it
//! copied, and the others move it.

use std::ops::Range;

use postlude_ptx::kernel::{Kernel, Reg, SharedAddress, TensorMap};
use postlude_ptx::modifier::Eviction;
use postlude_ptx::ring::{Receivers, Ring, Slot};
use postlude_ptx::target::{Sm90a, Tma};
use postlude_ptx::types::{Pred, U32};

use crate::graph::Side;
use crate::target::sm90::plan::{Hints, SLOT_ROWS, STAGGER, Widened, widened_operand};

use super::batch::Batch;
use super::operand::{Copies, Elements, Mover, Operand, Piece, Staggered};
use super::parameters::{MappedTile, Parameters, Source};
use super::plan::Plan;
use super::split_k;
use super::tile_scheduler::{TileScheduler, WorkTile};
use super::values::Evaluator;
use super::widen::Widener;

/// What is staggered of A and B, one behind the other where both arrive.
fn staggered_operands<'a, 'k>(
    k: Kernel<'k, Sm90a>,
    parameters: &'a Parameters<'k>,
) -> [Option<Staggered<'a, 'k>>; 2] {
    let left = parameters.operands[0].staggered(k, 0);
    let behind = left.as_ref().map_or(0, Staggered::bytes);
    // Several products never have it.
    [left, parameters.operands[1].staggered(k, behind)]
}

/// Runs `body` for every step of every tile, with the pieces of A and of B in every product.
fn for_steps<'k>(
    k: Kernel<'k, Sm90a>,
    parameters: &Parameters<'k>,
    scheduler: &TileScheduler<'k, Sm90a>,
    body: impl FnOnce(&[Piece<'k>]),
) {
    for_tiles(k, parameters, scheduler, |steps, pieces| {
        k.for_(0, steps, 1, |step| body(&pieces(step)));
    });
}

/// Runs `body` for every tile, with its steps and what gives the pieces of one.
pub(super) fn for_tiles<'k>(
    k: Kernel<'k, Sm90a>,
    parameters: &Parameters<'k>,
    scheduler: &TileScheduler<'k, Sm90a>,
    body: impl FnOnce(Reg<'k, U32>, &dyn Fn(Reg<'k, U32>) -> Vec<Piece<'k>>),
) {
    let stage_depth = parameters.operands[0].part.depth;
    // Without a contraction the one step reads beyond the operands' only column, where there are zeros.
    let first = k.imm(stage_depth).select(0, parameters.inner.eq(0));
    let first = scheduler.first_step().map_or(first, |step| step.mad(stage_depth, first));
    let batched: Vec<Vec<_>> = parameters
        .operands
        .iter()
        .map(|operand| operand.batched.iter().map(|has| has.load()).collect())
        .collect();
    scheduler.for_each(|work_tile: &WorkTile<'k>| {
        let batches: Vec<_> = batched.iter().map(|has| work_tile.batch.of_operand(has)).collect();
        let operands = parameters.operands.iter().zip(&batches);
        let in_map = |(operand, batch): (&Operand<'k>, &Batch<'k>)| {
            operand.list.map_or(*batch, |list| list.look_up(k, *batch))
        };
        let mapped: Vec<Batch<'k>> = operands.map(in_map).collect();
        let (first, end) = match (work_tile.contraction, work_tile.slice) {
            (Some(segment), _) => (segment.begin, segment.end),
            (None, Some(slice)) => (slice.first_step.mad(stage_depth, first), parameters.inner),
            (None, None) => (first, parameters.inner),
        };
        body(work_tile.steps, &|step: Reg<'k, U32>| {
            let depth = step.mad(stage_depth, first);
            let piece = |(place, batch): (usize, &Batch<'k>)| {
                let first = if place == 0 { work_tile.row } else { work_tile.column };
                Piece { first, depth, end, batch: *batch, mapped_batch: mapped[place] }
            };
            batches.iter().enumerate().map(piece).collect()
        });
        if scheduler.first_step().is_some() {
            split_k::attend(k);
        }
    });
}

/// One warp's role: copies of A and B.
pub(super) fn load<'k>(
    k: Kernel<'k, Sm90a>,
    plan: &Plan<'_>,
    parameters: &Parameters<'k>,
    scheduler: &TileScheduler<'k, Sm90a>,
    ring: &Ring<'k, Sm90a>,
) {
    let stages = k.region(&plan.stages);
    let policy = (plan.schedule.hints == Hints::Operands).then(|| k.policy(Eviction::Last));
    let copies: Vec<_> = parameters
        .operands
        .iter()
        .filter_map(|operand| operand.copies(k, policy, scheduler.place()))
        .collect();
    let at = ring.producer();
    for_steps(k, parameters, scheduler, |pieces| {
        ring.produce_by_warp(&at, |slot| {
            let stage = stages + slot.stage * plan.schedule.stage_bytes();
            for (copies, place) in copies.iter().zip(pieces) {
                copies.issue(slot, stage, *place);
            }
        });
    });
}

/// The load warpgroup's role where A or B is loaded element by element; its first thread issues the TMA loads of the other.
pub(super) fn load_elements<'k>(
    k: Kernel<'k, Sm90a>,
    plan: &Plan<'_>,
    parameters: &Parameters<'k>,
    scheduler: &TileScheduler<'k, Sm90a>,
    ring: &Ring<'k, Sm90a>,
) {
    let thread = k.thread();
    let elements: Vec<Option<Elements<'_, 'k>>> = (parameters.operands.iter().enumerate())
        .map(|(place, operand)| {
            let size = if place == 0 { parameters.rows } else { parameters.columns };
            operand.elements(k, size, thread)
        })
        .collect();
    let beside = Beside::new(k, plan, parameters, scheduler, 0);
    let at = ring.producer();
    for_steps(k, parameters, scheduler, |pieces| {
        let copy = |slot: &Slot<'_, 'k, Sm90a>| beside.issue(slot, pieces);
        ring.produce_written(&at, thread & 31, beside.leader, copy, |number| {
            let stage = beside.stage(number);
            for (elements, piece) in elements.iter().zip(pieces) {
                if let Some(elements) = elements {
                    elements.bring(stage, *piece);
                }
            }
        });
    });
}

/// The role of the first load warp where A or B is staggered: TMA loads into staging slots.
pub(super) fn load_staggered<'k>(
    k: Kernel<'k, Sm90a>,
    plan: &Plan<'_>,
    parameters: &Parameters<'k>,
    scheduler: &TileScheduler<'k, Sm90a>,
) {
    let (ring, slots) = (plan.staging(k), k.region(&plan.staging));
    let staggered = staggered_operands(k, parameters);
    let copies =
        staggered.each_ref().map(|each| each.as_ref().map(|it| it.copies(scheduler.place())));
    let at = ring.producer();
    for_steps(k, parameters, scheduler, |pieces| {
        ring.produce_by_warp(&at, |slot| {
            let start = slots + slot.stage * plan.schedule.staging_slot_bytes();
            for (copies, piece) in copies.iter().zip(pieces) {
                if let Some(copies) = copies {
                    copies(slot, start, *piece);
                }
            }
        });
    });
}

/// The role of the other load warps there: they move rows to their stages. The first of their threads issues the TMA
/// loads of an operand that is not staggered.
pub(super) fn move_staggered<'k>(
    k: Kernel<'k, Sm90a>,
    plan: &Plan<'_>,
    parameters: &Parameters<'k>,
    scheduler: &TileScheduler<'k, Sm90a>,
    ring: &Ring<'k, Sm90a>,
) {
    let (warp, lane) = (k.uniform(k.thread() >> 5), k.thread() & 31);
    let (arrived, slots) = (plan.staging(k), k.region(&plan.staging));
    let staggered = staggered_operands(k, parameters);
    // Where few warps move rows, each has more loads in flight.
    let sizes = [plan.schedule.tile.rows, plan.schedule.tile.columns];
    let even = sizes.iter().all(|size| size.is_multiple_of(2 * STAGGER));
    let group_rows = if plan.schedule.loaders() == 1 && even { 2 } else { 1 };
    let mover = Mover::new(k, lane, plan.movers(), group_rows);
    let beside = Beside::new(k, plan, parameters, scheduler, 32);
    let (from, at) = (arrived.consumer(lane), ring.producer());
    for_steps(k, parameters, scheduler, |pieces| {
        let copy = |slot: &Slot<'_, 'k, Sm90a>| beside.issue(slot, pieces);
        ring.produce_moved(&at, (&arrived, &from), lane, beside.leader, copy, |slot, number| {
            let from = slots + slot * plan.schedule.staging_slot_bytes();
            mover.begin(warp - 1);
            for each in staggered.iter().flatten() {
                each.move_rows(&mover, [from, beside.stage(number)]);
            }
        });
    });
}

/// A load warp that widens, and the place of its operand.
fn widener<'a, 'k>(
    k: Kernel<'k, Sm90a>,
    plan: &'a Plan<'a>,
    parameters: &'a Parameters<'k>,
) -> (Widener<'a, 'k>, usize) {
    let found = widened_operand(plan.graph);
    let widened = found.and_then(|(_, id)| Widened::of(&plan.graph.inputs()[id.0 as usize]));
    let (Some((side, _)), Some(widened), Some(values)) =
        (found, widened, parameters.shared_values.as_ref())
    else {
        panic!("compiler bug: no operand is widened")
    };
    let place = match side {
        Side::Left => 0,
        Side::Right => 1,
    };
    let (warp, lane) = (k.uniform(k.thread() >> 5), k.thread() & 31);
    let widener = Widener {
        k,
        part: parameters.operands[place].part,
        widened,
        values,
        evaluator: Evaluator { k, plan, parameters },
        lane,
        warps: plan.movers(),
        warp: warp - 1,
        inner: parameters.inner,
        // A part of a split K may begin inside of a run.
        aligned: plan.schedule.tile.cluster.split_k() == 1 && plan.schedule.split_k_slices == 1,
    };
    (widener, place)
}

/// The role of the first load warp where A or B is widened: TMA loads of narrow rows, as many bytes of each as a line of shared
/// memory has.
pub(super) fn load_narrow<'k>(
    k: Kernel<'k, Sm90a>,
    plan: &Plan<'_>,
    parameters: &Parameters<'k>,
    scheduler: &TileScheduler<'k, Sm90a>,
) {
    let (ring, slots) = (plan.staging(k), k.region(&plan.staging));
    let (widener, place) = widener(k, plan, parameters);
    let Some(map) = parameters.operands[place].narrow() else {
        panic!("compiler bug: narrow rows without a map")
    };
    let (stages, per_byte) = (widener.stages(), widener.elements_of_byte());
    let bytes = plan.schedule.staging_slot_bytes();
    let at = ring.producer();
    for_tiles(k, parameters, scheduler, |steps, pieces| {
        k.for_(0, steps, stages, |step| {
            let piece = pieces(step)[place];
            ring.produce_by_warp(&at, |slot| {
                let inner = piece.depth / per_byte;
                let place = [inner, piece.first].into_iter().chain(piece.mapped_batch.places());
                let place: Vec<_> = place.map(Into::into).collect();
                let to = slots + slot.stage * bytes;
                slot.load(to, map, &place, bytes, Receivers::Own, None);
            });
        });
    });
}

/// The role of the load warps behind it: each computes the same rows of all stages of a slot, and then fences once. A thread of the
/// first issues the TMA loads of the other operand.
pub(super) fn widen<'k>(
    k: Kernel<'k, Sm90a>,
    plan: &Plan<'_>,
    parameters: &Parameters<'k>,
    scheduler: &TileScheduler<'k, Sm90a>,
    ring: &Ring<'k, Sm90a>,
) {
    let (arrived, slots) = (plan.staging(k), k.region(&plan.staging));
    let (widener, place) = widener(k, plan, parameters);
    let (stages, lane) = (widener.stages(), k.thread() & 31);
    let rows = if place == 0 { parameters.rows } else { parameters.columns };
    let beside = Beside::new(k, plan, parameters, scheduler, 32);
    let (from, at) = (arrived.consumer(lane), ring.producer());
    for_tiles(k, parameters, scheduler, |steps, pieces| {
        let begun = widener.begin(pieces(k.imm(0))[place], rows);
        k.for_(0, steps, stages, |first| {
            let count = (steps - first).min(stages);
            arrived.consume(&from, |slot| {
                let slot = slots + slot * plan.schedule.staging_slot_bytes();
                let copy = |slot: &Slot<'_, 'k, Sm90a>, number: u32| {
                    beside.issue(slot, &pieces(first + number));
                };
                ring.produce_several(&at, lane, (count, stages), (beside.leader, copy), |to| {
                    let next = pieces((first + stages).min(steps - 1))[place];
                    let to: Vec<_> = to.iter().map(|number| beside.stage(*number)).collect();
                    widener.widen(&begun, next, slot, (count, &to));
                });
            });
        });
    });
}

/// The other operand beside one that load warps write, if it is loaded by TMA: one thread of these warps issues its loads.
struct Beside<'a, 'k> {
    plan: &'a Plan<'a>,
    stages: SharedAddress<'k>,
    copies: Vec<Option<Copies<'k>>>,
    /// Whether this is that thread.
    leader: Option<Reg<'k, Pred>>,
}

impl<'a, 'k> Beside<'a, 'k> {
    fn new(
        k: Kernel<'k, Sm90a>,
        plan: &'a Plan<'a>,
        parameters: &Parameters<'k>,
        scheduler: &TileScheduler<'k, Sm90a>,
        leader: u32,
    ) -> Self {
        let copies: Vec<_> = parameters
            .operands
            .iter()
            .map(|operand| operand.copies(k, None, scheduler.place()))
            .collect();
        let leader = copies.iter().any(Option::is_some).then(|| k.thread().eq(leader));
        Beside { plan, stages: k.region(&plan.stages), copies, leader }
    }

    fn stage(&self, number: Reg<'k, U32>) -> SharedAddress<'k> {
        self.stages + number * self.plan.schedule.stage_bytes()
    }

    fn issue(&self, slot: &Slot<'_, 'k, Sm90a>, pieces: &[Piece<'k>]) {
        for (copies, piece) in self.copies.iter().zip(pieces) {
            if let Some(copies) = copies {
                copies.issue(slot, self.stage(slot.stage), *piece);
            }
        }
    }
}

/// A work tile whose operands are loaded.
struct TileOperands<'a, 'k> {
    work_tile: &'a WorkTile<'k>,
    /// Its batch in the maps of tiles that are lists.
    listed: Vec<Option<Batch<'k>>>,
}

/// The tile operands of some math warpgroups of one tile, in the order in which their epilogues read them. By a warp of
/// their own: A and B of the next tile would wait behind slots that only this tile's epilogue frees.
pub(super) fn load_tiles<'k, C: Tma>(
    k: Kernel<'k, C>,
    plan: &Plan<'_>,
    parameters: &Parameters<'k>,
    scheduler: &TileScheduler<'k, C>,
    warpgroups: Range<u32>,
) {
    let schedule = plan.schedule;
    let tiles: Vec<(TensorMap<'k>, &MappedTile<'k>)> = parameters
        .sources
        .iter()
        .filter_map(|(_, source)| match source {
            Source::Map(tile) => Some((tile.map.address(), tile)),
            Source::Host(_) | Source::Memory(_) => None,
        })
        .collect();
    let (bytes, per_tile) = (schedule.slot_bytes(), schedule.tile.warpgroups_per_tile());
    let order = warpgroups.start / per_tile;
    let receivers: Vec<_> = warpgroups
        .map(|warpgroup| {
            let ring = plan.load_ring(k, k.imm(warpgroup));
            let slots = k.region(&plan.c_slots) + warpgroup * schedule.c_stages * bytes;
            (ring.producer(), ring, slots, warpgroup % per_tile * schedule.tile.blocks())
        })
        .collect();
    // Looked up once a work tile; `None` for tensors that are no lists.
    let listed = |work_tile: &WorkTile<'k>| -> Vec<Option<Batch<'k>>> {
        let lists = tiles.iter().map(|(_, tile)| tile.list);
        lists.map(|list| list.map(|list| list.look_up(k, work_tile.batch))).collect()
    };
    let epilogue_tile = |work_tile: &TileOperands<'_, 'k>, block: u32, offset: Reg<'k, U32>| {
        let TileOperands { work_tile, listed } = work_tile;
        let batch = work_tile.batch.of_tiles(k, plan.graph.space());
        for (at, ring, slots, own) in &receivers {
            let row = work_tile.row + (own + block) * SLOT_ROWS;
            for ((map, tile), listed) in tiles.iter().zip(listed) {
                let (layout, batch) = (tile.layout, listed.unwrap_or(batch));
                for part in 0..layout.slots() {
                    let column = tile.column(work_tile.column + offset + part * layout.columns());
                    ring.produce_by_warp(at, |slot| {
                        let start = *slots + slot.stage * bytes;
                        for each in layout.boxes(row, column, batch) {
                            let (to, from) = (start + each.offset, &each.coordinates);
                            slot.load(to, *map, from, each.bytes, Receivers::Own, None);
                        }
                    });
                }
            }
        }
    };
    let (blocks, span) = (|| 0..schedule.tile.blocks(), schedule.span());
    let within = |columns: u32, body: &dyn Fn(Reg<'k, U32>)| match columns / schedule.epilogue_tile
    {
        1 => body(k.imm(0)),
        _ => k.for_(0, columns, schedule.epilogue_tile, body),
    };
    let whole = |work_tile: &TileOperands<'_, 'k>, block: u32| {
        within(schedule.width(), &|offset| epilogue_tile(work_tile, block, offset));
    };
    let (early, beside) = plan.reading_passes();
    let operands_of = |work_tile: &WorkTile<'k>| {
        let work_tile = &TileOperands { work_tile, listed: listed(work_tile) };
        for repeated in early {
            for block in blocks() {
                (0..repeated).for_each(|_| whole(work_tile, block));
            }
        }
        if schedule.visits_columns() {
            k.for_(0, schedule.width(), span, |before| {
                blocks().for_each(|block| {
                    within(span, &|offset| epilogue_tile(work_tile, block, before + offset));
                });
            });
        } else {
            for block in blocks() {
                (0..=beside).for_each(|_| whole(work_tile, block));
            }
        }
    };
    scheduler.for_own(k.imm(order), |work_tile| match work_tile.slice {
        // Only the last slice of K has an epilogue.
        Some(slice) => k.if_(slice.is_last, || operands_of(work_tile)),
        None => operands_of(work_tile),
    });
}
