//! The face: from an expression to a result on any backend.

mod call;
mod gpu;
#[cfg(any(feature = "cuda", feature = "sim"))]
mod launches;
mod options;
mod simulated;
#[cfg(feature = "cuda")]
mod tune;

use std::fmt;
use std::sync::{Arc, Mutex, OnceLock};

use crate::check::{self, Bindings};
#[cfg(feature = "cuda")]
use crate::cuda::GpuKernel;
use crate::define;
use crate::differentiate::{self, Derived, Form, GradError, Save};
use crate::error::{Diagnostic, Error};
use crate::graph::Graph;
use crate::lower::{SweepProgram, TileProgram};
use crate::optimise;
use crate::placement::Placements;
use crate::plan::{self, Schedule};
use crate::problem::{Argument, Arguments, Problem, Sizes};
use crate::process;
use crate::program::KernelForm;
use crate::reference::{self, Comparison, Extent, Tell};
use crate::syntax::{self, Ast};
use crate::target::{self, Chip, Planning, TargetRefusal};
use crate::tensor::{Tensor, TensorView, TensorViewMut};

pub use call::{Call, Outputs, Prepared};
pub use options::{Backend, Hooks, Options};

/// How many problems a kernel remembers how to run on the CPU.
const REMEMBERED: usize = 4;

/// A kernel: typed and defined.
///
/// ```
/// let kernel = postlude::Kernel::parse(
///     "kernel linear(A: f32[M, K], W: f32[N, K], bias: f32[N]) -> D: f32[M, N] { D = relu(A @ W.T + bias) }",
/// )?;
/// assert_eq!(kernel.name(), "linear");
/// assert_eq!(format!("{kernel:?}"), "kernel linear(A: f32[M, K], W: f32[N, K], bias: f32[N]) -> (D: f32[M, N])");
/// # Ok::<(), postlude::Error>(())
/// ```
#[derive(Clone)]
pub struct Kernel {
    ast: Ast,
    checked: Graph,
    defined: Graph,
    /// Compiled for the CPU when [`Kernel::run`] is called first.
    compiled: OnceLock<Compiled>,
}

/// The signature.
impl fmt::Debug for Kernel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = self.ast.to_string();
        let is_signature =
            |line: &&str| line.starts_with("kernel ") || line.starts_with("fused kernel ");
        let signature = text.lines().find(is_signature).unwrap_or_default();
        f.write_str(signature.trim_end_matches(['{', ' ']))
    }
}

impl PartialEq for Kernel {
    fn eq(&self, other: &Kernel) -> bool {
        (&self.ast, &self.checked, &self.defined) == (&other.ast, &other.checked, &other.defined)
    }
}

impl Kernel {
    /// Parses and types a kernel that has a signature.
    pub fn parse(source: &str) -> Result<Kernel, Error> {
        let parsed = syntax::parse(source).map_err(Error::from);
        parsed.and_then(Kernel::from_ast).map_err(|error| error.of_source(source))
    }

    /// Parses a kernel or a one-liner, whose signature follows from the bindings.
    ///
    /// ```
    /// let kernel = postlude::Kernel::infer("D = relu(A @ B + bias[N])", &Default::default())?;
    /// assert_eq!(kernel.ast().to_string().lines().next(), Some("kernel one_liner(A: bf16[M, K], B: bf16[K, N], bias: f32[N]) -> (D: bf16[M, N]) {"));
    /// # Ok::<(), postlude::Error>(())
    /// ```
    pub fn infer(source: &str, bindings: &Bindings) -> Result<Kernel, Error> {
        Kernel::infer_bytes(source.as_bytes(), bindings)
    }

    /// [`Kernel::infer`] from bytes that may not be text at all.
    #[doc(hidden)]
    pub fn infer_bytes(source: &[u8], bindings: &Bindings) -> Result<Kernel, Error> {
        let parsed = syntax::parse_bytes(source).map_err(Error::from);
        let inferred = parsed.and_then(|ast| check::infer(&ast, bindings).map_err(Error::from));
        inferred.and_then(Kernel::from_ast).map_err(|error| error.of_source(source))
    }

    /// Types a tree that any front end built.
    pub fn from_ast(ast: Ast) -> Result<Kernel, Error> {
        let checked = check::check(&ast)?;
        let defined = define::define(&checked);
        Ok(Kernel { ast, checked, defined, compiled: OnceLock::new() })
    }

    /// Runs the kernel on the CPU: arguments by name, sizes from their shapes. It is compiled in the first call; calls of
    /// the same sizes are planned once.
    ///
    /// ```
    /// use postlude::{DType, Kernel, Tensor};
    /// let kernel = Kernel::parse("kernel f(A: f32[M, K], B: f32[K, N]) -> D: f32[M, N] { D = relu(A @ B) }")?;
    /// let a = Tensor::from_values(DType::F32, [1, 2], &[1.0, 2.0])?;
    /// let b = Tensor::from_values(DType::F32, [2, 2], &[3.0, -3.0, 4.0, -4.0])?;
    /// let outputs = kernel.run([("A", &a), ("B", &b)])?;
    /// assert_eq!(outputs["D"].values(), [11.0, 0.0]);
    /// # Ok::<(), postlude::Error>(())
    /// ```
    pub fn run<'a, N: Into<String>, A: Into<Argument<'a>>>(
        &self,
        arguments: impl IntoIterator<Item = (N, A)>,
    ) -> Result<Outputs, Error> {
        let pairs = arguments.into_iter();
        let arguments = pairs.map(|(name, argument)| (name.into(), argument.into())).collect();
        let compiled = process::once(&self.compiled, || self.compile(&Options::default()));
        compiled.run(&arguments, &Sizes::new())
    }

