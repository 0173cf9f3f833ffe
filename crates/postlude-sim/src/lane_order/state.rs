//! What the lanes of a warp know of each other's accesses, and what they released.
//!
//! In: synchronisation by lanes. Out: whether a lane knows of another's access, and whether a release or a fence covers
//! it. A warp's time goes on with each of these, so that an agent that knows a later time knows of the access.

use std::collections::VecDeque;

use crate::order::Knowledge;
use crate::warp::lanes;

use super::page::Mark;

/// For each lane the time until which what it did is known.
type Row = [u32; 32];

/// The most kept releases of a warp; a later one covers all that an earlier one covers.
const MOST_KEPT: usize = 32;

/// A release or a fence by lanes of a warp.
#[derive(Clone, Debug)]
struct Publication {
    /// The warp's moment for the tracker of warps.
    moment: u32,
    stamp: u32,
    row: Row,
}

/// The last releases, or fences between proxies, of a warp.
#[derive(Clone, Default, Debug)]
pub(super) struct Publications {
    list: VecDeque<Publication>,
}

impl Publications {
    fn publish(&mut self, moment: u32, stamp: u32, mut row: Row) {
        if let Some(last) = self.list.back() {
            join(&mut row, &last.row);
        }
        if self.list.len() == MOST_KEPT {
            self.list.pop_front();
        }
        self.list.push_back(Publication { moment, stamp, row });
    }

    fn last(&self, known: u32) -> Option<&Publication> {
        self.list.iter().rev().find(|each| each.moment <= known)
    }

    /// A lane of an access that the last publication until a moment does not cover.
    pub(super) fn lacks(&self, known: u32, mark: &Mark) -> Option<usize> {
        let last = self.last(known)?;
        lanes(mark.lanes).find(|lane| last.row[*lane] <= mark.time)
    }

    /// Whether the last publication until a moment came after an access.
    pub(super) fn is_after(&self, known: u32, stamp: u32) -> bool {
        self.last(known).is_some_and(|last| last.stamp > stamp)
    }
}

/// A warp.
#[derive(Default, Debug)]
pub(crate) struct State {
    time: u32,
    /// Every lane knows what all lanes did before this time.
    all: u32,
    /// Until when each lane knows what each other lane did, where that is later.
    rows: Option<Box<[Row; 32]>>,
    /// What was released, for other lanes that acquire.
    released: Row,
    pub(super) releases: Publications,
    pub(super) fences: Publications,
    /// Lanes that read in an ordered way what others may have released, and have not fenced since.
    pulled: u32,
    /// Lanes that did not wait when other lanes of the warp did, with what they know.
    lags: Vec<(u32, Knowledge)>,
    /// The same for lanes that will lag when the current wait is over.
    pending: Option<(u32, Knowledge)>,
}

impl State {
    /// Keeps only what was made known to others; whether anything was.
    pub(super) fn end(&mut self) -> bool {
        let (releases, fences) =
            (std::mem::take(&mut self.releases), std::mem::take(&mut self.fences));
        let told = !releases.list.is_empty() || !fences.list.is_empty();
        *self = State { releases, fences, ..State::default() };
        told
    }

    pub(super) fn time(&self) -> u32 {
        self.time
    }

    /// The time until which a lane knows what another did.
    pub(super) fn known(&self, lane: u32, other: u32) -> u32 {
        let row = self.rows.as_ref().map_or(0, |rows| rows[lane as usize][other as usize]);
        row.max(self.all)
    }

    fn row(&self, lane: usize) -> Row {
        let mut row = self.rows.as_ref().map_or([0; 32], |rows| rows[lane]);
        for each in &mut row {
            *each = (*each).max(self.all);
        }
        row
    }

    /// What lanes did until now, and what they know of others.
    fn joined(&mut self, mask: u32) -> Row {
        self.time += 1;
        let mut joined = [self.all; 32];
        if self.rows.is_some() {
            lanes(mask).for_each(|lane| join(&mut joined, &self.row(lane)));
        }
        lanes(mask).for_each(|lane| joined[lane] = self.time);
        joined
    }

    /// Lanes meet: each knows what all did.
    pub(crate) fn meet(&mut self, mask: u32, live: u32) {
        let joined = self.joined(mask);
        if mask & live == live {
            (self.all, self.rows) = (self.time, None);
            self.lags.clear();
            return;
        }
        let rows = self.rows.get_or_insert_with(|| Box::new([[0; 32]; 32]));
        lanes(mask).for_each(|lane| rows[lane] = joined);
        self.meet_lags(mask);
    }

