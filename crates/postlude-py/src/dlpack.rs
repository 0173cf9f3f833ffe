//! DLPack: the C structures that frameworks describe their arrays with, read and made.
//!
//! In: a `DLTensor` of a capsule, or of a framework's C exchange table. Out: an [`Array`]. The other way, memory of ours is
//! handed over as a capsule. Invariant: nothing read here outlives the object that it was read from; callers hold that.

use std::ffi::{CStr, c_char, c_int, c_void};

use postlude::DType;
use pyo3::exceptions::PyBufferError;
use pyo3::prelude::*;
use pyo3::types::PyCapsule;

use crate::array::{Array, Location, MAX_RANK};

const CPU: i32 = 1;
const CUDA: i32 = 2;
const CUDA_HOST: i32 = 3;
const CUDA_MANAGED: i32 = 13;

/// The major version of the structures here.
const MAJOR: u32 = 1;
/// `DLPACK_FLAG_BITMASK_READ_ONLY`.
const READ_ONLY: u64 = 1;
const VERSIONED: &CStr = c"dltensor_versioned";
const UNVERSIONED: &CStr = c"dltensor";
const EXCHANGE: &CStr = c"dlpack_exchange_api";

#[repr(C)]
#[derive(Clone, Copy)]
struct DLDevice {
    kind: i32,
    id: i32,
}

#[repr(C)]
#[derive(Clone, Copy)]
struct DLDataType {
    code: u8,
    bits: u8,
    lanes: u16,
}

#[repr(C)]
struct DLTensor {
    data: *mut c_void,
    device: DLDevice,
    rank: i32,
    dtype: DLDataType,
    shape: *mut i64,
    strides: *mut i64,
    byte_offset: u64,
}

#[repr(C)]
struct DLManagedTensor {
    tensor: DLTensor,
    context: *mut c_void,
    deleter: Option<unsafe extern "C" fn(*mut DLManagedTensor)>,
}

#[repr(C)]
#[derive(Clone, Copy)]
struct DLPackVersion {
    major: u32,
    minor: u32,
}

#[repr(C)]
struct DLManagedTensorVersioned {
    version: DLPackVersion,
    context: *mut c_void,
    deleter: Option<unsafe extern "C" fn(*mut DLManagedTensorVersioned)>,
    flags: u64,
    tensor: DLTensor,
}

#[repr(C)]
struct ExchangeHeader {
    version: DLPackVersion,
    previous: *const ExchangeHeader,
}

/// A framework's functions, found on the type of its arrays.
#[repr(C)]
struct ExchangeTable {
    header: ExchangeHeader,
    allocate: *const c_void,
    managed_from_object: *const c_void,
    managed_to_object: *const c_void,
    tensor_from_object: Option<unsafe extern "C" fn(*mut c_void, *mut DLTensor) -> c_int>,
    current_stream: Option<unsafe extern "C" fn(i32, i32, *mut *mut c_void) -> c_int>,
}

// SAFETY: the table is constant, and its functions may be called from any thread that is attached to the interpreter.
unsafe impl Sync for ExchangeTable {}

