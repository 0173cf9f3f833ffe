//! A warp: registers of 32 lanes, and the lanes in groups that run together.
//!
//! Lanes that a branch divides become splits, each with its own place; they wait for each other where the branch's ways
//! meet again. Splits of one warp are scheduled like warps, so that one may wait for another. Invariant: every lane that
//! has not ended is in exactly one split, or waits in exactly one meeting.

use postlude_ptx::modifier::WaitFor;

use crate::product_fence::ProductFence;
use crate::program::Pc;

/// One value for each lane.
pub(crate) type Lanes = [u64; 32];

/// All lanes.
pub(crate) const ALL: u32 = u32::MAX;

/// Which lanes of a mask, by number.
pub(crate) fn lanes(mask: u32) -> impl Iterator<Item = usize> {
    let mut rest = mask;
    std::iter::from_fn(move || {
        let lane = rest.trailing_zeros();
        rest &= rest.wrapping_sub(1);
        (lane < 32).then_some(lane as usize)
    })
}

/// What a split waits for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Wait {
    /// The other lanes of the warp that execute this step with it.
    Members(u32),
    /// A round of a named barrier.
    Named { barrier: usize, round: u64 },
    /// A round of the cluster's barrier.
    Cluster { round: u64 },
    /// Phases of barriers in shared memory, by address and parity.
    Phases(Vec<(u32, u64)>),
    /// So many matrix products of the warpgroup.
    Products { count: u64 },
    /// Copies out of shared memory, by lanes, until this many groups are under way.
    Bulk { lanes: u32, pending: usize, until: WaitFor },
    /// Copies of sm_80, by lanes, and one of these that is under way.
    Copies { lanes: u32, pending: usize, open: u64 },
    /// Registers for each thread.
    Registers { count: u32 },
}

/// Lanes that run together.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Split {
    pub(crate) pc: Pc,
    pub(crate) mask: u32,
    /// Where it meets others, if anywhere before the end.
    meeting: Option<usize>,
    pub(crate) wait: Option<Wait>,
    /// A wait with patience has lost it: what it asked is answered with no.
    pub(crate) impatient: bool,
    /// It has begun the step before, and waited.
    pub(crate) retrying: bool,
}

impl Split {
    fn new(pc: Pc, mask: u32, meeting: Option<usize>) -> Self {
        Split { pc, mask, meeting, wait: None, impatient: false, retrying: false }
    }
}

/// A place where splits become one again.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Meeting {
    at: Pc,
    /// Lanes that will come.
    expected: u32,
    /// Lanes that are there.
    present: u32,
    outer: Option<usize>,
    used: bool,
}

/// Copies of one thread, in groups.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub(crate) struct Groups {
    /// Not yet in a group.
    pub(crate) open: Vec<u64>,
    /// Closed groups, oldest first.
    pub(crate) closed: Vec<Vec<u64>>,
}

impl Groups {
    /// Closes a group.
    pub(crate) fn commit(&mut self) {
        self.closed.push(std::mem::take(&mut self.open));
    }

    /// What must be done so that at most `pending` groups are under way.
    pub(crate) fn before(&self, pending: usize) -> impl Iterator<Item = u64> {
        let count = self.closed.len().saturating_sub(pending);
        self.closed[..count].iter().flatten().copied()
    }

    /// Forgets groups that are done.
    pub(crate) fn forget(&mut self, pending: usize) {
        let count = self.closed.len().saturating_sub(pending);
        self.closed.drain(..count);
    }
}

/// 32 threads.
#[derive(Debug, Default)]
pub(crate) struct Warp {
    /// Its CTA among the resident ones.
    pub(crate) cta: usize,
    /// Its number in the CTA.
    pub(crate) number: u32,
    pub(crate) registers: Vec<Lanes>,
    /// Lanes in which each register was written.
    pub(crate) defined: Vec<u32>,
    /// Lanes that it began with.
    pub(crate) whole: u32,
    /// Lanes that have not ended.
    pub(crate) live: u32,
    pub(crate) splits: Vec<Split>,
    meetings: Vec<Meeting>,
    /// Matrix products issued, and their number at each commit.
    pub(crate) products: u64,
    pub(crate) product_groups: Vec<u64>,
    /// Accumulators of products under way: how many products each register waits for.
    pub(crate) touched: Vec<u32>,
    /// Fragments of A that products under way read, counted likewise.
    pub(crate) held: Vec<u32>,
    /// Registers that products may not use before the next `wgmma.fence`.
    pub(crate) fence: ProductFence,
    /// Products under way that nobody waited for, and the steps that issued them.
    pub(crate) unawaited: Vec<(u64, Pc)>,
    /// How many they are.
    pub(crate) busy: u32,
    /// Copies out of shared memory of each lane.
    pub(crate) bulk: Vec<Groups>,
    /// Copies of sm_80 of each lane.
    pub(crate) copies: Vec<Groups>,
    /// Registers that each thread may use.
    pub(crate) limit: u32,
    /// `setmaxnreg` instructions that it has executed.
    pub(crate) resizes: usize,
    /// Arrivals at the cluster's barrier.
    pub(crate) cluster_round: u64,
    /// Lanes that have arrived there and not waited.
    pub(crate) cluster_arrived: u32,
}

