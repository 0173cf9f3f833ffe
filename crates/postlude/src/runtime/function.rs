//! Loaded kernels, and the modules in memory that they come from.
//!
//! In: a text. Out: a kernel on the GPU. A text is compiled or read from disk once a process and GPU, whoever asks and
//! from however many threads; other texts do not wait for it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use postlude_ptx::launch::Launch;

use crate::runtime::cache::{DiskCache, Key};
use crate::runtime::compile::{self, CompileLog, Usage};
use crate::runtime::device::Device;
use crate::runtime::driver::{Attribute, FunctionHandle, Module};
use crate::runtime::error::RuntimeError;
use crate::runtime::{signature, version};

/// Where a module's code came from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Origin {
    /// It was kept on disk.
    Disk,
    /// The driver compiled it in this process.
    Compiled,
}

struct Loaded {
    module: Arc<Module>,
    log: CompileLog,
    origin: Origin,
}

/// A place for a module; whoever holds it loads the module.
type Place = Arc<Mutex<Option<Arc<Loaded>>>>;

/// The loaded modules of a GPU, by the hash of all that decides their code.
#[derive(Default)]
pub(crate) struct Modules {
    places: Mutex<HashMap<Key, Place>>,
}

impl Modules {
    /// A kernel of a text.
    pub(crate) fn function(
        &self,
        device: &Device,
        cache: &DiskCache,
        text: &str,
        entry: &str,
    ) -> Result<Function, RuntimeError> {
        let key = key(device, text)?;
        let place = {
            let mut places = self.places.lock().unwrap_or_else(PoisonError::into_inner);
            places.entry(key).or_default().clone()
        };
        let loaded = {
            let mut place = place.lock().unwrap_or_else(PoisonError::into_inner);
            match &*place {
                Some(loaded) => loaded.clone(),
                None => place.insert(Arc::new(load(device, cache, &key, text)?)).clone(),
            }
        };
        let handle = loaded.module.function(entry)?;
        let Some(parameter_sizes) = signature::parameter_sizes(text, entry) else {
            return Err(RuntimeError::NoEntry { entry: entry.to_owned() });
        };
        Ok(Function(Arc::new(Parts {
            device: device.clone(),
            handle,
            loaded,
            entry: entry.to_owned(),
            parameter_sizes,
        })))
    }

    /// Forgets every module; those that a kernel holds stay loaded.
    pub(crate) fn forget(&self) {
        self.places.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }
}

/// Everything that decides the code: the text with its target, the driver's compiler, the GPU, and our own version.
fn key(device: &Device, text: &str) -> Result<Key, RuntimeError> {
    let (_, target) = version::declared(text)?;
    Ok(Key::of(&[
        text,
        &target.to_string(),
        &device.target().to_string(),
        &device.cuda_version().to_string(),
        device.driver_release().unwrap_or_default(),
        env!("CARGO_PKG_VERSION"),
    ]))
}

fn load(device: &Device, cache: &DiskCache, key: &Key, text: &str) -> Result<Loaded, RuntimeError> {
    if let Some(cubin) = cache.read(key)
        && let Ok(module) = Module::load(device.context(), &cubin.bytes)
    {
        return Ok(Loaded { module: Arc::new(module), log: cubin.log, origin: Origin::Disk });
    }
    let compiled = compile::compile(device, text)?;
    // A cache that cannot be written costs the next process a compilation, and this one nothing.
    if let Some(cubin) = &compiled.cubin {
        cache.write(key, cubin).ok();
    }
    let (module, log) = (Arc::new(compiled.module), compiled.log);
    Ok(Loaded { module, log, origin: Origin::Compiled })
}

/// A kernel on a GPU. Cheap to clone; keeps its module loaded.
#[derive(Clone)]
pub struct Function(Arc<Parts>);

struct Parts {
    device: Device,
    handle: FunctionHandle,
    loaded: Arc<Loaded>,
    entry: String,
    parameter_sizes: Vec<u32>,
}

impl Function {
    /// The GPU it is on.
    pub fn device(&self) -> &Device {
        &self.0.device
    }

