//! A kernel as calls on GPUs need it.

use std::path::PathBuf;
use std::sync::Arc;

use crate::error::Error;
use crate::graph::Graph;
use crate::image;
use crate::problem::{Arguments, Problem};
use crate::program::{CallTensors, Chosen, KernelForm, Planner, choose};
use crate::runtime::{Device, RuntimeError};
use crate::target::{Chip, Planning, Schedule};
use crate::tuning::{Machine, Records};

use super::programs::Programs;

/// Bytes between launches for which nobody asks the GPU what it has left.
const ALWAYS_FREE: u64 = 64 << 20;

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
    pub(super) defined: Arc<Graph>,
    pub(super) form: Arc<KernelForm>,
    pub(super) options: GpuOptions,
    pub(super) programs: Programs,
}

impl GpuKernel {
    pub(crate) fn new(
        defined: &Arc<Graph>,
        form: &Arc<KernelForm>,
        options: GpuOptions,
    ) -> GpuKernel {
        let (defined, form) = (defined.clone(), form.clone());
        let programs = Programs::new(options.cache.clone());
        GpuKernel { defined, form, options, programs }
    }

    /// What runs a call of these tensors.
    pub(super) fn choose(
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
        let planner = Planner { chip, grid_limit, room: u64::MAX, measured: &measured };
        let chosen = choose(&self.form, problem, tensors, &planner)?;
        if chosen.block.bytes < ALWAYS_FREE {
            return Ok(chosen);
        }
        // Code, scratch memory and whoever else uses the GPU want some, too.
        let free = device.free_memory()?;
        let room = free - free / 8;
        if chosen.block.bytes <= room {
            return Ok(chosen);
        }
        // Few rooms make few sizes of chunks, each of which is a form with code of its own.
        let room = if room == 0 { 0 } else { 1 << room.ilog2() };
        choose(&self.form, problem, tensors, &Planner { room, ..planner })
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
}

/// A GPU as records name it.
pub(super) fn machine(device: &Device) -> Machine {
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
