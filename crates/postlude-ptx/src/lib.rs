//! PTX as typed data: built, checked, printed and read. No matrix products, no driver.
//!
//! - [`kernel`] builds: registers with types, instructions as methods, control flow as closures.
//! - [`ring`] is shared memory that copies fill and matrix products empty; [`shared`] plans whose bytes are whose.
//! - [`inst`] is the table of instructions: one line each, for printer, reader and checker alike.
//! - [`entry`] is the finished kernel; its `Display` is the text a driver takes, and [`check`] looks it over.
//! - [`text`] reads any PTX; [`entry::Item::read`] gives the typed line where the table has it.
//! - [`launch`] is what a launch needs beside the text.
//!
//! ```
//! use postlude_ptx::check::check;
//! use postlude_ptx::kernel::{Attributes, build};
//! use postlude_ptx::modifier::LoadCache;
//! use postlude_ptx::target::Sm80;
//! use postlude_ptx::types::F32;
//!
//! let scale = build::<Sm80>("scale", Attributes::new(128), |k| {
//!     let data = k.parameter_pointer("data");
//!     let (count, factor) = (k.parameter_u32("count"), k.parameter_f32("factor"));
//!     let at = k.block().mad(128, k.thread());
//!     k.if_(at.lt(count.load()), || {
//!         let place = data.load().element(at, 4);
//!         let [x] = k.load_global::<F32, 1>(place, LoadCache::Default);
//!         k.store_global(place, [x * factor.load()]);
//!     });
//! });
//! assert_eq!(check(&scale), []);
//! assert!(scale.to_string().contains("mul.rn.f32 %f2, %f0, %f1;"));
//! ```
//!
//! An instruction that the target does not have is a type error:
//!
//! ```compile_fail,E0599
//! use postlude_ptx::kernel::{Attributes, build};
//! use postlude_ptx::target::Sm80;
//! build::<Sm80>("products", Attributes::new(128), |k| k.wgmma_fence());
//! ```
//!
//! and so are clusters where there are none:
//!
//! ```compile_fail,E0599
//! use postlude_ptx::kernel::Attributes;
//! use postlude_ptx::target::Sm80;
//! Attributes::<Sm80>::new(128).cluster([2, 1, 1]);
//! ```
//!
//! A register does not leave its kernel,
//!
//! ```compile_fail,E0521
//! use postlude_ptx::kernel::{Attributes, build};
//! use postlude_ptx::target::Sm90a;
//! let mut kept = None;
//! build::<Sm90a>("first", Attributes::new(128), |k| kept = Some(k.thread()));
//! ```
//!
//! nor meet those of another:
//!
//! ```compile_fail,E0521
//! use postlude_ptx::kernel::{Attributes, build};
//! use postlude_ptx::target::Sm90a;
//! build::<Sm90a>("outer", Attributes::new(128), |outer| {
//!     build::<Sm90a>("inner", Attributes::new(128), |inner| {
//!         let _ = outer.thread() + inner.thread();
//!     });
//! });
//! ```
//!
//! Types do not mix, and a register cannot be set again:
//!
//! ```compile_fail,E0277
//! use postlude_ptx::kernel::{Attributes, build};
//! use postlude_ptx::target::Sm90a;
//! build::<Sm90a>("mixed", Attributes::new(128), |k| {
//!     let _ = k.thread() + 1.5_f32;
//! });
//! ```
//!
//! ```compile_fail,E0599
//! use postlude_ptx::kernel::{Attributes, build};
//! use postlude_ptx::target::Sm90a;
//! build::<Sm90a>("set", Attributes::new(128), |k| k.thread().set(1));
//! ```

#![forbid(unsafe_code)]

pub mod address;
pub mod check;
pub mod entry;
pub mod inst;
pub mod kernel;
pub mod launch;
pub mod modifier;
pub mod operand;
pub mod ring;
pub mod shared;
pub mod target;
pub mod text;
pub mod types;
