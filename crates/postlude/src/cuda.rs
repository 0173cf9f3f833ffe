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
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use crate::error::Error;
use crate::graph::{Graph, MathMode, OperandCopies, Side};
use crate::lower::Lowered;
use crate::optimise::{copy_operands, operands_in_mainloop};
use crate::partition::{Alternative, Chunks, WORKSPACE, after_refusal, alternatives, in_chunks};
use crate::placement::Placements;
use crate::problem::{Arguments, Problem};
use crate::runtime::RuntimeError;
use crate::runtime::cache::DiskCache;
use crate::target::{
    self, Chip, CopyRule, Overlap, Planned, Planning, Price, Schedule, TargetRefusal,
};
use crate::tuning::{Machine, Records};

#[doc(inline)]
pub use crate::runtime::{Device, DeviceArgument, DeviceTensor, Stream};
pub use call::PreparedCall;
#[doc(hidden)]
pub use host::HostCall;
use programs::Programs;
pub(crate) use tune::tune;

/// How a kernel is run on a GPU.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Settings {
    /// What is asked of functions.
    pub(crate) math: MathMode,
    /// A schedule to use instead of the planner's.
    pub(crate) schedule: Option<Schedule>,
    /// Whether it is one launch, or refused.
    pub(crate) one_launch: bool,
    /// The most CTAs launched.
    pub(crate) grid_limit: Option<u32>,
    /// Whether outputs are poisoned before a run on host tensors, and what lies around them watched.
    pub(crate) guard: bool,
    /// Whether batched host tensors are laid out as lists.
    pub(crate) lists: bool,
    /// When operands are copied by launches before their product.
    pub(crate) copies: CopyRule,
    /// The most bytes of values between launches that chunks keep to; the default when `None`.
    pub(crate) workspace: Option<u64>,
    /// Which launches may begin before the one before them has ended.
    pub(crate) overlap: Overlap,
    /// Where compiled kernels are kept; where the user keeps them when `None`.
    pub(crate) cache: Option<PathBuf>,
    /// Measured schedules that are taken instead of the planner's.
    pub(crate) records: Records,
}

/// A kernel as calls on GPUs need it, with the code it has so far.
#[derive(Debug)]
pub(crate) struct GpuKernel {
    defined: Arc<Graph>,
    optimised: Arc<Graph>,
    lowered: Arc<Lowered>,
    settings: Settings,
    programs: Programs,
    /// What computes its computed inputs, in the order of [`Graph::earlier`].
    earlier: Vec<Arc<GpuKernel>>,
    /// The same kernel cut into several launches, once one launch was refused.
    cut: OnceLock<Option<Arc<GpuKernel>>>,
    /// Other partitions of the same kernel, once they were asked for.
    alternatives: OnceLock<Vec<Arc<GpuKernel>>>,
    /// The same kernel whose last launch computes an operand as it loads it.
    in_mainloop: OnceLock<Option<(Side, Arc<GpuKernel>)>>,
    /// The same kernel with copies of its operands, for every choice of them that a call was given.
    copied: Mutex<Vec<(OperandCopies, Arc<GpuKernel>)>>,
    /// Launches that are repeated for chunks of a dim.
    chunks: Option<Chunks>,
    /// The same kernel with chunks, for all that calls were given.
    chunked: Mutex<Vec<Arc<GpuKernel>>>,
}

impl GpuKernel {
    pub(crate) fn new(
        defined: &Arc<Graph>,
        optimised: &Arc<Graph>,
        lowered: &Arc<Lowered>,
        settings: Settings,
    ) -> GpuKernel {
        let (defined, optimised, lowered) = (defined.clone(), optimised.clone(), lowered.clone());
        let overlap = settings.overlap.of_earlier();
        let own = Settings { schedule: None, overlap, ..settings.clone() };
        let earlier =
            optimised.earlier().into_iter().map(|it| GpuKernel::of(it.graph, own.clone()));
        let (programs, earlier, cut) = (Programs::default(), earlier.collect(), OnceLock::new());
        let (in_mainloop, copied, chunked) = (OnceLock::new(), Mutex::default(), Mutex::default());
        GpuKernel {
            defined,
            optimised,
            lowered,
            settings,
            programs,
            earlier,
            cut,
            alternatives: OnceLock::new(),
            in_mainloop,
            copied,
            chunks: None,
            chunked,
        }
    }

