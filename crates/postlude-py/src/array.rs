//! Arrays of any framework: where they are and how they lie, without a copy.

use std::ffi::{c_char, c_int, c_void};
use std::sync::{Mutex, PoisonError};

use postlude::DType;
use postlude::runtime::DeviceTensor;
use pyo3::exceptions::{PyBufferError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyType};

use crate::dlpack::{self, Exchange};

/// Dims of an array that can be described; kernels have fewer.
pub(crate) const MAX_RANK: usize = 8;

/// Whose memory an array is in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Location {
    Host,
    Gpu(u32),
}

/// An array in memory of a framework's.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Array {
    pub(crate) dtype: DType,
    pub(crate) rank: usize,
    pub(crate) shape: [usize; MAX_RANK],
    /// In elements.
    pub(crate) strides: [isize; MAX_RANK],
    pub(crate) address: u64,
    pub(crate) location: Location,
    pub(crate) read_only: bool,
}

impl Array {
    pub(crate) fn shape(&self) -> &[usize] {
        &self.shape[..self.rank]
    }

    pub(crate) fn strides(&self) -> &[isize] {
        &self.strides[..self.rank]
    }

    /// Rows without gaps.
    pub(crate) fn make_contiguous(&mut self) {
        let mut stride = 1;
        for dim in (0..self.rank).rev() {
            self.strides[dim] = stride;
            stride *= self.shape[dim].max(1) as isize;
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.shape().contains(&0)
    }

    /// As a declared type that is stored alike: packed elements are bytes, TF32 is float32.
    pub(crate) fn read_as(mut self, dtype: DType) -> Array {
        if dtype.is_packed() {
            return self.unpacked(dtype);
        }
        if dtype.is_stored_as(self.dtype) {
            self.dtype = dtype;
        }
        self
    }

    /// Bytes as the packed elements that they hold along the last dim.
    fn unpacked(mut self, dtype: DType) -> Array {
        if self.dtype == DType::U8 && self.rank > 0 {
            let last = self.rank - 1;
            // Frameworks leave any stride in a dim of one byte.
            if self.shape[last] == 1 {
                self.strides[last] = 1;
            }
            self.dtype = dtype;
            self.shape[last] *= dtype.per_byte();
            for dim in 0..last {
                self.strides[dim] *= dtype.per_byte() as isize;
            }
        }
        self
    }

    /// How far the first and the last byte of its elements are from its address; the end is beyond it.
    pub(crate) fn extent(&self) -> (i64, i64) {
        if self.is_empty() {
            return (0, 0);
        }
        let (mut low, mut high) = (0i64, 0i64);
        for (size, stride) in self.shape().iter().zip(self.strides()) {
            let reach = (*size as i64 - 1) * *stride as i64;
            if reach < 0 { low += reach } else { high += reach }
        }
        let bits = self.dtype.bits() as i64;
        (low * bits / 8, ((high + 1) * bits + 7) / 8)
    }

    /// As the checks of calls take it.
    pub(crate) fn described(&self) -> DeviceTensor {
        DeviceTensor {
            dtype: self.dtype,
            shape: self.shape().to_vec(),
            strides: self.strides().to_vec(),
            address: self.address,
            device: match self.location {
                Location::Host => 0,
                Location::Gpu(number) => number,
            },
            list: None,
        }
    }
}

/// How arrays of a type are described.
#[derive(Clone, Copy)]
pub(crate) enum Protocol {
    /// A table of C functions.
    Exchange(Exchange),
    /// NumPy's array interface, which knows the dtypes of `ml_dtypes`.
    Interface,
    /// A capsule for each array.
    Capsule,
}

/// The protocol of each type that was seen, with the type itself, so that its address is not given to another.
static PROTOCOLS: Mutex<Vec<(Py<PyType>, Protocol)>> = Mutex::new(Vec::new());

/// The protocol of an object's type, if it is an array.
pub(crate) fn protocol(object: &Bound<'_, PyAny>) -> Option<Protocol> {
    let ty = object.get_type();
    let known = || PROTOCOLS.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((_, protocol)) = known().iter().find(|(seen, _)| seen.is(&ty)) {
        return Some(*protocol);
    }
    let found = if let Some(exchange) = Exchange::of_type(&ty) {
        Protocol::Exchange(exchange)
    } else if ty.hasattr("__array_struct__").ok()? && ty.hasattr("__dlpack__").ok()? {
        Protocol::Interface
    } else if ty.hasattr("__dlpack__").ok()? {
        Protocol::Capsule
    } else {
        return None;
    };
    known().push((ty.unbind(), found));
    Some(found)
}

/// An array, and what has to live as long as it is used.
pub(crate) struct Held<'py> {
    pub(crate) array: Array,
    pub(crate) _keeper: Option<Bound<'py, PyAny>>,
}

