//! Tuning: schedules that were timed on a GPU, kept in a file, and taken by later runs.
//!
//! ```text
//! a launch: graph, sizes, placements ─> LaunchKey ─┬─ search ─> measurements ─> Record ─> a line of a file
//!                                                  └─ Records::find <───────────────────┘
//! ```
//!
//! In: a launch and what its candidates took. Out: records, and the schedule that a launch was measured to run best with.
//! Invariant: records never decide whether a run works. Lines that are damaged, of another format, for another GPU or with
//! a schedule that no longer fits are passed over, and the planner chooses.

#[cfg(feature = "cuda")]
mod file;
#[cfg(feature = "cuda")]
mod find;
#[cfg(feature = "cuda")]
mod key;
#[cfg(feature = "cuda")]
mod options;
#[cfg(feature = "cuda")]
mod record;
#[cfg(feature = "cuda")]
mod search;

use std::path::PathBuf;

#[cfg(feature = "cuda")]
pub use find::Found;
#[cfg(feature = "cuda")]
pub use key::{LaunchKey, Machine};
#[cfg(feature = "cuda")]
pub use options::{Measured, TuneOptions, TuneStep, Tuned, TunedLaunch};
#[cfg(feature = "cuda")]
pub use record::Record;
#[cfg(feature = "cuda")]
pub(crate) use search::{Contest, Found as Search, search};

/// Where measured schedules are kept, and whether runs on a GPU take them.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub enum Records {
    /// The user's own, then the shipped ones. `POSTLUDE_TUNE` names another file, or `off` for none.
    #[default]
    Standard,
    /// Those of this file, then the shipped ones.
    At(PathBuf),
    /// Those that are shipped alone.
    Shipped,
    /// None: the planner chooses every schedule.
    Off,
}
