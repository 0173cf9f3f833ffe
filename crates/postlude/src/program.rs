//! A call's launches as a value: decided by one function, executed by engines.
//!
//! ```text
//! KernelForm, Problem, CallTensors, Planner ─ choose ─> Chosen: steps, each with its graph, sizes, schedules, what it reads and stores
//! ```
//!
//! In: a kernel by its structure, the sizes of a call, where its tensors lie, a chip. Out: what runs, in order.
//! Invariant: GPU, simulator, golden files, `explain`, `emit` and tuning take the launches of a call from [`choose`] alone.

mod choose;
mod chosen;
mod chunks;
mod form;
mod lifetimes;
mod planner;
mod view;

pub(crate) use choose::{choose, pinned};
pub(crate) use chosen::Step;
pub use chosen::{Chosen, KernelLaunch, LaunchForm, LaunchStores, Workspace};
pub use form::Partition;
pub(crate) use form::{KernelForm, Settings};
pub(crate) use planner::Planner;
pub(crate) use view::{Base, CallTensors, View};
