//! The kernel library and the language's functions, as Python looks them up.

use pyo3::prelude::*;

/// Every kernel of the library: name, description, text.
#[pyfunction]
pub(crate) fn library() -> Vec<(&'static str, &'static str, &'static str)> {
    let kernels = postlude_corpus::kernels().iter();
    kernels.map(|kernel| (kernel.name, kernel.description, kernel.source)).collect()
}

/// The language's functions: name, how many values come first and how many dims behind them at most, what it is.
#[pyfunction]
pub(crate) fn functions() -> Vec<(&'static str, Vec<&'static str>, &'static str)> {
    let entries = postlude::catalogue::FUNCTIONS.iter();
    entries.map(|entry| (entry.name, entry.parameters.to_vec(), entry.note)).collect()
}

/// The functions whose names are free for other things where no `(` follows them.
#[pyfunction]
pub(crate) fn contextual() -> Vec<&'static str> {
    postlude::catalogue::CONTEXTUAL.to_vec()
}
