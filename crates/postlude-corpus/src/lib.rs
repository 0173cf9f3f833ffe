//! The cases that every engine runs, the kernels they use and the data they draw.
//!
//! [`read_folder`] reads the literate cases of the folder `corpus`, [`run()`] runs one on a backend, [`kernels`] is the
//! library, and [`fill()`] draws data.

#![forbid(unsafe_code)]

mod arguments;
mod case;
mod expect;
mod fill;
mod layout;
mod library;
mod read;
mod run;

pub use arguments::{CaseError, bind};
pub use case::{Case, Expectation, Layout, UnknownLayout};
pub use fill::{Fill, UnknownFill, fill, seed_for};
pub use layout::lay_out;
pub use library::{LibraryKernel, find_kernel, kernels};
pub use read::{ReadError, ReadProblem, read_file, read_folder, read_text};
pub use run::{Outcome, Report, RunOptions, compile, run};