/// Describes an object that is an array; `stream` is asked for where it lies on a GPU and its framework has to be told.
pub(crate) fn read<'py>(object: &Bound<'py, PyAny>, protocol: Protocol) -> PyResult<Held<'py>> {
    match protocol {
        Protocol::Exchange(exchange) => Ok(Held { array: exchange.read(object)?, _keeper: None }),
        Protocol::Interface => Ok(Held { array: interface(object)?, _keeper: None }),
        Protocol::Capsule => {
            let (kind, _): (i32, i32) = object.call_method0("__dlpack_device__")?.extract()?;
            // 1 is the legacy default stream of CUDA, on which such arrays are used.
            let capsule = if kind == 1 {
                object.call_method0("__dlpack__")?
            } else {
                object.call_method1("__dlpack__", (1,))?
            };
            let array = dlpack::read_capsule(capsule.cast::<PyCapsule>()?)?;
            Ok(Held { array, _keeper: Some(capsule) })
        }
    }
}

/// The same, where a failure names the argument.
pub(crate) fn read_named<'py>(
    name: &str,
    object: &Bound<'py, PyAny>,
    protocol: Protocol,
) -> PyResult<Held<'py>> {
    read(object, protocol).map_err(|error| {
        let reason = error.value(object.py()).to_string();
        unreadable(object.py(), name, &reason, error)
    })
}

/// NumPy's own description, in the memory of a capsule.
#[repr(C)]
struct Interface {
    two: c_int,
    rank: c_int,
    kind: c_char,
    element_bytes: c_int,
    flags: c_int,
    shape: *const isize,
    /// In bytes.
    strides: *const isize,
    data: *mut c_void,
}

/// `NPY_ARRAY_NOTSWAPPED` and `NPY_ARRAY_WRITEABLE`.
const NATIVE_ORDER: c_int = 0x200;
const WRITEABLE: c_int = 0x400;

fn interface(object: &Bound<'_, PyAny>) -> PyResult<Array> {
    let capsule = object.getattr("__array_struct__")?;
    let pointer = capsule.cast::<PyCapsule>()?.pointer_checked(None)?;
    // SAFETY: NumPy's capsule holds such a structure for as long as the capsule lives.
    let described = unsafe { pointer.cast::<Interface>().as_ref() };
    let unreadable = |reason: String| Err(PyBufferError::new_err(reason));
    let dtype = match (described.kind as u8, described.element_bytes) {
        (b'f', 4) => DType::F32,
        (b'f', 2) => DType::F16,
        (b'i', 1) => DType::I8,
        (b'i', 4) => DType::I32,
        (b'i', 8) => DType::I64,
        (b'u', 1) => DType::U8,
        (b'b', 1) => DType::Bool,
        _ => {
            let name: String = object.getattr("dtype")?.getattr("name")?.extract()?;
            match name.as_str() {
                "bfloat16" => DType::BF16,
                "float8_e4m3fn" => DType::F8E4M3,
                "float8_e5m2" => DType::F8E5M2,
                "float8_e8m0fnu" => DType::F8E8M0,
                _ => return unreadable(format!("its dtype is {name}")),
            }
        }
    };
    if described.flags & NATIVE_ORDER == 0 {
        return unreadable("its bytes are in the other order".to_owned());
    }
    let rank = described.rank as usize;
    if rank > MAX_RANK {
        return unreadable(format!("an array of {rank} dims; at most {MAX_RANK} are known"));
    }
    let (mut shape, mut strides) = ([0; MAX_RANK], [0; MAX_RANK]);
    let bytes = (dtype.bits() / 8) as isize;
    for dim in 0..rank {
        // SAFETY: there are as many sizes and strides as dims.
        let (size, step) = unsafe { (*described.shape.add(dim), *described.strides.add(dim)) };
        if step % bytes != 0 {
            return unreadable("its strides are no multiples of an element".to_owned());
        }
        (shape[dim], strides[dim]) = (size as usize, step / bytes);
    }
    let (address, read_only) = (described.data.addr() as u64, described.flags & WRITEABLE == 0);
    Ok(Array { dtype, rank, shape, strides, address, location: Location::Host, read_only })
}

/// NumPy's name of a dtype; packed elements are bytes there.
pub(crate) fn name_of(dtype: DType) -> &'static str {
    match dtype {
        DType::F32 | DType::TF32 => "float32",
        DType::F16 => "float16",
        DType::BF16 => "bfloat16",
        DType::F8E4M3 => "float8_e4m3fn",
        DType::F8E5M2 => "float8_e5m2",
        DType::F8E8M0 => "float8_e8m0fnu",
        DType::I8 => "int8",
        DType::U8 | DType::B1 | DType::I4 | DType::U4 => "uint8",
        DType::I32 => "int32",
        DType::I64 => "int64",
        DType::Bool => "bool",
    }
}

/// What is wrong with an object that is neither an array nor a number.
pub(crate) fn not_an_array(name: &str, object: &Bound<'_, PyAny>) -> PyErr {
    let ty = object.get_type();
    let ty =
        ty.fully_qualified_name().map_or_else(|_| "object".to_owned(), |name| name.to_string());
    PyTypeError::new_err(format!(
        "`{name}` is {ty}, which is neither an array (DLPack) nor a number"
    ))
}

/// What is wrong with an array that cannot be described.
pub(crate) fn unreadable(py: Python<'_>, name: &str, reason: &str, error: PyErr) -> PyErr {
    let help = "arrays of f32, f16, bf16, f8e4m3, f8e5m2, i8, u8, i32 and bool are taken, and int64 for indices";
    let exception =
        crate::error::mistake(py, &format!("`{name}` cannot be read: {reason}"), Some(help));
    exception.set_cause(py, Some(error));
    exception
}
