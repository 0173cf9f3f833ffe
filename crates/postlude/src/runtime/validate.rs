//! Arguments on a GPU against a kernel's signature.
//!
//! In: a kernel, tensors and scalars by name. Out: the [`Problem`] they make, with every rule of a launch kept: types,
//! sizes, alignment, one GPU, an output nowhere near anything but the one tile it may replace.

use std::collections::BTreeMap;

use crate::graph::{Graph, Input, InputId, Kind};
use crate::problem::{self, BindError, BodyStrides, Problem, Sizes};
use crate::runtime::device::Device;
use crate::runtime::driver;
use crate::runtime::error::RuntimeError;
use crate::runtime::overlap;
use crate::runtime::tensor::DeviceTensor;
use crate::shape::Dim;
use crate::tensor::fills_bytes;

/// An argument of a call on a GPU.
#[derive(Clone, PartialEq, Debug)]
pub enum DeviceArgument {
    /// A tensor in the GPU's memory.
    Tensor(DeviceTensor),
    /// A scalar that the host passes.
    Scalar(f64),
}

/// The sizes of a call, if its arguments fit the kernel and one another.
///
/// `device` is the number of the GPU that the kernel runs on. An output may be exactly a tile operand (same start,
/// shape, strides and dtype), never an operand of the product, and overlaps nothing else.
pub fn validate(
    graph: &Graph,
    device: u32,
    inputs: &BTreeMap<String, DeviceArgument>,
    outputs: &BTreeMap<String, DeviceTensor>,
    sizes: &Sizes,
) -> Result<Problem, RuntimeError> {
    let problem = bind(graph, inputs, sizes)?;
    let tensors = graph.declared_inputs().iter().filter_map(|input| tensor(graph, input, inputs));
    for (input, argument) in tensors {
        if let Some(dims) = &input.dims {
            problem.check_shape(&input.name, dims, &argument.shape)?;
        }
        check_tensor(&input.name, argument, device)?;
        check_list(graph, &input.name, input.dims.as_deref().unwrap_or_default(), argument)?;
    }
    let results = graph.results();
    for name in outputs.keys() {
        if !results.iter().any(|result| result.name == name) {
            return Err(RuntimeError::UnknownOutput { name: name.clone() });
        }
    }
    for output in results {
        let name = || output.name.to_owned();
        let given =
            outputs.get(output.name).ok_or_else(|| RuntimeError::MissingOutput { name: name() })?;
        if given.dtype != output.dtype {
            let (declared, given) = (output.dtype, given.dtype);
            return Err(BindError::DType { name: name(), declared, given }.into());
        }
        problem.check_shape(output.name, output.dims, &given.shape)?;
        check_tensor(output.name, given, device)?;
        if !overlap::has_own_places(given) {
            return Err(RuntimeError::SelfOverlap { name: name(), strides: given.strides.clone() });
        }
        check_list(graph, output.name, output.dims, given)?;
        if given.list.is_some() && overlap::items_overlap(given) {
            return Err(RuntimeError::ListOverlap { name: name() });
        }
    }
    check_overlaps(graph, inputs, outputs)?;
    Ok(problem)
}

/// Asks the driver whether every tensor is memory of this GPU.
pub fn check_memory<'a>(
    device: &Device,
    tensors: impl IntoIterator<Item = (&'a str, &'a DeviceTensor)>,
) -> Result<(), RuntimeError> {
    for (name, tensor) in tensors.into_iter().filter(|(_, tensor)| !tensor.is_empty()) {
        let name = || name.to_owned();
        for item in tensor.apart() {
            match driver::pointer_device(device.context(), item.address)? {
                None => return Err(RuntimeError::NotDeviceMemory { name: name() }),
                Some(given) if given != device.ordinal() => {
                    let device = device.ordinal();
                    return Err(RuntimeError::OtherDevice { name: name(), given, device });
                }
                Some(_) => {}
            }
        }
    }
    Ok(())
}

