//! How long a row is measured.

use std::time::Duration;

use crate::check::Extent;
use crate::rounds::Plan;

/// How long a row is measured.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Effort {
    /// Until the clock has settled and a spread is known: some seconds.
    Full,
    /// For many rows whose mean is wanted: less than a second.
    Brief,
}

/// Rounds of a row when nobody says how many.
pub const ROUNDS: usize = 60;

const fn milliseconds(count: u64) -> Duration {
    Duration::from_millis(count)
}

impl Effort {
    /// The final rounds, of which there are at most this many; more than usual take as much longer.
    pub fn rounds(self, most: usize) -> Plan {
        let (warm_up, rounds, fewest, budget) = match self {
            Effort::Full => (milliseconds(1000), most, 10, milliseconds(1500)),
            Effort::Brief => (milliseconds(100), most.min(20), 5, milliseconds(300)),
        };
        let budget = budget.mul_f64((rounds as f64 / ROUNDS as f64).max(1.0));
        Plan { warm_up, rounds, fewest: fewest.min(rounds), budget }
    }

    /// The rounds in which all algorithms of cuBLASLt are timed.
    pub fn tuning(self) -> Plan {
        match self {
            Effort::Full => {
                Plan { warm_up: milliseconds(300), rounds: 7, fewest: 3, budget: milliseconds(500) }
            }
            Effort::Brief => {
                Plan { warm_up: milliseconds(30), rounds: 3, fewest: 2, budget: milliseconds(100) }
            }
        }
    }

    /// Algorithms of cuBLASLt that go on to the final rounds, beside its first suggestion.
    pub fn finalists(self) -> usize {
        match self {
            Effort::Full => 3,
            Effort::Brief => 2,
        }
    }

    /// How much of two results is compared.
    pub fn extent(self) -> Extent {
        match self {
            Effort::Full => Extent::Whole,
            Effort::Brief => Extent::Sample,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounds_are_limited_and_more_of_them_take_longer() {
        let plan = Effort::Full.rounds(3);
        assert_eq!((plan.rounds, plan.fewest, plan.budget), (3, 3, milliseconds(1500)));
        assert_eq!(Effort::Full.rounds(120).budget, milliseconds(3000));
        assert_eq!(Effort::Brief.rounds(ROUNDS).rounds, 20);
    }
}
