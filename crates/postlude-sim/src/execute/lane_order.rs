//! Reports every step to the tracker of lanes, and turns the errors that it finds into findings.
//!
//! In: steps with the lanes that execute them. Out: findings. Without a request for findings nothing is tracked.

use postlude_ptx::inst::Inst;
use postlude_ptx::modifier::{ArriveOrder, Order as Semantics};

use crate::error::SimError;
use crate::lane_order::{AgentId, Does, Found, Piece, Where};
use crate::machine::Machine;
use crate::observe::Kind;
use crate::report::{Diagnosis, Finding};
use crate::warp::Warp;

use super::Now;

/// What an instruction does to the order of lanes.
enum Ordering {
    /// The lanes that it names synchronise.
    Meet,
    /// The warp synchronises, and releases to other warps.
    Barrier,
    /// Lanes release.
    Release,
    /// Lanes acquire.
    Acquire,
    /// Lanes acquire, then release.
    Both,
    /// A relaxed access to a word that other lanes may have released; a later fence acquires.
    Pull,
    /// A fence of memory.
    Fence,
    /// A fence between proxies.
    Proxies,
    Nothing,
}

impl Ordering {
    fn of(inst: &Inst) -> Self {
        let by = |order: &Semantics| match order {
            Semantics::Acquire => Ordering::Acquire,
            Semantics::Release => Ordering::Release,
            Semantics::AcqRel => Ordering::Both,
            Semantics::Relaxed => Ordering::Pull,
        };
        match inst {
            Inst::WarpSync { .. } => Ordering::Meet,
            Inst::BarSync { .. } => Ordering::Barrier,
            Inst::ClusterArrive { order: ArriveOrder::Relaxed, .. } => Ordering::Nothing,
            Inst::BarArrive { .. }
            | Inst::ClusterArrive { order: ArriveOrder::Default, .. }
            | Inst::BarrierArrive { .. }
            | Inst::BarrierExpect { .. }
            | Inst::TensorLoad { .. }
            | Inst::TensorLoadHint { .. }
            | Inst::TensorMulticast { .. }
            | Inst::TensorMulticastHint { .. }
            | Inst::BulkLoad { .. }
            | Inst::StoreAsync { .. }
            | Inst::Wgmma { .. } => Ordering::Release,
            Inst::ClusterWait { .. }
            | Inst::BarrierTryWait { .. }
            | Inst::BarrierTestWait { .. }
            | Inst::BulkWait { .. }
            | Inst::CopyWait { .. } => Ordering::Acquire,
            Inst::LoadOrdered { order, .. }
            | Inst::StoreOrdered { order, .. }
            | Inst::Atomic { order, .. }
            | Inst::AtomicSwap { order, .. }
            | Inst::Reduce { order, .. } => by(order),
            Inst::AtomicShared { .. } => Ordering::Pull,
            Inst::Fence { .. } => Ordering::Fence,
            Inst::FenceProxyAsync { .. } => Ordering::Proxies,
            _ => Ordering::Nothing,
        }
    }
}

