//! Loaded modules, their kernels, and launches of them.

use std::ffi::{CString, c_int, c_void};
use std::ptr;
use std::sync::Arc;

use postlude_ptx::launch::Launch;

use super::compiler::{LOADER_LOG_BYTES, LOADER_OPTIONS, before_zero, loader_values};
use super::context::Context;
use super::stream::Stream;
use super::table::{Handle, LaunchAttribute, LaunchConfiguration};
use crate::runtime::error::RuntimeError;

/// `CUDA_ERROR_NOT_FOUND`
const NOT_FOUND: c_int = 500;
/// `CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION`
const CLUSTER_DIMENSION: u32 = 4;
/// `CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION`
const STREAM_SERIALIZATION: u32 = 6;

/// Parameters of most kernels, whose addresses lie on the stack.
const FEW_PARAMETERS: usize = 512;

/// Facts and settings of a kernel, by the number that the driver gives them (`CUfunction_attribute`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Attribute {
    MaxThreads = 0,
    SharedBytes = 1,
    LocalBytes = 3,
    Registers = 4,
    MaxDynamicSharedBytes = 8,
    ClusterX = 11,
    ClusterY = 12,
    ClusterZ = 13,
    LargeClusters = 14,
}

/// Code on a GPU, unloaded when dropped.
pub(crate) struct Module {
    context: Arc<Context>,
    handle: Handle,
}

impl Module {
    /// Loads a cubin.
    pub(crate) fn load(context: &Arc<Context>, cubin: &[u8]) -> Result<Module, RuntimeError> {
        let entered = context.enter()?;
        // The driver finds a cubin's length in its header; ours came whole from it or from a file with a good hash.
        let mut handle = 0;
        // SAFETY: reads the cubin during the call only; writes one handle.
        let code = unsafe { (entered.table().module_load)(&raw mut handle, cubin.as_ptr().cast()) };
        entered.check_memory("cuModuleLoadData", code, cubin.len() as u64)?;
        Ok(Module { context: context.clone(), handle })
    }

    /// Lets the driver compile PTX, and gives what its compiler said; the cubin stays with the driver.
    pub(crate) fn compile(
        context: &Arc<Context>,
        text: &str,
    ) -> Result<(Module, String), RuntimeError> {
        let entered = context.enter()?;
        let Ok(source) = CString::new(text) else {
            let log = "the text has a zero byte".to_owned();
            return Err(RuntimeError::Compile { name: "not PTX".to_owned(), log });
        };
        let mut said = vec![0u8; LOADER_LOG_BYTES];
        let mut complaints = vec![0u8; LOADER_LOG_BYTES];
        let mut options = LOADER_OPTIONS;
        let mut values = loader_values(&mut said, &mut complaints);
        let mut handle = 0;
        // SAFETY: the text ends with a zero; the options' values are buffers of the sizes said, all alive during the call.
        let code = unsafe {
            (entered.table().module_compile)(
                &raw mut handle,
                source.as_ptr().cast(),
                options.len() as u32,
                options.as_mut_ptr(),
                values.as_mut_ptr(),
            )
        };
        match entered.check("cuModuleLoadDataEx", code) {
            Ok(()) => Ok((Module { context: context.clone(), handle }, before_zero(&said))),
            Err(RuntimeError::Driver { name, .. }) => {
                let log = [before_zero(&complaints), before_zero(&said)].concat();
                Err(RuntimeError::Compile { name, log: log.trim_end().to_owned() })
            }
            Err(other) => Err(other),
        }
    }

    /// A kernel of it by name.
    pub(crate) fn function(self: &Arc<Self>, entry: &str) -> Result<FunctionHandle, RuntimeError> {
        let missing = || RuntimeError::NoEntry { entry: entry.to_owned() };
        let name = CString::new(entry).map_err(|_| missing())?;
        let entered = self.context.enter()?;
        let mut handle = 0;
        // SAFETY: the module is alive and the name ends with a zero; writes one handle.
        let code = unsafe {
            (entered.table().module_function)(&raw mut handle, self.handle, name.as_ptr())
        };
        if code == NOT_FOUND {
            return Err(missing());
        }
        entered.check("cuModuleGetFunction", code)?;
        Ok(FunctionHandle { module: self.clone(), handle })
    }
}

impl Drop for Module {
    fn drop(&mut self) {
        if let Ok(entered) = self.context.enter() {
            // SAFETY: loaded by `load` and unloaded once; its kernels hold the module.
            unsafe { (entered.table().module_unload)(self.handle) };
        }
    }
}

/// When a launch begins.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Order {
    /// When all before it on the stream has ended.
    Behind,
    /// When all CTAs of the launch before it have allowed it; its kernel waits for that one's end by itself.
    Overlapping,
}

/// A kernel of a loaded module, which it keeps loaded.
#[derive(Clone)]
pub(crate) struct FunctionHandle {
    module: Arc<Module>,
    handle: Handle,
}

