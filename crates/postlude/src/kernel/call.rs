//! One call: a kernel, a problem, arguments and outputs that fit together.
//!
//! In: tensors of the caller, named or in the order of the signature. Out: a [`Call`] that any backend runs.
//! Invariant: a call that exists was validated: every input is there, of its declared type and of the problem's sizes, every
//! output too, and no two elements of an output share memory.

use std::ops::Index;
use std::sync::Arc;

use crate::cpu::Engine;
use crate::error::Error;
use crate::graph::{Earlier, Graph, Input, InputId, MathMode, Value};
use crate::kernel::{Backend, Compiled};
use crate::lower::SweepProgram;
use crate::plan::{self, Schedule};
use crate::problem::{Argument, Arguments, BindError, Problem};
use crate::reference::{self, Comparison, Extent, Tell};
use crate::tensor::{Tensor, TensorView, TensorViewMut, require_memory};

/// A call that was validated and can be run.
///
/// ```
/// use postlude::{Arguments, Kernel, Options, Sizes, TensorView, TensorViewMut};
/// let kernel = Kernel::parse("kernel f(A: f32[M, K], W: f32[N, K]) -> D: f32[M, N] { D = A @ W.T }")?;
/// let compiled = kernel.compile(&Options::default());
/// let (a, w, mut d) = ([1.0f32, 2.0], [3.0f32, 4.0, 5.0, 6.0], [0.0f32; 2]);
/// let arguments = Arguments::from([
///     ("A".to_owned(), TensorView::new(&a, [1, 2])?.into()),
///     ("W".to_owned(), TensorView::new(&w, [2, 2])?.into()),
/// ]);
/// let problem = compiled.bind(&arguments, &Sizes::new())?;
/// compiled.call(&problem, &arguments, [TensorViewMut::new(&mut d, [1, 2])?])?.run()?;
/// assert_eq!(d, [11.0, 17.0]);
/// # Ok::<(), postlude::Error>(())
/// ```
pub struct Call<'c> {
    pub(super) compiled: &'c Compiled,
    pub(super) problem: &'c Problem,
    /// In the order of the signature.
    pub(super) inputs: Vec<Argument<'c>>,
    pub(super) outputs: Vec<TensorViewMut<'c>>,
}

impl<'c> Call<'c> {
    pub(super) fn new(
        compiled: &'c Compiled,
        problem: &'c Problem,
        arguments: &'c Arguments<'_>,
        outputs: Vec<TensorViewMut<'c>>,
    ) -> Result<Call<'c>, Error> {
        let inputs = problem.inputs(&compiled.defined, arguments)?;
        problem.check_outputs(&compiled.defined, &outputs)?;
        Ok(Call { compiled, problem, inputs, outputs })
    }

    /// Runs it on the kernel's backend.
    pub fn run(&mut self) -> Result<(), Error> {
        self.run_telling(&|_, _| {})
    }

    /// Runs it on the kernel's backend; `tell` hears how much of how much work the reference has done, and nothing of the
    /// other backends, which take less time.
    #[doc(hidden)]
    pub fn run_telling(&mut self, tell: Tell<'_>) -> Result<(), Error> {
        match self.compiled.options.backend {
            Backend::Reference => {
                let compiled = self.compiled;
                let (graph, math) = (&compiled.defined, compiled.options.math);
                let held = reference::held_elements(graph, self.problem, Extent::All) as usize;
                require_memory(held.saturating_mul(size_of::<Value>()))?;
                let all = reference::evaluate_inputs(graph, self.problem, &self.inputs, math, tell);
                for (output, evaluated) in self.outputs.iter_mut().zip(all) {
                    let written = evaluated.written_over(output.view())?;
                    output.copy_from(written.view());
                }
                Ok(())
            }
            Backend::Cpu => {
                let prepared = self.compiled.prepare(self.problem)?;
                prepared.run_validated(&self.inputs, &mut self.outputs)
            }
            Backend::Cuda => self.run_on_gpu(),
            Backend::Sim => self.run_simulated(),
        }
    }

    /// Compares what the outputs hold with the reference; `tell` hears how much of how much work is done.
    pub fn check(&self, extent: Extent, tell: Tell<'_>) -> Vec<Comparison> {
        let (graph, math) = (&self.compiled.defined, self.compiled.options.math);
        let outputs: Vec<TensorView<'_>> = self.outputs.iter().map(TensorViewMut::view).collect();
        reference::check(graph, self.problem, (&self.inputs, &outputs), math, (extent, tell))
    }

    /// The sizes.
    pub fn problem(&self) -> &'c Problem {
        self.problem
    }
}

/// Some of the outputs of a call, by their places.
fn chosen<'a>(outputs: &'a mut [TensorViewMut<'_>], places: &[usize]) -> Vec<TensorViewMut<'a>> {
    let all = outputs.iter_mut().enumerate();
    let own = all.filter(|(place, _)| places.contains(place));
    own.map(|(_, output)| output.reborrow()).collect()
}

/// An input of a call: what is declared, or what has been computed.
fn value_at<'a>(
    declared: &'a [Argument<'_>],
    computed: &'a [Option<Tensor>],
    place: usize,
) -> Argument<'a> {
    match (declared.get(place), computed.get(place).and_then(Option::as_ref)) {
        (Some(argument), _) => argument.borrowed(),
        (None, Some(tensor)) => Argument::View(tensor.view()),
        (None, None) => panic!("compiler bug: input {place} is read before it is computed"),
    }
}

