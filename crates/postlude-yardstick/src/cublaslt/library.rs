//! The library's functions, and every call of them.
//!
//! The table is our own, as that of the driver is. Numbers and structures are those of `cublasLt.h`, `cublas_api.h` and
//! `library_types.h` of CUDA 12 and 13, which agree.
//!
//! Invariant: a handle lives in a value that made it and destroys it, and that keeps the library open.

#![allow(unsafe_code)]

use std::ffi::{c_int, c_void};
use std::path::Path;
use std::sync::Arc;

use libloading::Library as Opened;
use postlude::runtime::Stream;

use super::types::{Compute, Element, Scales};
use crate::error::{Status, YardstickError};

/// A handle of the library: opaque, never read through.
type Handle = usize;

/// An algorithm with its configuration (`cublasLtMatmulAlgo_t`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(C)]
pub(super) struct Algorithm([u64; 8]);

/// One answer of the heuristics (`cublasLtMatmulHeuristicResult_t`).
#[derive(Clone, Copy)]
#[repr(C)]
struct HeuristicResult {
    algorithm: Algorithm,
    workspace_bytes: usize,
    state: c_int,
    _waves: f32,
    _reserved: [c_int; 4],
}

/// `cublasLtMatmulDescAttributes_t`
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum OperationAttribute {
    TransposeLeft = 3,
    TransposeRight = 4,
    Epilogue = 7,
    BiasPointer = 8,
    AuxPointer = 11,
    AuxLeading = 12,
    /// One byte: whether sums of 8-bit floats stay in the tensor core.
    FastAccumulation = 25,
    BiasType = 26,
}

/// `CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES`
const PREFERENCE_WORKSPACE: c_int = 1;

macro_rules! table {
    ($($field:ident = $symbol:literal ($($kind:ty),* $(,)?) -> $result:ty;)*) => {
        /// Functions of the opened library.
        struct Table {
            $($field: unsafe extern "C" fn($($kind),*) -> $result,)*
            /// What the functions belong to; never closed while they can be called.
            _library: Opened,
        }

        impl Table {
            fn resolve(library: Opened, name: &Path) -> Result<Table, YardstickError> {
                $(
                    // SAFETY: the signature is the one that the library's header declares for this name.
                    let $field = unsafe {
                        library.get::<unsafe extern "C" fn($($kind),*) -> $result>(concat!($symbol, "\0").as_bytes())
                    };
                    let $field = *$field.map_err(|_| YardstickError::NoSymbol {
                        library: name.display().to_string(),
                        symbol: $symbol,
                    })?;
                )*
                Ok(Table { $($field,)* _library: library })
            }
        }
    };
}

table! {
    version = "cublasLtGetVersion"() -> usize;
    create = "cublasLtCreate"(*mut Handle) -> c_int;
    destroy = "cublasLtDestroy"(Handle) -> c_int;
    operation_create = "cublasLtMatmulDescCreate"(*mut Handle, c_int, c_int) -> c_int;
    operation_destroy = "cublasLtMatmulDescDestroy"(Handle) -> c_int;
    operation_set = "cublasLtMatmulDescSetAttribute"(Handle, c_int, *const c_void, usize) -> c_int;
    layout_create = "cublasLtMatrixLayoutCreate"(*mut Handle, c_int, u64, u64, i64) -> c_int;
    layout_destroy = "cublasLtMatrixLayoutDestroy"(Handle) -> c_int;
    preference_create = "cublasLtMatmulPreferenceCreate"(*mut Handle) -> c_int;
    preference_destroy = "cublasLtMatmulPreferenceDestroy"(Handle) -> c_int;
    preference_set = "cublasLtMatmulPreferenceSetAttribute"(Handle, c_int, *const c_void, usize) -> c_int;
    heuristics = "cublasLtMatmulAlgoGetHeuristic"(Handle, Handle, Handle, Handle, Handle, Handle, Handle, c_int, *mut HeuristicResult, *mut c_int) -> c_int;
    multiply = "cublasLtMatmul"(Handle, Handle, *const c_void, u64, Handle, u64, Handle, *const c_void, u64, Handle, u64, Handle, *const Algorithm, u64, usize, Handle) -> c_int;
}

fn check(call: &'static str, code: c_int) -> Result<(), YardstickError> {
    if code == 0 { Ok(()) } else { Err(YardstickError::Library { call, status: Status(code) }) }
}

