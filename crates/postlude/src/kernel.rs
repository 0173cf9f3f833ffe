//! The face: from an expression to a result on any backend.

mod gpu;
mod simulated;

use std::path::PathBuf;
use std::sync::Arc;

use crate::check::{self, Bindings};
use crate::cpu;
#[cfg(feature = "cuda")]
use crate::cuda::{GpuKernel, Settings};
use crate::define;
use crate::error::Error;
use crate::graph::{Graph, MathMode};
use crate::optimise;
use crate::plan::sm90::Sm90Schedule;
use crate::plan::{self, Schedule};
use crate::problem::{Arguments, Problem, Sizes};
use crate::reference::{self, Comparison, Extent, Tell};
use crate::syntax::{self, Ast};
use crate::tensor::Tensor;

/// The ways to run a kernel.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
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
    /// A schedule to use on the GPU and in the simulator instead of the planner's; it has to fit the problem.
    pub schedule: Option<Sm90Schedule>,
    /// The most CTAs launched there, rounded up to whole clusters; as many as fit when `None`.
    pub grid_limit: Option<u32>,
    /// Whether a run on the GPU or in the simulator is watched: outputs are poisoned before it, and bytes around them
    /// checked after it.
    pub guard: bool,
    /// The folder of compiled kernels; the user's own when `None`.
    pub cache: Option<PathBuf>,
    /// When copies and matrix products complete in the simulator.
    #[cfg(feature = "sim")]
    pub timing: postlude_sim::Timing,
}

/// A kernel: typed and defined.
///
/// ```
/// let kernel = postlude::Kernel::parse(
///     "kernel linear(A: f32[M, K], W: f32[N, K], bias: f32[N]) -> D: f32[M, N] { D = relu(A @ W.T + bias) }",
/// )?;
/// assert_eq!(kernel.name(), "linear");
/// # Ok::<(), postlude::Error>(())
/// ```
#[derive(Clone, PartialEq, Debug)]
pub struct Kernel {
    ast: Ast,
    checked: Graph,
    defined: Graph,
}

impl Kernel {
    /// Parses and types a kernel that has a signature.
    pub fn parse(source: &str) -> Result<Kernel, Error> {
        Kernel::from_ast(syntax::parse(source)?)
    }

    /// Parses a kernel or a one-liner, whose signature follows from the bindings.
    ///
    /// ```
    /// let kernel = postlude::Kernel::infer("D = relu(A @ B + bias[N])", &Default::default())?;
    /// assert_eq!(kernel.ast().to_string().lines().next(), Some("kernel one_liner(A: bf16[M, K], B: bf16[K, N], bias: f32[N]) -> (D: bf16[M, N]) {"));
    /// # Ok::<(), postlude::Error>(())
    /// ```
    pub fn infer(source: &str, bindings: &Bindings) -> Result<Kernel, Error> {
        Kernel::from_ast(check::infer(&syntax::parse(source)?, bindings)?)
    }

    /// [`Kernel::infer`] from bytes that may not be text at all.
    pub fn infer_bytes(source: &[u8], bindings: &Bindings) -> Result<Kernel, Error> {
        Kernel::from_ast(check::infer(&syntax::parse_bytes(source)?, bindings)?)
    }

    /// Types a tree that any front end built.
    pub fn from_ast(ast: Ast) -> Result<Kernel, Error> {
        let checked = check::check(&ast)?;
        let defined = define::define(&checked);
        Ok(Kernel { ast, checked, defined })
    }

    /// The kernel's name.
    pub fn name(&self) -> &str {
        self.defined.name()
    }

    /// What was written, with its signature.
    pub fn ast(&self) -> &Ast {
        &self.ast
    }

    /// Every assigned name with its type, in the order of the body.
    ///
    /// ```
    /// let kernel = postlude::Kernel::infer("z = A @ B; D = z > 0.0", &Default::default())?;
    /// let types: Vec<String> = kernel.types().into_iter().map(|(name, ty)| format!("{name}: {ty}")).collect();
    /// assert_eq!(types, ["z: f32[M, N]", "D: bool[M, N]"]);
    /// # Ok::<(), postlude::Error>(())
    /// ```
    pub fn types(&self) -> Vec<(String, String)> {
        check::name_types(&self.ast)
    }

    /// The typed graph before it was defined.
    pub fn checked(&self) -> &Graph {
        &self.checked
    }

    /// The kernel's meaning.
    pub fn defined(&self) -> &Graph {
        &self.defined
    }

    /// Optimises the kernel for a backend.
    pub fn compile(&self, options: &Options) -> Compiled {
        let keep: Option<Vec<&str>> =
            options.keep.as_ref().map(|keep| keep.iter().map(String::as_str).collect());
        let defined = self.defined.keeping(keep.as_deref());
        let optimised = optimise::optimise(&defined, options.math);
        Compiled::new(Arc::new(defined), Arc::new(optimised), options.clone())
    }
}

/// A kernel ready for calls of any size.
#[derive(Clone, Debug)]
pub struct Compiled {
    defined: Arc<Graph>,
    optimised: Arc<Graph>,
    options: Options,
    /// Shared by clones, so that code is emitted once for all.
    #[cfg(feature = "cuda")]
    gpu: Arc<GpuKernel>,
}

