//! A kernel prepared for calls of one problem on the CPU.

use std::sync::Arc;

use crate::cpu::Engine;
use crate::error::Error;
use crate::graph::{Earlier, Graph, Input, InputId, MathMode};
use crate::lower::SweepProgram;
use crate::plan::{self, Schedule};
use crate::problem::{Argument, BindError, Problem};
use crate::tensor::{Tensor, TensorViewMut};

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
    engine: Arc<Engine>,
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
