//! Errors of the library as Python exceptions, which `postlude._errors` makes: they carry the diagnostic.

use postlude::sim::Finding;
use postlude::syntax::Place;
use postlude::{Diagnostic, Error};
use pyo3::prelude::*;
use pyo3::types::PyDict;

/// Which exception it is.
#[derive(Clone, Copy)]
pub(crate) enum Stage {
    /// The kernel's text is wrong.
    Kernel,
    /// A call's arguments are wrong, or the call is refused.
    Call,
}

/// The exception of an error about a kernel with this text.
pub(crate) fn exception(py: Python<'_>, stage: Stage, text: &str, error: &Error) -> PyErr {
    match make(py, stage, text, error) {
        Ok(exception) => PyErr::from_value(exception),
        Err(failure) => failure,
    }
}

fn make<'py>(
    py: Python<'py>,
    stage: Stage,
    text: &str,
    error: &Error,
) -> PyResult<Bound<'py, PyAny>> {
    let findings = error.findings().map(|one| finding(py, one)).collect::<PyResult<Vec<_>>>()?;
    let kind = match stage {
        _ if !findings.is_empty() => "FindingsError",
        _ if error.is_bug() => "InternalError",
        _ if error.is_refusal() => "RefusedError",
        Stage::Kernel => "KernelError",
        Stage::Call => "CallError",
    };
    let diagnostics = error.diagnostics().iter().map(|one| diagnostic(py, text, one));
    let diagnostics: Vec<Bound<'_, PyDict>> = diagnostics.collect::<PyResult<_>>()?;
    let errors = py.import("postlude._errors")?;
    errors.getattr("make")?.call1((kind, text, diagnostics, findings))
}

fn finding<'py>(py: Python<'py>, finding: &Finding) -> PyResult<Bound<'py, PyDict>> {
    let fields = PyDict::new(py);
    fields.set_item("diagnosis", finding.diagnosis.title())?;
    fields.set_item("message", &finding.message)?;
    fields.set_item("line", finding.line)?;
    fields.set_item("instruction", &finding.text)?;
    fields.set_item("cta", finding.cta)?;
    fields.set_item("warp", finding.warp)?;
    fields.set_item("region", finding.region.as_deref())?;
    fields.set_item("address", finding.address)?;
    fields.set_item("text", finding.to_string())?;
    Ok(fields)
}

fn diagnostic<'py>(
    py: Python<'py>,
    text: &str,
    diagnostic: &Diagnostic,
) -> PyResult<Bound<'py, PyDict>> {
    let fields = PyDict::new(py);
    fields.set_item("message", diagnostic.message())?;
    fields.set_item("help", diagnostic.fix())?;
    if let Some(span) = diagnostic.span() {
        let place = Place::of(text, span);
        fields.set_item("line", place.line)?;
        fields.set_item("column", place.column)?;
        let end = (span.end as usize).min(text.len());
        let marked = text.get(span.start as usize..end).unwrap_or_default();
        fields.set_item("length", marked.lines().next().unwrap_or_default().chars().count())?;
    }
    Ok(fields)
}

/// A mistake of a call that the library does not know of.
pub(crate) fn mistake(py: Python<'_>, message: &str, help: Option<&str>) -> PyErr {
    let make = || -> PyResult<Bound<'_, PyAny>> {
        let fields = PyDict::new(py);
        fields.set_item("message", message)?;
        fields.set_item("help", help)?;
        py.import("postlude._errors")?.getattr("make")?.call1(("CallError", "", vec![fields]))
    };
    make().map_or_else(|failure| failure, PyErr::from_value)
}
