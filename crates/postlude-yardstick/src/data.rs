//! The memory of a row: several sets of buffers, so that no launch finds its operands in cache.
//!
//! In: a row and a GPU. Out: for each set the arguments of a call of ours and the addresses of a call of cuBLASLt. Inputs
//! are random or all ones, indices uniform, and different in every set. Matrices and outputs have a buffer in each set;
//! vectors that are read, which are small, one for all.
//!
//! Invariant: the matrices of all sets together take more than twice the L2.

use std::collections::BTreeMap;

use postlude::graph::Graph;
use postlude::runtime::{Device, DeviceArgument, DeviceBuffer, DeviceTensor, Stream};
use postlude::{DType, Problem, dtype};
use postlude_corpus::Random;

use crate::cublaslt::{Addresses, Aux, Epilogue};
use crate::error::YardstickError;
use crate::random::{self, Contents, Store};
use crate::suite::{self, Row};

/// A tensor in every set.
pub struct Placed {
    /// Its name in the kernel.
    pub name: String,
    /// The names of its dims, as the kernel writes them.
    pub dims: Vec<String>,
    /// Its element type.
    pub dtype: DType,
    /// Its sizes.
    pub shape: Vec<usize>,
    /// Its memory, a buffer for each set, or one for all.
    buffers: Vec<DeviceBuffer>,
}

impl Placed {
    /// A tile in memory of its own, the same for all sets.
    pub fn alone(
        device: &Device,
        name: &str,
        dtype: DType,
        dims: [&str; 2],
        shape: [usize; 2],
    ) -> Result<Placed, YardstickError> {
        let mut placed = Placed {
            name: name.to_owned(),
            dims: dims.map(str::to_owned).into(),
            dtype,
            shape: shape.into(),
            buffers: Vec::new(),
        };
        placed.allocate(device, 1)?;
        Ok(placed)
    }

    fn allocate(&mut self, device: &Device, count: usize) -> Result<(), YardstickError> {
        // Whole pairs of elements, which are drawn together.
        let bytes = self.bytes().next_multiple_of(16);
        for _ in 0..count {
            self.buffers.push(device.allocate(bytes)?);
        }
        Ok(())
    }

    /// Its memory in a set.
    pub fn buffer(&self, set: usize) -> &DeviceBuffer {
        &self.buffers[set % self.buffers.len()]
    }

    /// The tensor in a set.
    pub fn tensor(&self, set: usize) -> DeviceTensor {
        let buffer = self.buffer(set);
        let (address, device) = (buffer.address(), buffer.device().ordinal());
        DeviceTensor::contiguous(self.dtype, self.shape.clone(), address, device)
    }

    /// Its bytes.
    pub fn bytes(&self) -> u64 {
        self.dtype.bytes_for(self.shape.iter().product()) as u64
    }
}

/// A vector that cuBLASLt wants in the result's dtype.
struct Narrow {
    dtype: DType,
    buffer: DeviceBuffer,
    is_written: bool,
}

/// Vectors along N that cuBLASLt reads, and writes.
const NARROW: [&str; 2] = ["bias", "dbias"];

/// All sets of a row.
pub struct Data {
    /// How many there are.
    pub sets: usize,
    /// Tensors that are read.
    pub inputs: Vec<Placed>,
    /// Tensors that are written.
    pub outputs: Vec<Placed>,
    /// Where plain products go, where the row's own output is no place for one.
    product: Option<Placed>,
    /// The bias, or its gradient, in the result's dtype, for cuBLASLt.
    narrow: Option<Narrow>,
    scalars: Vec<(String, f64)>,
}

impl Data {
    /// Takes the memory of a row and draws its inputs.
    pub fn new(
        device: &Device,
        stream: &Stream,
        row: &Row,
        graph: &Graph,
        problem: &Problem,
        contents: Contents,
    ) -> Result<Data, YardstickError> {
        let placed = |name: &str, dtype, dims: &[postlude::shape::Dim]| Placed {
            name: name.to_owned(),
            dims: dims.iter().map(ToString::to_string).collect(),
            dtype,
            shape: problem.shape(dims),
            buffers: Vec::new(),
        };
        let (mut inputs, mut scalars) = (Vec::new(), Vec::new());
        for input in graph.passed_inputs() {
            if let Some(dims) = &input.dims {
                inputs.push(placed(&input.name, input.dtype, dims));
            } else {
                let value = suite::scalar(&input.name).unwrap_or(1.0);
                scalars.push((input.name.clone(), f64::from(value)));
            }
        }
        let outputs = graph.outputs().iter();
        let outputs: Vec<Placed> =
            outputs.map(|output| placed(&output.name, output.dtype, &output.dims)).collect();
        let [m, n, _] = row.sizes;
        let takes_product = |one: &Placed| one.shape == [m, n] && one.dtype == row.result;
        let product = (!outputs.first().is_some_and(takes_product)).then(|| Placed {
            name: "D".to_owned(),
            dims: vec!["M".to_owned(), "N".to_owned()],
            dtype: row.result,
            shape: vec![m, n],
            buffers: Vec::new(),
        });
        let matrices = || inputs.iter().chain(&outputs).filter(|one| one.shape.len() > 1);
        let set_bytes: u64 = matrices().map(Placed::bytes).sum();
        let sets = set_count(set_bytes, device.l2_bytes().into());
        let mut data = Data { sets, inputs, outputs, product, narrow: None, scalars };
        data.allocate(device)?;
        data.narrow(device, row)?;
        data.draw(device, stream, row.sizes[1], contents)?;
        Ok(data)
    }

