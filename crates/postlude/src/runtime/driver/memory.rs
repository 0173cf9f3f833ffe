//! Memory of a GPU.
//!
//! Copies to and from the host wait for their stream, so that a slice is never read or written after the call.

use std::ffi::c_int;
use std::sync::Arc;

use super::context::Context;
use super::stream::Stream;
use crate::runtime::device::Device;
use crate::runtime::error::RuntimeError;

/// `CUDA_ERROR_INVALID_VALUE`: the answer about an address that the driver does not know.
const INVALID_VALUE: c_int = 1;
/// `CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL`
const POINTER_DEVICE: c_int = 9;
/// `CU_POINTER_ATTRIBUTE_MEMORY_TYPE`
const POINTER_MEMORY: c_int = 2;
/// `CU_MEMORYTYPE_DEVICE`; managed memory is reported as such too.
const DEVICE_MEMORY: u32 = 2;

/// Memory of a GPU, freed when dropped.
///
/// Dropping it waits until no kernel uses it any more.
///
/// ```no_run
/// use postlude::runtime::{Device, Stream};
/// let device = Device::open(0)?;
/// let stream = Stream::new(&device)?;
/// let buffer = device.allocate(4)?;
/// buffer.write(&stream, 0, &[1, 2, 3, 4])?;
/// let mut bytes = [0; 2];
/// buffer.read(&stream, 1, &mut bytes)?;
/// assert_eq!(bytes, [2, 3]);
/// # Ok::<(), postlude::runtime::RuntimeError>(())
/// ```
pub struct DeviceBuffer {
    device: Device,
    address: u64,
    bytes: u64,
}

impl DeviceBuffer {
    /// Takes memory; what it holds is not defined.
    pub(crate) fn new(device: &Device, bytes: u64) -> Result<DeviceBuffer, RuntimeError> {
        let mut address = 0;
        if bytes > 0 {
            let entered = device.context().enter()?;
            // SAFETY: writes one address.
            let code =
                unsafe { (entered.table().memory_allocate)(&raw mut address, bytes as usize) };
            entered.check_memory("cuMemAlloc", code, bytes)?;
        }
        Ok(DeviceBuffer { device: device.clone(), address, bytes })
    }

    /// Where it starts; 0 where it has no bytes.
    pub fn address(&self) -> u64 {
        self.address
    }

    /// How many bytes it has.
    pub fn len(&self) -> u64 {
        self.bytes
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.bytes == 0
    }

    /// The GPU it is on.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// Copies bytes from the host to `offset`, after what the stream was given before; returns when they are there.
    pub fn write(&self, stream: &Stream, offset: u64, bytes: &[u8]) -> Result<(), RuntimeError> {
        let Some(address) = self.range(offset, bytes.len() as u64)? else { return Ok(()) };
        let entered = self.device.context().enter()?;
        // SAFETY: the range lies in the buffer, and the slice outlives the copy because the stream is waited for.
        let code = unsafe {
            (entered.table().copy_to_device)(
                address,
                bytes.as_ptr().cast(),
                bytes.len(),
                stream.handle(),
            )
        };
        entered.check("cuMemcpyHtoDAsync", code)?;
        stream.synchronize()
    }

    /// Copies bytes from `offset` to the host, after what the stream was given before; returns when they are there.
    pub fn read(&self, stream: &Stream, offset: u64, bytes: &mut [u8]) -> Result<(), RuntimeError> {
        let Some(address) = self.range(offset, bytes.len() as u64)? else { return Ok(()) };
        let entered = self.device.context().enter()?;
        // SAFETY: the range lies in the buffer, and the slice is borrowed until the stream has been waited for.
        let code = unsafe {
            (entered.table().copy_to_host)(
                bytes.as_mut_ptr().cast(),
                address,
                bytes.len(),
                stream.handle(),
            )
        };
        entered.check("cuMemcpyDtoHAsync", code)?;
        stream.synchronize()
    }

    /// Everything it holds.
    pub fn to_vec(&self, stream: &Stream) -> Result<Vec<u8>, RuntimeError> {
        let mut bytes = vec![0; self.bytes as usize];
        self.read(stream, 0, &mut bytes)?;
        Ok(bytes)
    }

    /// Sets `count` bytes from `offset` on, in the stream's order; does not wait.
    pub fn fill(
        &self,
        stream: &Stream,
        offset: u64,
        count: u64,
        byte: u8,
    ) -> Result<(), RuntimeError> {
        let Some(address) = self.range(offset, count)? else { return Ok(()) };
        fill(self.device.context(), address, count, byte, stream)
    }

    /// Copies another buffer's bytes over the first ones of this, in the stream's order; does not wait.
    pub fn copy_from(&self, stream: &Stream, other: &DeviceBuffer) -> Result<(), RuntimeError> {
        let Some(address) = self.range(0, other.bytes)? else { return Ok(()) };
        let entered = self.device.context().enter()?;
        // SAFETY: both ranges lie in buffers, and memory is not freed before the GPU is done with it.
        let code = unsafe {
            (entered.table().copy_on_device)(
                address,
                other.address,
                other.bytes as usize,
                stream.handle(),
            )
        };
        entered.check("cuMemcpyDtoDAsync", code)
    }

