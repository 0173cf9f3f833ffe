//! A call on host tensors: copied to the GPU, run there, copied back.
//!
//! In: host tensors. Out: outputs in host tensors, of any strides.
//! Invariant: with a guard every output is poisoned before it is launched and lies between canaries that are read after
//! it; a kernel that writes anything but its output is a compiler bug and ends in a panic.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use crate::cuda::call::PreparedCall;
use crate::cuda::kernel::GpuKernel;
use crate::error::Error;
use crate::graph::InputId;
use crate::image;
use crate::image::guard::{self, CANARY, CANARY_BYTES, POISON};
use crate::image::list::List;
use crate::placement::Placement;
use crate::problem::{Argument, Problem};
use crate::runtime::{
    Device, DeviceArgument, DeviceBuffer, DeviceTensor, Event, RuntimeError, Stream,
};
use crate::tensor::{Tensor, TensorView, TensorViewMut};

/// A call on host tensors whose inputs are on the GPU.
pub struct HostCall {
    call: PreparedCall,
    stream: Stream,
    /// Kept until the call is done.
    inputs: Vec<DeviceBuffer>,
    outputs: Vec<Written>,
    /// How the outputs lie.
    places: Vec<Placement>,
}

/// The memory of an output.
struct Written {
    name: String,
    buffer: DeviceBuffer,
    /// Bytes of the output.
    bytes: u64,
    /// Bytes of canary on each side; none without a guard.
    margin: u64,
    /// Where it is laid out as a list.
    list: Option<List>,
}

