//! Calls with tensors of PyTorch: which of them need an operator, and what autograd has to know of those that do not.
//!
//! In: the arguments of a call. Out: whether the kernel may run on them directly. The native half asks because a warm call
//! is a few microseconds long, and the same questions cost half of that in Python.

use postlude::DType;
use pyo3::exceptions::PyImportError;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyFloat, PyInt, PyTuple, PyType};

use crate::call::in_order;
use crate::kernel::Given;
use crate::list;

/// What PyTorch is asked.
pub(crate) struct Torch {
    tensor: Py<PyType>,
    parameter: Py<PyType>,
    dispatch_modes: Py<PyAny>,
    is_tracing: Py<PyAny>,
    forward_mode: Py<PyAny>,
    grad_enabled: Py<PyAny>,
    increment_version: Py<PyAny>,
}

static TORCH: PyOnceLock<Torch> = PyOnceLock::new();

/// PyTorch, where the process has imported it.
pub(crate) fn loaded(py: Python<'_>) -> PyResult<Option<&'static Torch>> {
    if let Some(torch) = TORCH.get(py) {
        return Ok(Some(torch));
    }
    let modules = py.import(intern!(py, "sys"))?.getattr(intern!(py, "modules"))?;
    if !modules.contains(intern!(py, "torch"))? {
        return Ok(None);
    }
    match TORCH.get_or_try_init(py, || Torch::find(py)) {
        Ok(torch) => Ok(Some(torch)),
        // A module that is only half imported has no tensors yet.
        Err(error) if is_missing(py, &error) => Ok(None),
        Err(error) => Err(error),
    }
}

fn is_missing(py: Python<'_>, error: &PyErr) -> bool {
    error.is_instance_of::<pyo3::exceptions::PyAttributeError>(py)
        || error.is_instance_of::<PyImportError>(py)
}

impl Torch {
    fn find(py: Python<'_>) -> PyResult<Torch> {
        let torch = py.import("torch")?;
        let native = torch.getattr("_C")?;
        let parameter = torch.getattr("nn")?.getattr("Parameter")?;
        Ok(Torch {
            tensor: torch.getattr("Tensor")?.cast_into::<PyType>()?.unbind(),
            parameter: parameter.cast_into::<PyType>()?.unbind(),
            dispatch_modes: native.getattr("_len_torch_dispatch_stack")?.unbind(),
            is_tracing: native.getattr("_is_tracing")?.unbind(),
            forward_mode: py.import("torch.autograd.forward_ad")?.into_any().unbind(),
            grad_enabled: torch.getattr("is_grad_enabled")?.unbind(),
            increment_version: native.getattr("_increment_version")?.unbind(),
        })
    }

    /// Whether a call needs an operator; without tensors of PyTorch it does not.
    ///
    /// Dispatch modes and tensor subclasses see operators alone, and autograd records nothing else. What `torch.func`
    /// transforms has no memory: the direct call fails.
    pub(crate) fn needs_operator(
        &self,
        py: Python<'_>,
        args: &Bound<'_, PyTuple>,
        kwargs: &Bound<'_, PyDict>,
        out: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<bool> {
        let observed = self.dispatch_modes.bind(py).call0()?.extract::<usize>()? != 0
            || self.is_tracing.bind(py).call0()?.is_truthy()?
            || self
                .forward_mode
                .bind(py)
                .getattr(intern!(py, "_current_level"))?
                .extract::<i64>()?
                >= 0;
        let grad = self.grad_enabled.bind(py).call0()?.is_truthy()?;
        for value in args.iter_borrowed() {
            if self.is_operators(&value, observed, grad)? {
                return Ok(true);
            }
        }
        for (_, value) in kwargs {
            if self.is_operators(&value, observed, grad)? {
                return Ok(true);
            }
        }
        // The operator refuses to write into a tensor that requires a gradient.
        match out {
            Some(out) if grad => self.any(out, |tensor| requires_grad(tensor)),
            Some(_) | None => Ok(false),
        }
    }

    /// Whether an argument alone makes the call an operator's.
    fn is_operators(&self, value: &Bound<'_, PyAny>, observed: bool, grad: bool) -> PyResult<bool> {
        if let Some(items) = list::items(value) {
            for item in items {
                if self.is_operators(&item, observed, grad)? {
                    return Ok(true);
                }
            }
            return Ok(false);
        }
        if !self.is_plain(value) {
            return self.is_tensor(value);
        }
        Ok(observed || (grad && requires_grad(value)?))
    }

    /// Whether an argument is the negated part of a conjugate, whose elements the dispatcher has to write out first. Only
    /// dtypes that complex numbers are made of can be.
    pub(crate) fn is_negated(
        &self,
        objects: &[Bound<'_, PyAny>],
        given: &[Given<'_>],
    ) -> PyResult<bool> {
        for (object, given) in objects.iter().zip(given) {
            let complex = given.array().is_some_and(|array| match array.dtype {
                DType::F32 | DType::TF32 | DType::F16 => true,
                DType::BF16 | DType::F8E4M3 | DType::F8E5M2 | DType::F8E8M0 => false,
                DType::I8 | DType::U8 | DType::I4 | DType::U4 => false,
                DType::I32 | DType::I64 | DType::Bool | DType::B1 => false,
            });
            if !complex {
                continue;
            }
            for one in list::items(object).unwrap_or_else(|| vec![object.clone()]) {
                let negated = || one.call_method0(intern!(one.py(), "is_neg"))?.is_truthy();
                if self.is_plain(&one) && negated()? {
                    return Ok(true);
                }
            }
        }
        Ok(false)
    }

    /// Whether a value is a tensor of no subclass but PyTorch's own.
    fn is_plain(&self, value: &Bound<'_, PyAny>) -> bool {
        let kind = value.get_type();
        kind.is(&self.tensor) || kind.is(&self.parameter)
    }

    fn is_tensor(&self, value: &Bound<'_, PyAny>) -> PyResult<bool> {
        if value.is_exact_instance_of::<PyFloat>() || value.is_exact_instance_of::<PyInt>() {
            return Ok(false);
        }
        value.is_instance(self.tensor.bind(value.py()))
    }

    /// Tells autograd that tensors were written: a backward pass that saved one fails instead of being wrong.
    pub(crate) fn written(&self, py: Python<'_>, out: &Bound<'_, PyAny>) -> PyResult<()> {
        let increment = self.increment_version.bind(py);
        self.any(out, |tensor| match increment.call1(((tensor,),)) {
            Ok(_) => Ok(false),
            // No backward pass saves a tensor of inference mode, and it has no version.
            Err(_) if tensor.call_method0(intern!(py, "is_inference"))?.is_truthy()? => Ok(false),
            Err(error) => Err(error),
        })?;
        Ok(())
    }

    /// Whether a fact holds for one of the tensors that `out` names: one, a sequence, or a dictionary.
    fn any<'py>(
        &self,
        out: &Bound<'py, PyAny>,
        fact: impl Fn(&Bound<'py, PyAny>) -> PyResult<bool>,
    ) -> PyResult<bool> {
        let fact = |one: Bound<'py, PyAny>| -> PyResult<bool> {
            Ok((self.is_plain(&one) || self.is_tensor(&one)?) && fact(&one)?)
        };
        if self.is_plain(out) {
            return fact(out.clone());
        }
        let all = match out.cast::<PyDict>() {
            Ok(named) => named.values().iter().collect(),
            Err(_) => in_order(out),
        };
        for one in all {
            for one in list::items(&one).unwrap_or_else(|| vec![one]) {
                if fact(one)? {
                    return Ok(true);
                }
            }
        }
        Ok(false)
    }
}

fn requires_grad(tensor: &Bound<'_, PyAny>) -> PyResult<bool> {
    tensor.getattr(intern!(tensor.py(), "requires_grad"))?.is_truthy()
}
