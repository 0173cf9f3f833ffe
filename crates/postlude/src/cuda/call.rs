//! A call on tensors of a GPU, ready to be launched again and again.

mod chunks;
mod tables;

use std::collections::BTreeMap;
use std::sync::Arc;

use postlude_ptx::launch::{Buffer, Launch};

use crate::cuda::check::{Checked, between_launches};
use crate::cuda::{GpuKernel, chip};
use crate::error::Error;
use crate::intermediates::{Block, Lifetime, last_reads};
use crate::partition::Chunks;
use crate::placement::Placement;
use crate::problem::{Problem, Sizes};
use crate::runtime::{
    Device, DeviceArgument, DeviceTensor, Function, Order, PreparedLaunch, RuntimeError, Stream,
    zero,
};
use crate::target::{Planned, Planning, Schedule, TargetRefusal};
use tables::Tables;

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
    pub(super) problem: Problem,
    pub(super) planned: Planned,
    /// What the host passes, by place in the signature.
    pub(super) scalars: Vec<Option<f64>>,
    /// Where each buffer is: the inputs in the order of the signature, then the outputs.
    pub(super) addresses: Vec<u64>,
    pub(super) function: Function,
    /// Where the tensors of lists lie.
    tables: Tables,
    /// CTAs that run at a time, once that was asked.
    resident: Option<u32>,
    /// `None` where no output has an element.
    pub(super) launch: Option<PreparedLaunch>,
    earlier: Vec<EarlierCall>,
    /// Sums that begin at zero: the values of the block that they are, their bytes, and the inputs that they are.
    sums: Vec<(usize, u64, usize)>,
    /// Where what is computed before lies.
    pub(super) block: Block,
}

/// A call that computes inputs of another one.
struct EarlierCall {
    call: PreparedCall,
    /// What it reads.
    reads: Vec<Read>,
    /// For each of its outputs, where it lies.
    stores: Vec<Store>,
    /// The value of the other's block that what it computes before itself lies in.
    inside: usize,
}

/// The last launch that a value lives to: launches of chunks run again and again, the last of them behind all others.
fn until(last: usize, chunks: Option<&Chunks>) -> usize {
    let repeated = chunks.filter(|chunks| chunks.launches.contains(&last));
    repeated.map_or(last, |chunks| chunks.launches.end - 1)
}

