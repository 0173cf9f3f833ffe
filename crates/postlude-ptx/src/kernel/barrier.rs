//! Barriers: named ones of a CTA, the cluster's, and those in shared memory.
//!
//! Arrivals and waits of the usual kind carry no memory order of their own: with an explicit one the hardware flushes
//! caches at every step, and the plain forms already have release and acquire semantics of the CTA. Where CTAs read what
//! threads of others wrote, they say so.

use crate::address::Sink;
use crate::entry::Item;
use crate::inst::Inst;
use crate::modifier::{Alignment, ArriveOrder, Published, Seen, Window};
use crate::operand::{Operand, Trailing, Use};
use crate::target::{Architecture, Clusters, Tma};
use crate::types::{Pred, U32};

use super::{Barrier, ClusterBarrier, Kernel, Reg, Src};

/// A promise of bytes that is filled in when they are known.
#[derive(Clone, Copy)]
pub(crate) struct Promise(usize);

impl<'k, A: Architecture> Kernel<'k, A> {
    /// Waits for all threads of the CTA.
    pub fn sync(self) {
        let barrier = Use(Operand::Integer(0));
        self.code.push(Inst::BarSync { barrier, threads: Trailing(None) });
    }

    /// Waits at a named barrier until this many threads have arrived.
    pub fn sync_named(self, barrier: impl Into<Src<'k, U32>>, threads: u32) {
        let threads = Trailing(Some(Operand::Integer(threads.into())));
        self.code.push(Inst::BarSync { barrier: barrier.into().use_(), threads });
    }

    /// Arrives at a named barrier of this many threads, without waiting.
    pub fn arrive_named(self, barrier: impl Into<Src<'k, U32>>, threads: u32) {
        let threads = Use(Operand::Integer(threads.into()));
        self.code.push(Inst::BarArrive { barrier: barrier.into().use_(), threads });
    }
}

impl<A: Clusters> Kernel<'_, A> {
    /// Arrives at the cluster's barrier.
    pub fn cluster_arrive(self, order: ArriveOrder, alignment: Alignment) {
        self.code.push(Inst::ClusterArrive { order, alignment });
    }

    /// Waits for all threads of the cluster to arrive.
    pub fn cluster_wait(self, alignment: Alignment) {
        self.code.push(Inst::ClusterWait { alignment });
    }

    /// Waits for all threads of the cluster; where warps may have diverged, [`Alignment::Any`].
    pub fn cluster_sync(self, alignment: Alignment) {
        self.cluster_arrive(ArriveOrder::Default, alignment);
        self.cluster_wait(alignment);
    }
}

impl<'k, A: Tma> Kernel<'k, A> {
    /// Makes a barrier whose phase ends with this many arrivals.
    pub fn barrier_init(self, barrier: Barrier<'k>, count: u32) {
        let count = Use(Operand::Integer(count.into()));
        self.code.push(Inst::BarrierInit { barrier: barrier.0.slot(), count });
    }

    /// Unmakes a barrier, so that its bytes may be used otherwise.
    pub fn barrier_invalidate(self, barrier: Barrier<'k>) {
        self.code.push(Inst::BarrierInvalidate { barrier: barrier.0.slot() });
    }

    /// Arrives once.
    pub fn barrier_arrive(self, barrier: Barrier<'k>) {
        let (published, window, count) = (Published::Cta, Window::Cta, Trailing(None));
        let barrier = barrier.0.slot();
        self.code.push(Inst::BarrierArrive { published, window, sink: Sink, barrier, count });
    }

    /// Arrives once at a barrier of any CTA of the cluster, and publishes among whom it says.
    pub fn barrier_arrive_remote(self, barrier: ClusterBarrier<'k>, published: Published) {
        let (window, count) = (Window::Cluster, Trailing(None));
        let barrier = barrier.slot();
        self.code.push(Inst::BarrierArrive { published, window, sink: Sink, barrier, count });
    }

    /// Arrives once, and promises that copies will bring this many bytes in this phase.
    pub fn barrier_expect(self, barrier: Barrier<'k>, bytes: impl Into<Src<'k, U32>>) {
        let (barrier, bytes) = (barrier.0.slot(), bytes.into().use_());
        let window = Window::Cta;
        self.code.push(Inst::BarrierExpect { window, sink: Sink, barrier, bytes });
    }

    /// Waits a while; whether the phase of that parity is complete.
    pub fn barrier_try_wait(
        self,
        barrier: Barrier<'k>,
        parity: impl Into<Src<'k, U32>>,
        seen: Seen,
    ) -> Reg<'k, Pred> {
        let d = self.code.fresh::<Pred>();
        let (barrier, parity) = (barrier.0.slot(), parity.into().use_());
        self.code.push(Inst::BarrierTryWait { seen, d: d.def(), barrier, parity });
        d
    }

    /// Whether the phase of that parity is complete.
    pub fn barrier_test_wait(
        self,
        barrier: Barrier<'k>,
        parity: impl Into<Src<'k, U32>>,
    ) -> Reg<'k, Pred> {
        let d = self.code.fresh::<Pred>();
        let (barrier, parity) = (barrier.0.slot(), parity.into().use_());
        self.code.push(Inst::BarrierTestWait { d: d.def(), barrier, parity });
        d
    }

    /// Waits until the phase of that parity is complete.
    pub fn barrier_wait(self, barrier: Barrier<'k>, parity: impl Into<Src<'k, U32>>) {
        let parity = parity.into();
        self.spin(|| self.barrier_try_wait(barrier, parity, Seen::Cta));
    }

    /// The same; what threads of other CTAs of the cluster published is seen.
    pub fn barrier_wait_cluster(self, barrier: Barrier<'k>, parity: impl Into<Src<'k, U32>>) {
        let parity = parity.into();
        self.spin(|| self.barrier_try_wait(barrier, parity, Seen::Cluster));
    }

    /// Arrives and promises bytes that are not known yet.
    pub(crate) fn barrier_promise(self, barrier: Barrier<'k>) -> Promise {
        let promise = Promise(self.code.items.borrow().len());
        self.barrier_expect(barrier, 0);
        promise
    }

    /// Says how many bytes were promised.
    pub(crate) fn keep_promise(self, promise: Promise, total: u32) {
        let mut items = self.code.items.borrow_mut();
        let Item::Inst { inst: Inst::BarrierExpect { bytes, .. }, .. } = &mut items[promise.0]
        else {
            unreachable!("compiler bug: a promise that is not one");
        };
        *bytes = Use(Operand::Integer(total.into()));
    }

    /// Takes a promise of nothing back.
    pub(crate) fn withdraw(self, promise: Promise) {
        self.code.items.borrow_mut().remove(promise.0);
    }
}
