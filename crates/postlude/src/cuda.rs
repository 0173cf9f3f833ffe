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
mod tune;

use std::path::PathBuf;
use std::sync::Arc;

use crate::error::Error;
use crate::graph::Graph;
use crate::image;
use crate::problem::{Arguments, Problem};
use crate::program::{CallTensors, Chosen, KernelForm, Planner, choose};
use crate::runtime::RuntimeError;
use crate::runtime::cache::DiskCache;
use crate::target::{Chip, Planning, Schedule};
use crate::tuning::{Machine, Records};

#[doc(inline)]
pub use crate::runtime::{Device, DeviceArgument, DeviceTensor, Stream};
pub use call::PreparedCall;
#[doc(hidden)]
pub use host::HostCall;
use programs::Programs;
pub(crate) use tune::tune;

/// How launches are run on a GPU.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct GpuOptions {
    /// The most CTAs launched.
    pub(crate) grid_limit: Option<u32>,
    /// Whether outputs are poisoned before a run on host tensors, and what lies around them watched.
    pub(crate) guard: bool,
    /// Whether batched host tensors are laid out as lists.
    pub(crate) lists: bool,
    /// Where compiled kernels are kept; where the user keeps them when `None`.
    pub(crate) cache: Option<PathBuf>,
    /// Measured schedules that are taken instead of the planner's.
    pub(crate) records: Records,
}

/// A kernel as calls on GPUs need it, with the code it has so far.
#[derive(Debug)]
pub(crate) struct GpuKernel {
    defined: Arc<Graph>,
    form: Arc<KernelForm>,
    options: GpuOptions,
    programs: Programs,
}

impl GpuKernel {
    pub(crate) fn new(
        defined: &Arc<Graph>,
        form: &Arc<KernelForm>,
        options: GpuOptions,
    ) -> GpuKernel {
        let (defined, form) = (defined.clone(), form.clone());
        GpuKernel { defined, form, options, programs: Programs::default() }
    }

    /// What runs a call of these tensors.
    fn choose(
        &self,
        device: &Device,
        problem: &Problem,
        tensors: &CallTensors,
    ) -> Result<Chosen, Error> {
        let machine = machine(device);
        let measured = |form: &KernelForm, planning: &Planning<'_>| {
            let launch = (&*form.graph, form.settings.math);
            let found = self.options.records.find(launch, |known| *known == machine, planning);
            found.map(|(_, planned)| planned)
        };
        let (chip, grid_limit) = (chip(device)?, self.options.grid_limit);
        let planner = Planner { chip, grid_limit, measured: &measured };
        choose(&self.form, problem, tensors, &planner)
    }

    /// How the last launch of a call on host tensors would be run on a GPU, or why it is not.
    pub(crate) fn schedule(
        &self,
        device: &Device,
        problem: &Problem,
        arguments: &Arguments,
    ) -> Result<Schedule, Error> {
        let graph = &self.form.graph;
        let inputs = image::placements(graph, problem, arguments).inputs;
        let tensors = CallTensors::with_packed_results(graph, problem, inputs);
        Ok(self.choose(device, problem, &tensors)?.last().planned().schedule())
    }

    /// How many programs were loaded so far.
    pub(crate) fn modules(&self) -> usize {
        self.programs.count()
    }

    fn cache(&self) -> DiskCache {
        self.options.cache.as_ref().map_or_else(DiskCache::standard, DiskCache::at)
    }
}

/// A GPU as records name it.
fn machine(device: &Device) -> Machine {
    let (name, capability) = (device.name().to_owned(), device.capability());
    Machine { name, capability, processors: device.processors() }
}

/// What a GPU offers to a schedule; one that no target is for is refused by name.
#[doc(hidden)]
pub fn chip(device: &Device) -> Result<Chip, RuntimeError> {
    Chip::new(device.capability(), device.processors(), device.shared_bytes()).ok_or_else(|| {
        let (device, capability) = (device.name().to_owned(), device.target());
        RuntimeError::NotHopper { device, capability }
    })
}
