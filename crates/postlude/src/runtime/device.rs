//! GPUs: what they are, and what belongs to each for the life of the process.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use crate::runtime::cache::DiskCache;
use crate::runtime::driver::{Context, DeviceBuffer, Driver};
use crate::runtime::error::RuntimeError;
use crate::runtime::function::{Function, Modules};
use crate::runtime::version::{self, CudaVersion, Target};
use crate::runtime::workspace::Workspaces;

/// Numbers that the driver gives facts about a GPU (`CUdevice_attribute`).
mod fact {
    pub(super) const PROCESSORS: i32 = 16;
    pub(super) const L2_BYTES: i32 = 38;
    pub(super) const CAPABILITY_MAJOR: i32 = 75;
    pub(super) const CAPABILITY_MINOR: i32 = 76;
    pub(super) const SHARED_BYTES: i32 = 97;
}

/// A GPU of this machine.
///
/// Cheap to clone; every clone of one GPU shares its loaded modules.
///
/// ```
/// use postlude::runtime::Device;
/// match Device::list() {
///     Ok(devices) => devices.iter().for_each(|device| println!("{device}")),
///     Err(error) => println!("{error}; {}", error.fix().unwrap_or_default()),
/// }
/// ```
#[derive(Clone)]
pub struct Device(Arc<Facts>);

struct Facts {
    context: Arc<Context>,
    name: String,
    processors: u32,
    memory: u64,
    shared_bytes: u32,
    l2_bytes: u32,
    capability: (u32, u32),
    release: Option<String>,
    modules: Modules,
    workspaces: Workspaces,
    /// What a call computes before its product.
    intermediates: Workspaces,
}

impl Device {
    /// How many GPUs there are; a machine without a driver is an error that says so.
    pub fn count() -> Result<u32, RuntimeError> {
        Driver::get()?.count()
    }

    /// Refuses a forked child of a process that used GPUs. It asks the driver nothing.
    #[doc(hidden)]
    pub fn refuse_forked() -> Result<(), RuntimeError> {
        Driver::is_own()
    }

    /// Every GPU that is visible.
    pub fn list() -> Result<Vec<Device>, RuntimeError> {
        (0..Device::count()?).map(Device::open).collect()
    }

    /// The GPU of that number, counted as CUDA counts them.
    pub fn open(ordinal: u32) -> Result<Device, RuntimeError> {
        static OPENED: Mutex<BTreeMap<u32, Device>> = Mutex::new(BTreeMap::new());
        Driver::get()?;
        let mut opened = OPENED.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(device) = opened.get(&ordinal) {
            return Ok(device.clone());
        }
        let device = Device(Arc::new(Facts::ask(ordinal)?));
        opened.insert(ordinal, device.clone());
        Ok(device)
    }

    /// Its number.
    pub fn ordinal(&self) -> u32 {
        self.0.context.ordinal()
    }

    /// What it is called.
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// How many streaming multiprocessors it has.
    #[doc(hidden)]
    pub fn processors(&self) -> u32 {
        self.0.processors
    }

    /// Its memory, in bytes.
    pub fn memory(&self) -> u64 {
        self.0.memory
    }

    /// Its free memory, in bytes.
    #[doc(hidden)]
    pub fn free_memory(&self) -> Result<u64, RuntimeError> {
        Ok(self.0.context.free_memory()?.0)
    }

    /// The most shared memory that a CTA may ask for, in bytes.
    #[doc(hidden)]
    pub fn shared_bytes(&self) -> u32 {
        self.0.shared_bytes
    }

    /// Its level-two cache, in bytes.
    #[doc(hidden)]
    pub fn l2_bytes(&self) -> u32 {
        self.0.l2_bytes
    }

    /// Its compute capability: `(9, 0)` for Hopper.
    #[doc(hidden)]
    pub fn capability(&self) -> (u32, u32) {
        self.0.capability
    }

    /// The same as a target.
    #[doc(hidden)]
    pub fn target(&self) -> Target {
        Target::of_capability(self.0.capability.0, self.0.capability.1)
    }

    /// The version of CUDA that the driver speaks.
    #[doc(hidden)]
    pub fn cuda_version(&self) -> CudaVersion {
        self.0.context.driver().version()
    }

    /// The driver's release, such as `580.65.06`, where the system tells it.
    #[doc(hidden)]
    pub fn driver_release(&self) -> Option<&str> {
        self.0.release.as_deref()
    }

    /// Takes memory; what it holds is not defined.
    pub fn allocate(&self, bytes: u64) -> Result<DeviceBuffer, RuntimeError> {
        DeviceBuffer::new(self, bytes)
    }

    /// Waits for everything that this process gave to the GPU.
    pub fn synchronize(&self) -> Result<(), RuntimeError> {
        self.0.context.synchronize()
    }

    /// A kernel of a PTX text: from memory, from the user's cache on disk, or compiled now.
    #[doc(hidden)]
    pub fn load(&self, text: &str, entry: &str) -> Result<Function, RuntimeError> {
        self.load_through(&DiskCache::standard(), text, entry)
    }

    /// The same through a cache of one's own choice.
    #[doc(hidden)]
    pub fn load_through(
        &self,
        cache: &DiskCache,
        text: &str,
        entry: &str,
    ) -> Result<Function, RuntimeError> {
        self.0.modules.function(self, cache, text, entry)
    }

    /// Forgets loaded modules (those in use stay loaded) and gives back workspaces, after waiting for the GPU.
    #[doc(hidden)]
    pub fn trim(&self) -> Result<(), RuntimeError> {
        // A kernel may still run whose module nobody holds any more.
        self.synchronize()?;
        self.0.modules.forget();
        self.0.intermediates.release_all(&self.0.context)?;
        self.0.workspaces.release_all(&self.0.context)
    }

    /// Refuses a forked child of the process that opened it.
    pub(crate) fn is_own(&self) -> Result<(), RuntimeError> {
        self.0.context.enter().map(drop)
    }

    /// Its context.
    pub(crate) fn context(&self) -> &Arc<Context> {
        &self.0.context
    }

    /// Scratch memory of its streams.
    pub(crate) fn workspaces(&self) -> &Workspaces {
        &self.0.workspaces
    }

    /// Memory of what calls compute before their products.
    pub(crate) fn intermediates(&self) -> &Workspaces {
        &self.0.intermediates
    }
}

impl Facts {
    fn ask(ordinal: u32) -> Result<Facts, RuntimeError> {
        let driver = Driver::get()?;
        let device = driver.device(ordinal)?;
        let fact = |number| driver.fact(device, number);
        Ok(Facts {
            context: Arc::new(Context::retain(ordinal)?),
            name: driver.name(device)?,
            processors: fact(fact::PROCESSORS)?,
            memory: driver.memory(device)?,
            shared_bytes: fact(fact::SHARED_BYTES)?,
            l2_bytes: fact(fact::L2_BYTES)?,
            capability: (fact(fact::CAPABILITY_MAJOR)?, fact(fact::CAPABILITY_MINOR)?),
            release: version::driver_release(),
            modules: Modules::default(),
            workspaces: Workspaces::default(),
            intermediates: Workspaces::default(),
        })
    }
}

impl fmt::Display for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "GPU {}: {} ({}", self.ordinal(), self.name(), self.target())?;
        write!(f, ", {} SMs, {} MiB", self.processors(), self.memory() >> 20)?;
        match self.driver_release() {
            Some(release) => write!(f, ", driver {release}, CUDA {})", self.cuda_version()),
            None => write!(f, ", CUDA {})", self.cuda_version()),
        }
    }
}

impl fmt::Debug for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
