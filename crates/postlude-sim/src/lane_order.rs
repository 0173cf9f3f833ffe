//! What lanes of one warp do in memory, and what orders it.
//!
//! The tracker of warps (`order`) takes the lanes of a warp for one agent. This one takes them apart. In: accesses with
//! their lanes, and instructions that order them. Out: accesses that only look ordered because their lanes are of one warp.
//! Invariant: it reports no error that the tracker of warps reports, and no access that a chain of synchronisation orders
//! lane by lane.
//!
//! Three rules (PTX ISA, "Memory Consistency Model" and "bar.warp.sync"). A lane knows what another lane of its warp did
//! before `bar.warp.sync`, a barrier of the CTA or the cluster, or a release that it acquired; a shuffle or a vote orders
//! no memory. A release (an arrival, a fence) publishes what its own lanes did, and what they know. A wait acquires only
//! for the lanes that waited; the others must synchronise with them. A fence between proxies is a release in this sense too.

mod page;
mod state;

use std::collections::{HashMap, VecDeque};
use std::ops::Range;

use crate::order::{Knowledge, Order};
use crate::report::Diagnosis;
use crate::warp::lanes;

pub(crate) use page::Does;
use page::{Cell, Mark, PAGE, Page};
use state::State;

/// An agent of the tracker of warps: a CTA of the grid, and a warp of it or a slot for operations.
pub(crate) type AgentId = (u32, u32);

/// The most pages of global memory; beyond it, pages of CTAs that ended are dropped.
const FEW_PAGES: usize = 4096;

/// The most ended CTAs of which the releases are kept.
const MOST_ENDED: usize = 2048;

/// Memory that is accessed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Where {
    Global,
    Shared { cta: u32 },
}

/// A lane's part of an access.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Piece {
    pub(crate) lane: u32,
    pub(crate) address: u64,
    pub(crate) bytes: u32,
}

/// An error of order between lanes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Found {
    pub(crate) diagnosis: Diagnosis,
    pub(crate) address: u64,
    pub(crate) message: String,
}

/// A CTA.
#[derive(Default, Debug)]
struct Cta {
    warps: Vec<State>,
    shared: Vec<Option<Page>>,
    /// The last copies into and out of it.
    copies: VecDeque<Copied>,
}

/// Shared memory that a copy reads or writes.
#[derive(Debug)]
struct Copied {
    bytes: Range<u64>,
    does: Does,
    mark: Mark,
}

/// Copies of a CTA that are kept: more than any kernel has under way.
const MOST_COPIES: usize = 128;

/// The tracker.
#[derive(Debug)]
pub(crate) struct LaneOrder {
    warps: u32,
    ctas: HashMap<u32, Cta>,
    /// CTAs that ended and released something, oldest first.
    ended: VecDeque<u32>,
    /// Pages of each buffer that lanes wrote.
    global: HashMap<u64, HashMap<u64, Page>>,
    pages: usize,
    swept: usize,
    /// Counts instructions that touch memory or order it.
    stamp: u32,
    /// The last lookup: up to which moment the lanes without a lag know an agent's accesses.
    known: Option<(AgentId, u32)>,
}

/// Bits of a global address that are the place in its buffer.
const BUFFER_BITS: u32 = 36;

impl LaneOrder {
    pub(crate) fn new(warps: u32) -> Self {
        LaneOrder {
            warps,
            ctas: HashMap::new(),
            ended: VecDeque::new(),
            global: HashMap::new(),
            pages: 0,
            swept: FEW_PAGES,
            stamp: 0,
            known: None,
        }
    }

    /// The state of a warp.
    pub(crate) fn state(&mut self, (cta, warp): AgentId) -> &mut State {
        let warps = self.warps;
        let state = self.ctas.entry(cta).or_default();
        if state.warps.is_empty() {
            state.warps.resize_with(warps as usize, State::default);
        }
        &mut state.warps[warp as usize]
    }

    /// An instruction begins that touches memory or orders it; its number.
    pub(crate) fn begin(&mut self) -> u32 {
        self.stamp += 1;
        self.known = None;
        self.stamp
    }