/// The sizes that the arguments tell, with those given.
fn bind(
    graph: &Graph,
    inputs: &BTreeMap<String, DeviceArgument>,
    given: &Sizes,
) -> Result<Problem, BindError> {
    let mut sizes = given.clone();
    inputs.keys().try_for_each(|name| problem::check_passed(graph, name))?;
    for input in graph.declared_inputs() {
        let passed = &graph.passed_as(input).name;
        let name = || passed.clone();
        match (&input.dims, inputs.get(passed)) {
            (_, None) => return Err(BindError::Missing { name: name() }),
            (None, Some(DeviceArgument::Scalar(_))) => {}
            (None, Some(DeviceArgument::Tensor(_))) => {
                return Err(BindError::WantsScalar { name: name() });
            }
            (Some(_), Some(DeviceArgument::Scalar(_))) => {
                return Err(BindError::WantsTensor { name: name() });
            }
            (Some(_), Some(DeviceArgument::Tensor(tensor))) => {
                let given = (tensor.dtype, &*tensor.shape);
                problem::collect_sizes(graph, input, given, &mut sizes)?;
            }
        }
    }
    Problem::new(graph, &sizes)
}

fn tensor<'a>(
    graph: &'a Graph,
    input: &'a Input,
    inputs: &'a BTreeMap<String, DeviceArgument>,
) -> Option<(&'a Input, &'a DeviceTensor)> {
    match inputs.get(&graph.passed_as(input).name)? {
        DeviceArgument::Tensor(tensor) => Some((input, tensor)),
        DeviceArgument::Scalar(_) => None,
    }
}

/// What a tensor has to be whatever it is for.
fn check_tensor(name: &str, tensor: &DeviceTensor, device: u32) -> Result<(), RuntimeError> {
    let named = || name.to_owned();
    let (sizes, strides) = (tensor.shape.len(), tensor.strides.len());
    if sizes != strides {
        return Err(RuntimeError::Rank { name: named(), sizes, strides });
    }
    if tensor.device != device {
        return Err(RuntimeError::OtherDevice { name: named(), given: tensor.device, device });
    }
    if tensor.is_empty() {
        return Ok(());
    }
    if tensor.address == 0 {
        return Err(RuntimeError::NotDeviceMemory { name: named() });
    }
    let bytes = tensor.dtype.bits().div_ceil(8) as u64;
    if !tensor.address.is_multiple_of(bytes) {
        let (address, dtype) = (tensor.address, tensor.dtype);
        return Err(RuntimeError::Alignment { name: named(), address, dtype });
    }
    check_packed(name, tensor)?;
    let (mut low, mut high) = (i128::from(tensor.address), i128::from(tensor.address));
    let steps = tensor.list_steps().into_iter();
    let sizes = steps.chain(tensor.shape.iter().copied().skip(tensor.list.is_some().into()));
    for (size, stride) in sizes.zip(&tensor.strides) {
        let reach = (size as i128 - 1) * *stride as i128 * i128::from(bytes);
        low += reach.min(0);
        high += reach.max(0);
    }
    // A GPU's addresses have fewer than 63 bits.
    if low < 0 || high > i128::from(i64::MAX) {
        return Err(RuntimeError::Reach { name: named() });
    }
    Ok(())
}

/// A kernel looks a list's tensors up by their place along a batch dim.
fn check_list(
    graph: &Graph,
    name: &str,
    dims: &[Dim],
    tensor: &DeviceTensor,
) -> Result<(), RuntimeError> {
    let is_batched = dims.first().is_some_and(|first| graph.space().batch.contains(first));
    if tensor.list.is_none() || is_batched {
        return Ok(());
    }
    Err(RuntimeError::ListDim { name: name.to_owned() })
}

