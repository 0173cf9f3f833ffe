//! A ring of shared-memory slots, each guarded by a full and an empty barrier: the only code that knows of phases.
//!
//! In: how many stages, and who stands on which side. Out: code that waits, fills, reads and releases. Invariants:
//! arrival counts follow from the declared agents, promised bytes from the copies that are made, and a slot is filled
//! again only after every reader in every CTA that the producer writes to has released it.
//!
//! All agents must make the same number of steps. The CTAs of a cluster stand in a grid; a CTA's multicast copies write to
//! its row and to its column of it, and its producer waits for the readers of both.

use std::cell::Cell;

use crate::kernel::{
    Barrier, ClusterBarrier, Delivery, GlobalPointer, Kernel, Policy, Reg, SharedAddress, Src,
    TensorMap, Var,
};
use crate::modifier::{ProxySpace, Published};
use crate::target::Tma;
use crate::types::{Pred, U16, U32};

/// Bytes of one barrier.
const BARRIER: u32 = 8;

/// Who reads a slot, and so how many arrivals release it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Consumers {
    /// So many warpgroups, which read with matrix products: one arrival each, after they waited for those.
    Warpgroups(u32),
    /// So many warps, which read with loads: one arrival each, after the lanes met.
    Warps(u32),
    /// So many threads: one arrival each.
    Threads(u32),
}

impl Consumers {
    const fn count(self) -> u32 {
        match self {
            Consumers::Warpgroups(count) | Consumers::Warps(count) | Consumers::Threads(count) => {
                count
            }
        }
    }
}

/// Who takes part in a ring.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Agents {
    /// Threads of the CTA that call [`Ring::produce`] for every slot, or warps that call [`Ring::produce_by_warp`]; or warps that call [`Ring::produce_written`]
    /// or [`Ring::produce_moved`], and one more where one of them copies.
    pub producers: u32,
    /// Who reads.
    pub consumers: Consumers,
    /// The grid of CTAs that multicast copies cross, its rows numbered before its columns.
    pub grid: Grid,
}

/// CTAs of a cluster, numbered down the first column, then the second.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Grid {
    /// CTAs one below the other, a power of two.
    pub rows: u32,
    /// CTAs side by side.
    pub columns: u32,
}

impl Grid {
    /// A CTA by itself.
    pub const ONE: Grid = Grid { rows: 1, columns: 1 };

    /// CTAs that a CTA's copies write to: its row and its column.
    pub const fn reached(self) -> u32 {
        self.rows + self.columns - 1
    }

    /// The row and the column of the CTA of this number.
    pub fn place(self, rank: Reg<'_, U32>) -> [Reg<'_, U32>; 2] {
        assert!(self.rows.is_power_of_two(), "compiler bug: a grid of {} rows", self.rows);
        [rank & (self.rows - 1), rank >> self.rows.trailing_zeros()]
    }

    /// The CTA that thread `which` of a group releases in: those of the column of `rank` first, then the others of its
    /// row.
    fn reach<'k>(self, rank: Reg<'k, U32>, which: Reg<'k, U32>) -> Reg<'k, U32> {
        let [row, column] = self.place(rank);
        let below = column.mad(self.rows, which);
        if self.columns == 1 {
            return below;
        }
        let beside = which.max(self.rows) - self.rows;
        let beside = (beside + 1).select(beside, beside.ge(column)).mad(self.rows, row);
        below.select(beside, which.lt(self.rows))
    }
}

impl Agents {
    /// Arrivals that fill a slot.
    pub const fn fills(self) -> u32 {
        self.producers
    }

    /// Arrivals that release a slot.
    pub const fn releases(self) -> u32 {
        self.consumers.count() * self.grid.reached()
    }
}

/// Slots with their barriers.
pub struct Ring<'k, A> {
    kernel: Kernel<'k, A>,
    full: SharedAddress<'k>,
    empty: SharedAddress<'k>,
    stages: u32,
    agents: Agents,
    /// For whom consumers' own writes to a slot are ordered when they release it.
    published: Published,
}

/// An agent's place in a ring.
struct Cursor<'k> {
    stage: Var<'k, U32>,
    phase: Var<'k, U32>,
}

/// A producer's place in a ring.
pub struct Producer<'k>(Cursor<'k>);