    /// Copies bytes of this GPU's memory to `offset`, in the stream's order; does not wait. Nothing frees that memory before.
    pub(crate) fn copy_at(
        &self,
        stream: &Stream,
        offset: u64,
        from: u64,
        bytes: u64,
    ) -> Result<(), RuntimeError> {
        let Some(address) = self.range(offset, bytes)? else { return Ok(()) };
        let entered = self.device.context().enter()?;
        // SAFETY: the range lies in the buffer; what is read is memory that a call was validated to read.
        let code = unsafe {
            (entered.table().copy_on_device)(address, from, bytes as usize, stream.handle())
        };
        entered.check("cuMemcpyDtoDAsync", code)
    }

    /// The address of a range of the buffer; `None` for an empty one.
    fn range(&self, offset: u64, bytes: u64) -> Result<Option<u64>, RuntimeError> {
        if offset.checked_add(bytes).is_none_or(|end| end > self.bytes) {
            return Err(RuntimeError::CopyRange { offset, bytes, size: self.bytes });
        }
        Ok((bytes > 0).then(|| self.address + offset))
    }
}

impl Drop for DeviceBuffer {
    fn drop(&mut self) {
        if self.address == 0 {
            return;
        }
        if let Ok(entered) = self.device.context().enter() {
            // SAFETY: allocated by `new` and freed once; the driver waits for kernels that use it.
            unsafe { (entered.table().memory_free)(self.address) };
        }
    }
}

/// Sets bytes of a caller's memory to zero, in the stream's order; does not wait.
pub(crate) fn zero(
    context: &Context,
    address: u64,
    count: u64,
    stream: &Stream,
) -> Result<(), RuntimeError> {
    fill(context, address, count, 0, stream)
}

fn fill(
    context: &Context,
    address: u64,
    count: u64,
    byte: u8,
    stream: &Stream,
) -> Result<(), RuntimeError> {
    let entered = context.enter()?;
    // SAFETY: the callers' ranges lie in memory of theirs, which is not freed before the GPU is done with it.
    let code = unsafe { (entered.table().fill)(address, byte, count as usize, stream.handle()) };
    entered.check("cuMemsetD8Async", code)
}

/// Memory that was taken and is given back in the order of a stream.
///
/// Not freed when dropped: only its owner knows the stream that last used it.
#[derive(Debug)]
pub(crate) struct Allocation {
    address: u64,
    bytes: u64,
}

impl Allocation {
    /// Takes memory in a stream's order.
    pub(crate) fn new(
        context: &Arc<Context>,
        bytes: u64,
        stream: &Stream,
    ) -> Result<Allocation, RuntimeError> {
        let mut address = 0;
        let entered = context.enter()?;
        // SAFETY: writes one address; the stream is alive.
        let code = unsafe {
            (entered.table().memory_allocate_on)(&raw mut address, bytes as usize, stream.handle())
        };
        entered.check_memory("cuMemAllocAsync", code, bytes)?;
        Ok(Allocation { address, bytes })
    }

    /// Where it starts.
    pub(crate) fn address(&self) -> u64 {
        self.address
    }

    /// How many bytes it has.
    pub(crate) fn len(&self) -> u64 {
        self.bytes
    }

    /// Zeroes its first bytes in a stream's order.
    pub(crate) fn zero(
        &self,
        context: &Context,
        bytes: u64,
        stream: &Stream,
    ) -> Result<(), RuntimeError> {
        fill(context, self.address, bytes.min(self.bytes), 0, stream)
    }

    /// Gives the memory back in a stream's order.
    pub(crate) fn free(self, context: &Context, stream: &Stream) -> Result<(), RuntimeError> {
        let entered = context.enter()?;
        // SAFETY: allocated by `new` and consumed here; the stream is the one that used it.
        let code = unsafe { (entered.table().memory_free_on)(self.address, stream.handle()) };
        entered.check("cuMemFreeAsync", code)
    }

    /// Gives the memory back when the whole context has been waited for.
    pub(crate) fn free_after_wait(self, context: &Context) -> Result<(), RuntimeError> {
        let entered = context.enter()?;
        // SAFETY: allocated by `new`, consumed here, and nothing uses it any more.
        let code = unsafe { (entered.table().memory_free)(self.address) };
        entered.check("cuMemFree", code)
    }
}

/// The number of the GPU whose memory an address is in; `None` where it is no GPU's.
pub(crate) fn pointer_device(context: &Context, address: u64) -> Result<Option<u32>, RuntimeError> {
    let entered = context.enter()?;
    let (mut ordinal, mut memory): (c_int, u32) = (0, 0);
    // SAFETY: writes one unsigned int; an address that the driver does not know is an error code.
    let code = unsafe {
        (entered.table().pointer_attribute)((&raw mut memory).cast(), POINTER_MEMORY, address)
    };
    if code == INVALID_VALUE {
        return Ok(None);
    }
    // Anything else may be the failure of earlier work, which is not the address's fault.
    entered.check("cuPointerGetAttribute", code)?;
    if memory != DEVICE_MEMORY {
        return Ok(None);
    }
    // SAFETY: writes one int.
    let code = unsafe {
        (entered.table().pointer_attribute)((&raw mut ordinal).cast(), POINTER_DEVICE, address)
    };
    entered.check("cuPointerGetAttribute", code)?;
    Ok(Some(ordinal.unsigned_abs()))
}
