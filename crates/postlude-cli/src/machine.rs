//! `postlude info`: this machine and what can run on it.

use std::fs;

use postlude::Backend;
use postlude::cuda;
use postlude::runtime::{Device, RuntimeError};
use serde::Serialize;

use crate::arguments::InfoArguments;
use crate::failure::{Failure, Outcome};
use crate::{cache, memory, print};

#[derive(Serialize)]
struct Machine {
    schema: u32,
    version: &'static str,
    commit: &'static str,
    system: String,
    processor: String,
    cores: usize,
    memory: Option<u64>,
    instruction_sets: Vec<&'static str>,
    gpus: Vec<Gpu>,
    backends: Vec<Runner>,
    cache: Option<String>,
}

#[derive(Serialize)]
struct Runner {
    name: &'static str,
    available: bool,
    note: String,
}

#[derive(Serialize)]
struct Gpu {
    number: u32,
    name: String,
    target: String,
    processors: u32,
    memory: u64,
    shared_bytes: u32,
    cuda: String,
    driver: Option<String>,
    #[serde(skip)]
    shown: String,
}

/// Runs the command.
pub(crate) fn info(arguments: &InfoArguments) -> Result<Outcome, Failure> {
    let machine = Machine::here();
    print::either(arguments.json, &machine, || machine.text())?;
    Ok(Outcome::Fine)
}

impl Machine {
    fn here() -> Machine {
        let devices = Device::list();
        let gpus = devices.iter().flatten().map(Gpu::of).collect();
        Machine {
            schema: 1,
            version: env!("CARGO_PKG_VERSION"),
            commit: env!("POSTLUDE_COMMIT"),
            system: format!("{} {}", std::env::consts::OS, std::env::consts::ARCH),
            processor: processor().unwrap_or_else(|| "unknown".to_owned()),
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            memory: memory::total().and_then(|bytes| u64::try_from(bytes).ok()),
            instruction_sets: instruction_sets(),
            gpus,
            backends: Backend::ALL.into_iter().map(|one| Runner::of(one, &devices)).collect(),
            cache: cache::folder().ok().map(|folder| folder.display().to_string()),
        }
    }

    fn text(&self) -> String {
        let or_unknown = |text: Option<String>| text.unwrap_or_else(|| "unknown".to_owned());
        let memory = self.memory.map(|bytes| memory::amount(u128::from(bytes)));
        let mut rows = vec![
            row("postlude", format!("{} ({})", self.version, self.commit)),
            row("system", self.system.clone()),
            row("processor", self.processor.clone()),
            row("cores", self.cores.to_string()),
            row("memory", or_unknown(memory)),
            row("instruction sets", self.instruction_sets.join(" ")),
        ];
        rows.extend(self.gpus.iter().map(|gpu| row("gpu", gpu.shown.clone())));
        for backend in &self.backends {
            let state = if backend.available { "available" } else { "not available" };
            rows.push(row(
                &format!("backend {}", backend.name),
                format!("{state}: {}", backend.note),
            ));
        }
        rows.push(row("cache", or_unknown(self.cache.clone())));
        print::table(&rows)
    }
}

fn row(name: &str, value: String) -> Vec<String> {
    vec![name.to_owned(), value]
}

impl Runner {
    fn of(backend: Backend, devices: &Result<Vec<Device>, RuntimeError>) -> Runner {
        let missing = if backend == Backend::Cuda { why_no_gpu(devices) } else { None };
        let available = missing.is_none();
        let note = missing.unwrap_or_else(|| backend.description().to_owned());
        Runner { name: backend.name(), available, note }
    }
}

/// Why kernels do not run on a GPU here.
fn why_no_gpu(devices: &Result<Vec<Device>, RuntimeError>) -> Option<String> {
    match devices {
        Err(error) => Some(error.to_string()),
        Ok(devices) => match devices.first() {
            None => Some("no GPU is visible".to_owned()),
            Some(first) => cuda::chip(first).err().map(|error| error.to_string()),
        },
    }
}

impl Gpu {
    fn of(device: &Device) -> Gpu {
        Gpu {
            number: device.ordinal(),
            name: device.name().to_owned(),
            target: device.target().to_string(),
            processors: device.processors(),
            memory: device.memory(),
            shared_bytes: device.shared_bytes(),
            cuda: device.cuda_version().to_string(),
            driver: device.driver_release().map(str::to_owned),
            shown: device.to_string(),
        }
    }
}

fn processor() -> Option<String> {
    let text = fs::read_to_string("/proc/cpuinfo").ok()?;
    let line = text.lines().find(|line| line.starts_with("model name"))?;
    Some(line.split_once(':')?.1.trim().to_owned())
}

#[cfg(target_arch = "x86_64")]
fn instruction_sets() -> Vec<&'static str> {
    macro_rules! detected {
        ($($name:tt)*) => {
            [$(($name, std::is_x86_feature_detected!($name))),*]
        };
    }
    let sets = detected!("sse4.2" "f16c" "fma" "avx" "avx2" "avx512f" "avx512bw" "avx512vnni" "avx512bf16" "avx512fp16");
    sets.into_iter().filter_map(|(name, there)| there.then_some(name)).collect()
}

#[cfg(target_arch = "aarch64")]
fn instruction_sets() -> Vec<&'static str> {
    macro_rules! detected {
        ($($name:tt)*) => {
            [$(($name, std::arch::is_aarch64_feature_detected!($name))),*]
        };
    }
    let sets = detected!("neon" "fp16" "bf16" "dotprod" "i8mm" "sve" "sve2");
    sets.into_iter().filter_map(|(name, there)| there.then_some(name)).collect()
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
fn instruction_sets() -> Vec<&'static str> {
    Vec::new()
}
