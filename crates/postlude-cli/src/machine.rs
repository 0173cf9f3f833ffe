//! `postlude info`: this machine and what can run on it.

use std::fs;

use postlude::Backend;
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
    backends: Vec<Runner>,
    cache: Option<String>,
}

#[derive(Serialize)]
struct Runner {
    name: &'static str,
    available: bool,
    note: &'static str,
}

/// Runs the command.
pub(crate) fn info(arguments: &InfoArguments) -> Result<Outcome, Failure> {
    let machine = Machine::here();
    print::either(arguments.json, &machine, || machine.text())?;
    Ok(Outcome::Fine)
}

impl Machine {
    fn here() -> Machine {
        Machine {
            schema: 1,
            version: env!("CARGO_PKG_VERSION"),
            commit: env!("POSTLUDE_COMMIT"),
            system: format!("{} {}", std::env::consts::OS, std::env::consts::ARCH),
            processor: processor().unwrap_or_else(|| "unknown".to_owned()),
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            memory: memory::total().and_then(|bytes| u64::try_from(bytes).ok()),
            instruction_sets: instruction_sets(),
            backends: Backend::ALL.into_iter().map(Runner::of).collect(),
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
    const fn of(backend: Backend) -> Runner {
        let note = match backend {
            Backend::Reference => "the definition, in f64, with error bounds",
            Backend::Cpu => "tiled, fused and parallel",
            Backend::Cuda => "one fused kernel, compiled by the driver (Hopper)",
        };
        Runner { name: backend.name(), available: true, note }
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
