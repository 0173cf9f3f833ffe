//! Lists of tensors on a GPU: batches in allocations of their own, read and written where they lie.

use std::collections::BTreeMap;

use postlude::runtime::{Device, DeviceArgument, DeviceBuffer, DeviceTensor, Stream};
use postlude::{Argument, Arguments, Backend, DType, Hooks, Kernel, Options, Sizes, Tensor};
use postlude_corpus::Random;

const TEXT: &str = "kernel k(A: bf16[B, M, K], W: bf16[B, N, K], C: bf16[B, M, N], bias: f32[B, N]) -> (D: bf16[B, M, N], r: f32[B, M]) {
    D = relu(A @ W.T + C + bias)
    r = max(D, N)
}";
const EXPERTS: &str = "kernel k(A: bf16[M, K], W: bf16[E, N, K], ends: i32[E], bias: f32[E, N]) -> D: bf16[M, N] { D = silu(segments(A, ends) @ W.T + bias) }";

/// Whole numbers for every input.
fn arguments(kernel: &Kernel, sizes: &Sizes) -> Arguments<'static> {
    let compiled = kernel.compile(&Options::default());
    let problem = compiled.problem(sizes).unwrap();
    let mut random = Random::new(11);
    let inputs = compiled.defined().inputs().iter().map(|input| {
        let shape = problem.shape(input.dims.as_ref().unwrap());
        let count: usize = shape.iter().product();
        let values: Vec<f64> = (0..count)
            .map(|place| match input.name.as_str() {
                "ends" => ((place + 1) * problem.rows() / count) as f64,
                _ => random.below(7) as f64 - 3.0,
            })
            .collect();
        let tensor = Tensor::from_values(input.dtype, shape, &values).unwrap();
        (input.name.clone(), Argument::Tensor(tensor))
    });
    inputs.collect()
}

fn sizes(all: &[(&str, usize)]) -> Sizes {
    all.iter().map(|(dim, size)| ((*dim).to_owned(), *size)).collect()
}

/// A tensor's batches in allocations of their own, the last one first and others between them.
struct Apart {
    items: Vec<DeviceBuffer>,
    list: DeviceTensor,
}

impl Apart {
    fn new(name: &str, tensor: &Tensor, device: &Device, stream: &Stream) -> Apart {
        let (count, shape) = (tensor.shape()[0], tensor.shape()[1..].to_vec());
        let bytes = tensor.bytes().len() / count;
        let mut between = Vec::new();
        let mut items: Vec<DeviceBuffer> = tensor
            .bytes()
            .rchunks(bytes)
            .enumerate()
            .map(|(place, chunk)| {
                between.push(device.allocate(5000 * (place as u64 % 3) + 1).unwrap());
                let buffer = device.allocate(bytes as u64).unwrap();
                buffer.write(stream, 0, chunk).unwrap();
                buffer
            })
            .collect();
        items.reverse();
        let at = |buffer: &DeviceBuffer| {
            DeviceTensor::contiguous(tensor.dtype(), shape.clone(), buffer.address(), 0)
        };
        let tensors: Vec<DeviceTensor> = items.iter().map(at).collect();
        let list = DeviceTensor::list(name, &tensors).unwrap();
        assert!(list.list.is_some(), "allocations one behind the other would be no list");
        Apart { items, list }
    }

    fn bytes(&self, stream: &Stream) -> Vec<u8> {
        self.items.iter().flat_map(|item| item.to_vec(stream).unwrap()).collect()
    }
}

#[test]
fn gpu_batches_in_allocations_of_their_own_are_read_and_written() {
    let Some((device, _alone)) = super::device() else { return };
    let stream = Stream::new(&device).unwrap();
    let kernel = Kernel::parse(TEXT).unwrap();
    for (m, n, k) in [(300, 256, 128), (40, 72, 96), (5, 17, 23)] {
        let at = sizes(&[("B", 6), ("M", m), ("N", n), ("K", k)]);
        let arguments = arguments(&kernel, &at);
        let compiled = kernel.compile(&Options::default());
        let wanted = compiled.run(&arguments, &Sizes::new()).unwrap();
        let zeros = |dtype: DType, shape: &[usize]| Tensor::zeros(dtype, shape).unwrap();
        let apart = |name: &str| {
            let tensor = match &arguments[name] {
                Argument::Tensor(tensor) => tensor.clone(),
                other => panic!("{other:?}"),
            };
            Apart::new(name, &tensor, &device, &stream)
        };
        let given: BTreeMap<String, Apart> =
            ["A", "W", "C", "bias"].map(|name| (name.to_owned(), apart(name))).into();
        let made = [("D", zeros(DType::BF16, &[6, m, n])), ("r", zeros(DType::F32, &[6, m]))];
        let made: BTreeMap<String, Apart> = made
            .map(|(name, tensor)| (name.to_owned(), Apart::new(name, &tensor, &device, &stream)))
            .into();
        let inputs: BTreeMap<String, DeviceArgument> = given
            .iter()
            .map(|(name, apart)| (name.clone(), DeviceArgument::Tensor(apart.list.clone())))
            .collect();
        let outputs: BTreeMap<String, DeviceTensor> =
            made.iter().map(|(name, apart)| (name.clone(), apart.list.clone())).collect();
        let call = compiled.prepare_on(&device, &inputs, &outputs, &at).unwrap();
        call.launch(&stream).unwrap();
        stream.synchronize().unwrap();
        for (name, apart) in &made {
            assert!(apart.bytes(&stream) == wanted[name.as_str()].bytes(), "{name} at {m} {n} {k}");
        }
    }
}

/// Host tensors laid out as lists on the GPU.
#[test]
fn gpu_lists_compute_what_stacked_tensors_do() {
    let Some((_device, _alone)) = super::device() else { return };
    for (text, at) in [
        (TEXT, sizes(&[("B", 5), ("M", 200), ("N", 136), ("K", 64)])),
        (EXPERTS, sizes(&[("E", 5), ("M", 300), ("N", 128), ("K", 64)])),
    ] {
        let kernel = Kernel::parse(text).unwrap();
        let arguments = arguments(&kernel, &at);
        let run = |lists| {
            let hooks = Hooks { lists, guard: true, ..Hooks::default() };
            let options = Options { backend: Backend::Cuda, hooks, ..Options::default() };
            kernel.compile(&options).run(&arguments, &Sizes::new()).unwrap()
        };
        assert_eq!(run(true), run(false));
    }
}
