//! A call's tensors on a GPU: validated, and what planning and launching want to know of them.

use std::collections::BTreeMap;

use postlude_ptx::launch::Buffer;

use crate::cuda::GpuKernel;
use crate::placement::{Placement, Placements};
use crate::problem::{Problem, Sizes};
use crate::runtime::{Device, DeviceArgument, DeviceTensor, RuntimeError, check_memory, validate};

/// What tensor maps want of addresses.
const MAP_ALIGNMENT: u64 = 16;

/// A call that may be planned and launched.
pub(super) struct Checked {
    pub(super) problem: Problem,
    pub(super) placements: Placements,
    /// What the host passes, by place in the signature.
    pub(super) scalars: Vec<Option<f64>>,
    /// Where each buffer is: the inputs in the order of the signature, then the outputs.
    pub(super) addresses: Vec<(Buffer, u64)>,
    /// Whether no output has an element, so that there is nothing to launch.
    pub(super) is_empty: bool,
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
        let problem = validate(graph, device.ordinal(), inputs, outputs, sizes)?;
        let tensors = inputs.iter().filter_map(|(name, argument)| match argument {
            DeviceArgument::Tensor(tensor) => Some((name.as_str(), tensor)),
            DeviceArgument::Scalar(_) => None,
        });
        let written = outputs.iter().map(|(name, tensor)| (name.as_str(), tensor));
        check_memory(device, tensors.chain(written))?;
        let results = || graph.outputs().iter().map(|output| &outputs[&output.name]);
        // Tensors without elements may lie nowhere; a tensor map of one is never read, but has to lie somewhere.
        let somewhere = results().find(|tensor| !tensor.is_empty());
        let somewhere = somewhere.map_or(0, |tensor| tensor.address & !(MAP_ALIGNMENT - 1));
        let mut call = Checked {
            problem,
            placements: Placements { inputs: Vec::new(), outputs: Vec::new() },
            scalars: Vec::new(),
            addresses: Vec::new(),
            is_empty: results().all(DeviceTensor::is_empty),
        };
        for input in graph.inputs() {
            match &inputs[&graph.passed_as(input).name] {
                DeviceArgument::Scalar(value) => {
                    call.scalars.push(Some(*value));
                    call.placements.inputs.push(None);
                    call.push_address(somewhere);
                }
                DeviceArgument::Tensor(tensor) => {
                    call.scalars.push(None);
                    call.placements.inputs.push(Some(placement(tensor)));
                    call.push_address(if tensor.is_empty() { somewhere } else { tensor.address });
                }
            }
        }
        for tensor in results() {
            call.placements.outputs.push(placement(tensor));
            call.push_address(tensor.address);
        }
        Ok(call)
    }

    fn push_address(&mut self, address: u64) {
        self.addresses.push((Buffer(self.addresses.len() as u32), address));
    }
}

/// Where a tensor lies; one without elements is in nobody's way.
fn placement(tensor: &DeviceTensor) -> Placement {
    let address = if tensor.is_empty() { 0 } else { tensor.address };
    Placement::at(tensor.strides.clone(), address)
}
