//! Tuning: the schedules of a call are timed on a GPU, and later runs take the fastest.

use std::collections::BTreeMap;

use crate::cuda;
use crate::error::Error;
use crate::problem::{Arguments, Problem, Sizes};
use crate::runtime::{Device, DeviceArgument, DeviceTensor};
use crate::tuning::{Records, TuneOptions, Tuned};

use super::compiled::Compiled;
use super::options::{Hooks, Options};

impl Compiled {
    /// Times the schedules of every launch of a call on the first GPU, and keeps what it measured: later calls of the same
    /// sizes take the fastest.
    ///
    /// The arguments are copied to the GPU; what they hold matters little for the time, but indices have to be in range.
    ///
    /// ```no_run
    /// use postlude::tuning::TuneOptions;
    /// use postlude::{Arguments, DType, Kernel, Options, Sizes, Tensor};
    /// let compiled = Kernel::infer("D = A @ W.T", &Default::default())?.compile(&Options::default());
    /// let tensor = |rows| Tensor::zeros(DType::BF16, [rows, 4096]);
    /// let arguments =
    ///     Arguments::from([("A".to_owned(), tensor(64)?.into()), ("W".to_owned(), tensor(4096)?.into())]);
    /// let problem = compiled.bind(&arguments, &Sizes::new())?;
    /// let tuned = compiled.tune(&problem, &arguments, &TuneOptions::default())?;
    /// for launch in &tuned.launches {
    ///     println!("{}: {:?}", launch.name, launch.chosen());
    /// }
    /// # Ok::<(), postlude::Error>(())
    /// ```
    pub fn tune(
        &self,
        problem: &Problem,
        arguments: &Arguments<'_>,
        options: &TuneOptions<'_>,
    ) -> Result<Tuned, Error> {
        let untuned = self.untuned();
        let outputs = untuned.outputs(problem)?;
        let call = untuned.upload(problem, arguments, &outputs)?;
        cuda::tune(call.prepared(), &self.options.records, options)
    }

    /// The same for tensors of a GPU, which are read and not written.
    pub fn tune_on(
        &self,
        device: &Device,
        inputs: &BTreeMap<String, DeviceArgument>,
        outputs: &BTreeMap<String, DeviceTensor>,
        sizes: &Sizes,
        options: &TuneOptions<'_>,
    ) -> Result<Tuned, Error> {
        let call = self.untuned().prepare_on(device, inputs, outputs, sizes)?;
        cuda::tune(&call, &self.options.records, options)
    }

    /// The same kernel with the planner's own schedules.
    fn untuned(&self) -> Compiled {
        let hooks = Hooks { schedule: None, guard: false, ..self.options.hooks.clone() };
        let options = Options { records: Records::Off, hooks, ..self.options.clone() };
        let form = self.form.without_schedule();
        Compiled::new(self.defined.clone(), self.on_cpu.clone(), form, options)
    }
}
