//! Random bits by seed: the same in every run and on every machine.
//!
//! In: a seed. Out: a stream of bits, or the bits of one place in it. Invariant: streams never change, for recorded
//! results depend on them.

/// From one state of the counter to the next (Steele, Lea and Flood, "Fast splittable pseudorandom number generators").
const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// A stream of random bits: SplitMix64, which is a counter and a mix.
///
/// ```
/// use postlude_corpus::Random;
/// let mut random = Random::new(7);
/// assert!(random.below(10) < 10);
/// assert_ne!(random.bits(), random.bits());
/// ```
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// The stream of a seed.
    pub const fn new(seed: u64) -> Random {
        Random(seed)
    }

    /// The next 64 bits.
    pub fn bits(&mut self) -> u64 {
        let bits = mix(self.0);
        self.0 = self.0.wrapping_add(STEP);
        bits
    }

    /// A number below `limit`, and 0 below 0; the bias of the remainder is far below what anyone could measure.
    pub fn below(&mut self, limit: usize) -> usize {
        (self.bits() % limit.max(1) as u64) as usize
    }

    /// From `low` to `high`, both of them possible.
    pub fn range(&mut self, low: usize, high: usize) -> usize {
        low + self.below(high - low + 1)
    }

    /// One of these, of which there is at least one.
    pub fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[self.below(from.len())]
    }

    /// True once in this many times.
    pub fn one_in(&mut self, count: usize) -> bool {
        self.below(count) == 0
    }

    /// True that many times in a hundred.
    pub fn chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    /// A whole number from -4 to 4: sums of many, and of their products, are exact whatever their order.
    pub fn whole(&mut self) -> f64 {
        self.below(9) as f64 - 4.0
    }
}

/// The bits of one place in the stream of a seed.
pub(crate) fn bits_at(seed: u64, place: usize) -> u64 {
    mix(seed.wrapping_add((place as u64).wrapping_mul(STEP)))
}

/// What SplitMix64 makes of a state.
pub(crate) fn mix(state: u64) -> u64 {
    let bits = state.wrapping_add(STEP);
    let bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}

/// FNV-1a of 64 bits: small, and enough to tell whether bytes are the same.
///
/// ```
/// assert_eq!(postlude_corpus::fingerprint(b"a"), 0xaf63_dc4c_8601_ec8c);
/// ```
pub fn fingerprint(bytes: &[u8]) -> u64 {
    fingerprint_from(0, bytes)
}

/// The same from another start.
pub(crate) fn fingerprint_from(start: u64, bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325 ^ start, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What Vigna's `splitmix64.c` gives for the seed 1234567.
    #[test]
    fn a_stream_is_the_published_one() {
        let mut random = Random::new(1_234_567);
        let first = [(); 5].map(|()| random.bits());
        let published = [
            6_457_827_717_110_365_317,
            3_203_168_211_198_807_973,
            9_817_491_932_198_370_423,
            4_593_380_528_125_082_431,
            16_408_922_859_458_223_821,
        ];
        assert_eq!(first, published);
        assert_eq!([0, 1, 2, 3, 4].map(|place| bits_at(1_234_567, place)), published);
    }
}
