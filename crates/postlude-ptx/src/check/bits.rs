//! A set of small numbers.

/// A set of numbers below a bound that is known when it is made.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Bits(Vec<u64>);

impl Bits {
    /// No number.
    pub(super) fn empty(bound: usize) -> Self {
        Bits(vec![0; bound.div_ceil(64)])
    }

    pub(super) fn insert(&mut self, number: usize) {
        self.0[number / 64] |= 1 << (number % 64);
    }

    pub(super) fn contains(&self, number: usize) -> bool {
        self.0[number / 64] >> (number % 64) & 1 == 1
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.iter().all(|word| *word == 0)
    }

    /// Keeps what both have; whether that is less.
    pub(super) fn intersect(&mut self, other: &Bits) -> bool {
        self.combine(other, |a, b| a & b)
    }

    /// Takes what either has; whether that is more.
    pub(super) fn unite(&mut self, other: &Bits) -> bool {
        self.combine(other, |a, b| a | b)
    }

    fn combine(&mut self, other: &Bits, combined: fn(u64, u64) -> u64) -> bool {
        let mut changed = false;
        for (mine, theirs) in self.0.iter_mut().zip(&other.0) {
            let both = combined(*mine, *theirs);
            changed |= both != *mine;
            *mine = both;
        }
        changed
    }
}
