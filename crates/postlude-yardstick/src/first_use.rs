//! First use: from text to a loaded kernel, and what one launch costs the host.
//!
//! In: a GPU that nothing was loaded on yet. Out: milliseconds. The first kernel of a process also waits for the driver's
//! compiler to be loaded. Kernels go through a disk cache of this run's own, empty at first; the driver's own cache is out
//! of the way only with `CUDA_CACHE_DISABLE=1`, so the report says whether that was set.

use std::time::Instant;

use postlude::emit::sm90 as emit;
use postlude::plan::sm90::{self as plan, Placements, Sm90};
use postlude::runtime::cache::DiskCache;
use postlude::runtime::{Device, Function, Stream};
use postlude::{DType, MathMode, Options, Problem};
use serde::Serialize;

use crate::call;
use crate::cublaslt::Epilogue;
use crate::data::Data;
use crate::error::YardstickError;
use crate::suite::{self, PLAIN, Row};

/// What is loaded, in this order.
const KERNELS: &[(&str, &str)] = &[
    ("plain, first of the process", PLAIN),
    ("bias + relu", "D = relu(A @ W.T + bias[N])"),
    ("bias + gelu_tanh", "D = gelu_tanh(A @ W.T + bias[N])"),
];
/// The sizes it is loaded for; the code depends on the schedule alone.
const SIZES: [usize; 3] = [8192, 8192, 1024];
/// A problem that takes a GPU no time.
const SMALL: Row = Row {
    name: "launch",
    source: PLAIN,
    sizes: [128, 128, 64],
    dtype: DType::BF16,
    library: Some(Epilogue::Plain),
};
/// Launches of one batch, and batches; a batch fits the driver's queue.
const BATCH: u32 = 200;
const BATCHES: u32 = 5;

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

/// From text to a loaded kernel.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Loading {
    /// What was loaded.
    pub kernel: &'static str,
    /// With nothing cached.
    pub cold_milliseconds: f64,
    /// Of those, our own part: from text to PTX.
    pub emit_milliseconds: f64,
    /// From the disk cache.
    pub warm_milliseconds: f64,
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
    let cache = DiskCache::at(folder.path().join("cache"));
    let mut kernels = Vec::new();
    for (kernel, source) in KERNELS {
        let (_function, [emit_milliseconds, cold_milliseconds]) = load(device, &cache, source)?;
        kernels.push(Loading {
            kernel,
            cold_milliseconds,
            emit_milliseconds,
            warm_milliseconds: 0.0,
        });
    }
    // Modules in memory are forgotten; files stay.
    device.trim()?;
    for (loading, (_, source)) in kernels.iter_mut().zip(KERNELS) {
        let (_function, [_, warm]) = load(device, &cache, source)?;
        loading.warm_milliseconds = warm;
    }
    let disabled = std::env::var_os("CUDA_CACHE_DISABLE").is_some_and(|value| value == "1");
    Ok(FirstUse {
        open_milliseconds,
        kernels,
        driver_cache_disabled: disabled,
        launch_microseconds: launch_cost(device)?,
    })
}

/// A loaded kernel, with the milliseconds to its PTX and to the end.
fn load(
    device: &Device,
    cache: &DiskCache,
    source: &str,
) -> Result<(Function, [f64; 2]), YardstickError> {
    let row = Row { source: PLAIN, sizes: SIZES, ..SMALL };
    let fail = YardstickError::Call;
    let start = Instant::now();
    let kernel = suite::kernel(source, row.dtype).map_err(fail)?;
    let compiled = kernel.compile(&Options::default());
    let problem =
        Problem::new(compiled.defined(), &row.named_sizes()).map_err(|error| fail(error.into()))?;
    let graph = compiled.optimised();
    let placements = Placements::packed(graph, &problem);
    let chip = Sm90 { processors: device.processors(), shared_bytes: device.shared_bytes() };
    let schedule =
        plan::plan(graph, &problem, &placements, chip, MathMode::Default).map_err(|refusal| {
            YardstickError::Refused { row: "first use", reason: refusal.to_string() }
        })?;
    let text = emit::emit(graph, &schedule, MathMode::Default).to_string();
    let emitted = milliseconds(start);
    let function = device.load_through(cache, &text, emit::ENTRY)?;
    Ok((function, [emitted, milliseconds(start)]))
}

/// The host's mean time for one launch, on a stream that nothing else uses.
fn launch_cost(device: &Device) -> Result<f64, YardstickError> {
    let stream = Stream::new(device)?;
    let compiled = SMALL.kernel()?.compile(&Options::default());
    let sizes = SMALL.named_sizes();
    let problem = Problem::new(compiled.defined(), &sizes)
        .map_err(|error| YardstickError::Call(error.into()))?;
    let data = Data::new(device, &stream, &SMALL, compiled.defined(), &problem)?;
    let (inputs, outputs) = (data.arguments(compiled.defined(), 0), data.results(0));
    let call = call::prepare(&compiled, device, &inputs, &outputs, &sizes)
        .map_err(|reason| YardstickError::Refused { row: SMALL.name, reason })?;
    let mut seconds = 0.0;
    for batch in 0..=BATCHES {
        let start = Instant::now();
        for _ in 0..BATCH {
            call.launch(&stream)?;
        }
        // The first batch warms up.
        seconds += if batch == 0 { 0.0 } else { start.elapsed().as_secs_f64() };
        stream.synchronize()?;
    }
    Ok(1e6 * seconds / f64::from(BATCH * BATCHES))
}

fn milliseconds(start: Instant) -> f64 {
    1e3 * start.elapsed().as_secs_f64()
}
