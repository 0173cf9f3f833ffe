//! A timeline: who did what when, with the stage and phase of each barrier and the PTX line.
//!
//! In: what the machine shows to observers. Out: events, as Chrome's trace format (Perfetto opens it) and as a drawing of a
//! hundred columns. Time is the number of instructions that all warps have executed so far: it orders what happened in
//! the simulator under its timing, and says nothing about how long hardware takes.
//! Invariant: events of one row do not overlap, but for copies, which are under way together.

mod chrome;
mod draw;

use std::collections::BTreeMap;

use postlude_ptx::inst::Inst;
use postlude_ptx::shared::Region;

use crate::memory::SHARED_BASE;
use crate::observe::{Agent, At, Observer, Operation};

pub use chrome::chrome;
pub use draw::draw;

/// The most events that are kept.
const MOST_EVENTS: usize = 1 << 20;
/// Bytes of a barrier.
const BARRIER: u32 = 8;

/// Whose events a row shows.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Row {
    /// A warp that issues copies into shared memory.
    Producer {
        /// The warp in its CTA.
        warp: u32,
    },
    /// Copies into shared memory.
    Loads,
    /// Products of a warpgroup.
    TensorCore {
        /// The warpgroup in its CTA.
        warpgroup: u32,
    },
    /// A warp that multiplies.
    Consumer {
        /// The warp in its CTA.
        warp: u32,
    },
    /// Any other warp.
    Warp {
        /// The warp in its CTA.
        warp: u32,
    },
    /// Copies out of shared memory.
    Stores,
}

/// What goes on.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Doing {
    /// Anything.
    Work,
    /// Issuing copies into shared memory.
    Load,
    /// Writing results to memory.
    Store,
    /// Issuing products, or a product itself.
    Multiply,
    /// Waiting.
    Wait,
}

impl Doing {
    /// In a word.
    pub const fn name(self) -> &'static str {
        match self {
            Doing::Work => "work",
            Doing::Load => "load",
            Doing::Store => "store",
            Doing::Multiply => "multiply",
            Doing::Wait => "wait",
        }
    }
}

/// A phase of a barrier in shared memory.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Phase {
    /// The region that the barrier is in, where it has a name.
    pub region: Option<String>,
    /// Its place there, or its address.
    pub place: u32,
    /// The phase, from 0; `None` is the one before the first.
    pub phase: Option<u64>,
}

/// Something that took some time.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Event {
    /// The CTA in the grid.
    pub cta: u32,
    /// Whose it is.
    pub row: Row,
    /// What goes on.
    pub doing: Doing,
    /// When it began.
    pub from: u64,
    /// When it was over.
    pub to: u64,
    /// The PTX line that began it.
    pub line: u32,
    /// The barrier that was waited for or told, where there is one.
    pub phase: Option<Phase>,
}

/// A warp between two events.
#[derive(Clone, Debug, Default)]
struct Running {
    from: u64,
    /// When it last did something.
    last: u64,
    line: u32,
    doing: Option<Doing>,
    phase: Option<Phase>,
    loads: bool,
    multiplies: bool,
}

/// A copy or a product under way.
#[derive(Clone, Copy, Debug)]
struct Pending {
    operation: Operation,
    cta: u32,
    warp: u32,
    from: u64,
    line: u32,
}

/// Watches a run and keeps its events.
#[derive(Debug, Default)]
pub struct Timeline {
    regions: Vec<Region>,
    now: u64,
    events: Vec<Event>,
    lost: u64,
    warps: BTreeMap<(u32, u32), Running>,
    pending: BTreeMap<u64, Pending>,
    /// When the last product of a warpgroup was over.
    products: BTreeMap<(u32, u32), u64>,
    /// The copy that completed last, and its event.
    completed: Option<(u64, usize)>,
}

impl Timeline {
    /// A timeline whose barriers are named by their regions.
    pub fn new(regions: &[Region]) -> Timeline {
        Timeline { regions: regions.to_vec(), ..Timeline::default() }
    }

    /// The events by CTA, row and time.
    pub fn events(&self) -> Vec<Event> {
        let mut events = self.events.clone();
        for ((cta, warp), running) in &self.warps {
            let mut running = running.clone();
            let end = running.last;
            events.extend(close(*cta, *warp, &mut running, end));
        }
        for event in &mut events {
            let Row::Warp { warp } = event.row else { continue };
            match self.warps.get(&(event.cta, warp)) {
                Some(running) if running.multiplies => event.row = Row::Consumer { warp },
                Some(running) if running.loads => event.row = Row::Producer { warp },
                Some(_) | None => {}
            }
        }
        events.sort_by_key(|event| (event.cta, event.row, event.from, event.to));
        events
    }

    /// Events beyond the most that are kept.
    pub fn lost(&self) -> u64 {
        self.lost
    }

    fn push(&mut self, event: Event) -> Option<usize> {
        if self.events.len() >= MOST_EVENTS {
            self.lost += 1;
            return None;
        }
        self.events.push(event);
        Some(self.events.len() - 1)
    }

