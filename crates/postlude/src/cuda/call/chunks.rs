//! Launches of a call that are repeated for one chunk of a dim after another.

use super::{EarlierCall, PreparedCall, Read, Store};
use crate::cuda::GpuKernel;
use crate::cuda::check::{Checked, between_launches};
use crate::error::Error;
use crate::graph::{Earlier, Graph};
use crate::intermediates::Lifetime;
use crate::partition::Chunks;
use crate::placement::Placement;
use crate::runtime::{Device, DeviceArgument, DeviceTensor};

/// One chunk, and where values between launches lie.
struct Chunk<'a> {
    chunks: &'a Chunks,
    first: usize,
    count: usize,
    /// By place among the kernel's inputs, the values of the block that repeated launches store.
    values: &'a [Option<usize>],
}

impl PreparedCall {
    /// Prepares repeated launches for every chunk. What they store of one chunk lies where that of the others does.
    pub(super) fn prepare_chunks(
        &mut self,
        device: &Device,
        checked: &Checked,
        chunks: &Chunks,
        (last_reads, lifetimes): (&[Option<usize>], &mut Vec<Lifetime>),
    ) -> Result<(), Error> {
        let graph = self.kernel.optimised.clone();
        let launches = graph.earlier();
        let repeated = &launches[chunks.launches.clone()];
        let kernels = self.kernel.earlier[chunks.launches.clone()].to_vec();
        let size = checked.problem.sizes[&chunks.dim];
        let largest = checked.problem.of_chunk(&graph, &chunks.dim, size.min(chunks.size))?;
        let [first_launch, last_launch] = [chunks.launches.start, chunks.launches.end - 1];
        let mut values = vec![None; graph.inputs().len()];
        for place in repeated.iter().flat_map(|it| it.inputs.iter().flatten()) {
            let place = place.0 as usize;
            let input = &graph.inputs()[place];
            if input.result.is_some() {
                continue;
            }
            let shape = largest.shape(input.dims.as_deref().unwrap_or_default());
            let lies = Placement::between_launches(input.dtype, &shape);
            let bytes = lies.bytes(input.dtype, &shape) as u64;
            values[place] = Some(lifetimes.len());
            let last = last_reads[place].unwrap_or(last_launch).max(last_launch);
            let first = if chunks.is_partial(input) {
                first_launch
            } else {
                // Sums are set to zero before the first launch of all.
                self.sums.push((lifetimes.len(), bytes, place));
                0
            };
            lifetimes.push(Lifetime { bytes, first, last });
        }
        for (first, count) in chunks.of(size) {
            let chunk = Chunk { chunks, first, count, values: &values };
            for (earlier, kernel) in repeated.iter().zip(&kernels) {
                let inside = lifetimes.len();
                let call = chunk.prepare(device, checked, &graph, (earlier, kernel), inside)?;
                let bytes = call.call.block.bytes;
                lifetimes.push(Lifetime { bytes, first: first_launch, last: last_launch });
                self.earlier.push(call);
            }
        }
        Ok(())
    }
}

impl Chunk<'_> {
    /// A launch of this chunk.
    fn prepare(
        &self,
        device: &Device,
        checked: &Checked,
        graph: &Graph,
        (earlier, kernel): (&Earlier<'_>, &std::sync::Arc<GpuKernel>),
        inside: usize,
    ) -> Result<EarlierCall, Error> {
        let problem = checked.problem.of_chunk(earlier.graph, &self.chunks.dim, self.count)?;
        let (mut reads, mut inputs) = (Vec::new(), Vec::new());
        for input in earlier.graph.inputs() {
            if input.name == self.chunks.start {
                reads.push(Read::Number(self.first as f64));
                inputs.push(DeviceArgument::Scalar(self.first as f64));
                continue;
            }
            let place = graph.place_of(&input.name);
            let (argument, shift) = match &checked.inputs[place] {
                DeviceArgument::Tensor(tensor) => {
                    let (tensor, shift) = self.part(graph, place, tensor);
                    (DeviceArgument::Tensor(tensor), shift)
                }
                DeviceArgument::Scalar(value) => (DeviceArgument::Scalar(*value), 0),
            };
            reads.push(Read::Input(place, shift));
            inputs.push(argument);
        }
        let (mut tensors, mut stores) = (Vec::new(), Vec::new());
        for (output, input) in earlier.graph.outputs().iter().zip(&earlier.inputs) {
            let Some(place) = input.map(|input| input.0 as usize) else {
                panic!("compiler bug: no launch reads `{}`", output.name)
            };
            let DeviceArgument::Tensor(whole) = &checked.inputs[place] else {
                panic!("compiler bug: `{}` is a number", output.name)
            };
            let (tensor, shift) = self.part(graph, place, whole);
            tensors.push(tensor);
            stores.push(match self.values[place] {
                Some(value) => Store::Intermediate(value, Some(place)),
                None => Store::Result(place, shift),
            });
        }
        let own = Checked::of(&kernel.optimised, problem, device.ordinal(), inputs, tensors);
        let call = PreparedCall::of(kernel, device, &own)?;
        Ok(EarlierCall { call, reads, stores, inside })
    }

    /// What a chunk has of the input of a place, and how many bytes from its first element on.
    fn part(&self, graph: &Graph, place: usize, whole: &DeviceTensor) -> (DeviceTensor, i64) {
        let input = &graph.inputs()[place];
        let Some(dim) = self.chunks.place(input) else { return (whole.clone(), 0) };
        let mut shape = whole.shape.clone();
        shape[dim] = self.count;
        if self.values[place].is_some() {
            return (between_launches(whole.dtype, shape, whole.address, whole.device), 0);
        }
        if dim == 0 && whole.list.is_some() {
            return (whole.items(self.first, self.count), 0);
        }
        let shift = self.first as i64 * whole.strides[dim] as i64 * whole.dtype.bits() as i64 / 8;
        let address = whole.address.wrapping_add_signed(shift);
        (DeviceTensor { shape, address, ..whole.clone() }, shift)
    }
}
