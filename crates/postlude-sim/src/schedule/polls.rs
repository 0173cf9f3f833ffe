//! Whether every split that can run only polls: repeats the same question without an answer.
//!
//! In: splits as they ask (a failed wait for a phase, an ordered load, an atomic, a sleep), or go round, while nothing
//! changes that another could see. Out: whether every split that can run only polls. Invariant: a split counts as polling
//! only if it asked twice at the same place with the same registers, and nothing that it could read changed in between: a
//! loop that counts, or that only computes, never does, however long it takes.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};

use crate::warp::{Warp, lanes};

use super::PATIENCE;

/// Of `ROUND` questions the first `LOOKED_AT` are compared, because a warp has many registers. A polling loop with more
/// questions than that is not recognised.
const ROUND: u32 = 1024;
const LOOKED_AT: u32 = 64;

/// What a split asked.
#[derive(Default, Debug)]
struct Asking {
    times: u32,
    /// Place and registers, of the questions that were looked at in this round.
    states: Vec<u64>,
    in_vain: bool,
}

/// The splits that have asked since the last change.
#[derive(Default, Debug)]
pub(super) struct Polls {
    /// The machine's count of changes, and instructions when it last changed.
    progress: u64,
    since: u64,
    /// By warp and lanes.
    asking: HashMap<(usize, usize), Asking>,
}

impl Polls {
    /// Forgets all questions when something has changed.
    pub(super) fn look(&mut self, progress: u64, instructions: u64) {
        if self.progress != progress {
            (self.progress, self.since) = (progress, instructions);
            self.forget();
        }
    }

    /// Forgets all questions.
    pub(super) fn forget(&mut self) {
        if !self.asking.is_empty() {
            self.asking.clear();
        }
    }

    /// Whether nothing has changed for long.
    pub(super) fn is_late(&self, instructions: u64) -> bool {
        instructions - self.since > PATIENCE
    }

    /// A split has asked.
    pub(super) fn note(&mut self, place: usize, split: usize, warp: &Warp) {
        let asking = self.asking.entry((place, split)).or_default();
        if asking.in_vain {
            return;
        }
        let at = asking.times % ROUND;
        asking.times = asking.times.wrapping_add(1);
        if at == 0 {
            asking.states.clear();
        }
        if at < LOOKED_AT {
            let state = state(warp, split);
            asking.in_vain = asking.states.contains(&state);
            asking.states.push(state);
        }
    }

    /// Whether all of these splits only poll.
    pub(super) fn are_all(&self, ready: &[(usize, usize)]) -> bool {
        let in_vain = |split| self.asking.get(split).is_some_and(|asking| asking.in_vain);
        self.asking.len() >= ready.len() && ready.iter().all(in_vain)
    }
}

/// A split's place and registers in few bits.
fn state(warp: &Warp, split: usize) -> u64 {
    let mut hasher = DefaultHasher::new();
    let state = &warp.splits[split];
    (state.pc, state.mask, warp.splits.len()).hash(&mut hasher);
    for register in &warp.registers {
        for lane in lanes(state.mask) {
            register[lane].hash(&mut hasher);
        }
    }
    hasher.finish()
}
