//! A table: the driver's functions that the run time calls, under the names that the library exports.
//!
//! Names carry the version whose signature is written here (CUDA Driver API, headers of CUDA 12).

use std::ffi::{c_char, c_int, c_uint, c_void};

use libloading::Library;

use crate::runtime::error::RuntimeError;
use crate::runtime::version::CudaVersion;

/// A handle of the driver: opaque, never read through.
///
/// A number of a pointer's size, so that values with handles may move between threads, as the driver allows.
pub(super) type Handle = usize;

/// Gives the name or the description of a result.
pub(super) type ErrorWords = unsafe extern "C" fn(c_int, *mut *const c_char) -> c_int;

/// What a launch or a question about one is given (`CUlaunchConfig`).
#[repr(C)]
pub(super) struct LaunchConfiguration {
    pub(super) grid: [c_uint; 3],
    pub(super) block: [c_uint; 3],
    pub(super) shared_bytes: c_uint,
    pub(super) stream: Handle,
    pub(super) attributes: *mut LaunchAttribute,
    pub(super) attribute_count: c_uint,
}

/// One attribute of a launch (`CUlaunchAttribute`).
#[repr(C)]
pub(super) struct LaunchAttribute {
    pub(super) id: c_uint,
    pub(super) padding: c_uint,
    /// A union of 64 bytes; a cluster's three sizes come first.
    pub(super) value: [c_uint; 16],
}

/// 128 bytes that describe a tensor to the copy engine (`CUtensorMap`).
#[derive(Clone, Copy)]
#[repr(C, align(64))]
pub(super) struct EncodedMap(pub(super) [u8; 128]);

macro_rules! table {
    ($($field:ident = $symbol:literal ($($kind:ty),* $(,)?);)*) => {
        /// Functions of the opened library.
        pub(super) struct Table {
            $(pub(super) $field: unsafe extern "C" fn($($kind),*) -> c_int,)*
            /// What the functions belong to; never closed while they can be called.
            _library: Library,
        }

        impl Table {
            fn resolve(library: Library) -> Result<Table, RuntimeError> {
                let version = version(&library);
                $(
                    // SAFETY: the signature is the one that the driver's header declares for this name.
                    let $field = unsafe {
                        library.get::<unsafe extern "C" fn($($kind),*) -> c_int>(concat!($symbol, "\0").as_bytes())
                    };
                    let $field = *$field.map_err(|_| RuntimeError::NoSymbol { symbol: $symbol, version })?;
                )*
                Ok(Table { $($field,)* _library: library })
            }
        }
    };
}

