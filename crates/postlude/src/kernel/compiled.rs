//! A kernel that is optimised for a backend, ready for calls of any size.

use std::fmt;
use std::sync::{Arc, Mutex};

#[cfg(feature = "cuda")]
use crate::cuda::GpuKernel;
use crate::error::Error;
use crate::graph::Graph;
use crate::lower::{SweepProgram, TileProgram};
use crate::optimise;
use crate::placement::Placements;
use crate::plan::{self, Schedule};
use crate::problem::{Arguments, Problem, Sizes};
use crate::process;
use crate::program::KernelForm;
use crate::reference::{self, Comparison, Extent, Tell};
use crate::target::{self, Chip, Planning, TargetRefusal};
use crate::tensor::{Tensor, TensorView};

use super::options::{Backend, Options};
use super::prepared::Prepared;

/// How many problems a kernel remembers how to run on the CPU.
const REMEMBERED: usize = 4;

/// A kernel ready for calls of any size.
#[derive(Clone)]
pub struct Compiled {
    pub(super) defined: Arc<Graph>,
    /// What the CPU engine runs, which scales elements where a target scales sums of runs of K.
    pub(super) on_cpu: Arc<SweepProgram>,
    /// What launches compute of it.
    pub(super) form: Arc<KernelForm>,
    pub(super) options: Options,
    /// The problems that were prepared last on the CPU, the newest first.
    pub(super) prepared: Arc<Mutex<Vec<Prepared>>>,
    /// Shared by clones, so that code is emitted once for all.
    #[cfg(feature = "cuda")]
    pub(super) gpu: Arc<GpuKernel>,
}

/// What the CPU engine runs in the place of a graph: it scales elements, and reads operands from memory.
fn on_cpu(optimised: &Arc<Graph>) -> Arc<SweepProgram> {
    let stored = || Arc::new((**optimised).clone().with_stored_operands());
    let stored = optimised.has_operand_in_mainloop().then(stored);
    let stored = stored.unwrap_or_else(|| optimised.clone());
    Arc::new(SweepProgram::new(&optimise::without_scales(&stored).map_or(stored, Arc::new)))
}

/// The kernel's name, and where it runs.
impl fmt::Debug for Compiled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} for {}", self.defined.name(), self.options.backend.name())
    }
}

impl Compiled {
    pub(super) fn new(
        defined: Arc<Graph>,
        on_cpu: Arc<SweepProgram>,
        form: Arc<KernelForm>,
        options: Options,
    ) -> Compiled {
        Compiled {
            #[cfg(feature = "cuda")]
            gpu: Arc::new(GpuKernel::new(&defined, &form, options.on_gpu())),
            defined,
            on_cpu,
            form,
            options,
            prepared: Arc::default(),
        }
    }

    /// A defined graph, optimised for a backend.
    #[doc(hidden)]
    pub fn of_graph(graph: &Graph, options: &Options) -> Compiled {
        let optimised = optimise::optimise(graph, options.math);
        let optimised = optimise::scale_elements(&optimised, |graph| !target::scales_sums(graph));
        let optimised = optimise::turn_scaled_operands(&optimised);
        let in_mainloop = optimise::operands_in_mainloop(&optimised, target::widens)
            .filter(|_| options.one_launch);
        let optimised = in_mainloop.map_or(optimised, |(_, graph)| graph);
        let shared = optimise::share_operand(&optimised).map(Arc::new);
        let (defined, optimised) = (Arc::new(graph.clone()), Arc::new(optimised));
        // The CPU engine multiplies for one product at a time.
        let on_cpu = on_cpu(&optimised);
        let form = KernelForm::new(shared.unwrap_or(optimised), options.settings());
        Compiled::new(defined, on_cpu, Arc::new(form), options.clone())
    }

    /// The same kernel on another backend; code for a GPU is shared.
    pub fn on(&self, backend: Backend) -> Compiled {
        let options = Options { backend, ..self.options.clone() };
        Compiled { options, ..self.clone() }
    }

    /// What the reference evaluates.
    #[doc(hidden)]
    pub fn defined(&self) -> &Graph {
        &self.defined
    }

    /// What an engine runs.
    #[doc(hidden)]
    pub fn optimised(&self) -> &Graph {
        &self.form.graph
    }

    /// What one launch on a GPU computes, or why one launch does not.
    #[doc(hidden)]
    pub fn program(&self) -> Result<&Arc<TileProgram>, Error> {
        Ok(self.form.lowered.program().map_err(TargetRefusal::from)?)
    }

    /// What the CPU engine computes, sweep by sweep.
    #[doc(hidden)]
    pub fn in_sweeps(&self) -> &SweepProgram {
        &self.on_cpu
    }

