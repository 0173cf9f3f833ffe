//! What happens before what, and which accesses nothing orders.
//!
//! In: what the machine tells those who watch. Out: clashes, which the machine makes findings of. Invariant: of two
//! accesses to one byte that are reported, no chain of program order, barriers, waits, and releases with their acquires
//! leads from one to the other, whatever order this run happened to take.
//!
//! Lanes of a warp are one agent. An asynchronous operation is an agent that starts with what its issuer knows; whoever
//! waits for it, or for the barrier it completes on, learns what it did. Copies that the lanes of one instruction issue
//! are one agent, which is over when all of them were waited for. A matrix product is judged for each of its four
//! warps by what that warp knows: each reads all of B and its own 16 rows of A. A copy out of shared memory is two
//! agents: one reads, the other writes.

mod aim;
mod barrier_bytes;
mod clock;
mod ctas;
mod meeting;
mod product;
mod scope;
mod shadow;
mod strong;
mod tell;
mod view;

use std::cell::Cell;
use std::collections::{HashMap, HashSet, VecDeque};
use std::rc::Rc;

use postlude_ptx::inst::Inst;
use postlude_ptx::launch::Launch;
use postlude_ptx::modifier::{ArriveOrder, ProxySpace, WaitFor};

use crate::observe::{Access, Agent, At, Kind, Operation, Space};

pub(crate) use aim::Aim;
use aim::Aims;
use clock::{Clock, Fenced, Id};
use ctas::Ctas;
use meeting::{Meeting, Phases};
use shadow::{Buffer, Does, Proxy, Shadow, Touch};
use strong::{Published, Strength};
pub(crate) use view::Knowledge;

/// A warp.
#[derive(Default, Debug)]
struct Warp {
    /// What it knows; of itself, its moment.
    seen: Clock,
    moment: u32,
    /// The named barrier it waits at.
    meeting: Option<u32>,
    strong: strong::State,
    /// What it knew when it last fenced the barriers that it made; and what it learned of others' barriers from such.
    fenced: Clock,
    made: Clock,
    /// Its parts of matrix products.
    products: usize,
    /// The last wait for each barrier in shared memory.
    waits: HashMap<u32, Waited>,
}

/// A wait for a phase that is over.
#[derive(Clone, Copy, Debug)]
struct Waited {
    phase: u64,
    /// How many instructions waited for that phase, and the last of them, counted over the run.
    times: u32,
    step: u64,
    line: u32,
}

/// What an operation's agent is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Part {
    Load,
    /// The part of a copy out of shared memory that reads.
    StoreRead,
    /// The part that writes.
    StoreWrite,
    Product,
    Copy,
}

impl Part {
    fn proxy(self) -> Proxy {
        match self {
            Part::Load | Part::StoreRead | Part::StoreWrite | Part::Product => Proxy::Async,
            // PTX ISA, "Async proxy": only bulk copies go through it, neither `cp.async` nor `st.async`.
            Part::Copy => Proxy::Generic,
        }
    }
}

/// An agent for one operation after the other, each of which is ordered after the one before.
#[derive(Debug)]
struct Slot {
    part: Part,
    /// The warp that issues, or the first of four.
    owner: u32,
    /// How many operations it has had.
    moment: u32,
    /// What the present one starts with, itself included.
    seen: Clock,
    /// For a product: what each of its warps knew when it issued the product.
    warps: Vec<Clock>,
    line: u32,
    issued: u32,
    /// The barrier that it completes on, and its phase.
    barrier: Option<(u32, u32, u64)>,
}

/// The agents of an operation.
#[derive(Clone, Debug)]
struct Agents {
    cta: u32,
    /// Slots, and their moments.
    slots: Vec<(u32, u32)>,
    complete: bool,
    /// Barriers that its issuer knows of.
    made: Clock,
    /// Of a lane's copy, the lane.
    lane: Option<(u32, Lanes)>,
}

/// Lanes of an instruction whose copies nobody has waited for: together they are one agent.
type Lanes = Rc<Cell<u32>>;

/// Matrix products of a warpgroup.
#[derive(Clone, Default, Debug)]
struct Products {
    /// How many all four warps have issued.
    issued: usize,
    /// For each product that not all four warps have issued yet: what each warp knew when it issued the product.
    next: VecDeque<[Clock; 4]>,
}

