//! Calls on a GPU, and the choice between a GPU and the processor.

use crate::error::Error;
#[cfg(not(feature = "cuda"))]
use crate::error::NoGpus;
use crate::problem::{Arguments, Problem};
use crate::target::Schedule;

use super::call::Call;
use super::compiled::Compiled;
use super::options::Backend;

#[cfg(feature = "cuda")]
use {
    crate::cuda::{HostCall, PreparedCall},
    crate::problem::Sizes,
    crate::runtime::{Device, DeviceArgument, DeviceTensor},
    crate::tensor::{Tensor, TensorView, TensorViewMut},
    std::collections::BTreeMap,
};

/// The GPU that calls on host tensors run on.
#[cfg(feature = "cuda")]
const FIRST: u32 = 0;

impl Compiled {
    /// The backend that runs a problem fastest: the first GPU, or the processor and why not the GPU.
    ///
    /// [`Compiled::on`] gives the kernel for it.
    pub fn choose(&self, problem: &Problem, arguments: &Arguments) -> (Backend, Option<Error>) {
        match self.gpu_schedule(problem, arguments) {
            Ok(_) => (Backend::Cuda, None),
            Err(error) => (Backend::Cpu, Some(error)),
        }
    }
}

#[cfg(feature = "cuda")]
impl Compiled {
    /// Plans, emits, loads and encodes a call on tensors of a GPU. It may be launched again and again.
    ///
    /// Code is emitted once for each schedule; calls that differ in sizes share it, and so do clones of the kernel. Where
    /// the code of the best schedule does not fit the registers, the next one is taken. An output without elements
    /// launches nothing.
    pub fn prepare_on(
        &self,
        device: &Device,
        inputs: &BTreeMap<String, DeviceArgument>,
        outputs: &BTreeMap<String, DeviceTensor>,
        sizes: &Sizes,
    ) -> Result<PreparedCall, Error> {
        PreparedCall::new(&self.gpu, device, inputs, outputs, sizes)
    }

    /// Copies a call's inputs to the first GPU and prepares it there.
    #[doc(hidden)]
    pub fn upload(
        &self,
        problem: &Problem,
        arguments: &Arguments,
        outputs: &[Tensor],
    ) -> Result<HostCall, Error> {
        let inputs = problem.inputs(&self.defined, arguments)?;
        let outputs: Vec<TensorView<'_>> = outputs.iter().map(Tensor::view).collect();
        problem.check_results(&self.defined, &outputs)?;
        HostCall::upload(&self.gpu, &Device::open(FIRST)?, problem, &inputs, &outputs)
    }

    /// How a problem will be run on the first GPU, or why it is not.
    #[doc(hidden)]
    pub fn gpu_schedule(
        &self,
        problem: &Problem,
        arguments: &Arguments,
    ) -> Result<Schedule, Error> {
        self.gpu.schedule(&Device::open(FIRST)?, problem, arguments)
    }

    /// How many modules of code the kernel has loaded so far, for all sizes together.
    #[doc(hidden)]
    pub fn gpu_modules(&self) -> usize {
        self.gpu.modules()
    }
}

#[cfg(feature = "cuda")]
impl Call<'_> {
    pub(super) fn run_on_gpu(&mut self) -> Result<(), Error> {
        let device = Device::open(FIRST)?;
        let outputs: Vec<TensorView<'_>> = self.outputs.iter().map(TensorViewMut::view).collect();
        let kernel = &self.compiled.gpu;
        let call = HostCall::upload(kernel, &device, self.problem(), &self.inputs, &outputs)?;
        call.launch()?;
        call.download_views(&mut self.outputs)
    }
}

#[cfg(not(feature = "cuda"))]
impl Compiled {
    /// This build runs nothing on GPUs, and says so.
    #[doc(hidden)]
    pub fn gpu_schedule(&self, _: &Problem, _: &Arguments) -> Result<Schedule, Error> {
        Err(NoGpus.into())
    }
}

#[cfg(not(feature = "cuda"))]
impl Call<'_> {
    #[allow(clippy::unused_self)] // The face of the build that has it.
    pub(super) fn run_on_gpu(&mut self) -> Result<(), Error> {
        Err(NoGpus.into())
    }
}
