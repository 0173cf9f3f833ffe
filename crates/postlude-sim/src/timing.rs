//! When asynchronous operations complete, and who runs next.
//!
//! A correct kernel gives the same bits under every timing.

mod text;

pub use text::TimingError;

/// When asynchronous operations complete.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Timing {
    /// At once.
    #[default]
    Eager,
    /// When nothing else can go on, and then only what somebody waits for.
    Lazy,
    /// At random, and warps run in random order.
    Random {
        /// What everything is drawn from.
        seed: u64,
    },
}

/// Random bits: splitmix64.
#[derive(Clone, Debug)]
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let bits = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        bits ^ (bits >> 31)
    }

    /// Less than `limit`.
    pub(crate) fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit.max(1) as u64) as usize
    }
}

/// A timing with its state.
#[derive(Clone, Debug)]
pub(crate) struct Clock {
    timing: Timing,
    random: Random,
}

impl Clock {
    pub(crate) fn new(timing: Timing) -> Self {
        let seed = match timing {
            Timing::Eager | Timing::Lazy => 0,
            Timing::Random { seed } => seed,
        };
        Clock { timing, random: Random(seed) }
    }

    /// Instructions that a warp may run before another has its turn.
    pub(crate) fn slice(&mut self) -> u32 {
        match self.timing {
            Timing::Eager => 256,
            // As far as it can: what it forgets to wait for comes after.
            Timing::Lazy => 4096,
            Timing::Random { .. } => 1 << self.random.below(9),
        }
    }

    /// Which of this many splits that can go on is next; `last` is the one that ran before, and `over` its turn.
    pub(crate) fn next(&mut self, count: usize, last: usize, over: bool) -> usize {
        match self.timing {
            Timing::Eager => (last + 1) % count,
            Timing::Lazy => (last + usize::from(over)) % count,
            Timing::Random { .. } => self.random.below(count),
        }
    }

    /// How many operations complete now, although nobody is stuck.
    pub(crate) fn spontaneous(&mut self) -> usize {
        match self.timing {
            Timing::Eager => usize::MAX,
            Timing::Lazy => 0,
            Timing::Random { .. } => {
                if self.random.below(3) == 0 {
                    1 + self.random.below(2)
                } else {
                    0
                }
            }
        }
    }

    /// Which of this many operations completes.
    pub(crate) fn pick(&mut self, count: usize) -> usize {
        match self.timing {
            Timing::Eager | Timing::Lazy => 0,
            Timing::Random { .. } => self.random.below(count),
        }
    }

    /// Whether a wait with patience gives up although it need not.
    pub(crate) fn gives_up(&mut self) -> bool {
        match self.timing {
            Timing::Eager | Timing::Lazy => false,
            Timing::Random { .. } => self.random.below(4) == 0,
        }
    }
}
