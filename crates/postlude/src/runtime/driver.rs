//! The driver, opened at run time: the one place of the run time with unsafe code.
//!
//! The table of functions is our own rather than a binding crate's, so that every failure mode is ours to word: no
//! library, a library without a function, a stub, a driver that is too old. Nothing is linked, and a machine without a
//! driver builds and runs everything else.
//!
//! Invariant: a function of the table is called with handles that the same driver gave and that are still alive, with
//! the context of their GPU current. The types of this module keep that: a handle lives in a value that knows its
//! context, and calls go through [`Context::enter`].

mod compiler;
mod context;
mod event;
mod forks;
mod function;
mod map;
mod memory;
mod stream;
mod table;

use std::ffi::{CStr, c_char, c_int};
use std::sync::OnceLock;

pub(crate) use compiler::Compiler;
pub(crate) use context::Context;
pub use event::Event;
pub(crate) use function::{Attribute, FunctionHandle, Module, Order};
pub(crate) use map::encode;
pub use memory::DeviceBuffer;
pub(crate) use memory::{Allocation, pointer_device, zero};
pub use stream::Stream;
pub(crate) use stream::relaxed_capture;

use crate::runtime::error::RuntimeError;
use crate::runtime::version::CudaVersion;
use table::Table;

/// What the driver's library is called.
const NAMES: &[&str] =
    if cfg!(windows) { &["nvcuda.dll"] } else { &["libcuda.so.1", "libcuda.so"] };

const OUT_OF_MEMORY: c_int = 2;

/// The opened and initialised driver.
pub(crate) struct Driver {
    table: Table,
    version: CudaVersion,
}

impl Driver {
    /// The process's driver, opened once; a failure is remembered too.
    pub(crate) fn get() -> Result<&'static Driver, RuntimeError> {
        static DRIVER: OnceLock<Result<Driver, RuntimeError>> = OnceLock::new();
        if let Some(Err(failure)) = DRIVER.get() {
            return Err(failure.clone());
        }
        forks::watch();
        Driver::is_own()?;
        DRIVER.get_or_init(|| Driver::open(NAMES)).as_ref().map_err(Clone::clone)
    }

    /// Refuses a forked child of a process that opened the driver: nothing that the driver gave is the child's.
    pub(crate) fn is_own() -> Result<(), RuntimeError> {
        if forks::is_child() { Err(RuntimeError::Forked) } else { Ok(()) }
    }

    /// Opens the first of these libraries that there is.
    pub(crate) fn open(names: &[&str]) -> Result<Driver, RuntimeError> {
        let table = Table::open(names)?;
        let mut driver = Driver { table, version: CudaVersion::from_number(0) };
        // SAFETY: takes no pointers; 0 is the only flag there is.
        driver.check("cuInit", unsafe { (driver.table.init)(0) })?;
        let mut number = 0;
        // SAFETY: writes one int.
        let code = unsafe { (driver.table.driver_version)(&raw mut number) };
        driver.check("cuDriverGetVersion", code)?;
        driver.version = CudaVersion::from_number(number);
        Ok(driver)
    }

    /// The version of CUDA that the driver speaks.
    pub(crate) fn version(&self) -> CudaVersion {
        self.version
    }

    /// How many GPUs there are.
    pub(crate) fn count(&self) -> Result<u32, RuntimeError> {
        let mut count = 0;
        // SAFETY: writes one int.
        let code = unsafe { (self.table.device_count)(&raw mut count) };
        self.check("cuDeviceGetCount", code)?;
        Ok(count.unsigned_abs())
    }

    /// A fact about a GPU, by the number that the driver gives the fact.
    pub(crate) fn fact(&self, device: c_int, fact: c_int) -> Result<u32, RuntimeError> {
        let mut value = 0;
        // SAFETY: writes one int; an unknown device or fact is an error code.
        let code = unsafe { (self.table.device_attribute)(&raw mut value, fact, device) };
        self.check("cuDeviceGetAttribute", code)?;
        Ok(value.unsigned_abs())
    }

    /// What a GPU is called.
    pub(crate) fn name(&self, device: c_int) -> Result<String, RuntimeError> {
        let mut name = [0u8; 256];
        // SAFETY: writes at most 256 bytes, with a zero at the end.
        let code = unsafe {
            (self.table.device_name)(name.as_mut_ptr().cast(), name.len() as c_int, device)
        };
        self.check("cuDeviceGetName", code)?;
        let name = CStr::from_bytes_until_nul(&name).unwrap_or_default();
        Ok(name.to_string_lossy().into_owned())
    }

    /// A GPU's memory, in bytes.
    pub(crate) fn memory(&self, device: c_int) -> Result<u64, RuntimeError> {
        let mut bytes = 0usize;
        // SAFETY: writes one size.
        let code = unsafe { (self.table.device_memory)(&raw mut bytes, device) };
        self.check("cuDeviceTotalMem", code)?;
        Ok(bytes as u64)
    }

    /// A GPU's own number for the driver.
    pub(crate) fn device(&self, ordinal: u32) -> Result<c_int, RuntimeError> {
        let count = self.count()?;
        if ordinal >= count {
            return Err(RuntimeError::NoDevice { ordinal, count });
        }
        let mut device = 0;
        // SAFETY: writes one int.
        let code = unsafe { (self.table.device_get)(&raw mut device, ordinal as c_int) };
        self.check("cuDeviceGet", code)?;
        Ok(device)
    }

    /// A result as an error.
    fn check(&self, call: &'static str, code: c_int) -> Result<(), RuntimeError> {
        if code == 0 { Ok(()) } else { Err(self.error(call, code)) }
    }

    /// The same for a call that takes memory.
    fn check_memory(
        &self,
        call: &'static str,
        code: c_int,
        bytes: u64,
    ) -> Result<(), RuntimeError> {
        match code {
            OUT_OF_MEMORY => Err(RuntimeError::OutOfMemory { bytes }),
            code => self.check(call, code),
        }
    }

    #[cold]
    fn error(&self, call: &'static str, code: c_int) -> RuntimeError {
        let name = words(self.table.error_name, code);
        let name = if name.is_empty() { format!("error {code}") } else { name };
        RuntimeError::Driver { call, code, name, text: words(self.table.error_text, code) }
    }
}

/// What a function of the table says about a result; nothing where it does not know it.
fn words(of: table::ErrorWords, code: c_int) -> String {
    let mut words: *const c_char = std::ptr::null();
    // SAFETY: writes one pointer, to a constant of the library or null.
    let result = unsafe { of(code, &raw mut words) };
    if result != 0 || words.is_null() {
        return String::new();
    }
    // SAFETY: a constant of the library that ends with a zero; the library is never closed.
    unsafe { CStr::from_ptr(words) }.to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_without_a_driver_is_told_what_to_do() {
        let error = Driver::open(&["libno-such-driver.so.1"]).map(|_| ()).unwrap_err();
        assert!(matches!(&error, RuntimeError::NoDriver { tried, .. } if tried.len() == 1));
        assert!(error.to_string().contains("libno-such-driver.so.1"), "{error}");
        assert!(error.fix().is_some_and(|fix| fix.contains("use the CPU backend")));
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn a_library_that_is_no_driver_is_an_error_and_not_a_crash() {
        let error = Driver::open(&["libc.so.6"]).map(|_| ()).unwrap_err();
        let RuntimeError::NoSymbol { symbol, version: None } = &error else {
            panic!("{error:?}");
        };
        assert!(symbol.starts_with("cu"), "{symbol}");
        assert!(error.fix().is_some_and(|fix| fix.contains("install NVIDIA driver")));
    }
}
