//! Vector clocks: how much of everybody's past an agent knows.
//!
//! In: agents by CTA and number. Out: what is covered by what. Invariant: clocks only grow, and hold nothing about CTAs
//! of which nothing is known, so that CTAs that never meet cost each other nothing.
//!
//! There are four kinds of knowledge about each agent: what it wrote is visible; what it did was executed before, which
//! an arrival of too narrow a scope shows as well; and what it did is followed by a fence between proxies, for shared and
//! for global memory, which any agent between the two accesses may have made (PTX ISA, "Causality Order":
//! proxy-preserved base causality order).

use std::rc::Rc;

/// An agent: a warp of a CTA, or a slot in which one asynchronous operation after the other of that CTA lives.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(super) struct Id {
    pub(super) cta: u32,
    /// Warps come first.
    pub(super) local: u32,
}

/// The last moments of an agent that are known: visible, executed, fenced in shared and in global memory.
type Moments = [u32; 4];

const VISIBLE: usize = 0;
const EXECUTED: usize = 1;
const FENCED_SHARED: usize = 2;
const FENCED_GLOBAL: usize = 3;

/// Memory that a fence between proxies orders.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Fenced {
    Shared,
    Global,
}

/// For each agent the last moments of it that are known. What is known of a CTA is shared until it changes: most of it
/// is passed on as it is.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub(super) struct Clock(Vec<(u32, Rc<Vec<Moments>>)>);

impl Clock {
    fn part(&self, cta: u32) -> Result<usize, usize> {
        self.0.binary_search_by_key(&cta, |(each, _)| *each)
    }

    fn moments(&self, of: Id) -> Moments {
        let Ok(part) = self.part(of.cta) else { return Moments::default() };
        self.0[part].1.get(of.local as usize).copied().unwrap_or_default()
    }

    /// Whether nothing is known of anybody.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The last moment of an agent up to which its writes are visible, 0 for none.
    pub(super) fn get(&self, of: Id) -> u32 {
        self.moments(of)[VISIBLE]
    }

    /// The last moment of an agent that is known to be over.
    pub(super) fn executed(&self, of: Id) -> u32 {
        self.moments(of)[EXECUTED]
    }

    /// The last moment of an agent that a fence between proxies follows.
    pub(super) fn fenced(&self, of: Id, memory: Fenced) -> u32 {
        self.moments(of)[match memory {
            Fenced::Shared => FENCED_SHARED,
            Fenced::Global => FENCED_GLOBAL,
        }]
    }

    /// Makes a moment of an agent known.
    pub(super) fn set(&mut self, of: Id, moment: u32) {
        let part = match self.part(of.cta) {
            Ok(part) => part,
            Err(part) => {
                self.0.insert(part, (of.cta, Rc::default()));
                part
            }
        };
        let moments = Rc::make_mut(&mut self.0[part].1);
        let place = of.local as usize;
        if moments.len() <= place {
            moments.resize(place + 1, Moments::default());
        }
        for kind in [VISIBLE, EXECUTED] {
            moments[place][kind] = moments[place][kind].max(moment);
        }
    }

    /// A fence between proxies follows everything that is known.
    pub(super) fn fence(&mut self, memory: Fenced) {
        let kind = match memory {
            Fenced::Shared => FENCED_SHARED,
            Fenced::Global => FENCED_GLOBAL,
        };
        for (_, part) in &mut self.0 {
            if part.iter().any(|moments| moments[kind] < moments[EXECUTED]) {
                for moments in Rc::make_mut(part) {
                    moments[kind] = moments[kind].max(moments[EXECUTED]);
                }
            }
        }
    }

    /// Learns what another knows.
    pub(super) fn join(&mut self, other: &Clock) {
        self.join_masked(other, [u32::MAX; 4]);
    }

    /// Learns what was executed before another's present, but not that its writes are visible.
    pub(super) fn join_executed(&mut self, other: &Clock) {
        self.join_masked(other, [0, u32::MAX, u32::MAX, u32::MAX]);
    }

    fn join_masked(&mut self, other: &Clock, mask: Moments) {
        for (cta, theirs) in &other.0 {
            let part = match self.part(*cta) {
                Ok(part) => part,
                Err(part) => {
                    self.0.insert(part, (*cta, Rc::default()));
                    part
                }
            };
            let own = &mut self.0[part].1;
            if Rc::ptr_eq(own, theirs) {
                continue;
            }
            if own.is_empty() && mask == [u32::MAX; 4] {
                own.clone_from(theirs);
                continue;
            }
            let is_news = |(own, their): (&Moments, &Moments)| {
                own.iter().zip(their).zip(mask).any(|((own, their), mask)| their & mask > *own)
            };
            if theirs.len() <= own.len() && !own.iter().zip(theirs.iter()).any(is_news) {
                continue;
            }
            let moments = Rc::make_mut(own);
            if moments.len() < theirs.len() {
                moments.resize(theirs.len(), Moments::default());
            }
            for (own, their) in moments.iter_mut().zip(theirs.iter()) {
                for kind in 0..own.len() {
                    own[kind] = own[kind].max(their[kind] & mask[kind]);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_join_knows_what_either_knew() {
        let [first, second, third] = [(0, 1), (0, 5), (7, 0)].map(|(cta, local)| Id { cta, local });
        let (mut a, mut b) = (Clock::default(), Clock::default());
        a.set(first, 3);
        a.set(second, 1);
        b.set(first, 2);
        b.set(third, 9);
        b.join(&a);
        assert_eq!([first, second, third].map(|id| b.get(id)), [3, 1, 9]);
        assert_eq!((a.get(third), a.get(Id { cta: 3, local: 0 })), (0, 0));
    }

    #[test]
    fn a_narrow_join_knows_what_was_executed_and_fenced_but_sees_no_writes() {
        let id = Id { cta: 2, local: 1 };
        let (mut a, mut b) = (Clock::default(), Clock::default());
        a.set(id, 4);
        a.fence(Fenced::Shared);
        b.join_executed(&a);
        assert_eq!((b.get(id), b.executed(id)), (0, 4));
        assert_eq!((b.fenced(id, Fenced::Shared), b.fenced(id, Fenced::Global)), (4, 0));
    }
}
