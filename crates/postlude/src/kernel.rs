//! The face: from an expression to a result on any backend.

mod call;
mod compiled;
mod gpu;
mod launches;
mod options;
mod prepared;
mod simulated;
#[cfg(feature = "cuda")]
mod tune;
mod typed;

pub use call::{Call, Outputs};
pub use compiled::Compiled;
pub use options::{Backend, Hooks, Options};
pub use prepared::Prepared;
pub use typed::Kernel;