    /// The kernel's name.
    pub fn name(&self) -> &str {
        self.defined.name()
    }

    /// What was written, with its signature.
    #[doc(hidden)]
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

    /// The kernel of the derivatives with respect to these inputs, or to all inputs of floats where none are named: it reads
    /// cotangents of the outputs and what the forward pass saves.
    ///
    /// ```
    /// use postlude::{Kernel, Save};
    /// let kernel = Kernel::parse("kernel f(A: f32[M, K], W: f32[N, K]) -> D: f32[M, N] { D = relu(A @ W.T) }")?;
    /// let derived = kernel.grad(&["W"], Save::Nothing)?;
    /// let backward = Kernel::parse(&derived.backward)?;
    /// assert_eq!(backward.name(), "f_backward");
    /// assert_eq!(derived.gradients, [("W".to_owned(), "d_W".to_owned())]);
    /// # Ok::<(), postlude::Error>(())
    /// ```
    pub fn grad(&self, wrt: &[&str], save: Save) -> Result<Derived, Error> {
        let ast = check::without_definitions(&self.ast)?;
        let wrt: Vec<String> = wrt.iter().map(|name| (*name).to_owned()).collect();
        let short = differentiate::differentiate(&ast, &wrt, save, Form::Short)?;
        match typed(short) {
            Ok(derived) => Ok(derived),
            Err(error) => {
                let explicit = differentiate::differentiate(&ast, &wrt, save, Form::Explicit)?;
                typed(explicit).map_err(|_| error)
            }
        }
    }

    /// What is suspicious about a kernel that types: inputs and names that nothing reads.
    ///
    /// ```
    /// let source = "kernel k(A: f32[M, K], B: f32[K, N], bias: f32[N]) -> D: f32[M, N] { D = A @ B }";
    /// let warnings = postlude::Kernel::parse(source)?.warnings();
    /// assert_eq!(warnings[0].message(), "input `bias` is never read");
    /// # Ok::<(), postlude::Error>(())
    /// ```
    pub fn warnings(&self) -> Vec<Diagnostic> {
        check::warnings(&self.ast).into_iter().map(Diagnostic::from).collect()
    }

    /// The typed graph before it was defined.
    #[doc(hidden)]
    pub fn checked(&self) -> &Graph {
        &self.checked
    }

    /// The kernel's meaning.
    #[doc(hidden)]
    pub fn defined(&self) -> &Graph {
        &self.defined
    }

    /// Optimises the kernel for a backend.
    pub fn compile(&self, options: &Options) -> Compiled {
        let keep: Option<Vec<&str>> =
            options.keep.as_ref().map(|keep| keep.iter().map(String::as_str).collect());
        let defined = self.defined.keeping(keep.as_deref());
        let fused = self.ast.signature.as_ref().is_some_and(|signature| signature.fused);
        let one_launch = options.one_launch || fused;
        Compiled::of_graph(&defined, &Options { one_launch, ..options.clone() })
    }
}

/// A kernel ready for calls of any size.
#[derive(Clone)]
pub struct Compiled {
    defined: Arc<Graph>,
    /// What the CPU engine runs, which scales elements where a target scales sums of runs of K.
    on_cpu: Arc<SweepProgram>,
    /// What launches compute of it.
    form: Arc<KernelForm>,
    options: Options,
    /// The problems that were prepared last on the CPU, the newest first.
    prepared: Arc<Mutex<Vec<Prepared>>>,
    /// Shared by clones, so that code is emitted once for all.
    #[cfg(feature = "cuda")]
    gpu: Arc<GpuKernel>,
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
    fn new(
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

    /// Validates a call: arguments by name, outputs in the order of the signature.
    pub fn call<'c, O: Into<TensorViewMut<'c>>>(
        &'c self,
        problem: &'c Problem,
        arguments: &'c Arguments<'_>,
        outputs: impl IntoIterator<Item = O>,
    ) -> Result<Call<'c>, Error> {
        let outputs = outputs.into_iter().map(Into::into).collect();
        Call::new(self, problem, arguments, outputs)
    }

    /// Validates one call and runs it into tensors such as those from [`Compiled::outputs`].
    pub fn run_into(
        &self,
        problem: &Problem,
        arguments: &Arguments<'_>,
        outputs: &mut [Tensor],
    ) -> Result<(), Error> {
        self.call(problem, arguments, outputs)?.run()
    }

    /// Runs one call: outputs by name, in the order of the signature.
    pub fn run(&self, arguments: &Arguments<'_>, sizes: &Sizes) -> Result<Outputs, Error> {
        let problem = self.bind(arguments, sizes)?;
        let mut outputs = self.outputs(&problem)?;
        self.run_into(&problem, arguments, &mut outputs)?;
        let names = self.defined.results().into_iter().map(|output| output.name.to_owned());
        Ok(Outputs::new(names.zip(outputs).collect()))
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

/// Derivatives whose texts type.
fn typed(derived: Derived) -> Result<Derived, Error> {
    for text in [&derived.forward, &derived.backward] {
        if let Err(error) = Kernel::parse(text) {
            return Err(GradError::NotTyped { message: error.summary() }.into());
        }
    }
    Ok(derived)
}