impl Compiled {
    fn new(defined: Arc<Graph>, optimised: Arc<Graph>, options: Options) -> Compiled {
        #[cfg(feature = "cuda")]
        let settings = Settings {
            math: options.math,
            schedule: options.schedule.clone(),
            grid_limit: options.grid_limit,
            guard: options.guard,
            cache: options.cache.clone(),
        };
        Compiled {
            #[cfg(feature = "cuda")]
            gpu: Arc::new(GpuKernel::new(&defined, &optimised, settings)),
            defined,
            optimised,
            options,
        }
    }

    /// The same kernel on another backend; code for a GPU is shared.
    pub fn on(&self, backend: Backend) -> Compiled {
        Compiled { options: Options { backend, ..self.options.clone() }, ..self.clone() }
    }

    /// What the reference evaluates.
    pub fn defined(&self) -> &Graph {
        &self.defined
    }

    /// What an engine runs.
    pub fn optimised(&self) -> &Graph {
        &self.optimised
    }

    /// Binds arguments, and sizes that no argument tells.
    pub fn bind(&self, arguments: &Arguments, sizes: &Sizes) -> Result<Problem, Error> {
        Ok(Problem::bind(&self.defined, arguments, sizes)?)
    }

    /// How a problem will be run on the CPU.
    pub fn schedule(&self, problem: &Problem) -> Result<Schedule, Error> {
        Ok(plan::plan(&self.optimised, problem, self.options.threads)?)
    }

    /// Output tensors of the right shape, zeroed.
    pub fn outputs(&self, problem: &Problem) -> Result<Vec<Tensor>, Error> {
        let outputs = self.defined.outputs().iter();
        Ok(outputs
            .map(|output| Tensor::zeros(output.dtype, problem.shape(&output.dims)))
            .collect::<Result<_, _>>()?)
    }

    /// Runs one call into tensors from [`Compiled::outputs`].
    pub fn run_into(
        &self,
        problem: &Problem,
        arguments: &Arguments,
        outputs: &mut [Tensor],
    ) -> Result<(), Error> {
        match self.options.backend {
            Backend::Reference => {
                for (output, evaluated) in outputs.iter_mut().zip(self.evaluate(problem, arguments))
                {
                    *output = evaluated.tensor()?;
                }
            }
            Backend::Cpu => {
                let schedule = self.schedule(problem)?;
                cpu::run(
                    &self.optimised,
                    &schedule,
                    problem,
                    arguments,
                    self.options.math,
                    outputs,
                )?;
            }
            Backend::Cuda => self.run_on_gpu(problem, arguments, outputs)?,
            Backend::Sim => self.run_simulated(problem, arguments, outputs)?,
        }
        Ok(())
    }

    /// Runs one call: outputs by name, in the order of the signature.
    pub fn run(
        &self,
        arguments: &Arguments,
        sizes: &Sizes,
    ) -> Result<Vec<(String, Tensor)>, Error> {
        let problem = self.bind(arguments, sizes)?;
        let mut outputs = self.outputs(&problem)?;
        self.run_into(&problem, arguments, &mut outputs)?;
        let names = self.defined.outputs().iter().map(|output| output.name.clone());
        Ok(names.zip(outputs).collect())
    }

    /// Every output with everything it may be.
    pub fn evaluate(&self, problem: &Problem, arguments: &Arguments) -> Vec<reference::Evaluated> {
        reference::evaluate(&self.defined, problem, arguments, self.options.math)
    }

    /// Compares outputs with the reference, element by element.
    pub fn check(
        &self,
        problem: &Problem,
        arguments: &Arguments,
        outputs: &[Tensor],
    ) -> Vec<Comparison> {
        self.check_extent(problem, arguments, outputs, Extent::All, &|_, _| {})
    }

    /// Compares outputs with the reference, all of them or a sample; each [`Comparison::coverage`] says what was looked at.
    /// `tell` hears how much of how much work is done.
    ///
    /// ```
    /// use postlude::reference::Extent;
    /// use postlude::{Argument, DType, Kernel, Options, Tensor};
    /// let kernel = Kernel::infer("D = A @ B", &Default::default())?;
    /// let compiled = kernel.compile(&Options::default());
    /// let ones = Argument::Tensor(Tensor::from_values(DType::BF16, vec![2, 2], &[1.0; 4])?);
    /// let arguments = [("A".to_owned(), ones.clone()), ("B".to_owned(), ones)].into();
    /// let problem = compiled.bind(&arguments, &Default::default())?;
    /// let outputs = [Tensor::from_values(DType::BF16, vec![2, 2], &[2.0, 2.0, 2.0, 3.0])?];
    /// let found = compiled.check_extent(&problem, &arguments, &outputs, Extent::Sample, &|_, _| {})[0];
    /// assert_eq!((found.wrong, found.at, found.coverage.checked), (1, 3, 4));
    /// assert_eq!(found.absolute.unwrap().amount, 1.0);
    /// # Ok::<(), postlude::Error>(())
    /// ```
    pub fn check_extent(
        &self,
        problem: &Problem,
        arguments: &Arguments,
        outputs: &[Tensor],
        extent: Extent,
        tell: Tell<'_>,
    ) -> Vec<Comparison> {
        let math = self.options.math;
        reference::check(&self.defined, problem, (arguments, outputs), math, (extent, tell))
    }
}