/// Packed elements lie in whole bytes: bits without gaps, halves of bytes along their last dim.
fn check_packed(name: &str, tensor: &DeviceTensor) -> Result<(), RuntimeError> {
    let named = || name.to_owned();
    match tensor.dtype.per_byte() {
        1 => Ok(()),
        2 if fills_bytes(&tensor.shape, &tensor.strides) => Ok(()),
        2 => Err(RuntimeError::HalfBytes { name: named(), dtype: tensor.dtype }),
        _ if tensor.is_contiguous() => Ok(()),
        _ => Err(RuntimeError::Packed { name: named() }),
    }
}

fn check_overlaps(
    graph: &Graph,
    inputs: &BTreeMap<String, DeviceArgument>,
    outputs: &BTreeMap<String, DeviceTensor>,
) -> Result<(), RuntimeError> {
    let products = graph.products().iter();
    let product: Vec<InputId> =
        products.flat_map(|product| [product.left.0, product.right.0]).collect();
    for (output, memory) in outputs {
        for (place, input) in graph.declared_inputs().iter().enumerate() {
            let id = InputId(place as u32);
            let Some((_, operand)) = tensor(graph, input, inputs) else { continue };
            if !overlap::overlap(memory, operand) {
                continue;
            }
            let (output, input) = (output.clone(), input.name.clone());
            if product.contains(&id) || is_read_before(graph, &input) {
                return Err(RuntimeError::OverlapsProduct { output, input });
            }
            if !is_same_tile(graph, &output, memory, id, operand) {
                return Err(RuntimeError::Overlap { output, input });
            }
        }
        for (other, others) in outputs
            .range::<String, _>((std::ops::Bound::Excluded(output), std::ops::Bound::Unbounded))
        {
            if overlap::overlap(memory, others) {
                let (first, second) = (output.clone(), other.clone());
                return Err(RuntimeError::OutputsOverlap { first, second });
            }
        }
    }
    Ok(())
}

/// Whether an input is read before the launch that writes the outputs, or by many of its tiles.
fn is_read_before(graph: &Graph, name: &str) -> bool {
    let reads = |graph: &Graph| graph.inputs().iter().any(|input| input.name == name);
    graph.earlier().iter().any(|earlier| reads(earlier.graph))
}

/// Whether every element of an output lies where the same element of a tile operand does. Dims meet by name, so strides
/// are compared along batch, rows and columns rather than in the order in which either declares its dims.
fn is_same_tile(
    graph: &Graph,
    output: &str,
    memory: &DeviceTensor,
    input: InputId,
    operand: &DeviceTensor,
) -> bool {
    let space = graph.space();
    let declared = &graph.inputs()[input.0 as usize];
    let output = graph.outputs().iter().find(|each| each.name == output);
    let (Some(output), Some(dims)) = (output, &declared.dims) else { return false };
    let along = |dims: &[Dim], tensor: &DeviceTensor| {
        let sizes: Vec<isize> = tensor.shape.iter().map(|size| *size as isize).collect();
        let one = |axis: usize| if sizes[axis] > 1 { tensor.strides[axis] } else { 0 };
        // An axis of one element is never stepped along.
        let strides: Vec<isize> = (0..sizes.len()).map(one).collect();
        [&sizes, &strides].map(|all| BodyStrides::new(space, dims, all))
    };
    // Where columns are split one way and put together another, an element is read where another one is written.
    !graph.moves_columns()
        && graph.input_axes(input) == space.axes(&output.dims)
        && space.has_whole_batch(dims)
        // What all batches read would be overwritten by the first.
        && graph.input_axes(input).is_some_and(|axes| {
            // So would what a run of rows reads.
            axes.kind() == Kind::Tile
                && axes.has_each_row()
                && axes.batch != space.batch.is_empty()
        })
        && memory.address == operand.address
        && memory.dtype == operand.dtype
        && memory.list == operand.list
        && along(&output.dims, memory) == along(dims, operand)
}

#[cfg(test)]
mod tests;
