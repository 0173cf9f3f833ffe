//! Runs a PTX program on the CPU and says what is wrong with it.
//!
//! In: the text that the driver would get, and the facts of its launch. Out: what it wrote, findings, and meters.
//!
//! - [`run`] is the way in; [`timing`] says when copies and matrix products complete.
//! - [`report`] is what a run tells; [`observe`] is how others watch it: [`meters`] count, a [`trace`] is a timeline.
//! - `program` reads text into steps; `machine` holds CTAs, warps and memory; `schedule` says who runs next; `execute` runs
//!   one step; `operation` is what goes on meanwhile; `order` tracks what happens before what.
//!
//! ```
//! use postlude_ptx::kernel::{Attributes, build};
//! use postlude_ptx::launch::{Buffer, Launch, Parameter};
//! use postlude_ptx::modifier::LoadCache;
//! use postlude_ptx::target::Sm90a;
//! use postlude_ptx::types::U32;
//! use postlude_sim::{Options, run};
//!
//! let double = build::<Sm90a>("double", Attributes::new(32), |k| {
//!     let place = k.parameter_pointer("data").load().element(k.thread(), 4);
//!     let [x] = k.load_global::<U32, 1>(place, LoadCache::Default);
//!     k.store_global(place, [x + x]);
//! });
//! let launch = Launch {
//!     grid: [1, 1, 1],
//!     cluster: [1, 1, 1],
//!     threads: 32,
//!     shared_bytes: 0,
//!     parameters: vec![Parameter::Pointer { buffer: Buffer(0), offset: 0 }],
//!     workspace_bytes: 0,
//! };
//! // One word is missing: the last lane reads and writes beyond the buffer.
//! let mut buffers = [vec![1; 31 * 4]];
//! let report = run(&double.to_string(), &launch, &mut buffers, &Options::default())?;
//! assert_eq!(buffers[0], [2; 31 * 4]);
//! assert_eq!(report.findings.len(), 2);
//! assert_eq!(report.findings[0].message, "byte 124 of buffer 0, which has 124");
//! # Ok::<(), postlude_sim::SimError>(())
//! ```

#![forbid(unsafe_code)]

mod alu;
mod atomic;
mod barrier;
mod error;
mod execute;
mod lane_order;
mod limits;
mod machine;
mod matrix;
mod memory;
pub mod meters;
pub mod numerics;
pub mod observe;
mod operation;
mod order;
mod outputs;
mod parameters;
mod product_fence;
mod program;
pub mod report;
mod run;
mod scalar;
mod schedule;
mod several;
mod swizzles;
pub mod timing;
pub mod trace;

mod warp;
mod watch;

pub use error::SimError;
pub use memory::MOST_BUFFER_BYTES;
pub use outputs::{Output, Unwritten};
pub use report::{Diagnosis, Finding, Meters, Report};
pub use run::{Options, run, run_observed};
pub use several::Several;
pub use timing::Timing;
