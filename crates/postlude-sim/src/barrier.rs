//! Barriers: in shared memory, named, and of the cluster.
//!
//! In: arrivals and bytes. Out: phases that complete. Invariant: a phase of a barrier in shared memory completes when
//! its arrivals are all there and its bytes balance, which may be less than none in between.

use std::collections::BTreeMap;

/// A barrier in shared memory.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Mbarrier {
    /// Arrivals that end a phase.
    pub(crate) count: u32,
    /// Arrivals that this phase still waits for.
    pub(crate) pending: u32,
    /// Bytes promised and not yet arrived.
    pub(crate) bytes: i64,
    /// Phases that are complete.
    pub(crate) phase: u64,
}

/// An arrival that no phase waits for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct TooManyArrivals;

impl Mbarrier {
    pub(crate) fn new(count: u32) -> Self {
        Mbarrier { count, pending: count, bytes: 0, phase: 0 }
    }

    /// Arrives this many times; whether that completed the phase.
    pub(crate) fn arrive(&mut self, count: u32) -> Result<bool, TooManyArrivals> {
        self.pending = self.pending.checked_sub(count).ok_or(TooManyArrivals)?;
        Ok(self.settle())
    }

    /// Promises bytes.
    pub(crate) fn expect(&mut self, bytes: u32) {
        self.bytes += i64::from(bytes);
    }

    /// Bytes have arrived; whether that completed the phase.
    pub(crate) fn deliver(&mut self, bytes: u32) -> bool {
        self.bytes -= i64::from(bytes);
        self.settle()
    }

    fn settle(&mut self) -> bool {
        let complete = self.pending == 0 && self.bytes == 0;
        if complete {
            self.phase += 1;
            self.pending = self.count;
        }
        complete
    }

    /// Whether the phase of that parity is complete: the current one has the other.
    pub(crate) fn passed(&self, parity: u64) -> bool {
        self.phase & 1 != parity & 1
    }
}

/// A named barrier of a CTA.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub(crate) struct Named {
    /// Threads that have arrived.
    arrived: u32,
    /// Threads that this round waits for, as the first arrival said.
    wanted: Option<u32>,
    /// Rounds that are complete.
    pub(crate) round: u64,
}

/// What is wrong with an arrival at a named barrier.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct WrongCount {
    /// What others of this round said.
    pub(crate) others: u32,
}

impl Named {
    /// So many threads arrive, and say how many are awaited.
    pub(crate) fn arrive(&mut self, threads: u32, wanted: u32) -> Result<(), WrongCount> {
        let others = *self.wanted.get_or_insert(wanted);
        if others != wanted || self.arrived + threads > wanted {
            return Err(WrongCount { others });
        }
        self.arrived += threads;
        if self.arrived == wanted {
            self.arrived = 0;
            self.wanted = None;
            self.round += 1;
        }
        Ok(())
    }

    /// How many threads are here, of how many.
    pub(crate) fn state(&self) -> (u32, u32) {
        (self.arrived, self.wanted.unwrap_or(0))
    }
}

/// The barrier of a cluster, by threads.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub(crate) struct ClusterBarrier {
    pub(crate) arrived: u32,
    /// Rounds that are complete.
    pub(crate) round: u64,
}

impl ClusterBarrier {
    /// Completes the round when all `live` threads have arrived.
    pub(crate) fn settle(&mut self, live: u32) {
        if self.arrived > 0 && self.arrived >= live {
            self.arrived = 0;
            self.round += 1;
        }
    }
}

/// Barriers in shared memory, by address.
pub(crate) type Mbarriers = BTreeMap<u32, Mbarrier>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_phase_completes_when_arrivals_and_bytes_balance() {
        let mut barrier = Mbarrier::new(2);
        assert!(!barrier.deliver(16), "bytes may be early");
        barrier.expect(16);
        assert_eq!(barrier.arrive(1), Ok(false));
        assert!(!barrier.passed(0));
        assert_eq!(barrier.arrive(1), Ok(true));
        assert!(barrier.passed(0) && !barrier.passed(1));
        assert_eq!(barrier.arrive(3), Err(TooManyArrivals));
    }

    #[test]
    fn named_barriers_refuse_other_counts() {
        let mut barrier = Named::default();
        assert_eq!(barrier.arrive(32, 64), Ok(()));
        assert_eq!(barrier.arrive(32, 96), Err(WrongCount { others: 64 }));
        assert_eq!(barrier.arrive(32, 64), Ok(()));
        assert_eq!(barrier.round, 1);
    }
}
