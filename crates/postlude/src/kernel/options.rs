//! What a kernel is compiled with.

use std::path::PathBuf;

#[cfg(feature = "cuda")]
use crate::cuda::GpuOptions;
use crate::graph::MathMode;
use crate::program::Settings;
use crate::target;
use crate::tuning::Records;

/// The ways to run a kernel.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
#[non_exhaustive]
pub enum Backend {
    /// The definition, in f64.
    Reference,
    /// Tiled, fused and parallel on the processor.
    #[default]
    Cpu,
    /// One kernel on an NVIDIA GPU, the first of the machine.
    Cuda,
    /// The kernel for a GPU on the processor, instruction by instruction: slow, and it says what is wrong.
    Sim,
}

impl Backend {
    /// Every backend, whether or not this machine has what it needs.
    pub const ALL: [Backend; 4] = [Backend::Reference, Backend::Cpu, Backend::Cuda, Backend::Sim];

    /// The name on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Backend::Reference => "reference",
            Backend::Cpu => "cpu",
            Backend::Cuda => "cuda",
            Backend::Sim => "sim",
        }
    }

    /// What it is, in a few words.
    pub const fn description(self) -> &'static str {
        match self {
            Backend::Reference => "the definition, in f64, with error bounds",
            Backend::Cpu => "tiled, fused and parallel",
            Backend::Cuda => "one kernel on the first GPU",
            Backend::Sim => "the GPU's code, instruction by instruction",
        }
    }

    /// Whether it runs the code that is emitted for GPUs.
    pub const fn runs_ptx(self) -> bool {
        match self {
            Backend::Reference | Backend::Cpu => false,
            Backend::Cuda | Backend::Sim => true,
        }
    }
}

/// How a kernel is compiled.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Options {
    /// Where it runs.
    pub backend: Backend,
    /// What is asked of functions.
    pub math: MathMode,
    /// How many threads; as many as there are cores when `None`.
    pub threads: Option<usize>,
    /// The outputs that are wanted; all when `None`.
    pub keep: Option<Vec<String>>,
    /// The folder of compiled kernels; the user's own when `None`.
    pub cache: Option<PathBuf>,
    /// Measured schedules that a GPU takes instead of the planner's.
    pub records: Records,
    /// Whether a GPU has to run it in one launch: a kernel that is several is refused, as a `fused kernel` is.
    pub one_launch: bool,
    /// The most bytes that values between the launches of a call have on a GPU, where they can be stored in chunks; a
    /// gigabyte when `None`.
    pub workspace: Option<u64>,
    /// What tests, searches and benchmarks change of a run.
    #[doc(hidden)]
    pub hooks: Hooks,
}

impl Options {
    /// What they say of a kernel's launches.
    pub(super) fn settings(&self) -> Settings {
        Settings {
            math: self.math,
            schedule: self.hooks.schedule.clone(),
            one_launch: self.one_launch,
            copies: self.hooks.copies,
            workspace: self.workspace,
            overlap: self.hooks.overlap,
        }
    }

    /// What they say of how a GPU runs these.
    #[cfg(feature = "cuda")]
    pub(super) fn on_gpu(&self) -> GpuOptions {
        GpuOptions {
            grid_limit: self.hooks.grid_limit,
            guard: self.hooks.guard,
            lists: self.hooks.lists,
            cache: self.cache.clone(),
            records: self.records.clone(),
        }
    }
}

/// What tests, searches and benchmarks change of a run on the GPU and in the simulator.
#[doc(hidden)]
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Hooks {
    /// A schedule instead of the planner's; it has to fit the problem.
    pub schedule: Option<target::Schedule>,
    /// The most CTAs launched, rounded up to whole clusters; as many as fit when `None`.
    pub grid_limit: Option<u32>,
    /// Whether outputs are poisoned before a run, and bytes around them checked after it.
    pub guard: bool,
    /// When operands are copied by launches before their product.
    pub copies: target::CopyRule,
    /// Which launches may begin before the one before them has ended.
    pub overlap: target::Overlap,
    /// Whether batched host tensors are laid out as lists.
    pub lists: bool,
    /// When copies and matrix products complete in the simulator.
    #[cfg(feature = "sim")]
    pub timing: postlude_sim::Timing,
}