    /// Lanes that lag learn from lanes that do not lag.
    fn meet_lags(&mut self, mask: u32) {
        let lagging = self.lags.iter().fold(0, |all, (lanes, _)| all | lanes) & mask;
        if lagging != mask || self.lags.iter().all(|(lanes, _)| lanes & mask == 0) {
            self.catch_up(mask);
            return;
        }
        let mut joined = Knowledge::default();
        let held = self.lags.iter().filter(|(lanes, _)| lanes & mask != 0);
        held.for_each(|(_, lag)| joined.join(lag));
        self.catch_up(mask);
        self.lags.push((mask, joined));
    }

    /// Lanes know what their warp knows.
    fn catch_up(&mut self, mask: u32) {
        self.lags.iter_mut().for_each(|(lanes, _)| *lanes &= !mask);
        self.lags.retain(|(lanes, _)| *lanes != 0);
    }

    /// Lanes tell others, at a moment of their warp.
    pub(crate) fn release(&mut self, mask: u32, moment: u32, stamp: u32) {
        let row = self.joined(mask);
        join(&mut self.released, &row);
        self.releases.publish(moment, stamp, row);
    }

    /// A fence between proxies.
    pub(crate) fn fence(&mut self, mask: u32, moment: u32, stamp: u32) {
        let row = self.joined(mask);
        self.fences.publish(moment, stamp, row);
    }

    /// Lanes learn what was released.
    pub(crate) fn acquire(&mut self, mask: u32) {
        if self.released.iter().any(|time| *time > self.all) {
            let released = self.released;
            let rows = self.rows.get_or_insert_with(|| Box::new([[0; 32]; 32]));
            lanes(mask).for_each(|lane| join(&mut rows[lane], &released));
        }
    }

    /// A wait of lanes is over: they know what their warp knows, and the others lag.
    pub(crate) fn waited(&mut self, mask: u32) {
        self.catch_up(mask);
        if let Some((others, knows)) = self.pending.take() {
            let lagging = self.lags.iter().fold(0, |all, (lanes, _)| all | lanes);
            if others & !lagging != 0 {
                self.lags.push((others & !lagging, knows));
            }
        }
    }

    /// Lanes read in an ordered way: a fence that follows acquires.
    pub(crate) fn pull(&mut self, mask: u32) {
        self.pulled |= mask;
    }

    /// Lanes of a fence that acquire.
    pub(crate) fn pulled(&self, mask: u32) -> u32 {
        self.pulled & mask
    }

    /// Lanes have fenced what they read.
    pub(crate) fn push(&mut self, mask: u32) {
        self.pulled &= !mask;
    }

    /// Lanes that will lag behind the lanes of `mask`, which are about to wait, where some of them do not lag yet.
    pub(crate) fn will_lag(&self, mask: u32, live: u32) -> bool {
        let lagging = self.lags.iter().fold(0, |all, (lanes, _)| all | lanes);
        live & !mask & !lagging != 0
    }

    pub(super) fn before_wait(&mut self, mask: u32, live: u32, knows: Knowledge) {
        self.pending = Some((live & !mask, knows));
    }

    /// Whether any lane lags behind its warp.
    pub(super) fn has_lags(&self) -> bool {
        !self.lags.is_empty()
    }

    /// What a lane knows that lags behind its warp.
    pub(super) fn lag(&self, lane: u32) -> Option<&Knowledge> {
        let lag = self.lags.iter().find(|(lanes, _)| lanes >> lane & 1 == 1);
        lag.map(|(_, knows)| knows)
    }
}

fn join(row: &mut Row, other: &Row) {
    row.iter_mut().zip(other).for_each(|(own, their)| *own = (*own).max(*their));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lane_knows_what_the_lanes_it_met_did() {
        let mut state = State::default();
        let before = state.time();
        state.meet(0b11, u32::MAX);
        assert!(state.known(0, 1) > before && state.known(2, 1) <= before);
        state.meet(0b110, u32::MAX);
        assert!(state.known(2, 0) > before, "lane 1 tells what it knows");
        assert!(state.known(2, 1) <= state.time(), "what comes is not known");
        state.meet(u32::MAX, u32::MAX);
        assert!(state.rows.is_none() && state.known(31, 30) > before);
    }

    #[test]
    fn a_release_covers_its_own_lanes_and_what_they_know() {
        let mut state = State::default();
        let mark = |lanes, time| Mark { agent: (0, 0), time, moment: 1, lanes, stamp: 1, line: 1 };
        let written = mark(0b10, state.time());
        state.release(0b1, 7, 2);
        assert_eq!(state.releases.lacks(7, &written), Some(1));
        state.meet(0b11, u32::MAX);
        state.release(0b1, 8, 3);
        assert_eq!(state.releases.lacks(7, &written), Some(1), "the first still does not");
        assert_eq!(state.releases.lacks(8, &written), None);
    }
}