    /// A CTA's cluster has ended.
    pub(crate) fn forget(&mut self, cta: u32) {
        if let Some(state) = self.ctas.get_mut(&cta) {
            // CTAs that start later may still acquire what it released.
            let told =
                state.warps.iter_mut().filter_map(|warp| warp.end().then_some(())).count() > 0;
            if told {
                (state.shared, state.copies) = (Vec::new(), VecDeque::new());
                self.ended.push_back(cta);
            } else {
                self.ctas.remove(&cta);
            }
        }
        if self.ended.len() > MOST_ENDED
            && let Some(oldest) = self.ended.pop_front()
        {
            self.ctas.remove(&oldest);
        }
        if self.pages > 2 * self.swept {
            let ctas = &self.ctas;
            for pages in self.global.values_mut() {
                pages.retain(|_, page| page.cells().iter().any(|cell| cell.is_of(ctas)));
            }
            self.pages = self.global.values().map(HashMap::len).sum();
            self.swept = self.pages.max(FEW_PAGES);
        }
    }

    /// Lanes of a warp read or write; the first that nothing orders.
    pub(crate) fn touch(
        &mut self,
        order: &mut Order,
        (agent, line): (AgentId, u32),
        space: Where,
        does: Does,
        pieces: &[Piece],
    ) -> Option<Found> {
        let stamp = self.begin();
        let (time, moment) = (self.state(agent).time(), order.moment(agent.0, agent.1));
        let mut found = self.judge_copies(agent, space, does, pieces);
        let make = matches!((space, does), (Where::Shared { .. }, _) | (_, Does::Write));
        for piece in pieces {
            let lanes = 1 << piece.lane;
            let mark = Mark { agent, time, moment, lanes, stamp, line };
            self.each_page(space, make, (piece.address, piece.bytes), |tracker, page, part| {
                for cell in page.part(part) {
                    if found.is_none() {
                        let clash = tracker.judge(order, (agent, piece.lane), cell, does);
                        found = clash.map(|message| Found {
                            diagnosis: Diagnosis::UnorderedLanes,
                            address: piece.address,
                            message,
                        });
                    }
                    cell.note(mark, does);
                }
            });
        }
        found
    }

    /// Lanes that lag behind their warp access what a copy reads or writes, and do not know that it is done.
    fn judge_copies(
        &mut self,
        agent: AgentId,
        space: Where,
        does: Does,
        pieces: &[Piece],
    ) -> Option<Found> {
        let Where::Shared { cta } = space else { return None };
        if !self.state(agent).has_lags() {
            return None;
        }
        let state = self.ctas.get(&agent.0)?.warps.get(agent.1 as usize)?;
        let copies = &self.ctas.get(&cta)?.copies;
        pieces.iter().find_map(|piece| {
            let lag = state.lag(piece.lane)?;
            let end = piece.address + u64::from(piece.bytes);
            let unknown = |copied: &&Copied| {
                (copied.does, does) != (Does::Read, Does::Read)
                    && copied.bytes.start < end
                    && piece.address < copied.bytes.end
                    && lag.of(copied.mark.agent) < copied.mark.time
            };
            let copied = copies.iter().rev().find(unknown)?;
            let message = copied.mark.unknown(piece.lane, copied.does);
            let (diagnosis, address) = (Diagnosis::UnorderedLanes, piece.address);
            Some(Found { diagnosis, address, message })
        })
    }