/// A framework's C exchange table; it lives as long as the process.
#[derive(Clone, Copy)]
pub(crate) struct Exchange(&'static ExchangeTable);

impl Exchange {
    /// The table of a type, if it has one that speaks our version and can describe arrays without owning them.
    pub(crate) fn of_type(ty: &Bound<'_, PyAny>) -> Option<Exchange> {
        let capsule = ty.getattr("__dlpack_c_exchange_api__").ok()?;
        let capsule = capsule.cast::<PyCapsule>().ok()?;
        let mut header = capsule
            .pointer_checked(Some(EXCHANGE))
            .ok()?
            .cast::<ExchangeHeader>()
            .as_ptr()
            .cast_const();
        // SAFETY: a capsule of that name holds such a table, or a chain of older ones, for the life of the process.
        unsafe {
            while !header.is_null() && (*header).version.major != MAJOR {
                header = (*header).previous;
            }
            let table = header.cast::<ExchangeTable>().as_ref()?;
            (table.tensor_from_object.is_some() && table.current_stream.is_some())
                .then_some(Exchange(table))
        }
    }

    /// Describes an array of the type that the table is of.
    pub(crate) fn read(self, object: &Bound<'_, PyAny>) -> PyResult<Array> {
        let mut tensor = std::mem::MaybeUninit::<DLTensor>::uninit();
        let Some(function) = self.0.tensor_from_object else {
            return Err(PyBufferError::new_err("the framework cannot describe its arrays"));
        };
        // SAFETY: the function fills the structure, or fails with a Python exception; the interpreter is attached.
        unsafe {
            if function(object.as_ptr().cast(), tensor.as_mut_ptr()) != 0 {
                return Err(PyErr::fetch(object.py()));
            }
            array(tensor.assume_init_ref(), false)
        }
    }

    /// The framework's current stream of a GPU.
    pub(crate) fn stream(self, py: Python<'_>, device: u32) -> PyResult<usize> {
        let mut stream = std::ptr::null_mut();
        let Some(function) = self.0.current_stream else { return Ok(0) };
        // SAFETY: writes one handle, or fails with a Python exception; the interpreter is attached.
        if unsafe { function(CUDA, device as i32, &raw mut stream) } != 0 {
            return Err(PyErr::fetch(py));
        }
        Ok(stream.addr())
    }
}

/// Describes what `__dlpack__` gave. The capsule frees it when it is dropped: it has to outlive the answer's use.
pub(crate) fn read_capsule(capsule: &Bound<'_, PyCapsule>) -> PyResult<Array> {
    if let Ok(pointer) = capsule.pointer_checked(Some(VERSIONED)) {
        // SAFETY: a capsule of that name holds such a structure.
        let managed = unsafe { pointer.cast::<DLManagedTensorVersioned>().as_ref() };
        if managed.version.major != MAJOR {
            let message =
                format!("an array of DLPack {}, which is not known", managed.version.major);
            return Err(PyBufferError::new_err(message));
        }
        // SAFETY: the structure is of our version.
        return unsafe { array(&managed.tensor, managed.flags & READ_ONLY != 0) };
    }
    let pointer = capsule.pointer_checked(Some(UNVERSIONED))?;
    // SAFETY: as above.
    unsafe { array(&pointer.cast::<DLManagedTensor>().as_ref().tensor, false) }
}

/// # Safety
/// The tensor has as many sizes and strides as it says.
unsafe fn array(tensor: &DLTensor, read_only: bool) -> PyResult<Array> {
    let rank = tensor.rank as usize;
    if rank > MAX_RANK {
        return Err(PyBufferError::new_err(format!(
            "an array of {rank} dims; at most {MAX_RANK} are known"
        )));
    }
    let location = match tensor.device.kind {
        CPU | CUDA_HOST => Location::Host,
        CUDA | CUDA_MANAGED => Location::Gpu(tensor.device.id as u32),
        other => {
            return Err(PyBufferError::new_err(format!(
                "an array on a device of DLPack's kind {other}; CPU and CUDA are known"
            )));
        }
    };
    let dtype = dtype(tensor.dtype)?;
    let (mut shape, mut strides) = ([0; MAX_RANK], [0; MAX_RANK]);
    // SAFETY: promised by the caller; absent strides mean that the array is contiguous.
    unsafe {
        for dim in 0..rank {
            shape[dim] = (*tensor.shape.add(dim)) as usize;
            if !tensor.strides.is_null() {
                strides[dim] = (*tensor.strides.add(dim)) as isize;
            }
        }
    }
    let address = tensor.data.addr() as u64 + tensor.byte_offset;
    let mut array = Array { dtype, rank, shape, strides, address, location, read_only };
    if tensor.strides.is_null() {
        array.make_contiguous();
    }
    Ok(array)
}

fn dtype(dtype: DLDataType) -> PyResult<DType> {
    let known = match (dtype.code, dtype.bits, dtype.lanes) {
        (0, 8, 1) => Some(DType::I8),
        (0, 32, 1) => Some(DType::I32),
        (0, 64, 1) => Some(DType::I64),
        (1, 8, 1) => Some(DType::U8),
        (2, 16, 1) => Some(DType::F16),
        (2, 32, 1) => Some(DType::F32),
        (4, 16, 1) => Some(DType::BF16),
        (6, 8, 1) => Some(DType::Bool),
        (10, 8, 1) => Some(DType::F8E4M3),
        (12, 8, 1) => Some(DType::F8E5M2),
        (14, 8, 1) => Some(DType::F8E8M0),
        _ => None,
    };
    known.ok_or_else(|| {
        let kind = match dtype.code {
            0 => "a signed integer",
            1 => "an unsigned integer",
            2 => "a float",
            5 => "a complex number",
            _ => "a number of another kind",
        };
        let (bits, lanes) = (dtype.bits, dtype.lanes);
        PyBufferError::new_err(format!("its element is {kind} of {bits} bits in {lanes} lanes"))
    })
}

fn code(dtype: DType) -> DLDataType {
    let (code, bits) = match dtype {
        DType::I8 => (0, 8),
        DType::I32 => (0, 32),
        DType::I64 => (0, 64),
        DType::U8 | DType::B1 | DType::I4 | DType::U4 => (1, 8),
        DType::F16 => (2, 16),
        DType::F32 | DType::TF32 => (2, 32),
        DType::BF16 => (4, 16),
        DType::Bool => (6, 8),
        DType::F8E4M3 => (10, 8),
        DType::F8E5M2 => (12, 8),
        DType::F8E8M0 => (14, 8),
    };
    DLDataType { code, bits, lanes: 1 }
}

/// DLPack's name of where an array is.
pub(crate) fn device_of(location: Location) -> (i32, i32) {
    match location {
        Location::Host => (CPU, 0),
        Location::Gpu(number) => (CUDA, number as i32),
    }
}

/// Memory that a capsule owns.
struct Lent<T> {
    managed: DLManagedTensor,
    shape: Vec<i64>,
    _memory: T,
}

/// A capsule that owns memory: the framework that takes it frees it.
pub(crate) fn lend<'py, T: Send + 'static>(
    py: Python<'py>,
    array: &Array,
    memory: T,
) -> PyResult<Bound<'py, PyAny>> {
    unsafe extern "C" fn free<T>(managed: *mut DLManagedTensor) {
        // SAFETY: `context` is the box that was leaked below, freed once by its only owner.
        unsafe { drop(Box::from_raw((*managed).context.cast::<Lent<T>>())) };
    }
    /// What a capsule does that was not taken.
    unsafe extern "C" fn abandon<T>(capsule: *mut pyo3::ffi::PyObject) {
        // SAFETY: called by Python with the capsule; a taken one has another name.
        unsafe {
            if pyo3::ffi::PyCapsule_IsValid(capsule, UNVERSIONED.as_ptr()) == 1 {
                let managed = pyo3::ffi::PyCapsule_GetPointer(capsule, UNVERSIONED.as_ptr());
                free::<T>(managed.cast());
            }
        }
    }
    let (kind, id) = device_of(array.location);
    let tensor = DLTensor {
        data: std::ptr::with_exposed_provenance_mut(array.address as usize),
        device: DLDevice { kind, id },
        rank: array.rank as i32,
        dtype: code(array.dtype),
        shape: std::ptr::null_mut(),
        strides: std::ptr::null_mut(),
        byte_offset: 0,
    };
    let managed =
        DLManagedTensor { tensor, context: std::ptr::null_mut(), deleter: Some(free::<T>) };
    let shape = array.shape().iter().map(|size| *size as i64).collect();
    let lent = Box::into_raw(Box::new(Lent { managed, shape, _memory: memory }));
    // SAFETY: the box is ours until the capsule exists; its parts do not move any more.
    unsafe {
        (*lent).managed.tensor.shape = (*lent).shape.as_mut_ptr();
        (*lent).managed.context = lent.cast();
        let name: *const c_char = UNVERSIONED.as_ptr();
        let pointer = (&raw mut (*lent).managed).cast::<c_void>();
        let capsule = pyo3::ffi::PyCapsule_New(pointer, name, Some(abandon::<T>));
        Bound::from_owned_ptr_or_err(py, capsule).inspect_err(|_| drop(Box::from_raw(lent)))
    }
}
