//! Streams: work on one is done in order.

use std::ffi::{c_int, c_uint};
use std::sync::OnceLock;

use super::context::Context;
use super::event::Event;
use super::table::Handle;
use crate::runtime::device::Device;
use crate::runtime::error::RuntimeError;

/// `CU_STREAM_NON_BLOCKING`: not ordered with the default stream.
const NON_BLOCKING: c_uint = 1;

/// A queue of work for a GPU, our own or another library's.
pub struct Stream {
    device: Device,
    handle: Handle,
    /// Never given to another stream of the process, unlike a handle. The driver is asked when it is needed first, for
    /// it does not answer while the stream is captured.
    number: OnceLock<u64>,
    owner: Owner,
}

enum Owner {
    Us,
    Other,
}

impl Stream {
    /// A new stream, destroyed when dropped.
    pub fn new(device: &Device) -> Result<Stream, RuntimeError> {
        let entered = device.context().enter()?;
        let mut handle = 0;
        // SAFETY: writes one handle.
        let code = unsafe { (entered.table().stream_create)(&raw mut handle, NON_BLOCKING) };
        entered.check("cuStreamCreate", code)?;
        Ok(Stream { device: device.clone(), handle, number: OnceLock::new(), owner: Owner::Us })
    }

    /// The GPU's default stream, ordered with every blocking stream.
    pub fn default_of(device: &Device) -> Result<Stream, RuntimeError> {
        Ok(Stream::other(device, 0))
    }

    /// A stream that another library made (a `CUstream` or `cudaStream_t`), which stays that library's to destroy.
    ///
    /// # Safety
    /// The handle is a stream of this GPU's primary context, and outlives the answer.
    pub unsafe fn from_raw(device: &Device, handle: usize) -> Result<Stream, RuntimeError> {
        Ok(Stream::other(device, handle))
    }

    fn other(device: &Device, handle: Handle) -> Stream {
        Stream { device: device.clone(), handle, number: OnceLock::new(), owner: Owner::Other }
    }

    fn ask_number(&self) -> Result<u64, RuntimeError> {
        let entered = self.device.context().enter()?;
        let mut number = 0;
        // SAFETY: writes one number; the stream is alive.
        let code = unsafe { (entered.table().stream_number)(self.handle, &raw mut number) };
        entered.check("cuStreamGetId", code)?;
        Ok(number)
    }

    /// The driver's handle, for other libraries.
    pub fn as_raw(&self) -> usize {
        self.handle
    }

    /// The GPU it is of.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// Waits until everything given to it is done; failures of its kernels come up here.
    pub fn synchronize(&self) -> Result<(), RuntimeError> {
        let entered = self.device.context().enter()?;
        // SAFETY: the stream is alive.
        let code = unsafe { (entered.table().stream_synchronize)(self.handle) };
        entered.check("cuStreamSynchronize", code)
    }

    /// Later work waits for an event of any stream.
    pub fn wait(&self, event: &Event) -> Result<(), RuntimeError> {
        let entered = self.device.context().enter()?;
        // SAFETY: stream and event are alive; 0 is the only flag used.
        let code = unsafe { (entered.table().stream_wait)(self.handle, event.handle(), 0) };
        entered.check("cuStreamWaitEvent", code)
    }

    /// Whether work is being recorded into a graph instead of done.
    pub(crate) fn is_capturing(&self) -> Result<bool, RuntimeError> {
        let entered = self.device.context().enter()?;
        let mut state: c_int = 0;
        // SAFETY: writes one enumerator; the stream is alive.
        let code = unsafe { (entered.table().stream_capturing)(self.handle, &raw mut state) };
        entered.check("cuStreamIsCapturing", code)?;
        Ok(state != 0)
    }

    /// The driver's handle.
    pub(super) fn handle(&self) -> Handle {
        self.handle
    }

    /// What tells it from every other stream of the process.
    pub(crate) fn number(&self) -> Result<u64, RuntimeError> {
        if let Some(number) = self.number.get() {
            return Ok(*number);
        }
        let number = self.ask_number()?;
        Ok(*self.number.get_or_init(|| number))
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        match self.owner {
            Owner::Other => {}
            Owner::Us => {
                // A forked child has nothing to give back.
                let Ok(entered) = self.device.context().enter() else { return };
                // Its own ordering frees what it used; nothing can be done about a failure here.
                self.device.workspaces().release(self).ok();
                self.device.intermediates().release(self).ok();
                // SAFETY: made by `new` and destroyed once; the driver finishes its work first.
                unsafe { (entered.table().stream_destroy)(self.handle) };
            }
        }
    }
}

/// `CU_STREAM_CAPTURE_MODE_RELAXED`
const RELAXED: c_int = 2;

/// Runs a body that takes memory and fills it at once, also while this thread records a graph on another stream.
pub(crate) fn relaxed_capture<T>(
    context: &Context,
    body: impl FnOnce() -> Result<T, RuntimeError>,
) -> Result<T, RuntimeError> {
    let exchange = |mut mode: c_int| -> Result<c_int, RuntimeError> {
        let entered = context.enter()?;
        // SAFETY: reads and writes one enumerator.
        let code = unsafe { (entered.table().thread_capture_mode)(&raw mut mode) };
        entered.check("cuThreadExchangeStreamCaptureMode", code)?;
        Ok(mode)
    };
    let before = exchange(RELAXED)?;
    let done = body();
    exchange(before)?;
    done
}