impl FunctionHandle {
    /// A fact about it.
    pub(crate) fn attribute(&self, attribute: Attribute) -> Result<u32, RuntimeError> {
        let entered = self.module.context.enter()?;
        let mut value = 0;
        // SAFETY: writes one int; the module is loaded.
        let code = unsafe {
            (entered.table().function_attribute)(&raw mut value, attribute as c_int, self.handle)
        };
        entered.check("cuFuncGetAttribute", code)?;
        Ok(value.unsigned_abs())
    }

    /// A setting of it.
    pub(crate) fn set(&self, attribute: Attribute, value: u32) -> Result<(), RuntimeError> {
        let entered = self.module.context.enter()?;
        // SAFETY: takes numbers; the module is loaded.
        let code = unsafe {
            (entered.table().function_set)(self.handle, attribute as c_int, value as c_int)
        };
        entered.check("cuFuncSetAttribute", code)
    }

    /// How many CTAs of a launch one SM holds at a time.
    pub(crate) fn max_blocks(&self, launch: &Launch) -> Result<u32, RuntimeError> {
        let entered = self.module.context.enter()?;
        let mut count = 0;
        // SAFETY: writes one int; the module is loaded.
        let code = unsafe {
            (entered.table().max_blocks)(
                &raw mut count,
                self.handle,
                launch.threads as c_int,
                launch.shared_bytes as usize,
            )
        };
        entered.check("cuOccupancyMaxActiveBlocksPerMultiprocessor", code)?;
        Ok(count.unsigned_abs())
    }

    /// How many clusters of a launch the GPU holds at a time.
    pub(crate) fn max_clusters(&self, launch: &Launch) -> Result<u32, RuntimeError> {
        let entered = self.module.context.enter()?;
        let mut value = [0; 16];
        value[..3].copy_from_slice(&launch.cluster);
        let mut cluster = LaunchAttribute { id: CLUSTER_DIMENSION, padding: 0, value };
        let configuration = LaunchConfiguration {
            grid: launch.grid,
            block: [launch.threads, 1, 1],
            shared_bytes: launch.shared_bytes,
            stream: 0,
            attributes: &raw mut cluster,
            attribute_count: 1,
        };
        let mut count = 0;
        // SAFETY: reads the configuration and its one attribute during the call; writes one int.
        let code = unsafe {
            (entered.table().max_clusters)(&raw mut count, self.handle, &raw const configuration)
        };
        entered.check("cuOccupancyMaxActiveClusters", code)?;
        Ok(count.unsigned_abs())
    }

    /// Launches it asynchronously; the parameters are the places `offsets` in `block`.
    ///
    /// The context is entered once here; nothing is allocated, but for very many parameters.
    pub(crate) fn launch(
        &self,
        launch: &Launch,
        stream: &Stream,
        block: &[u8],
        offsets: &[u32],
        order: Order,
    ) -> Result<(), RuntimeError> {
        let mut few: [*mut c_void; FEW_PARAMETERS] = [ptr::null_mut(); FEW_PARAMETERS];
        let mut many = Vec::new();
        let places = if offsets.len() <= FEW_PARAMETERS {
            &mut few[..]
        } else {
            many.resize(offsets.len(), ptr::null_mut());
            &mut many[..]
        };
        for (place, offset) in places.iter_mut().zip(offsets) {
            *place = block[*offset as usize..].as_ptr().cast_mut().cast();
        }
        let entered = self.module.context.enter()?;
        if order == Order::Overlapping {
            let value = std::array::from_fn(|place| u32::from(place == 0));
            let mut early = LaunchAttribute { id: STREAM_SERIALIZATION, padding: 0, value };
            let configuration = LaunchConfiguration {
                grid: launch.grid,
                block: [launch.threads, 1, 1],
                shared_bytes: launch.shared_bytes,
                stream: stream.handle(),
                attributes: &raw mut early,
                attribute_count: 1,
            };
            // SAFETY: as below; the configuration and its one attribute are read during the call. The kernel's text
            // waits for the launch before, as `target::Overlap` says.
            let code = unsafe {
                (entered.table().launch_configured)(
                    &raw const configuration,
                    self.handle,
                    places.as_mut_ptr(),
                    ptr::null_mut(),
                )
            };
            return entered.check("cuLaunchKernelEx", code);
        }
        let [x, y, z] = launch.grid;
        // SAFETY: the driver copies as many parameters as the kernel declares, each of its declared size, during the
        // call; they were laid out from the same launch facts as the kernel's text. What the kernel does to the GPU's
        // memory is bounded by the arguments' validation.
        let code = unsafe {
            (entered.table().launch)(
                self.handle,
                x,
                y,
                z,
                launch.threads,
                1,
                1,
                launch.shared_bytes,
                stream.handle(),
                places.as_mut_ptr(),
                ptr::null_mut(),
            )
        };
        entered.check("cuLaunchKernel", code)
    }
}
