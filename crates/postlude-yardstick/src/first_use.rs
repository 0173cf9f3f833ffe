//! First use: from text to the first finished result, and what one launch costs the host.
//!
//! In: a GPU that nothing was loaded on yet. Out: milliseconds. The first kernel of a process also waits for the driver's
//! compiler to be loaded. Kernels go through a disk cache of this run's own, empty at first; the driver's own cache is out
//! of the way only with `CUDA_CACHE_DISABLE=1`, so the report says whether that was set.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Instant;

use postlude::runtime::{Device, DeviceArgument, DeviceBuffer, DeviceTensor, Origin, Stream};
use postlude::{DType, Kernel, Options, Sizes};
use serde::Serialize;

use crate::error::YardstickError;
use crate::statistics;
use crate::suite::{self, PLAIN};

/// What is loaded, in this order.
const KERNELS: &[(&str, &str)] = &[
    ("plain, first of the process", PLAIN),
    ("bias + relu", "D = relu(A @ W.T + bias[N])"),
    ("bias + gelu_tanh", "D = gelu_tanh(A @ W.T + bias[N])"),
];
/// The sizes it is loaded for: M, N and K.
const SIZES: [usize; 3] = [8192, 8192, 1024];
/// Sizes that take a GPU no time.
const SMALL: [usize; 3] = [128, 128, 64];
/// Launches of one batch, and batches; a batch fits the driver's queue.
const BATCH: u32 = 200;
const BATCHES: u32 = 5;
/// How often a kernel is compiled again.
const LATER: u32 = 5;

/// Times of first use.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct FirstUse {
    /// Opening driver and GPU.
    pub open_milliseconds: f64,
    /// Kernel after kernel.
    pub kernels: Vec<Loading>,
    /// Whether the driver's own cache was told to stay out.
    pub driver_cache_disabled: bool,
    /// What a launch of ours takes the host, in microseconds, on the mean.
    pub launch_microseconds: f64,
}

/// From text to the first finished result, with memory taken before.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Loading {
    /// What was loaded.
    pub kernel: &'static str,
    /// With nothing cached, each kernel for the first time.
    pub cold_milliseconds: f64,
    /// With nothing cached, in a process that has compiled before: the median of some times.
    pub later_milliseconds: f64,
    /// With the compiled kernel on disk.
    pub warm_milliseconds: f64,
    /// Whether it really came from there.
    pub warm_from_disk: bool,
}

/// Opens the first GPU, and times that.
pub fn open() -> Result<(Device, f64), YardstickError> {
    let start = Instant::now();
    let device = Device::open(0)?;
    Ok((device, milliseconds(start)))
}

/// Measures; call it before anything else is loaded.
pub fn measure(device: &Device, open_milliseconds: f64) -> Result<FirstUse, YardstickError> {
    let folder = tempfile::tempdir().map_err(YardstickError::Folder)?;
    let cache = folder.path().join("cache");
    let memory = Memory::new(device, SIZES)?;
    let mut kernels = Vec::new();
    for (kernel, source) in KERNELS {
        let (cold_milliseconds, _) = memory.first_result(device, &cache, source)?;
        kernels.push(Loading {
            kernel,
            cold_milliseconds,
            later_milliseconds: 0.0,
            warm_milliseconds: 0.0,
            warm_from_disk: false,
        });
    }
    for (loading, (_, source)) in kernels.iter_mut().zip(KERNELS) {
        let mut times = Vec::new();
        for turn in 0..LATER {
            device.trim()?;
            let empty = folder.path().join(format!("empty{turn}-{}", times.len()));
            times.push(memory.first_result(device, &empty, source)?.0);
            std::fs::remove_dir_all(&empty).ok();
        }
        loading.later_milliseconds = statistics::median(&times);
        // Modules in memory are forgotten; files stay.
        device.trim()?;
        let (warm, origin) = memory.first_result(device, &cache, source)?;
        loading.warm_milliseconds = warm;
        loading.warm_from_disk = origin == Origin::Disk;
    }
    let disabled = std::env::var_os("CUDA_CACHE_DISABLE").is_some_and(|value| value == "1");
    Ok(FirstUse {
        open_milliseconds,
        kernels,
        driver_cache_disabled: disabled,
        launch_microseconds: launch_cost(device, &cache)?,
    })
}