/// A consumer's place in a ring.
pub struct Consumer<'k> {
    cursor: Cursor<'k>,
    /// Whether this thread arrives for its group.
    releaser: Reg<'k, Pred>,
    /// Where it arrives: the first stage's barrier.
    target: Target<'k>,
    /// The stage before, and whether this thread still has to release it.
    held_stage: Var<'k, U32>,
    held: Var<'k, Pred>,
}

/// A slot that was read and is still to be released.
#[derive(Clone, Copy)]
pub struct Borrowed<'k>(Reg<'k, U32>);

/// How far some slots are.
pub struct Far<'k> {
    /// Times around the ring, and slots beyond.
    rounds: Reg<'k, U32>,
    rest: Reg<'k, U32>,
}

#[derive(Clone, Copy)]
enum Target<'k> {
    Own,
    Cluster(ClusterBarrier<'k>),
}

/// A slot that is being filled.
pub struct Slot<'r, 'k, A> {
    kernel: Kernel<'k, A>,
    /// Which slot.
    pub stage: Reg<'k, U32>,
    full: Barrier<'k>,
    bytes: &'r Cell<u32>,
    grid: Grid,
}

/// Who receives a copy.
#[derive(Clone, Copy)]
pub enum Receivers<'k> {
    /// This CTA.
    Own,
    /// The CTAs of the mask, each of which sends as much to all the others of it.
    Multicast {
        /// A bit for each CTA of the cluster.
        mask: Src<'k, U16>,
        /// How many such copies arrive in each CTA for one that is written down: as many as bits are set; or one, where
        /// the copies of all of them are written down and each CTA issues its own.
        count: u32,
    },
}

impl<'k, A: Tma> Slot<'_, 'k, A> {
    /// Copies a box of this many bytes, which a box beyond the tensor's edge has, too; the slot is full when all
    /// copies to it have arrived.
    pub fn load(
        &self,
        to: SharedAddress<'k>,
        map: TensorMap<'k>,
        coordinates: &[Src<'k, U32>],
        bytes: u32,
        receivers: Receivers<'k>,
        policy: Option<Policy<'k>>,
    ) {
        let (receivers, arriving) = match receivers {
            Receivers::Own => (None, bytes),
            Receivers::Multicast { mask, count } => {
                assert!(
                    [1, self.grid.rows, self.grid.columns].contains(&count),
                    "compiler bug: copies to CTAs that the ring leaves out"
                );
                (Some(mask), bytes * count)
            }
        };
        self.bytes.set(self.bytes.get() + arriving);
        self.kernel.tensor_load(to, map, coordinates, self.full, Delivery { receivers, policy });
    }

    /// Copies plain bytes to this CTA: a multiple of 16, at addresses that are.
    pub fn load_bytes(&self, to: SharedAddress<'k>, from: GlobalPointer<'k>, bytes: u32) {
        self.bytes.set(self.bytes.get() + bytes);
        self.kernel.bulk_load(to, from, bytes, self.full);
    }
}

impl<'k, A: Tma> Ring<'k, A> {
    /// Bytes that the barriers of a ring take, aligned to 8.
    pub const fn barrier_bytes(stages: u32) -> u32 {
        2 * BARRIER * stages
    }

    /// A ring with its barriers at `barriers`.
    pub fn new(
        kernel: Kernel<'k, A>,
        barriers: SharedAddress<'k>,
        stages: u32,
        agents: Agents,
    ) -> Self {
        let (full, empty) = (barriers, barriers + BARRIER * stages);
        Ring { kernel, full, empty, stages, agents, published: Published::Cta }
    }

    /// The same ring with consumers that also write to slots, over which other CTAs copy once they are released.
    #[must_use]
    pub fn written_by_consumers(self) -> Self {
        Ring { published: Published::Cluster, ..self }
    }

    /// How many slots it has.
    pub fn stages(&self) -> u32 {
        self.stages
    }

    /// Makes the barriers. One thread does; then [`Kernel::fence_barrier_init`], and all agents meet.
    pub fn initialise(&self) {
        for stage in 0..self.stages {
            let offset = stage * BARRIER;
            self.kernel.barrier_init(Barrier::at(self.full + offset), self.agents.fills());
            self.kernel.barrier_init(Barrier::at(self.empty + offset), self.agents.releases());
        }
    }

