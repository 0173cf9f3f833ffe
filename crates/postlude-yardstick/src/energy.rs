//! The energy that a GPU has used since its driver was loaded, from NVML.
//!
//! In: a GPU's number. Out: joules, or nothing where there is no NVML or the GPU does not count them: a benchmark goes on
//! without. The counter advances every few tens of milliseconds, so blocks of a second and more can be told apart.
//! Numbers and signatures are those of `nvml.h`.

#![allow(unsafe_code)]

use std::ffi::{c_int, c_uint, c_ulonglong};

use libloading::Library;

/// NVML's handle of a GPU: opaque, never read through.
type Handle = usize;
type Init = unsafe extern "C" fn() -> c_int;
type ByIndex = unsafe extern "C" fn(c_uint, *mut Handle) -> c_int;
type Energy = unsafe extern "C" fn(Handle, *mut c_ulonglong) -> c_int;

const SUCCESS: c_int = 0;

/// A GPU's counter of energy.
pub struct EnergyMeter {
    gpu: Handle,
    energy: Energy,
    /// What the function belongs to; never closed while it can be called.
    _library: Library,
}

impl EnergyMeter {
    /// The counter of the GPU of this number; `None` where there is none.
    pub fn open(ordinal: u32) -> Option<EnergyMeter> {
        let name = if cfg!(windows) { "nvml.dll" } else { "libnvidia-ml.so.1" };
        // SAFETY: loading NVIDIA's library runs its own initialisers alone.
        let library = unsafe { Library::new(name) }.ok()?;
        // SAFETY: `nvml.h` declares these signatures for these names.
        let (init, by_index, energy) = unsafe {
            (
                *library.get::<Init>(b"nvmlInit_v2\0").ok()?,
                *library.get::<ByIndex>(b"nvmlDeviceGetHandleByIndex_v2\0").ok()?,
                *library.get::<Energy>(b"nvmlDeviceGetTotalEnergyConsumption\0").ok()?,
            )
        };
        let mut gpu = 0;
        // SAFETY: NVML is initialised before a handle is asked for, which is written to one word.
        let found = unsafe { init() == SUCCESS && by_index(ordinal, &raw mut gpu) == SUCCESS };
        let meter = EnergyMeter { gpu, energy, _library: library };
        (found && meter.joules().is_some()).then_some(meter)
    }

    /// Joules so far.
    pub fn joules(&self) -> Option<f64> {
        let mut millijoules = 0;
        // SAFETY: the handle is NVML's own, and one number is written.
        let code = unsafe { (self.energy)(self.gpu, &raw mut millijoules) };
        (code == SUCCESS).then_some(millijoules as f64 / 1e3)
    }
}
