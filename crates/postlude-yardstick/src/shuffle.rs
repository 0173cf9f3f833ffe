//! Shuffled orders, the same for the same seed.

use postlude_corpus::Random;

/// Draws orders and samples.
#[derive(Clone, Debug)]
pub struct Shuffler(Random);

impl Shuffler {
    /// One that starts from a seed.
    pub fn new(seed: u64) -> Shuffler {
        Shuffler(Random::new(seed))
    }

    /// The next 64 random bits.
    pub fn bits(&mut self) -> u64 {
        self.0.bits()
    }

    /// The numbers from 0 to `count`, in an order that is as likely as any other.
    pub fn order(&mut self, count: usize) -> Vec<usize> {
        let mut order: Vec<usize> = (0..count).collect();
        for last in (1..count).rev() {
            order.swap(last, self.0.below(last + 1));
        }
        order
    }

    /// `count` different numbers below `limit` in rising order, or all of them; the first and the last are among them.
    pub fn sample(&mut self, count: usize, limit: usize) -> Vec<usize> {
        if limit <= count {
            return (0..limit).collect();
        }
        let mut chosen = std::collections::BTreeSet::from([0, limit - 1]);
        while chosen.len() < count {
            chosen.insert(self.0.below(limit));
        }
        chosen.into_iter().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_order_has_every_number_once() {
        let mut order = Shuffler::new(1).order(17);
        order.sort_unstable();
        assert_eq!(order, (0..17).collect::<Vec<_>>());
    }

    #[test]
    fn every_place_is_as_likely() {
        let mut shuffler = Shuffler::new(7);
        let mut first = [0u32; 4];
        for _ in 0..4000 {
            first[shuffler.order(4)[0]] += 1;
        }
        // Five standard deviations of a binomial with 4000 tries and a chance of one quarter.
        assert!(first.iter().all(|count| count.abs_diff(1000) < 137), "{first:?}");
    }

    #[test]
    fn a_seed_says_everything() {
        assert_eq!(Shuffler::new(3).order(9), Shuffler::new(3).order(9));
    }

    #[test]
    fn a_sample_has_both_ends_and_no_number_twice() {
        let sample = Shuffler::new(5).sample(16, 8192);
        assert_eq!((sample.len(), sample[0], sample[15]), (16, 0, 8191));
        assert!(sample.windows(2).all(|pair| pair[0] < pair[1]));
        assert_eq!(Shuffler::new(5).sample(16, 3), [0, 1, 2]);
    }
}
