//! Memory that candidates are timed on: sets of a call's tensors, more of them than the L2 holds.
//!
//! In: a call. Out: its tensors again and again, each set with copies of the inputs and with outputs of its own, placed as the
//! call's do. Invariant: no tensor of the call is written.

use crate::cuda::call::{PreparedCall, Step};
use crate::dtype::DType;
use crate::placement::Placement;
use crate::runtime::{Device, DeviceBuffer, Order, RuntimeError, Stream};

/// Sets that are more than enough.
const MOST: u64 = 64;

/// A call's tensors in memory of their own.
pub(super) struct Set {
    memory: DeviceBuffer,
    /// Where each buffer of the call is.
    pub(super) addresses: Vec<u64>,
    /// Where what is computed before the last launch is.
    pub(super) base: u64,
}

/// A tensor of a call: where it is in a set.
struct Spot {
    /// Bytes from the set's start to the tensor's first byte.
    offset: u64,
    /// Bytes from the tensor's first byte to its first element.
    first: u64,
    bytes: u64,
    /// What it is a copy of.
    copied_from: Option<u64>,
}

impl Set {
    /// As many sets as exceed the L2 twice without the one in use, as far as there is memory.
    pub(super) fn all(
        call: &PreparedCall,
        device: &Device,
        stream: &Stream,
    ) -> Result<Vec<Set>, RuntimeError> {
        let (spots, end) = spots(call);
        let bytes = end + call.chosen.block.bytes.next_multiple_of(Placement::PERIOD);
        let bytes = bytes.max(Placement::PERIOD);
        let wanted = (2 * u64::from(device.l2_bytes()) / bytes + 2).min(MOST);
        let room = device.free_memory()? / 2 / bytes;
        let count = wanted.min(room).max(1);
        (0..count).map(|_| Set::new(call, &spots, (end, bytes), (device, stream))).collect()
    }

    fn new(
        call: &PreparedCall,
        spots: &[Option<Spot>],
        (end, bytes): (u64, u64),
        (device, stream): (&Device, &Stream),
    ) -> Result<Set, RuntimeError> {
        let memory = device.allocate(bytes)?;
        let mut addresses = call.addresses.clone();
        for (address, spot) in addresses.iter_mut().zip(spots) {
            let Some(spot) = spot else { continue };
            if let Some(from) = spot.copied_from {
                memory.copy_at(stream, spot.offset, from, spot.bytes)?;
            }
            *address = memory.address() + spot.offset + spot.first;
        }
        let base = memory.address() + end;
        let set = Set { memory, addresses, base };
        let mut order = Order::Behind;
        let visit = &mut |step: Step<'_, '_>| call.take(step, stream, &mut order);
        call.each(set.base, &set.addresses, &call.scalars, visit)?;
        stream.synchronize()?;
        Ok(set)
    }

    /// Fills bytes from an address on with ones, which are no float.
    pub(super) fn poison(&self, at: u64, bytes: u64, stream: &Stream) -> Result<(), RuntimeError> {
        self.memory.fill(stream, at - self.memory.address(), bytes, 0xff)
    }

    /// Bytes from an address on.
    pub(super) fn read(
        &self,
        at: u64,
        bytes: &mut [u8],
        stream: &Stream,
    ) -> Result<(), RuntimeError> {
        self.memory.read(stream, at - self.memory.address(), bytes)
    }
}

/// Where the tensors of a call are in a set, and the bytes of all of them. Numbers have no place.
fn spots(call: &PreparedCall) -> (Vec<Option<Spot>>, u64) {
    let graph = &call.kernel.form.graph;
    let [declared, written] = call.tensors.lie();
    let inputs = graph.declared_inputs().iter().zip(declared);
    let inputs = inputs.map(|(input, lies)| {
        let placed = lies.zip(input.dims.as_deref());
        placed.map(|(lies, dims)| (lies.dtype(input.dtype), dims, lies, true))
    });
    let results = graph.results().into_iter().zip(written);
    let outputs = results.map(|(result, lies)| Some((result.dtype, result.dims, lies?, false)));
    let (mut spots, mut end) = (Vec::new(), 0_u64);
    for (place, tensor) in inputs.chain(outputs).enumerate() {
        let spot = tensor.and_then(|(dtype, dims, placement, is_copied)| {
            let shape = call.problem().shape(dims);
            let (low, high) = extent(dtype, &shape, &placement.strides)?;
            // The first element is as far beyond a multiple of the period as the call's own.
            let first = low.next_multiple_of(Placement::PERIOD) + placement.start;
            let offset = end + first - low;
            end = (offset + low + high).next_multiple_of(Placement::PERIOD);
            let copied_from = is_copied.then(|| call.addresses[place] - low);
            Some(Spot { offset, first: low, bytes: low + high, copied_from })
        });
        spots.push(spot);
    }
    (spots, end)
}

/// Bytes of a tensor before its first element's first byte, and from there on; `None` for one without elements.
pub(super) fn extent(dtype: DType, shape: &[usize], strides: &[isize]) -> Option<(u64, u64)> {
    if shape.contains(&0) {
        return None;
    }
    let reach = |is_counted: fn(isize) -> bool| -> usize {
        let dims = shape.iter().zip(strides).filter(|(_, stride)| is_counted(**stride));
        dims.map(|(size, stride)| (size - 1) * stride.unsigned_abs()).sum()
    };
    let (before, behind) = (reach(|stride| stride < 0), reach(|stride| stride > 0));
    Some((dtype.bytes_for(before) as u64, dtype.bytes_for(behind + 1) as u64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_extent_reaches_from_the_lowest_element_to_the_highest() {
        assert_eq!(extent(DType::BF16, &[4, 8], &[8, 1]), Some((0, 64)));
        assert_eq!(extent(DType::BF16, &[4, 8], &[16, 1]), Some((0, 112)));
        assert_eq!(extent(DType::F32, &[4, 8], &[-8, 1]), Some((96, 32)));
        assert_eq!(extent(DType::I4, &[4, 8], &[8, 1]), Some((0, 16)));
        assert_eq!(extent(DType::F32, &[4, 0], &[8, 1]), None);
        assert_eq!(extent(DType::F32, &[], &[]), Some((0, 4)));
    }
}
