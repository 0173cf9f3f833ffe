//! The multiply role: a warpgroup's rows of every tile, from the ring to the epilogue.

use postlude_ptx::kernel::{
    Descriptor, DescriptorLayout, Kernel, Major, MatrixType, Reg, Var, WgmmaForm,
};
use postlude_ptx::ring::Ring;
use postlude_ptx::target::Sm90a;
use postlude_ptx::types::{F32, Pred, U32};

use crate::target::sm90::plan::{OperandElement, OperandLoad, STAGE_ROW_BYTES, Sm90Schedule};
use crate::target::tile::Tile;

use super::epilogue::Epilogue;
use super::parameters::Parameters;
use super::plan::Plan;
use super::split_k::SplitK;
use super::tile_scheduler::{TileScheduler, WorkTile};
use super::warpgroup::WarpgroupIndex;

/// How an operand lies in a stage: as a descriptor says it, and the bytes that one instruction's depth takes.
fn layout(load: OperandLoad) -> (Major, DescriptorLayout, u32) {
    match load {
        OperandLoad::TmaMnMajor => (Major::MN, DescriptorLayout::mn_major_128(BLOCK_BYTES), 2048),
        OperandLoad::TmaKMajor
        | OperandLoad::Staggered
        | OperandLoad::ElementsKMajor
        | OperandLoad::ElementsMnMajor => (Major::K, DescriptorLayout::K_MAJOR_128, 32),
    }
}

/// Bytes of 64 rows of a stage, or of a slab.
const BLOCK_BYTES: u32 = 64 * STAGE_ROW_BYTES;

pub(super) fn multiply<'k>(
    k: Kernel<'k, Sm90a>,
    plan: &Plan<'_>,
    parameters: &Parameters<'k>,
    scheduler: &TileScheduler<'k, Sm90a>,
    ring: &Ring<'k, Sm90a>,
    in_cta: Reg<'k, U32>,
) {
    let schedule = plan.schedule;
    let tile = schedule.tile;
    let rank = k.thread() & 127;
    let warpgroup = WarpgroupIndex::new(k, tile, in_cta);
    let products = Products::new(k, plan, warpgroup);
    let blocks: Vec<Vec<Var<'k, F32>>> =
        (0..tile.blocks()).map(|_| (0..tile.columns / 2).map(|_| k.unset()).collect()).collect();
    let epilogue = Epilogue::new(k, plan, parameters, scheduler, warpgroup, rank);
    let number = in_cta.mad(128, rank);
    let split_k = (tile.cluster.split_k() > 1).then(|| SplitK::new(k, plan, scheduler, number));
    let at = ring.consumer(rank);
    let others = ring.far(scheduler.steps * (tile.tiles_in_flight() - 1));
    let ordered = tile.is_ping_pong().then(|| OrderBarrier::new(k, tile, warpgroup));
    if let Some(ordered) = &ordered {
        // In ping-pong the second tile's stages come behind the first's.
        ring.skip(&at, &ring.far(warpgroup.order * scheduler.steps));
        ordered.arrive_for_first();
    }
    let tile_of = |work_tile: &WorkTile<'k>| {
        let prefetched = epilogue.begin(work_tile);
        if let Some(ordered) = &ordered {
            ordered.wait();
        }
        let step = |first: bool| {
            let issue = |stage| products.issue(&blocks, stage, first);
            match schedule.wgmma_in_flight {
                0 => ring.consume(&at, issue),
                _ => ring.consume_behind(&at, issue),
            }
        };
        // By itself, so that ptxas sees that no accumulator survives from one work tile to the next: the epilogue uses
        // those registers.
        step(true);
        k.for_(1, scheduler.steps, 1, |_| step(false));
        if let Some(ordered) = &ordered {
            k.when(work_tile.followed, || ordered.arrive());
        }
        k.wgmma_wait(0);
        if schedule.wgmma_in_flight > 0 {
            ring.release_held(&at);
        }
        if tile.is_ping_pong() {
            ring.skip(&at, &others);
        }
        if let Some(split_k) = &split_k {
            split_k.gather(&blocks, |sums| epilogue.finish(work_tile, prefetched, sums));
        } else {
            epilogue.finish(work_tile, prefetched, &blocks);
        }
    };
    if epilogue.answers_later() {
        let after = |real: Reg<'k, Pred>| {
            // Of a split K only the first CTA has the whole sums and runs the epilogue.
            let finished = split_k.as_ref().map_or(real, |split| real & split.is_first());
            epilogue.answer(finished);
        };
        scheduler.for_own_and_after(warpgroup.order, tile_of, after);
    } else {
        scheduler.for_own(warpgroup.order, tile_of);
    }
    epilogue.drain();
}