    /// Its name in the text.
    pub fn entry(&self) -> &str {
        &self.0.entry
    }

    /// Where its module's code came from.
    pub fn origin(&self) -> Origin {
        self.0.loaded.origin
    }

    /// What the compiler said about its module.
    pub fn log(&self) -> &CompileLog {
        &self.0.loaded.log
    }

    /// What it takes of an SM, as the compiler said.
    pub fn usage(&self) -> Option<Usage> {
        self.0.loaded.log.usage(&self.0.entry)
    }

    /// Registers of a thread, as the driver sees the loaded kernel.
    pub fn registers(&self) -> Result<u32, RuntimeError> {
        self.0.handle.attribute(Attribute::Registers)
    }

    /// Bytes of local memory of a thread: more than none is a spill or a stack frame.
    pub fn local_bytes(&self) -> Result<u32, RuntimeError> {
        self.0.handle.attribute(Attribute::LocalBytes)
    }

    /// How many CTAs of such a launch the GPU holds at a time: the grid of a persistent kernel, in whole clusters.
    pub fn resident_blocks(&self, launch: &Launch) -> Result<u32, RuntimeError> {
        self.allow(launch)?;
        let cluster: u32 = launch.cluster.iter().product();
        if cluster > 1 {
            return Ok(self.0.handle.max_clusters(launch)? * cluster);
        }
        Ok(self.0.handle.max_blocks(launch)? * self.0.device.processors())
    }

    /// The sizes of its parameters, in bytes.
    pub(crate) fn parameter_sizes(&self) -> &[u32] {
        &self.0.parameter_sizes
    }

    /// The driver's kernel.
    pub(crate) fn handle(&self) -> &FunctionHandle {
        &self.0.handle
    }

    /// Refuses launches that the kernel or its GPU cannot do, and raises the kernel's limits for the others.
    pub(crate) fn allow(&self, launch: &Launch) -> Result<(), RuntimeError> {
        let (grid, cluster) = (launch.grid, launch.cluster);
        // CUDA C++ Programming Guide, "Compute Capabilities": y and z are 16-bit.
        let fits = (1..=i32::MAX as u32).contains(&grid[0])
            && grid[1..].iter().all(|count| (1..=0xffff).contains(count));
        if !fits {
            return Err(RuntimeError::Grid { grid });
        }
        if grid.iter().zip(cluster).any(|(count, of)| of == 0 || count % of != 0) {
            return Err(RuntimeError::Cluster { grid, cluster });
        }
        let handle = &self.0.handle;
        let axes = [Attribute::ClusterX, Attribute::ClusterY, Attribute::ClusterZ];
        let [x, y, z] = axes.map(|axis| handle.attribute(axis));
        // 0 where the text declares no cluster.
        let compiled = [x?, y?, z?].map(|count| count.max(1));
        if compiled != cluster {
            return Err(RuntimeError::ClusterMismatch { compiled, launched: cluster });
        }
        let most = handle.attribute(Attribute::MaxThreads)?;
        if !(1..=most).contains(&launch.threads) {
            return Err(RuntimeError::Threads { threads: launch.threads, most });
        }
        self.allow_shared_memory(launch.shared_bytes)?;
        if cluster.iter().product::<u32>() > PORTABLE_CLUSTER {
            handle.set(Attribute::LargeClusters, 1)?;
        }
        Ok(())
    }

    fn allow_shared_memory(&self, bytes: u32) -> Result<(), RuntimeError> {
        let fixed = self.0.handle.attribute(Attribute::SharedBytes)?;
        let most = self.0.device.shared_bytes().saturating_sub(fixed);
        if bytes > most {
            return Err(RuntimeError::SharedMemory { bytes, most });
        }
        if fixed + bytes > UNASKED_SHARED {
            // The most there is, so that launches from several threads never lower one another's limit.
            self.0.handle.set(Attribute::MaxDynamicSharedBytes, most)?;
        }
        Ok(())
    }
}

/// Shared memory that a CTA gets without asking.
const UNASKED_SHARED: u32 = 48 * 1024;
/// CTAs of a cluster that every GPU with clusters allows.
const PORTABLE_CLUSTER: u32 = 8;
