//! The native half of the Python package: kernels, and calls on arrays of any framework.
//!
//! In: text and arrays. Out: arrays of the caller's framework. What users import is written in Python beside it.

mod array;
mod call;
mod check;
mod dlpack;
mod error;
mod host;
mod kernel;
mod library;
mod list;
mod memory;
mod scalars;
mod tools;
mod torch;
mod tune;

use pyo3::prelude::*;

/// Kernels and calls, for `postlude`.
#[pymodule(gil_used = false)]
fn _native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add_class::<kernel::Kernel>()?;
    module.add_class::<memory::Memory>()?;
    module.add_function(wrap_pyfunction!(library::library, module)?)?;
    module.add_function(wrap_pyfunction!(library::contextual, module)?)?;
    module.add_function(wrap_pyfunction!(library::functions, module)?)?;
    module.add_function(wrap_pyfunction!(tools::machine, module)?)?;
    Ok(())
}