/// A kernel prepared for calls of one problem on the CPU: planned once, its memory kept from call to call.
///
/// Calls may come from several threads at once, each with its own arguments; tensors that they share are not copied.
///
/// ```
/// use postlude::{Kernel, Options, Sizes, TensorView, TensorViewMut};
/// let kernel = Kernel::parse("kernel f(A: f32[M, K], W: f32[N, K]) -> D: f32[M, N] { D = relu(A @ W.T) }")?;
/// let compiled = kernel.compile(&Options::default());
/// let sizes = Sizes::from([("M", 1), ("N", 2), ("K", 2)].map(|(dim, size)| (dim.to_owned(), size)));
/// let prepared = compiled.prepare(&compiled.problem(&sizes)?)?;
/// let (w, mut d) = ([3.0f32, 4.0, -5.0, -6.0], [0.0f32; 2]);
/// for a in [[1.0f32, 2.0], [2.0, 1.0]] {
///     let inputs = [TensorView::new(&a, [1, 2])?.into(), TensorView::new(&w, [2, 2])?.into()];
///     prepared.run(&inputs, &mut [TensorViewMut::new(&mut d, [1, 2])?])?;
/// }
/// assert_eq!(d, [10.0, 0.0]);
/// # Ok::<(), postlude::Error>(())
/// ```
#[derive(Clone)]
pub struct Prepared {
    graph: Arc<Graph>,
    pub(super) engine: Arc<Engine>,
    /// What each input has to be, in the order of the signature; `None` for a number.
    inputs: Arc<[Option<Vec<usize>>]>,
    outputs: Arc<[Vec<usize>]>,
    /// The places of the last graph's own outputs among all outputs.
    own: Vec<usize>,
    /// How many inputs a call passes.
    passed: usize,
    /// Whether ends of segments, which are data, are to be checked in every call.
    segmented: bool,
    /// What computes its computed inputs, with the places of what they read.
    earlier: Arc<[PreparedBefore]>,
}

/// What computes inputs of a prepared kernel.
struct PreparedBefore {
    prepared: Prepared,
    /// The places of its inputs among those of the kernel.
    places: Vec<usize>,
    /// The places of its outputs among the kernel's inputs.
    inputs: Vec<Option<InputId>>,
}

impl Prepared {
    /// Prepares a kernel with a schedule of the caller's.
    #[doc(hidden)]
    pub fn with_schedule(
        program: &Arc<SweepProgram>,
        problem: &Problem,
        schedule: Schedule,
        math: MathMode,
    ) -> Result<Prepared, Error> {
        let graph = program.graph();
        let shape = |dims: &Vec<_>| problem.shape(dims);
        let earlier = graph.earlier().into_iter().zip(&program.earlier);
        let earlier = earlier.map(|(Earlier { graph: own, inputs }, program)| {
            let problem = problem.of_computing(own)?;
            let schedule = plan::plan(program, &problem, Some(schedule.threads))?;
            let prepared = Prepared::with_schedule(program, &problem, schedule, math)?;
            Ok(PreparedBefore { prepared, places: graph.places_of(own), inputs })
        });
        let earlier = earlier.collect::<Result<Vec<_>, Error>>()?.into();
        Ok(Prepared {
            earlier,
            engine: Arc::new(Engine::new(program, problem, schedule, math)?),
            inputs: graph
                .declared_inputs()
                .iter()
                .map(|input| input.dims.as_ref().map(shape))
                .collect(),
            outputs: graph.results().iter().map(|result| problem.shape(result.dims)).collect(),
            own: graph.own_results(),
            passed: graph.passed_inputs().count(),
            segmented: graph.has_segments(),
            graph: graph.clone(),
        })
    }