    fn allocate(&mut self, device: &Device) -> Result<(), YardstickError> {
        let inputs = self.inputs.iter_mut().map(|one| {
            let count = if one.shape.len() > 1 { self.sets } else { 1 };
            (one, count)
        });
        let outputs = self.outputs.iter_mut().chain(&mut self.product).map(|one| (one, self.sets));
        for (one, count) in inputs.chain(outputs) {
            one.allocate(device, count)?;
        }
        Ok(())
    }

    /// Takes memory for the vector that cuBLASLt wants in another dtype.
    fn narrow(&mut self, device: &Device, row: &Row) -> Result<(), YardstickError> {
        if !row.library.is_some_and(Epilogue::has_vector) {
            return Ok(());
        }
        let dtype = row.result;
        for (name, is_written) in NARROW.into_iter().zip([false, true]) {
            let side = if is_written { &self.outputs } else { &self.inputs };
            if let Some(one) = side.iter().find(|one| one.name == name) {
                let bytes = dtype.bytes_for(one.shape.iter().product()) as u64;
                let buffer = device.allocate(bytes.next_multiple_of(16))?;
                self.narrow = Some(Narrow { dtype, buffer, is_written });
            }
        }
        Ok(())
    }

    /// Draws the inputs; indices are below the columns.
    fn draw(
        &self,
        device: &Device,
        stream: &Stream,
        columns: usize,
        contents: Contents,
    ) -> Result<(), YardstickError> {
        for (place, input) in self.inputs.iter().enumerate() {
            for (set, buffer) in input.buffers.iter().enumerate() {
                let seed = seed(place, set);
                match Store::of(input.dtype) {
                    Some(store) => random::fill(device, stream, buffer, store, contents, seed)?,
                    None => buffer.write(stream, 0, &indices(input, columns, seed))?,
                }
            }
            if let (true, Some(narrow)) = (input.name == NARROW[0], &self.narrow)
                && let Some(store) = Store::of(narrow.dtype)
            {
                random::fill(device, stream, &narrow.buffer, store, contents, seed(place, 0))?;
            }
        }
        Ok(stream.synchronize()?)
    }

    /// What a kernel of ours is called with in a set, as far as it has inputs of these names.
    pub fn arguments(&self, graph: &Graph, set: usize) -> BTreeMap<String, DeviceArgument> {
        let tensors = self
            .inputs
            .iter()
            .map(|input| (input.name.clone(), DeviceArgument::Tensor(input.tensor(set))));
        let scalars =
            self.scalars.iter().map(|(name, value)| (name.clone(), DeviceArgument::Scalar(*value)));
        let known = |name: &String| graph.passed_inputs().any(|input| input.name == *name);
        tensors.chain(scalars).filter(|(name, _)| known(name)).collect()
    }

    /// What the host passes, by name.
    pub fn scalars(&self) -> BTreeMap<String, f64> {
        self.scalars.iter().cloned().collect()
    }

    /// Where it writes.
    pub fn results(&self, set: usize) -> BTreeMap<String, DeviceTensor> {
        self.outputs.iter().map(|output| (output.name.clone(), output.tensor(set))).collect()
    }

    /// Where plain products go: the row's first output, if that is like one.
    pub fn product(&self) -> &Placed {
        self.product.as_ref().unwrap_or(&self.outputs[0])
    }

    /// Where our plain product writes.
    pub fn product_results(&self, set: usize) -> BTreeMap<String, DeviceTensor> {
        BTreeMap::from([("D".to_owned(), self.product().tensor(set))])
    }

    /// Where results of cuBLASLt go that end in an epilogue.
    pub fn result(&self, epilogue: Epilogue) -> &Placed {
        let fused = self.outputs.iter().find(|output| output.name == "D");
        match (epilogue, fused) {
            (Epilogue::Plain, _) | (_, None) => self.product(),
            (_, Some(fused)) => fused,
        }
    }