/// What a call does, in order.
#[derive(Clone, Copy)]
pub(super) enum Step<'c, 's> {
    /// Sets bytes from an address on to zero.
    Zero(u64, u64),
    /// Launches a call's own kernel with these buffers and what the host passes.
    Launch(&'c PreparedCall, &'s [u64], &'s [Option<f64>]),
}

/// What is done with each step of a call.
type Visit<'v, 'c> = dyn FnMut(Step<'c, '_>) -> Result<(), RuntimeError> + 'v;

/// An input of an earlier call.
#[derive(Clone, Copy)]
enum Read {
    /// The other's input of this place, from this byte on.
    Input(usize, i64),
    /// A number of its own.
    Number(f64),
}

/// Where an earlier call stores an output.
enum Store {
    /// Into this value of the block of intermediates, for the input of this place.
    Intermediate(usize, Option<usize>),
    /// Into a result of the kernel, which is the input of this place, from this byte on.
    Result(usize, i64),
}

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
        let call = PreparedCall::of(kernel, device, &checked)?;
        let last = &call.kernel;
        if last.lowered.is_by_elements() && !last.optimised.is_elementwise() {
            checked.refuse_shared(&last.optimised)?;
        }
        Ok(call)
    }

    fn of(
        kernel: &Arc<GpuKernel>,
        device: &Device,
        checked: &Checked,
    ) -> Result<PreparedCall, Error> {
        let Checked { problem, placements, .. } = checked;
        if let Some(in_mainloop) = kernel.in_mainloop(problem)
            && let Ok(all) = in_mainloop.plan(problem, placements, device)
            && let Ok(call) = PreparedCall::planned(in_mainloop, device, checked, all)
        {
            return Ok(call);
        }
        if let Some(chunked) = kernel.chunked(problem) {
            let own_sizes = problem.of_computing(&chunked.optimised)?;
            let own = checked.on_sizes(&chunked, device, own_sizes);
            let all = chunked.plan(&own.problem, &own.placements, device);
            // Where a launch of a chunk is refused, values between launches are stored whole.
            if let Ok(all) = all
                && let Ok(call) = PreparedCall::planned(&chunked, device, &own, all)
            {
                return Ok(call);
            }
        }
        if let Some(copied) = kernel.copied(problem, placements) {
            let own = checked.on(&copied, device);
            let all = copied.plan(problem, &own.placements, device);
            // Where a launch that copies is refused, threads read the operands as they lie.
            if let Ok(all) = all
                && let Ok(call) = PreparedCall::planned(&copied, device, &own, all)
            {
                return Ok(call);
            }
        }
        if let Some(cut) = kernel.cheaper_cut(problem, device)
            && let Ok(call) = PreparedCall::of(cut, device, &checked.on(cut, device))
        {
            return Ok(call);
        }
        match kernel.plan(problem, placements, device) {
            Ok(all) => PreparedCall::planned(kernel, device, checked, all),
            Err(refusal) => {
                let Some(cut) = kernel.cut() else { return Err(refusal) };
                let prepared = PreparedCall::of(cut, device, &checked.on(cut, device));
                prepared.map_err(|error| error.or(refusal))
            }
        }
    }

    /// A call whose tensors are not known yet.
    fn begun(
        kernel: &Arc<GpuKernel>,
        problem: &Problem,
        planned: Planned,
        function: Function,
    ) -> PreparedCall {
        PreparedCall {
            kernel: kernel.clone(),
            problem: problem.clone(),
            planned,
            scalars: Vec::new(),
            addresses: Vec::new(),
            function,
            tables: Tables::default(),
            resident: None,
            launch: None,
            earlier: Vec::new(),
            sums: Vec::new(),
            block: Block::default(),
        }
    }

    /// A call of a kernel with the schedules to try.
    fn planned(
        kernel: &Arc<GpuKernel>,
        device: &Device,
        checked: &Checked,
        all: Vec<Planned>,
    ) -> Result<PreparedCall, Error> {
        let (planned, program) = kernel.programs.choose(kernel, device, all)?;
        let mut call =
            PreparedCall::begun(kernel, &checked.problem, planned.clone(), program.function);
        if !checked.is_nothing {
            call.prepare_earlier(device, checked)?;
        }
        call.bind(checked, planned)?;
        Ok(call)
    }

    /// Prepares what computes the computed inputs, and says where they lie.
    fn prepare_earlier(&mut self, device: &Device, checked: &Checked) -> Result<(), Error> {
        let graph = self.kernel.optimised.clone();
        let kernels = self.kernel.earlier.clone();
        let chunks = self.kernel.chunks.clone();
        let last_reads = last_reads(&graph);
        let mut lifetimes = Vec::new();
        for (launch, (earlier, kernel)) in graph.earlier().into_iter().zip(&kernels).enumerate() {
            if let Some(chunks) = chunks.as_ref().filter(|it| it.launches.contains(&launch)) {
                if chunks.launches.start == launch {
                    let lives = (&last_reads[..], &mut lifetimes);
                    self.prepare_chunks(device, checked, chunks, lives)?;
                }
                continue;
            }
            let places = graph.places_of(earlier.graph);
            let inputs = places.iter().map(|place| checked.inputs[*place].clone()).collect();
            let problem = checked.problem.of_computing(earlier.graph)?;
            let somewhere = checked.somewhere;
            let (mut tensors, mut stores) = (Vec::new(), Vec::new());
            for (output, input) in earlier.graph.outputs().iter().zip(&earlier.inputs) {
                let place = input.map(|input| input.0 as usize);
                let result = place.and_then(|place| graph.inputs()[place].result_place());
                if let (Some(place), Some(result)) = (place, result) {
                    tensors.push(checked.results[result].clone());
                    stores.push(Store::Result(place, 0));
                    continue;
                }
                let shape = problem.shape(&output.dims);
                let lies = Placement::between_launches(output.dtype, &shape);
                let bytes = lies.bytes(output.dtype, &shape) as u64;
                let device = device.ordinal();
                tensors.push(between_launches(output.dtype, shape, somewhere, device));
                stores.push(Store::Intermediate(lifetimes.len(), place));
                let last = place.and_then(|place| last_reads[place]).unwrap_or(launch);
                let last = until(last, chunks.as_ref());
                lifetimes.push(Lifetime { bytes, first: launch, last });
            }
            let own = Checked::of(&kernel.optimised, problem, device.ordinal(), inputs, tensors);
            let call = PreparedCall::of(kernel, device, &own)?;
            let inside = lifetimes.len();
            lifetimes.push(Lifetime { bytes: call.block.bytes, first: launch, last: launch });
            let reads = places.into_iter().map(|place| Read::Input(place, 0)).collect();
            self.earlier.push(EarlierCall { call, reads, stores, inside });
        }
        self.block = Block::of(&lifetimes);
        Ok(())
    }

    /// Queues the kernel on a stream and returns; failures on the GPU come up when the stream is waited for.
    pub fn launch(&self, stream: &Stream) -> Result<(), Error> {
        match &self.launch {
            Some(launch) if self.earlier.is_empty() && self.tables.is_empty() => {
                Ok(launch.launch(stream)?)
            }
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
        let graph = &self.kernel.optimised;
        let (inputs, outputs) = addresses.split_at(graph.passed_inputs().count());
        let places = graph.passed_places();
        // Computed inputs are behind what a call passes.
        let inputs =
            places.iter().zip(graph.inputs()).map(|(place, input)| match input.result_place() {
                Some(result) => outputs[result],
                None => inputs.get(*place).copied().flatten(),
            });
        let own = graph.own_results().into_iter().map(|place| outputs[place]);
        let scalars: Vec<Option<f64>> =
            places.iter().map(|place| scalars.get(*place).copied().flatten()).collect();
        let given = inputs.chain(own).zip(&self.addresses);
        let addresses: Vec<u64> = given.map(|(given, own)| given.unwrap_or(*own)).collect();
        let starts = |all: &[u64]| -> Vec<u64> {
            all.iter().map(|address| address % Placement::PERIOD).collect()
        };
        assert!(
            starts(&addresses) == starts(&self.addresses),
            "tensors that the call was not prepared for"
        );
        self.launch_all(stream, &addresses, &scalars)
    }

    /// What is computed before, then the kernel, one behind the other on the stream.
    fn launch_all(
        &self,
        stream: &Stream,
        addresses: &[u64],
        scalars: &[Option<f64>],
    ) -> Result<(), Error> {
        if self.earlier.is_empty() {
            return Ok(self.launch_alone(stream, Order::Behind, addresses, scalars)?);
        }
        let device = self.function.device();
        // A tensor without elements lies somewhere too.
        let bytes = self.block.bytes.max(Placement::PERIOD);
        let mut order = Order::Behind;
        let launch = |base: u64| self.launch_from(stream, &mut order, base, addresses, scalars);
        Ok(device.intermediates().with_any(device.context(), stream, bytes, launch)?)
    }

    /// The same with memory for what is computed before. The first launch of all begins when the stream has come to it; those
    /// behind it may overlap.
    fn launch_from(
        &self,
        stream: &Stream,
        order: &mut Order,
        base: u64,
        addresses: &[u64],
        scalars: &[Option<f64>],
    ) -> Result<(), RuntimeError> {
        self.each(base, addresses, scalars, &mut |step| self.take(step, stream, order))
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
                zero(self.function.device().context(), address, bytes, stream)
            }
            Step::Launch(call, addresses, scalars) => {
                let own = if call.kernel.overlaps() { *order } else { Order::Behind };
                call.launch_alone(stream, own, addresses, scalars)?;
                if call.launch.is_some() {
                    *order = Order::Overlapping;
                }
                Ok(())
            }
        }
    }

    /// Every step in order, where what is computed before lies from here on.
    pub(super) fn each<'c>(
        &'c self,
        base: u64,
        addresses: &[u64],
        scalars: &[Option<f64>],
        visit: &mut Visit<'_, 'c>,
    ) -> Result<(), RuntimeError> {
        let mut addresses = addresses.to_vec();
        let at = |value: usize| base + self.block.offsets[value];
        for (value, bytes, place) in &self.sums {
            addresses[*place] = at(*value);
            visit(Step::Zero(at(*value), *bytes))?;
        }
        for EarlierCall { call, reads, stores, inside } in &self.earlier {
            let read = |own: usize| match reads.get(own) {
                Some(Read::Input(place, shift)) => addresses[*place].wrapping_add_signed(*shift),
                // Where it was cut, its own computed inputs get their addresses when it is launched.
                Some(Read::Number(_)) | None => call.addresses[own],
            };
            let written = |output: usize| match &stores[output] {
                Store::Intermediate(value, _) => at(*value),
                Store::Result(place, shift) => addresses[*place].wrapping_add_signed(*shift),
            };
            // Of a call that was cut, launches before its last one store some of the outputs.
            let graph = &call.kernel.optimised;
            let inputs = graph.inputs().iter().enumerate();
            let inputs =
                inputs.map(|(own, input)| input.result_place().map_or_else(|| read(own), written));
            let outputs = graph.own_results().into_iter().map(written);
            let given: Vec<u64> = inputs.chain(outputs).collect();
            let values = reads.iter().map(|read| match read {
                Read::Input(place, _) => scalars[*place],
                Read::Number(value) => Some(*value),
            });
            let mut values: Vec<Option<f64>> = values.collect();
            values.resize(call.scalars.len(), None);
            call.each(at(*inside), &given, &values, visit)?;
            for store in stores {
                if let Store::Intermediate(value, Some(place)) = store {
                    addresses[*place] = at(*value);
                }
            }
        }
        visit(Step::Launch(self, &addresses, scalars))
    }

    /// The kernel's own launch.
    pub(super) fn launch_alone(
        &self,
        stream: &Stream,
        order: Order,
        addresses: &[u64],
        scalars: &[Option<f64>],
    ) -> Result<(), RuntimeError> {
        let Some(launch) = &self.launch else { return Ok(()) };
        self.tables.keep_for(stream)?;
        if self.scalars == scalars && self.addresses == addresses {
            return launch.launch_in(stream, order);
        }
        let address = |buffer: Buffer| {
            let table = || self.tables.addresses().find(|(table, _)| *table == buffer);
            let found = addresses.get(buffer.0 as usize).copied();
            found.or_else(|| Some(table()?.1)).ok_or(RuntimeError::NoAddress { buffer })
        };
        if self.scalars == scalars {
            return launch.launch_at(stream, order, address);
        }
        let mut facts = self.planned.launch(scalars);
        facts.grid[0] = launch.facts().grid[0];
        let buffers = (0..addresses.len() as u32).map(Buffer);
        let addresses = buffers.zip(addresses.iter().copied()).chain(self.tables.addresses());
        let addresses: Vec<_> = addresses.collect();
        PreparedLaunch::new(&self.function, facts, &addresses)?.launch_in(stream, order)
    }

    /// Whether it reads or writes lists of tensors.
    pub(super) fn has_lists(&self) -> bool {
        !self.tables.is_empty() || self.earlier.iter().any(|earlier| earlier.call.has_lists())
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
        let device = self.function.device().clone();
        let device = &device;
        let sizes = &self.problem.sizes;
        let checked = Checked::new(&self.kernel, device, inputs, outputs, sizes)?;
        let program = self.kernel.lowered.program().map_err(TargetRefusal::from)?;
        let (problem, placements) = (&checked.problem, &checked.placements);
        let planning = Planning { program, problem, placements, chip: chip(device)? };
        let planned = planning.accept(&self.planned.schedule())?;
        if planned.placements().int64_inputs() != self.planned.placements().int64_inputs() {
            return Err(RuntimeError::Width.into());
        }
        let earlier = (
            std::mem::take(&mut self.earlier),
            std::mem::take(&mut self.sums),
            std::mem::take(&mut self.block),
        );
        let prepared =
            if checked.is_nothing { Ok(()) } else { self.prepare_earlier(device, &checked) };
        match prepared.and_then(|()| self.bind(&checked, planned)) {
            Ok(()) => Ok(()),
            Err(error) => {
                (self.earlier, self.sums, self.block) = earlier;
                Err(error)
            }
        }
    }

    /// Encodes the launch for these tensors; on a failure everything stays as it was.
    fn bind(&mut self, checked: &Checked, planned: Planned) -> Result<(), Error> {
        if !checked.is_empty {
            let mut before = None;
            if !self.tables.are_of(&checked.lists) {
                let tables = Tables::new(&checked.lists, self.function.device())?;
                before = Some(std::mem::replace(&mut self.tables, tables));
            }
            let encoded = self.encode(&planned, &checked.scalars, &checked.addresses);
            if let (Err(_), Some(before)) = (&encoded, before) {
                self.tables = before;
            }
            encoded?;
        }
        self.planned = planned;
        self.scalars.clone_from(&checked.scalars);
        self.addresses = checked.addresses.iter().map(|(_, address)| *address).collect();
        Ok(())
    }

    fn encode(
        &mut self,
        planned: &Planned,
        scalars: &[Option<f64>],
        addresses: &[(Buffer, u64)],
    ) -> Result<(), Error> {
        let mut facts = planned.launch(scalars);
        facts.grid[0] = facts.grid[0].min(self.resident(&facts)?);
        let addresses = addresses.iter().copied().chain(self.tables.addresses());
        let addresses: Vec<(Buffer, u64)> = addresses.collect();
        match &mut self.launch {
            Some(launch) if *launch.facts() == facts => launch.rebind(&addresses)?,
            other => *other = Some(PreparedLaunch::new(&self.function, facts, &addresses)?),
        }
        Ok(())
    }

    /// The kernel's own launch with another schedule, without what is computed before it.
    pub(super) fn alone(&self, planned: &Planned) -> Result<PreparedCall, Error> {
        let device = self.function.device();
        let program = self.kernel.programs.get(&self.kernel, device, planned)?;
        let mut call =
            PreparedCall::begun(&self.kernel, &self.problem, planned.clone(), program.function);
        call.scalars.clone_from(&self.scalars);
        call.addresses.clone_from(&self.addresses);
        let buffers = (0..self.addresses.len() as u32).map(Buffer);
        let addresses: Vec<_> = buffers.zip(self.addresses.iter().copied()).collect();
        call.encode(planned, &self.scalars, &addresses)?;
        Ok(call)
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
