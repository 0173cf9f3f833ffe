//! A call's tensors on a GPU: validated, and what planning and launching want to know of them.

use std::collections::BTreeMap;
use std::sync::Arc;

use postlude_ptx::launch::Buffer;

use crate::cuda::GpuKernel;
use crate::dtype::DType;
use crate::graph::Graph;
use crate::placement::{Placement, Placements};
use crate::problem::{Problem, Sizes};
use crate::runtime::{
    Device, DeviceArgument, DeviceTensor, RuntimeError, check_memory, overlap, validate,
};

/// A call that may be planned and launched.
pub(super) struct Checked {
    pub(super) problem: Problem,
    pub(super) placements: Placements,
    /// What the host passes, by place in the signature.
    pub(super) scalars: Vec<Option<f64>>,
    /// Where each buffer is: the inputs in the order of the signature, then the outputs of the last launch.
    pub(super) addresses: Vec<(Buffer, u64)>,
    /// Whether no output of the last launch has an element, so that it is not launched.
    pub(super) is_empty: bool,
    /// Whether no result has an element, so that nothing is launched.
    pub(super) is_nothing: bool,
    /// An address that a tensor map may have, at a multiple of [`Placement::PERIOD`].
    pub(super) somewhere: u64,
    /// Lists, by their buffers: how many steps of the first stride each of their tensors lies from the buffer's address.
    pub(super) lists: Vec<(Buffer, Arc<[u64]>)>,
    /// Every input, computed ones behind what is declared.
    pub(super) inputs: Vec<DeviceArgument>,
    /// What the call writes, in the order of the signature.
    pub(super) results: Vec<DeviceTensor>,
}

impl Checked {
    /// Validates arguments against the kernel and asks the driver whose memory they are.
    pub(super) fn new(
        kernel: &GpuKernel,
        device: &Device,
        inputs: &BTreeMap<String, DeviceArgument>,
        outputs: &BTreeMap<String, DeviceTensor>,
        sizes: &Sizes,
    ) -> Result<Checked, RuntimeError> {
        let graph = &kernel.defined;
        let mut problem = validate(graph, device.ordinal(), inputs, outputs, sizes)?;
        if kernel.chunks.is_some() {
            // Its last launch may be another one than the definition's.
            problem = problem.of_computing(&kernel.optimised)?;
        }
        let tensors = inputs.iter().filter_map(|(name, argument)| match argument {
            DeviceArgument::Tensor(tensor) => Some((name.as_str(), tensor)),
            DeviceArgument::Scalar(_) => None,
        });
        let written = outputs.iter().map(|(name, tensor)| (name.as_str(), tensor));
        check_memory(device, tensors.chain(written))?;
        let declared = graph.declared_inputs().iter();
        let declared = declared.map(|input| inputs[&graph.passed_as(input).name].clone());
        let results = graph.results().into_iter().map(|output| outputs[output.name].clone());
        let (declared, results) = (declared.collect(), results.collect());
        Ok(Checked::of(&kernel.optimised, problem, device.ordinal(), declared, results))
    }

