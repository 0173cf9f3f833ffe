//! The multiply role: a warpgroup's rows of every tile, from the ring to the epilogue.

use postlude_ptx::kernel::{DescriptorLayout, Kernel, Major, MatrixType, Reg, Var, WgmmaForm};
use postlude_ptx::ring::Ring;
use postlude_ptx::target::Sm90a;
use postlude_ptx::types::{F32, U32};

use crate::dtype::DType;
use crate::plan::sm90::{Feed, STAGE_DEPTH, Sharing};

use super::Plan;
use super::epilogue::Epilogue;
use super::parameters::Parameters;
use super::parts::Parts;
use super::raster::Raster;

/// How an operand lies in a stage: as a descriptor says it, and the bytes that one instruction's depth takes.
fn layout(feed: Feed) -> (Major, DescriptorLayout, u32) {
    match feed {
        Feed::Outer => (Major::MN, DescriptorLayout::mn_major_128(BLOCK_BYTES), 2048),
        Feed::Inner | Feed::Staggered | Feed::InnerElements | Feed::OuterElements => {
            (Major::K, DescriptorLayout::K_MAJOR_128, 32)
        }
    }
}

/// Bytes of 64 rows of a stage, or of a slab.
const BLOCK_BYTES: u32 = 64 * STAGE_DEPTH * 2;

pub(super) fn multiply<'k>(
    k: Kernel<'k, Sm90a>,
    plan: &Plan<'_>,
    parameters: &Parameters<'k>,
    raster: &Raster<'k>,
    ring: &Ring<'k, Sm90a>,
    warpgroup: Reg<'k, U32>,
) {
    let schedule = plan.schedule;
    let tile = schedule.tile;
    let operand = match plan.graph.inputs()[plan.graph.product().left.0.0 as usize].dtype {
        DType::F16 => MatrixType::F16,
        _ => MatrixType::BF16,
    };
    let [(a_major, left_layout, left_step), (b_major, right_layout, right_step)] =
        schedule.needs.operands.map(layout);
    let form = WgmmaForm { a_major, b_major, ..WgmmaForm::new(tile.columns, operand, operand) };
    let rank = k.thread() & 127;
    let stages = k.region(&plan.stages);
    let (own_rows, other) = match tile.sharing {
        Sharing::Rows => (stages + warpgroup * (tile.blocks() * BLOCK_BYTES), None),
        Sharing::Tiles => (stages, Some(warpgroup)),
    };
    let left = k.descriptor(own_rows, left_layout);
    let right = k.descriptor(stages + tile.rows * STAGE_DEPTH * 2, right_layout);
    let blocks: Vec<Vec<Var<'k, F32>>> =
        (0..tile.blocks()).map(|_| (0..tile.columns / 2).map(|_| k.unset()).collect()).collect();
    let epilogue = Epilogue::new(k, plan, parameters, warpgroup, rank);
    let number = warpgroup.mad(128, rank);
    let parts = (tile.cluster.parts() > 1).then(|| Parts::new(k, plan, raster, number));
    let at = ring.consumer(rank);
    let turns = Turns { k, warpgroup, first: schedule.consumers() * 2 + 1 };
    if other.is_some() {
        // The second warpgroup's first tile comes behind the first one's.
        ring.skip(&at, warpgroup * raster.steps);
        turns.give_first();
    }
    raster.for_own(other, |corner| {
        let begun = epilogue.begin(corner);
        if other.is_some() {
            turns.take();
        }
        let keep = k.var(false);
        k.for_(0, raster.steps, 1, |_| {
            let products = |stage: Reg<'k, U32>| {
                let left = left.element(stage, schedule.stage_bytes());
                let right = right.element(stage, schedule.stage_bytes());
                k.wgmma_fence();
                for step in 0..STAGE_DEPTH / form.k() {
                    for (block, accumulators) in blocks.iter().enumerate() {
                        let a = left.advance(step * left_step + block as u32 * BLOCK_BYTES);
                        k.wgmma(&form, accumulators, a, right.advance(step * right_step), keep);
                    }
                    if step == 0 {
                        keep.set(true);
                    }
                }
                k.wgmma_commit();
                k.wgmma_wait(schedule.pending);
            };
            match schedule.pending {
                0 => ring.consume(&at, products),
                _ => ring.consume_behind(&at, products),
            }
        });
        if other.is_some() {
            k.when(corner.followed, || turns.give());
        }
        k.wgmma_wait(0);
        if schedule.pending > 0 {
            ring.release_held(&at);
        }
        if other.is_some() {
            ring.skip(&at, raster.steps);
        }
        if let Some(parts) = &parts {
            parts.gather(&blocks, |sums| epilogue.finish(corner, begun, sums));
        } else {
            let sums = |block: &Vec<Var<'k, F32>>| block.iter().map(|sum| sum.get()).collect();
            epilogue.finish(corner, begun, &blocks.iter().map(sums).collect::<Vec<Vec<_>>>());
        }
    });
    epilogue.drain();
}

/// Whose products come next, where warpgroups alternate. Without turns one could read a slot before it was filled: it
/// waits for a phase by its parity, which is right only once the other one has seen the phase before.
struct Turns<'k> {
    k: Kernel<'k, Sm90a>,
    warpgroup: Reg<'k, U32>,
    /// The first warpgroup's barrier; the second's is behind it.
    first: u32,
}

impl Turns<'_> {
    /// Threads of both.
    const THREADS: u32 = 256;

    fn take(&self) {
        self.k.sync_named(self.warpgroup + self.first, Turns::THREADS);
    }

    fn give(&self) {
        self.k.arrive_named((self.warpgroup ^ 1) + self.first, Turns::THREADS);
    }

    /// The second warpgroup lets the first begin.
    fn give_first(&self) {
        self.k.if_(self.warpgroup.eq(1), || self.give());
    }
}