    /// Runs one call: arguments and outputs in the order of the signature. They are validated first. An input that is
    /// another one under other dims is not passed.
    pub fn run(
        &self,
        inputs: &[Argument<'_>],
        outputs: &mut [TensorViewMut<'_>],
    ) -> Result<(), Error> {
        if self.passed < self.inputs.len() {
            return self.run_all(&self.spread(inputs)?, outputs);
        }
        self.run_all(inputs, outputs)
    }

    /// The same with an argument for every declared input.
    fn run_all(
        &self,
        inputs: &[Argument<'_>],
        outputs: &mut [TensorViewMut<'_>],
    ) -> Result<(), Error> {
        let problem = self.engine.problem();
        if !self.fits(inputs, outputs) {
            // What exactly is wrong.
            problem.check_inputs(&self.graph, inputs)?;
            problem.check_outputs(&self.graph, outputs)?;
        } else if self.segmented {
            problem.check_segments(&self.graph, inputs)?;
        }
        self.run_validated(inputs, outputs)
    }

    /// Runs one call of validated arguments: what is computed before the product, then the kernel.
    pub(super) fn run_validated(
        &self,
        inputs: &[Argument<'_>],
        outputs: &mut [TensorViewMut<'_>],
    ) -> Result<(), Error> {
        if self.earlier.is_empty() {
            self.engine.run(inputs, outputs);
            return Ok(());
        }
        let mut computed: Vec<Option<Tensor>> = self.graph.inputs().iter().map(|_| None).collect();
        for PreparedBefore { prepared, places, inputs: targets } in self.earlier.iter() {
            let results = prepared.graph.results();
            let mut tensors = results
                .iter()
                .zip(prepared.outputs.iter())
                .map(|(output, shape)| Tensor::zeros(output.dtype, shape.clone()))
                .collect::<Result<Vec<_>, _>>()?;
            let own: Vec<Argument<'_>> =
                places.iter().map(|place| value_at(inputs, &computed, *place)).collect();
            if prepared.graph.space().is_segmented() {
                // Rows behind the last segment stay what they are.
                for (target, tensor) in targets.iter().zip(&mut tensors) {
                    let input = target.map(|target| &self.graph.inputs()[target.0 as usize]);
                    if let Some(place) = input.and_then(Input::result_place) {
                        tensor.view_mut().copy_from(outputs[place].view());
                    }
                }
            }
            let mut views: Vec<_> = tensors.iter_mut().map(Tensor::view_mut).collect();
            prepared.run_validated(&own, &mut views)?;
            for (target, tensor) in targets.iter().zip(tensors) {
                let Some(target) = target else { continue };
                if let Some(place) = self.graph.inputs()[target.0 as usize].result_place() {
                    outputs[place].copy_from(tensor.view());
                }
                computed[target.0 as usize] = Some(tensor);
            }
        }
        let declared = inputs.iter().map(Argument::borrowed);
        let computed = computed.iter().flatten().map(|tensor| Argument::View(tensor.view()));
        let all: Vec<Argument<'_>> = declared.chain(computed).collect();
        self.engine.run(&all, &mut chosen(outputs, &self.own));
        Ok(())
    }

    /// Arguments for all declared inputs from the arguments of a call: a second name has its tensor's.
    fn spread<'a>(&self, inputs: &'a [Argument<'_>]) -> Result<Vec<Argument<'a>>, BindError> {
        let (wanted, given) = (self.passed, inputs.len());
        if wanted != given {
            return Err(BindError::InputCount { wanted, given });
        }
        let places = self.graph.passed_places();
        let places = &places[..self.inputs.len()];
        Ok(places.iter().map(|place| inputs[*place].borrowed()).collect())
    }

    /// Whether everything is as declared and outputs are contiguous, without looking up a single name.
    fn fits(&self, inputs: &[Argument<'_>], outputs: &[TensorViewMut<'_>]) -> bool {
        let declared = self.graph.declared_inputs().iter().zip(self.inputs.iter());
        let results = self.graph.results();
        let written = results.iter().zip(self.outputs.iter());
        inputs.len() == self.inputs.len()
            && outputs.len() == self.outputs.len()
            && declared.zip(inputs).all(|((input, shape), given)| match (shape, given.tensor()) {
                (None, None) => true,
                (Some(shape), Some(view)) => view.dtype() == input.dtype && view.shape() == shape,
                (None, Some(_)) | (Some(_), None) => false,
            })
            && written.zip(outputs).all(|((output, shape), given)| {
                given.dtype() == output.dtype && given.shape() == shape && given.is_contiguous()
            })
    }

    /// The sizes that it is prepared for.
    pub fn problem(&self) -> &Problem {
        self.engine.problem()
    }

    /// How it runs them.
    #[doc(hidden)]
    pub fn schedule(&self) -> &Schedule {
        self.engine.schedule()
    }
}

impl std::fmt::Debug for Prepared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Prepared({} for {:?})", self.graph.name(), self.problem().sizes())
    }
}

/// What a call wrote: tensors by name, in the order of the signature.
#[derive(Clone, PartialEq, Debug)]
pub struct Outputs(Vec<(String, Tensor)>);

impl Outputs {
    pub(super) fn new(outputs: Vec<(String, Tensor)>) -> Outputs {
        Outputs(outputs)
    }

    /// An output by name.
    pub fn get(&self, name: &str) -> Option<&Tensor> {
        self.0.iter().find(|(own, _)| own == name).map(|(_, tensor)| tensor)
    }

    /// Names and tensors.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Tensor)> {
        self.0.iter().map(|(name, tensor)| (name.as_str(), tensor))
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl Index<&str> for Outputs {
    type Output = Tensor;

    fn index(&self, name: &str) -> &Tensor {
        self.get(name).unwrap_or_else(|| panic!("the kernel has no output `{name}`"))
    }
}

impl Index<usize> for Outputs {
    type Output = Tensor;

    fn index(&self, place: usize) -> &Tensor {
        &self.0[place].1
    }
}

impl IntoIterator for Outputs {
    type Item = (String, Tensor);
    type IntoIter = std::vec::IntoIter<(String, Tensor)>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}