/// The opened library with a handle of its own.
pub(super) struct Library {
    table: Table,
    handle: Handle,
}

impl Library {
    /// Opens a library; `None` where it cannot be loaded.
    pub(super) fn open(name: &Path) -> Option<Result<Arc<Library>, YardstickError>> {
        // SAFETY: the library may be opened in any process; what it runs on opening is its own affair.
        let opened = unsafe { Opened::new(name) }.ok()?;
        Some(Table::resolve(opened, name).and_then(|table| {
            let mut handle = 0;
            // SAFETY: writes one handle.
            check("cublasLtCreate", unsafe { (table.create)(&raw mut handle) })?;
            Ok(Arc::new(Library { table, handle }))
        }))
    }

    /// Its version as one number, such as 130200.
    pub(super) fn version(&self) -> usize {
        // SAFETY: takes nothing.
        unsafe { (self.table.version)() }
    }
}

impl Drop for Library {
    fn drop(&mut self) {
        // SAFETY: made by `open` and destroyed once.
        unsafe { (self.table.destroy)(self.handle) };
    }
}

/// What is done to the matrices (`cublasLtMatmulDesc_t`).
pub(super) struct Operation {
    library: Arc<Library>,
    handle: Handle,
}

impl Operation {
    /// A product with sums and scales of these types.
    pub(super) fn new(
        library: &Arc<Library>,
        compute: Compute,
    ) -> Result<Operation, YardstickError> {
        let (mut handle, scale) = (0, compute.scale() as c_int);
        let create = library.table.operation_create;
        // SAFETY: writes one handle.
        let code = unsafe { create(&raw mut handle, compute as c_int, scale) };
        check("cublasLtMatmulDescCreate", code)?;
        Ok(Operation { library: library.clone(), handle })
    }

    /// Sets an attribute of 32 bits.
    pub(super) fn set(
        &self,
        attribute: OperationAttribute,
        value: i32,
    ) -> Result<(), YardstickError> {
        self.set_bytes(attribute, &value.to_ne_bytes())
    }

    /// Sets an attribute of one byte.
    pub(super) fn set_byte(
        &self,
        attribute: OperationAttribute,
        value: i8,
    ) -> Result<(), YardstickError> {
        self.set_bytes(attribute, &value.to_ne_bytes())
    }

    /// Sets an attribute of 64 bits: an address, or a size.
    pub(super) fn set_wide(
        &self,
        attribute: OperationAttribute,
        value: u64,
    ) -> Result<(), YardstickError> {
        self.set_bytes(attribute, &value.to_ne_bytes())
    }

    fn set_bytes(&self, attribute: OperationAttribute, bytes: &[u8]) -> Result<(), YardstickError> {
        let set = self.library.table.operation_set;
        // SAFETY: reads as many bytes as it is told during the call; an attribute of another size is an error code.
        let code =
            unsafe { set(self.handle, attribute as c_int, bytes.as_ptr().cast(), bytes.len()) };
        check("cublasLtMatmulDescSetAttribute", code)
    }
}

impl Drop for Operation {
    fn drop(&mut self) {
        // SAFETY: made by `new` and destroyed once.
        unsafe { (self.library.table.operation_destroy)(self.handle) };
    }
}

/// How a matrix lies in memory, column after column (`cublasLtMatrixLayout_t`).
pub(super) struct MatrixLayout {
    library: Arc<Library>,
    handle: Handle,
}

impl MatrixLayout {
    /// A matrix whose columns follow one another without gaps.
    pub(super) fn new(
        library: &Arc<Library>,
        element: Element,
        rows: usize,
        columns: usize,
    ) -> Result<MatrixLayout, YardstickError> {
        let mut handle = 0;
        let (rows, columns, leading) = (rows as u64, columns as u64, rows as i64);
        let create = library.table.layout_create;
        // SAFETY: writes one handle.
        let code = unsafe { create(&raw mut handle, element as c_int, rows, columns, leading) };
        check("cublasLtMatrixLayoutCreate", code)?;
        Ok(MatrixLayout { library: library.clone(), handle })
    }
}

impl Drop for MatrixLayout {
    fn drop(&mut self) {
        // SAFETY: made by `new` and destroyed once.
        unsafe { (self.library.table.layout_destroy)(self.handle) };
    }
}

/// An operation with the layouts of left, right, addend and result.
pub(super) struct Product {
    pub(super) operation: Operation,
    pub(super) left: MatrixLayout,
    pub(super) right: MatrixLayout,
    pub(super) addend: MatrixLayout,
    pub(super) result: MatrixLayout,
}

