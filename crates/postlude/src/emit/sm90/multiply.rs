//! The multiply role: a warpgroup's rows of every tile, from the ring to the epilogue.

use postlude_ptx::kernel::{
    Descriptor, DescriptorLayout, Kernel, Major, MatrixType, Reg, Var, WgmmaForm,
};
use postlude_ptx::ring::Ring;
use postlude_ptx::target::Sm90a;
use postlude_ptx::types::{F32, Pred, U32};

use crate::dtype::DType;
use crate::plan::sm90::{Feed, STAGE_DEPTH, Sm90Schedule, Tile};

use super::Plan;
use super::epilogue::Epilogue;
use super::parameters::Parameters;
use super::parts::Parts;
use super::raster::{Corner, Raster};
use super::seat::Seat;

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
    let rank = k.thread() & 127;
    let seat = Seat::new(k, tile, warpgroup);
    let products = Products::new(k, plan, seat);
    let blocks: Vec<Vec<Var<'k, F32>>> =
        (0..tile.blocks()).map(|_| (0..tile.columns / 2).map(|_| k.unset()).collect()).collect();
    let epilogue = Epilogue::new(k, plan, parameters, raster, seat, rank);
    let number = warpgroup.mad(128, rank);
    let parts = (tile.cluster.parts() > 1).then(|| Parts::new(k, plan, raster, number));
    let at = ring.consumer(rank);
    let others = ring.far(raster.steps * (tile.teams - 1));
    let turns = tile.takes_turns().then(|| Turns::new(k, tile, seat));
    if let Some(turns) = &turns {
        // A team's first tile comes behind those of the teams before.
        ring.skip(&at, &ring.far(seat.team * raster.steps));
        turns.give_first();
    }
    let tile_of = |corner: &Corner<'k>| {
        let begun = epilogue.begin(corner);
        if let Some(turns) = &turns {
            turns.take();
        }
        let step = |first: bool| {
            let issue = |stage| products.issue(&blocks, stage, first);
            match schedule.pending {
                0 => ring.consume(&at, issue),
                _ => ring.consume_behind(&at, issue),
            }
        };
        // By itself, so that ptxas knows that nothing is kept from tile to tile: the epilogue has those registers.
        step(true);
        k.for_(1, raster.steps, 1, |_| step(false));
        if let Some(turns) = &turns {
            k.when(corner.followed, || turns.give());
        }
        k.wgmma_wait(0);
        if schedule.pending > 0 {
            ring.release_held(&at);
        }
        if tile.takes_turns() {
            ring.skip(&at, &others);
        }
        if let Some(parts) = &parts {
            parts.gather(&blocks, |sums| epilogue.finish(corner, begun, sums));
        } else {
            epilogue.finish(corner, begun, &blocks);
        }
    };
    if epilogue.answers_later() {
        let after = |real: Reg<'k, Pred>| {
            // Only who has all parts of a sum finishes a tile.
            let finished = parts.as_ref().map_or(real, |parts| real & parts.is_whole());
            epilogue.answer(finished);
        };
        raster.for_own_and_after(seat.team, tile_of, after);
    } else {
        raster.for_own(seat.team, tile_of);
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
    fn new(k: Kernel<'k, Sm90a>, plan: &'a Plan<'a>, seat: Seat<'k>) -> Self {
        let (schedule, tile) = (plan.schedule, plan.schedule.tile);
        let operand = match plan.graph.inputs()[plan.graph.product().left.0.0 as usize].dtype {
            DType::F16 => MatrixType::F16,
            _ => MatrixType::BF16,
        };
        let [(a_major, left_layout, left_step), (b_major, right_layout, right_step)] =
            schedule.needs.operands.map(layout);
        let form = WgmmaForm { a_major, b_major, ..WgmmaForm::new(tile.columns, operand, operand) };
        let stages = k.region(&plan.stages);
        let own_rows = stages + seat.member * (tile.blocks() * BLOCK_BYTES);
        let columns = stages + tile.rows * STAGE_DEPTH * 2;
        let left = (k.descriptor(own_rows, left_layout), left_step);
        let right = (k.descriptor(columns, right_layout), right_step);
        Products { k, schedule, form, left, right }
    }

    /// Issues those of a stage; those of a tile's first do not keep what the accumulators held.
    fn issue(&self, blocks: &[Vec<Var<'k, F32>>], stage: Reg<'k, U32>, first: bool) {
        let (k, bytes) = (self.k, self.schedule.stage_bytes());
        let [left, right] = [self.left.0, self.right.0].map(|first| first.element(stage, bytes));
        k.wgmma_fence();
        for step in 0..STAGE_DEPTH / self.form.k() {
            for (block, accumulators) in blocks.iter().enumerate() {
                let a = left.advance(step * self.left.1 + block as u32 * BLOCK_BYTES);
                let b = right.advance(step * self.right.1);
                k.wgmma(&self.form, accumulators, a, b, !(first && step == 0));
            }
        }
        k.wgmma_commit();
        k.wgmma_wait(self.schedule.pending);
    }
}

/// Whose products come next, where teams alternate. Without turns one could read a slot before it was filled: it waits for
/// a phase by its parity, which is right only once the others have seen the phase before.
struct Turns<'k> {
    k: Kernel<'k, Sm90a>,
    teams: u32,
    team: Reg<'k, U32>,
    /// The first team's barrier; the others' are behind it.
    first: u32,
    /// Threads of the team that gives a turn and of the one that takes it.
    threads: u32,
}

impl<'k> Turns<'k> {
    fn new(k: Kernel<'k, Sm90a>, tile: Tile, seat: Seat<'k>) -> Self {
        // Behind warpgroups' own barriers and those of values along columns.
        let first = tile.consumers + tile.teams + 1;
        Turns { k, teams: tile.teams, team: seat.team, first, threads: 256 * tile.sharers() }
    }

    fn take(&self) {
        self.k.sync_named(self.team + self.first, self.threads);
    }

    fn give(&self) {
        let next = self.team + 1;
        let next = self.k.imm(0).select(next, next.eq(self.teams));
        self.k.arrive_named(next + self.first, self.threads);
    }

    /// The last team lets the first begin.
    fn give_first(&self) {
        self.k.if_(self.team.eq(self.teams - 1), || self.give());
    }
}
