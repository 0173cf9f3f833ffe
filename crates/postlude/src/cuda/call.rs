//! A call on tensors of a GPU, ready to be launched again and again.

mod launch;
mod tables;

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::cuda::check::Checked;
use crate::cuda::kernel::{GpuKernel, chip};
use crate::error::Error;
use crate::placement::Placement;
use crate::problem::{Problem, Sizes};
use crate::program::{Base, CallTensors, Chosen, Planner, Step as ChosenStep, View};
use crate::runtime::{
    Device, DeviceArgument, DeviceTensor, Function, Order, RuntimeError, Stream, zero,
};
use crate::target::Schedule;

pub(super) use launch::GpuLaunch;

/// A call on tensors of a GPU with everything planned, checked and encoded.
///
/// Launches are asynchronous, may come from any thread and cost the host a few microseconds. The tensors' memory has to
/// live until the GPU is done with it.
///
/// ```no_run
/// use std::collections::BTreeMap;
///
/// use postlude::cuda::{Device, DeviceArgument, DeviceTensor, Stream};
/// use postlude::{DType, Kernel, Options, Sizes};
///
/// let kernel = Kernel::infer("D = relu(A @ W.T)", &Default::default())?;
/// let compiled = kernel.compile(&Options::default());
/// let device = Device::open(0)?;
/// let stream = Stream::new(&device)?;
/// let memory = device.allocate(3 * 512 * 512 * 2)?;
/// let tensor = |place: u64| {
///     let address = memory.address() + place * 512 * 512 * 2;
///     DeviceTensor::contiguous(DType::BF16, vec![512, 512], address, device.ordinal())
/// };
/// let inputs = BTreeMap::from([
///     ("A".to_owned(), DeviceArgument::Tensor(tensor(0))),
///     ("W".to_owned(), DeviceArgument::Tensor(tensor(1))),
/// ]);
/// let outputs = BTreeMap::from([("D".to_owned(), tensor(2))]);
/// let call = compiled.prepare_on(&device, &inputs, &outputs, &Sizes::new())?;
/// call.launch(&stream)?;
/// stream.synchronize()?;
/// # Ok::<(), postlude::Error>(())
/// ```
pub struct PreparedCall {
    pub(super) kernel: Arc<GpuKernel>,
    problem: Problem,
    /// Where its tensors lie.
    pub(super) tensors: CallTensors,
    pub(super) chosen: Chosen,
    /// What the host passes, by declared input.
    pub(super) scalars: Vec<Option<f64>>,
    /// Where declared inputs are, then results.
    pub(super) addresses: Vec<u64>,
    /// The launches of the chosen steps.
    launches: Vec<GpuLaunch>,
    /// Its tensors, where no output may be in an input's memory: other threads may read an element than the one that writes
    /// there.
    apart: Option<Checked>,
}

/// What a call does, in order.
#[derive(Clone, Copy)]
pub(super) enum Step<'c, 's> {
    /// Sets bytes from an address on to zero.
    Zero(u64, u64),
    /// Launches with these buffers and what the host passes.
    Launch(&'c GpuLaunch, &'s [u64], &'s [Option<f64>]),
}

/// What is done with each step of a call.
type Visit<'v, 'c> = dyn FnMut(Step<'c, '_>) -> Result<(), RuntimeError> + 'v;

impl PreparedCall {
    pub(crate) fn new(
        kernel: &Arc<GpuKernel>,
        device: &Device,
        inputs: &BTreeMap<String, DeviceArgument>,
        outputs: &BTreeMap<String, DeviceTensor>,
        sizes: &Sizes,
    ) -> Result<PreparedCall, Error> {
        device.is_own()?;
        let checked = Checked::new(kernel, device, inputs, outputs, sizes)?;
        let tensors = checked.tensors();
        let mut chosen = kernel.choose(device, &checked.problem, &tensors)?;
        let graph = chosen.form.graph.clone();
        let is_apart = chosen.form.lowered.is_by_elements() && !graph.is_elementwise();
        if is_apart {
            checked.refuse_shared(&graph)?;
        }
        if checked.is_nothing() {
            chosen.steps.drain(..chosen.steps.len() - 1);
        }
        let mut launches = Vec::new();
        for launch in chosen.every_launch_mut() {
            let programs = &kernel.programs;
            let (planned, program) = programs.choose(&launch.form, device, &launch.planned)?;
            // Chunks may be many: each keeps what it runs.
            launch.planned = vec![planned];
            let bound = checked.all_bound(launch);
            launches.push(GpuLaunch::new(launch, program.function, &bound, None)?);
        }
        let (addresses, scalars) = checked.addresses();
        let (kernel, problem) = (kernel.clone(), checked.problem.clone());
        let apart = is_apart.then_some(checked);
        Ok(PreparedCall { kernel, problem, tensors, chosen, scalars, addresses, launches, apart })
    }