impl Machine<'_> {
    /// A warp as the trackers name it.
    fn agent(&self, warp: &Warp) -> AgentId {
        (self.ctas[warp.cta].number, warp.number)
    }

    /// Notes what a step releases, before it is executed.
    pub(super) fn order_lanes(&mut self, warp: &Warp, now: Now, inst: &Inst) {
        let agent = self.agent(warp);
        let members = match inst {
            Inst::WarpSync { members } => self.value(warp, members.0),
            _ => [0; 32],
        };
        let (Some(order), Some(lanes)) = (&mut self.observer.order, &mut self.observer.lanes)
        else {
            return;
        };
        let stamp = lanes.begin();
        let mut learning = 0;
        match Ordering::of(inst) {
            Ordering::Meet => {
                let mut rest = now.mask;
                while rest != 0 {
                    let members = members[rest.trailing_zeros() as usize] as u32 & rest;
                    lanes.state(agent).meet(members, warp.live);
                    // A lane outside its own mask is already a finding; it synchronises with no lane.
                    rest &= !(members | rest & rest.wrapping_neg());
                }
            }
            Ordering::Barrier => {
                let moment = order.moment(agent.0, agent.1);
                let state = lanes.state(agent);
                state.meet(now.mask, warp.live);
                state.release(now.mask, moment, stamp);
            }
            Ordering::Release => {
                lanes.state(agent).release(now.mask, order.moment(agent.0, agent.1), stamp);
            }
            Ordering::Proxies => {
                lanes.state(agent).fence(now.mask, order.moment(agent.0, agent.1), stamp);
            }
            Ordering::Fence => {
                learning = lanes.state(agent).pulled(now.mask);
                lanes.state(agent).acquire(learning);
                lanes.state(agent).release(now.mask, order.moment(agent.0, agent.1), stamp);
            }
            Ordering::Both => {
                learning = now.mask;
                lanes.state(agent).acquire(now.mask);
                lanes.state(agent).release(now.mask, order.moment(agent.0, agent.1), stamp);
            }
            Ordering::Acquire => learning = now.mask,
            Ordering::Pull | Ordering::Nothing => {}
        }
        if learning != 0 && lanes.state(agent).will_lag(learning, warp.live) {
            let knows = order.knowledge(agent.0, agent.1);
            lanes.before_wait(agent, learning, warp.live, knows);
        }
    }

    /// Notes what a step has acquired, after it is executed.
    pub(super) fn ordered_lanes(&mut self, warp: &Warp, now: Now, inst: &Inst) {
        let agent = self.agent(warp);
        let Some(lanes) = &mut self.observer.lanes else { return };
        let state = lanes.state(agent);
        match Ordering::of(inst) {
            Ordering::Acquire => {
                state.acquire(now.mask);
                state.waited(now.mask);
            }
            Ordering::Both => {
                state.acquire(now.mask);
                state.waited(now.mask);
                state.pull(now.mask);
            }
            Ordering::Fence => {
                let pulled = state.pulled(now.mask);
                if pulled != 0 {
                    state.waited(pulled);
                    state.push(now.mask);
                }
            }
            Ordering::Pull => state.pull(now.mask),
            Ordering::Meet
            | Ordering::Barrier
            | Ordering::Release
            | Ordering::Proxies
            | Ordering::Nothing => {}
        }
    }

    /// Lanes read or write memory; atomics and ordered accesses never clash.
    pub(super) fn touch_lanes(
        &mut self,
        warp: &Warp,
        now: Now,
        space: Where,
        kind: Kind,
        pieces: &[Piece],
    ) -> Result<(), SimError> {
        let does = match kind {
            Kind::Read => Does::Read,
            Kind::Write => Does::Write,
            Kind::Atomic => return Ok(()),
        };
        let inst = &self.program.steps[now.pc as usize].inst;
        if let Inst::LoadOrdered { .. } | Inst::StoreOrdered { .. } = inst {
            return Ok(());
        }
        let agent = self.agent(warp);
        let (Some(order), Some(lanes)) = (&mut self.observer.order, &mut self.observer.lanes)
        else {
            return Ok(());
        };
        match lanes.touch(order, (agent, now.line), space, does, pieces) {
            Some(found) => self.blame_lanes(warp.cta, Some(warp.number), now.line, space, found),
            None => Ok(()),
        }
    }

    /// A lane has handed a copy over that reads or writes shared memory of a CTA.
    pub(super) fn touch_copy(
        &mut self,
        (warp, lane): (&Warp, usize),
        now: Now,
        (cta, number): (usize, u64),
        does: Does,
        piece: (u32, u32),
    ) -> Result<(), SimError> {
        let (agent, cta) = (self.agent(warp), self.ctas[cta].number);
        let (Some(order), Some(lanes)) = (&mut self.observer.order, &mut self.observer.lanes)
        else {
            return Ok(());
        };
        let piece = (u64::from(piece.0), piece.1);
        let found = lanes.copy(order, ((agent, lane as u32), now.line), (cta, number), does, piece);
        let space = Where::Shared { cta };
        for found in found {
            self.blame_lanes(warp.cta, Some(warp.number), now.line, space, found)?;
        }
        Ok(())
    }

    /// A product, which a warp of the warpgroup was the last to issue, reads shared memory.
    pub(crate) fn touch_product(
        &mut self,
        (cta, warp): (usize, u32),
        (line, number): (u32, u64),
        pieces: &[(u64, u32)],
    ) -> Result<(), SimError> {
        let name = self.ctas[cta].number;
        let (Some(order), Some(lanes)) = (&self.observer.order, &mut self.observer.lanes) else {
            return Ok(());
        };
        match lanes.product(order, (name, number), (name, warp), pieces) {
            Some(found) => {
                self.blame_lanes(cta, Some(warp), line, Where::Shared { cta: name }, found)
            }
            None => Ok(()),
        }
    }

    #[cold]
    fn blame_lanes(
        &mut self,
        cta: usize,
        warp: Option<u32>,
        line: u32,
        space: Where,
        found: Found,
    ) -> Result<(), SimError> {
        let Found { diagnosis, address, message } = found;
        let (region, whereabouts) = match space {
            Where::Shared { .. } => {
                (self.region(address as u32), format!("shared address {address:#x}"))
            }
            Where::Global => (None, self.global.describe(address)),
        };
        // A finding that the warps are not ordered either is the cause, and replaces this one.
        let known = |each: &Finding| {
            each.line == line
                && matches!(
                    each.diagnosis,
                    Diagnosis::UnorderedShared
                        | Diagnosis::UnorderedGlobal
                        | Diagnosis::ReadUnderCopy
                )
        };
        if self.report.findings.iter().any(known) {
            return Ok(());
        }
        let (cta, text) = (self.ctas[cta].number, self.program.text(line));
        let message = format!("{whereabouts}: {message}");
        let address = Some(address);
        self.find(Finding { diagnosis, line, text, cta, warp, region, address, message })
    }
}