    /// The same kernel with chunks of a dim, where the values between its launches would have more bytes than the settings
    /// allow.
    fn chunked(&self, problem: &Problem) -> Option<Arc<GpuKernel>> {
        let Settings { schedule, one_launch, workspace, .. } = &self.settings;
        if schedule.is_some() || *one_launch {
            return None;
        }
        let limit = workspace.unwrap_or(WORKSPACE);
        let (graph, chunks) = in_chunks(&self.optimised, problem, limit)?;
        let mut all = self.chunked.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = all.iter().find(|known| known.chunks.as_ref() == Some(&chunks)) {
            return Some(known.clone());
        }
        let graph = Arc::new(graph);
        let (lowered, settings) = (Arc::new(Lowered::new(&graph)), self.settings.clone());
        let kernel = GpuKernel::new(&self.defined, &graph, &lowered, settings);
        let kernel = Arc::new(GpuKernel { chunks: Some(chunks), ..kernel });
        all.push(kernel.clone());
        Some(kernel)
    }

    /// The same kernel whose operands launches before it copy, where it gains by that at the sizes of a call.
    fn copied(&self, problem: &Problem, placements: &Placements) -> Option<Arc<GpuKernel>> {
        let Settings { schedule, one_launch, copies, .. } = &self.settings;
        if schedule.is_some() || *one_launch {
            return None;
        }
        let copies = target::operand_copies(&self.optimised, problem, placements, *copies)?;
        let mut all = self.copied.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, known)) = all.iter().find(|(known, _)| *known == copies) {
            return Some(known.clone());
        }
        let graph = Arc::new(copy_operands(&self.optimised, &copies));
        let lowered = Arc::new(Lowered::new(&graph));
        let settings = self.settings.clone();
        let copied = Arc::new(GpuKernel::new(&self.defined, &graph, &lowered, settings));
        all.push((copies, copied.clone()));
        Some(copied)
    }

    /// A graph as a kernel.
    fn of(graph: &Arc<Graph>, settings: Settings) -> Arc<GpuKernel> {
        let lowered = Arc::new(Lowered::new(graph));
        Arc::new(GpuKernel::new(graph, graph, &lowered, settings))
    }

    /// Whether its own launch may begin before the one before it has ended.
    fn overlaps(&self) -> bool {
        self.settings.overlap.of_launch(!self.earlier.is_empty())
    }

    /// The same kernel in several launches, if it is cut for one that was refused; a given schedule is one launch's.
    fn cut(&self) -> Option<&Arc<GpuKernel>> {
        if self.settings.schedule.is_some() || self.settings.one_launch {
            return None;
        }
        let cut = || {
            let (graph, lowered) = after_refusal(&self.optimised, &self.lowered)?;
            let settings = self.settings.clone();
            Some(Arc::new(GpuKernel::new(&graph, &graph, &lowered, settings)))
        };
        self.cut.get_or_init(cut).as_ref()
    }

    /// The same kernel in the launches that cost least at these sizes, where those are not its own one.
    fn cheaper_cut(&self, problem: &Problem, device: &Device) -> Option<&Arc<GpuKernel>> {
        if self.settings.schedule.is_some() || self.settings.one_launch {
            return None;
        }
        let all = self.alternatives.get_or_init(|| {
            let all = alternatives(&self.optimised, &self.lowered).into_iter();
            let made = |Alternative { graph, lowered, .. }| {
                Arc::new(GpuKernel::new(&graph, &graph, &lowered, self.settings.clone()))
            };
            all.map(made).collect()
        });
        let chip = chip(device).ok()?;
        let price = |it: &GpuKernel| target::price(&it.optimised, &it.lowered, problem, chip);
        let own = (!all.is_empty()).then(|| price(self))?;
        let prices: Vec<Option<Price>> = all.iter().map(|it| price(it)).collect();
        target::cheapest(own, &prices).map(|place| &all[place])
    }

    /// The same kernel whose last launch computes an operand as it loads it, where that is worth it at these sizes.
    fn in_mainloop(&self, problem: &Problem) -> Option<&Arc<GpuKernel>> {
        let made = || {
            let (side, graph) = operands_in_mainloop(&self.optimised, target::widens)?;
            let graph = Arc::new(graph);
            let (lowered, settings) = (Arc::new(Lowered::new(&graph)), self.settings.clone());
            let kernel = GpuKernel::new(&self.defined, &graph, &lowered, settings);
            Some((side, Arc::new(kernel)))
        };
        let (side, kernel) = self.in_mainloop.get_or_init(made).as_ref()?;
        let schedule = self.settings.schedule.as_ref();
        target::computes_in_mainloop(*side, problem, schedule).then_some(kernel)
    }

    /// How a call on host tensors would be run on a GPU, or why it is not.
    pub(crate) fn schedule(
        &self,
        device: &Device,
        problem: &Problem,
        arguments: &Arguments,
    ) -> Result<Schedule, Error> {
        let lie = |graph| crate::image::placements(graph, problem, arguments);
        let placements = lie(&self.optimised);
        if let Some(in_mainloop) = self.in_mainloop(problem)
            && let Ok(planned) = in_mainloop.plan(problem, &placements, device)
        {
            return Ok(planned[0].schedule());
        }
        if let Some(chunked) = self.chunked(problem) {
            let own = problem.of_computing(&chunked.optimised)?;
            let placements = crate::image::placements(&chunked.optimised, &own, arguments);
            if let Ok(planned) = chunked.plan(&own, &placements, device) {
                return Ok(planned[0].schedule());
            }
        }
        if let Some(copied) = self.copied(problem, &placements)
            && let Ok(planned) = copied.plan(problem, &lie(&copied.optimised), device)
        {
            return Ok(planned[0].schedule());
        }
        if let Some(cut) = self.cheaper_cut(problem, device)
            && let Ok(schedule) = cut.schedule(device, problem, arguments)
        {
            return Ok(schedule);
        }
        match self.plan(problem, &placements, device) {
            Ok(planned) => Ok(planned[0].schedule()),
            Err(refusal) => match self.cut() {
                Some(cut) => {
                    let schedule = cut.schedule(device, problem, arguments);
                    schedule.map_err(|error| error.or(refusal))
                }
                None => Err(refusal),
            },
        }
    }

    /// The program with the schedules to try, best first and at least one; only the given one where one is given, or the one
    /// that was measured.
    fn plan(
        &self,
        problem: &Problem,
        placements: &Placements,
        device: &Device,
    ) -> Result<Vec<Planned>, Error> {
        let program = self.lowered.program().map_err(TargetRefusal::from)?;
        let planning = Planning { program, problem, placements, chip: chip(device)? };
        let given = self.settings.schedule.as_ref();
        let measured = || {
            let (launch, machine) = ((&*self.optimised, self.settings.math), machine(device));
            self.settings.records.find(launch, |known| *known == machine, &planning)
        };
        let all = match given.is_none().then(measured).flatten() {
            Some((_, planned)) => vec![planned],
            None => planning.all_or(given)?,
        };
        let all = all.into_iter();
        Ok(all.map(|planned| planned.limited(self.settings.grid_limit)).collect())
    }

    /// How many programs were loaded so far.
    pub(crate) fn modules(&self) -> usize {
        self.programs.count()
    }

    fn cache(&self) -> DiskCache {
        self.settings.cache.as_ref().map_or_else(DiskCache::standard, DiskCache::at)
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
