//! Shared memory that is used from elsewhere: by copies under way, and by CTAs of the cluster.
//!
//! In: what a copy will read or write, from its issue on, and who uses another CTA's memory. Out: clashes at once, before
//! the copy happens, and with CTAs that may have ended. Invariant: a copy under way is ordered before nobody.

use std::collections::BTreeMap;
use std::ops::Range;

use crate::observe::{Agent, At, Kind, Space};

use super::clock::{Clock, Id};
use super::shadow::{Does, Proxy, Touch};
use super::{Clash, Fault, Order};

/// Bytes of shared memory that a copy under way will read or write.
#[derive(Clone, Debug)]
pub(crate) struct Aim {
    pub(crate) number: u64,
    pub(crate) bytes: Range<u64>,
    pub(crate) writes: bool,
    /// The barrier that it completes on, and its phase.
    pub(crate) barrier: Option<(u32, u64)>,
}

/// Copies under way, by where they begin and their numbers.
#[derive(Default, Debug)]
pub(super) struct Aims {
    all: BTreeMap<(u64, u64), Aim>,
    /// The bytes of the largest that there ever was.
    longest: u64,
}

impl Aims {
    fn insert(&mut self, aim: Aim) {
        self.longest = self.longest.max(aim.bytes.end - aim.bytes.start);
        self.all.insert((aim.bytes.start, aim.number), aim);
    }

    /// Those that use one of these bytes.
    fn within(&self, bytes: Range<u64>) -> impl Iterator<Item = &Aim> {
        let from = bytes.start.saturating_sub(self.longest);
        let all = self.all.range((from, 0)..(bytes.end, 0)).map(|(_, aim)| aim);
        all.filter(move |aim| bytes.start < aim.bytes.end)
    }

    /// The copies of a CTA that has ended use nothing.
    pub(super) fn clear(&mut self) {
        self.all.clear();
    }
}

impl Order {
    /// Finds copies under way that an access does not wait for.
    pub(super) fn compare_with_aims(
        &mut self,
        cta: u32,
        new: (Touch, Does),
        pieces: &[(u64, u32)],
    ) {
        let state = &self.ctas[cta as usize];
        let Some(first) = pieces.iter().map(|(at, _)| *at).min() else { return };
        let end = pieces.iter().map(|(at, bytes)| at + u64::from(*bytes)).max().unwrap_or(first);
        let meets = |aim: &&Aim| {
            let clashes = aim.writes || new.1 == Does::Write;
            let meet = |(at, bytes): &(u64, u32)| {
                *at < aim.bytes.end && aim.bytes.start < at + u64::from(*bytes)
            };
            clashes && pieces.iter().any(meet)
        };
        let met: Vec<Aim> = state.aims.within(first..end).filter(meets).cloned().collect();
        for aim in met {
            let does = if aim.writes { Does::Write } else { Does::Read };
            let agent = Agent::Operation(aim.number);
            let (space, at) = (Space::Shared { cta }, At { agent, line: 0, lanes: 0 });
            let Some((mut old, _)) = self.actor(at, Some((space, Kind::Read))) else { continue };
            old.line = self.line(old.by);
            if old.by != new.0.by {
                let address = first.max(aim.bytes.start);
                self.clash(Clash {
                    fault: Fault::Unordered,
                    space,
                    address,
                    old: (old, does),
                    new,
                    warp: None,
                });
            }
        }
    }

    /// The line of the operation in a slot.
    fn line(&self, id: Id) -> u32 {
        let place = id.local.saturating_sub(self.warps);
        self.ctas[id.cta as usize].slots.get(place as usize).map_or(0, |slot| slot.line)
    }

    /// A copy has been issued that will use shared memory of a CTA.
    pub(crate) fn aims(&mut self, cta: u32, aim: Aim) {
        if let (Some((address, phase)), Some(agents)) =
            (aim.barrier, self.operations.get(&aim.number))
        {
            let place = agents.slots[0].0 as usize;
            let slot = &mut self.ctas[agents.cta as usize].slots[place];
            slot.barrier = Some((cta, address, phase));
        }
        self.ctas[cta as usize].aims.insert(aim);
    }

    /// A copy has done what it was to do with shared memory of a CTA, which begins there.
    pub(crate) fn hits(&mut self, cta: u32, start: u64, number: u64) {
        self.ctas[cta as usize].aims.all.remove(&(start, number));
    }

    /// Notes that somebody uses the shared memory of another CTA, which must not have ended.
    pub(super) fn visit(&mut self, touch: Touch, cta: u32) {
        if touch.by.cta == cta {
            return;
        }
        self.ctas[cta as usize].guests.insert(touch.by, (touch.moment, touch.line));
        if self.ctas[cta as usize].ended {
            let (space, new) = (Space::Shared { cta }, (touch, Does::Write));
            self.clash(Clash { fault: Fault::Ended, space, address: 0, old: new, new, warp: None });
        }
    }

    /// A CTA has ended: it must know of everything that others do in its shared memory.
    pub(crate) fn ended(&mut self, cta: u32) {
        for warp in 0..self.warps {
            self.warp(cta, warp);
        }
        let mut seen = Clock::default();
        let state = &mut self.ctas[cta as usize];
        state.warps.iter().for_each(|warp| seen.join(&warp.seen));
        state.ended = true;
        let time = self.time;
        let late =
            state.guests.drain().filter(|(guest, (moment, _))| seen.executed(*guest) < *moment);
        let mut late: Vec<_> = late.collect();
        late.sort_unstable();
        for (by, (moment, line)) in late {
            let touch = Touch { by, moment, line, time, proxy: Proxy::Generic, strong: 0 };
            let (space, new) = (Space::Shared { cta }, (touch, Does::Write));
            self.clash(Clash { fault: Fault::Ended, space, address: 0, old: new, new, warp: None });
        }
    }
}
