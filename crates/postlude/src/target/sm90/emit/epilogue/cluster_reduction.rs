//! Cluster reductions: rows that only the tiles of a cluster together hold, combined through distributed shared memory.
//!
//! A warp works with the same warp of the other CTAs, which has the same rows: it writes its partial results to its own
//! shared memory, arrives at the barriers of all these warps, waits for its own barrier, and reads the results of all
//! in the order of the tiles. Each warp has two buffers, used alternately: before it writes to one again it has waited
//! for all warps at the other, and so for their reads of this one.

use postlude_ptx::kernel::{Barrier, Kernel, Reg, SharedAddress, Var};
use postlude_ptx::modifier::Published;
use postlude_ptx::types::{F32, U32};

use crate::lower::Reduction;

use super::super::chip::EpilogueChip;
use super::super::fragment::Fragment;
use super::super::plan::Plan;
use super::super::tile_scheduler::TileScheduler;
use super::super::values::{Evaluator, State};
use super::super::warpgroup::WarpgroupIndex;

/// Bytes of a barrier.
const BARRIER: u32 = 8;

pub(crate) struct ClusterReduction<'k, C> {
    k: Kernel<'k, C>,
    rank: Reg<'k, U32>,
    /// CTAs side by side, the first of them, and how far apart their numbers are.
    blocks: u32,
    first: Reg<'k, U32>,
    step: u32,
    /// This warp's two buffers, each of this many bytes, and its barrier.
    places: SharedAddress<'k>,
    bytes: u32,
    barrier: Barrier<'k>,
    /// Which buffer comes next; the barrier's phase has the same parity.
    turn: Var<'k, U32>,
}

impl<'k, C: EpilogueChip> ClusterReduction<'k, C> {
    /// Makes the barriers of all warps.
    pub(crate) fn initialise(k: Kernel<'k, C>, plan: &Plan<'_>) {
        if !plan.schedule.reduces_over_cluster() {
            return;
        }
        let barriers = k.region(&plan.cluster_reduction_barriers);
        let arrivals = plan.schedule.tile.cluster.columns();
        for offset in (0..plan.schedule.cluster_reduction_barrier_bytes()).step_by(BARRIER as usize)
        {
            k.barrier_init(Barrier::at(barriers + offset), arrivals);
        }
    }

    /// If rows are longer than a tile.
    pub(super) fn new(
        k: Kernel<'k, C>,
        plan: &Plan<'_>,
        scheduler: &TileScheduler<'k, C>,
        warpgroup: WarpgroupIndex<'k>,
        rank: Reg<'k, U32>,
    ) -> Option<ClusterReduction<'k, C>> {
        let (schedule, cluster) = (plan.schedule, plan.schedule.tile.cluster);
        if !schedule.reduces_over_cluster() {
            return None;
        }
        let bytes = schedule.needs.pass_words * Fragment::WARP_ROWS * 4;
        let warp = warpgroup.in_cta.mad(4, rank >> 5);
        Some(ClusterReduction {
            k,
            rank,
            blocks: cluster.columns(),
            first: scheduler.place()[0],
            step: cluster.rows(),
            places: k.region(&plan.cluster_reduction) + warp * (2 * bytes),
            bytes,
            barrier: Barrier::at(k.region(&plan.cluster_reduction_barriers) + warp * BARRIER),
            turn: k.var(0),
        })
    }

    /// What all tiles together have of a thread's two rows, of which this one has `states`.
    pub(super) fn combine(
        &self,
        evaluator: &Evaluator<'_, 'k, C>,
        reductions: &[Reduction],
        states: &[Vec<State<'k>>; 2],
    ) -> [Vec<State<'k>>; 2] {
        let (k, lane) = (self.k, self.rank & 31);
        let turn = self.turn.copy();
        let own = self.places + (turn * self.bytes + Fragment::row_in_warp(lane) * 4);
        let offset = |row: usize, word: usize| {
            (word as u32 * Fragment::WARP_ROWS + row as u32 * Fragment::SECOND_ROW) * 4
        };
        k.if_(Fragment::is_first_of_row(lane), || {
            for (row, states) in states.iter().enumerate() {
                for (word, value) in states.iter().flatten().enumerate() {
                    k.store_shared(own + offset(row, word), [*value]);
                }
            }
        });
        k.warp_sync();
        let block = |number: Reg<'k, U32>| number.mad(self.step, self.first);
        let to = k.remote(self.barrier, block(lane.min(self.blocks - 1)));
        k.when(lane.lt(self.blocks), || k.barrier_arrive_remote(to, Published::Cluster));
        k.barrier_wait_cluster(self.barrier, turn);
        self.turn.set(turn ^ 1);
        let theirs = |number: u32| {
            let from = k.remote_address(own, block(k.imm(number)));
            let word = |row, word| k.load_cluster::<F32, 1>(from.advance(offset(row, word)))[0];
            [0, 1].map(|row| {
                let mut words = (0..).map(|number| word(row, number));
                let state =
                    |one: &Reduction| words.by_ref().take(one.registers() as usize).collect();
                reductions.iter().map(state).collect::<Vec<State<'k>>>()
            })
        };
        let both = |all: [Vec<State<'k>>; 2], more: [Vec<State<'k>>; 2]| {
            let mut rows = all.into_iter().zip(more).map(|(all, more)| {
                let states = reductions.iter().zip(all.iter().zip(&more));
                states.map(|(one, (all, more))| evaluator.fold_both(*one, all, more)).collect()
            });
            [(); 2].map(|()| rows.next().unwrap_or_default())
        };
        (1..self.blocks).map(theirs).fold(theirs(0), both)
    }
}
