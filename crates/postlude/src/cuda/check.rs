//! A call's tensors on a GPU: validated, and what planning and launching want to know of them.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::cuda::kernel::GpuKernel;
use crate::graph::Graph;
use crate::placement::Placement;
use crate::problem::{Problem, Sizes};
use crate::program::{Base, CallTensors, KernelLaunch, View};
use crate::runtime::{
    Device, DeviceArgument, DeviceTensor, RuntimeError, check_memory, overlap, validate,
};

/// A call that may be planned and launched.
pub(super) struct Checked {
    pub(super) problem: Problem,
    /// Every declared input, in the order of the signature.
    declared: Vec<DeviceArgument>,
    /// What the call writes, in the order of the signature.
    results: Vec<DeviceTensor>,
    /// An address that a tensor map may have, at a multiple of [`Placement::PERIOD`]. Tensors without elements may lie
    /// nowhere; a tensor map of one is never read, but has to lie somewhere.
    somewhere: u64,
}

/// A tensor, or a number, as a launch gets it.
pub(super) struct Bound {
    pub(super) address: u64,
    pub(super) scalar: Option<f64>,
    /// Of a list, how many steps of the first stride each of its tensors lies from the address.
    pub(super) list: Option<Arc<[u64]>>,
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
        let declared = graph.declared_inputs().iter();
        let declared = declared.map(|input| inputs[&graph.passed_as(input).name].clone());
        let results = graph.results().into_iter().map(|output| outputs[output.name].clone());
        let (declared, results) = (declared.collect(), results.collect::<Vec<_>>());
        let lies = results.iter().find(|tensor| !tensor.is_empty());
        let somewhere = lies.map_or(0, |tensor| tensor.address & !(Placement::PERIOD - 1));
        Ok(Checked { problem, declared, results, somewhere })
    }

    /// Whether no result has an element, so that nothing is launched.
    pub(super) fn is_nothing(&self) -> bool {
        self.results.iter().all(DeviceTensor::is_empty)
    }

    /// Where everything lies.
    pub(super) fn tensors(&self) -> CallTensors {
        let declared = self.declared.iter().map(|argument| match argument {
            DeviceArgument::Tensor(tensor) => Some(placement(tensor)),
            DeviceArgument::Scalar(_) => None,
        });
        CallTensors::of(declared.collect(), self.results.iter().map(placement).collect())
    }

    /// A tensor of the call as a launch gets it. Values between launches get their addresses when it is launched.
    fn bound(&self, view: &View) -> Bound {
        let nowhere = Bound { address: self.somewhere, scalar: None, list: None };
        let tensor = match view.base {
            Base::Input(place) => match &self.declared[place] {
                DeviceArgument::Scalar(value) => return Bound { scalar: Some(*value), ..nowhere },
                DeviceArgument::Tensor(tensor) => tensor,
            },
            Base::Result(place) => &self.results[place],
            Base::Stored(_) => {
                let address = self.somewhere.wrapping_add_signed(view.shift);
                return Bound { address, ..nowhere };
            }
            Base::Number(value) => return Bound { scalar: Some(value), ..nowhere },
            Base::Nowhere => return nowhere,
        };
        let whole = self.lies(tensor);
        let items = view.parts.iter().filter(|part| part.dim == 0);
        let list = tensor.list.clone().map(|list| {
            items.fold(list, |list, part| list[part.first..part.first + part.count].into())
        });
        Bound { address: whole.wrapping_add_signed(view.shift), scalar: None, list }
    }

    fn lies(&self, tensor: &DeviceTensor) -> u64 {
        if tensor.is_empty() { self.somewhere } else { tensor.address }
    }

    /// The same call where declared inputs and results are at these addresses.
    pub(super) fn at(&self, addresses: &[u64]) -> Checked {
        let (mut declared, mut results) = (self.declared.clone(), self.results.clone());
        let (inputs, outputs) = addresses.split_at(declared.len());
        for (argument, address) in declared.iter_mut().zip(inputs) {
            if let DeviceArgument::Tensor(tensor) = argument {
                tensor.address = *address;
            }
        }
        for (tensor, address) in results.iter_mut().zip(outputs) {
            tensor.address = *address;
        }
        Checked { problem: self.problem.clone(), declared, results, somewhere: self.somewhere }
    }

    /// What a launch reads, then what it writes.
    pub(super) fn all_bound(&self, launch: &KernelLaunch) -> Vec<Bound> {
        let views = launch.reads.iter().chain(&launch.stores);
        views.map(|view| self.bound(view)).collect()
    }

    /// Where declared inputs and results are, and what the host passes.
    pub(super) fn addresses(&self) -> (Vec<u64>, Vec<Option<f64>>) {
        let declared = self.declared.iter().map(|argument| match argument {
            DeviceArgument::Scalar(value) => (self.somewhere, Some(*value)),
            DeviceArgument::Tensor(tensor) => (self.lies(tensor), None),
        });
        let (mut addresses, scalars): (Vec<u64>, _) = declared.unzip();
        addresses.extend(self.results.iter().map(|tensor| self.lies(tensor)));
        (addresses, scalars)
    }

    /// Refuses outputs of a call's last launch, which is of this graph, in the memory of an input whose elements other
    /// threads read than the ones that write there.
    pub(super) fn refuse_shared(&self, graph: &Graph) -> Result<(), RuntimeError> {
        let declared = graph.declared_inputs().iter().zip(&self.declared);
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
}

/// Where a tensor lies; one without elements is in nobody's way.
fn placement(tensor: &DeviceTensor) -> Placement {
    let address = if tensor.is_empty() { 0 } else { tensor.address };
    let lies = Placement::at(tensor.strides.clone(), address).of_dtype(tensor.dtype);
    Placement { list: tensor.list_steps(), ..lies }
}