impl HostCall {
    /// Copies inputs to the GPU, and takes memory there for outputs that lie as these do.
    pub(crate) fn upload(
        kernel: &Arc<GpuKernel>,
        device: &Device,
        problem: &Problem,
        arguments: &[Argument<'_>],
        outputs: &[TensorView<'_>],
    ) -> Result<HostCall, Error> {
        let stream = Stream::new(device)?;
        let graph = &kernel.defined;
        let (mut buffers, mut inputs) = (Vec::new(), BTreeMap::new());
        let given = graph.inputs().iter().zip(arguments);
        for (input, argument) in given.filter(|(input, _)| input.is_passed()) {
            let argument = match (argument, argument.tensor()) {
                (Argument::Scalar(value), _) => DeviceArgument::Scalar(*value),
                (_, None) => continue,
                (_, Some(tensor)) => {
                    let place = graph.place_of(&input.name) as u32;
                    let list =
                        kernel.options.lists.then(|| List::of_input(graph, InputId(place), tensor));
                    let (buffer, tensor) = upload(tensor, list.flatten(), device, &stream)?;
                    buffers.push(buffer);
                    DeviceArgument::Tensor(tensor)
                }
            };
            inputs.insert(input.name.clone(), argument);
        }
        let margin = if kernel.options.guard { CANARY_BYTES } else { 0 };
        // Rows behind the last segment stay what they are on the host.
        let keeps = graph.has_segments();
        let (mut written, mut results) = (Vec::new(), BTreeMap::new());
        for (output, tensor) in graph.results().iter().zip(outputs.iter().copied()) {
            let list = kernel.options.lists.then(|| List::of(graph, output.dims, tensor));
            let list = list.flatten();
            let memory = Written::new(output.name, (tensor, list), margin, device, &stream)?;
            if keeps && margin == 0 && memory.list.is_none() {
                memory.buffer.write(&stream, 0, tensor.bytes())?;
            }
            results.insert(output.name.to_owned(), memory.tensor(tensor));
            written.push(memory);
        }
        let call = PreparedCall::new(kernel, device, &inputs, &results, &problem.sizes)?;
        let places = outputs.iter().map(|tensor| image::placement(*tensor)).collect();
        Ok(HostCall { call, stream, inputs: buffers, outputs: written, places })
    }

    /// The call itself.
    pub fn prepared(&self) -> &PreparedCall {
        &self.call
    }

    /// Queues the kernel.
    pub fn launch(&self) -> Result<(), Error> {
        self.call.launch(&self.stream)
    }

    /// Bytes of its tensors on the GPU.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        let inputs: u64 = self.inputs.iter().map(DeviceBuffer::len).sum();
        inputs + self.outputs.iter().map(|written| written.bytes).sum::<u64>()
    }

    /// Bytes of the GPU's L2.
    #[must_use]
    pub fn l2_bytes(&self) -> u64 {
        self.stream.device().l2_bytes().into()
    }

    /// The GPU's time for some launches of these calls, in turn on the first one's stream; as many before them keep the GPU
    /// busy while the host queues.
    pub fn time_in_turn(calls: &[HostCall], launches: usize) -> Result<Duration, Error> {
        let Some(HostCall { stream, .. }) = calls.first() else { return Ok(Duration::ZERO) };
        let (begin, end) = (Event::new(stream.device())?, Event::new(stream.device())?);
        let launch = || {
            let mut turns = calls.iter().cycle().take(launches);
            turns.try_for_each(|turn| turn.call.launch(stream))
        };
        launch()?;
        begin.record(stream)?;
        launch()?;
        end.record(stream)?;
        end.synchronize()?;
        Ok(end.since(&begin)?)
    }

    /// Waits for the kernel and copies outputs into host tensors that lie as the first ones did.
    pub fn download(&self, outputs: &mut [Tensor]) -> Result<(), Error> {
        let mut outputs: Vec<_> = outputs.iter_mut().map(Tensor::view_mut).collect();
        self.download_views(&mut outputs)
    }

    pub(crate) fn download_views(&self, outputs: &mut [TensorViewMut<'_>]) -> Result<(), Error> {
        let names: Vec<String> = self.outputs.iter().map(|written| written.name.clone()).collect();
        let memory = self.outputs.iter().map(|written| written.bytes as usize);
        image::check_same(&names, &self.places, memory, outputs)?;
        for (written, tensor) in self.outputs.iter().zip(outputs) {
            written.read(tensor, &self.stream)?;
        }
        Ok(())
    }
}

/// Copies a tensor to the GPU.
fn upload(
    tensor: TensorView<'_>,
    list: Option<List>,
    device: &Device,
    stream: &Stream,
) -> Result<(DeviceBuffer, DeviceTensor), RuntimeError> {
    if let Some(list) = list {
        let bytes = list.lay_out(tensor.bytes(), POISON);
        let buffer = device.allocate(bytes.len() as u64)?;
        buffer.write(stream, 0, &bytes)?;
        let on_device = listed(&list, tensor, &buffer);
        return Ok((buffer, on_device));
    }
    let bytes = tensor.bytes();
    let buffer = device.allocate(bytes.len() as u64)?;
    buffer.write(stream, 0, bytes)?;
    let on_device = DeviceTensor {
        dtype: tensor.dtype(),
        shape: tensor.shape().to_vec(),
        strides: tensor.strides().to_vec(),
        address: buffer.address() + image::start(tensor) as u64,
        device: device.ordinal(),
        list: None,
    };
    Ok((buffer, on_device))
}

/// A tensor that is laid out as a list.
fn listed(list: &List, host: TensorView<'_>, buffer: &DeviceBuffer) -> DeviceTensor {
    DeviceTensor {
        dtype: host.dtype(),
        shape: host.shape().to_vec(),
        strides: list.placement.strides.clone(),
        address: buffer.address() + list.start as u64,
        device: buffer.device().ordinal(),
        list: Some(list.steps.iter().map(|steps| u64::from(*steps)).collect()),
    }
}

impl Written {
    fn new(
        name: &str,
        (tensor, list): (TensorView<'_>, Option<List>),
        margin: u64,
        device: &Device,
        stream: &Stream,
    ) -> Result<Written, RuntimeError> {
        if let Some(list) = list {
            let mut image = list.lay_out(tensor.bytes(), POISON);
            if margin > 0 {
                image.fill(POISON);
            }
            let (buffer, bytes) = (device.allocate(image.len() as u64)?, tensor.bytes().len());
            buffer.write(stream, 0, &image)?;
            let (name, bytes, list) = (name.to_owned(), bytes as u64, Some(list));
            return Ok(Written { name, buffer, bytes, margin: 0, list });
        }
        let bytes = tensor.bytes().len() as u64;
        let buffer = device.allocate(bytes + 2 * margin)?;
        if margin > 0 {
            buffer.fill(stream, 0, margin, CANARY)?;
            buffer.fill(stream, margin, bytes, POISON)?;
            buffer.fill(stream, margin + bytes, margin, CANARY)?;
        }
        Ok(Written { name: name.to_owned(), buffer, bytes, margin, list: None })
    }

    /// The tensor that a kernel writes.
    fn tensor(&self, host: TensorView<'_>) -> DeviceTensor {
        if let Some(list) = &self.list {
            return listed(list, host, &self.buffer);
        }
        let offset = image::start(host) as u64;
        DeviceTensor {
            dtype: host.dtype(),
            shape: host.shape().to_vec(),
            strides: host.strides().to_vec(),
            address: self.buffer.address() + self.margin + offset,
            device: self.buffer.device().ordinal(),
            list: None,
        }
    }

    /// Copies what was written to the host; what lies between and around its elements stays as it is there.
    fn read(&self, tensor: &mut TensorViewMut<'_>, stream: &Stream) -> Result<(), RuntimeError> {
        if self.margin == 0 && self.list.is_none() && guard::is_packed(tensor.view()) {
            return self.buffer.read(stream, 0, tensor.bytes_mut());
        }
        let all = self.buffer.to_vec(stream)?;
        if let Some(list) = &self.list {
            list.take_back(&self.name, &all, POISON, tensor.bytes_mut());
            return Ok(());
        }
        let guarded = self.margin > 0;
        guard::take(&self.name, &all, self.margin as usize, guarded, tensor);
        Ok(())
    }
}