    fn last(&self) -> &GpuLaunch {
        let last = self.launches.last();
        last.unwrap_or_else(|| panic!("compiler bug: a call of no launch"))
    }

    /// Queues the kernel on a stream and returns; failures on the GPU come up when the stream is waited for.
    pub fn launch(&self, stream: &Stream) -> Result<(), Error> {
        match self.last().plain() {
            Some(launch) if self.chosen.steps.len() == 1 => Ok(launch.launch(stream)?),
            Some(_) | None => self.launch_all(stream, &self.addresses, &self.scalars),
        }
    }

    /// The same on tensors that differ from the call's in their addresses alone, and with these scalars: both by place in
    /// the signature, outputs behind inputs that are passed; no address for a number or a tensor without elements. Nothing is
    /// remembered, so threads may launch one call at the same time.
    ///
    /// The caller has validated the tensors.
    ///
    /// # Panics
    /// If an address is not as far beyond a multiple of [`Placement::PERIOD`] as the call's own: the code was chosen for it.
    #[doc(hidden)]
    pub fn launch_at(
        &self,
        stream: &Stream,
        addresses: &[Option<u64>],
        scalars: &[Option<f64>],
    ) -> Result<(), Error> {
        let graph = &self.kernel.form.graph;
        let (inputs, outputs) = addresses.split_at(graph.passed_inputs().count());
        let mut places = graph.passed_places();
        places.truncate(graph.declared_inputs().len());
        let given = places.iter().map(|place| inputs.get(*place).copied().flatten());
        let given = given.chain(outputs.iter().copied()).zip(&self.addresses);
        let addresses: Vec<u64> = given.map(|(given, own)| given.unwrap_or(*own)).collect();
        let scalars: Vec<Option<f64>> =
            places.iter().map(|place| scalars.get(*place).copied().flatten()).collect();
        let starts = |all: &[u64]| -> Vec<u64> {
            all.iter().map(|address| address % Placement::PERIOD).collect()
        };
        assert!(
            starts(&addresses) == starts(&self.addresses),
            "tensors that the call was not prepared for"
        );
        if let Some(apart) = &self.apart {
            apart.at(&addresses).refuse_shared(&self.chosen.form.graph)?;
        }
        self.launch_all(stream, &addresses, &scalars)
    }

    /// All launches, one behind the other on the stream. The first one begins when the stream has come to it; those behind it
    /// may overlap.
    fn launch_all(
        &self,
        stream: &Stream,
        addresses: &[u64],
        scalars: &[Option<f64>],
    ) -> Result<(), Error> {
        let mut order = Order::Behind;
        let mut launch = |base: u64| {
            self.each(base, addresses, scalars, &mut |step| self.take(step, stream, &mut order))
        };
        if self.chosen.steps.len() == 1 {
            return Ok(launch(0)?);
        }
        if self.launches.iter().all(GpuLaunch::is_empty) {
            return Ok(());
        }
        let device = self.function().device();
        // A tensor without elements lies somewhere too.
        let bytes = self.chosen.block.bytes.max(Placement::PERIOD);
        Ok(device.intermediates().with_any(device.context(), stream, bytes, launch)?)
    }

    /// Does one step of the call.
    pub(super) fn take(
        &self,
        step: Step<'_, '_>,
        stream: &Stream,
        order: &mut Order,
    ) -> Result<(), RuntimeError> {
        match step {
            Step::Zero(address, bytes) => {
                *order = Order::Behind;
                zero(self.function().device().context(), address, bytes, stream)
            }
            Step::Launch(launch, addresses, scalars) => {
                let own = if launch.form.overlaps() { *order } else { Order::Behind };
                launch.launch(stream, own, addresses, scalars)?;
                if !launch.is_empty() {
                    *order = Order::Overlapping;
                }
                Ok(())
            }
        }
    }

