//! The primary context of a GPU, shared with whatever else in the process uses that GPU.
//!
//! It is retained once and never released or destroyed: other libraries (PyTorch) live in the same context. Every call
//! makes it current for its own length and then restores what was current before.

use std::ffi::c_int;
use std::marker::PhantomData;

use super::Driver;
use super::table::{Handle, Table};
use crate::runtime::error::RuntimeError;

/// A GPU's primary context.
pub(crate) struct Context {
    driver: &'static Driver,
    handle: Handle,
    ordinal: u32,
}

/// The time in which a context is current; the driver may be called through it.
pub(crate) struct Entered<'a> {
    context: &'a Context,
    pushed: bool,
    /// A context is current for one thread.
    thread: PhantomData<*const ()>,
}

impl Context {
    /// Retains the primary context of a GPU for the rest of the process.
    pub(crate) fn retain(ordinal: u32) -> Result<Context, RuntimeError> {
        let driver = Driver::get()?;
        let device: c_int = driver.device(ordinal)?;
        let mut handle = 0;
        // SAFETY: writes one handle.
        let code = unsafe { (driver.table.primary_retain)(&raw mut handle, device) };
        driver.check("cuDevicePrimaryCtxRetain", code)?;
        Ok(Context { driver, handle, ordinal })
    }

    /// The driver it belongs to.
    pub(crate) fn driver(&self) -> &'static Driver {
        self.driver
    }

    /// Which GPU it is of.
    pub(crate) fn ordinal(&self) -> u32 {
        self.ordinal
    }

    /// Makes the context current until the answer is dropped.
    pub(crate) fn enter(&self) -> Result<Entered<'_>, RuntimeError> {
        Driver::is_own()?;
        let mut current = 0;
        // SAFETY: writes one handle, null where no context is current.
        let code = unsafe { (self.driver.table.context_current)(&raw mut current) };
        self.driver.check("cuCtxGetCurrent", code)?;
        let pushed = current != self.handle;
        if pushed {
            // SAFETY: the context is retained for the rest of the process.
            let code = unsafe { (self.driver.table.context_push)(self.handle) };
            self.driver.check("cuCtxPushCurrent", code)?;
        }
        Ok(Entered { context: self, pushed, thread: PhantomData })
    }

    /// Waits for everything that was given to the GPU in this context.
    pub(crate) fn synchronize(&self) -> Result<(), RuntimeError> {
        let entered = self.enter()?;
        // SAFETY: takes nothing; the context is current.
        let code = unsafe { (entered.table().context_synchronize)() };
        entered.check("cuCtxSynchronize", code)
    }

    /// Free and all memory, in bytes.
    pub(crate) fn free_memory(&self) -> Result<(u64, u64), RuntimeError> {
        let entered = self.enter()?;
        let (mut free, mut total) = (0usize, 0usize);
        // SAFETY: writes two sizes; the context is current.
        let code = unsafe { (entered.table().memory_free_total)(&raw mut free, &raw mut total) };
        entered.check("cuMemGetInfo", code)?;
        Ok((free as u64, total as u64))
    }
}

impl Entered<'_> {
    /// The driver's functions.
    pub(super) fn table(&self) -> &'static Table {
        &self.context.driver.table
    }

    /// A result as an error.
    pub(super) fn check(&self, call: &'static str, code: c_int) -> Result<(), RuntimeError> {
        self.context.driver.check(call, code)
    }

    /// The same for a call that takes memory.
    pub(super) fn check_memory(
        &self,
        call: &'static str,
        code: c_int,
        bytes: u64,
    ) -> Result<(), RuntimeError> {
        self.context.driver.check_memory(call, code, bytes)
    }
}

impl Drop for Entered<'_> {
    fn drop(&mut self) {
        if self.pushed {
            let mut popped = 0;
            // SAFETY: takes back the context that `enter` pushed on this thread.
            unsafe { (self.table().context_pop)(&raw mut popped) };
        }
    }
}
