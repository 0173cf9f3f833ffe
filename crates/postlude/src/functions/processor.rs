//! Which vector instructions loops are compiled for and run with.
//!
//! Out: the best level that this processor has, or the one that `POSTLUDE_CPU` asks for (`avx512`, `avx2`, `portable`) if the
//! processor has it. Invariant: results have the same bits at every level, so the variable is for finding faults and for
//! measuring.

use std::sync::OnceLock;

use crate::process;

/// Sets of vector instructions that loops exist for, best first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Level {
    /// x86 with 512-bit vectors.
    Avx512,
    /// x86 with 256-bit vectors and fused multiply-add.
    Avx2,
    /// Plain Rust.
    Portable,
}

impl Level {
    /// Every level, best first.
    pub(crate) const ALL: [Level; 3] = [Level::Avx512, Level::Avx2, Level::Portable];

    /// Its name in `POSTLUDE_CPU`.
    const fn name(self) -> &'static str {
        match self {
            Level::Avx512 => "avx512",
            Level::Avx2 => "avx2",
            Level::Portable => "portable",
        }
    }

    /// Whether this processor can run it.
    pub(crate) fn is_available(self) -> bool {
        match self {
            #[cfg(target_arch = "x86_64")]
            Level::Avx512 => {
                is_x86_feature_detected!("avx512f")
                    && is_x86_feature_detected!("avx512bw")
                    && is_x86_feature_detected!("avx512dq")
                    && is_x86_feature_detected!("avx512vl")
                    && is_x86_feature_detected!("fma")
            }
            #[cfg(target_arch = "x86_64")]
            Level::Avx2 => is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma"),
            #[cfg(not(target_arch = "x86_64"))]
            Level::Avx512 | Level::Avx2 => false,
            Level::Portable => true,
        }
    }

    /// The level that loops run with, decided once a process.
    pub(crate) fn best() -> Level {
        static BEST: OnceLock<Level> = OnceLock::new();
        let best = || Level::from_variable(std::env::var("POSTLUDE_CPU").ok().as_deref());
        *process::once(&BEST, best)
    }

    /// The level of that name or the best one below it that this processor has; the best of all without a known name.
    fn from_variable(name: Option<&str>) -> Level {
        let asked = Level::ALL.into_iter().find(|level| Some(level.name()) == name);
        let from = asked.unwrap_or(Level::Avx512);
        let fits = |level: &Level| *level >= from && level.is_available();
        Level::ALL.into_iter().find(fits).unwrap_or(Level::Portable)
    }
}

#[cfg(test)]
mod tests {
    use super::Level;

    #[test]
    fn a_named_level_is_taken_and_an_unknown_one_is_not() {
        assert_eq!(Level::from_variable(Some("portable")), Level::Portable);
        assert_eq!(Level::from_variable(Some("sse9")), Level::from_variable(None));
        assert!(Level::from_variable(Some("avx2")) >= Level::Avx2);
        assert!(Level::from_variable(None).is_available());
    }
}