    /// Every step in order, where values between launches lie from here on.
    pub(super) fn each<'c>(
        &'c self,
        base: u64,
        addresses: &[u64],
        scalars: &[Option<f64>],
        visit: &mut Visit<'_, 'c>,
    ) -> Result<(), RuntimeError> {
        let Chosen { steps, values, block, .. } = &self.chosen;
        let mut launches = self.launches.iter();
        let declared = self.scalars.len();
        for step in steps {
            let chosen = match step {
                ChosenStep::Zero(value) => {
                    visit(Step::Zero(base + block.offsets[*value], values[*value].bytes))?;
                    continue;
                }
                ChosenStep::Launch(chosen) => chosen,
            };
            let Some(launch) = launches.next() else { break };
            let address = |(view, own): (&View, &u64)| {
                let whole = match view.base {
                    Base::Input(place) => addresses[place],
                    Base::Result(place) => addresses[declared + place],
                    Base::Stored(value) => base + block.offsets[value],
                    Base::Number(_) | Base::Nowhere => return *own,
                };
                whole.wrapping_add_signed(view.shift)
            };
            let views = chosen.reads.iter().chain(&chosen.stores);
            let given: Vec<u64> = views.zip(&launch.addresses).map(address).collect();
            let numbers = chosen.reads.iter().zip(&launch.scalars);
            let numbers = numbers.map(|(view, own)| match view.base {
                Base::Input(place) => scalars[place],
                Base::Result(_) | Base::Stored(_) | Base::Number(_) | Base::Nowhere => *own,
            });
            visit(Step::Launch(launch, &given, &numbers.collect::<Vec<_>>()))?;
        }
        Ok(())
    }

    /// Whether it reads or writes lists of tensors.
    pub(super) fn has_lists(&self) -> bool {
        self.launches.iter().any(|launch| !launch.tables.is_empty())
    }

    /// How its last launch is run.
    #[doc(hidden)]
    pub fn schedule(&self) -> Schedule {
        self.last().planned.schedule()
    }

    /// The loaded code of its last launch.
    #[doc(hidden)]
    pub fn function(&self) -> &Function {
        &self.last().function
    }

    /// The sizes of the call.
    pub fn problem(&self) -> &Problem {
        &self.problem
    }

    /// The same call on other tensors of the same sizes, with other values of what the host passes.
    ///
    /// They are validated as the first ones were, and may lie differently where the schedule of the last launch allows it. On a
    /// failure everything stays as it was.
    pub fn rebind(
        &mut self,
        inputs: &BTreeMap<String, DeviceArgument>,
        outputs: &BTreeMap<String, DeviceTensor>,
    ) -> Result<(), Error> {
        let device = self.function().device().clone();
        let sizes = &self.problem.sizes;
        let checked = Checked::new(&self.kernel, &device, inputs, outputs, sizes)?;
        if self.apart.is_some() {
            checked.refuse_shared(&self.chosen.form.graph)?;
        }
        let tensors = checked.tensors();
        let grid_limit = self.kernel.options.grid_limit;
        let planner = Planner { grid_limit, ..Planner::on(chip(&device)?) };
        let mut chosen = self.chosen.moved(&tensors, &planner)?;
        let mut launches = Vec::new();
        for (launch, own) in chosen.every_launch_mut().zip(&self.launches) {
            let programs = &self.kernel.programs;
            let (planned, program) = programs.choose(&launch.form, &device, &launch.planned)?;
            if planned.placements().int64_inputs() != own.planned.placements().int64_inputs() {
                return Err(RuntimeError::Width.into());
            }
            launch.planned = vec![planned];
            let bound = checked.all_bound(launch);
            launches.push(GpuLaunch::new(launch, program.function, &bound, Some(own))?);
        }
        self.launches = launches;
        (self.addresses, self.scalars) = checked.addresses();
        (self.tensors, self.chosen) = (tensors, chosen);
        self.apart = self.apart.take().map(|_| checked);
        Ok(())
    }
}
