//! Barriers and operations: where agents learn from each other.
//!
//! In: arrivals, waits and operations as the machine tells of them. Out: clocks joined. Invariant: who waits learns what
//! those knew that arrived in the phase it waited for, or before; never what arrived since.

use std::cell::Cell;
use std::collections::HashMap;
use std::rc::Rc;

use super::{
    Agent, Agents, At, Clash, Clock, Does, Fault, Id, Operation, Order, Part, Slot, Space, Touch,
};
use super::{WaitFor, Waited};

/// A barrier that is met in rounds: named, or of a cluster.
#[derive(Default, Debug)]
pub(super) struct Meeting {
    round: u64,
    /// What those know that arrived in this round, and in the one before.
    open: Clock,
    complete: Clock,
    /// The same of those that arrived relaxed, behind a fence for barriers they made: it tells of barriers alone.
    open_made: Clock,
    complete_made: Clock,
    /// Warps that wait for the end of this round.
    pub(super) waiting: Vec<u32>,
}

impl Meeting {
    /// Begins another round, if this is one.
    fn turn(&mut self, round: u64) -> Vec<u32> {
        if round <= self.round {
            return Vec::new();
        }
        self.round = round;
        self.complete = std::mem::take(&mut self.open);
        self.complete_made = std::mem::take(&mut self.open_made);
        std::mem::take(&mut self.waiting)
    }

    /// A warp goes on; whoever goes on late was told when the next round began.
    pub(super) fn leave(&mut self, warp: u32, seen: &mut Clock) {
        if let Some(place) = self.waiting.iter().position(|each| *each == warp) {
            self.waiting.swap_remove(place);
            seen.join(&self.open);
        }
    }
}

/// A barrier in shared memory. Arrivals change it atomically, so that later phases include earlier ones.
#[derive(Debug)]
pub(super) struct Phases {
    made: Touch,
    phase: u64,
    open: Clock,
    complete: Clock,
    /// The same of other CTAs' arrivals that publish to the cluster: a wait of the CTA's scope does not see it.
    open_remote: Clock,
    complete_remote: Clock,
    /// Who arrived in this phase and in the one before, and at which lines.
    now: HashMap<Id, u32>,
    before: HashMap<Id, u32>,
}

impl Phases {
    /// When it was made.
    pub(super) fn made(&self) -> Touch {
        self.made
    }

    /// Who arrived in the phase before, and in this one.
    pub(super) fn arrivals(&self, phase: u64) -> (HashMap<Id, u32>, HashMap<Id, u32>) {
        if phase > self.phase {
            (self.now.clone(), HashMap::new())
        } else {
            (self.before.clone(), self.now.clone())
        }
    }

    fn turn(&mut self, phase: u64) {
        if phase > self.phase {
            self.phase = phase;
            self.complete = self.open.clone();
            self.complete_remote = self.open_remote.clone();
            self.before = std::mem::take(&mut self.now);
        }
    }
}

impl Order {
    /// A barrier in shared memory is made or unmade.
    pub(crate) fn made(&mut self, at: At, cta: u32, address: u32, exists: bool) {
        let Some((touch, _)) = self.actor(at, None) else { return };
        let barriers = &mut self.ctas[cta as usize].barriers;
        if !exists {
            barriers.remove(&address);
            return self.write_barrier(at, cta, address);
        }
        let new = Phases {
            made: touch,
            phase: 0,
            open: Clock::default(),
            complete: Clock::default(),
            open_remote: Clock::default(),
            complete_remote: Clock::default(),
            now: HashMap::new(),
            before: HashMap::new(),
        };
        if let Some(old) = barriers.insert(address, new) {
            let old = (old.made, Does::Write);
            self.clash_barrier(Fault::InitAgain, cta, address, old, touch);
        }
        self.write_barrier(at, cta, address);
    }

    fn clash_barrier(
        &mut self,
        fault: Fault,
        cta: u32,
        address: u32,
        old: (Touch, Does),
        touch: Touch,
    ) {
        let (space, address) = (Space::Shared { cta }, address.into());
        self.clash(Clash { fault, space, address, old, new: (touch, Does::Write), warp: None });
    }