    /// The tile beside the result that an epilogue of cuBLASLt reads or writes.
    pub fn aux(&self, epilogue: Epilogue) -> Option<&Placed> {
        let side = match epilogue.aux() {
            Aux::None => return None,
            Aux::Written => &self.outputs,
            Aux::Read => &self.inputs,
        };
        side.iter().find(|one| one.name == "Z")
    }

    /// Where cuBLASLt reads and writes: operands of one set, results of another.
    pub fn addresses(&self, epilogue: Epilogue, set: usize, result_set: usize) -> Addresses {
        let input = |name: &str| {
            let found = self.inputs.iter().find(|input| input.name == name);
            found.map(|input| input.buffer(set).address())
        };
        let result = self.result(epilogue).buffer(result_set).address();
        let aux_set = if epilogue.aux() == Aux::Written { result_set } else { set };
        let aux = self.aux(epilogue).map_or(0, |aux| aux.buffer(aux_set).address());
        Addresses {
            left: input("A").unwrap_or(0),
            right: input("W").or_else(|| input("B")).unwrap_or(0),
            addend: input("C").unwrap_or(result),
            result,
            aux,
        }
    }

    /// The bias for cuBLASLt, or where its gradient goes; 0 where there is none.
    pub fn narrow_address(&self) -> u64 {
        self.narrow.as_ref().map_or(0, |narrow| narrow.buffer.address())
    }

    /// The gradient of the bias that cuBLASLt wrote, beside the output that is ours.
    pub fn narrow_result(
        &self,
        stream: &Stream,
    ) -> Result<Option<(&Placed, Vec<u8>)>, YardstickError> {
        let ours = self.outputs.iter().find(|output| output.name == NARROW[1]);
        let (Some(ours), Some(narrow)) = (ours, &self.narrow) else { return Ok(None) };
        let mut bytes = narrow.buffer.to_vec(stream)?;
        bytes.truncate(narrow.dtype.bytes_for(ours.shape.iter().product()));
        Ok(Some((ours, bytes)))
    }

    /// Bytes that have to be read and written once.
    pub fn fewest_bytes(&self) -> u64 {
        self.inputs.iter().chain(&self.outputs).map(Placed::bytes).sum()
    }

    /// Fills a set's outputs with bytes that are no numbers.
    pub fn poison(&self, set: usize, stream: &Stream) -> Result<(), YardstickError> {
        for output in self.outputs.iter().chain(&self.product) {
            let buffer = output.buffer(set);
            buffer.fill(stream, 0, buffer.len(), 0xff)?;
        }
        if let Some(narrow) = self.narrow.as_ref().filter(|narrow| narrow.is_written) {
            narrow.buffer.fill(stream, 0, narrow.buffer.len(), 0xff)?;
        }
        Ok(())
    }
}

/// Indices from 0 to `below`, for every element.
fn indices(input: &Placed, below: usize, seed: u32) -> Vec<u8> {
    let mut random = Random::new(seed.into());
    let count: usize = input.shape.iter().product();
    let index = |_| random.below(below) as f64;
    let mut bytes = vec![0; input.dtype.bytes_for(count)];
    for (place, value) in (0..count).map(index).enumerate() {
        dtype::store(input.dtype, &mut bytes, place, value);
    }
    bytes
}

/// Sets of this many bytes that exceed twice the L2 even without the one in use; two at least, since checks compare.
fn set_count(set_bytes: u64, l2_bytes: u64) -> usize {
    (2 * l2_bytes / set_bytes.max(1) + 2).min(64) as usize
}

/// A seed of its own for each tensor and set.
fn seed(place: usize, set: usize) -> u32 {
    (place as u32 + 1).wrapping_mul(0x9e37_79b9) ^ (set as u32 + 1).wrapping_mul(0x85eb_ca6b)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_exceed_twice_the_cache() {
        let l2 = 60 << 20;
        // P3: three matrices of 8 MiB; P1: three of 128 MiB.
        assert_eq!(set_count(24 << 20, l2), 7);
        assert_eq!(set_count(384 << 20, l2), 2);
        for bytes in [1 << 20, 24 << 20, 130 << 20] {
            assert!(set_count(bytes, l2) == 64 || (set_count(bytes, l2) as u64) * bytes > 2 * l2);
        }
    }

    #[test]
    fn tensors_and_sets_have_seeds_of_their_own() {
        let mut seeds: Vec<u32> =
            (0..8).flat_map(|place| (0..64).map(move |set| seed(place, set))).collect();
        seeds.sort_unstable();
        seeds.dedup();
        assert_eq!(seeds.len(), 8 * 64);
    }
}