/// The matrix products of one stage.
struct Products<'a, 'k> {
    k: Kernel<'k, Sm90a>,
    schedule: &'a Sm90Schedule,
    form: WgmmaForm,
    /// The first stage of A's rows and of B, and the bytes that one instruction's depth takes of each.
    left: (Descriptor<'k>, u32),
    right: (Descriptor<'k>, u32),
}

impl<'a, 'k> Products<'a, 'k> {
    fn new(k: Kernel<'k, Sm90a>, plan: &'a Plan<'a>, warpgroup: WarpgroupIndex<'k>) -> Self {
        let (schedule, tile) = (plan.schedule, plan.schedule.tile);
        let operand = match OperandElement::of_product(plan.graph) {
            OperandElement::F16 => MatrixType::F16,
            OperandElement::BF16 => MatrixType::BF16,
            OperandElement::E4M3 => MatrixType::E4M3,
        };
        let [(a_major, left_layout, left_step), (b_major, right_layout, right_step)] =
            schedule.needs.operands.map(layout);
        let form = WgmmaForm { a_major, b_major, ..WgmmaForm::new(tile.columns, operand, operand) };
        let stages = k.region(&plan.stages);
        let own_rows = stages + warpgroup.in_tile * (tile.blocks() * BLOCK_BYTES);
        let columns = stages + tile.rows * STAGE_ROW_BYTES;
        let left = (k.descriptor(own_rows, left_layout), left_step);
        let right = (k.descriptor(columns, right_layout), right_step);
        Products { k, schedule, form, left, right }
    }

    /// Issues those of a stage; those of a tile's first do not keep what the accumulators held.
    fn issue(&self, blocks: &[Vec<Var<'k, F32>>], stage: Reg<'k, U32>, first: bool) {
        let (k, bytes) = (self.k, self.schedule.stage_bytes());
        let [left, right] = [self.left.0, self.right.0].map(|first| first.element(stage, bytes));
        k.wgmma_fence();
        for step in 0..self.schedule.depth() / self.form.k() {
            for (block, accumulators) in blocks.iter().enumerate() {
                let a = left.advance(step * self.left.1 + block as u32 * BLOCK_BYTES);
                let b = right.advance(step * self.right.1);
                k.wgmma(&self.form, accumulators, a, b, !(first && step == 0));
            }
        }
        k.wgmma_commit();
        k.wgmma_wait(self.schedule.wgmma_in_flight);
    }
}

/// The order of mainloops in ping-pong. Without it a warpgroup could read a slot before it was filled: it waits for a
/// phase by its parity, which is right only once the other warpgroups have seen the phase before.
struct OrderBarrier<'k> {
    k: Kernel<'k, Sm90a>,
    count: u32,
    order: Reg<'k, U32>,
    /// The named barrier of the first in order; the others' follow it.
    first: u32,
    /// Threads that arrive and threads that wait.
    threads: u32,
}

impl<'k> OrderBarrier<'k> {
    fn new(k: Kernel<'k, Sm90a>, tile: Tile, warpgroup: WarpgroupIndex<'k>) -> Self {
        let (count, threads) = (tile.tiles_in_flight(), 256 * tile.warpgroups_per_tile());
        // Behind warpgroups' own barriers and those of values along columns.
        let first = tile.math_warpgroups + count + 1;
        OrderBarrier { k, count, order: warpgroup.order, first, threads }
    }

    /// Waits until this warpgroup may issue wgmma.
    fn wait(&self) {
        self.k.sync_named(self.order + self.first, self.threads);
    }

    /// Lets the next in order issue wgmma.
    fn arrive(&self) {
        let next = self.order + 1;
        let next = self.k.imm(0).select(next, next.eq(self.count));
        self.k.arrive_named(next + self.first, self.threads);
    }

    /// The last in order lets the first begin.
    fn arrive_for_first(&self) {
        self.k.if_(self.order.eq(self.count - 1), || self.arrive());
    }
}