    /// A call of validated arguments in the order of the signature. Computed inputs lie nowhere yet, at a multiple of
    /// [`Placement::PERIOD`].
    pub(super) fn of(
        graph: &Graph,
        problem: Problem,
        device: u32,
        declared: Vec<DeviceArgument>,
        results: Vec<DeviceTensor>,
    ) -> Checked {
        // Tensors without elements may lie nowhere; a tensor map of one is never read, but has to lie somewhere.
        let somewhere = results.iter().find(|tensor| !tensor.is_empty());
        let somewhere = somewhere.map_or(0, |tensor| tensor.address & !(Placement::PERIOD - 1));
        let computed = graph.computed_inputs().iter().map(|input| {
            if let Some(place) = input.result_place() {
                return DeviceArgument::Tensor(results[place].clone());
            }
            let shape = problem.shape(input.dims.as_deref().unwrap_or_default());
            DeviceArgument::Tensor(between_launches(input.dtype, shape, somewhere, device))
        });
        let inputs: Vec<DeviceArgument> = declared.into_iter().chain(computed).collect();
        let own = || graph.own_results().into_iter().map(|place| &results[place]);
        let mut call = Checked {
            problem,
            placements: Placements { inputs: Vec::new(), outputs: Vec::new() },
            scalars: Vec::new(),
            addresses: Vec::new(),
            is_empty: own().all(DeviceTensor::is_empty),
            is_nothing: results.iter().all(DeviceTensor::is_empty),
            somewhere,
            lists: Vec::new(),
            inputs: Vec::new(),
            results: Vec::new(),
        };
        for argument in &inputs {
            match argument {
                DeviceArgument::Scalar(value) => {
                    call.scalars.push(Some(*value));
                    call.placements.inputs.push(None);
                    call.push_address(somewhere);
                }
                DeviceArgument::Tensor(tensor) => {
                    call.scalars.push(None);
                    call.placements.inputs.push(Some(placement(tensor)));
                    call.push_list(tensor);
                    call.push_address(if tensor.is_empty() { somewhere } else { tensor.address });
                }
            }
        }
        for tensor in own() {
            call.placements.outputs.push(placement(tensor));
            call.push_list(tensor);
            call.push_address(tensor.address);
        }
        Checked { inputs, results, ..call }
    }

    /// The same call of another kernel with the same signature.
    pub(super) fn on(&self, kernel: &GpuKernel, device: &Device) -> Checked {
        self.on_sizes(kernel, device, self.problem.clone())
    }

    /// The same where the last launch has other dims.
    pub(super) fn on_sizes(
        &self,
        kernel: &GpuKernel,
        device: &Device,
        problem: Problem,
    ) -> Checked {
        let declared = kernel.optimised.declared_inputs().len();
        let inputs = self.inputs[..declared].to_vec();
        let results = self.results.clone();
        Checked::of(&kernel.optimised, problem, device.ordinal(), inputs, results)
    }

    /// Refuses outputs of a call's last launch, which is of this graph, in the memory of an input whose elements other
    /// threads read than the ones that write there.
    pub(super) fn refuse_shared(&self, graph: &Graph) -> Result<(), RuntimeError> {
        let declared = graph.declared_inputs().iter().zip(&self.inputs);
        let results = graph.results();
        for (input, argument) in declared {
            let DeviceArgument::Tensor(tensor) = argument else { continue };
            let mut own = graph.own_results().into_iter();
            if let Some(place) = own.find(|place| overlap(&self.results[*place], tensor)) {
                let (output, input) = (results[place].name.to_owned(), input.name.clone());
                return Err(RuntimeError::OverlapsOthers { output, input });
            }
        }
        Ok(())
    }

    /// Remembers the list of the next buffer, if it is one.
    fn push_list(&mut self, tensor: &DeviceTensor) {
        let buffer = Buffer(self.addresses.len() as u32);
        self.lists.extend(tensor.list.clone().map(|list| (buffer, list)));
    }

    fn push_address(&mut self, address: u64) {
        self.addresses.push((Buffer(self.addresses.len() as u32), address));
    }
}

/// A tensor that a launch stores for a later one.
pub(super) fn between_launches(
    dtype: DType,
    shape: Vec<usize>,
    address: u64,
    device: u32,
) -> DeviceTensor {
    let strides = Placement::between_launches(dtype, &shape).strides;
    DeviceTensor { strides, ..DeviceTensor::contiguous(dtype, shape, address, device) }
}

/// Where a tensor lies; one without elements is in nobody's way.
fn placement(tensor: &DeviceTensor) -> Placement {
    let address = if tensor.is_empty() { 0 } else { tensor.address };
    let lies = Placement::at(tensor.strides.clone(), address).of_dtype(tensor.dtype);
    Placement { list: tensor.list_steps(), ..lies }
}
