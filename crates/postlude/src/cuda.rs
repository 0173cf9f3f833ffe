//! Kernels on an NVIDIA GPU: planned for a call, emitted once a schedule, launched on the caller's stream.
//!
//! ```text
//! tensors ─ check ─> Problem, Placements ─ plan ─> Schedule ─ emit, load ─> Function ─┬─> PreparedCall ─ launch
//!                                                     (once a schedule and GPU)       └ launch facts
//! ```
//!
//! In: a kernel and a call's tensors, on the GPU ([`PreparedCall`]) or on the host. Out: its outputs.
//! Invariant: arguments are validated and a schedule is accepted before anything is launched, and code is emitted at most
//! once for each schedule, GPU and kernel, whatever the sizes.

mod call;
mod check;
mod host;
mod kernel;
mod programs;
mod tune;

#[doc(inline)]
pub use crate::runtime::{Device, DeviceArgument, DeviceTensor, Stream};
pub use call::PreparedCall;
#[doc(hidden)]
pub use host::HostCall;
#[doc(hidden)]
pub use kernel::chip;
pub(crate) use kernel::{GpuKernel, GpuOptions};
pub(crate) use tune::tune;
