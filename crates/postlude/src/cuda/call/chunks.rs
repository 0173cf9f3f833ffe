//! Launches of a call that are repeated for one chunk of a dim after another.

use super::{EarlierCall, PreparedCall, Read, Store};
use crate::cuda::GpuKernel;
use crate::cuda::check::{Checked, between_launches};
use crate::error::Error;
use crate::graph::{Earlier, Graph};
use crate::partition::Chunks;
use crate::placement::Placement;
use crate::runtime::{Device, DeviceArgument, DeviceTensor};

/// One chunk, and where values between launches lie.
struct Chunk<'a> {
    chunks: &'a Chunks,
    first: usize,
    count: usize,
    /// By place among the kernel's inputs, where what repeated launches store begins.
    offsets: &'a [Option<u64>],
    /// What lies behind it.
    end: u64,
}

impl PreparedCall {
    /// Prepares repeated launches for every chunk. What they store of one chunk lies where that of the others does.
    pub(super) fn prepare_chunks(
        &mut self,
        device: &Device,
        checked: &Checked,
        chunks: &Chunks,
    ) -> Result<(), Error> {
        let graph = self.kernel.optimised.clone();
        let launches = graph.earlier();
        let repeated = &launches[chunks.launches.clone()];
        let kernels = self.kernel.earlier[chunks.launches.clone()].to_vec();
        let size = checked.problem.sizes[&chunks.dim];
        let largest = checked.problem.of_chunk(&graph, &chunks.dim, size.min(chunks.size))?;
        let mut end = self.intermediate_bytes;
        let mut offsets = vec![None; graph.inputs().len()];
        for place in repeated.iter().flat_map(|it| it.inputs.iter().flatten()) {
            let place = place.0 as usize;
            let input = &graph.inputs()[place];
            if input.result.is_some() {
                continue;
            }
            let shape = largest.shape(input.dims.as_deref().unwrap_or_default());
            let lies = Placement::between_launches(input.dtype, &shape);
            let bytes = lies.bytes(input.dtype, &shape) as u64;
            offsets[place] = Some(end);
            if !chunks.is_partial(input) {
                self.sums.push((end, bytes, place));
            }
            end += bytes.next_multiple_of(Placement::PERIOD);
        }
        self.intermediate_bytes = end;
        for (first, count) in chunks.of(size) {
            let chunk = Chunk { chunks, first, count, offsets: &offsets, end };
            for (earlier, kernel) in repeated.iter().zip(&kernels) {
                let call = chunk.prepare(device, checked, &graph, (earlier, kernel))?;
                let own = end + call.call.intermediate_bytes;
                self.intermediate_bytes = self.intermediate_bytes.max(own);
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
            stores.push(match self.offsets[place] {
                Some(offset) => Store::Intermediate(offset, Some(place)),
                None => Store::Result(place, shift),
            });
        }
        let own = Checked::of(&kernel.optimised, problem, device.ordinal(), inputs, tensors);
        let call = PreparedCall::of(kernel, device, &own)?;
        Ok(EarlierCall { call, reads, stores, own_offset: self.end })
    }

    /// What a chunk has of the input of a place, and how many bytes from its first element on.
    fn part(&self, graph: &Graph, place: usize, whole: &DeviceTensor) -> (DeviceTensor, i64) {
        let input = &graph.inputs()[place];
        let Some(dim) = self.chunks.place(input) else { return (whole.clone(), 0) };
        let mut shape = whole.shape.clone();
        shape[dim] = self.count;
        if self.offsets[place].is_some() {
            return (between_launches(whole.dtype, shape, whole.address, whole.device), 0);
        }
        let shift = self.first as i64 * whole.strides[dim] as i64 * whole.dtype.bits() as i64 / 8;
        let address = whole.address.wrapping_add_signed(shift);
        (DeviceTensor { shape, address, ..whole.clone() }, shift)
    }
}
