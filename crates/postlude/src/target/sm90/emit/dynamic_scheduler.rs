//! The dynamic tile scheduler: clusters take tiles that take unlike times as they get through them.
//!
//! A cluster's first two tiles are those that it would have of a static scheduler. The load warp of its first CTA takes the
//! number of every further one from a counter in the workspace when it begins to load the tile before, while math warps are busy
//! with stages that are full. All warps that work on tiles read the number in that CTA's shared memory. The last number that is
//! taken leaves the counter at zero for the next launch.

use postlude_ptx::kernel::{Barrier, Kernel, PointerParameter, Reg, SharedAddress, Var};
use postlude_ptx::modifier::{Order, Published, Reduction, Scope};
use postlude_ptx::target::Tma;
use postlude_ptx::types::U32;

use crate::target::sm90::plan::{DYNAMIC_SLOTS, Sm90Schedule};

use super::plan::Plan;

/// Bytes of a barrier, and of a number.
const BARRIER: u32 = 8;
const NUMBER: u32 = 4;

pub(super) struct DynamicScheduler<'k, C> {
    k: Kernel<'k, C>,
    counter: PointerParameter<'k>,
    slots: Slots<'k>,
    /// CTAs of the cluster, and which this is.
    blocks: u32,
    rank: Reg<'k, U32>,
    lane: Reg<'k, U32>,
}

/// Numbers of tiles with their barriers; the numbers and the empty barriers of a cluster's first CTA are used alone.
#[derive(Clone, Copy)]
struct Slots<'k> {
    full: SharedAddress<'k>,
    empty: SharedAddress<'k>,
    numbers: SharedAddress<'k>,
}

/// How many numbers a warp has read.
pub(super) struct Reader<'k>(Var<'k, U32>);

/// How many numbers a load warp has published, and what its first lane was told last: by the counter, or at first what makes the
/// second tile the static one.
pub(super) struct Publisher<'k> {
    published: Var<'k, U32>,
    taken: Var<'k, U32>,
}

impl<'k> Slots<'k> {
    fn of<C: Tma>(k: Kernel<'k, C>, plan: &Plan<'_>) -> Self {
        let full = k.region(&plan.dynamic);
        let empty = full + DYNAMIC_SLOTS * BARRIER;
        Slots { full, empty, numbers: empty + DYNAMIC_SLOTS * BARRIER }
    }
}

/// The slot of a number, and the parity of its barriers' phase.
fn slot(count: Reg<'_, U32>) -> [Reg<'_, U32>; 2] {
    [count & (DYNAMIC_SLOTS - 1), (count >> DYNAMIC_SLOTS.trailing_zeros()) & 1]
}

impl<'k, C: Tma> DynamicScheduler<'k, C> {
    /// Makes the barriers.
    pub(super) fn initialise(k: Kernel<'k, C>, plan: &Plan<'_>) {
        let schedule: &Sm90Schedule = plan.schedule;
        if !schedule.is_dynamic() {
            return;
        }
        let (slots, blocks) = (Slots::of(k, plan), schedule.tile.cluster.blocks());
        for offset in (0..DYNAMIC_SLOTS).map(|slot| slot * BARRIER) {
            k.barrier_init(Barrier::at(slots.full + offset), 1);
            k.barrier_init(Barrier::at(slots.empty + offset), schedule.told_warps() * blocks);
        }
    }

    pub(super) fn new(
        k: Kernel<'k, C>,
        plan: &Plan<'_>,
        counter: PointerParameter<'k>,
        rank: Reg<'k, U32>,
    ) -> Self {
        let (slots, blocks) = (Slots::of(k, plan), plan.schedule.tile.cluster.blocks());
        DynamicScheduler { k, counter, slots, blocks, rank, lane: k.thread() & 31 }
    }

    pub(super) fn reader(&self) -> Reader<'k> {
        Reader(self.k.var(0))
    }

    pub(super) fn publisher(&self) -> Publisher<'k> {
        let k = self.k;
        Publisher { published: k.var(0), taken: k.var(k.cluster() - k.clusters()) }
    }

    /// A warp waits for the number of its cluster's next tile.
    pub(super) fn next(&self, at: &Reader<'k>) -> Reg<'k, U32> {
        let (k, slots) = (self.k, self.slots);
        let [slot, parity] = slot(at.0.copy());
        k.barrier_wait_cluster(Barrier::at(slots.full + slot * BARRIER), parity);
        let [number] = k.load_cluster(k.remote_address(slots.numbers + slot * NUMBER, 0));
        k.warp_sync();
        let empty = k.remote(Barrier::at(slots.empty + slot * BARRIER), 0);
        k.when(self.lane.eq(0), || k.barrier_arrive_remote(empty, Published::Cluster));
        at.0.set(at.0.get() + 1);
        number
    }

    /// The load warp takes the number of the tile behind the one that it begins to load, of `total` numbers, and publishes it.
    pub(super) fn publish(&self, at: &Publisher<'k>, total: Reg<'k, U32>) {
        let (k, slots) = (self.k, self.slots);
        k.if_(self.rank.eq(0), || {
            let (published, clusters, first) = (at.published.copy(), k.clusters(), self.lane.eq(0));
            let (counter, last) = (self.counter.load(), total - clusters - 1);
            k.when(first & published.gt(0), || {
                let (order, scope) = (Order::Relaxed, Scope::Gpu);
                at.taken.set(k.atomic::<U32>(Reduction::Increment, order, scope, counter, last));
            });
            let [slot, parity] = slot(published);
            // Every slot starts empty.
            k.barrier_wait_cluster(Barrier::at(slots.empty + slot * BARRIER), parity ^ 1);
            let number = clusters.mad(2, at.taken.get());
            k.when(first, || k.store_shared(slots.numbers + slot * NUMBER, [number]));
            k.warp_sync();
            let own = Barrier::at(slots.full + slot * BARRIER);
            let full = k.remote(own, self.lane.min(self.blocks - 1));
            let told = self.lane.lt(self.blocks);
            k.when(told, || k.barrier_arrive_remote(full, Published::Cluster));
            at.published.set(published + 1);
        });
    }
}