table! {
    init = "cuInit"(c_uint);
    driver_version = "cuDriverGetVersion"(*mut c_int);
    error_name = "cuGetErrorName"(c_int, *mut *const c_char);
    error_text = "cuGetErrorString"(c_int, *mut *const c_char);

    device_count = "cuDeviceGetCount"(*mut c_int);
    device_get = "cuDeviceGet"(*mut c_int, c_int);
    device_name = "cuDeviceGetName"(*mut c_char, c_int, c_int);
    device_memory = "cuDeviceTotalMem_v2"(*mut usize, c_int);
    device_attribute = "cuDeviceGetAttribute"(*mut c_int, c_int, c_int);

    primary_retain = "cuDevicePrimaryCtxRetain"(*mut Handle, c_int);
    context_current = "cuCtxGetCurrent"(*mut Handle);
    context_push = "cuCtxPushCurrent_v2"(Handle);
    context_pop = "cuCtxPopCurrent_v2"(*mut Handle);
    context_synchronize = "cuCtxSynchronize"();

    memory_free_total = "cuMemGetInfo_v2"(*mut usize, *mut usize);
    memory_allocate = "cuMemAlloc_v2"(*mut u64, usize);
    memory_free = "cuMemFree_v2"(u64);
    memory_allocate_on = "cuMemAllocAsync"(*mut u64, usize, Handle);
    memory_free_on = "cuMemFreeAsync"(u64, Handle);
    copy_to_device = "cuMemcpyHtoDAsync_v2"(u64, *const c_void, usize, Handle);
    copy_to_host = "cuMemcpyDtoHAsync_v2"(*mut c_void, u64, usize, Handle);
    copy_on_device = "cuMemcpyDtoDAsync_v2"(u64, u64, usize, Handle);
    fill = "cuMemsetD8Async"(u64, u8, usize, Handle);
    pointer_attribute = "cuPointerGetAttribute"(*mut c_void, c_int, u64);

    stream_create = "cuStreamCreate"(*mut Handle, c_uint);
    stream_synchronize = "cuStreamSynchronize"(Handle);
    stream_wait = "cuStreamWaitEvent"(Handle, Handle, c_uint);
    stream_destroy = "cuStreamDestroy_v2"(Handle);
    stream_capturing = "cuStreamIsCapturing"(Handle, *mut c_int);
    thread_capture_mode = "cuThreadExchangeStreamCaptureMode"(*mut c_int);
    stream_number = "cuStreamGetId"(Handle, *mut u64);

    event_create = "cuEventCreate"(*mut Handle, c_uint);
    event_record = "cuEventRecord"(Handle, Handle);
    event_synchronize = "cuEventSynchronize"(Handle);
    event_elapsed = "cuEventElapsedTime"(*mut f32, Handle, Handle);
    event_destroy = "cuEventDestroy_v2"(Handle);

    module_load = "cuModuleLoadData"(*mut Handle, *const c_void);
    module_compile = "cuModuleLoadDataEx"(*mut Handle, *const c_void, c_uint, *mut c_int, *mut *mut c_void);
    module_unload = "cuModuleUnload"(Handle);
    module_function = "cuModuleGetFunction"(*mut Handle, Handle, *const c_char);
    function_attribute = "cuFuncGetAttribute"(*mut c_int, c_int, Handle);
    function_set = "cuFuncSetAttribute"(Handle, c_int, c_int);
    launch = "cuLaunchKernel"(Handle, c_uint, c_uint, c_uint, c_uint, c_uint, c_uint, c_uint, Handle, *mut *mut c_void, *mut *mut c_void);
    launch_configured = "cuLaunchKernelEx"(*const LaunchConfiguration, Handle, *mut *mut c_void, *mut *mut c_void);
    max_blocks = "cuOccupancyMaxActiveBlocksPerMultiprocessor"(*mut c_int, Handle, c_int, usize);
    max_clusters = "cuOccupancyMaxActiveClusters"(*mut c_int, Handle, *const LaunchConfiguration);

    map_encode = "cuTensorMapEncodeTiled"(*mut EncodedMap, c_int, c_uint, u64, *const u64, *const u64, *const c_uint, *const c_uint, c_int, c_int, c_int, c_int);
}

impl Table {
    /// Opens the first of these libraries that there is, and finds every function in it.
    pub(super) fn open(names: &[&str]) -> Result<Table, RuntimeError> {
        let mut reason = String::new();
        for name in names {
            // SAFETY: the driver's library may be opened in any process; what it runs on opening is its own affair.
            match unsafe { Library::new(*name) } {
                Ok(library) => return Table::resolve(library),
                Err(error) if reason.is_empty() => reason = plain(&error),
                Err(_) => {}
            }
        }
        let tried = names.iter().map(|name| (*name).to_owned()).collect();
        Err(RuntimeError::NoDriver { tried, reason })
    }
}

/// The system's own words, which the error itself hides in its source.
fn plain(error: &libloading::Error) -> String {
    std::error::Error::source(error).map_or_else(|| error.to_string(), ToString::to_string)
}

/// The version of a library that may lack other functions.
fn version(library: &Library) -> Option<CudaVersion> {
    // SAFETY: the signature is the one that the driver's header declares for this name.
    let function = unsafe {
        library.get::<unsafe extern "C" fn(*mut c_int) -> c_int>(b"cuDriverGetVersion\0")
    };
    let mut number = 0;
    // SAFETY: writes one int, and works before `cuInit`.
    let code = unsafe { function.ok()?(&raw mut number) };
    (code == 0).then(|| CudaVersion::from_number(number))
}
