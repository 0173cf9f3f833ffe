//! Memory of what a kernel's launches store for later ones: one block for a call, in which values share bytes.
//!
//! In: the values of a kernel's launches, each with its bytes, the launch that stores it and the last one that reads it.
//! Out: an offset for each. Invariant: two values of which one is stored before the other was read for the last time have no
//! byte in common. Launches of a stream run one after another, so a launch may store into what the one before it read last.
//!
//! Values are placed in the order of their bytes, the largest first, each in the smallest gap that holds it between values
//! that live at the same time.

use crate::placement::Placement;

/// A value between launches.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Lifetime {
    pub(crate) bytes: u64,
    /// The launch that stores it.
    pub(crate) first: usize,
    /// The last launch that reads it, or the one that stores it where none does.
    pub(crate) last: usize,
}

impl Lifetime {
    fn overlaps(&self, other: &Lifetime) -> bool {
        self.first <= other.last && other.first <= self.last
    }

    /// Its bytes in a block, up to where the next value may begin.
    fn room(&self) -> u64 {
        self.bytes.next_multiple_of(Placement::PERIOD)
    }
}

/// Where the values of a call lie.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Block {
    /// One offset for each value, a multiple of [`Placement::PERIOD`].
    pub(crate) offsets: Vec<u64>,
    /// Bytes of all together.
    pub(crate) bytes: u64,
}

impl Block {
    /// A block for values of these lifetimes.
    pub(crate) fn of(lifetimes: &[Lifetime]) -> Block {
        let mut order: Vec<usize> = (0..lifetimes.len()).collect();
        order.sort_by_key(|at| std::cmp::Reverse(lifetimes[*at].room()));
        let mut offsets = vec![0; lifetimes.len()];
        let mut placed: Vec<usize> = Vec::with_capacity(lifetimes.len());
        for at in order {
            let own = &lifetimes[at];
            let alive = placed.iter().filter(|other| lifetimes[**other].overlaps(own));
            let taken =
                alive.map(|other| (offsets[*other], offsets[*other] + lifetimes[*other].room()));
            offsets[at] = smallest_gap(taken.collect(), own.room());
            placed.push(at);
        }
        let ends = offsets.iter().zip(lifetimes).map(|(offset, own)| offset + own.room());
        Block { bytes: ends.max().unwrap_or(0), offsets }
    }

    /// Bytes of the same values without any in common.
    pub(super) fn bytes_without_reuse(lifetimes: &[Lifetime]) -> u64 {
        lifetimes.iter().map(Lifetime::room).sum()
    }
}

/// The begin of the smallest gap between these ranges that holds so much, or the end of all.
fn smallest_gap(mut taken: Vec<(u64, u64)>, room: u64) -> u64 {
    taken.sort_unstable();
    let (mut best, mut end): (Option<(u64, u64)>, u64) = (None, 0);
    for (from, to) in taken {
        let gap = from.saturating_sub(end);
        if gap >= room && best.is_none_or(|(smallest, _)| gap < smallest) {
            best = Some((gap, end));
        }
        end = end.max(to);
    }
    best.map_or(end, |(_, begin)| begin)
}

#[cfg(test)]
mod tests {
    use super::{Block, Lifetime, smallest_gap};
    use crate::placement::Placement;

    fn random_lifetimes(seed: u64) -> Vec<Lifetime> {
        let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        let mut below = |limit: u64| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state % limit
        };
        let count = below(12);
        (0..count)
            .map(|_| {
                let first = below(8) as usize;
                let last = first + below(5) as usize;
                Lifetime { bytes: below(5000), first, last }
            })
            .collect()
    }

    #[test]
    fn values_that_live_at_the_same_time_share_no_byte() {
        for seed in 0..2000 {
            let all = random_lifetimes(seed);
            let block = Block::of(&all);
            for (place, (own, from)) in all.iter().zip(&block.offsets).enumerate() {
                assert_eq!(from % Placement::PERIOD, 0);
                assert!(from + own.bytes <= block.bytes, "{all:?} {block:?}");
                for (other, begin) in all.iter().zip(&block.offsets).skip(place + 1) {
                    let apart = from + own.bytes <= *begin || begin + other.bytes <= *from;
                    let at_once = own.first <= other.last && other.first <= own.last;
                    assert!(
                        apart || !at_once || own.bytes == 0 || other.bytes == 0,
                        "{all:?} {block:?}"
                    );
                }
            }
            assert!(block.bytes <= Block::bytes_without_reuse(&all));
            let launches = all.iter().map(|one| one.last + 1).max().unwrap_or(0);
            let alive =
                |at: usize| all.iter().filter(move |one| (one.first..=one.last).contains(&at));
            let least = (0..launches).map(|at| alive(at).map(|one| one.bytes).sum::<u64>()).max();
            assert!(block.bytes >= least.unwrap_or(0));
        }
    }

    #[test]
    fn a_chain_needs_two_of_its_values_at_a_time() {
        let chain: Vec<Lifetime> =
            (0..6).map(|first| Lifetime { bytes: 1024, first, last: first + 1 }).collect();
        assert_eq!(Block::of(&chain).bytes, 2048);
    }

    #[test]
    fn a_value_takes_the_smallest_gap_that_holds_it() {
        let taken = || vec![(4096, 8192), (0, 1024), (2048, 3584)];
        assert_eq!(smallest_gap(taken(), 512), 3584);
        assert_eq!(smallest_gap(taken(), 1024), 1024);
        assert_eq!(smallest_gap(taken(), 2048), 8192);
        assert_eq!(smallest_gap(Vec::new(), 512), 0);
    }
}
