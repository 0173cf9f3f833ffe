//! Vector clocks: how much of everybody's past an agent knows.
//!
//! In: agents by CTA and number. Out: what is covered by what. Invariant: clocks only grow, and hold nothing about CTAs
//! of which nothing is known, so that CTAs that never meet cost each other nothing.

/// An agent: a warp of a CTA, or a slot in which one asynchronous operation after the other of that CTA lives.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(super) struct Id {
    pub(super) cta: u32,
    /// Warps come first.
    pub(super) local: u32,
}

/// For each agent the last moment of it that is known.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub(super) struct Clock(Vec<(u32, Vec<u32>)>);

impl Clock {
    fn part(&self, cta: u32) -> Result<usize, usize> {
        self.0.binary_search_by_key(&cta, |(each, _)| *each)
    }

    /// The last known moment of an agent, 0 for none.
    pub(super) fn get(&self, of: Id) -> u32 {
        let Ok(part) = self.part(of.cta) else { return 0 };
        self.0[part].1.get(of.local as usize).copied().unwrap_or(0)
    }

    /// Makes a moment of an agent known.
    pub(super) fn set(&mut self, of: Id, moment: u32) {
        let part = match self.part(of.cta) {
            Ok(part) => part,
            Err(part) => {
                self.0.insert(part, (of.cta, Vec::new()));
                part
            }
        };
        let moments = &mut self.0[part].1;
        let place = of.local as usize;
        if moments.len() <= place {
            moments.resize(place + 1, 0);
        }
        moments[place] = moments[place].max(moment);
    }

    /// Learns what another knows.
    pub(super) fn join(&mut self, other: &Clock) {
        for (cta, theirs) in &other.0 {
            match self.part(*cta) {
                Ok(part) => {
                    let moments = &mut self.0[part].1;
                    if moments.len() < theirs.len() {
                        moments.resize(theirs.len(), 0);
                    }
                    for (own, their) in moments.iter_mut().zip(theirs) {
                        *own = (*own).max(*their);
                    }
                }
                Err(part) => self.0.insert(part, (*cta, theirs.clone())),
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
}