/// A CTA.
#[derive(Default, Debug)]
struct Cta {
    warps: Vec<Warp>,
    slots: Vec<Slot>,
    shared: Shadow,
    barriers: HashMap<u32, Phases>,
    /// Where live barriers are among its bytes.
    span: std::ops::Range<u64>,
    named: HashMap<u32, Meeting>,
    products: Vec<Products>,
    /// Who of other CTAs used this one's shared memory last, and where.
    guests: HashMap<Id, (u32, u32)>,
    /// Copies under way that read or write its shared memory.
    aims: Aims,
    ended: bool,
}

/// How two accesses clash.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Fault {
    /// Nothing orders them.
    Unordered,
    /// The first is known to be over, but the synchronisation has too narrow a scope to make its write visible.
    Narrow,
    /// They are ordered, but the first goes through another proxy, and no fence was made.
    Unfenced,
    /// A barrier is used, and nothing orders that after it was made.
    BeforeInit,
    /// A barrier is made where there is one.
    InitAgain,
    /// Bytes of a live barrier are touched as data.
    Barrier,
    /// Shared memory of a CTA is used that may have ended.
    Ended,
}

/// Two accesses that clash; the first is older in this run.
#[derive(Clone, Copy, Debug)]
struct Clash {
    fault: Fault,
    space: Space,
    address: u64,
    old: (Touch, Does),
    new: (Touch, Does),
    /// Of a product's read, the warp for which this is so.
    warp: Option<u32>,
}

/// The tracker.
#[derive(Debug)]
pub(crate) struct Order {
    warps: u32,
    grid: [u32; 3],
    shape: [u32; 3],
    ctas: Ctas,
    clusters: HashMap<u32, Meeting>,
    global: HashMap<u64, Buffer>,
    published: Published,
    operations: HashMap<u64, Agents>,
    /// The last copy that a lane issued, and the instruction.
    copied: Option<(u64, u64)>,
    time: u32,
    /// Instructions so far.
    step: u64,
    /// What the instruction in execution does to order.
    strength: Option<Strength>,
    relaxed: bool,
    /// Lines of arrivals and waits that synchronise with other CTAs of the cluster.
    wide: HashSet<u32>,
    known: HashSet<(Fault, u32, u32)>,
    clashes: Vec<Clash>,
}

/// Bits of a global address that are the place in its buffer.
const BUFFER_BITS: u32 = 36;

impl Order {
    pub(crate) fn new(launch: &Launch) -> Self {
        let count = launch.grid.iter().product::<u32>();
        Order {
            warps: launch.threads.div_ceil(32),
            grid: launch.grid,
            shape: launch.cluster,
            ctas: Ctas::new(count),
            clusters: HashMap::new(),
            global: HashMap::new(),
            published: Published::default(),
            operations: HashMap::new(),
            copied: None,
            time: 0,
            step: 0,
            strength: None,
            relaxed: false,
            wide: HashSet::new(),
            known: HashSet::new(),
            clashes: Vec::new(),
        }
    }

    /// A number for the cluster of a CTA: that of its first CTA.
    fn cluster(&self, cta: u32) -> u32 {
        let [x, y] = [self.grid[0], self.grid[1]];
        let at = [cta % x, cta / x % y, cta / x / y];
        let first: [u32; 3] =
            std::array::from_fn(|dim| at[dim] / self.shape[dim] * self.shape[dim]);
        first[0] + x * (first[1] + y * first[2])
    }

    /// The warp of an agent, after it learned what others told it at the barrier it waited at.
    fn warp(&mut self, cta: u32, number: u32) -> &mut Warp {
        let state = &mut self.ctas[cta as usize];
        if state.warps.is_empty() {
            for local in 0..self.warps {
                let mut warp = Warp { moment: 1, ..Warp::default() };
                warp.seen.set(Id { cta, local }, 1);
                state.warps.push(warp);
            }
            state.products = vec![Products::default(); self.warps.div_ceil(4) as usize];
        }
        let warp = &mut state.warps[number as usize];
        if let Some(barrier) = warp.meeting.take()
            && let Some(meeting) = state.named.get_mut(&barrier)
        {
            meeting.leave(number, &mut warp.seen);
        }
        warp
    }

    /// Goes on to the next moment of a warp: what it did until now may be known to others, what comes is not.
    fn tick(&mut self, id: Id) {
        let warp = &mut self.ctas[id.cta as usize].warps[id.local as usize];
        warp.moment += 1;
        warp.seen.set(id, warp.moment);
    }

    fn now(&mut self) -> u32 {
        self.time += 1;
        self.time
    }

