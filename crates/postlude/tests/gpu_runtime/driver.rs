//! The driver as another library of the process uses it: with contexts and graphs of its own.

use std::ffi::{c_int, c_uint};
use std::ptr;

use libloading::Library;

/// The driver, opened a second time.
pub(crate) struct Raw(Library);

impl Raw {
    /// Opens it; tests come here only when there is one.
    pub(crate) fn open() -> Raw {
        // SAFETY: the run time has opened the same library before.
        Raw(unsafe { Library::new("libcuda.so.1") }.unwrap())
    }

    fn call<F: Copy>(&self, name: &str, call: impl FnOnce(F) -> c_int) {
        // SAFETY: callers name a function together with its signature.
        let function = unsafe { self.0.get::<F>(name) }.unwrap();
        assert_eq!(call(*function), 0, "{name}");
    }

    /// The thread's current context; 0 for none.
    pub(crate) fn current(&self) -> usize {
        let mut context = 0;
        self.call("cuCtxGetCurrent", |f: unsafe extern "C" fn(*mut usize) -> c_int| {
            // SAFETY: writes one handle.
            unsafe { f(&raw mut context) }
        });
        context
    }

    /// A new context, which becomes current.
    pub(crate) fn create_context(&self) -> usize {
        type Create = unsafe extern "C" fn(*mut usize, c_uint, c_int) -> c_int;
        let mut context = 0;
        self.call("cuCtxCreate_v2", |f: Create| {
            // SAFETY: writes one handle; device 0 exists.
            unsafe { f(&raw mut context, 0, 0) }
        });
        context
    }

    /// Destroys a context of ours.
    pub(crate) fn destroy_context(&self, context: usize) {
        self.call("cuCtxDestroy_v2", |f: unsafe extern "C" fn(usize) -> c_int| {
            // SAFETY: made by `create_context`.
            unsafe { f(context) }
        });
    }

    /// Does something while the primary context is current, as PyTorch has it.
    pub(crate) fn with_primary_context<T>(&self, work: impl FnOnce(&Raw) -> T) -> T {
        type Retain = unsafe extern "C" fn(*mut usize, c_int) -> c_int;
        type Set = unsafe extern "C" fn(usize) -> c_int;
        let mut context = 0;
        // SAFETY: writes one handle; device 0 exists.
        self.call("cuDevicePrimaryCtxRetain", |f: Retain| unsafe { f(&raw mut context, 0) });
        // SAFETY: the context was just retained.
        self.call("cuCtxSetCurrent", |f: Set| unsafe { f(context) });
        let result = work(self);
        // SAFETY: no context is always allowed.
        self.call("cuCtxSetCurrent", |f: Set| unsafe { f(0) });
        result
    }

    /// Captures the work given to a stream into a graph that can be launched.
    pub(crate) fn capture(&self, stream: usize, work: impl FnOnce()) -> usize {
        type Begin = unsafe extern "C" fn(usize, c_int) -> c_int;
        type End = unsafe extern "C" fn(usize, *mut usize) -> c_int;
        type Instantiate = unsafe extern "C" fn(*mut usize, usize, u64) -> c_int;
        let (mut graph, mut executable) = (0, 0);
        // SAFETY: the stream is alive; 0 is the strictest mode.
        self.call("cuStreamBeginCapture_v2", |f: Begin| unsafe { f(stream, 0) });
        work();
        // SAFETY: writes one handle.
        self.call("cuStreamEndCapture", |f: End| unsafe { f(stream, ptr::from_mut(&mut graph)) });
        self.call("cuGraphInstantiateWithFlags", |f: Instantiate| {
            // SAFETY: writes one handle; the graph was just captured.
            unsafe { f(ptr::from_mut(&mut executable), graph, 0) }
        });
        executable
    }

    /// Launches a captured graph.
    pub(crate) fn launch_graph(&self, executable: usize, stream: usize) {
        type Launch = unsafe extern "C" fn(usize, usize) -> c_int;
        // SAFETY: graph and stream are alive.
        self.call("cuGraphLaunch", |f: Launch| unsafe { f(executable, stream) });
    }
}
