//! A call on tensors of a GPU, ready to be launched again and again.

use std::collections::BTreeMap;
use std::sync::Arc;

use postlude_ptx::launch::{Buffer, Launch};

use crate::cuda::check::Checked;
use crate::cuda::{GpuKernel, chip};
use crate::error::Error;
use crate::placement::Placement;
use crate::problem::{Problem, Sizes};
use crate::runtime::{
    Device, DeviceArgument, DeviceTensor, Function, PreparedLaunch, RuntimeError, Stream,
};
use crate::target::{Planned, Planning, Schedule, TargetRefusal};

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
    kernel: Arc<GpuKernel>,
    problem: Problem,
    planned: Planned,
    /// What the host passes, by place in the signature.
    scalars: Vec<Option<f64>>,
    /// Where each buffer is: the inputs in the order of the signature, then the outputs.
    addresses: Vec<u64>,
    function: Function,
    /// CTAs that run at a time, once that was asked.
    resident: Option<u32>,
    /// `None` where no output has an element.
    launch: Option<PreparedLaunch>,
}

impl PreparedCall {
    pub(crate) fn new(
        kernel: &Arc<GpuKernel>,
        device: &Device,
        inputs: &BTreeMap<String, DeviceArgument>,
        outputs: &BTreeMap<String, DeviceTensor>,
        sizes: &Sizes,
    ) -> Result<PreparedCall, Error> {
        let chip = chip(device)?;
        let checked = Checked::new(kernel, device, inputs, outputs, sizes)?;
        let all = kernel.plan(&checked.problem, &checked.placements, chip)?;
        let (planned, program) = kernel.programs.choose(kernel, device, all)?;
        let mut call = PreparedCall {
            kernel: kernel.clone(),
            problem: checked.problem.clone(),
            planned: planned.clone(),
            scalars: Vec::new(),
            addresses: Vec::new(),
            function: program.function,
            resident: None,
            launch: None,
        };
        call.bind(&checked, planned)?;
        Ok(call)
    }

    /// Queues the kernel on a stream and returns; failures on the GPU come up when the stream is waited for.
    pub fn launch(&self, stream: &Stream) -> Result<(), Error> {
        match &self.launch {
            Some(launch) => Ok(launch.launch(stream)?),
            None => Ok(()),
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
        let Some(launch) = &self.launch else { return Ok(()) };
        let graph = &self.kernel.defined;
        let (inputs, outputs) = addresses.split_at(graph.passed_inputs().count());
        let places = graph.passed_places();
        let inputs = places.iter().map(|place| &inputs[*place]);
        let scalars: Vec<Option<f64>> = places.iter().map(|place| scalars[*place]).collect();
        let given = inputs.chain(outputs).zip(&self.addresses);
        let addresses: Vec<u64> = given.map(|(given, own)| given.unwrap_or(*own)).collect();
        let starts = |all: &[u64]| -> Vec<u64> {
            all.iter().map(|address| address % Placement::PERIOD).collect()
        };
        assert!(
            starts(&addresses) == starts(&self.addresses),
            "tensors that the call was not prepared for"
        );
        if self.scalars == scalars && self.addresses == addresses {
            return Ok(launch.launch(stream)?);
        }
        let address = |buffer: Buffer| {
            let found = addresses.get(buffer.0 as usize).copied();
            found.ok_or(RuntimeError::NoAddress { buffer })
        };
        if self.scalars == scalars {
            return Ok(launch.launch_at(stream, address)?);
        }
        let mut facts = self.planned.launch(&scalars);
        facts.grid[0] = launch.facts().grid[0];
        let buffers = (0..addresses.len() as u32).map(Buffer);
        let addresses: Vec<_> = buffers.zip(addresses.iter().copied()).collect();
        Ok(PreparedLaunch::new(&self.function, facts, &addresses)?.launch(stream)?)
    }

    /// How it is run.
    #[doc(hidden)]
    pub fn schedule(&self) -> Schedule {
        self.planned.schedule()
    }

    /// The loaded kernel.
    #[doc(hidden)]
    pub fn function(&self) -> &Function {
        &self.function
    }

    /// The sizes of the call.
    pub fn problem(&self) -> &Problem {
        &self.problem
    }

    /// The same call on other tensors of the same sizes, with other values of what the host passes.
    ///
    /// They are validated as the first ones were, and may lie differently where the schedule allows it.
    pub fn rebind(
        &mut self,
        inputs: &BTreeMap<String, DeviceArgument>,
        outputs: &BTreeMap<String, DeviceTensor>,
    ) -> Result<(), Error> {
        let device = self.function.device();
        let sizes = &self.problem.sizes;
        let checked = Checked::new(&self.kernel, device, inputs, outputs, sizes)?;
        let program = self.kernel.lowered.program().map_err(TargetRefusal::from)?;
        let (problem, placements) = (&checked.problem, &checked.placements);
        let planning = Planning { program, problem, placements, chip: chip(device)? };
        let planned = planning.accept(&self.planned.schedule())?;
        self.bind(&checked, planned)
    }

    /// Encodes the launch for these tensors; on a failure everything stays as it was.
    fn bind(&mut self, checked: &Checked, planned: Planned) -> Result<(), Error> {
        if !checked.is_empty {
            let mut facts = planned.launch(&checked.scalars);
            facts.grid[0] = facts.grid[0].min(self.resident(&facts)?);
            match &mut self.launch {
                Some(launch) if *launch.facts() == facts => launch.rebind(&checked.addresses)?,
                other => {
                    *other = Some(PreparedLaunch::new(&self.function, facts, &checked.addresses)?);
                }
            }
        }
        self.planned = planned;
        self.scalars.clone_from(&checked.scalars);
        self.addresses = checked.addresses.iter().map(|(_, address)| *address).collect();
        Ok(())
    }

    /// CTAs that run at a time: those of a persistent kernel that do not would only begin when others end. How many
    /// large clusters a GPU holds depends on which of its SMs are in use.
    fn resident(&mut self, facts: &Launch) -> Result<u32, Error> {
        if facts.cluster[0] <= 2 {
            return Ok(u32::MAX);
        }
        if let Some(resident) = self.resident {
            return Ok(resident);
        }
        let resident = self.function.resident_blocks(facts)?;
        self.resident = Some(resident);
        Ok(resident)
    }
}