impl Warp {
    /// A warp at the kernel's start, with its first `threads` lanes.
    pub(crate) fn new(cta: usize, number: u32, threads: u32, registers: usize) -> Self {
        let live = if threads >= 32 { ALL } else { (1 << threads) - 1 };
        let start = Split::new(0, live, None);
        Warp {
            cta,
            number,
            registers: vec![[0; 32]; registers],
            defined: vec![0; registers],
            whole: live,
            live,
            splits: vec![start],
            touched: vec![0; registers],
            held: vec![0; registers],
            fence: ProductFence::new(registers),
            bulk: vec![Groups::default(); 32],
            copies: vec![Groups::default(); 32],
            ..Warp::default()
        }
    }

    /// Writes a register in the lanes of a mask.
    #[inline]
    pub(crate) fn write(&mut self, register: usize, mask: u32, values: &Lanes) {
        let held = &mut self.registers[register];
        if mask == ALL {
            *held = *values;
        } else {
            for lane in 0..32 {
                let keep = u64::from(mask >> lane & 1).wrapping_neg();
                held[lane] = (values[lane] & keep) | (held[lane] & !keep);
            }
        }
    }

    /// Divides a split: the lanes of `taken` go to `target`, the others to `after`; they meet at `meet`.
    pub(crate) fn divide(&mut self, split: usize, taken: u32, target: Pc, after: Pc, meet: Pc) {
        let Split { mask, meeting, .. } = self.splits[split];
        // A loop that lanes leave one by one has one meeting, not one a round.
        let same = meeting.is_some_and(|outer| self.meetings[outer].at == meet);
        let inner = if same || meet == crate::program::END {
            meeting
        } else {
            let new = Meeting { at: meet, expected: mask, present: 0, outer: meeting, used: true };
            let free = self.meetings.iter().position(|each| !each.used);
            match free {
                Some(place) => self.meetings[place] = new,
                None => self.meetings.push(new),
            }
            Some(free.unwrap_or(self.meetings.len() - 1))
        };
        let part = |pc, mask| Split::new(pc, mask, inner);
        self.splits[split] = part(target, taken);
        self.splits.push(part(after, mask & !taken));
    }

    /// Whether the split has come to where it meets others.
    #[inline]
    pub(crate) fn at_meeting(&self, split: usize) -> bool {
        let Split { pc, meeting, .. } = self.splits[split];
        meeting.is_some_and(|meeting| self.meetings[meeting].at == pc)
    }

    /// Lets the split wait where it meets others; when all are there they go on as one.
    pub(crate) fn meet(&mut self, split: usize) {
        let Split { mask, meeting, .. } = self.splits.remove(split);
        if let Some(meeting) = meeting {
            self.meetings[meeting].present |= mask;
            self.close(meeting);
        }
    }

    fn close(&mut self, place: usize) {
        let Meeting { at, expected, present, outer, .. } = self.meetings[place];
        if present != expected {
            return;
        }
        self.meetings[place].used = false;
        if expected != 0 {
            self.splits.push(Split::new(at, expected, outer));
        }
    }

    /// Ends lanes of a split; nobody waits for them any more.
    pub(crate) fn end(&mut self, split: usize, mask: u32) {
        self.live &= !mask;
        let mut outer = self.splits[split].meeting;
        self.splits[split].mask &= !mask;
        if self.splits[split].mask == 0 {
            self.splits.remove(split);
        }
        while let Some(place) = outer {
            outer = self.meetings[place].outer;
            self.meetings[place].expected &= !mask;
            self.close(place);
        }
    }

    /// Where its lanes stand: those of each split, and where those meet that wait for others.
    pub(crate) fn places(&self) -> impl Iterator<Item = Pc> {
        let meetings = self.meetings.iter().filter(|each| each.used).map(|each| each.at);
        self.splits.iter().map(|split| split.pc).chain(meetings)
    }

    /// Whether all lanes have ended.
    pub(crate) fn is_done(&self) -> bool {
        self.live == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn divided_lanes_meet_again() {
        let mut warp = Warp::new(0, 0, 32, 0);
        warp.divide(0, 0xff, 10, 1, 20);
        warp.splits[0].pc = 20;
        assert!(warp.at_meeting(0) && !warp.at_meeting(1));
        warp.meet(0);
        assert_eq!(warp.splits.len(), 1);
        // Some of the others end, the rest come.
        warp.end(0, 0xff00);
        warp.splits[0].pc = 20;
        warp.meet(0);
        assert_eq!((warp.splits.len(), warp.splits[0].mask), (1, 0xffff_00ff));
        assert!(!warp.at_meeting(0));
    }

    #[test]
    fn lanes_of_a_mask_come_in_order() {
        assert_eq!(lanes(0x8000_0005).collect::<Vec<_>>(), [0, 2, 31]);
    }
}