    /// The agent that makes an access, and what it knows.
    fn actor(&mut self, at: At, access: Option<(Space, Kind)>) -> Option<(Touch, Clock)> {
        let line = at.line;
        match at.agent {
            Agent::Warp { cta, warp } => {
                let time = self.now();
                let strong = self.strength.map_or(0, Strength::reach);
                let state = self.warp(cta, warp);
                let (by, proxy) = (Id { cta, local: warp }, Proxy::Generic);
                let moment = state.moment;
                Some((Touch { by, moment, line, time, proxy, strong }, state.seen.clone()))
            }
            Agent::Operation(number) => {
                let Agents { cta, slots, .. } = self.operations.get(&number)?;
                let place = match access {
                    Some((Space::Global, _)) => slots.last()?.0,
                    Some((Space::Shared { .. }, _)) | None => slots.first()?.0,
                };
                let slot = &self.ctas[*cta as usize].slots[place as usize];
                let by = Id { cta: *cta, local: self.warps + place };
                let atomic = access.is_some_and(|(_, kind)| kind == Kind::Atomic);
                let strong = if atomic { scope::GPU } else { 0 };
                let (moment, time, proxy) = (slot.moment, slot.issued, slot.part.proxy());
                Some((Touch { by, moment, line, time, proxy, strong }, slot.seen.clone()))
            }
        }
    }

    pub(crate) fn executed(&mut self, at: At, inst: &Inst) {
        self.strength = Strength::of(inst);
        self.step += 1;
        let Agent::Warp { cta, warp } = at.agent else { return };
        let id = Id { cta, local: warp };
        match inst {
            Inst::FenceProxyAsync { space } => {
                let fenced: &[Fenced] = match space {
                    ProxySpace::All => &[Fenced::Shared, Fenced::Global],
                    ProxySpace::SharedCta => &[Fenced::Shared],
                    ProxySpace::Global => &[Fenced::Global],
                };
                let state = self.warp(cta, warp);
                for memory in fenced {
                    state.seen.fence(*memory);
                }
                self.tick(id);
            }
            Inst::Fence { order, scope } => {
                let state = self.warp(cta, warp);
                let Warp { strong, seen, .. } = state;
                strong.fence(*order, *scope, seen);
                self.tick(id);
            }
            Inst::FenceBarrierInit {} => {
                let state = self.warp(cta, warp);
                state.fenced = state.seen.clone();
                self.tick(id);
            }
            Inst::ClusterArrive { order, .. } => self.relaxed = *order == ArriveOrder::Relaxed,
            Inst::Wgmma { .. } => self.multiplies(id),
            Inst::BarrierArrive { .. } | Inst::BarrierTryWait { .. }
                if scope::is_cluster_wide(inst) =>
            {
                self.wide.insert(at.line);
            }
            _ => {}
        }
    }

    pub(crate) fn accessed(&mut self, at: At, access: Access<'_>) {
        self.read_by(at, access, None);
    }

    /// The same; of a product's reads, `warp` is which of its four warps they are for, and without it all of them.
    pub(crate) fn read_by(&mut self, at: At, access: Access<'_>, warp: Option<u32>) {
        let Some((touch, does)) = self.touch_memory(at, access, warp) else { return };
        if let Space::Shared { cta } = access.space {
            self.visit(touch, cta);
            self.compare_with_barriers(cta, (touch, does), access.pieces);
        }
        if let (Agent::Warp { cta, warp }, Some(strength)) = (at.agent, self.strength) {
            self.order_by(Id { cta, local: warp }, strength, access.space, access.pieces);
        }
    }

