//! The conditions under which competitors are timed. A choice of tile has to hold in all of them.

use crate::random::Contents;

/// A regime.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Regime {
    /// Rounds of all competitors on random data: every one runs at the clock that the power cap leaves to all.
    #[default]
    Interleaved,
    /// Blocks of seconds in which one competitor runs alone on random data, at the clock that its own power leaves.
    Alone,
    /// Rounds of all competitors on operands of ones, far from the power cap: cycles are compared.
    FullClock,
}

impl Regime {
    /// All of them.
    pub const ALL: [Regime; 3] = [Regime::Interleaved, Regime::Alone, Regime::FullClock];

    /// Its name on the command line and in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Regime::Interleaved => "interleaved",
            Regime::Alone => "alone",
            Regime::FullClock => "full_clock",
        }
    }

    /// The regime of that name.
    pub fn from_name(name: &str) -> Option<Regime> {
        Regime::ALL.into_iter().find(|regime| regime.name() == name)
    }

    /// What inputs hold.
    pub(crate) const fn contents(self) -> Contents {
        match self {
            Regime::Interleaved | Regime::Alone => Contents::Random,
            Regime::FullClock => Contents::Ones,
        }
    }
}
