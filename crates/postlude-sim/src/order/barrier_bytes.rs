//! Barriers in shared memory as bytes: only barrier operations may touch the bytes of a live barrier.
//!
//! In: accesses to shared memory, and barriers as they are made and unmade. Out: clashes. Invariant: every live barrier
//! lies within the span that is compared first, so that other accesses cost one comparison.

use std::ops::Range;

use crate::observe::{Access, At, Kind, Space};

use super::shadow::{Does, Touch};
use super::{Clash, Cta, Fault, Order};

/// Bytes of a barrier.
const BARRIER: u32 = 8;

impl Cta {
    /// Bytes between the first and the last live barrier.
    fn barrier_span(&self) -> Range<u64> {
        let places = self.barriers.keys();
        let first = places.clone().min().copied().unwrap_or(0);
        let end = places.max().map_or(0, |last| last.saturating_add(BARRIER));
        u64::from(first)..u64::from(end)
    }
}

impl Order {
    /// A barrier was made or unmade, which writes its bytes.
    pub(super) fn write_barrier(&mut self, at: At, cta: u32, address: u32) {
        let state = &mut self.ctas[cta as usize];
        state.span = state.barrier_span();
        let (space, pieces) = (Space::Shared { cta }, [(u64::from(address), BARRIER)]);
        self.touch_memory(at, Access { space, kind: Kind::Write, pieces: &pieces }, None);
    }

    /// Finds live barriers among the bytes that an access touches.
    pub(super) fn compare_with_barriers(
        &mut self,
        cta: u32,
        new: (Touch, Does),
        pieces: &[(u64, u32)],
    ) {
        let state = &self.ctas[cta as usize];
        let span = state.span.clone();
        let close =
            |(at, bytes): &&(u64, u32)| *at < span.end && span.start < at + u64::from(*bytes);
        let mut met = Vec::new();
        for (at, bytes) in pieces.iter().filter(close) {
            let first = at.max(&span.start) / 8 * 8;
            let end = span.end.min(at + u64::from(*bytes));
            for address in (first..end).step_by(BARRIER as usize) {
                if let Some(barrier) = state.barriers.get(&(address as u32)) {
                    met.push((address, barrier.made()));
                }
            }
        }
        for (address, made) in met {
            let (space, old) = (Space::Shared { cta }, (made, Does::Write));
            self.clash(Clash { fault: Fault::Barrier, space, address, old, new, warp: None });
        }
    }
}
