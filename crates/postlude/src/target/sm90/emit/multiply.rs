//! The multiply role: a warpgroup's rows of every tile, from the ring to the epilogue.

use postlude_ptx::kernel::{Kernel, Reg, Var};
use postlude_ptx::ring::Ring;
use postlude_ptx::target::Sm90a;
use postlude_ptx::types::{F32, Pred, U32};

use crate::target::sm90::plan::{Mainloop, SLOT_ROWS};
use crate::target::tile::Tile;

use super::epilogue::Epilogue;
use super::mma::{Beside, Mma};
use super::parameters::Parameters;
use super::plan::Plan;
use super::scaling::TileScales;
use super::slices::Slices;
use super::split_k::SplitK;
use super::tile_scheduler::{TileScheduler, WorkTile};
use super::warpgroup::WarpgroupIndex;

pub(super) fn multiply<'k>(
    k: Kernel<'k, Sm90a>,
    plan: &Plan<'_>,
    parameters: &Parameters<'k>,
    scheduler: &TileScheduler<'k, Sm90a>,
    (mainloop, ring): (&Mainloop, &Ring<'k, Sm90a>),
    in_cta: Reg<'k, U32>,
) {
    let tile = plan.schedule.tile;
    let rank = k.thread() & 127;
    let warpgroup = WarpgroupIndex::new(k, tile, in_cta);
    let mma = Mma::new(k, plan, mainloop, warpgroup);
    let epilogue = Epilogue::new(k, plan, parameters, scheduler, warpgroup, rank);
    let number = in_cta.mad(128, rank);
    let split_k = (tile.cluster.split_k() > 1).then(|| SplitK::new(k, plan, scheduler, number));
    let slices = Slices::of(k, plan, parameters, (warpgroup, rank));
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
        let thread = (warpgroup, rank);
        let scales = TileScales::of(k, parameters, plan.schedule, thread, work_tile);
        if let Some(ordered) = &ordered {
            ordered.wait();
        }
        let beside = Beside { scales: scales.as_ref(), segment: work_tile.contraction };
        let products = |blocks: u32| {
            // By itself, so that ptxas sees that no accumulator survives from one work tile to the next: the epilogue
            // uses those registers.
            mma.multiply(ring, &at, None, (blocks, beside));
            let rest = |step| mma.multiply(ring, &at, Some(step), (blocks, beside));
            k.for_(1, work_tile.steps, 1, rest);
            if let Some(ordered) = &ordered {
                k.when(work_tile.followed, || ordered.arrive());
            }
            mma.wait(ring, &at, blocks);
        };
        if scheduler.cuts_rows() {
            let first = warpgroup.in_tile.mad(tile.blocks() * SLOT_ROWS, work_tile.row);
            of_segment(k, tile.blocks(), [first, work_tile.row_end], &products);
        } else {
            products(tile.blocks());
        }
        if tile.is_ping_pong() {
            ring.skip(&at, &others);
        }
        let finish = |sums: &[Vec<Var<'k, F32>>]| epilogue.finish(work_tile, prefetched, sums);
        mma.with_sums(|sums| match (&split_k, &slices, work_tile.slice) {
            (Some(split_k), _, _) => split_k.gather(sums, finish),
            (None, Some(slices), Some(slice)) => slices.gather(slice, sums, finish),
            (None, _, _) => finish(sums),
        });
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

/// Runs `products` for as many of a warpgroup's blocks as have rows before their segment's end.
fn of_segment<'k>(
    k: Kernel<'k, Sm90a>,
    blocks: u32,
    [first, end]: [Reg<'k, U32>; 2],
    products: &dyn Fn(u32),
) {
    let Some(before) = blocks.checked_sub(1) else { return products(0) };
    let last_has_rows = (first + before * SLOT_ROWS).lt(end);
    let fewer = || of_segment(k, before, [first, end], products);
    k.if_else(last_has_rows, || products(blocks), fewer);
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
