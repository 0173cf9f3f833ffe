//! A timing in words: `eager`, `lazy` or `random:SEED`.

use std::fmt;
use std::str::FromStr;

use super::Timing;

/// What is no timing.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("a timing is `eager`, `lazy` or `random:SEED`")]
pub struct TimingError;

impl fmt::Display for Timing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Timing::Eager => f.write_str("eager"),
            Timing::Lazy => f.write_str("lazy"),
            Timing::Random { seed } => write!(f, "random:{seed}"),
        }
    }
}

impl FromStr for Timing {
    type Err = TimingError;

    fn from_str(text: &str) -> Result<Timing, TimingError> {
        match text {
            "eager" => Ok(Timing::Eager),
            "lazy" => Ok(Timing::Lazy),
            other => {
                let seed = other.strip_prefix("random:").and_then(|seed| seed.parse().ok());
                seed.map(|seed| Timing::Random { seed }).ok_or(TimingError)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_printed_timing_reads_back() {
        for timing in [Timing::Eager, Timing::Lazy, Timing::Random { seed: u64::MAX }] {
            assert_eq!(timing.to_string().parse(), Ok(timing));
        }
        for text in ["", "random", "random:", "random:-1", "Eager"] {
            assert_eq!(text.parse::<Timing>(), Err(TimingError), "{text}");
        }
    }
}
