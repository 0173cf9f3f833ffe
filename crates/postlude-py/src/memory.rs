//! Memory that Postlude allocates for outputs of frameworks whose arrays cannot be written: handed over by DLPack.

use std::sync::Mutex;

use postlude::runtime::DeviceBuffer;
use pyo3::exceptions::PyBufferError;
use pyo3::prelude::*;

use crate::array::Array;
use crate::dlpack;

/// 64 bytes, aligned as frameworks want the memory that they take over without a copy.
#[derive(Clone, Copy, Default)]
#[repr(C, align(64))]
pub(crate) struct Line([u64; 8]);

/// Who frees it.
pub(crate) enum Owned {
    Host(#[expect(dead_code, reason = "freed with it")] Vec<Line>),
    Gpu(#[expect(dead_code, reason = "freed with it")] DeviceBuffer),
}

/// An output's memory. A framework takes it over with `from_dlpack`, once.
#[pyclass(frozen, module = "postlude._native")]
pub(crate) struct Memory {
    array: Array,
    owned: Mutex<Option<Owned>>,
}

impl Memory {
    pub(crate) fn new(array: Array, owned: Owned) -> Memory {
        Memory { array, owned: Mutex::new(Some(owned)) }
    }
}

#[pymethods]
impl Memory {
    /// DLPack's device.
    fn __dlpack_device__(&self) -> (i32, i32) {
        dlpack::device_of(self.array.location)
    }

    /// Hands the memory over; the producer has synchronised already.
    #[pyo3(signature = (*, stream = None, max_version = None, dl_device = None, copy = None))]
    fn __dlpack__<'py>(
        &self,
        py: Python<'py>,
        stream: Option<Bound<'py, PyAny>>,
        max_version: Option<Bound<'py, PyAny>>,
        dl_device: Option<Bound<'py, PyAny>>,
        copy: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        drop((stream, max_version, dl_device, copy));
        let owned = self.owned.lock().ok().and_then(|mut owned| owned.take());
        let Some(owned) = owned else {
            return Err(PyBufferError::new_err("the memory was handed over already"));
        };
        dlpack::lend(py, &self.array, owned)
    }
}