    /// A lane hands a copy over that will read or write shared memory of a CTA; what nothing orders before it.
    pub(crate) fn copy(
        &mut self,
        order: &mut Order,
        ((agent, lane), line): ((AgentId, u32), u32),
        (cta, number): (u32, u64),
        does: Does,
        piece: (u64, u32),
    ) -> Vec<Found> {
        let stamp = self.begin();
        let (mut unordered, mut unfenced) = (None, None);
        let address = piece.0;
        self.each_page(Where::Shared { cta }, false, piece, |tracker, page, part| {
            for cell in page.part(part) {
                if unordered.is_none() {
                    unordered = tracker.judge(order, (agent, lane), cell, does);
                }
                if unfenced.is_none() && does == Does::Read {
                    let known = tracker.known_to(order, agent, cell.write.agent);
                    unfenced = tracker.judge_fence(agent, known, None, &cell.write);
                }
                if does == Does::Write {
                    *cell = Cell::default();
                }
            }
        });
        if let Some((agent, time)) = order.agent(number) {
            let bytes = piece.0..piece.0 + u64::from(piece.1);
            let copies = &mut self.ctas.entry(cta).or_default().copies;
            copies.retain(|old| (&old.bytes, old.does) != (&bytes, does));
            if copies.len() == MOST_COPIES {
                copies.pop_front();
            }
            let mark = Mark { agent, time, moment: time, lanes: 0, stamp, line };
            copies.push_back(Copied { bytes, does, mark });
        }
        let told =
            [(Diagnosis::UnorderedLanes, unordered), (Diagnosis::MissingProxyFence, unfenced)];
        let told = told.into_iter().filter_map(|(diagnosis, message)| Some((diagnosis, message?)));
        told.map(|(diagnosis, message)| Found { diagnosis, address, message }).collect()
    }

    /// A product reads shared memory: lanes that wrote must have fenced, or the fencing lane must have known of the write.
    pub(crate) fn product(
        &mut self,
        order: &Order,
        (cta, number): (u32, u64),
        issuer: AgentId,
        pieces: &[(u64, u32)],
    ) -> Option<Found> {
        self.ctas.get(&cta).filter(|state| !state.shared.is_empty())?;
        let mut found = None;
        for piece in pieces {
            self.each_page(Where::Shared { cta }, false, *piece, |tracker, page, part| {
                for cell in page.part(part).iter().filter(|cell| cell.write.lanes != 0) {
                    let known = order.known_to_operation(number, cell.write.agent);
                    let own = order.known_to_operation(number, issuer);
                    let (Some(known), Some(own)) = (known, own) else { continue };
                    let clash = tracker.judge_fence(issuer, known, Some(own), &cell.write);
                    let unfenced = clash.map(|message| (Diagnosis::MissingProxyFence, message));
                    let clash = unfenced.or_else(|| {
                        let message = tracker.judge_release(known, &cell.write, false)?;
                        Some((Diagnosis::UnorderedLanes, message))
                    });
                    if let (None, Some((diagnosis, message))) = (&found, clash) {
                        found = Some(Found { diagnosis, address: piece.0, message });
                    }
                }
            });
        }
        found
    }

    /// Calls back with every page that the bytes lie in. `make` adds missing pages: for accesses to shared memory and for
    /// writes to global memory. Reads alone do not clash, and inputs are large.
    fn each_page(
        &mut self,
        space: Where,
        make: bool,
        (address, bytes): (u64, u32),
        mut with: impl FnMut(&mut Self, &mut Page, (usize, usize)),
    ) {
        let end = address.saturating_add(bytes.into());
        let mut at = address;
        while at < end {
            let stop = end.min((at / PAGE + 1) * PAGE);
            let part = ((at % PAGE) as usize, (at % PAGE + stop - at) as usize);
            if let Some(mut page) = self.take(space, make, at) {
                page.refine(part);
                with(self, &mut page, part);
                self.put(space, at, page);
            }
            at = stop;
        }
    }

    fn take(&mut self, space: Where, make: bool, at: u64) -> Option<Page> {
        match space {
            Where::Shared { cta } => {
                let place = (at / PAGE) as usize;
                if !make {
                    return self.ctas.get_mut(&cta)?.shared.get_mut(place)?.take();
                }
                // Beyond any launch's memory: another check reports it as out of bounds.
                if place >= 1 << 14 {
                    return None;
                }
                let pages = &mut self.ctas.entry(cta).or_default().shared;
                if pages.len() <= place {
                    pages.resize_with(place + 1, || None);
                }
                Some(pages[place].take().unwrap_or_default())
            }
            Where::Global => {
                let (buffer, place) = (at >> BUFFER_BITS, at / PAGE);
                if !make {
                    return self.global.get_mut(&buffer)?.remove(&place);
                }
                let page = self.global.entry(buffer).or_default().remove(&place);
                self.pages += usize::from(page.is_none());
                Some(page.unwrap_or_default())
            }
        }
    }

