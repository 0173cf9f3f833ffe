//! The cases that every engine runs, the kernels they use and the data they draw.
//!
//! [`read_folder`] reads the literate cases of the folder `corpus`, [`run()`] runs one on a backend, [`kernels`] is the
//! library, [`EPILOGUES`] are small kernels for tests, and [`fill()`] and [`Random`] draw data.

#![forbid(unsafe_code)]

mod arguments;
mod case;
mod epilogues;
mod expect;
mod fill;
pub mod fuzz;
mod layout;
mod library;
mod random;
mod read;
mod run;
mod thorough;

pub use arguments::{CaseError, bind};
pub use case::{Case, Expectation, Layout, UnknownLayout};
pub use epilogues::{EPILOGUES, Epilogue, NESTED, REDUCTIONS, SPLITS, find_epilogue};
pub use fill::{Fill, UnknownFill, fill, seed_for};
pub use layout::lay_out;
pub use library::{Fit, LibraryKernel, find_kernel, grouped, groups, kernels};
pub use random::{Random, fingerprint};
pub use read::{ReadError, ReadProblem, read_file, read_folder, read_text};
pub use run::{Outcome, Report, RunOptions, Wanted, compile, run, run_again};
pub use thorough::{is_thorough, pick};