    fn phase(&self, address: u32, phase: u64) -> Phase {
        let offset = address.wrapping_sub(SHARED_BASE);
        let holds = |region: &&Region| (region.offset..region.end()).contains(&offset);
        let phase = (phase != u64::MAX).then_some(phase);
        match self.regions.iter().find(holds) {
            Some(region) => {
                let place = (offset - region.offset) / BARRIER;
                Phase { region: Some(region.name.clone()), place, phase }
            }
            None => Phase { region: None, place: address, phase },
        }
    }
}

/// Ends what a warp was doing.
fn close(cta: u32, warp: u32, running: &mut Running, end: u64) -> Option<Event> {
    let doing = running.doing.take()?;
    let row = Row::Warp { warp };
    let (from, line, phase) = (running.from, running.line, running.phase.take());
    Some(Event { cta, row, doing, from, to: end.max(from + 1), line, phase })
}

/// What an instruction is part of; `None` for those that lanes of a finished warp wait at.
fn doing(inst: &Inst) -> Option<Doing> {
    Some(match inst {
        Inst::ClusterArrive { .. } | Inst::ClusterWait { .. } => return None,
        Inst::BarrierTryWait { .. } | Inst::BarrierTestWait { .. } => Doing::Wait,
        Inst::WgmmaWait { .. } | Inst::BulkWait { .. } | Inst::CopyWait { .. } => Doing::Wait,
        Inst::BarSync { .. } => Doing::Wait,
        Inst::Wgmma { .. } | Inst::Mma { .. } => Doing::Multiply,
        Inst::TensorLoad { .. }
        | Inst::TensorLoadHint { .. }
        | Inst::TensorMulticast { .. }
        | Inst::TensorMulticastHint { .. }
        | Inst::BulkLoad { .. }
        | Inst::CopyAsync { .. } => Doing::Load,
        Inst::StoreGlobal { .. } | Inst::StoreShared { .. } | Inst::StoreMatrix { .. } => {
            Doing::Store
        }
        Inst::StoreAsync { .. } => Doing::Store,
        Inst::TensorStore { .. } | Inst::TensorStoreHint { .. } | Inst::TensorReduce { .. } => {
            Doing::Store
        }
        Inst::BulkStore { .. } | Inst::Atomic { .. } | Inst::Reduce { .. } => Doing::Store,
        // Whatever else there is belongs to what is going on.
        _ => Doing::Work,
    })
}

impl Observer for Timeline {
    fn executed(&mut self, at: At, inst: &Inst) {
        self.now += 1;
        let Agent::Warp { cta, warp } = at.agent else { return };
        let Some(doing) = doing(inst) else { return };
        let mut running = self.warps.remove(&(cta, warp)).unwrap_or_default();
        let waits = doing == Doing::Wait;
        let waited = running.doing == Some(Doing::Wait);
        if running.doing.is_some()
            && waits != waited
            && let Some(event) = close(cta, warp, &mut running, self.now)
        {
            self.push(event);
        }
        match running.doing {
            None => {
                (running.from, running.line) = (self.now, at.line);
                running.doing = Some(doing);
            }
            Some(before) => running.doing = Some(before.max(doing)),
        }
        running.last = self.now;
        running.multiplies |= matches!(inst, Inst::Wgmma { .. } | Inst::Mma { .. });
        self.warps.insert((cta, warp), running);
    }

    fn waited(&mut self, at: At, _: u32, address: u32, phase: u64) {
        let Agent::Warp { cta, warp } = at.agent else { return };
        let phase = self.phase(address, phase);
        if let Some(running) = self.warps.get_mut(&(cta, warp)) {
            running.phase = Some(phase);
        }
    }

    fn arrived(&mut self, at: At, _: u32, address: u32, phase: u64) {
        if let (Agent::Operation(number), Some((last, event))) = (at.agent, self.completed)
            && number == last
        {
            self.events[event].phase = Some(self.phase(address, phase));
        }
    }

    fn issued(&mut self, at: At, operation: Operation, number: u64) {
        let Agent::Warp { cta, warp } = at.agent else { return };
        let pending = Pending { operation, cta, warp, from: self.now, line: at.line };
        self.pending.insert(number, pending);
        if let (Operation::Load, Some(running)) = (operation, self.warps.get_mut(&(cta, warp))) {
            running.loads = true;
        }
    }

    fn completed(&mut self, _: At, number: u64) {
        let Some(Pending { operation, cta, warp, mut from, line }) = self.pending.remove(&number)
        else {
            return;
        };
        let warpgroup = warp / 4;
        let (row, doing) = match operation {
            Operation::Load | Operation::Copy | Operation::Word => (Row::Loads, Doing::Load),
            Operation::Store => (Row::Stores, Doing::Store),
            Operation::Product => (Row::TensorCore { warpgroup }, Doing::Multiply),
        };
        if operation == Operation::Product {
            // A warpgroup's products are done one after the other.
            from = from.max(self.products.get(&(cta, warpgroup)).copied().unwrap_or(0));
        }
        let to = self.now.max(from + 1);
        if operation == Operation::Product {
            self.products.insert((cta, warpgroup), to);
        }
        let event = Event { cta, row, doing, from, to, line, phase: None };
        self.completed = self.push(event).map(|place| (number, place));
    }
}

#[cfg(test)]
mod tests;