    /// Notes an access and finds what it clashes with.
    fn touch_memory(
        &mut self,
        at: At,
        access: Access<'_>,
        warp: Option<u32>,
    ) -> Option<(Touch, Does)> {
        let (touch, seen) = self.actor(at, Some((access.space, access.kind)))?;
        let readers = self.readers(at.agent, warp);
        let does = match access.kind {
            Kind::Read => Does::Read,
            Kind::Write | Kind::Atomic => Does::Write,
        };
        let mut found = Vec::new();
        let mut fine = [None; 2];
        let mut shadows = self.borrow(access);
        for (address, bytes) in access.pieces {
            let (key, offset) = match access.space {
                Space::Global => (address >> BUFFER_BITS, address & ((1 << BUFFER_BITS) - 1)),
                Space::Shared { .. } => (0, *address),
            };
            let base = address - offset;
            let mut see = |at: u64, old: Touch, did: Does| {
                let place = &mut fine[usize::from(did == Does::Write)];
                if *place == Some(old) {
                    return;
                }
                let judge =
                    |seen: &Clock| self.judge((&touch, does), seen, (&old, did), access.space);
                let wrong = if readers.is_empty() {
                    judge(&seen).map(|fault| (fault, None))
                } else {
                    let each = readers.iter().map(|(warp, seen)| (judge(seen), *warp));
                    each.into_iter().find_map(|(fault, warp)| Some((fault?, Some(warp))))
                };
                match wrong {
                    None => *place = Some(old),
                    Some((fault, warp)) => found.push((fault, warp, base + at, (old, did))),
                }
            };
            shadows.touch(key, (offset, *bytes), (touch, does, &seen), &mut see);
        }
        self.give_back(access, shadows);
        let (space, new) = (access.space, (touch, does));
        for (fault, warp, address, old) in found {
            self.clash(Clash { fault, space, address, old, new, warp });
        }
        if let Space::Shared { cta } = space {
            self.compare_with_aims(cta, new, access.pieces);
        }
        Some(new)
    }

    fn borrow(&mut self, access: Access<'_>) -> Shadows {
        match access.space {
            Space::Shared { cta } => {
                Shadows::Shared(std::mem::take(&mut self.ctas[cta as usize].shared))
            }
            Space::Global => Shadows::Global(std::mem::take(&mut self.global)),
        }
    }

    fn give_back(&mut self, access: Access<'_>, shadows: Shadows) {
        match (access.space, shadows) {
            (Space::Shared { cta }, Shadows::Shared(shadow)) => {
                self.ctas[cta as usize].shared = shadow;
            }
            (Space::Global, Shadows::Global(buffers)) => self.global = buffers,
            (Space::Shared { .. }, Shadows::Global(_)) | (Space::Global, Shadows::Shared(_)) => {}
        }
    }

    /// What is wrong between an access and an older one, if both touch a byte and one of them writes.
    fn judge(
        &self,
        (new, does): (&Touch, Does),
        seen: &Clock,
        (old, did): (&Touch, Does),
        space: Space,
    ) -> Option<Fault> {
        if self.are_morally_strong(new, old) {
            return None;
        }
        if seen.executed(old.by) < old.moment {
            return Some(Fault::Unordered);
        }
        // A read, or a copy that was waited for, is over with its execution: overwriting needs no more.
        let overwrites = does == Does::Write && (did == Does::Read || old.proxy == Proxy::Async);
        if !overwrites && seen.get(old.by) < old.moment {
            return Some(Fault::Narrow);
        }
        let memory = match space {
            Space::Shared { .. } => Fenced::Shared,
            Space::Global => Fenced::Global,
        };
        let crosses = (old.proxy, new.proxy) == (Proxy::Generic, Proxy::Async);
        (crosses && seen.fenced(old.by, memory) < old.moment).then_some(Fault::Unfenced)
    }

    fn clash(&mut self, clash: Clash) {
        // One missing fence concerns many stores.
        let (old, new) = (clash.old.0.line, clash.new.0.line);
        let (first, second) = match clash.fault {
            Fault::Unfenced => (0, new),
            Fault::Unordered | Fault::Narrow => (old.min(new), old.max(new)),
            Fault::BeforeInit | Fault::InitAgain | Fault::Barrier | Fault::Ended => (old, new),
        };
        if self.known.insert((clash.fault, first, second)) {
            self.clashes.push(clash);
        }
    }

    /// An operation is complete; waits for it may follow as long as its CTA runs.
    pub(crate) fn completed(&mut self, number: u64) {
        if let Some(agents) = self.operations.get_mut(&number) {
            agents.complete = true;
            if self.ctas[agents.cta as usize].ended {
                self.operations.remove(&number);
            }
        }
    }
}

/// Shadows of one space.
enum Shadows {
    Shared(Shadow),
    Global(HashMap<u64, Buffer>),
}

impl Shadows {
    fn touch(
        &mut self,
        key: u64,
        piece: (u64, u32),
        touch: (Touch, Does, &Clock),
        see: &mut dyn FnMut(u64, Touch, Does),
    ) {
        match self {
            Shadows::Shared(shadow) => shadow.touch(piece, touch, see),
            Shadows::Global(buffers) => {
                buffers.entry(key).or_default().touch(piece, touch, see);
            }
        }
    }
}