    pub(crate) fn arrived(&mut self, at: At, cta: u32, address: u32, phase: u64) {
        let Some((touch, seen)) = self.actor(at, None) else { return };
        self.visit(touch, cta);
        let Some(phases) = self.ctas[cta as usize].barriers.get_mut(&address) else { return };
        phases.turn(phase);
        // A copy's bytes arrive with release semantics for the cluster (PTX ISA, "Completion Mechanisms").
        let is_local = touch.by.cta == cta || matches!(at.agent, Agent::Operation(_));
        if is_local {
            phases.open.join(&seen);
        } else if self.wide.contains(&at.line) {
            phases.open_remote.join(&seen);
        } else {
            phases.open.join_executed(&seen);
        }
        phases.now.insert(touch.by, at.line);
        let made = phases.made;
        if seen.get(made.by) < made.moment && !self.knows(at, made) {
            self.clash_barrier(Fault::BeforeInit, cta, address, (made, Does::Write), touch);
        }
        if let Agent::Warp { .. } = at.agent {
            self.tick(touch.by);
        }
    }

    pub(crate) fn waited(&mut self, at: At, cta: u32, address: u32, phase: u64) {
        let Some((touch, seen)) = self.actor(at, None) else { return };
        let state = &mut self.ctas[cta as usize];
        let Some(phases) = state.barriers.get_mut(&address) else { return };
        if phase != u64::MAX {
            phases.turn(phase + 1);
        }
        let warp = &mut state.warps[touch.by.local as usize];
        warp.seen.join(&phases.complete);
        if self.wide.contains(&at.line) {
            warp.seen.join(&phases.complete_remote);
        } else {
            warp.seen.join_executed(&phases.complete_remote);
        }
        let (line, step) = (at.line, self.step);
        let waited = warp.waits.entry(address).or_insert(Waited { phase, times: 0, step: 0, line });
        if waited.phase != phase {
            waited.times = 0;
        }
        waited.times += u32::from(waited.step != step);
        (waited.phase, waited.step, waited.line) = (phase, step, line);
        let made = phases.made;
        if seen.get(made.by) < made.moment && !self.knows(at, made) {
            self.clash_barrier(Fault::BeforeInit, cta, address, (made, Does::Write), touch);
        }
    }

    /// Whether somebody knows that a barrier was made from a fence for just that.
    fn knows(&self, at: At, made: Touch) -> bool {
        let warp = match at.agent {
            Agent::Warp { cta, warp } => Some(&self.ctas[cta as usize].warps[warp as usize].made),
            Agent::Operation(number) => self.operations.get(&number).map(|agents| &agents.made),
        };
        warp.is_some_and(|known| known.get(made.by) >= made.moment)
    }

    pub(crate) fn met(&mut self, at: At, barrier: u32, round: u64, waits: bool) {
        let Agent::Warp { cta, warp } = at.agent else { return };
        let seen = self.warp(cta, warp).seen.clone();
        let state = &mut self.ctas[cta as usize];
        let meeting = state.named.entry(barrier).or_default();
        for late in meeting.turn(round) {
            state.warps[late as usize].seen.join(&meeting.complete);
        }
        meeting.open.join(&seen);
        if waits {
            meeting.waiting.push(warp);
            state.warps[warp as usize].meeting = Some(barrier);
        }
        self.tick(Id { cta, local: warp });
    }

    pub(crate) fn cluster_arrived(&mut self, at: At, round: u64) {
        let Agent::Warp { cta, warp } = at.agent else { return };
        let state = self.warp(cta, warp);
        let (seen, fenced) = (state.seen.clone(), state.fenced.clone());
        let relaxed = std::mem::take(&mut self.relaxed);
        let cluster = self.cluster(cta);
        let meeting = self.clusters.entry(cluster).or_default();
        meeting.turn(round);
        if relaxed {
            meeting.open_made.join(&fenced);
        } else {
            meeting.open.join(&seen);
        }
        self.tick(Id { cta, local: warp });
    }

    pub(crate) fn cluster_waited(&mut self, at: At, round: u64) {
        let Agent::Warp { cta, warp } = at.agent else { return };
        let cluster = self.cluster(cta);
        let meeting = self.clusters.entry(cluster).or_default();
        meeting.turn(round + 1);
        let (complete, made) = (meeting.complete.clone(), meeting.complete_made.clone());
        let state = self.warp(cta, warp);
        state.seen.join(&complete);
        state.made.join(&made);
    }