    fn cursor(&self, phase: u32) -> Cursor<'k> {
        Cursor { stage: self.kernel.var(0), phase: self.kernel.var(phase) }
    }

    /// A producer at the first slot. It starts a phase ahead, because every slot starts empty.
    pub fn producer(&self) -> Producer<'k> {
        Producer(self.cursor(1))
    }

    /// A consumer at the first slot; `rank` is the thread in its warpgroup, its warp, or 0 where each thread counts.
    ///
    /// With several CTAs, the first threads of a group each release the slot of one CTA.
    pub fn consumer(&self, rank: Reg<'k, U32>) -> Consumer<'k> {
        let k = self.kernel;
        let grid = self.agents.grid;
        let blocks = grid.reached();
        let releaser = match self.agents.consumers {
            Consumers::Warpgroups(_) | Consumers::Warps(_) => rank.lt(blocks),
            Consumers::Threads(_) => {
                assert!(blocks == 1, "compiler bug: single threads release only their own CTA");
                rank.ge(0)
            }
        };
        let target = if blocks == 1 {
            Target::Own
        } else {
            // Threads that release nothing still need a CTA that exists.
            let block = grid.reach(k.cluster_rank(), rank.min(blocks - 1));
            Target::Cluster(k.remote(Barrier::at(self.empty), block))
        };
        let (held_stage, held) = (k.var(0), k.var(false));
        Consumer { cursor: self.cursor(0), releaser, target, held_stage, held }
    }

    /// Waits for an empty slot, lets `fill` copy into it, and goes on.
    ///
    /// Without copies in `fill` the slot is full when `fill` is done, and matrix products see what it wrote.
    pub fn produce(&self, at: &Producer<'k>, fill: impl FnOnce(&Slot<'_, 'k, A>)) {
        let k = self.kernel;
        let (stage, bytes) = (at.0.stage.get(), Cell::new(0));
        self.wait_until_empty(&at.0);
        let full = Barrier::at(self.full + stage * BARRIER);
        let promise = k.barrier_promise(full);
        fill(&Slot { kernel: k, stage, full, bytes: &bytes, grid: self.agents.grid });
        if bytes.get() > 0 {
            k.keep_promise(promise, bytes.get());
        } else {
            k.withdraw(promise);
            k.fence_proxy_async(ProxySpace::SharedCta);
            k.barrier_arrive(full);
        }
        self.advance(&at.0);
    }

    /// The same by a whole warp, of which one lane fills. What all lanes know alike stays in uniform registers, which
    /// copies take.
    pub fn produce_by_warp(&self, at: &Producer<'k>, fill: impl FnOnce(&Slot<'_, 'k, A>)) {
        let k = self.kernel;
        self.wait_until_empty(&at.0);
        let stage = at.0.stage.get();
        let full = Barrier::at(self.full + stage * BARRIER);
        k.if_(k.elect(), || self.copy_into(stage, full, fill));
        self.advance(&at.0);
    }

    /// Waits for an empty slot, lets a warp `write` into it, and goes on. `lane` is the thread's in its warp. Where a
    /// leader is given, that one thread also lets `copy` copy into the slot.
    pub fn produce_written(
        &self,
        at: &Producer<'k>,
        lane: Reg<'k, U32>,
        leader: Option<Reg<'k, Pred>>,
        copy: impl FnOnce(&Slot<'_, 'k, A>),
        write: impl FnOnce(Reg<'k, U32>),
    ) {
        let full = self.begin_written(at, leader, copy);
        write(at.0.stage.get());
        self.end_written(lane, full);
        self.advance(&at.0);
    }

    /// The same for several slots one behind the other, `count` of at most `most`: one fence orders all of a warp's writes. `copy` gets
    /// the number of a slot among them, `write` their stages.
    pub fn produce_several(
        &self,
        at: &Producer<'k>,
        lane: Reg<'k, U32>,
        (count, most): (Reg<'k, U32>, u32),
        (leader, copy): (Option<Reg<'k, Pred>>, impl Fn(&Slot<'_, 'k, A>, u32)),
        write: impl FnOnce(&[Reg<'k, U32>]),
    ) {
        assert!(most <= self.stages, "compiler bug: more slots at a time than the ring has");
        let k = self.kernel;
        let mut stages = Vec::new();
        for number in 0..most {
            let stage = at.0.stage.copy();
            stages.push(stage);
            k.if_(count.gt(number), || {
                self.begin_written(at, leader, |slot: &Slot<'_, 'k, A>| copy(slot, number));
                self.advance(&at.0);
            });
        }
        write(&stages);
        k.fence_proxy_async(ProxySpace::SharedCta);
        k.warp_sync();
        for (number, stage) in (0..).zip(stages) {
            let full = Barrier::at(self.full + stage * BARRIER);
            k.when(lane.eq(0) & count.gt(number), || k.barrier_arrive(full));
        }
    }

    /// The same by a warp that moves what it writes from a full slot of another ring. One fence orders its reads there
    /// and its writes here.
    pub fn produce_moved(
        &self,
        at: &Producer<'k>,
        (from, from_at): (&Ring<'k, A>, &Consumer<'k>),
        lane: Reg<'k, U32>,
        leader: Option<Reg<'k, Pred>>,
        copy: impl FnOnce(&Slot<'_, 'k, A>),
        move_: impl FnOnce(Reg<'k, U32>, Reg<'k, U32>),
    ) {
        assert!(
            matches!(from.agents.consumers, Consumers::Warps(_)),
            "compiler bug: a warp moves what others than warps read"
        );
        let full = self.begin_written(at, leader, copy);
        from.wait(from.full, &from_at.cursor);
        move_(from_at.cursor.stage.get(), at.0.stage.get());
        self.end_written(lane, full);
        from.arrive_empty(from_at, from_at.cursor.stage.get(), from_at.releaser);
        from.advance(&from_at.cursor);
        self.advance(&at.0);
    }

    /// Waits for an empty slot, and lets the leader copy.
    fn begin_written(
        &self,
        at: &Producer<'k>,
        leader: Option<Reg<'k, Pred>>,
        copy: impl FnOnce(&Slot<'_, 'k, A>),
    ) -> Barrier<'k> {
        let stage = at.0.stage.get();
        self.wait_until_empty(&at.0);
        let full = Barrier::at(self.full + stage * BARRIER);
        if let Some(leader) = leader {
            self.kernel.if_(leader, || self.copy_into(stage, full, copy));
        }
        full
    }

    /// Orders what a warp accessed before what copies and matrix products will do, and arrives.
    fn end_written(&self, lane: Reg<'k, U32>, full: Barrier<'k>) {
        let k = self.kernel;
        k.fence_proxy_async(ProxySpace::SharedCta);
        k.warp_sync();
        k.when(lane.eq(0), || k.barrier_arrive(full));
    }

    /// Promises what `copy` copies into an empty slot, and lets it.
    fn copy_into(
        &self,
        stage: Reg<'k, U32>,
        full: Barrier<'k>,
        copy: impl FnOnce(&Slot<'_, 'k, A>),
    ) {
        let (k, bytes) = (self.kernel, Cell::new(0));
        let promise = k.barrier_promise(full);
        copy(&Slot { kernel: k, stage, full, bytes: &bytes, grid: self.agents.grid });
        assert!(bytes.get() > 0, "compiler bug: a promise of nothing");
        k.keep_promise(promise, bytes.get());
    }

    /// Waits for a full slot, lets `read` use it, releases it and goes on. When `read` returns, this group's reads
    /// must be complete.
    pub fn consume(&self, at: &Consumer<'k>, read: impl FnOnce(Reg<'k, U32>)) {
        self.wait(self.full, &at.cursor);
        read(at.cursor.stage.get());
        self.release(at, &[(at.cursor.stage.get(), at.releaser)]);
        self.advance(&at.cursor);
    }

    /// Waits for a full slot, lets `read` use it and goes on; the slot stays this group's until [`Ring::give_back`].
    pub fn borrow(&self, at: &Consumer<'k>, read: impl FnOnce(Reg<'k, U32>)) -> Borrowed<'k> {
        self.wait(self.full, &at.cursor);
        let stage = at.cursor.stage.copy();
        read(stage);
        self.advance(&at.cursor);
        Borrowed(stage)
    }

    /// Releases slots of which this group's reads are complete.
    pub fn give_back(&self, at: &Consumer<'k>, slots: &[Borrowed<'k>]) {
        let slots: Vec<_> = slots.iter().map(|slot| (slot.0, at.releaser)).collect();
        self.release(at, &slots);
    }

    /// Waits for a full slot, lets `read` start to use it, releases the slot of the step before and goes on. When
    /// `read` returns, this group's reads of the slot before must be complete; [`Ring::release_held`] ends a run.
    pub fn consume_behind(&self, at: &Consumer<'k>, read: impl FnOnce(Reg<'k, U32>)) {
        self.wait(self.full, &at.cursor);
        read(at.cursor.stage.get());
        self.release(at, &[(at.held_stage.get(), at.held.get())]);
        at.held_stage.set(at.cursor.stage);
        at.held.set(at.releaser);
        self.advance(&at.cursor);
    }

    /// The same, but `read` says itself when this group's reads of the slot before are complete: it calls what it is given, once.
    pub fn consume_releasing(&self, at: &Consumer<'k>, read: impl FnOnce(Reg<'k, U32>, &dyn Fn())) {
        self.wait(self.full, &at.cursor);
        read(at.cursor.stage.get(), &|| {
            self.release(at, &[(at.held_stage.get(), at.held.get())]);
        });
        at.held_stage.set(at.cursor.stage);
        at.held.set(at.releaser);
        self.advance(&at.cursor);
    }

    /// Releases the last slot of a run of [`Ring::consume_behind`] or [`Ring::consume_releasing`], when all reads are
    /// complete.
    pub fn release_held(&self, at: &Consumer<'k>) {
        self.release(at, &[(at.held_stage.get(), at.held.get())]);
        at.held.set(false);
    }

    /// Passes over slots that other readers of the ring are for.
    pub fn skip(&self, at: &Consumer<'k>, far: &Far<'k>) {
        let reached = at.cursor.stage.get() + far.rest;
        let wraps = reached.ge(self.stages);
        at.cursor.stage.set((reached - self.stages).select(reached, wraps));
        let rounds = (far.rounds + 1).select(far.rounds, wraps);
        at.cursor.phase.set(at.cursor.phase.get() ^ (rounds & 1));
    }

    /// How far this many slots are: a division, which a loop does not need to repeat.
    pub fn far(&self, slots: Reg<'k, U32>) -> Far<'k> {
        let rounds = slots / self.stages;
        Far { rounds, rest: slots - rounds * self.stages }
    }

    /// Releases slots, each where its thread is one that does. What loads have read is first ordered before the copies
    /// that will overwrite it, and threads that one arrival speaks for meet. Matrix products read as copies do, and were
    /// waited for.
    fn release(&self, at: &Consumer<'k>, slots: &[(Reg<'k, U32>, Reg<'k, Pred>)]) {
        if slots.is_empty() {
            return;
        }
        match self.agents.consumers {
            Consumers::Warpgroups(_) => {}
            Consumers::Warps(_) => {
                self.kernel.fence_proxy_async(ProxySpace::SharedCta);
                self.kernel.warp_sync();
            }
            Consumers::Threads(_) => self.kernel.fence_proxy_async(ProxySpace::SharedCta),
        }
        for (stage, releaser) in slots {
            self.arrive_empty(at, *stage, *releaser);
        }
    }

    /// Arrives for a slot whose reads are ordered already.
    fn arrive_empty(&self, at: &Consumer<'k>, stage: Reg<'k, U32>, releaser: Reg<'k, Pred>) {
        let (k, offset) = (self.kernel, stage * BARRIER);
        match at.target {
            Target::Own => {
                let barrier = Barrier::at(self.empty + offset);
                k.when(releaser, || k.barrier_arrive(barrier));
            }
            Target::Cluster(first) => {
                let barrier = first.advance(offset);
                k.when(releaser, || k.barrier_arrive_remote(barrier, self.published));
            }
        }
    }

    fn wait_until_empty(&self, at: &Cursor<'k>) {
        match self.published {
            Published::Cta | Published::CtaInFull => self.wait(self.empty, at),
            Published::Cluster => {
                let barrier = Barrier::at(self.empty + at.stage.get() * BARRIER);
                self.kernel.barrier_wait_cluster(barrier, at.phase);
            }
        }
    }

    fn wait(&self, barriers: SharedAddress<'k>, at: &Cursor<'k>) {
        let barrier = Barrier::at(barriers + at.stage.get() * BARRIER);
        self.kernel.barrier_wait(barrier, at.phase);
    }

    fn advance(&self, at: &Cursor<'k>) {
        at.stage.set(at.stage.get() + 1);
        let wrapped = at.stage.get().eq(self.stages);
        let other = at.phase.get() ^ 1;
        self.kernel.when(wrapped, || {
            at.stage.set(0);
            at.phase.set(other);
        });
    }
}