    /// A call as planning for a chip sees it.
    #[doc(hidden)]
    pub fn planning<'a>(
        &'a self,
        problem: &'a Problem,
        placements: &'a Placements,
        chip: Chip,
    ) -> Result<Planning<'a>, Error> {
        self.form.planning(problem, placements, chip)
    }

    /// Binds arguments, and sizes that no argument tells.
    pub fn bind(&self, arguments: &Arguments, sizes: &Sizes) -> Result<Problem, Error> {
        Ok(Problem::bind(&self.defined, arguments, sizes)?)
    }

    /// How a problem will be run on the CPU.
    #[doc(hidden)]
    pub fn schedule(&self, problem: &Problem) -> Result<Schedule, Error> {
        Ok(plan::plan(&self.on_cpu, problem, self.options.threads)?)
    }

    /// Output tensors of the right shape, zeroed.
    pub fn outputs(&self, problem: &Problem) -> Result<Vec<Tensor>, Error> {
        let outputs = self.defined.results().into_iter();
        Ok(outputs
            .map(|output| Tensor::zeros(output.dtype, problem.shape(output.dims)))
            .collect::<Result<_, _>>()?)
    }

    /// Sizes of a call by name; every dim has to be there.
    pub fn problem(&self, sizes: &Sizes) -> Result<Problem, Error> {
        Ok(Problem::new(&self.defined, sizes)?)
    }

    /// Prepares calls of one problem on the CPU. The last few problems are remembered, so preparing one again costs nothing.
    pub fn prepare(&self, problem: &Problem) -> Result<Prepared, Error> {
        let remembered = || process::open(&self.prepared);
        let fits = |prepared: &&Prepared| prepared.problem() == problem;
        if let Some(found) = remembered().and_then(|all| all.iter().find(fits).cloned()) {
            return Ok(found);
        }
        problem.check_owner(&self.defined)?;
        let schedule = self.schedule(problem)?;
        let math = self.options.math;
        let prepared = Prepared::with_schedule(&self.on_cpu, problem, schedule, math)?;
        if let Some(mut all) = remembered() {
            all.insert(0, prepared.clone());
            all.truncate(REMEMBERED);
        }
        Ok(prepared)
    }

    /// Every output with everything it may be.
    #[doc(hidden)]
    pub fn evaluate(
        &self,
        problem: &Problem,
        arguments: &Arguments<'_>,
    ) -> Result<Vec<reference::Evaluated>, Error> {
        Ok(reference::evaluate(&self.defined, problem, arguments, self.options.math)?)
    }

    /// Compares outputs with the reference, element by element.
    pub fn check(
        &self,
        problem: &Problem,
        arguments: &Arguments<'_>,
        outputs: &[Tensor],
    ) -> Result<Vec<Comparison>, Error> {
        self.check_extent(problem, arguments, outputs, Extent::All, &|_, _| {})
    }

    /// Compares outputs with the reference, all of them or a sample; each [`Comparison::coverage`] says what was looked at.
    /// `tell` hears how much of how much work is done.
    ///
    /// ```
    /// use postlude::reference::Extent;
    /// use postlude::{DType, Kernel, Options, Tensor};
    /// let kernel = Kernel::infer("D = A @ B", &Default::default())?;
    /// let compiled = kernel.compile(&Options::default());
    /// let ones = Tensor::from_values(DType::BF16, [2, 2], &[1.0; 4])?;
    /// let arguments = [("A".to_owned(), (&ones).into()), ("B".to_owned(), (&ones).into())].into();
    /// let problem = compiled.bind(&arguments, &Default::default())?;
    /// let outputs = [Tensor::from_values(DType::BF16, [2, 2], &[2.0, 2.0, 2.0, 3.0])?];
    /// let found = compiled.check_extent(&problem, &arguments, &outputs, Extent::Sample, &|_, _| {})?[0];
    /// assert_eq!((found.wrong, found.at, found.coverage.checked), (1, 3, 4));
    /// assert_eq!(found.absolute.unwrap().amount, 1.0);
    /// # Ok::<(), postlude::Error>(())
    /// ```
    pub fn check_extent(
        &self,
        problem: &Problem,
        arguments: &Arguments<'_>,
        outputs: &[Tensor],
        extent: Extent,
        tell: Tell<'_>,
    ) -> Result<Vec<Comparison>, Error> {
        let inputs = problem.inputs(&self.defined, arguments)?;
        let outputs: Vec<TensorView<'_>> = outputs.iter().map(Tensor::view).collect();
        problem.check_results(&self.defined, &outputs)?;
        let math = self.options.math;
        let all = (&inputs[..], &outputs[..]);
        Ok(reference::check(&self.defined, problem, all, math, (extent, tell)))
    }
}
