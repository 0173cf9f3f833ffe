//! Kernels on an NVIDIA GPU: planned for a call, emitted once a schedule, launched on the caller's stream.
//!
//! ```text
//! tensors ─ check ─> Problem, Placements ─ plan ─> Schedule ─ emit, load ─> Function ─┬─> PreparedCall ─ launch
//!                                                     (once a schedule and GPU)       └ launch facts
//! ```
//!
//! In: a kernel and a call's tensors, on the GPU ([`PreparedCall`]) or on the host. Out: its outputs.
//! Invariant: arguments are validated and a schedule is accepted before anything is launched, and code is emitted at most
//! once for each schedule, GPU and kernel, whatever the sizes.

mod call;
mod check;
mod host;
mod programs;

use std::path::PathBuf;
use std::sync::Arc;

use crate::error::Error;
use crate::graph::{Graph, MathMode};
use crate::plan::sm90::{self, Placements, Sm90, Sm90Refusal, Sm90Schedule};
use crate::problem::{Arguments, Problem};
use crate::runtime::RuntimeError;
use crate::runtime::cache::DiskCache;

#[doc(inline)]
pub use crate::runtime::{Device, DeviceArgument, DeviceTensor, Stream};
pub use call::PreparedCall;
#[doc(hidden)]
pub use host::HostCall;
use programs::Programs;

/// What GPUs run Postlude's kernels.
const HOPPER: (u32, u32) = (9, 0);

/// How a kernel is run on a GPU.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Settings {
    /// What is asked of functions.
    pub(crate) math: MathMode,
    /// A schedule to use instead of the planner's.
    pub(crate) schedule: Option<Sm90Schedule>,
    /// The most CTAs launched.
    pub(crate) grid_limit: Option<u32>,
    /// Whether outputs are poisoned before a run on host tensors, and what lies around them watched.
    pub(crate) guard: bool,
    /// Where compiled kernels are kept; where the user keeps them when `None`.
    pub(crate) cache: Option<PathBuf>,
}

/// A kernel as calls on GPUs need it, with the code it has so far.
#[derive(Debug)]
pub(crate) struct GpuKernel {
    defined: Arc<Graph>,
    optimised: Arc<Graph>,
    settings: Settings,
    programs: Programs,
}

impl GpuKernel {
    pub(crate) fn new(
        defined: &Arc<Graph>,
        optimised: &Arc<Graph>,
        settings: Settings,
    ) -> GpuKernel {
        let (defined, optimised) = (defined.clone(), optimised.clone());
        GpuKernel { defined, optimised, settings, programs: Programs::default() }
    }

    /// How a call on host tensors would be run on a GPU, or why it is not.
    pub(crate) fn schedule(
        &self,
        device: &Device,
        problem: &Problem,
        arguments: &Arguments,
    ) -> Result<Sm90Schedule, Error> {
        let chip = chip(device)?;
        let placements = crate::image::placements(&self.optimised, problem, arguments);
        let schedules = self.schedules(problem, &placements, chip)?;
        Ok(schedules.into_iter().next().ok_or(Sm90Refusal::NoCandidate)?)
    }

    /// The schedules to try, best first; only the given one where one is given.
    fn schedules(
        &self,
        problem: &Problem,
        placements: &Placements,
        chip: Sm90,
    ) -> Result<Vec<Sm90Schedule>, Sm90Refusal> {
        let settings = &self.settings;
        let wanted =
            sm90::Wanted { schedule: settings.schedule.as_ref(), grid_limit: settings.grid_limit };
        sm90::schedules(wanted, &self.optimised, problem, placements, chip)
    }

    /// How many programs were loaded so far.
    pub(crate) fn modules(&self) -> usize {
        self.programs.count()
    }

    fn cache(&self) -> DiskCache {
        self.settings.cache.as_ref().map_or_else(DiskCache::standard, DiskCache::at)
    }
}

/// What a GPU offers to a schedule; any but Hopper is refused by name.
#[doc(hidden)]
pub fn chip(device: &Device) -> Result<Sm90, RuntimeError> {
    if device.capability() != HOPPER {
        let (device, capability) = (device.name().to_owned(), device.target());
        return Err(RuntimeError::NotHopper { device, capability });
    }
    Ok(Sm90 { processors: device.processors(), shared_bytes: device.shared_bytes() })
}
