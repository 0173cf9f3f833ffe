//! The math role of a launch without a product: the epilogue of every work tile, of which no product is waited for.

use postlude_ptx::kernel::{Kernel, Reg};
use postlude_ptx::types::U32;

use super::chip::EpilogueChip;
use super::epilogue::Epilogue;
use super::parameters::Parameters;
use super::plan::Plan;
use super::tile_scheduler::{TileScheduler, WorkTile};
use super::warpgroup::WarpgroupIndex;

pub(super) fn visit<'k, C: EpilogueChip>(
    k: Kernel<'k, C>,
    plan: &Plan<'_>,
    parameters: &Parameters<'k>,
    scheduler: &TileScheduler<'k, C>,
    in_cta: Reg<'k, U32>,
) {
    let tile = plan.schedule.tile;
    let warpgroup = WarpgroupIndex::new(k, tile, in_cta);
    let epilogue = Epilogue::new(k, plan, parameters, scheduler, warpgroup, k.thread() & 127);
    // 64-row blocks without accumulators.
    let blocks: Vec<_> = (0..tile.blocks()).map(|_| Vec::new()).collect();
    let tile_of = |work_tile: &WorkTile<'k>| {
        epilogue.finish(work_tile, epilogue.begin(work_tile), &blocks);
    };
    if epilogue.answers_later() {
        scheduler.for_own_and_after(warpgroup.order, tile_of, |real| epilogue.answer(real));
    } else {
        scheduler.for_own(warpgroup.order, tile_of);
    }
    epilogue.drain();
}