/// Memory for A, W, bias and D; what it holds does not matter here.
struct Memory {
    stream: Stream,
    sizes: Sizes,
    buffers: Vec<(&'static str, DType, Vec<usize>, DeviceBuffer)>,
}

impl Memory {
    fn new(device: &Device, [m, n, k]: [usize; 3]) -> Result<Memory, YardstickError> {
        let tensors = [
            ("A", DType::BF16, vec![m, k]),
            ("W", DType::BF16, vec![n, k]),
            ("bias", DType::F32, vec![n]),
            ("D", DType::BF16, vec![m, n]),
        ];
        let mut buffers = Vec::new();
        for (name, dtype, shape) in tensors {
            let bytes = dtype.bytes_for(shape.iter().product()) as u64;
            buffers.push((name, dtype, shape, device.allocate(bytes)?));
        }
        let sizes = [("M", m), ("N", n), ("K", k)].map(|(name, size)| (name.to_owned(), size));
        Ok(Memory { stream: Stream::new(device)?, sizes: sizes.into(), buffers })
    }

    fn tensor(&self, wanted: &str) -> Option<DeviceTensor> {
        let (_, dtype, shape, buffer) = self.buffers.iter().find(|(name, ..)| *name == wanted)?;
        let device = buffer.device().ordinal();
        Some(DeviceTensor::contiguous(*dtype, shape.clone(), buffer.address(), device))
    }

    /// A call of a kernel on this memory.
    fn prepare(
        &self,
        device: &Device,
        cache: &Path,
        kernel: &Kernel,
    ) -> Result<postlude::cuda::PreparedCall, YardstickError> {
        let options = Options { cache: Some(cache.to_owned()), ..Options::default() };
        let compiled = kernel.compile(&options);
        let named = |name: &String| Some((name.clone(), self.tensor(name)?));
        let inputs: BTreeMap<String, DeviceArgument> = compiled
            .defined()
            .inputs()
            .iter()
            .filter_map(|input| named(&input.name))
            .map(|(name, tensor)| (name, DeviceArgument::Tensor(tensor)))
            .collect();
        let outputs = compiled.defined().outputs().iter();
        let outputs = outputs.filter_map(|output| named(&output.name)).collect();
        let call = compiled.prepare_on(device, &inputs, &outputs, &self.sizes);
        call.map_err(YardstickError::Call)
    }

    /// Milliseconds from a text to its first result, and where its code came from.
    fn first_result(
        &self,
        device: &Device,
        cache: &Path,
        source: &str,
    ) -> Result<(f64, Origin), YardstickError> {
        let start = Instant::now();
        let kernel = suite::kernel(source, DType::BF16).map_err(YardstickError::Call)?;
        let call = self.prepare(device, cache, &kernel)?;
        call.launch(&self.stream).map_err(YardstickError::Call)?;
        self.stream.synchronize()?;
        Ok((milliseconds(start), call.function().origin()))
    }
}

/// The host's mean time for one launch, on a stream that nothing else uses.
fn launch_cost(device: &Device, cache: &Path) -> Result<f64, YardstickError> {
    let memory = Memory::new(device, SMALL)?;
    let kernel = suite::kernel(PLAIN, DType::BF16).map_err(YardstickError::Call)?;
    let call = memory.prepare(device, cache, &kernel)?;
    let mut seconds = 0.0;
    for batch in 0..=BATCHES {
        let start = Instant::now();
        for _ in 0..BATCH {
            call.launch(&memory.stream).map_err(YardstickError::Call)?;
        }
        // The first batch warms up.
        seconds += if batch == 0 { 0.0 } else { start.elapsed().as_secs_f64() };
        memory.stream.synchronize()?;
    }
    Ok(1e6 * seconds / f64::from(BATCH * BATCHES))
}

fn milliseconds(start: Instant) -> f64 {
    1e3 * start.elapsed().as_secs_f64()
}
