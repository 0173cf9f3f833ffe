//! Events: places in a stream, and the time between two of them.

use std::ffi::c_uint;
use std::time::Duration;

use super::stream::Stream;
use super::table::Handle;
use crate::runtime::device::Device;
use crate::runtime::error::RuntimeError;

/// `CU_EVENT_DEFAULT`: waits actively and keeps the time.
const DEFAULT: c_uint = 0;

/// A place in a stream, with the time at which the GPU came by.
pub struct Event {
    device: Device,
    handle: Handle,
}

impl Event {
    /// An event that is nowhere yet.
    pub fn new(device: &Device) -> Result<Event, RuntimeError> {
        let entered = device.context().enter()?;
        let mut handle = 0;
        // SAFETY: writes one handle.
        let code = unsafe { (entered.table().event_create)(&raw mut handle, DEFAULT) };
        entered.check("cuEventCreate", code)?;
        Ok(Event { device: device.clone(), handle })
    }

    /// Places it after what the stream was given so far.
    pub fn record(&self, stream: &Stream) -> Result<(), RuntimeError> {
        let entered = self.device.context().enter()?;
        // SAFETY: event and stream are alive.
        let code = unsafe { (entered.table().event_record)(self.handle, stream.handle()) };
        entered.check("cuEventRecord", code)
    }

    /// Waits until the GPU has come by.
    pub fn synchronize(&self) -> Result<(), RuntimeError> {
        let entered = self.device.context().enter()?;
        // SAFETY: the event is alive.
        let code = unsafe { (entered.table().event_synchronize)(self.handle) };
        entered.check("cuEventSynchronize", code)
    }

    /// The GPU's time since an earlier event; both have to have come by.
    pub fn since(&self, earlier: &Event) -> Result<Duration, RuntimeError> {
        let entered = self.device.context().enter()?;
        let mut milliseconds = 0f32;
        // SAFETY: writes one float; both events are alive.
        let code = unsafe {
            (entered.table().event_elapsed)(&raw mut milliseconds, earlier.handle, self.handle)
        };
        entered.check("cuEventElapsedTime", code)?;
        Ok(Duration::from_secs_f64(f64::from(milliseconds.max(0.0)) / 1e3))
    }

    /// The driver's handle.
    pub(super) fn handle(&self) -> Handle {
        self.handle
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        if let Ok(entered) = self.device.context().enter() {
            // SAFETY: made by `new` and destroyed once; the driver keeps it until it has come by.
            unsafe { (entered.table().event_destroy)(self.handle) };
        }
    }
}