/// Where the matrices of one call are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Places {
    pub(super) left: u64,
    pub(super) right: u64,
    pub(super) addend: u64,
    pub(super) result: u64,
    pub(super) workspace: u64,
    pub(super) workspace_bytes: usize,
}

impl Product {
    /// The algorithms that the library suggests, best guess first, at most `count` and none beyond the workspace.
    pub(super) fn suggestions(
        &self,
        count: usize,
        workspace_bytes: u64,
    ) -> Result<Vec<Algorithm>, YardstickError> {
        let library = &self.operation.library;
        let preference = Preference::new(library, workspace_bytes)?;
        let empty = HeuristicResult {
            algorithm: Algorithm([0; 8]),
            workspace_bytes: 0,
            state: 0,
            _waves: 0.0,
            _reserved: [0; 4],
        };
        let mut results = vec![empty; count];
        let mut returned: c_int = 0;
        // SAFETY: all handles are alive; writes at most as many results as it is told, and one int.
        let code = unsafe {
            (library.table.heuristics)(
                library.handle,
                self.operation.handle,
                self.left.handle,
                self.right.handle,
                self.addend.handle,
                self.result.handle,
                preference.handle,
                count as c_int,
                results.as_mut_ptr(),
                &raw mut returned,
            )
        };
        check("cublasLtMatmulAlgoGetHeuristic", code)?;
        results.truncate(returned.unsigned_abs() as usize);
        let usable = results
            .into_iter()
            .filter(|result| result.state == 0 && result.workspace_bytes as u64 <= workspace_bytes);
        Ok(usable.map(|result| result.algorithm).collect())
    }

    /// Queues `result = epilogue(alpha * left * right + beta * addend)`.
    pub(super) fn multiply(
        &self,
        algorithm: &Algorithm,
        scales: &Scales,
        places: &Places,
        stream: &Stream,
    ) -> Result<(), YardstickError> {
        let library = &self.operation.library;
        let [alpha, beta] = scales.pointers();
        // SAFETY: all handles are alive, and the stream's is of the context that the library uses, the primary one; both
        // scales are of the type that the operation was made with and are read during the call. The places are of buffers as large as the layouts say, which the caller keeps
        // until the stream has been waited for.
        let code = unsafe {
            (library.table.multiply)(
                library.handle,
                self.operation.handle,
                alpha,
                places.left,
                self.left.handle,
                places.right,
                self.right.handle,
                beta,
                places.addend,
                self.addend.handle,
                places.result,
                self.result.handle,
                algorithm,
                places.workspace,
                places.workspace_bytes,
                stream.as_raw(),
            )
        };
        check("cublasLtMatmul", code)
    }
}

/// What the heuristics are told (`cublasLtMatmulPreference_t`).
struct Preference {
    library: Arc<Library>,
    handle: Handle,
}

impl Preference {
    fn new(library: &Arc<Library>, workspace_bytes: u64) -> Result<Preference, YardstickError> {
        let mut handle = 0;
        // SAFETY: writes one handle.
        let code = unsafe { (library.table.preference_create)(&raw mut handle) };
        check("cublasLtMatmulPreferenceCreate", code)?;
        let preference = Preference { library: library.clone(), handle };
        let bytes = workspace_bytes.to_ne_bytes();
        let set = library.table.preference_set;
        // SAFETY: reads eight bytes during the call.
        let code = unsafe { set(handle, PREFERENCE_WORKSPACE, bytes.as_ptr().cast(), bytes.len()) };
        check("cublasLtMatmulPreferenceSetAttribute", code)?;
        Ok(preference)
    }
}

impl Drop for Preference {
    fn drop(&mut self) {
        // SAFETY: made by `new` and destroyed once.
        unsafe { (self.library.table.preference_destroy)(self.handle) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn structures_are_as_large_as_the_header_says() {
        assert_eq!(size_of::<Algorithm>(), 64);
        assert_eq!(size_of::<HeuristicResult>(), 96);
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn a_library_that_is_another_is_an_error_and_not_a_crash() {
        let opened = Library::open(Path::new("libc.so.6")).expect("there is a C library");
        let error = opened.map(|_| ()).unwrap_err();
        assert!(matches!(error, YardstickError::NoSymbol { .. }), "{error}");
    }
}