    fn put(&mut self, space: Where, at: u64, page: Page) {
        match space {
            Where::Shared { cta } => {
                self.ctas.entry(cta).or_default().shared[(at / PAGE) as usize] = Some(page);
            }
            Where::Global => {
                self.global.entry(at >> BUFFER_BITS).or_default().insert(at / PAGE, page);
            }
        }
    }

    /// What is wrong between a lane's access and the older ones to a cell.
    fn judge(
        &mut self,
        order: &mut Order,
        by: (AgentId, u32),
        cell: &Cell,
        does: Does,
    ) -> Option<String> {
        if let Some(message) = self.judge_mark(order, by, &cell.write, Does::Write) {
            return Some(message);
        }
        match does {
            Does::Read => None,
            Does::Write => self.judge_mark(order, by, &cell.read, Does::Read),
        }
    }

    fn judge_mark(
        &mut self,
        order: &mut Order,
        (agent, lane): (AgentId, u32),
        mark: &Mark,
        did: Does,
    ) -> Option<String> {
        if mark.is_none() || mark.stamp == self.stamp {
            return None;
        }
        let lag = self.state(agent).lag(lane).map(|lag| lag.of(mark.agent));
        if mark.agent == agent {
            // Lanes that wrote the same bytes in one instruction each wrote what they read.
            if did == Does::Write && mark.lanes >> lane & 1 == 1 {
                return None;
            }
            let state = self.state(agent);
            let unknown = |other: &usize| {
                *other as u32 != lane && state.known(lane, *other as u32) <= mark.time
            };
            return lanes(mark.lanes).find(unknown).map(|other| mark.unordered(other, lane, did));
        }
        if let Some(known) = lag {
            return self.judge_release(known, mark, true).map(|_| mark.unknown(lane, did));
        }
        let known = self.known_to(order, agent, mark.agent);
        self.judge_release(known, mark, false)
    }

    /// The last moment of an agent that a warp knows.
    fn known_to(&mut self, order: &mut Order, agent: AgentId, of: AgentId) -> u32 {
        match self.known {
            Some((last, moment)) if last == of => moment,
            Some(_) | None => {
                let moment = if of == page::NO_AGENT { 0 } else { order.known_to(agent, of) };
                self.known = Some((of, moment));
                moment
            }
        }
    }

    /// Finds a lane with an access that no known release has published. Where the warps are not ordered either, the tracker
    /// of warps reports it, but that tracker does not see lanes that lag.
    fn judge_release(&mut self, known: u32, mark: &Mark, lagging: bool) -> Option<String> {
        if known < mark.moment {
            return lagging.then(String::new);
        }
        let state = self.ctas.get(&mark.agent.0)?.warps.get(mark.agent.1 as usize)?;
        let missing = state.releases.lacks(known, mark)?;
        Some(mark.unpublished(missing))
    }

    /// Finds a lane with a write that no fence between proxies covers, where another lane of its warp has fenced.
    /// `own` is the last known moment of the issuer; a fence by the issuer covers everything that the issuer knew.
    fn judge_fence(
        &mut self,
        issuer: AgentId,
        known: u32,
        own: Option<u32>,
        mark: &Mark,
    ) -> Option<String> {
        if mark.is_none() || mark.lanes == 0 {
            return None;
        }
        let known = if mark.agent == issuer { own.unwrap_or(u32::MAX) } else { known };
        let state = self.ctas.get(&mark.agent.0)?.warps.get(mark.agent.1 as usize)?;
        if !state.fences.is_after(known, mark.stamp) {
            return None;
        }
        let missing = state.fences.lacks(known, mark)?;
        if mark.agent != issuer {
            let reader = self.ctas.get(&issuer.0)?.warps.get(issuer.1 as usize)?;
            if reader.fences.is_after(own.unwrap_or(u32::MAX), mark.stamp) {
                return None;
            }
        }
        Some(mark.unfenced(missing))
    }

    /// Keeps what a warp knows for its lanes that do not take part in the wait that follows.
    pub(crate) fn before_wait(&mut self, agent: AgentId, mask: u32, live: u32, knows: Knowledge) {
        self.state(agent).before_wait(mask, live, knows);
    }
}
