//! Calls in the simulator.

use crate::error::Error;
#[cfg(not(feature = "sim"))]
use crate::error::NoSimulator;

use super::call::Call;

#[cfg(feature = "sim")]
use {
    super::compiled::Compiled,
    crate::image,
    crate::problem::{Arguments, Problem},
    crate::program::{CallTensors, Chosen, Planner, choose},
    crate::sim::{self, EachLaunch, Report, SimCall, SimOptions},
    crate::target::{Chip, Schedule},
    crate::tensor::{Tensor, TensorView, TensorViewMut},
    postlude_sim::observe::{Nobody, Observer},
};

#[cfg(feature = "sim")]
impl Compiled {
    /// Runs one call in the simulator; what it finds is in the report, whatever became of the outputs.
    ///
    /// ```
    /// use postlude::sim::{SimOptions, Timing};
    /// use postlude::{Arguments, DType, Kernel, Options, Sizes, Tensor};
    ///
    /// let compiled = Kernel::infer("D = relu(A @ W.T)", &Default::default())?.compile(&Options::default());
    /// let ones = |rows| Tensor::from_values(DType::BF16, vec![rows, 64], &vec![1.0; rows * 64]);
    /// let arguments = Arguments::from([
    ///     ("A".to_owned(), ones(8)?.into()),
    ///     ("W".to_owned(), ones(16)?.into()),
    /// ]);
    /// let problem = compiled.bind(&arguments, &Sizes::new())?;
    /// let mut outputs = compiled.outputs(&problem)?;
    /// let options = SimOptions { timing: Timing::Lazy, ..SimOptions::default() };
    /// let report = compiled.simulate(&problem, &arguments, &mut outputs, &options)?;
    /// assert!(report.findings.is_empty());
    /// assert_eq!(outputs[0].values(), [64.0; 8 * 16]);
    /// # Ok::<(), postlude::Error>(())
    /// ```
    #[doc(hidden)]
    pub fn simulate(
        &self,
        problem: &Problem,
        arguments: &Arguments,
        outputs: &mut [Tensor],
        options: &SimOptions,
    ) -> Result<Report, Error> {
        self.simulate_observed(problem, arguments, outputs, options, &mut Nobody)
    }

    /// The same, with somebody who watches: meters, a timeline.
    #[doc(hidden)]
    pub fn simulate_observed(
        &self,
        problem: &Problem,
        arguments: &Arguments,
        outputs: &mut [Tensor],
        options: &SimOptions,
        observer: &mut dyn Observer,
    ) -> Result<Report, Error> {
        self.simulated(problem, arguments, outputs)?.run(options, observer, outputs)
    }

    /// A call in the simulator with everything planned, emitted and laid out.
    #[doc(hidden)]
    pub fn simulated(
        &self,
        problem: &Problem,
        arguments: &Arguments,
        outputs: &[Tensor],
    ) -> Result<SimCall, Error> {
        let inputs = problem.inputs(&self.defined, arguments)?;
        let outputs: Vec<TensorView<'_>> = outputs.iter().map(Tensor::view).collect();
        problem.check_results(&self.defined, &outputs)?;
        let call = Call { compiled: self, problem, inputs, outputs: Vec::new() };
        call.simulated(&outputs, &mut self.accepting())
    }

    /// Simulates one call; `each` runs its launches, in their order.
    #[doc(hidden)]
    pub fn simulate_launches(
        &self,
        problem: &Problem,
        arguments: &Arguments,
        outputs: &mut [Tensor],
        each: &mut EachLaunch<'_>,
    ) -> Result<(), Error> {
        let outputs = outputs.iter_mut().map(Tensor::view_mut).collect();
        Call::new(self, problem, arguments, outputs)?.run_launches(each)
    }

    /// Runs launches in which nothing may be found.
    fn accepting(&self) -> impl FnMut(&SimCall, &mut [TensorViewMut<'_>]) -> Result<(), Error> {
        let options = SimOptions { timing: self.options.hooks.timing, ..SimOptions::default() };
        move |call, outputs| sim::accept(&call.run_views(&options, &mut Nobody, outputs)?)
    }

    /// How a problem will be run in the simulator, or why it is not.
    #[doc(hidden)]
    pub fn sim_schedule(
        &self,
        problem: &Problem,
        arguments: &Arguments,
    ) -> Result<Schedule, Error> {
        let of = image::placements(self.optimised(), problem, arguments);
        let tensors = CallTensors::with_packed_results(self.optimised(), problem, of.inputs);
        Ok(self.chosen_for_sim(problem, &tensors)?.last().planned().schedule())
    }

    fn planner(&self) -> Planner<'static> {
        Planner { grid_limit: self.options.hooks.grid_limit, ..Planner::on(Chip::STANDARD) }
    }

    fn chosen_for_sim(&self, problem: &Problem, tensors: &CallTensors) -> Result<Chosen, Error> {
        choose(&self.form, problem, tensors, &self.planner())
    }
}

#[cfg(feature = "sim")]
impl Call<'_> {
    /// The last launch of the call into outputs that lie so; those before it have been simulated, by `each`.
    fn simulated(
        &self,
        outputs: &[TensorView<'_>],
        each: &mut EachLaunch<'_>,
    ) -> Result<SimCall, Error> {
        let compiled = self.compiled;
        let declared = self.inputs.iter().map(|input| input.tensor().map(image::placement));
        let results = outputs.iter().map(|output| image::placement(*output));
        let tensors = CallTensors::of(declared.collect(), results.collect());
        let chosen = compiled.chosen_for_sim(self.problem, &tensors)?;
        let (guard, lists) = (compiled.options.hooks.guard, compiled.options.hooks.lists);
        let layout = sim::Laying { guard, lists, planner: compiled.planner() };
        sim::Run::new(&chosen, &layout, &self.inputs, outputs).all_but_last(each)
    }

    pub(super) fn run_simulated(&mut self) -> Result<(), Error> {
        let compiled = self.compiled;
        self.run_launches(&mut compiled.accepting())
    }

    /// Simulates the call; `each` runs its launches.
    pub(super) fn run_launches(&mut self, each: &mut EachLaunch<'_>) -> Result<(), Error> {
        let outputs: Vec<TensorView<'_>> = self.outputs.iter().map(TensorViewMut::view).collect();
        let call = self.simulated(&outputs, each)?;
        each(&call, &mut self.outputs)
    }
}

#[cfg(not(feature = "sim"))]
impl Call<'_> {
    #[allow(clippy::unused_self)] // The face of the build that has it.
    pub(super) fn run_simulated(&mut self) -> Result<(), Error> {
        Err(NoSimulator.into())
    }
}