    pub(crate) fn issued(&mut self, at: At, operation: Operation, number: u64) {
        let Agent::Warp { cta, warp } = at.agent else { return };
        if operation == Operation::Copy && self.joins_lanes(number) {
            return;
        }
        let mut seen = self.warp(cta, warp).seen.clone();
        let mut warps = Vec::new();
        let (parts, owner): (&[Part], u32) = match operation {
            Operation::Load => (&[Part::Load], warp),
            Operation::Store => (&[Part::StoreRead, Part::StoreWrite], warp),
            Operation::Copy | Operation::Word => (&[Part::Copy], warp),
            Operation::Product => {
                warps = self.issued_product(cta, warp);
                for each in &warps {
                    seen.join(each);
                }
                (&[Part::Product], warp / 4 * 4)
            }
        };
        let issued = self.now();
        let mut slots = Vec::with_capacity(parts.len());
        for part in parts {
            let new = Slot {
                part: *part,
                owner,
                moment: 1,
                seen: seen.clone(),
                warps: warps.clone(),
                line: at.line,
                issued,
                barrier: None,
            };
            slots.push(self.settle_in(cta, new));
        }
        let made = self.warp(cta, warp).made.clone();
        let lane = (operation == Operation::Copy).then(|| (1, Rc::new(Cell::new(1))));
        self.operations.insert(number, Agents { cta, slots, complete: false, made, lane });
        self.tick(Id { cta, local: warp });
    }

    /// Whether another lane of the instruction in execution has copied: this lane's copy is of the same agent.
    fn joins_lanes(&mut self, number: u64) -> bool {
        let before = self.copied.replace((number, self.step));
        let Some((before, _)) = before.filter(|(_, step)| *step == self.step) else { return false };
        let Some(mut agents) = self.operations.get(&before).cloned() else { return false };
        if let Some((lane, open)) = &mut agents.lane {
            *lane <<= 1;
            open.set(open.get() | *lane);
        }
        self.operations.insert(number, agents);
        true
    }

    /// Finds a slot whose operation the new one is ordered after, or makes one; its place, and the moment.
    fn settle_in(&mut self, cta: u32, mut new: Slot) -> (u32, u32) {
        let warps = self.warps;
        let slots = &mut self.ctas[cta as usize].slots;
        let free = slots.iter().enumerate().position(|(place, old)| {
            let id = Id { cta, local: warps + place as u32 };
            (old.part, old.owner) == (new.part, new.owner) && new.seen.executed(id) >= old.moment
        });
        let place = free.unwrap_or(slots.len());
        let id = Id { cta, local: warps + place as u32 };
        if let Some(old) = slots.get(place) {
            new.moment = old.moment + 1;
        }
        let moment = new.moment;
        new.seen.set(id, moment);
        if place == slots.len() {
            slots.push(new);
        } else {
            slots[place] = new;
        }
        (place as u32, moment)
    }

    pub(crate) fn joined(&mut self, at: At, numbers: &[u64], until: WaitFor) {
        let Agent::Warp { cta, warp } = at.agent else { return };
        self.warp(cta, warp);
        let Order { operations, ctas, warps, .. } = self;
        let state = &mut ctas[cta as usize];
        let seen = &mut state.warps[warp as usize].seen;
        for number in numbers {
            let Some(agents) = operations.get(number) else { continue };
            if let Some((lane, open)) = &agents.lane {
                open.set(open.get() & !lane);
                if open.get() != 0 {
                    continue;
                }
            }
            for (place, held) in &agents.slots {
                let slot = &state.slots[*place as usize];
                let known = match slot.part {
                    Part::StoreWrite => until == WaitFor::Complete,
                    Part::Load | Part::StoreRead | Part::Product | Part::Copy => true,
                };
                if !known {
                    continue;
                }
                // Another operation may have the slot by now, issued by somebody who knew of this one.
                seen.set(Id { cta, local: *warps + place }, *held);
                // A wait for a product does not pass on what the product's other warps knew.
                if slot.moment == *held && slot.part != Part::Product {
                    seen.join(&slot.seen);
                }
            }
        }
    }
}
